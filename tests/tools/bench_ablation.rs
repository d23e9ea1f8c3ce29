//! `jetwatch bench --ablation`: the real binary runs all steps on small scenes, and every frame is counted
//! in each of them.

use crate::support;
use crate::support::classifier;

use classifier::{keys, network, write_model};
use serde_json::Value;
use support::bench::{bench, json};
use support::daemon::{Setup, finish, stderr, success};
use support::onnx_runtime::library_is_missing;

/// Frames of each step, over all sources.
const FRAMES: u64 = 24;

const STEPS: [&str; 7] = [
    "1_naive",
    "2_queues",
    "3_without_rendering",
    "4_scaled_first",
    "5_batched",
    "6_int8",
    "7_interval",
];

/// `count` live sources with the scripted detector. In the ablation they deliver frames as fast as they are consumed.
fn setup(sources: usize, more: &str) -> Setup {
    let source = |index| {
        format!(
            "  - {{name: cam{index}, uri: 'synthetic://traffic?seed={index}&objects=8&width=192&height=108&fps=5&frames=10'}}\n"
        )
    };
    let sources: String = (1..=sources).map(source).collect();
    let setup = Setup::new(&format!(
        "device: test\nsources:\n{sources}detector: {{backend: scripted, workers: 2, batch_timeout_ms: 50}}\n\
         publish: {{mqtt: off, json_lines: {{path: events.jsonl}}}}\n{more}"
    ));
    write_model(&setup.path("bright"), &network(None, 16), &keys(16));
    write_model(&setup.path("fixed"), &network(Some(1), 16), &keys(16));
    setup
}

/// Runs the ablation with this many frames in each step; returns its output.
fn run_ablation(setup: &Setup, frames: u64, arguments: &[&str]) -> String {
    let frames = frames.to_string();
    let own = ["--ablation", "--warmup", "0", "--frames", &frames];
    let output = bench(setup, &[&own, arguments].concat());
    success(&output)
}

/// The numbers of each step's run.
fn runs(setup: &Setup) -> Vec<Value> {
    let of = |step: &&str| json(&setup.path("out").join(step).join("benchmark.json"));
    STEPS.iter().map(of).collect()
}

/// How often a stage ran, and frames in it.
fn stage(document: &Value, name: &str) -> (u64, u64) {
    let stages = document["run"]["stages"].as_array().expect("stages");
    let number = |stage: &Value, key: &str| stage[key].as_u64().expect("a number");
    let found = stages.iter().find(|stage| stage["stage"] == name);
    found.map_or((0, 0), |stage| {
        (number(stage, "count"), number(stage, "items"))
    })
}

#[test]
fn every_ablation_step_processes_every_frame_as_named() {
    let setup = setup(3, "");
    let output = run_ablation(&setup, FRAMES, &[]);
    let runs = runs(&setup);
    for (number, run) in (1..).zip(&runs) {
        assert_eq!(run["ablation"]["step"], number, "{}", run["ablation"]);
        assert_eq!(run["run"]["frames"], FRAMES, "{number}");
        assert_eq!(run["run"]["dropped"], 0, "{number}");
        assert_eq!(stage(run, "track"), (FRAMES, FRAMES), "{number}");
        // Each frame is drawn in the first two steps, none in the others.
        let drawn = if number <= 2 { FRAMES } else { 0 };
        assert_eq!(stage(run, "render"), (drawn, drawn), "{number}");
        let recording = &run["run"]["recording"];
        match number {
            1 | 2 => {
                assert_eq!(
                    (&recording["frames"], &recording["dropped"]),
                    (&drawn.into(), &0.into())
                );
            }
            _ => assert!(recording.is_null(), "{recording}"),
        }
        // The scripted detector writes no tensor: this stage is only scaling by the worker.
        let scaled = if number <= 3 { FRAMES } else { 0 };
        assert_eq!(stage(run, "tensor"), (scaled, scaled), "{number}");
        let (batches, frames) = stage(run, "infer");
        match number {
            1..=4 => assert_eq!((batches, frames), (FRAMES, FRAMES), "{number}"),
            5 | 6 => assert!(frames == FRAMES && batches < FRAMES, "{batches} batches"),
            _ => {
                let sources = run["run"]["sources"].as_array().expect("a list");
                let skipped = sources.iter().map(|source| source["skipped"].as_u64());
                let skipped: u64 = skipped.map(|count| count.expect("a number")).sum();
                // Some skipped frames were still queued at the end.
                assert!(
                    skipped + frames >= FRAMES && frames <= FRAMES / 2,
                    "{skipped} skipped, {frames} inferred"
                );
            }
        }
        assert_eq!(run["run"]["workers"], if number == 1 { 1 } else { 2 });
    }
    let ablation = &json(&setup.path("out/series.json"))["ablation"];
    let steps = ablation["steps"].as_array().expect("a list");
    let names: Vec<&str> = steps
        .iter()
        .filter_map(|step| step["name"].as_str())
        .collect();
    assert_eq!(names, STEPS);
    assert_eq!(steps[0]["relative_percent"], 100.0);
    assert!(
        steps[0]["gain"].is_null() && steps[6]["gain"]["ratios"].is_array(),
        "{ablation}"
    );
    for step in &steps[1..] {
        assert!(step["explanation"]["parts"].is_array(), "{step}");
    }
    for (step, run) in steps.iter().zip(&runs) {
        let (fps, own) = (&step["fps"]["median"], &run["speed"]["fps"]);
        assert!(
            fps.as_f64() == own.as_f64() && fps.as_f64() > Some(0.0),
            "{step}"
        );
    }
    assert_has!(output =>
        "1 naive: one core, one by one", "3 frames; no secondary network", "the scripted detector has no INT8",
        "every 4th frame", "detector.workers: 1", "detector.workers: as configured", "detector.batch_size: 3",
        "detector.interval: 3", "no key: no --record", "to the first", "not explained", "What limits each step:",
        "  1_naive: one frame at a time");
}

