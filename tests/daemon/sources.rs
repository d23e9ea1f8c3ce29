// SPDX-License-Identifier: Apache-2.0
//! Sources with real media, real servers and damaged data.

use crate::support;

use std::fs;
use std::path::Path;
use std::time::Duration;

use jetwatch_config::{RtspTransport, SourceUri, SyntheticScene};
use jetwatch_platform::SysRoot;
use jetwatch_source::SourceError;
use jetwatch_telemetry::Stage;
use jetwatch_types::Size;

use support::clips;
use support::collector::{CollectedFrame, Collector, config, failure_of, frames_of, rtsp};
use support::daemon::{Signal, wait_until_some};
use support::picture::write_flat;
use support::rtsp::RtspServer;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

fn file(path: &Path) -> SourceUri {
    SourceUri::File(path.to_owned())
}

#[test]
fn file_is_delivered_completely_in_order_and_scaled() {
    let folder = folder();
    let clip = clips::mp4(folder.path(), "a.mp4", 320, 240, 45);
    let frames = frames_of(&config(file(&clip)));
    assert!(frames.iter().map(|frame| frame.meta.seq).eq(0..45));
    for frame in &frames {
        let found = (frame.meta.source_size, frame.image);
        assert_eq!(found, (Size::new(320, 240), Size::new(416, 312)));
        assert!(frame.mean > 0.1, "the ball is drawn: {}", frame.mean);
    }
    let times: Vec<_> = frames
        .iter()
        .map(|frame| frame.meta.pts.expect("MP4 has times"))
        .collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
}

/// Delivers frames with full images, which have the size of the source and show the same as the network's image.
fn with_full_images(uri: SourceUri) -> Vec<CollectedFrame> {
    let source = config(uri);
    let (frames, result) =
        Collector::start_with_full_images(&SysRoot::default(), &source, usize::MAX).join();
    result.unwrap_or_else(|error| panic!("{}: {error}", source.uri));
    for (place, frame) in frames.iter().enumerate() {
        assert_eq!(frame.meta.seq, place as u64, "{}", source.uri);
        let (size, mean) = frame.full_image.expect("each frame has its view");
        assert_eq!(size, frame.meta.source_size, "{}", source.uri);
        let apart = (mean - frame.mean).abs();
        assert!(apart < 2.0, "{}: {mean} and {}", source.uri, frame.mean);
    }
    frames
}

#[test]
fn full_images_are_delivered_when_requested() {
    let folder = folder();
    let clip = file(&clips::mp4(folder.path(), "a.mp4", 320, 240, 45));
    assert_eq!(with_full_images(clip.clone()).len(), 45);
    let clip_of_two = clips::two_resolutions(folder.path(), (320, 240), (640, 272), 20);
    let frames = with_full_images(file(&clip_of_two));
    assert_eq!(frames.len(), 40);
    let sizes = |frame: &CollectedFrame| (frame.meta.source_size, frame.image);
    let before = (Size::new(320, 240), Size::new(416, 312));
    let after = (Size::new(640, 272), Size::new(416, 176));
    assert!(frames[..20].iter().all(|frame| sizes(frame) == before));
    assert!(frames[20..].iter().all(|frame| sizes(frame) == after));
    let scene = SyntheticScene {
        seed: 7,
        objects: 6,
        width: 320,
        height: 180,
        fps: 30,
        frames: Some(10),
        shake: 0,
        pacing: jetwatch_config::Pacing::Unlimited,
    };
    assert_eq!(with_full_images(SourceUri::Synthetic(scene)).len(), 10);
    let frames = frames_of(&config(clip));
    // Not asked.
    assert!(frames.iter().all(|frame| frame.full_image.is_none()));
}

#[test]
fn full_image_belongs_to_its_frame() {
    // Each image is of one brightness, which differs from that of the next; their size is odd.
    let elements = "videotestsrc num-buffers=20 pattern=blink ! video/x-raw,format=I420,width=321,height=241,framerate=30/1 ! identity name=video";
    let source = config(SourceUri::Launch(elements.to_owned()));
    let (frames, result) =
        Collector::start_with_full_images(&SysRoot::default(), &source, 20).join();
    result.expect("it was stopped");
    assert_eq!(frames.len(), 20);
    for (place, frame) in frames.iter().enumerate() {
        let (size, mean) = frame.full_image.expect("each frame has its view");
        assert_eq!(size, Size::new(321, 241));
        assert!(
            (mean - frame.mean).abs() < 2.0,
            "frame {place}: {mean}, {}",
            frame.mean
        );
        let is_bright = mean > 128.0;
        let before = frames[place.saturating_sub(1)].mean > 128.0;
        assert!(
            place == 0 || is_bright != before,
            "frame {place} blinks: {mean}"
        );
    }
}

