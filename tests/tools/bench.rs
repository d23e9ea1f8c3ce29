// SPDX-License-Identifier: Apache-2.0
//! `jetwatch bench`: the real binary, short runs of the built-in scene with the scripted detector.

use crate::support;

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;

use serde_json::Value;
use support::bench::json;
use support::daemon::{Setup, finish, json_lines_config, stderr, stdout, success};

const SCENE: &str = "uri: synthetic://traffic?seed=3&objects=6&width=320&height=180&realtime=false";

fn setup() -> Setup {
    Setup::new(&json_lines_config(SCENE))
}

/// Runs with the arguments in `words` into the folder `out`; returns the exit code, stdout and stderr.
fn bench(setup: &Setup, words: &str) -> (Option<i32>, String, String) {
    let words: Vec<&str> = words.split_whitespace().collect();
    let output = support::bench::bench(setup, &words);
    (output.status.code(), stdout(&output), stderr(&output))
}

/// `jetwatch report` of a file or folder with the options `words`; returns stdout and stderr.
fn report(words: &[&str], path: &Path) -> (String, String) {
    let output = support::report::report(words, &[path]);
    (success(&output), stderr(&output))
}

/// Key paths and values of a tree, one per line, numbers as `#`.
fn layout(tree: &Value, path: &str, lines: &mut Vec<String>) {
    match tree {
        Value::Object(map) => {
            for (key, value) in map {
                layout(value, &format!("{path}/{key}"), lines);
            }
        }
        Value::Number(_) => lines.push(format!("{path} #")),
        Value::Array(values) => {
            for value in values {
                layout(value, &format!("{path}[]"), lines);
            }
        }
        other => lines.push(format!("{path} {other}")),
    }
}

#[test]
fn benchmark_json_has_both_cv_cuda_layouts() {
    let setup = setup();
    let (code, printed, aside) = bench(&setup, "--batches 4 --warmup 1 --set batch_size=2");
    assert_eq!(code, Some(0), "{aside}");
    assert_has!(printed => "End to end", "network alone", "  jetwatch/detect/infer ");
    let result = json(&setup.path("out/benchmark.json"));
    let mut lines = Vec::new();
    for part in ["data", "mean_data", "data_stats_minus_warmup"] {
        layout(&result[part], part, &mut lines);
    }
    for part in ["obj_name", "total_batches", "warmup_batches"] {
        layout(&result["meta"][part], &format!("meta/{part}"), &mut lines);
    }
    // The track thread and the sources have one batch per frame; the first batch has all keys.
    lines.retain(|line| {
        let is_late = |part: &str| {
            part.strip_prefix("batch_")
                .is_some_and(|n| n.parse::<u32>().is_ok_and(|n| n > 0))
        };
        !line.split('/').any(is_late)
    });
    let text = lines.join("\n") + "\n";
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/benchmark_layout.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&golden, &text).expect("written");
    }
    let wanted = fs::read_to_string(&golden).expect("the golden file");
    assert_eq!(text, wanted, "{}", golden.display());
    let meta = &result["meta"];
    assert_eq!(meta["config_hash"].as_str().map(str::len), Some(64));
    assert_eq!(meta["settings"][0], "batch_size=2");
    for key in [
        "machine_name",
        "started_at",
        "versions",
        "before",
        "after",
        "throttling",
    ] {
        assert!(!meta[key].is_null(), "{key}: {meta}");
    }
    let libraries = meta["versions"]["libraries"].as_array().expect("a list");
    let is_gstreamer = |name: &serde_json::Value| {
        let name = name.as_str();
        name.is_some_and(|name| name.starts_with("libgstreamer-1.0.so.0"))
    };
    assert!(libraries.iter().any(is_gstreamer), "{libraries:?}");
}