#[test]
fn every_crop_is_inferred_and_batch_one_network_gets_single_crops() {
    if library_is_missing() {
        return;
    }
    let setup = setup(
        1,
        "secondary:\n\
         - {name: light, model: bright, min_object: 2x2, reinfer_interval: 0, batch_size: 6}\n\
         - {name: alone, model: fixed, min_object: 2x2, reinfer_interval: 0}\n",
    );
    run_ablation(&setup, FRAMES, &[]);
    let mut crops = Vec::new();
    for (number, run) in (1..).zip(runs(&setup)) {
        let networks = run["run"]["secondary"].as_array().expect("a list");
        for network in networks {
            assert_eq!(network["dropped_crops"], 0, "{number}: {network}");
            assert_eq!(network["frames_without_pixels"], 0, "{number}: {network}");
        }
        let sizes: Vec<_> = networks
            .iter()
            .map(|network| network["batch_size"].as_u64())
            .collect();
        let wanted = if number <= 4 { [1, 1] } else { [6, 1] };
        assert_eq!(sizes, wanted.map(Some), "{number}");
        crops.push(networks[0]["crops"].as_u64().expect("a number"));
        let notes = run["ablation"]["notes"].to_string();
        assert_eq!(
            notes.contains("alone: tiny takes one crop at a time"),
            number >= 5,
            "{number}: {notes}"
        );
    }
    // Every fourth frame has crops in each step. With inference on these only, tracks are confirmed later: in scenes of ten frames
    // the last step has few.
    assert!(
        crops[0] > FRAMES / 4,
        "several objects in a frame: {crops:?}"
    );
    for count in &crops[..6] {
        assert!(count.abs_diff(crops[0]) <= crops[0] / 10, "{crops:?}");
    }
}

#[test]
fn configurations_of_the_steps_pass_check() {
    let setup = setup(
        2,
        "secondary: [{name: light, model: bright, min_object: 2x2}]\n",
    );
    if library_is_missing() {
        return;
    }
    let folder = setup.path("steps");
    let words = ["--write", folder.to_str().expect("UTF-8")];
    let output = run_ablation(&setup, FRAMES, &words);
    assert_has!(output => "Configurations of the steps: 7");
    for step in STEPS {
        let path = folder.join(format!("{step}.yaml"));
        let mut check = std::process::Command::new(env!("CARGO_BIN_EXE_jetwatch"));
        let checked = finish(check.arg("check").arg("--config").arg(&path));
        let error = stderr(&checked);
        assert_eq!(checked.status.code(), Some(0), "{step}: {error}");
    }
    // Of one step in the middle: that each is its own is tested where they are made.
    let batched = folder.join("5_batched.yaml");
    let config = jetwatch_config::Config::load(&batched).expect("it was checked");
    assert_eq!(config.detector.batch_size, 2, "one of each source");
    assert_eq!(config.secondary[0].batch_size, 8);
}

#[test]
fn ablation_rounds_interleave_and_result_is_json() {
    let setup = setup(2, "");
    let output = run_ablation(&setup, 8, &["--repeat", "2", "--json"]);
    let reported: Value = serde_json::from_str(&output).expect("JSON");
    assert_eq!(reported, json(&setup.path("out/series.json")));
    assert_eq!(reported["ablation"]["rounds"], 2);
    for step in reported["ablation"]["steps"].as_array().expect("a list") {
        assert_eq!(step["fps"]["count"], 2, "{step}");
    }
    let ratios = reported["ablation"]["steps"][1]["gain"]["ratios"].as_array();
    assert_eq!(ratios.map(Vec::len), Some(2));
}