#[test]
fn odd_and_tiny_sizes() {
    let folder = folder();
    for (width, height) in [(1, 1), (3, 5), (17, 1), (641, 479)] {
        let name = format!("{width}x{height}.ogv");
        let path = clips::theora(folder.path(), &name, width, height, 5);
        let frames = frames_of(&config(file(&path)));
        assert_eq!(frames.len(), 5, "{width}×{height}");
        assert_eq!(frames[0].meta.source_size, Size::new(width, height));
    }
}

#[test]
fn a_loop_starts_over_and_goes_on_counting() {
    let folder = folder();
    let mut config = config(file(&clips::mp4(folder.path(), "a.mp4", 64, 48, 10)));
    config.loop_at_end = true;
    let (frames, result) = Collector::start(&config, 35).join();
    result.expect("the file is sound");
    assert!(frames.iter().map(|frame| frame.meta.seq).eq(0..35));
}

#[test]
fn missing_empty_foreign_and_audioless_files_are_reported() {
    let folder = folder();
    let empty = folder.path().join("empty.mp4");
    fs::write(&empty, []).unwrap();
    let text = folder.path().join("text.mp4");
    fs::write(&text, "This is no video.\n".repeat(100)).unwrap();
    let sound = folder.path().join("sound.wav");
    clips::gst_launch(&format!(
        "audiotestsrc num-buffers=10 ! wavenc ! filesink location={}",
        sound.display()
    ));
    for (path, expected) in [
        (Path::new("/nonexistent/a.mp4"), "/nonexistent/a.mp4"),
        (&*empty, "no video frame"),
        (&*text, "text file"),
        (&*sound, "no video stream"),
    ] {
        let text = failure_of(&config(file(path))).to_string();
        assert!(text.contains(expected), "{}: {text}", path.display());
    }
}

#[test]
fn file_that_is_damaged_in_the_middle_delivers_what_is_before() {
    let folder = folder();
    let stream = folder.path().join("a.avi");
    fs::rename(clips::mjpeg(folder.path(), "b.avi", 320, 240, 60), &stream).unwrap();
    let mut bytes = fs::read(&stream).unwrap();
    let (middle, end) = (bytes.len() / 2, bytes.len() / 2 + 3_000);
    bytes[middle..end].fill(0xa5);
    fs::write(&stream, bytes).unwrap();
    let (frames, _) = Collector::start(&config(file(&stream)), usize::MAX).join();
    assert!(
        frames.len() >= 20,
        "the part before the damage: {} frames",
        frames.len()
    );
}

#[test]
fn ended_live_launch_fragment_is_reopened() {
    let uri = SourceUri::Launch("videotestsrc num-buffers=5 is-live=true ! video/x-raw,width=64,height=48,framerate=100/1 ! identity".to_owned());
    let (frames, result) = {
        let collector = Collector::start(&config(uri), 12);
        wait_until_some("two sessions", || {
            (collector.counters.reconnects() >= 2).then_some(())
        });
        collector.join()
    };
    result.expect("it was stopped");
    assert_eq!(frames.len(), 12);
}

#[test]
fn csi_is_rejected_without_camera_support() {
    let uri = SourceUri::Csi {
        sensor: 0,
        mode: None,
        size: None,
        fps: None,
    };
    assert_has!(failure_of(&config(uri)).to_string() => "v4l2://");
}

#[test]
fn rtsp_over_tcp_and_udp() {
    let server = RtspServer::start(0, &[]);
    for transport in [RtspTransport::Tcp, RtspTransport::Udp] {
        let uri = SourceUri::Rtsp {
            location: server.uri(),
            user: None,
            password: None,
            transport,
            latency: Duration::from_millis(100),
        };
        let (frames, result) = Collector::start(&config(uri), 20).join();
        result.unwrap_or_else(|error| panic!("{transport:?}: {error}"));
        assert_eq!(frames.len(), 20, "{transport:?}");
        assert_eq!(frames[0].meta.source_size, Size::new(320, 240));
    }
}

