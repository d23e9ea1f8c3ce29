// SPDX-License-Identifier: Apache-2.0
//! The daemon as a process: the real binary, real signals, real files, real exit codes.

use crate::support;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::clips;
use support::daemon::{
    Setup, Signal, exits, finish, jetwatch, json_lines_config, of_kind, signal, start, stderr,
    wait_for_output, wait_until_some,
};

const SCENE: &str = "uri: synthetic://traffic?seed=3&objects=6&width=320&height=180&fps=30&frames=90&realtime=false";
const ENDLESS: &str = "uri: synthetic://traffic?seed=3&objects=6&width=320&height=180&fps=30";

#[test]
fn run_to_eof_emits_start_and_end_for_every_track() {
    let setup = Setup::new(&json_lines_config(SCENE));
    exits(
        0,
        setup
            .command("run")
            .arg("--stats")
            .arg(setup.path("stats.json")),
    );

    let lines = setup.lines();
    let events = of_kind(&lines, "event");
    let of = |kind: &str| {
        events
            .iter()
            .filter(|event| event["type"] == kind)
            .map(|event| event["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let (mut begun, mut ended) = (of("new"), of("end"));
    assert!(begun.len() >= 3, "{} tracks", begun.len());
    begun.sort();
    ended.sort();
    assert_eq!(begun, ended, "each track that began has ended");
    // One for each frame.
    assert_eq!(of_kind(&lines, "detections").len(), 90);

    let stats = setup.json("stats.json");
    let found = (stats["frames"].as_u64(), stats["dropped"].as_u64());
    assert_eq!(found, (Some(90), Some(0)), "{stats}");
    assert_eq!(
        stats["messages_accepted"], stats["messages_delivered"],
        "{stats}"
    );
    assert_eq!(stats["sources"][0]["state"], "ended");
    let stages: Vec<_> = stats["stages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stage| stage["stage"].as_str().unwrap())
        .collect();
    let wanted = [
        "source",
        "enqueue",
        "batch",
        "tensor",
        "infer",
        "decode",
        "send_results",
        "track",
        "publish",
    ];
    assert_eq!(stages, wanted);
    for number in [
        "fps",
        "inference_fps",
        "cpu_ms_per_frame",
        "peak_rss_mib",
        "first_frame_ms",
        "first_event_ms",
    ] {
        assert!(
            stats[number].as_f64().is_some_and(|value| value > 0.0),
            "{number}: {stats}"
        );
    }
}

#[test]
fn max_frames_is_exact() {
    let setup = Setup::new(&json_lines_config(ENDLESS));
    exits(0, setup.command("run").args(["--max-frames", "17"]));
    assert_eq!(setup.lines_of("detections").len(), 17);
}

#[test]
fn duration_ends_the_run() {
    let setup = Setup::new(&json_lines_config(ENDLESS));
    let started = Instant::now();
    exits(0, setup.command("run").args(["--duration", "500ms"]));
    assert!(started.elapsed() >= Duration::from_millis(500));
}

#[test]
fn signals_stop_run_and_drain_queues() {
    for stop in [Signal::INT, Signal::TERM] {
        let setup = Setup::new(&json_lines_config(ENDLESS));
        let child = start(&mut setup.command("run"));
        wait_until_some("tracks", || {
            (setup.lines_of("event").len() >= 2).then_some(())
        });
        signal(&child, stop);
        let output = wait_for_output(child);
        let found = output.status.code();
        assert_eq!(found, Some(0), "{stop:?}: {}", stderr(&output));
        let lines = setup.lines();
        let count = |kind: &str| {
            lines
                .iter()
                .filter(|line| line["kind"] == "event" && line["type"] == kind)
                .count()
        };
        let found = count("new");
        assert_eq!(found, count("end"), "{stop:?}: every track has its end");
        let found = lines.last().map(|line| line["kind"].clone());
        assert_eq!(found, Some("stats".into()), "the last word is the summary");
    }
}

#[test]
fn failed_source_does_not_stop_others() {
    let yaml = json_lines_config(SCENE).replace(
        "detector:",
        "  - name: gone\n    uri: synthetic://traffic?frames=0\ndetector:",
    );
    let setup = Setup::new(&yaml);
    let output = finish(&mut setup.command("run"));
    let lines = setup.lines();
    // Either the configuration refuses a scene without frames, or the source alone fails.
    if output.status.code() == Some(78) {
        assert!(stderr(&output).contains("frames"), "{}", stderr(&output));
        return;
    }
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(of_kind(&lines, "detections").len(), 90);
}

#[test]
fn a_wrong_configuration_is_exit_78_with_every_problem() {
    let setup =
        Setup::new("sources:\n  - name: a b\n    uri: ftp://x\ndetector:\n  backend: magic\n");
    let text = exits(78, &mut setup.command("run")).err;
    assert_has!(text => "jetwatch.yaml:2", "jetwatch.yaml:3", "jetwatch.yaml:5", "detector.backend");
}

#[test]
fn check_prints_json_for_programs() {
    let check = |code: i32, yaml: &str| -> Value {
        let setup = Setup::new(yaml);
        let arguments = ["--file-only", "--json"];
        let printed = exits(code, setup.command("check").args(arguments));
        serde_json::from_str(&printed.out)
            .unwrap_or_else(|error| panic!("{error}: {}", printed.out))
    };
    let good = check(0, &json_lines_config(SCENE));
    assert_eq!(good["ok"], true);
    assert_eq!(good["results"][0]["state"], "ok");
    assert_eq!(good["results"][0]["what"], "config");
    let wrong = check(78, "sources: []\n");
    assert_eq!(wrong["ok"], false);
    assert_eq!(wrong["results"][0]["state"], "wrong");
    let text = wrong["results"][0]["text"].as_str().expect("a text");
    assert_has!(text => "sources");
}

#[test]
fn a_missing_configuration_file_is_named() {
    let output = exits(
        78,
        jetwatch().args(["run", "--config", "/nonexistent.yaml"]),
    );
    assert_has!(output.err => "/nonexistent.yaml");
}

#[test]
fn a_full_disk_loses_lines_but_not_the_run() {
    let setup = Setup::new(&json_lines_config(SCENE).replace("events.jsonl", "/dev/full"));
    let output = exits(
        0,
        setup
            .command("run")
            .arg("--stats")
            .arg(setup.path("stats.json")),
    );
    assert!(output.err.contains("/dev/full"), "{}", output.err);
    let stats = setup.json("stats.json");
    assert_eq!(stats["frames"].as_u64(), Some(90));
    let (accepted, delivered) = (
        stats["messages_accepted"].as_u64().unwrap(),
        stats["messages_delivered"].as_u64().unwrap(),
    );
    let (dropped, queued) = (
        stats["messages_dropped"].as_u64().unwrap(),
        stats["messages_queued"].as_u64().unwrap(),
    );
    assert!(accepted > 0 && delivered == 0, "{stats}");
    assert_eq!(
        accepted,
        dropped + queued,
        "nothing is lost without being counted: {stats}"
    );
}

#[test]
fn a_full_disk_under_dumped_detections_fails_the_run_at_its_end() {
    let setup = Setup::new(&json_lines_config(SCENE));
    let mut command = setup.command("run");
    let text = exits(1, command.args(["--dump-detections", "/dev/full"])).err;
    assert_has!(text => "--dump-detections: the file is incomplete");
    assert!(text.contains("ended:"), "the run went on: {text}");
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_the_run() {
    let setup = Setup::new(&json_lines_config(SCENE));
    let missing = setup.path("nowhere/stats.json");
    let file = setup.path("file");
    fs::write(&file, "").unwrap();
    #[rustfmt::skip]
    let cases = [
        ("--stats", missing.as_path(), "--stats: cannot write to folder"),
        ("--stats", setup.folder.path(), "name a file"),
        ("--dot", Path::new("/proc/nope"), "--dot: cannot create folder"),
        ("--dot", file.as_path(), "--dot: cannot create folder"),
        ("--dot", Path::new("/proc"), "--dot: cannot write to folder"),
    ];
    for (option, path, wanted) in cases {
        let text = exits(1, setup.command("run").arg(option).arg(path)).err;
        assert!(text.contains(wanted), "{text}");
        assert!(!text.contains("running as"), "{text}");
    }
}

#[test]
fn a_missing_decoder_names_its_package() {
    let setup = Setup::new("");
    let clip = clips::mp4(setup.folder.path(), "a.mp4", 64, 48, 5);
    fs::write(&setup.config, format!("sources:\n  - name: cam\n    uri: {}\ndetector:\n  backend: onnx\n  model: nowhere\npublish:\n  mqtt: off\n", clip.display())).unwrap();
    let without = "avdec_h264:NONE,openh264dec:NONE,vah264dec:NONE,vaapih264dec:NONE,v4l2h264dec:NONE,v4l2slh264dec:NONE,nvh264dec:NONE,nvh264sldec:NONE,vdpauh264dec:NONE";
    let text = exits(
        1,
        setup
            .command("check")
            .env("GST_PLUGIN_FEATURE_RANK", without),
    )
    .out;
    assert_has!(text => "wrong  source cam", "H.264", "apt-get install gstreamer1.0-libav");
}

#[test]
fn check_reports_working_parts() {
    let setup = Setup::new(&json_lines_config(SCENE));
    let text = exits(0, &mut setup.command("check")).out;
    assert_has!(text => "ok     source cam: 320×180 pixels", "ok     detector: scripted");
}

#[test]
fn detections_are_dumped_before_the_tracker() {
    let setup = Setup::new(&json_lines_config(SCENE));
    exits(
        0,
        setup
            .command("run")
            .arg("--dump-detections")
            .arg(setup.path("det.txt")),
    );
    let text = fs::read_to_string(setup.path("det.txt")).unwrap();
    assert!(text.lines().count() > 90, "{} lines", text.lines().count());
    assert!(
        text.lines().all(|line| line.split(',').count() == 10),
        "{text}"
    );
}