#[test]
fn benchmark_counts_match_frames_and_batches() {
    let setup = setup();
    let words = "--frames 31 --warmup 2 --set batch_size=3 --set batch_timeout_ms=1000 --set detector.workers=1";
    let (code, _, aside) = bench(&setup, words);
    assert_eq!(code, Some(0), "{aside}");
    let result = json(&setup.path("out/benchmark.json"));
    // Ten batches of three frames and one of one frame.
    assert_eq!(result["speed"]["frames"], 31);
    assert_eq!(result["speed"]["batches"], 11);
    assert_eq!(result["meta"]["total_batches"]["jetwatch/detect"], 11);
    assert_eq!(result["meta"]["total_batches"]["jetwatch/track"], 31);
    let detect = &result["data"]["jetwatch"]["detect"];
    assert_eq!(detect["total_items"], 31);
    let batches = detect.as_object().expect("a map").iter();
    let items = batches
        .filter(|(key, _)| key.starts_with("batch_"))
        .map(|(_, batch)| {
            assert_eq!(batch["total_items"], batch["infer"]["total_items"]);
            assert_eq!(batch["total_items"], batch["batch"]["total_items"]);
            batch["total_items"].as_u64().expect("a number")
        });
    assert_eq!(items.sum::<u64>(), 31);
    assert_eq!(result["data"]["jetwatch"]["track"]["total_items"], 31);
    let measured = &result["data_stats_minus_warmup"];
    let batches = |level: &str, stage: &str| &measured[level][stage]["cpu_time"]["total_items"];
    assert_eq!(batches("jetwatch/detect", "infer"), 7);
    // One for each frame, without those of the detector's first two batches, and of its last two.
    assert_eq!(batches("jetwatch/track", "publish"), 31 - (3 + 3) - (3 + 1));

    let (code, printed, aside) = bench(&setup, "--batches 5 --warmup 0 --json");
    assert_eq!(code, Some(0), "{aside}");
    let speed: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(
        (&speed["batches"], &speed["frames"]),
        (&5.into(), &5.into())
    );
}

