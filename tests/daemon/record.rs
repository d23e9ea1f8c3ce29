// SPDX-License-Identifier: Apache-2.0
//! Recordings, made by the real binary and read back by GStreamer's own demuxers and decoders.

use crate::support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use gstreamer_video as gst_video;
use gstreamer_video::prelude::*;
use jetwatch_pixels::Color;
use jetwatch_types::Size;
use serde_json::Value;
use support::clips::{each_sample, mp4, plugins_without};
use support::daemon::{
    Setup, Signal, exits, json_lines_config, signal, start, terminate, wait_until_some,
};

/// A network, for sources other than drawn scenes.
const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/street-nano");

/// An image of a recording, in red, green and blue.
pub(crate) struct RecordedImage {
    /// Time from the start of the file, in seconds.
    at: f64,
    pub(crate) size: Size,
    stride: usize,
    pixels: Vec<u8>,
}

impl RecordedImage {
    pub(crate) fn pixel(&self, x: usize, y: usize) -> [u8; 3] {
        let start = y * self.stride + x * 3;
        [0, 1, 2].map(|channel| self.pixels[start + channel])
    }
}

/// All images of a file, and what kind of file it is.
pub(crate) fn decode_recording(path: &Path) -> (&'static str, Vec<RecordedImage>) {
    let line = format!(
        "filesrc location={} ! decodebin ! videoconvert ! video/x-raw,format=RGB",
        path.display()
    );
    let mut images = Vec::new();
    each_sample(&line, |sample| {
        let info = gst_video::VideoInfo::from_caps(sample.caps().expect("caps")).expect("video");
        let buffer = sample.buffer_owned().expect("a buffer");
        let at = buffer.pts().expect("a time").nseconds() as f64 / 1e9;
        let frame = gst_video::VideoFrame::from_buffer_readable(buffer, &info).expect("readable");
        images.push(RecordedImage {
            at,
            size: Size::new(info.width(), info.height()),
            stride: usize::try_from(frame.plane_stride()[0]).expect("positive"),
            pixels: frame.plane_data(0).expect("one plane").to_vec(),
        });
    });
    (kind(path), images)
}

/// What kind of file it is, by its first bytes.
fn kind(path: &Path) -> &'static str {
    let bytes = fs::read(path).expect("the file is there");
    let begins = |word: &[u8]| bytes[..64].windows(word.len()).any(|part| part == word);
    match &bytes[..4] {
        b"\x1a\x45\xdf\xa3" if begins(b"webm") => "webm",
        b"\x1a\x45\xdf\xa3" if begins(b"matroska") => "mkv",
        _ if &bytes[4..8] == b"ftyp" => "mp4",
        other => panic!("an unknown kind of file: {other:02x?}"),
    }
}

fn scene(size: (u32, u32), frames: u32) -> String {
    let (width, height) = size;
    format!(
        "uri: synthetic://traffic?seed=3&objects=6&width={width}&height={height}&fps=30&frames={frames}"
    )
}

/// Runs to the end, with this exit code and a recording to `name`; returns its log and the statistics.
fn record(code: i32, setup: &Setup, name: &str) -> (String, Value) {
    let mut command = setup.command("run");
    command.arg("--record").arg(setup.path(name));
    command.arg("--stats").arg(setup.path("stats.json"));
    let log = exits(code, &mut command).err;
    (log, setup.json("stats.json"))
}

