// SPDX-License-Identifier: Apache-2.0
//! Sound in clips: AAC of real sources as it comes, in step with the images, read back by FFmpeg.

use crate::support;

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;

use jetwatch_config::SourceUri;
use jetwatch_media::{ClipFile, SourceStream};

use crate::clips::files;
use support::collector::rtsp;
use support::daemon::{Setup, exits, finish};
use support::ffprobe;
use support::rtsp::RtspServer;
use support::stream_capture::{capture_with_sound, units};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/street-nano");

/// Five seconds of a moving image with a tone, made by FFmpeg.
fn video(folder: &Path, name: &str, arguments: &[&str]) -> PathBuf {
    let path = folder.join(name);
    let image = "-f lavfi -i testsrc=size=320x180:rate=25";
    let tone = "-f lavfi -i sine=frequency=440:sample_rate=44100";
    let coded = "-t 5 -pix_fmt yuv420p -c:v libx264 -g 25";
    let all = [image, tone, coded]
        .into_iter()
        .flat_map(|part| part.split(' '));
    let all: Vec<_> = all.chain(arguments.iter().copied()).collect();
    ffprobe::make(&all, &path);
    path
}

/// Packets of a file as ffprobe reads them: time in seconds and what they hold.
fn packets(path: &Path, kind: &str) -> Vec<(f64, String)> {
    let output = Command::new("ffprobe")
        .args(["-v", "error", "-of", "json", "-show_packets"])
        .args(["-show_data_hash", "md5"])
        .arg(path)
        .output()
        .expect("ffprobe starts; install it with: apt-get install ffmpeg");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packets = found["packets"].as_array().expect("packets").iter();
    let time = |packet: &Value| packet["pts_time"].as_str()?.parse().ok();
    packets
        .filter(|packet| packet["codec_type"] == kind)
        .map(|packet| {
            let hash = packet["data_hash"].as_str().expect("a hash").to_owned();
            (time(packet).expect("a time"), hash)
        })
        .collect()
}

/// Seconds by which the sound is to be played earlier than its times in a Matroska file say (CodecDelay). FFmpeg 6.1 and newer write it
/// for AAC, and GStreamer does not read it: the sound of such a file is late by it.
fn codec_delay(path: &Path) -> f64 {
    let output = Command::new("ffprobe")
        .args(["-v", "error", "-of", "json", "-select_streams", "a"])
        .args(["-show_entries", "stream=initial_padding,sample_rate"])
        .arg(path)
        .output()
        .expect("ffprobe starts");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let stream = &found["streams"][0];
    let rate = stream["sample_rate"].as_str().expect("a rate");
    let samples = stream["initial_padding"].as_f64().unwrap_or(0.0);
    samples / rate.parse::<f64>().expect("a number")
}

/// Codecs of the streams of a file.
fn codecs(path: &Path) -> String {
    let output = Command::new("ffprobe")
        .args(["-v", "error", "-of", "csv=p=0"])
        .args(["-show_entries", "stream=codec_name"])
        .arg(path)
        .output()
        .expect("ffprobe starts");
    let text = String::from_utf8(output.stdout).expect("text");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What FFmpeg complains about while it decodes all streams of a file.
fn complaints(path: &Path) -> String {
    let output = Command::new("ffmpeg")
        .args(["-v", "warning", "-i"])
        .arg(path)
        // Images of a camera come when they come.
        .args([
            "-map",
            "0",
            ffprobe::times_option(),
            "passthrough",
            "-f",
            "framemd5",
            "-",
        ])
        .output()
        .expect("ffmpeg starts");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn write(path: &Path, stream: &Arc<SourceStream>) -> usize {
    let units = units(stream);
    let file = File::create(path).expect("created");
    let format = stream.sound_format().expect("it has sound");
    let clip = ClipFile::begin_with_sound(file, &units[0], Some(format));
    let mut clip = clip.expect("begun");
    for unit in &units {
        if clip.is_due(unit) {
            clip.add_sound(stream);
        }
        clip.add(unit.clone()).expect("written");
    }
    clip.add_sound(stream);
    clip.finish().expect("finished");
    units.len()
}

#[test]
fn sound_of_files_keeps_its_place_beside_the_images() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, arguments) in [
        ("plain.mp4", &["-bf", "0", "-c:a", "aac"][..]),
        // Reordered images begin later, and the priming of the encoder before zero: both are in edit lists.
        ("reordered.mp4", &["-bf", "3", "-c:a", "aac"][..]),
        // Times in whole milliseconds.
        ("rounded.mkv", &["-bf", "0", "-c:a", "aac", "-ac", "2"][..]),
    ] {
        let path = video(folder.path(), name, arguments);
        let captured = capture_with_sound(SourceUri::File(path.clone()), usize::MAX);
        let copy = folder.path().join(format!("{name}.copy.mp4"));
        let images = write(&copy, &captured.stream);
        assert_eq!(images, 125, "{name}");
        assert_eq!(codecs(&copy), "h264 aac", "{name}");
        assert_eq!(complaints(&copy), "", "{name}");
        let first = |path: &Path| {
            let times = packets(path, "video").into_iter().map(|(time, _)| time);
            times.fold(f64::INFINITY, f64::min)
        };
        let (before, after) = (first(&path), first(&copy));
        let known: HashMap<String, f64> = packets(&path, "audio")
            .into_iter()
            .map(|(time, hash)| (hash, time))
            .collect();
        let kept = packets(&copy, "audio");
        let late = match name.ends_with(".mkv") {
            true => codec_delay(&path),
            false => 0.0,
        };
        // Of 215 frames in five seconds: one or two are before the first image.
        assert!(kept.len() >= 210, "{name}: {}", kept.len());
        for (time, hash) in &kept {
            let original = known
                .get(hash)
                .unwrap_or_else(|| panic!("{name}: {time} is no frame of the source"));
            let shift = (time - after) - (original - before) - late;
            assert!(shift.abs() < 0.0015, "{name}: {time} is {shift} s off");
        }
    }
}

