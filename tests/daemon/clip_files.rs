// SPDX-License-Identifier: Apache-2.0
//! Encoded streams of real sources as files: captured before the decoder, written as fragmented MP4, and read back by FFmpeg and
//! by GStreamer's demuxer.

use crate::support;

use std::collections::BTreeSet;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use jetwatch_config::SourceUri;
use jetwatch_media::mp4::complete_length;
use jetwatch_media::{ClipFile, LiveSegment, RingUnit, SourceStream, UnitNotice};
use jetwatch_types::{Size, SplitMix64, StreamFormat, VideoCodec};

use support::clips::{each_sample, gst_launch};
use support::collector::rtsp;
use support::ffprobe::{decode, probe};
use support::rtsp::RtspServer;
use support::stream_capture::{LIMITS, capture, units, write_clip};

/// The encoder of a clip, and the elements behind it.
const H264: &str = "x264enc speed-preset=ultrafast key-int-max=10 bframes=0";
const H264_B_FRAMES: &str = "x264enc speed-preset=veryfast key-int-max=20 bframes=3 b-adapt=false";
const H265: &str = "x265enc speed-preset=ultrafast key-int-max=10 option-string=bframes=0";
const H265_B_FRAMES: &str =
    "x265enc speed-preset=ultrafast key-int-max=20 option-string=bframes=3:b-adapt=0";

/// A clip of `frames` frames at 25 frames/s.
fn clip(folder: &Path, name: &str, encoder: &str, mux: &str, frames: u32) -> PathBuf {
    let path = folder.join(name);
    gst_launch(&format!(
        "videotestsrc num-buffers={frames} pattern=ball ! video/x-raw,format=I420,width=320,height=180,framerate=25/1 \
         ! {encoder} {mux} ! filesink location={}",
        path.display()
    ));
    path
}

/// A time on the clock of a file, in ticks.
fn ticks(nanos: i64) -> i64 {
    (nanos * 9 + 50_000) / 100_000
}

/// Presentation times that a file of these units has.
fn shown(units: &[RingUnit]) -> Vec<i64> {
    let (origin, delay) = (
        units[0].time.dts,
        ticks(units[0].time.pts - units[0].time.dts),
    );
    let shown = |unit: &RingUnit| ticks(unit.time.pts - origin) - delay;
    units.iter().map(shown).collect()
}

/// Presentation times as GStreamer's demuxer reads them, in the order of the file.
fn demuxed(path: &Path) -> Vec<u64> {
    let mut times = Vec::new();
    each_sample(
        &format!("filesrc location={} ! qtdemux", path.display()),
        |sample| {
            let pts = sample.buffer().and_then(gstreamer::BufferRef::pts);
            times.push(pts.expect("a time").nseconds());
        },
    );
    times
}