/// Number of points on the left edges of boxes in the color of their class, and number of points.
fn count_edge_points(image: &RecordedImage, tracks: &[Value]) -> (usize, usize) {
    let (mut right, mut all) = (0, 0);
    let (width, height) = (image.size.width as usize, image.size.height as usize);
    for track in tracks {
        let edges: Vec<f64> = track["box"]
            .as_array()
            .expect("a box")
            .iter()
            .filter_map(Value::as_f64)
            .collect();
        let [left, top, _, bottom] = edges[..] else {
            panic!("a box has four edges: {track}");
        };
        if track["state"] != "active" || left < 1.0 || bottom - top < 16.0 {
            continue;
        }
        // Whichever class: a box has one color, and it is one of the classes'.
        let middle = ((top + bottom) / 2.0) as usize;
        for y in middle.saturating_sub(4)..(middle + 4).min(height) {
            let x = (left.round() as usize).min(width - 1);
            let [red, green, blue] = image.pixel(x, y);
            let is_near = |color: Color| {
                let near = |a: u8, b: u8| a.abs_diff(b) < 60;
                near(red, color.red) && near(green, color.green) && near(blue, color.blue)
            };
            all += 1;
            right += usize::from((0..12).any(|class| is_near(Color::for_class(class))));
        }
    }
    (right, all)
}

#[test]
fn a_recording_shows_each_frame_with_its_own_boxes() {
    let setup = Setup::new(&json_lines_config(&scene((640, 360), 90)));
    let (text, stats) = record(0, &setup, "out.mp4");
    assert_has!(text => "recording to", "recorded to");

    let recording = &stats["recording"];
    let number = |value: &Value| {
        value
            .as_u64()
            .unwrap_or_else(|| panic!("no number: {value}"))
    };
    let (frames, dropped) = (number(&recording["frames"]), number(&recording["dropped"]));
    assert_eq!(frames + dropped, number(&stats["frames"]), "{stats}");
    assert_eq!(number(&recording["images"]), frames, "{stats}");
    let (kind, images) = decode_recording(&setup.path("out.mp4"));
    assert_eq!(kind, "mp4");
    assert_eq!(images.len() as u64, frames, "{stats}");
    assert!(
        frames >= 20,
        "a busy machine drops, but not nearly all: {stats}"
    );
    assert!(images.iter().all(|image| image.size == Size::new(640, 360)));

    // Each frame's boxes as they were published, by the frame's time.
    let lines = setup.lines();
    let shown: Vec<(f64, &[Value])> = lines
        .iter()
        .filter(|line| line["kind"] == "detections")
        .map(|line| {
            let at = line["frame"]["pts_ms"].as_f64().expect("a time") / 1e3;
            (at, line["tracks"].as_array().expect("tracks").as_slice())
        })
        .collect();
    // The first frame is recorded, because the queue is still empty: the file's times are the source's.
    let agreement = |shift: f64| {
        let (mut right, mut all) = (0, 0);
        for image in &images {
            let of_it = |(at, _): &&(f64, &[Value])| (at - image.at - shift).abs() < 0.01;
            if let Some((_, tracks)) = shown.iter().find(of_it) {
                let (near, points) = count_edge_points(image, tracks);
                right += near;
                all += points;
            }
        }
        assert!(all > 200, "{all} points on edges");
        right as f64 / all as f64
    };
    let own = agreement(0.0);
    let others = [-8, -4, 4, 8].map(|frames| agreement(f64::from(frames) / 30.0));
    assert!(
        own > 0.8,
        "{own:.3} of the points on edges have a class's color; with other frames' boxes {others:.3?}"
    );
    assert!(
        others.iter().all(|other| *other < own - 0.2),
        "{own:.3}, {others:.3?}"
    );
}

#[test]
fn every_frame_of_a_file_is_recorded() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Large images, most of which skip the network: drawing and encoding are slower by far.
    let clip = mp4(folder.path(), "a.mp4", 1280, 720, 90);
    for interval in [0, 9] {
        let source = format!("uri: {}\ninterval: {interval}", clip.display());
        let yaml = json_lines_config(&source);
        let setup = Setup::new(&yaml.replace("scripted", &format!("onnx\n  model: {MODEL}")));
        let (_, stats) = record(0, &setup, "out.mp4");
        let recording = &stats["recording"];
        let number = |key: &str| recording[key].as_u64().expect("a number");
        let counts = ["frames", "dropped", "images"].map(number);
        assert_eq!(counts, [90, 0, 90], "{interval}: {stats}");
        let (_, images) = decode_recording(&setup.path("out.mp4"));
        assert_eq!(images.len(), 90);
        for (place, image) in images.iter().enumerate() {
            let wanted = place as f64 / 30.0;
            assert!((image.at - wanted).abs() < 0.01, "{place}: {}", image.at);
        }
    }
}

