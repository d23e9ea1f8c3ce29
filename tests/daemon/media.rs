// SPDX-License-Identifier: Apache-2.0
//! Snapshots, retention and a device without space, by the real binary on the drawn scene.

use crate::support;
use crate::support::publish;

use std::process::Command;

use jetwatch_pixels::{BgrxImage, decode};
use jetwatch_publish::Subscriber;
use jetwatch_types::{PIXEL_BYTES, Size};
use publish::mosquitto::{Mosquitto, client};
use serde_json::Value;
use support::daemon::{Setup, exits, finish, of_kind, start, stderr, wait_for_output};
use support::jetson_elements::JetsonElements;

const SCENE: &str = "synthetic://traffic?seed=3&objects=6&width=640&height=360&fps=30";

/// A configuration whose files are below `media`; `record` are further keys of that section. Without `retention` among them there is no
/// floor of free space: the device of the test may be nearly full.
fn yaml(scene: &str, record: &str, publish: &str) -> String {
    let space = match record.contains("retention") {
        true => "",
        false => "retention: {min_free_bytes: 1MiB, min_free_percent: 0}, ",
    };
    format!(
        "device: box\nsources: [{{name: cam, uri: '{scene}'}}]\ndetector: {{backend: scripted}}\n\
         publish:\n  stats_interval_s: 1\n  json_lines: {{path: events.jsonl}}\n  mqtt: {publish}\n\
         record: {{folder: media, {space}{record}}}\n"
    )
}

fn media(setup: &Setup, arguments: &[&str]) -> String {
    let output = exits(0, setup.command("media").args(arguments));
    output.out
}

/// Mean color of the part of `image` between these shares of its sides.
fn mean_color(image: &BgrxImage, [left, top, right, bottom]: [f64; 4]) -> [f64; 3] {
    let at = |share: f64, side: u32| ((share.clamp(0.0, 1.0) * f64::from(side)) as u32).min(side);
    let Size { width, height } = image.size;
    let (mut sum, mut count) = ([0.0; 3], 0.0);
    for y in at(top, height)..at(bottom, height) {
        for x in at(left, width)..at(right, width) {
            let pixel = &image.pixels[(y * width + x) as usize * PIXEL_BYTES..];
            for (sum, value) in sum.iter_mut().zip(pixel) {
                *sum += f64::from(*value);
            }
            count += 1.0;
        }
    }
    sum.map(|sum| sum / f64::max(count, 1.0))
}

/// How much the middle of the box differs from what is left and right of it.
fn contrast(image: &BgrxImage, region: &Value) -> f64 {
    let edge = |index: usize| region[index].as_f64().expect("a number");
    let [left, top, right, bottom] = [edge(0), edge(1), edge(2), edge(3)];
    let (width, height) = (right - left, bottom - top);
    let (upper, lower) = (top + height * 0.3, bottom - height * 0.3);
    let inside = mean_color(
        image,
        [left + width * 0.3, upper, right - width * 0.3, lower],
    );
    #[rustfmt::skip]
    let beside = [
        mean_color(image, [left - width * 0.4, upper, left - width * 0.1, lower]),
        mean_color(image, [right + width * 0.1, upper, right + width * 0.4, lower]),
    ];
    let distance = |other: &[f64; 3]| -> f64 {
        let pairs = inside.iter().zip(other);
        pairs.map(|(a, b)| (a - b).abs()).sum()
    };
    beside.iter().map(distance).fold(0.0, f64::max)
}