#[test]
fn frozen_rtsp_server_is_stall() {
    let server = RtspServer::start(0, &[]);
    let mut config = config(rtsp(server.uri(), None));
    config.stall_timeout = Duration::from_secs(3);
    let collector = Collector::start(&config, usize::MAX);
    wait_until_some("frames", || (collector.count() >= 10).then_some(()));
    server.signal(Signal::STOP);
    // A busy server may have been too slow for the first session, too.
    let earlier = collector.offline_reasons().len();
    let troubles = wait_until_some("the stall is seen", || {
        Some(collector.offline_reasons()).filter(|troubles| troubles.len() > earlier)
    });
    assert_has!(troubles[earlier] => "stall_timeout_ms");
    server.signal(Signal::CONT);
    let before = collector.count();
    wait_until_some("frames again", || {
        (collector.count() >= before + 10).then_some(())
    });
    collector.stop().1.expect("it was stopped");
}

#[test]
fn dot_graphs_on_changes_of_state_and_on_request() {
    let (folder, dots) = (folder(), folder().keep());
    let mut config = config(file(&clips::mp4(folder.path(), "a.mp4", 64, 48, 10)));
    config.loop_at_end = true;
    let collector = Collector::start_with_dot(&config, usize::MAX, Some(dots.clone()));
    wait_until_some("frames", || (collector.count() >= 1).then_some(()));
    collector.ask_for_dot();
    // The first frame comes before the pipeline plays.
    let names = wait_until_some("graphs of the last change and on request", || {
        let names: Vec<String> = fs::read_dir(&dots)
            .ok()?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        ["-cam-paused-playing.dot", "-cam-asked.dot"]
            .iter()
            .all(|end| names.iter().any(|name| name.ends_with(end)))
            .then_some(names)
    });
    collector.stop().1.expect("it was stopped");
    let asked = names.iter().find(|name| name.ends_with("asked.dot"));
    let graph = fs::read_to_string(dots.join(asked.unwrap())).unwrap();
    assert_has!(graph => "digraph", "GstVideoScale", "GstAppSink");
    fs::remove_dir_all(dots).unwrap();
}

#[test]
fn image_folder_is_delivered_by_name_in_any_size() {
    let folder = folder();
    let save = |name: &str, width, height, level| {
        write_flat(&folder.path().join(name), width, height, [level; 3]);
    };
    save("b.jpg", 320, 240, 50);
    save("a.png", 17, 200, 100);
    save("c.jpeg", 640, 480, 150);
    fs::write(folder.path().join("b2.jpg"), "damaged").expect("the folder is writable");
    let collector = Collector::start(
        &config(SourceUri::Images(folder.path().to_owned())),
        usize::MAX,
    );
    let recorder = collector.recorder.clone();
    let (frames, result) = collector.join();
    result.expect("a source that ends");
    let decoded = recorder.latency(Stage::VideoDecode);
    assert_eq!(decoded.map(|times| times.frames), Some(4));
    let seen: Vec<_> = frames
        .iter()
        .map(|frame| (frame.meta.source_size, frame.image, frame.meta.pts))
        .collect();
    // The timestamp is the index in the list, including the damaged one.
    let place = |seconds| Some(Duration::from_secs(seconds));
    let wanted = [
        (Size::new(17, 200), Size::new(35, 416), place(0)),
        (Size::new(320, 240), Size::new(416, 312), place(1)),
        (Size::new(640, 480), Size::new(416, 312), place(3)),
    ];
    assert_eq!(seen, wanted);
    for (frame, level) in frames.iter().zip([100.0, 50.0, 150.0]) {
        assert!((frame.mean - level).abs() < 2.0, "{}", frame.mean);
    }
}

#[test]
fn image_folder_loops_when_configured_and_empty_folder_is_error() {
    let folder = folder();
    let mut config = config(SourceUri::Images(folder.path().to_owned()));
    config.loop_at_end = true;
    assert_has!(failure_of(&config).to_string() => "no picture that is read (.jpg, .jpeg, .png)");
    fs::write(folder.path().join("a.jpg"), "damaged").expect("the folder is writable");
    let (_, result) = Collector::start(&config, usize::MAX).join();
    assert!(matches!(result, Err(SourceError::Empty)), "{result:?}");
    write_flat(&folder.path().join("b.png"), 8, 8, [0; 3]);
    let (frames, result) = Collector::start(&config, 5).join();
    result.expect("a stop is no error");
    assert_eq!(frames.len(), 5);
}
