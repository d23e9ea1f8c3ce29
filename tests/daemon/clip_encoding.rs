// SPDX-License-Identifier: Apache-2.0
//! Video of sources that bring no encoded stream: encoded by the machine's encoder within its limits, read back by FFmpeg.

use crate::support;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use jetwatch_config::{Config, EncodingConfig, SourceUri};
use jetwatch_media::RingUnit;
use jetwatch_types::{Size, VideoCodec};

use crate::clips::files;
use support::clips::{plugins_without, theora};
use support::daemon::{
    Setup, exits, finish, json_lines_config, start, stderr, terminate, wait_until_some,
};
use support::ffprobe::{decode, probe};
use support::jetson_elements::{self, JetsonElements};
use support::stream_capture::{capture_within, units, write_clip};
use support::virtual_jetson::VirtualJetson;

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

/// Records a camera of a virtual Jetson until `frames` images are in its file; returns the log, the file and the elements' work.
fn record_on_jetson(
    elements: &JetsonElements,
    camera: &str,
    frames: usize,
) -> (Setup, String, PathBuf) {
    let machine = VirtualJetson::xavier_nx();
    let source = format!("{{name: cam, {camera}}}");
    let setup = Setup::new(&recorded(
        &source,
        &format!("{{model: {MODEL}, workers: 1}}"),
    ));
    let mut run = setup.command("run");
    run.arg("--root").arg(machine.path("/"));
    let daemon = start(run.envs(elements.environment()));
    let path = wait_until_some("some seconds are written", || {
        let found = files(&setup.path("media"), ".mp4").pop()?;
        (probe(&found).ok()?.pts.len() >= frames).then_some(found)
    });
    let log = terminate(daemon);
    (setup, log, path)
}

/// A camera on CSI, whose images are in NVMM, and one in the CPU's memory.
const CSI: &str = "uri: 'csi://0', width: 640, height: 360, fps: 30";
const RAW: &str = "uri: 'launch:videotestsrc is-live=true ! video/x-raw,format=YUY2,width=640,height=360,framerate=30/1 ! identity'";

#[test]
fn cameras_of_a_jetson_are_encoded_by_nvenc() {
    // NVMM images come through the converter's pool, too: never those of the camera.
    for (camera, format) in [(CSI, "I420"), (RAW, "NV12")] {
        let elements = JetsonElements::new();
        let (_setup, log, path) = record_on_jetson(&elements, camera, 45);
        assert!(!log.contains("the next encoder"), "{camera}: {log}");
        let probed = probe(&path).expect("it is read");
        assert_eq!((probed.width, probed.height), (640, 360), "{camera}");
        // The distance of two seconds at the limit of 15 images a second.
        let mut distances = probed.keyframes.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(distances.all(|distance| distance == 30), "{camera}");
        assert_eq!(decode(&path), (probed.pts.len(), String::new()), "{camera}");
        let work = elements.activity();
        let encoder = work.iter().find(|work| work.element == "nvv4l2h264enc");
        let encoder = encoder.unwrap_or_else(|| panic!("{camera}: {work:?}"));
        let from: Vec<_> = encoder.from.split(' ').take(3).collect();
        let seen = (encoder.engine.as_str(), from);
        assert_eq!(seen, ("NVENC", vec!["NVMM", format, "640x360"]), "{camera}");
        assert!(
            encoder.frames >= 45 && !encoder.cpu_copy,
            "{camera}: {encoder:?}"
        );
    }
}

/// An Orin Nano has the element and no NVENC (dusty-nv/jetson-utils#197, insight-platform/Savant#450, wendylabsinc/WendyOS#1518,
/// OE4T/meta-tegra#463, NVIDIA-ISAAC-ROS/isaac_ros_compression#5); an encoder that fails at its first image (Keylost/jetson-ffmpeg#43, #44);
/// one that takes images and gives nothing until the pool is exhausted (jocover/jetson-ffmpeg#8, #80).
#[test]
fn the_cpu_encodes_where_nvenc_does_not() {
    for (camera, state, reason) in [
        (
            CSI,
            "nvenc-missing",
            "nvv4l2h264enc: Error getting capabilities for device",
        ),
        (
            RAW,
            "nvenc-broken",
            "nvv4l2h264enc: Failed to process frame.",
        ),
        (
            CSI,
            "nvenc-silent",
            "nvv4l2h264enc did not take an image within 5 s",
        ),
    ] {
        let elements = JetsonElements::new();
        elements.write(state, "");
        let (_setup, log, path) = record_on_jetson(&elements, camera, 30);
        assert_once!(log => reason);
        assert_has!(log => "the next encoder is tried");
        // The camera does not wait for it.
        assert!(!log.contains("no frame for"), "{state}: {log}");
        let frames = probe(&path).expect("it is read").pts.len();
        assert_eq!(decode(&path), (frames, String::new()), "{state}");
    }
}

/// The end of the stream that does not come out of NVENC delays the end of the daemon by a second.
#[test]
fn an_encoder_without_an_end_does_not_hold_the_daemon() {
    let elements = JetsonElements::new();
    elements.write("nvenc-without-end", "");
    let (_setup, log, path) = record_on_jetson(&elements, CSI, 45);
    assert!(!log.contains("did not end"), "{log}");
    let frames = probe(&path).expect("it is read").pts.len();
    assert_eq!(decode(&path), (frames, String::new()));
}

#[test]
fn annotated_video_is_encoded_by_nvenc_where_it_opens() {
    let scene = "uri: 'synthetic://traffic?seed=3&objects=6&width=640&height=360&fps=30&frames=30'";
    for (state, encoder) in [("", "nvv4l2h264enc"), ("nvenc-missing", "x264enc")] {
        let elements = JetsonElements::new();
        if !state.is_empty() {
            elements.write(state, "");
        }
        let setup = Setup::new(&json_lines_config(scene));
        let mut run = setup.command("run");
        let path = setup.path("out.mp4");
        run.arg("--record").arg(&path).envs(elements.environment());
        let log = exits(0, &mut run).err;
        assert_has!(log => &format!("encoder={encoder}"));
        let frames = probe(&path).expect("it is read").pts.len();
        assert_eq!(decode(&path), (frames, String::new()), "{encoder}");
        let has_work = |work: &jetson_elements::ElementActivity| work.engine == "NVENC";
        assert_eq!(elements.activity().iter().any(has_work), state.is_empty());
    }
}