#[test]
fn snapshots_are_files_that_show_their_object_and_messages_name_them() {
    let setup = Setup::new(&yaml(
        &format!("{SCENE}&frames=240"),
        "snapshots: {enabled: true, max_width: 480}",
        "off",
    ));
    exits(0, &mut setup.command("run"));
    let lines = setup.lines();
    let ends = of_kind(&lines, "event");
    let ends: Vec<_> = ends.iter().filter(|line| line["type"] == "end").collect();
    let ready = of_kind(&lines, "media");
    assert!(ready.len() > 3, "{} messages", ready.len());
    // All events of a track name the picture, long before it is complete.
    for event in of_kind(&lines, "event") {
        let snapshot = &event["snapshot"];
        assert_eq!(snapshot["state"], "recording", "{event}");
        let picture = ready.iter().find(|message| message["id"] == snapshot["id"]);
        if let Some(picture) = picture {
            assert_eq!(picture["tracks"][0], event["id"], "{event} and {picture}");
        }
    }
    let is_named = |id: &Value| ends.iter().any(|end| &end["snapshot"]["id"] == id);
    assert!(ready.iter().all(|message| is_named(&message["id"])));
    let mut shown = 0;
    for message in &ready {
        assert_eq!(message["state"], "ready", "{message}");
        assert_eq!(message["type"], "snapshot", "{message}");
        let of_track = ends.iter().find(|end| end["id"] == message["tracks"][0]);
        assert_eq!(of_track.expect("its track")["label"], message["label"]);
        let path = message["path"].as_str().expect("a path");
        let bytes = std::fs::read(setup.path("media").join(path)).expect("the file");
        assert_eq!(message["bytes"], bytes.len());
        let image = decode(bytes).expect("a JPEG file");
        assert_eq!(image.size, Size::new(480, 270), "{path}");
        let contrast = contrast(&image, &message["box_normalized"]);
        shown += usize::from(contrast > 30.0);
    }
    // Some objects have the color of the road, or are next to another one.
    assert!(shown * 4 >= ready.len() * 3, "{shown} of {}", ready.len());

    let listed = media(&setup, &["list", "--json", "--limit", "1000"]);
    assert_eq!(listed.lines().count(), ready.len());
    assert!(media(&setup, &["check"]).contains("agree"));
    let id = ready[0]["id"].as_str().expect("an id");
    media(&setup, &["pin", id]);
    let refused = finish(setup.command("media").args(["remove", id]));
    assert_has!(stderr(&refused) => "unpin it first");
    media(&setup, &["unpin", id]);
    media(&setup, &["remove", id]);
    let shown: Value = serde_json::from_str(&media(&setup, &["show", id])).expect("JSON");
    let found = (&shown["state"], &shown["reason"]);
    assert_eq!(found, (&"removed".into(), &"operator".into()));
    assert!(media(&setup, &["usage"]).contains("snapshot"));
}

