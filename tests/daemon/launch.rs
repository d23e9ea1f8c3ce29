// SPDX-License-Identifier: Apache-2.0
//! `launch:` fragments: what runs in gst-launch-1.0 and ends in video runs here, also with demuxers and decodebin.

use crate::support;

use std::path::{Path, PathBuf};

use jetwatch_source::SourceError;
use jetwatch_telemetry::Stage;
use jetwatch_types::Size;

use support::clips::{self, gst_launch};
use support::collector::{Collector, config, failure_of, first_reason, launch};
use support::daemon::wait_until_some;
use support::rtsp::RtspServer;

/// Frames of each clip.
const FRAMES: usize = 20;

/// Size of each clip.
const SIZE: Size = Size::new(160, 96);

/// H.264 in MP4, H.264 with sound in Matroska, the same with the sound first, Theora with sound in Ogg, and sound alone.
struct Clips {
    _folder: tempfile::TempDir,
    mp4: PathBuf,
    mkv: PathBuf,
    sound_first: PathBuf,
    ogg: PathBuf,
    sound: PathBuf,
}

impl Clips {
    fn make() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = |name: &str| folder.path().join(name);
        let video = format!(
            "videotestsrc num-buffers={FRAMES} pattern=ball ! video/x-raw,format=I420,width={},height={},framerate=30/1",
            SIZE.width, SIZE.height
        );
        let h264 = "x264enc speed-preset=ultrafast key-int-max=10 bframes=0 ! h264parse";
        let sound = "audiotestsrc num-buffers=40 ! audioconvert ! vorbisenc";
        let mux = |muxer: &str, name: &str, first: &str, second: &str| {
            gst_launch(&format!(
                "{muxer} name=mux ! filesink location={} {first} ! queue ! mux. {second} ! queue ! mux.",
                path(name).display()
            ));
            path(name)
        };
        let video_h264 = format!("{video} ! {h264}");
        gst_launch(&format!(
            "{sound} ! oggmux ! filesink location={}",
            path("sound.ogg").display()
        ));
        Self {
            mp4: clips::mp4(
                folder.path(),
                "a.mp4",
                SIZE.width,
                SIZE.height,
                FRAMES as u32,
            ),
            mkv: mux("matroskamux", "a.mkv", &video_h264, sound),
            sound_first: mux("matroskamux", "b.mkv", sound, &video_h264),
            ogg: mux("oggmux", "a.ogg", &format!("{video} ! theoraenc"), sound),
            sound: path("sound.ogg"),
            _folder: folder,
        }
    }

    /// Puts the paths into a fragment.
    fn fill(&self, fragment: &str) -> String {
        let text = |path: &Path| path.display().to_string();
        fragment
            .replace("SOUND_FIRST", &text(&self.sound_first))
            .replace("MP4", &text(&self.mp4))
            .replace("MKV", &text(&self.mkv))
            .replace("OGG", &text(&self.ogg))
            .replace("SOUND", &text(&self.sound))
    }
}

/// All frames of the fragment come, in order and in one session.
fn assert_runs(fragment: &str) {
    let source = config(launch(fragment));
    let collector = Collector::start(&source, FRAMES);
    wait_until_some(fragment, || {
        let reason = || {
            let states = collector.states.lock().unwrap();
            states.iter().find_map(|(_, reason)| reason.clone())
        };
        let is_complete = collector.frames.lock().unwrap().len() >= FRAMES;
        if let Some(reason) = reason().filter(|_| !is_complete) {
            panic!("{fragment}: {reason}");
        }
        is_complete.then_some(())
    });
    let (frames, result) = collector.join();
    result.unwrap_or_else(|error| panic!("{fragment}: {error}"));
    let numbers: Vec<u64> = frames.iter().map(|frame| frame.meta.seq).collect();
    let wanted = (0..FRAMES as u64).collect::<Vec<_>>();
    assert_eq!(numbers, wanted, "{fragment}");
    for frame in &frames {
        assert_eq!(frame.meta.source_size, SIZE, "{fragment}");
        assert!(frame.mean > 0.1, "{fragment}: an empty image");
    }
}

#[test]
fn fragments_with_demuxers_and_decodebin_run() {
    let clips = Clips::make();
    for fragment in [
        "filesrc location=MP4",
        "filesrc location=MP4 ! qtdemux",
        "filesrc location=MP4 ! qtdemux ! h264parse",
        "filesrc location=MP4 ! qtdemux ! queue ! h264parse ! avdec_h264 ! videoconvert",
        "filesrc location=MP4 ! qtdemux name=d d.video_0 ! queue",
        "filesrc location=MKV ! matroskademux ! h264parse",
        "filesrc location=MKV ! matroskademux name=demux demux. ! queue ! h264parse ! video/x-h264,stream-format=byte-stream",
        "filesrc location=MKV ! matroskademux name=d d.video_0 ! queue d.audio_0 ! queue",
        "filesrc location=MKV ! matroskademux name=d d.audio_0 ! queue ! vorbisdec ! audioconvert d.video_0 ! queue ! avdec_h264",
        "filesrc location=MKV ! matroskademux name=d d.audio_0 ! queue ! fakesink",
        "filesrc location=SOUND_FIRST ! matroskademux",
        "filesrc location=SOUND_FIRST ! matroskademux ! queue",
        "filesrc location=SOUND_FIRST ! matroskademux ! h264parse ! avdec_h264",
        "filesrc location=OGG ! oggdemux ! theoradec",
        "filesrc location=OGG ! oggdemux ! queue",
        "filesrc location=MKV ! parsebin",
        "filesrc location=MKV ! decodebin",
        "filesrc location=MKV ! decodebin ! videoconvert",
        "filesrc location=MKV ! decodebin ! video/x-raw,format=I420",
        "filesrc location=MKV ! decodebin ! videoconvert ! video/x-raw, format=NV12, width=160",
        "filesrc location=SOUND_FIRST ! decodebin ! queue",
        "filesrc location=MKV ! decodebin ! audioconvert",
        "filesrc location=MKV ! decodebin name=d d. ! queue ! videoconvert d. ! queue ! audioconvert",
        "filesrc location=MKV ! decodebin name=d d. ! audioconvert ! fakesink",
        "( filesrc location=MKV ! decodebin ! videoconvert )",
        "uridecodebin uri=file://MKV",
        "uridecodebin uri=file://SOUND_FIRST ! videoconvert ! videoscale",
        "uridecodebin uri=\"file://MP4\" name=\"in\" in. ! videoconvert",
    ] {
        assert_runs(&clips.fill(fragment));
    }
}