#[test]
fn a_benchmark_reaches_neither_webhooks_nor_files_of_a_daemon() {
    let endpoint = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = endpoint.local_addr().expect("an address");
    let setup = Setup::new(&format!(
        "device: test\nsources: [{{name: cam, {SCENE}}}]\ndetector: {{backend: scripted}}\n\
         publish:\n  mqtt: {{spool: {{durability: process, runtime_folder: spool, state_folder: spool}}}}\n  \
         webhooks: [{{name: alarm, url: 'http://{address}/', events: [new, end], spool: {{runtime_folder: hooks, state_folder: hooks}}}}]\n\
         record: {{folder: media, snapshots: {{enabled: true}}}}\nweb: {{listen: '{address}'}}\n"
    ));
    let (code, _, aside) = bench(&setup, "--frames 60 --warmup 3");
    assert_eq!(code, Some(0), "{aside}");
    for folder in ["spool", "hooks", "media"] {
        assert!(!setup.path(folder).exists(), "{folder}");
    }
    assert!(setup.path("out/media").is_dir());
    endpoint.set_nonblocking(true).expect("set");
    let error = endpoint.accept().expect_err("a request");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

#[test]
fn each_bench_stage_runs_alone() {
    for (part, range) in [
        ("decode", "source/source"),
        ("scale", "source/source"),
        ("detect", "detect/infer"),
        ("track", "track/track"),
        ("publish", "track/publish"),
    ] {
        let setup = setup();
        let words = format!("--only {part} --frames 40 --warmup 3 --preload 5");
        let (code, printed, aside) = bench(&setup, &words);
        assert_eq!(code, Some(0), "{part}: {aside}");
        let result = json(&setup.path("out/benchmark.json"));
        assert_eq!(result["speed"]["frames"], 40, "{part}");
        assert!(result["speed"]["fps"].as_f64() > Some(0.0), "{part}");
        let (level, stage) = range.split_once('/').expect("a level");
        let levels = result["meta"]["total_batches"].as_object().expect("a map");
        assert_eq!(
            Vec::from_iter(levels.keys()),
            [&format!("jetwatch/{level}")],
            "{part}"
        );
        let of_level = &result["data"]["jetwatch"][level];
        assert_eq!(of_level["total_items"], 40, "{part}");
        let batch = of_level["batch_0"].as_object().expect("a batch").iter();
        let stages = batch.filter(|(_, value)| value.is_object());
        let stages: Vec<&String> = stages.map(|(name, _)| name).collect();
        assert_eq!(stages, [stage], "{part}");
        // Scaling by elements is no part of the batches.
        let is_row = |line: &str| line.starts_with("  scale ");
        assert_eq!(printed.lines().any(is_row), part == "scale", "{printed}");
    }
}

#[test]
fn a_sweep_runs_every_combination_and_goes_on_after_a_failure() {
    let setup = setup();
    let words = "--frames 20 --warmup 1 --sweep batch_size=1,2 --sweep detector.workers=1,2";
    let (code, printed, aside) = bench(&setup, words);
    assert_eq!(code, Some(0), "{aside}");
    let series = json(&setup.path("out/series.json"));
    let points = series["points"].as_array().expect("a list");
    let names: Vec<_> = points
        .iter()
        .filter_map(|point| point["name"].as_str())
        .collect();
    let wanted = [
        "1,detector.workers=1",
        "1,detector.workers=2",
        "2,detector.workers=1",
        "2,detector.workers=2",
    ];
    assert_eq!(names, wanted.map(|end| format!("batch_size={end}")));
    for name in names {
        assert!(printed.contains(name), "{printed}");
        let result = json(&setup.path("out").join(name).join("benchmark.json"));
        assert_eq!(result["speed"]["frames"], 20, "{name}");
        let varied = &result["meta"]["varied"];
        let size = varied["batch_size"].as_str().expect("a value");
        assert!(
            name.starts_with(&format!("batch_size={size},")),
            "{name}: {varied}"
        );
    }
    assert!(printed.contains("\nFastest: "), "{printed}");
    // The points are compared without a warning, by what they vary.
    let (text, aside) = report(&[], &setup.path("out"));
    assert_eq!(aside, "");
    assert_has!(text => "Throughput: ", "batch_size=2 detector.workers=1");

    let scene = |frames: u32| format!("{}&frames={frames}", SCENE.trim_start_matches("uri: "));
    let sweep = format!("uri={},{}", scene(2), scene(30));
    let (code, printed, aside) = bench(&setup, &format!("--frames 20 --warmup 4 --sweep {sweep}"));
    assert_eq!(code, Some(1), "{printed}");
    assert_has!(aside => "no batch is left to measure: 2 ran", "1 of 2 runs failed");
    let series = json(&setup.path("out/series.json"));
    assert!(
        series["points"][0]["fps"].is_null() && !series["points"][0]["runs"][0]["error"].is_null()
    );
    assert_eq!(series["points"][1]["fps"]["count"], 1, "{series}");
}

#[test]
fn two_configurations_run_in_turns() {
    let setup = setup();
    let other = setup.path("other.yaml");
    fs::write(
        &other,
        json_lines_config(SCENE).replace("workers: 2", "workers: 1"),
    )
    .expect("written");
    let other = other.display().to_string();
    let words = format!("--frames 12 --warmup 1 --compare {other} --repeat 3");
    let (code, printed, aside) = bench(&setup, &words);
    assert_eq!(code, Some(0), "{aside}");
    let series = json(&setup.path("out/series.json"));
    let ratios = series["comparison"]["ratios"].as_array();
    assert_eq!(ratios.map(Vec::len), Some(3), "{series}");
    assert!(printed.contains("median of 3 pairs"), "{printed}");
    let order: Vec<_> = aside
        .lines()
        .filter_map(|line| line.split(',').next())
        .collect();
    // The names of the files.
    let (first, second) = ("jetwatch", "other");
    assert_eq!(
        order,
        [first, second, second, first, first, second],
        "{aside}"
    );
    assert_has!(printed => "other runs at ", " times the speed of jetwatch");
    let result = json(&setup.path("out/other/run_1/benchmark.json"));
    assert_eq!(result["meta"]["varied"]["config"], "other");
}

#[test]
fn sweep_points_with_different_detectors_are_reported() {
    let setup = setup();
    let sweep = |what: &str| {
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/models/street-nano");
        let words = format!("--frames 12 --warmup 1 --sweep {what} --set detector.model={model}");
        let (code, printed, aside) = bench(&setup, &words);
        assert_eq!(code, Some(0), "{aside}");
        let (_, after) = printed.split_once("detected with the same:")?;
        let lines = after.lines().skip(1).map(|line| line.trim().to_owned());
        Some(lines.take(2).collect::<Vec<_>>())
    };
    assert_eq!(sweep("batch_size=1,2"), None);
    let reported = sweep("detector.backend=onnx,scripted").expect("it is reported");
    assert!(
        reported[0].starts_with("onnx, street-nano in fp32 (")
            && reported[0].ends_with(": detector.backend=onnx"),
        "{reported:?}"
    );
    assert_eq!(reported[1], "scripted, truth: detector.backend=scripted");
    let series = json(&setup.path("out/series.json"));
    let second = &series["points"][1]["runs"][0]["detector"];
    assert_eq!(second, "scripted, truth");
}

#[test]
fn bench_processes_have_own_folders_and_mean() {
    let setup = setup();
    let (code, _, aside) = bench(&setup, "--frames 20 --warmup 1 --processes 2");
    assert_eq!(code, Some(0), "{aside}");
    let fps = ["proc_0_gpu_0", "proc_1_gpu_0"].map(|name| {
        let result = json(&setup.path("out").join(name).join("benchmark.json"));
        assert_eq!(result["speed"]["frames"], 20, "{name}");
        result["speed"]["fps"].as_f64().expect("a number")
    });
    let mean = json(&setup.path("out/benchmark_mean.json"));
    assert_eq!(mean["meta"]["args"]["num_processes"], 2);
    let found = mean["speed"]["fps"].as_f64();
    assert_eq!(found, Some((fps[0] + fps[1]) / 2.0));
    let (text, _) = report(&[], &setup.path("out"));
    assert_has!(text => "Load balance; frames/s of 2 processes: max/mean 1.");
    let (text, _) = report(&[], &setup.path("out/benchmark_mean.json"));
    assert!(text.contains("means of 2 processes"), "{text}");
}

#[test]
fn report_explains_a_run() {
    let setup = setup();
    let (code, printed, aside) = bench(&setup, "--frames 60 --warmup 2");
    assert_eq!(code, Some(0), "{aside}");
    assert!(printed.contains("95 % interval"), "{printed}");
    let first = json(&setup.path("out/benchmark.json"));
    let speed = &first["speed"];
    assert!(
        speed["fps_standard_error"].as_f64() > Some(0.0) && speed["fps_blocks"].as_u64() > Some(2),
        "{speed}"
    );
    assert!(speed["gpu_ms_per_frame"].is_null(), "{speed}");
    assert!(
        first["data"]["jetwatch"]["detect"]["gpu_time"].is_null(),
        "nothing ran on a GPU"
    );
    let detect = &first["data"]["jetwatch"]["detect"];
    assert_eq!(
        detect["cpu_time_per_item_minus_warmup"],
        detect["cpu_time_minus_warmup_per_item"]
    );
    let meta = &first["meta"];
    assert!(meta["processor"]["threads"].as_u64() > Some(0), "{meta}");
    assert_ne!(meta["machine_name"], "no Jetson");
    let (text, aside) = report(&[], &setup.path("out/benchmark.json"));
    assert_eq!(aside, "");
    let fps = format!("{:.1}", speed["fps"].as_f64().expect("a number"));
    assert_has!(text => " of the detectors' time\n", &fps);
}

#[test]
fn bench_mistakes_are_reported_before_running() {
    let setup = setup();
    let short = "--frames 3 --warmup 2";
    for (words, wanted, text) in [
        ("--gpus 64", 1, "--gpus 64"),
        (
            "--sweep detector.batchsize=1,2",
            78,
            "did you mean `detector.batch_size`?",
        ),
        ("--sweep batch_size=1,1000", 78, "detector.batch_size"),
        ("--sweep batch_size", 1, "expected KEY=VALUE"),
        ("--maximize-clocks", 1, "needs a Jetson"),
        ("--set worker=2", 78, "did you mean `detector.workers`?"),
        (short, 1, "3 ran, and the warm-up drops 2 at the front"),
    ] {
        let (code, printed, aside) = bench(&setup, words);
        assert_eq!(code, Some(wanted), "{words}: {printed}{aside}");
        assert!(aside.contains(text), "{words}: {aside}");
        let is_early = words.starts_with("--gpus");
        assert!(!is_early || !setup.path("out").exists(), "{words}: it ran");
    }
    fs::write(setup.path("file"), "").expect("written");
    let mut command = setup.command("bench");
    command.arg("--output").arg(setup.path("file/below"));
    let output = finish(&mut command);
    assert_eq!(output.status.code(), Some(1));
    assert_has!(stderr(&output) => "choose another one with --output");
}
