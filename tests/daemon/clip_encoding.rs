// SPDX-License-Identifier: Apache-2.0
//! Video of sources that bring no encoded stream: encoded by the machine's encoder within its limits, read back by FFmpeg.

use crate::support;

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use jetwatch_config::{Config, EncodingConfig, SourceUri};
use jetwatch_media::RingUnit;
use jetwatch_types::{Size, VideoCodec};

use crate::clips::files;
use support::clips::{plugins_without, theora};
use support::daemon::{Setup, exits, finish, start, stderr, terminate, wait_until_some};
use support::ffprobe::{decode, probe};
use support::jetson_elements;
use support::stream_capture::{capture_within, units, write_clip};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/street-nano");

/// Continuous recording of these sources by this detector. The device of the test may be nearly full.
fn recorded(sources: &str, detector: &str) -> String {
    format!(
        "device: test\nsources: [{sources}]\ndetector: {detector}\nrecord: {{folder: media, continuous: {{enabled: true}}, \
            retention: {{min_free_bytes: 1MiB, min_free_percent: 0}}}}\npublish: {{mqtt: off, json_lines: {{path: events.jsonl}}}}\n"
    )
}

fn pts_of(units: &[RingUnit]) -> Vec<Duration> {
    let pts = units.iter().map(|unit| unit.unit.pts.expect("a time"));
    pts.collect()
}

#[test]
fn raw_and_jpeg_video_is_encoded_within_its_limits() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = EncodingConfig {
        max_fps: 10,
        max_bitrate_kbps: 300,
    };
    // Noise: without a limit of the bit rate these images have some Mbit/s. Sides of 4:2:0 are even.
    let noise = "videotestsrc pattern=snow is-live=true";
    #[rustfmt::skip]
    let cases = [
        ("raw", "video/x-raw,format=NV12,width=320,height=181,framerate=30/1", ""),
        ("rgb", "video/x-raw,format=RGB,width=320,height=180,framerate=30/1", ""),
        ("jpeg", "video/x-raw,format=I420,width=320,height=180,framerate=30/1", " ! jpegenc"),
    ];
    for (name, caps, encoded) in cases {
        let uri = SourceUri::Launch(format!("{noise} ! {caps}{encoded}"));
        let captured = capture_within(uri, 150, limits);
        let formats = captured.formats.lock().unwrap().clone();
        assert_eq!(formats.len(), 1, "{name}: {formats:?}");
        assert_eq!(formats[0].codec, VideoCodec::H264, "{name}");
        assert_eq!(formats[0].size, Size::new(320, 180), "{name}");
        let units = units(&captured.stream);
        let pts = pts_of(&units);
        // Five seconds; a busy machine may leave some out.
        assert!(
            (20..=51).contains(&pts.len()),
            "{name}: {} images",
            pts.len()
        );
        let near = |pair: &[Duration]| pair[1] - pair[0] < Duration::from_millis(80);
        assert!(!pts.windows(2).any(near), "{name}: {pts:?}");
        let frames: BTreeSet<_> = captured.frame_pts.lock().unwrap().iter().copied().collect();
        let matched = pts.iter().filter(|pts| frames.contains(pts)).count();
        assert!(
            matched * 10 >= pts.len() * 9,
            "{name}: {matched} of {}",
            pts.len()
        );
        let keyframes: Vec<_> = units.iter().filter(|unit| unit.unit.is_keyframe).collect();
        assert!(keyframes.len() >= 2, "{name}: {}", keyframes.len());

        let bytes: usize = units.iter().map(|unit| unit.unit.bytes.len()).sum();
        let seconds = (pts[pts.len() - 1] - pts[0]).as_secs_f64() + 0.1;
        let kbps = bytes as f64 * 8.0 / 1000.0 / seconds;
        // The buffer of the rate control holds one second.
        assert!(
            kbps < 300.0 * (seconds + 1.0) / seconds,
            "{name}: {kbps} kbit/s"
        );
        assert!(kbps > 100.0, "{name}: {kbps} kbit/s");
        let path = folder.path().join(format!("{name}.mp4"));
        write_clip(&path, &units);
        let probed = probe(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((probed.width, probed.height), (320, 180), "{name}");
        assert_eq!(decode(&path), (units.len(), String::new()), "{name}");
    }
}

