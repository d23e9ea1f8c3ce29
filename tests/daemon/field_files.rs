// SPDX-License-Identifier: Apache-2.0
//! What users of other projects reported of media files, tried here with files made by recipe. Each row names a public thread; the
//! list with results is docs/src/field.md.

use crate::support;

use std::ffi::OsStr;
use std::path::Path;

use jetwatch_config::{SourceConfig, SourceUri};
use jetwatch_types::Size;

use support::collector::{Collector, INPUT, config, failure_of, first_reason, frames_of, launch};
use support::ffprobe::{self, Colors, ffmpeg};

fn file(path: &Path) -> SourceConfig {
    config(SourceUri::File(path.to_owned()))
}

/// A moving picture of this size, and a second one for another track.
fn drawn(size: &str, fps: u32, seconds: u32) -> String {
    format!("-f lavfi -i testsrc2=s={size}:r={fps}:d={seconds}")
}

/// Where `part` begins.
fn find(bytes: &[u8], part: &[u8]) -> usize {
    let mut windows = bytes.windows(part.len());
    windows.position(|it| it == part).expect("it is there")
}

/// Does to a file what a program, or a cut, has done to those of its name.
fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).expect("a file");
    let index = bytes.windows(4).rposition(|name| name == b"idx1");
    match (path.file_name().and_then(OsStr::to_str), index) {
        (Some("empty.avi"), Some(at)) => bytes[at + 8..].fill(0),
        (Some("none.avi"), Some(at)) => bytes.truncate(at),
        // Packets have 188 bytes.
        (Some("late.ts"), _) => drop(bytes.drain(..15 * 188)),
        (Some("stray.ts"), _) => drop(bytes.splice(30 * 188..30 * 188, [0x78; 66])),
        // A length of 64 bits takes the place of an empty box.
        (Some("long.mp4"), _) => {
            let at = find(&bytes, b"\0\0\0\x08free");
            let header = [&[0, 0, 0, 1][..], b"mdat\0\0\0\0", &bytes[at + 8..at + 12]].concat();
            let length = u32::from_be_bytes(header[12..].try_into().expect("four bytes")) + 8;
            bytes[at..at + 12].copy_from_slice(&header[..12]);
            bytes[at + 12..at + 16].copy_from_slice(&length.to_be_bytes());
        }
        // The media goes on to the end of the file.
        (Some("open.mp4"), _) => {
            let at = find(&bytes, b"mdat");
            bytes[at - 4..at].fill(0);
        }
        (Some("jump.ts"), _) => {
            let later = path.with_file_name("later.ts");
            let from = path.display();
            ffmpeg(&format!("-i {from} -c copy -output_ts_offset 500"), &later);
            bytes.extend(std::fs::read(later).expect("a file"));
        }
        _ => return,
    }
    std::fs::write(path, bytes).expect("it can be written");
}