#[test]
fn several_sources_are_recorded_as_mosaic() {
    let mut yaml = json_lines_config(&scene((320, 180), 60));
    let other = "  - name: other\n    uri: synthetic://traffic?seed=5&objects=6&width=160&height=240&fps=15&frames=30\n";
    let at = yaml.find("detector:").expect("it is there");
    yaml.insert_str(at, other);
    let setup = Setup::new(&yaml);
    let (_, stats) = record(0, &setup, "tiles.mkv");
    let recording = &stats["recording"];
    let number = |key: &str| recording[key].as_u64().expect("a number");
    let found = number("frames") + number("dropped");
    assert_eq!(found, stats["frames"].as_u64().unwrap());
    let (kind, images) = decode_recording(&setup.path("tiles.mkv"));
    assert_eq!(kind, "mkv");
    assert_eq!(images.len() as u64, number("images"), "{stats}");
    let last = images.last().expect("images");
    assert_eq!(last.size, Size::new(1280, 720));
    // Two tiles of 640×720: the wide image fills the width of its tile, the high one the height.
    let is_lit = |x: usize, y: usize| last.pixel(x, y).iter().any(|value| *value > 30);
    let lit = |xs: std::ops::Range<usize>, ys: std::ops::Range<usize>| {
        let points = xs
            .step_by(8)
            .flat_map(|x| ys.clone().step_by(8).map(move |y| (x, y)));
        let points: Vec<bool> = points.map(|(x, y)| is_lit(x, y)).collect();
        points.iter().filter(|is| **is).count() as f64 / points.len() as f64
    };
    assert!(lit(8..632, 190..530) > 0.9);
    assert!(lit(728..1192, 8..712) > 0.9);
    assert!(lit(8..632, 0..170) < 0.05, "black above the wide image");
    assert!(lit(648..710, 0..720) < 0.05, "black beside the high one");
}

#[test]
fn large_batches_are_recorded_completely_at_source_rate() {
    // One frame a second of each source, so that a loaded machine has the time to draw them: the burst of a batch must fit.
    let mut yaml = json_lines_config(&scene((160, 90), 5).replace("fps=30", "fps=1"));
    let at = yaml.find("detector:").expect("it is there");
    for other in 1..8 {
        let uri = format!("synthetic://traffic?seed={other}&width=160&height=90&fps=1&frames=5");
        yaml.insert_str(at, &format!("  - name: other{other}\n    uri: {uri}\n"));
    }
    // The sources do not start at the same time: a batch waits for all of them.
    let batches = "batch_size: 8\n  batch_timeout_ms: 900";
    let setup = Setup::new(&yaml.replace("workers: 2", batches));
    let (_, stats) = record(0, &setup, "tiles.mkv");
    let stages = stats["stages"].as_array().expect("a list");
    let infer = stages.iter().find(|stage| stage["stage"] == "infer");
    let count = |key: &str| {
        infer
            .and_then(|infer| infer[key].as_f64())
            .expect("a number")
    };
    assert!(count("items") / count("count") > 4.0, "{infer:?}");
    let recording = &stats["recording"];
    let number = |key: &str| recording[key].as_f64().expect("a number");
    let detected = stats["frames"].as_f64().expect("a number");
    assert_eq!(number("frames") + number("dropped"), detected, "{stats}");
    // A queue for half a batch would drop more; a machine that is busy for seconds may drop some.
    assert!(number("dropped") < number("frames") / 4.0, "{recording}");
    let (_, images) = decode_recording(&setup.path("tiles.mkv"));
    let ends = images.last().expect("images").at;
    // However late frames come on a busy machine, the file has the times of their capture.
    let lines = setup.lines();
    let frames = lines.iter().filter(|line| line["kind"] == "detections");
    let captured: Vec<f64> = frames
        .map(|line| seconds_of_day(line["frame_at"].as_str().expect("a time")))
        .collect();
    assert_eq!(captured.len() as f64, detected);
    let first = captured.iter().copied().fold(f64::MAX, f64::min);
    let last = captured.iter().copied().fold(f64::MIN, f64::max);
    // The last frame of each source may be among the dropped.
    let (earliest, latest) = (last - first - 1.2, last - first + 0.1);
    assert!(
        (earliest..latest).contains(&ends),
        "{ends} of {earliest} to {latest}"
    );
}