#[test]
fn clips_of_files_hold_each_image_at_its_time() {
    let folder = tempfile::tempdir().expect("a folder");
    #[rustfmt::skip]
    let cases = [
        ("a.mp4", H264, "! mp4mux", VideoCodec::H264),
        ("b.mp4", H264_B_FRAMES, "! mp4mux", VideoCodec::H264),
        ("c.ts", H264_B_FRAMES, "! mpegtsmux", VideoCodec::H264),
        ("d.mkv", H264, "! matroskamux", VideoCodec::H264),
        ("e.h264", H264, "! video/x-h264,stream-format=byte-stream", VideoCodec::H264),
        ("f.mp4", H265, "! h265parse ! mp4mux", VideoCodec::H265),
        ("g.mp4", H265_B_FRAMES, "! h265parse ! mp4mux", VideoCodec::H265),
        ("h.ts", H265_B_FRAMES, "! h265parse ! mpegtsmux", VideoCodec::H265),
    ];
    for (name, encoder, mux, codec) in cases {
        let path = clip(folder.path(), name, encoder, mux, 60);
        let captured = capture(SourceUri::File(path), usize::MAX);
        let format = StreamFormat {
            codec,
            size: Size::new(320, 180),
        };
        let wanted = Some(&format);
        assert_eq!(captured.formats.lock().unwrap().last(), wanted, "{name}");
        let units = units(&captured.stream);
        assert_eq!(units.len(), 60, "{name}");
        // The images that were detected have the timestamps of the units.
        let mut of_units: Vec<_> = units.iter().filter_map(|unit| unit.unit.pts).collect();
        of_units.sort_unstable();
        if name != "e.h264" {
            assert_eq!(*captured.frame_pts.lock().unwrap(), of_units, "{name}");
        }

        let written = folder.path().join(format!("clip-{name}.mp4"));
        let facts = write_clip(&written, &units);
        assert_eq!(facts.images, 60, "{name}");
        let wanted = fs::metadata(&written).expect("a file").len();
        assert_eq!(facts.bytes, wanted, "{name}");
        let probed = probe(&written).unwrap_or_else(|error| panic!("{name}: {error}"));
        let codec = match codec {
            VideoCodec::H264 => "h264",
            VideoCodec::H265 => "hevc",
        };
        assert_eq!(
            (probed.codec.as_str(), probed.width, probed.height),
            (codec, 320, 180),
            "{name}"
        );
        let expected = shown(&units);
        assert_eq!(probed.pts, expected, "{name}");
        assert!(
            probed.dts.windows(2).all(|pair| pair[0] < pair[1]),
            "{name}"
        );
        let keyframes = units
            .iter()
            .enumerate()
            .filter(|(_, unit)| unit.unit.is_keyframe);
        let keyframes: Vec<_> = keyframes.map(|(place, _)| place).collect();
        assert!(keyframes.len() > 2, "{name}: {keyframes:?}");
        assert_eq!(probed.keyframes, keyframes, "{name}");
        assert!(
            (2.3..2.5).contains(&probed.duration),
            "{name}: {}",
            probed.duration
        );
        assert_eq!(decode(&written), (60, String::new()), "{name}");
        let times: Vec<_> = demuxed(&written);
        let first = times.first().copied().unwrap_or_default();
        let times: Vec<_> = times
            .iter()
            .map(|time| ticks(*time as i64 - first as i64))
            .collect();
        for (found, expected) in times.iter().zip(&expected) {
            assert!(
                (found - expected).abs() <= 1,
                "{name}: {times:?} and {expected:?}"
            );
        }
        assert_eq!(times.len(), expected.len(), "{name}");
    }
}