/// Files of the kinds in which people have their videos: each frame that ffmpeg shows is delivered, and no other.
#[test]
fn every_frame_that_ffmpeg_shows_is_delivered() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plain = folder.path().join("plain.mp4");
    ffmpeg(
        &format!(
            "{} -c:v libx264 -pix_fmt yuv420p -bf 2 -g 12",
            drawn("320x180", 25, 2)
        ),
        &plain,
    );
    let plain = format!("-i {}", plain.display());
    let times = ffprobe::times_option();
    let gap = format!("-vf select='lt(t,0.5)+gt(t,1.2)' {times} vfr");
    let drawn = drawn("320x180", 25, 2);
    let x264 = "-c:v libx264 -preset ultrafast";
    let mut wrong = Vec::new();
    let copy = |more: &str| format!("{plain} -c copy {more}");
    let as_drawn = |more: &str| format!("{drawn} {more}");
    let with_gap = format!("{plain} {gap} {x264}");
    let fields = format!("-vf tinterlace=4 {x264} -pix_fmt yuv420p -flags +ildct+ilme");
    let pieces = "-movflags frag_keyframe+empty_moov+default_base_moof";
    let colors = |format: &str| as_drawn(&format!("-pix_fmt {format} {x264}"));
    let test = |picture: &str| format!("-f lavfi -i testsrc2=s={picture}");
    #[rustfmt::skip]
    let cases = [
        ("fiftyone#8410 rerun#8029", "edit.mp4", format!("-ss 0.2 {plain} -c copy")),
        ("fiftyone#8410", "edit2.mp4", format!("-ss 0.6 {plain} -c copy -avoid_negative_ts 0")),
        ("PySceneDetect#168 Kinovea#154", "vfr.mp4", with_gap.clone()),
        ("PySceneDetect#168", "vfr.mkv", with_gap),
        ("motioneye#1765", "fields.mp4", as_drawn(&fields)),
        ("NVEnc#492", "gray.mp4", colors("gray")),
        ("NVEnc#492", "444.mp4", colors("yuv444p")),
        ("NVEnc#492", "422.mkv", colors("yuv422p10le")),
        ("jetson-ffmpeg#128", "odd.mp4", test(&format!("406x154:r=25:d=1 {x264}"))),
        ("go2rtc#916", "camera.flv", copy("")),
        ("tsduck#975", "camera.ts", copy("")),
        ("mediamtx#622 hls.js#483: the clock of 33 bits wraps", "wraps.ts", copy("-output_ts_offset 95441 -f mpegts")),
        ("ExoPlayer#1488 untrunc#101: packets of 192 bytes", "camcorder.mts", copy("-mpegts_m2ts_mode 1 -f mpegts")),
        ("bluecherry-client#285: neither length nor index", "pipe.mkv", copy("-f matroska -live 1")),
        ("untrunc#17", "pieces.mp4", copy(pieces)),
        ("motioneye#1765", "camera.avi", as_drawn("-c:v mjpeg -pix_fmt yuvj422p")),
        ("untrunc#17", "phone.3gp", test("176x144:r=15:d=2 -c:v h263")),
        ("NVEnc#492", "vp9.webm", test("160x90:r=25:d=1 -c:v libvpx-vp9 -cpu-used 8")),
        ("nvidia-vaapi-driver#170", "alpha9.webm", test("160x90:r=25:d=1,format=yuva420p -c:v libvpx-vp9 -cpu-used 8")),
        ("nvidia-vaapi-driver#170", "alpha8.webm", test("160x90:r=25:d=1,format=yuva420p -c:v libvpx -cpu-used 8 -auto-alt-ref 0")),
        ("dusty-nv/jetson-utils#66", "camera.mjpeg", as_drawn("-c:v mjpeg -pix_fmt yuvj420p")),
        ("retina#62", "camera.h264", copy("-bsf:v h264_mp4toannexb")),
        ("HandBrake#439: an empty index", "empty.avi", copy("")),
        ("openshot-qt#2917: no index", "none.avi", copy("")),
        ("mux.js#165: joined in the middle", "late.ts", copy("")),
        ("ExoPlayer#8678: the time jumps", "jump.ts", copy("")),
        ("other bytes between packets", "stray.ts", copy("")),
        ("mp4box.js#360: no duration", "length.mp4", copy(&format!("{pieces}+separate_moof"))),
        ("mux.js#410: a length of 64 bits", "long.mp4", copy("")),
        ("mp4-quicktime#2 taglib#765: media up to the end", "open.mp4", copy("-movflags faststart")),
        ("a fragment for each frame", "every.mp4", copy("-movflags frag_every_frame+empty_moov")),
    ];
    for (thread, name, recipe) in cases {
        let path = folder.path().join(name);
        ffmpeg(&recipe, &path);
        damage(&path);
        let shown = ffprobe::count_frames(&path, 0);
        assert!(shown > 10, "{name}: {shown}");
        let delivered = frames_of(&file(&path)).len();
        // GStreamer's demuxer leaves out the last frame of a file that was cut by an edit list between keyframes.
        let least = shown - usize::from(name.starts_with("edit"));
        if !(least..=shown).contains(&delivered) {
            wrong.push(format!("{thread}: {name}: {delivered} of {shown}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Covers, previews and single pictures are not the video, wherever they stand (lossless-cut#308, mutagen#661, mpv#10440).
#[test]
fn the_video_is_taken_of_several_tracks_unless_another_is_chosen() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let (video, cover) = (path("video.mp4"), path("cover.jpg"));
    ffmpeg(
        &format!("{} -c:v libx264 -pix_fmt yuv420p", drawn("320x180", 25, 1)),
        &video,
    );
    ffmpeg(
        "-f lavfi -i testsrc2=s=1600x900 -frames:v 1 -pix_fmt yuvj420p",
        &cover,
    );
    let (video, cover) = (
        format!("-i {}", video.display()),
        format!("-i {}", cover.display()),
    );
    let both = "-map 0 -map 1";
    let preview = drawn("640x360", 1, 4);
    let small = drawn("160x120", 25, 1);
    let (wide, low) = (Size::new(416, 234), Size::new(416, 312));
    let encoded = ["-c:v:0 libx264 -c:v:1 copy", "-c:v:0 copy -c:v:1 libx264"];
    let [first, second] = encoded.map(|codecs| format!("{both} {codecs}"));
    let picture = format!("{both} -c:v:0 mjpeg -pix_fmt:v:0 yuvj420p -c:v:1 copy");
    let attached = format!("{both} -c copy -disposition:v:1 attached_pic");
    let copied = format!("{both} -c copy");
    for (name, inputs, recipe, track, size) in [
        ("attached.mp4", [&video, &cover], &attached, None, wide),
        ("first.mkv", [&cover, &video], &copied, None, wide),
        ("first.mov", [&cover, &video], &copied, None, wide),
        ("preview.mp4", [&preview, &video], &picture, None, wide),
        ("slow.mp4", [&preview, &video], &first, None, wide),
        ("two.mkv", [&small, &video], &first, None, wide),
        ("two.mp4", [&video, &small], &second, None, wide),
        ("chosen.mp4", [&video, &small], &second, Some(1), low),
        ("chosen.mkv", [&small, &video], &first, Some(0), low),
        ("chosen.ts", [&small, &video], &first, Some(1), wide),
    ] {
        let path = path(name);
        ffmpeg(&format!("{} {} {recipe}", inputs[0], inputs[1]), &path);
        let config = SourceConfig {
            track,
            ..file(&path)
        };
        let frames = frames_of(&config);
        assert_eq!(frames.len(), 25, "{name}");
        assert_eq!(frames[0].image, size, "{name}");
    }
    let config = SourceConfig {
        track: Some(2),
        ..file(&path("two.mp4"))
    };
    let error = failure_of(&config).to_string();
    for wanted in [
        "track is 2",
        "0: h264 320×180 25.000",
        "1: h264 160×120 25.000",
    ] {
        assert!(error.contains(wanted), "{error}");
    }
}

/// The network sees objects in their shape; boxes stay in the pixels of the image (frigate#416).
#[test]
fn images_with_pixels_that_are_not_square_keep_their_shape() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, size, aspect, display_aspect, inner) in [
        ("square.mp4", "640x480", "1", None, (416, 312)),
        ("pal.mp4", "720x576", "16/11", None, (416, 228)),
        ("small.mkv", "176x144", "16/11", None, (416, 234)),
        ("tall.mp4", "720x576", "1/2", None, (260, 416)),
        ("unknown.mp4", "640x480", "1", Some((16, 9)), (416, 234)),
        ("wrong.mp4", "640x480", "16/11", Some((4, 3)), (416, 312)),
    ] {
        let path = folder.path().join(name);
        let source = format!("-f lavfi -i color=white:s={size}:r=5:d=1");
        ffmpeg(
            &format!("{source} -vf setsar={aspect} -c:v libx264 -pix_fmt yuv420p"),
            &path,
        );
        let config = SourceConfig {
            display_aspect,
            ..file(&path)
        };
        let frames = frames_of(&config);
        let frame = &frames[0];
        let (width, height) = size.split_once('x').expect("a size");
        let size = Size::new(width.parse().unwrap(), height.parse().unwrap());
        let inner = Size::new(inner.0, inner.1);
        assert_eq!(
            (frame.image, frame.meta.source_size),
            (inner, size),
            "{name}"
        );
        // All of it is filled: no border.
        assert!(
            frame.mean > 250.0 && INPUT.width == 416,
            "{name}: {}",
            frame.mean
        );
    }
}

/// Streams without a container are played once more from their begin.
#[test]
fn files_that_are_not_seekable_start_over() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    #[rustfmt::skip]
    let cases = [
        ("camera.mjpeg", "-frames:v 7 -pix_fmt yuvj420p", 20),
        ("still.jpg", "-frames:v 1 -pix_fmt yuvj420p", 5),
        ("pipe.mkv", "-frames:v 7 -c:v libx264 -pix_fmt yuv420p -live 1", 20),
        ("camera.h264", "-frames:v 7 -c:v libx264 -pix_fmt yuv420p", 20),
    ];
    for (name, arguments, frames) in cases {
        let path = folder.path().join(name);
        ffmpeg(
            &format!("-f lavfi -i testsrc2=s=320x180:r=25 {arguments}"),
            &path,
        );
        let config = SourceConfig {
            loop_at_end: true,
            ..file(&path)
        };
        let source = Collector::start(&config, frames);
        let (found, result) = source.join();
        result.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(found.len(), frames, "{name}");
    }
}

