// SPDX-License-Identifier: Apache-2.0
//! Clips by the real daemon: an H.264 stream that is played as a camera brings it, a network, and the files that are kept.

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};

use jetwatch_media::mp4::complete_length;
use serde_json::{Value, json};

use support::daemon::{Setup, exits, of_kind, start, terminate, wait_for_output, wait_until_some};
use support::ffprobe::{self, decode, probe};
use support::onvif_camera::{LOGIN, OnvifCamera};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/street-nano");

/// The device of the test may be nearly full.
const ANY_SPACE: &str = "retention: {min_free_bytes: 1MiB, min_free_percent: 0}";

/// Seconds without an object at the start of the stream.
const EMPTY_S: u32 = 3;

/// An encoded street after some black seconds, with B-frames and a keyframe per second.
fn street(folder: &Path) -> PathBuf {
    let drawn = Setup::new(
        "device: test\nsources: [{name: cam, uri: 'synthetic://traffic?seed=3&objects=6&width=640&height=360&fps=30&frames=300'}]\n\
         detector: {backend: scripted}\npublish: {mqtt: off}\n",
    );
    exits(
        0,
        drawn
            .command("run")
            .arg("--record")
            .arg(drawn.path("drawn.mp4")),
    );
    let path = folder.join("street.mp4");
    let empty = format!("color=black:s=640x360:r=30:d={EMPTY_S}");
    let drawn = drawn.path("drawn.mp4");
    let joined = "[0:v][1:v]concat=n=2:v=1,format=yuv420p[v]";
    let mut arguments = vec!["-f", "lavfi", "-i", &empty, "-i"];
    arguments.extend(drawn.to_str());
    arguments.extend(["-filter_complex", joined, "-map", "[v]"]);
    arguments.extend("-c:v libx264 -preset veryfast -g 30 -bf 2".split(' '));
    ffprobe::make(&arguments, &path);
    path
}

fn configuration(video: &Path, record: &str) -> String {
    format!(
        "device: test\nsources:\n  - name: cam\n    uri: \"launch:filesrc location={} ! qtdemux ! h264parse ! identity sync=true\"\n\
         detector: {{model: {MODEL}, workers: 1}}\nrecord:\n  folder: media\n  {ANY_SPACE}\n  {record}\n\
         publish: {{mqtt: off, json_lines: {{path: events.jsonl}}}}\n",
        video.display()
    )
}

/// The messages about complete files.
fn ready(lines: &[Value]) -> Vec<&Value> {
    let mut media = of_kind(lines, "media");
    media.retain(|media| media["state"] == "ready");
    media
}

/// The files below `folder` with this end of their names.
pub fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files(&path, end),
            false => vec![path],
        })
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect()
}

#[test]
fn clip_holds_what_was_before_its_event() {
    let folder = tempfile::tempdir().expect("a folder");
    let video = street(folder.path());
    let record = "clips: {enabled: true, pre_roll_s: 1, post_roll_s: 1, max_s: 4}";
    let setup = Setup::new(&configuration(&video, record));
    let daemon = start(&mut setup.command("run"));
    wait_until_some("a clip is complete", || {
        (!ready(&setup.lines()).is_empty()).then_some(())
    });
    terminate(daemon);

    let lines = setup.lines();
    let media = ready(&lines);
    let first = media[0];
    let found = (&first["type"], &first["state"]);
    assert_eq!(found, (&"clip".into(), &"ready".into()), "{first}");
    let event = of_kind(&lines, "event")[0];
    assert_eq!(event["type"], "new");
    assert_eq!(event["recording"]["id"], first["id"], "{event} and {first}");
    assert_eq!(event["recording"]["state"], "recording");
    let tracks = first["tracks"].as_array().expect("tracks");
    assert!(tracks.contains(&event["id"]), "{first}");
    // Times of one form are in the order of their texts.
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    assert!(
        text(&first["from"]) < text(&event["started_at"]),
        "{first} and {event}"
    );
    for clip in &media {
        let path = setup.path("media").join(text(&clip["path"]));
        assert_eq!(fs::metadata(&path).expect("a file").len(), clip["bytes"]);
        let probed = probe(&path).unwrap_or_else(|error| panic!("{clip}: {error}"));
        let found = (probed.codec.as_str(), probed.width, probed.height);
        assert_eq!(found, ("h264", 640, 360));
        assert_eq!(probed.pts[0], 0, "the presentation begins at once");
        assert_eq!(decode(&path), (probed.pts.len(), String::new()));
    }
}