/// The double encodes on the CPU what a Jetson encodes on NVJPG.
#[test]
fn pictures_are_encoded_by_nvjpegenc_where_there_is_one() {
    let setup = Setup::new(&yaml(
        &format!("{SCENE}&frames=150&realtime=false"),
        "snapshots: {enabled: true, quality: 60}",
        "off",
    ));
    let run = |elements: &JetsonElements, command: &str| {
        let mut command = setup.command(command);
        command.envs(elements.environment());
        let output = finish(&mut command);
        assert!(output.status.success(), "{}", stderr(&output));
        output
    };
    let elements = JetsonElements::new();
    let report = run(&elements, "check").stdout;
    let report = String::from_utf8_lossy(&report).into_owned();
    assert_has!(report => "large ones are encoded by nvjpegenc");
    let log = stderr(&run(&elements, "run"));
    let pictures = |setup: &Setup| -> Vec<BgrxImage> {
        let lines = setup.lines();
        let ready = of_kind(&lines, "media");
        assert!(ready.len() > 3, "{} messages", ready.len());
        let image = |message: &&Value| {
            let path = message["path"].as_str().expect("a path");
            let bytes = std::fs::read(setup.path("media").join(path)).expect("the file");
            decode(bytes).expect("a JPEG file")
        };
        ready.iter().map(image).collect()
    };
    let all = pictures(&setup);
    assert!(all.iter().all(|image| image.size == Size::new(640, 360)));
    let work = elements.activity();
    let encoder = work.iter().find(|work| work.element == "nvjpegenc");
    let encoder = encoder.unwrap_or_else(|| panic!("{work:?} {log}"));
    assert_eq!(encoder.engine, "NVJPG");
    assert!(encoder.from.starts_with("NVMM I420 640x360"), "{encoder:?}");
    assert!(!encoder.cpu_copy && encoder.frames > 0, "{encoder:?}");
    let converter = work.iter().find(|work| work.element == "nvvidconv");
    assert_eq!(converter.map(|work| work.engine.as_str()), Some("VIC"));

    // It fails: the CPU takes over, and the log says so once.
    std::fs::remove_file(setup.path("events.jsonl")).expect("removed");
    std::fs::remove_dir_all(setup.path("media")).expect("removed");
    elements.write("nvjpg-broken", "");
    let log = stderr(&run(&elements, "run"));
    let note = "pictures are encoded by jpegenc from now on: nvjpegenc: NvJpegEncoder failed";
    assert_once!(log => note);
    // The street looks the same at any time: its colors are those of the other encoder, whose image has 219 values for 255.
    let mean = |images: &[BgrxImage], channel: usize| -> f64 {
        let pixels = images
            .iter()
            .flat_map(|image| image.pixels.as_chunks::<PIXEL_BYTES>().0);
        let sum: f64 = pixels.map(|pixel| f64::from(pixel[channel])).sum();
        sum / (images.len() * 640 * 360) as f64
    };
    let by_jpegenc = pictures(&setup);
    for channel in 0..3 {
        let [one, other] = [&all, &by_jpegenc].map(|images| mean(images, channel));
        assert!((one - other).abs() < 6.0, "{channel}: {one} and {other}");
    }
}

#[test]
fn newest_picture_of_a_label_is_retained() {
    let broker = Mosquitto::start();
    let place = format!("{{broker: 'mqtt://127.0.0.1:{}'}}", broker.port());
    let setup = Setup::new(&yaml(
        &format!("{SCENE}&frames=240"),
        "snapshots: {enabled: true, mqtt: true, drawn: true}",
        &place,
    ));
    exits(0, &mut setup.command("run"));
    let lines = setup.lines();
    let labels: std::collections::BTreeSet<_> = of_kind(&lines, "media")
        .iter()
        .map(|message| message["label"].as_str().expect("a label").to_owned())
        .collect();
    assert!(!labels.is_empty());
    let subscriber = Subscriber::start(&client(broker.port()), "jetwatch/box/cam/snapshots/#")
        .expect("the broker runs");
    let mut pictures = std::collections::BTreeMap::new();
    while pictures.len() < labels.len() {
        let (topic, payload) = subscriber
            .recv_timeout(support::daemon::TEST_TIMEOUT)
            .expect("a retained picture of each label");
        let label = topic.rsplit('/').next().expect("a level").to_owned();
        pictures.insert(label, payload);
    }
    for (label, payload) in &pictures {
        let found = decode(payload.to_vec()).expect("a JPEG file").size;
        assert_eq!(found, Size::new(640, 360), "{label}");
        assert!(payload.len() <= 256 << 10, "{label}");
    }
}