/// Files that are cut play as far as they go, or say what is missing (untrunc#17, untrunc#136, lossless-cut#796).
#[test]
fn files_that_cannot_be_played_say_why() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    ffmpeg(
        &format!("{} -c:v libx264 -pix_fmt yuv420p", drawn("320x180", 25, 2)),
        &path("whole.mp4"),
    );
    for picture in ["moving.gif", "moving.apng", "still.bmp", "still.tiff"] {
        let images = if picture.starts_with("moving") { 5 } else { 1 };
        ffmpeg(
            &format!("{} -frames:v {images}", drawn("64x36", 10, 1)),
            &path(picture),
        );
    }
    let whole = std::fs::read(path("whole.mp4")).expect("it was made");
    std::fs::write(path("cut.mp4"), &whole[..whole.len() / 2]).expect("written");
    ffmpeg(
        &format!(
            "{} -f lavfi -i sine=d=20 -c:v libx264 -pix_fmt yuv420p -c:a aac",
            drawn("320x180", 25, 2)
        ),
        &path("sound.mp4"),
    );
    // LAVFilters#326, ffmpy#47: its packets have other contents, which are not read.
    for (name, bytes) in [
        ("camera.dav", &b"DHAV\xfd\0\0\0"[..]),
        ("phone.heic", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"),
        ("still.avif", b"\0\0\0\x1cftypavif\0\0\0\0avifmif1"),
        (
            "moving.webp",
            b"RIFF\x40\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0\x3f\x01\0\xef\0\0ANIM",
        ),
    ] {
        std::fs::write(path(name), bytes).expect("written");
    }
    #[rustfmt::skip]
    let cases = [
        ("cut.mp4", "its index (moov) is missing; record it again"),
        ("sound.mp4", "shorter than a fifth of an MP4 file"),
        ("moving.gif", "convert it with: ffmpeg"),
        ("camera.dav", "Dahua (DAV); convert it with: ffmpeg -i RECORDING -c:v copy"),
        ("moving.webp", "animated pictures (WebP); convert it"),
        ("moving.apng", "animated pictures (PNG); convert it"),
        ("phone.heic", "HEIF pictures; convert it"),
        ("still.avif", "AVIF pictures; convert it"),
        ("still.bmp", "BMP pictures; convert it"),
        ("still.tiff", "TIFF pictures; convert it"),
    ];
    for (name, wanted) in cases {
        let error = failure_of(&file(&path(name))).to_string();
        assert!(error.contains(wanted), "{name}: {error}");
    }
}