#[test]
fn file_of_a_killed_daemon_plays_to_its_last_fragment() {
    let folder = tempfile::tempdir().expect("a folder");
    let video = street(folder.path());
    let setup = Setup::new(&configuration(&video, "continuous: {enabled: true}"));
    let mut daemon = start(&mut setup.command("run"));
    // Between two fragments: a kill within one leaves a part of it, which the next start cuts off.
    let path = wait_until_some("some fragments are written", || {
        let found = files(&setup.path("media"), ".mp4").pop()?;
        let mut file = fs::File::open(&found).ok()?;
        let length = file.metadata().ok()?.len();
        let is_whole = length > 60_000 && complete_length(&mut file).ok()? == length;
        is_whole.then_some(found)
    });
    daemon.kill().expect("it is killed");
    wait_for_output(daemon);
    let probed = probe(&path).expect("it is read");
    assert!(probed.pts.len() >= 30, "{}", probed.pts.len());
    assert_eq!(decode(&path), (probed.pts.len(), String::new()));

    // As after a power cut: the last fragment is damaged. The next start cuts it off.
    let length = fs::metadata(&path).expect("a file").len();
    let file = fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("opened");
    file.set_len(length - 10).expect("cut");
    let online = || {
        let lines = setup.lines().into_iter();
        lines.filter(|line| line["state"] == "online").count()
    };
    let before = online();
    let daemon = start(&mut setup.command("run"));
    wait_until_some("it runs again", || (online() > before).then_some(()));
    terminate(daemon);
    let repaired = probe(&path).expect("it is read");
    let images = repaired.pts.len();
    assert!(images > 0 && images < probed.pts.len(), "{images}");
    assert_eq!(decode(&path), (images, String::new()));
}

/// A dark yard in which the network finds nothing: the clip is that of the motion which the camera reports. Its other camera reports none.
#[test]
fn motion_that_a_camera_reports_begins_a_clip_with_what_was_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let video = folder.path().join("dark.mp4");
    let arguments =
        "-f lavfi -i color=black:s=160x120:r=10:d=120 -c:v libx264 -preset ultrafast -g 10";
    ffprobe::make(&arguments.split(' ').collect::<Vec<_>>(), &video);
    let mut camera = OnvifCamera::start(&json!({"login": "token", "ahead_s": 7_200}));
    let uri = format!(
        "launch:filesrc location={} ! qtdemux ! h264parse ! identity sync=true",
        video.display()
    );
    let setup = Setup::new(&format!(
        "device: test\nsources:\n  - {{name: gate, uri: \"{uri}\"}}\n  - name: yard\n    uri: \"{uri}\"\n    onvif: {{events: motion, address: \"{}\", \
         user: {}, password: \"{}\"}}\ndetector: {{model: {MODEL}, workers: 1}}\nrecord:\n  folder: media\n  {ANY_SPACE}\n  clips: {{enabled: true, \
         trigger: motion, pre_roll_s: 1, post_roll_s: 1}}\npublish: {{mqtt: off, stats_interval_s: 1, json_lines: {{path: events.jsonl}}}}\n",
        camera.address(),
        LOGIN.0,
        LOGIN.1,
    ));
    let daemon = start(&mut setup.command("run"));
    let frames = || {
        let stats = setup.lines_of("stats").pop()?;
        let sources = stats["sources"].as_array()?.iter();
        sources.map(|source| source["frames"].as_u64()).min()?
    };
    let wait_for_frames = |more: u64| {
        let before = frames().unwrap_or(0);
        wait_until_some("video of both", || {
            frames().filter(|now| *now >= before + more)
        });
    };
    let wait_for_request = |camera: &OnvifCamera, wanted: &str| {
        wait_until_some(wanted, || {
            camera
                .requests()
                .iter()
                .any(|it| it.ends_with(wanted))
                .then_some(())
        });
    };
    wait_for_request(&camera, "PullMessages 200");
    wait_for_frames(20);
    camera.set("true");
    let begun = setup.wait_for("motion", |line| {
        line["kind"] == "motion" && line["on"] == true
    });
    camera.set("false");
    let clip = setup.wait_for("a clip", |line| {
        line["kind"] == "media" && line["state"] == "ready"
    });
    let found = (&clip["source"], &begun["source"]);
    assert_eq!(found, (&"yard".into(), &"yard".into()), "{clip}");
    let time = |line: &Value, key: &str| line[key].as_str().expect("a time").to_owned();
    assert!(
        time(&clip, "from") < time(&begun, "changed_at"),
        "{clip} and {begun}"
    );
    let probed = probe(&setup.path("media").join(time(&clip, "path"))).expect("it is read");
    assert!(probed.pts.len() >= 10, "{clip}: {probed:?}");

    // It starts again, and forgets the subscription.
    camera.set("reboot");
    wait_for_request(&camera, "CreatePullPointSubscription 200");
    camera.set("true");
    wait_until_some("motion again", || {
        (setup.lines_of("motion").len() >= 4).then_some(())
    });
    // It is gone, and its video goes on.
    drop(camera);
    setup.wait_for("no motion", |_| {
        setup
            .lines_of("motion")
            .last()
            .is_some_and(|line| line["on"] == false)
    });
    wait_for_frames(10);
    let log = terminate(daemon);
    assert_has!(log => "the motion of the camera is followed", "motion of the camera is not known");
    let others = setup
        .lines_of("media")
        .into_iter()
        .filter(|media| media["source"] == "gate");
    assert_eq!(others.count(), 0);
}