/// mosquitto says in its CONNACK how large a packet may be, and ends connections that send a larger one.
#[test]
fn pictures_are_as_small_as_the_broker_wants_them() {
    const MAX_PACKET: usize = 12_000;
    let broker =
        Mosquitto::with_config(|_| format!("allow_anonymous true\nmax_packet_size {MAX_PACKET}\n"));
    let place = format!("{{broker: 'mqtt://127.0.0.1:{}'}}", broker.port());
    let scene = SCENE.replace("width=640&height=360", "width=1280&height=720");
    let setup = Setup::new(&yaml(
        &format!("{scene}&frames=240"),
        "snapshots: {enabled: true, mqtt: true, quality: 100}",
        &place,
    ));
    let subscriber =
        Subscriber::start(&client(broker.port()), "jetwatch/box/cam/#").expect("the broker runs");
    let log = exits(0, &mut setup.command("run")).err;
    assert!(!log.contains("lost the connection"), "{log}");
    let lines = setup.lines();
    // Files keep their quality.
    let files = of_kind(&lines, "media");
    let bytes = |line: &&&Value| line["bytes"].as_u64().expect("a size") > MAX_PACKET as u64;
    assert!(files.iter().any(|line| bytes(&line)), "{files:?}");
    let (mut pictures, mut ended) = (0, false);
    while !ended {
        let (topic, payload) = subscriber
            .recv_timeout(support::daemon::TEST_TIMEOUT)
            .expect("messages up to the last state of the source");
        if topic.ends_with("/snapshot") || topic.contains("/snapshots/") {
            let Size { width, .. } = decode(payload.to_vec()).expect("a JPEG file").size;
            assert!(width >= 320, "{topic}: {width} pixels");
            assert!(payload.len() < MAX_PACKET, "{topic}: {}", payload.len());
            pictures += 1;
        }
        ended = pictures > 3;
    }
}

#[test]
fn floor_of_free_space_deletes_files_and_stops_recording_not_detection() {
    let setup = Setup::new(&yaml(
        &format!("{SCENE}&frames=240"),
        "snapshots: {enabled: true}",
        "off",
    ));
    exits(0, &mut setup.command("run"));
    let kept = media(&setup, &["list", "--json", "--limit", "1000"]);
    let kept = kept.lines().count();
    assert!(kept > 3);

    let strict = yaml(
        &format!("{SCENE}&realtime=true&frames=300"),
        "snapshots: {enabled: true}, retention: {min_free_bytes: 256TiB}",
        "off",
    );
    std::fs::write(&setup.config, strict).expect("written");
    std::fs::remove_file(setup.path("events.jsonl")).expect("removed");
    let output = wait_for_output(start(&mut setup.command("run")));
    assert!(output.status.success(), "{}", stderr(&output));
    assert_has!(stderr(&output) => "recording stops, detection goes on");
    let lines = setup.lines();
    let mut removed = of_kind(&lines, "media");
    removed.retain(|line| line["state"] == "removed");
    assert!(removed.len() >= kept, "{} of {kept}", removed.len());
    assert!(removed.iter().all(|line| line["reason"] == "free_space"));
    assert!(of_kind(&lines, "event").len() > 10);
    let stats = of_kind(&lines, "stats");
    let full = stats.iter().any(|stats| stats["media"]["full"] == true);
    assert!(full, "{stats:?}");
}

#[test]
fn file_limit_stops_snapshots_and_not_detection() {
    let setup = Setup::new(
        &yaml(
            &format!("{SCENE}&frames=240").replace("width=640&height=360", "width=1280&height=720"),
            "snapshots: {enabled: true, quality: 100}",
            "off",
        )
        .replace("events.jsonl", "'-'"),
    );
    let run = setup.command("run");
    let mut limited = Command::new("sh");
    // As a full device: a write fails after 256 KiB, more than the index needs. The signal for it is ignored, as programs inherit it.
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f 512; exec \"$0\" \"$@\""])
        .arg(run.get_program())
        .args(run.get_args())
        .env("G_DEBUG", "fatal-criticals");
    let output = wait_for_output(start(&mut limited));
    let log = stderr(&output);
    assert!(output.status.success(), "{log}");
    assert_has!(log => "a snapshot was not kept: no space is left");
    let text = String::from_utf8(output.stdout).expect("text");
    let events = text
        .lines()
        .filter(|line| line.contains(r#""kind":"event""#));
    assert!(events.count() > 10);
    let listed = media(&setup, &["list", "--json", "--limit", "1000"]);
    let large = listed.lines().filter(|line| {
        let item: Value = serde_json::from_str(line).expect("JSON");
        item["bytes"]
            .as_u64()
            .is_some_and(|bytes| bytes > 256 << 10)
    });
    assert_eq!(large.count(), 0);
}