/// Seconds since the midnight before the test, of a time such as `2026-01-31T12:00:00.250Z`.
fn seconds_of_day(time: &str) -> f64 {
    let part = |range: std::ops::Range<usize>| time[range].parse::<f64>().expect("a number");
    let seconds = part(11..13) * 3600.0 + part(14..16) * 60.0 + part(17..23);
    // A test that runs at midnight goes on into the next day.
    match seconds < 600.0 {
        true => seconds + 86_400.0,
        false => seconds,
    }
}

#[test]
fn offline_or_removed_source_has_black_tile() {
    needs_onnx_runtime!();
    let lasting = |name: &str| {
        format!("  - name: {name}\n    uri: synthetic://traffic?width=320&height=180&fps=10\n")
    };
    let (cam, gone) = (lasting("cam"), lasting("gone"));
    let lost = "  - name: lost
    uri: \"launch:videotestsrc num-buffers=20 pattern=white ! video/x-raw,width=320,height=180,framerate=30/1 ! identity sync=true\"
    reconnect_wait_ms: 20000
";
    let rest = format!(
        "detector: {{backend: onnx, model: {MODEL}}}
publish: {{mqtt: off, detections: true, json_lines: {{path: events.jsonl}}}}
"
    );
    let setup = Setup::new(&format!("device: test\nsources:\n{cam}{gone}{lost}{rest}"));
    let mut command = setup.command("run");
    command.arg("--record").arg(setup.path("tiles.mkv"));
    let child = start(&mut command);
    let reported = |what: &str, is_it: &dyn Fn(&Value) -> bool, times: usize| {
        wait_until_some(what, || {
            let lines = setup.lines();
            (lines.iter().filter(|line| is_it(line)).count() >= times).then_some(())
        });
    };
    let frame_of = |name: &'static str| {
        move |line: &Value| line["kind"] == "detections" && line["source"] == name
    };
    reported(
        "it is lost",
        &|line| line["source"] == "lost" && line["state"] == "offline",
        1,
    );
    reported("frames of all", &frame_of("gone"), 20);
    let fewer = format!("device: test\nsources:\n{cam}{lost}{rest}");
    fs::write(&setup.config, fewer).expect("the folder is writable");
    signal(&child, Signal::HUP);
    reported("the reload's message", &|line| line["kind"] == "reload", 1);
    let lines = setup.lines();
    let observed = lines.iter().filter(|line| frame_of("cam")(line)).count();
    reported("some more frames", &frame_of("cam"), observed + 10);
    terminate(child);

    let (_, images) = decode_recording(&setup.path("tiles.mkv"));
    // Two columns of two rows; the third tile is below the first.
    let is_lit = |image: &RecordedImage, (left, top): (usize, usize)| {
        let points = (40..600).step_by(40).map(|x| (left + x, top + 180));
        points
            .clone()
            .filter(|(x, y)| image.pixel(*x, *y).iter().any(|value| *value > 40))
            .count()
            * 2
            > points.count()
    };
    let [cam, gone, lost] = [(0, 0), (640, 0), (0, 360)];
    for place in [cam, gone, lost] {
        assert!(images.iter().any(|image| is_lit(image, place)), "{place:?}");
    }
    let last = images.last().expect("images");
    let lit = [cam, gone, lost].map(|place| is_lit(last, place));
    assert_eq!(lit, [true, false, false]);
}