#[test]
fn clips_of_rtsp_cameras_hold_each_image_at_its_time() {
    let b_frames = "x264enc speed-preset=veryfast key-int-max=20 bframes=2 b-adapt=false ! rtph264pay name=pay0 pt=96";
    let h265 = "x265enc speed-preset=ultrafast tune=zerolatency key-int-max=10 ! rtph265pay name=pay0 pt=96 config-interval=-1";
    let folder = tempfile::tempdir().expect("a folder");
    for (name, arguments) in [
        ("plain", &[][..]),
        ("b-frames", &["--encoder", b_frames]),
        ("h265", &["--encoder", h265]),
    ] {
        let server = RtspServer::start(0, arguments);
        let captured = capture(rtsp(server.uri(), None), 40);
        let units = units(&captured.stream);
        assert!(units.len() >= 40, "{name}: {} units", units.len());
        // The first images may have come before the first keyframe.
        let frames = captured.frame_pts.lock().unwrap().clone();
        let of_units: Vec<_> = units.iter().filter_map(|unit| unit.unit.pts).collect();
        let matched = frames.iter().filter(|pts| of_units.contains(pts)).count();
        // GStreamer 1.16 gives images no time whose packets a busy machine delays much; their decoder counts on then.
        let untimed = units.len() - of_units.len();
        assert!(
            matched + untimed >= frames.len(),
            "{name}: {frames:?} and {of_units:?}"
        );
        // GStreamer 1.16 passes on what comes before the first keyframe; a ring begins with it.
        let first = units.iter().position(|unit| unit.unit.is_keyframe);
        let units = &units[first.expect("a keyframe")..];
        let path = folder.path().join(format!("{name}.mp4"));
        write_clip(&path, units);
        let probed = probe(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut expected = shown(units);
        // FFmpeg moves all images of a file that has one to be shown before it is decoded. A busy machine delays packets, and the
        // time that GStreamer then gives an image may be later than that of the next.
        if units.iter().any(|unit| unit.time.pts < unit.time.dts) {
            let shift = probed.pts[0] - expected[0];
            expected.iter_mut().for_each(|time| *time += shift);
        }
        assert_eq!(probed.pts, expected, "{name}");
        assert!(
            probed.dts.windows(2).all(|pair| pair[0] < pair[1]),
            "{name}"
        );
        assert_eq!(decode(&path), (units.len(), String::new()), "{name}");
    }
}

#[test]
fn file_that_was_cut_plays_its_complete_fragments() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = clip(folder.path(), "a.mp4", H264_B_FRAMES, "! mp4mux", 100);
    let captured = capture(SourceUri::File(path), usize::MAX);
    let units = units(&captured.stream);
    let mut clip = ClipFile::begin(Cursor::new(Vec::new()), &units[0]).expect("begun");
    for unit in &units {
        clip.add(unit.clone()).expect("written");
    }
    let (file, _) = clip.finish().expect("finished");
    let bytes = file.into_inner();
    // Ends of the fragments, and the images in the file up to there.
    let (mut ends, mut place, mut images) = (Vec::new(), 0, 0);
    while place < bytes.len() {
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let length = number(place) as usize;
        match &bytes[place + 4..place + 8] {
            b"moof" => {
                let content = &bytes[place..place + length];
                let run = content
                    .windows(4)
                    .position(|kind| kind == b"trun")
                    .expect("a run");
                images += number(place + run + 8) as usize;
            }
            b"mdat" => ends.push((place + length, images)),
            _ => {}
        }
        place += length;
    }
    assert!(ends.len() >= 5 && images == 100, "{ends:?}");
    let cut = folder.path().join("cut.mp4");
    let (mut random, mut probed_ends) = (SplitMix64::new(7), BTreeSet::new());
    let first = ends[0].0;
    for _ in 0..60 {
        let at = first + (random.next_u64() as usize) % (bytes.len() - first);
        let (end, images) = *ends
            .iter()
            .rev()
            .find(|(end, _)| *end <= at)
            .expect("the first fragment");
        // FFmpeg refuses a file that ends within the table of a fragment, so that one is cut off.
        let complete = complete_length(&mut Cursor::new(&bytes[..at])).expect("in memory");
        assert_eq!(complete, end as u64, "cut at {at}");
        if probed_ends.insert(end) {
            fs::write(&cut, &bytes[..end]).expect("written");
            let probed = probe(&cut).unwrap_or_else(|error| panic!("cut at {at}: {error}"));
            assert_eq!(probed.pts.len(), images, "cut at {at}");
        }
        let is_within_data = !ends.iter().any(|(end, _)| (*end..end + 500).contains(&at));
        if is_within_data {
            fs::write(&cut, &bytes[..at]).expect("written");
            let probed = probe(&cut).unwrap_or_else(|error| panic!("cut at {at}: {error}"));
            assert!(probed.pts.len() >= images, "cut at {at}");
        }
    }
}

#[test]
fn viewer_gets_the_stream_from_the_last_keyframe() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = clip(folder.path(), "a.mp4", H264, "! mp4mux", 60);
    let captured = capture(SourceUri::File(path), usize::MAX);
    let all = captured.units.lock().unwrap().clone();
    let stream = Arc::new(SourceStream::new("cam", LIMITS));
    stream.start(captured.formats.lock().unwrap()[0]);
    let count = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&count);
    let notice: Arc<UnitNotice> = Arc::new(move || *counted.lock().unwrap() += 1);
    let mut viewer = stream.subscribe(&notice);
    assert_eq!(viewer.read(), LiveSegment::Empty);
    all[..25].iter().cloned().for_each(|unit| stream.push(unit));
    assert_eq!(*count.lock().unwrap(), 25);
    let LiveSegment::Init { mut bytes, codec } = viewer.read() else {
        panic!("an init segment comes first");
    };
    assert!(codec.starts_with("avc1."), "{codec}");
    for unit in &all[25..] {
        let LiveSegment::Fragment(fragment) = viewer.read() else {
            panic!("a fragment for each unit");
        };
        bytes.extend(fragment);
        assert_eq!(viewer.read(), LiveSegment::Empty);
        stream.push(unit.clone());
    }
    let path = folder.path().join("live.mp4");
    fs::write(&path, &bytes).expect("written");
    // From the keyframe at 20; the last unit was not read.
    let probed = probe(&path).expect("it is read");
    let wanted = (0..39).map(|image| image * 3600).collect::<Vec<_>>();
    assert_eq!(probed.pts, wanted);
    assert_eq!(decode(&path), (39, String::new()));
    drop(notice);
    stream.push(all[0].clone());
    assert_eq!(*count.lock().unwrap(), 60, "no notice without its owner");
}