/// Else the verdict on a fragment with a slow filter was that scaling is the limit, and that the VIC helps.
#[test]
fn filters_between_conversions_are_not_counted_as_scaling() {
    let fragment = "videotestsrc ! video/x-raw,width=160,height=96,framerate=30/1,format=I420 ! videoconvert ! video/x-raw,format=AYUV \
        ! videobalance saturation=0 ! videoconvert ! video/x-raw,format=I420";
    let collector = Collector::start(&config(launch(fragment)), usize::MAX);
    let recorder = collector.recorder.clone();
    wait_until_some("images through the filter and the conversions", || {
        let count = |stage| recorder.latency(stage).map_or(0, |times| times.frames);
        (count(Stage::VideoDecode) >= 5 && count(Stage::Scale) >= 10).then_some(())
    });
    let _ = collector.stop();
}

#[test]
fn fragments_of_one_branch_and_of_several_run() {
    let raw = "videotestsrc num-buffers=20 ! video/x-raw,width=160,height=96,framerate=30/1";
    for fragment in [
        "RAW",
        "RAW ! identity",
        "RAW ! tee name=t t. ! queue ! fakesink t. ! queue",
        "RAW ! tee name=t t. ! queue t. ! queue ! fakesink",
        "audiotestsrc num-buffers=40 RAW ! queue",
        "audiotestsrc num-buffers=40 ! audioconvert ! vorbisenc RAW ! jpegenc",
        "RAW ! x264enc tune=zerolatency",
        "RAW ! x264enc tune=zerolatency ! mpegtsmux ! tsdemux",
        "RAW ! jpegenc ! image/jpeg",
        "RAW ! videorate ! video/x-raw,framerate=30/1",
    ] {
        assert_runs(&fragment.replace("RAW", raw));
    }
}

#[test]
fn final_sinks_are_left_out() {
    let clips = Clips::make();
    for fragment in [
        "filesrc location=MP4 ! decodebin ! videoconvert ! autovideosink",
        "filesrc location=MKV ! decodebin name=d d. ! queue ! autovideosink sync=false d. ! queue ! audioconvert ! fakesink",
        "filesrc location=SOUND_FIRST ! decodebin ! nv3dsink sync=false",
        "uridecodebin uri=file://MP4 ! fakesink name=\"end\"",
        "videotestsrc num-buffers=20 ! video/x-raw,width=160,height=96 ! appsink max-buffers=1",
    ] {
        assert_runs(&clips.fill(fragment));
    }
}

#[test]
fn rtsp_fragment_takes_video() {
    let server = RtspServer::start(0, &[]);
    let line = format!(
        "rtspsrc location={} protocols=tcp latency=100",
        server.uri()
    );
    for rest in ["", " ! rtph264depay ! h264parse", " ! decodebin"] {
        let source = config(launch(&format!("{line}{rest}")));
        let (frames, result) = Collector::start(&source, 5).join();
        result.unwrap_or_else(|error| panic!("{rest}: {error}"));
        assert_eq!(frames.len(), 5, "{rest}");
    }
}

#[test]
fn fragment_without_video_is_told_what_it_has() {
    let clips = Clips::make();
    #[rustfmt::skip]
    let cases = [
        ("filesrc location=SOUND ! oggdemux", &["no video", "audio/x-vorbis of oggdemux"][..]),
        ("uridecodebin uri=file://SOUND", &["no video", "audio/x-raw"]),
        ("filesrc location=SOUND ! decodebin ! queue", &["no video", "audio/x-raw of decodebin"]),
        ("filesrc location=MP4 ! qtdemux ! theoradec", &["theoradec", "no stream", "video/x-h264 of qtdemux"]),
        ("filesrc location=SOUND ! decodebin ! audioconvert", &["no video", "audio/x-raw of decodebin"]),
    ];
    for (fragment, words) in cases {
        let reason = first_reason(&config(launch(&clips.fill(fragment))));
        assert!(
            words.iter().all(|word| reason.contains(word)),
            "{fragment}: {reason}"
        );
    }
}

#[test]
fn fragment_that_cannot_give_video_fails_permanently() {
    #[rustfmt::skip]
    let rows = [
        ("audiotestsrc", "audio/x-raw of audiotestsrc"),
        ("audiotestsrc ! audioconvert ! vorbisenc", "audio/x-vorbis of vorbisenc"),
        ("h264parse", "h264parse0 has no input"),
        ("videotestsrc ! filesink location=/dev/null", "no free source pad"),
        ("videotestsrc ! audioconvert", "could not link"),
        ("nosuchelement", "nosuchelement"),
        ("videotestsrc ! ", "syntax error"),
        ("videotestsrc foo=bar", "foo"),
    ];
    for (fragment, expected) in rows {
        let error = failure_of(&config(launch(fragment)));
        assert!(matches!(error, SourceError::Launch(_)), "{error:?}");
        assert!(error.to_string().contains(expected), "{fragment}: {error}");
    }
}