#[test]
fn odd_sizes_and_other_files_are_recorded() {
    let setup = Setup::new(&json_lines_config(&scene((161, 121), 20)));
    let (_, stats) = record(0, &setup, "out.webm");
    let (kind, images) = decode_recording(&setup.path("out.webm"));
    assert_eq!(kind, "webm");
    let found = stats["recording"]["images"].as_u64();
    assert_eq!(found, Some(images.len() as u64));
    assert_eq!(images[0].size, Size::new(162, 122));
}

/// OpenH264 writes an error to standard error when it is asked for the rest of a stream, as seen on a new Ubuntu 24.04 and Debian 12.
#[test]
fn openh264_ends_without_an_error() {
    let scene = scene((160, 120), 30) + "&realtime=false";
    let setup = Setup::new(&json_lines_config(&scene));
    let plugins = plugins_without(&setup.path("."), &["x264"]);
    if !plugins.join("libgstopenh264.so").exists() {
        eprintln!("skipped: GStreamer has no plug-in for OpenH264 here");
        return;
    }
    let mut command = setup.command("run");
    command
        .env("GST_PLUGIN_SYSTEM_PATH_1_0", &plugins)
        .env("GST_REGISTRY_1_0", setup.path("registry.bin"))
        .arg("--record")
        .arg(setup.path("out.mp4"));
    let printed = exits(0, &mut command).err;
    assert_has!(printed => "openh264enc");
    assert!(!printed.contains("[OpenH264]"), "{printed}");
    assert_eq!(decode_recording(&setup.path("out.mp4")).1.len(), 30);
}

#[test]
fn unrecordable_input_is_reported() {
    let setup = Setup::new(&json_lines_config(&scene((160, 120), 30)));
    let run = |code: i32, path: &str| {
        exits(
            code,
            setup.command("run").arg("--record").arg(setup.path(path)),
        )
        .err
    };
    let kind = "the name ends in .avi, expected a name that ends in .mp4";
    assert_has!(run(2, "out.avi") => kind);
    assert_has!(run(1, "nowhere/out.mp4") => "No such file", "choose a folder that exists");
}

#[test]
fn recording_does_not_overwrite_input_video() {
    // Refused before any network is opened.
    let yaml = json_lines_config("uri: in.mp4");
    let setup = Setup::new(&yaml.replace("scripted", &format!("onnx\n  model: {MODEL}")));
    let video = mp4(&setup.path("."), "in.mp4", 320, 180, 10);
    let before = fs::read(&video).expect("the clip is there");
    symlink("in.mp4", setup.path("also.mp4")).expect("a link can be made");
    for (option, name) in [
        ("--record", "in.mp4"),
        ("--record", "also.mp4"),
        ("--stats", "in.mp4"),
        ("--dump-detections", "in.mp4"),
    ] {
        let text = exits(1, setup.command("run").arg(option).arg(setup.path(name))).err;
        assert_has!(text => "is the input of sources[0].uri");
        let after = fs::read(&video).expect("it is still there");
        assert!(after == before, "{option} {name} wrote over it");
    }
}

#[test]
fn full_disk_stops_recording_but_not_detection() {
    let setup = Setup::new(&json_lines_config(&scene((640, 360), 60)));
    symlink("/dev/full", setup.path("out.mkv")).expect("a link can be made");
    let (text, stats) = record(1, &setup, "out.mkv");
    assert_has!(text => "ended early", "free disk space", "plays up to there", "incomplete recording to");
    let detected = stats["frames"].as_u64().expect("a number");
    assert!(detected >= 30, "detection went on: {stats}");
    let recording = &stats["recording"];
    let number = |key: &str| recording[key].as_u64().expect("a number");
    assert_eq!(number("frames") + number("dropped"), detected, "{stats}");
}

#[test]
fn full_disk_leaves_an_mp4_that_is_reported_as_unplayable() {
    let setup = Setup::new(&json_lines_config(&scene((640, 360), 60)));
    symlink("/dev/full", setup.path("out.mp4")).expect("a link can be made");
    let (text, _) = record(1, &setup, "out.mp4");
    assert!(
        text.contains("cannot be played") && !text.contains(" recorded to"),
        "{text}"
    );
}