/// Images of Motion JPEG that were taken out of their stream have no Huffman tables (etemesi254/zune-image#136, loyd/rscam#20), and a maker
/// appends bytes (rroller/dahua#658).
#[test]
fn images_of_motion_jpeg_are_read_without_huffman_tables() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("1-whole.jpg");
    ffmpeg(
        "-f lavfi -i testsrc2=s=416x312 -frames:v 1 -pix_fmt yuvj420p -huffman default",
        &path,
    );
    let mut bytes = std::fs::read(&path).expect("it was made");
    std::fs::write(
        folder.path().join("2-appended.jpg"),
        [&bytes[..], b"dhav\x59\x19\x01\0"].concat(),
    )
    .expect("written");
    let tables = |bytes: &[u8]| bytes.windows(2).position(|pair| pair == b"\xff\xc4");
    while let Some(at) = tables(&bytes) {
        let length = usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]));
        bytes.drain(at..at + 2 + length);
    }
    std::fs::write(folder.path().join("3-without.jpg"), &bytes).expect("written");
    let colors: Vec<_> = frames_of(&config(SourceUri::Images(folder.path().to_owned())))
        .iter()
        .map(|frame| frame.color)
        .collect();
    assert_eq!(colors, [colors[0]; 3]);
}

/// Range and matrix come from the bitstream, and from the container where it says more (frigate#1178, NVIDIA/VideoProcessingFramework#209).
/// Other chroma formats are scaled by elements.
#[test]
fn colors_are_those_of_the_stream_for_each_range_matrix_and_transfer() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let x264 = "libx264 -preset ultrafast";
    let mut wrong = Vec::new();
    let without_box = format!("{x264} -movflags -write_colr");
    let x265 = "libx265 -x265-params log-level=error";
    let of_transfers = Colors::of_other_transfers().map(|colors| (colors, 3));
    for (colors, rows) in Colors::all().map(|colors| (colors, 7)).chain(of_transfers) {
        let kinds = [
            ("yuv420p", x264, ["h264", "mp4"].as_slice()),
            ("yuv420p", &without_box, &["without-box.mp4"]),
            ("yuv420p10le", x264, &["mp4"]),
            ("yuv420p", x265, &["h265", "265.mp4"]),
            ("yuv420p", x264, &["mkv", "ts"]),
            ("yuv422p", x264, &["mp4"]),
            ("yuv444p", x264, &["mkv"]),
        ];
        for (pixels, codec, endings) in kinds.into_iter().take(rows) {
            for ending in endings {
                let path = folder.path().join(format!("{colors}-{pixels}.{ending}"));
                colors.make(pixels, codec, &path);
                let frames = frames_of(&file(&path));
                wrong.extend(colors.differences(&path, pixels, frames[2].color, 2.0));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Raw images of USB cameras, in the formats that other programs lacked (pikvm/ustreamer#252 and 170, mpromonet/v4l2rtspserver#338,
/// ros-drivers/usb_cam#348, jacksonliam/mjpg-streamer#248 and 389, opencv/opencv#12134), in their colors.
#[test]
fn raw_images_of_usb_cameras_have_their_colors() {
    let source = |caps: &str, more: &str| {
        let uri = launch(&format!(
            "videotestsrc pattern=solid-color foreground-color=0xffc83c78 num-buffers=5 ! {caps},width=320,height=240,framerate=5/1{more}"
        ));
        config(uri)
    };
    let (color, gray) = ([120.0, 60.0, 200.0], [108.7; 3]);
    let mut wrong = Vec::new();
    for (caps, more, wanted) in [
        ("video/x-raw,format=YVYU", "", color),
        ("video/x-raw,format=UYVY", "", color),
        ("video/x-raw,format=YUY2", "", color),
        ("video/x-raw,format=NV12", "", color),
        ("video/x-raw,format=NV21", "", color),
        ("video/x-raw,format=YV12", "", color),
        ("video/x-raw,format=Y42B", "", color),
        ("video/x-raw,format=BGR", "", color),
        ("video/x-raw,format=RGB", "", color),
        ("video/x-raw,format=GRAY8", "", gray),
        ("video/x-raw,format=GRAY16_LE", "", gray),
        ("video/x-bayer,format=bggr", " ! bayer2rgb", color),
    ] {
        let (frames, result) = Collector::start(&source(caps, more), 3).join();
        result.unwrap_or_else(|error| panic!("{caps}: {error}"));
        let found = frames[2].color;
        let is_near = |(found, wanted): (f32, f32)| (found - wanted).abs() <= 3.0;
        if !found.into_iter().zip(wanted).all(is_near) {
            wrong.push(format!("{caps}: {found:?}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    let reason = first_reason(&source("video/x-bayer,format=rggb", ""));
    assert_has!(reason => "csi://0", "! bayer2rgb");
}

/// Phones record in HDR by default (iina/iina#4441, pulsejet/memories#406).
#[test]
fn hdr_is_noted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (transfer, curve) in [("smpte2084", "PQ"), ("arib-std-b67", "HLG")] {
        let path = folder.path().join(format!("{curve}.mp4"));
        let told = format!("-colorspace bt2020nc -color_primaries bt2020 -color_trc {transfer}");
        let codec = "-pix_fmt yuv420p10le -c:v libx265 -x265-params log-level=error";
        ffmpeg(&format!("{} {told} {codec}", drawn("320x180", 5, 1)), &path);
        let (frames, plan) = Collector::start(&file(&path), usize::MAX).frames_and_plan();
        assert_eq!(frames.len(), 5);
        assert_has!(plan.notes.join("; ") => "HDR", curve);
    }
}