#[test]
fn sound_with_headers_loses_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = video(folder.path(), "a.ts", &["-bf", "0", "-c:a", "aac"]);
    let captured = capture_with_sound(SourceUri::File(path), usize::MAX);
    let copy = folder.path().join("copy.mp4");
    write(&copy, &captured.stream);
    assert_eq!(codecs(&copy), "h264 aac");
    assert_eq!(complaints(&copy), "");
    let kept = packets(&copy, "audio").len();
    assert!(kept >= 205, "{kept}");
}

#[test]
fn sound_of_an_rtsp_camera_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let h264 = "x264enc tune=zerolatency speed-preset=ultrafast key-int-max=10 ! rtph264pay name=pay0 pt=96 config-interval=1";
    let tone = "audiotestsrc is-live=true ! audio/x-raw,rate=16000,channels=1";
    let encoder = format!("{h264} {tone} ! avenc_aac ! aacparse ! rtpmp4gpay name=pay1 pt=97");
    let server = RtspServer::start(0, &["--encoder", &encoder]);
    let captured = capture_with_sound(rtsp(server.uri(), None), 100);
    let copy = folder.path().join("copy.mp4");
    write(&copy, &captured.stream);
    assert_eq!(codecs(&copy), "h264 aac");
    assert_eq!(complaints(&copy), "");
    let (images, sound) = (packets(&copy, "video"), packets(&copy, "audio"));
    // 15.6 frames a second; both begin and end together.
    assert!(sound.len() >= 40, "{}", sound.len());
    let last = |packets: &[(f64, String)]| packets.iter().map(|it| it.0).fold(0.0, f64::max);
    let distance = last(&images) - last(&sound);
    assert!(distance.abs() < 0.5, "{distance} s");
}

fn daemon(path: &Path, record: &str, source: &str) -> (Setup, String) {
    let setup = Setup::new(&format!(
        "device: test\nsources: [{{name: cam, uri: {}, playback_fps: realtime{source}}}]\n\
         detector: {{model: {MODEL}, workers: 1}}\nrecord:\n  folder: media\n  retention: {{min_free_bytes: 1MiB, min_free_percent: 0}}\n  \
         continuous: {{enabled: true}}\n  {record}\npublish: {{mqtt: off}}\n",
        path.display()
    ));
    let log = exits(0, &mut setup.command("run")).err;
    (setup, log)
}

#[test]
fn daemon_keeps_sound_only_where_it_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let aac = video(folder.path(), "a.mp4", &["-bf", "0", "-c:a", "aac"]);
    for (record, source, expected) in [
        ("audio: true", "", "h264 aac"),
        ("audio: false", ", record: {audio: true}", "h264 aac"),
        ("audio: true", ", record: {audio: false}", "h264"),
        ("encoding: {max_fps: 15}", "", "h264"),
    ] {
        let (setup, log) = daemon(&aac, record, source);
        let found = files(&setup.path("media"), ".mp4");
        assert_eq!(found.len(), 1, "{record}{source}: {log}");
        assert_eq!(codecs(&found[0]), expected, "{record}{source}: {log}");
        assert_eq!(complaints(&found[0]), "", "{record}{source}");
        assert!(!log.contains("its sound is not recorded"), "{log}");
        let report = finish(&mut setup.command("check")).stdout;
        let report = String::from_utf8_lossy(&report).into_owned();
        let is_named = report.contains("AAC, 44100 Hz, 1 channel(s), is kept with the video");
        assert_eq!(is_named, expected.contains("aac"), "{report}");
        assert_eq!(report.contains("sound cam"), is_named, "{report}");
    }
}

#[test]
fn sound_of_other_codecs_is_named_once_and_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let mulaw = ["-bf", "0", "-c:a", "pcm_mulaw", "-ar", "8000"];
    let path = video(folder.path(), "a.mkv", &mulaw);
    let (setup, log) = daemon(&path, "audio: true", "");
    let note = "its sound is not recorded: it is audio/x-mulaw, and only AAC is kept";
    assert_once!(log => note);
    let found = files(&setup.path("media"), ".mp4");
    assert_eq!(codecs(&found[0]), "h264");
    let report = exits(0, &mut setup.command("check")).out;
    assert_has!(report => "record.audio is on, but the source brought no AAC");
    // The video is kept all the same.
}