#[test]
fn files_wait_for_the_encoder() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = theora(folder.path(), "a.ogv", 640, 360, 90);
    let every = EncodingConfig {
        max_fps: 60,
        ..EncodingConfig::default()
    };
    let drawn =
        "synthetic://traffic?seed=3&objects=6&width=640&height=360&fps=30&frames=90&realtime=false";
    let text = format!("sources: [{{name: a, uri: '{drawn}'}}]\ndetector: {{backend: scripted}}\n");
    let drawn = Config::from_str("f.yaml", &text).expect("complete");
    let scene = drawn.sources[0].uri.clone();
    for (name, uri) in [("theora", SourceUri::File(path)), ("drawn", scene)] {
        let captured = capture_within(uri, usize::MAX, every);
        let units = units(&captured.stream);
        let found = pts_of(&units);
        assert_eq!(found, *captured.frame_pts.lock().unwrap(), "{name}");
        assert_eq!(units.len(), 90, "{name}");
        let path = folder.path().join(format!("{name}.mp4"));
        write_clip(&path, &units);
        assert_eq!(decode(&path), (90, String::new()), "{name}");
    }
}

/// The camera is the double of v4l2src in `tests/virtual_jetson`.
#[test]
fn h264_of_a_usb_camera_is_kept_as_it_comes() {
    let plugins = jetson_elements::plugin().join("usb");
    let setup = Setup::new("");
    let camera = setup.path("video0");
    fs::write(&camera, "h264 640 360 30").expect("written");
    let source = format!(
        "{{name: cam, uri: 'v4l2://{}', format: h264, width: 640, height: 360, fps: 30}}",
        camera.display()
    );
    let text = recorded(&source, &format!("{{model: {MODEL}, workers: 1}}"));
    fs::write(&setup.config, text).expect("written");
    let folder = tempfile::tempdir().expect("a folder");
    let mut run = setup.command("run");
    // Which of two elements of this name is taken is not the same in all releases of GStreamer.
    let others = plugins_without(folder.path(), &["video4linux2"]);
    run.env("GST_PLUGIN_PATH_1_0", &plugins)
        .env("GST_PLUGIN_SYSTEM_PATH_1_0", others)
        .env("GST_REGISTRY_1_0", folder.path().join("registry.bin"));
    let daemon = start(&mut run);
    let path = wait_until_some("some seconds are written", || {
        let found = files(&setup.path("media"), ".mp4").pop()?;
        (probe(&found).ok()?.pts.len() >= 60).then_some(found)
    });
    let log = terminate(daemon);
    assert!(!log.contains("its video is"), "{log}");
    let probed = probe(&path).expect("it is read");
    assert_eq!((probed.width, probed.height), (640, 360));
    // Every image of the camera, and its keyframes: an encoder of ours has 15 images a second and other distances.
    let step = probed.pts.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(
        step.clone().all(|step| (2900..=3100).contains(&step)),
        "{:?}",
        step.collect::<Vec<_>>()
    );
    let distances = probed.keyframes.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(distances.clone().all(|distance| distance == 15));
    assert_eq!(decode(&path), (probed.pts.len(), String::new()));
}

/// No other source uses GStreamer, so that the encoder must initialize it.
#[test]
fn drawn_scene_alone_is_recorded() {
    let scene = "{name: cam, uri: 'synthetic://traffic?width=320&height=180&fps=10&frames=30&realtime=false'}";
    let setup = Setup::new(&recorded(scene, "{backend: scripted}"));
    exits(0, &mut setup.command("run"));
    let found = files(&setup.path("media"), ".mp4");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(decode(&found[0]), (30, String::new()));
}

#[test]
fn machine_without_an_encoder_says_so_and_detects() {
    let folder = tempfile::tempdir().expect("a folder");
    let plugins = plugins_without(folder.path(), &["x264", "openh264"]);
    let video = theora(folder.path(), "a.ogv", 320, 180, 30);
    let source = format!("{{name: cam, uri: {}}}", video.display());
    let detector = format!("{{model: {MODEL}, workers: 1}}");
    let setup = Setup::new(&recorded(&source, &detector));
    let limited = |command: &str| {
        let mut command = setup.command(command);
        command
            .env("GST_PLUGIN_SYSTEM_PATH_1_0", &plugins)
            .env("GST_REGISTRY_1_0", folder.path().join("registry.bin"));
        finish(&mut command)
    };
    let missing =
        "this machine has no H.264 encoder; install one of gstreamer1.0-plugins-ugly (x264enc)";
    let output = limited("run");
    assert!(output.status.success(), "{}", stderr(&output));
    let log = stderr(&output);
    assert_once!(log => missing);
    assert_has!(log => "frames=30");
    let output = limited("check");
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(report.contains(missing), "{report}");
    assert!(!output.status.success(), "{report}");
}
