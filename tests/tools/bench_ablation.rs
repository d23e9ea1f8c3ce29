// SPDX-License-Identifier: Apache-2.0
//! `jetwatch bench --ablation`: the real binary changes one key after the other, and reports the gain of each change.

use serde_json::Value;

use crate::support::bench::{bench, json};
use crate::support::daemon::{Setup, stderr, success};

const STEPS: [&str; 4] = [
    "1_first_values",
    "2_detector.workers=2",
    "3_detector.batch_size=3",
    "4_detector.interval=3",
];

/// Three drawn scenes, and what speeds them up.
fn setup() -> Setup {
    let source = |index| {
        format!(
            "  - {{name: cam{index}, uri: 'synthetic://traffic?seed={index}&objects=8&width=192&height=108&realtime=false'}}\n"
        )
    };
    let sources: String = (1..=3).map(source).collect();
    Setup::new(&format!(
        "device: test\nsources:\n{sources}detector: {{backend: scripted, workers: 2, batch_size: 3, interval: 3}}\n\
         publish: {{mqtt: off, json_lines: {{path: events.jsonl}}}}\n"
    ))
}

/// How often the network ran in a run, and on how many frames.
fn inferred(document: &Value) -> (u64, u64) {
    let stages = document["run"]["stages"].as_array().expect("stages");
    let stage = stages.iter().find(|stage| stage["stage"] == "infer");
    let number = |key: &str| stage.and_then(|stage| stage[key].as_u64()).expect(key);
    (number("count"), number("items"))
}

#[test]
fn each_step_turns_one_key_of_the_configuration_on() {
    let setup = setup();
    let output = success(&bench(
        &setup,
        &["--ablation", "--warmup", "0", "--frames", "48"],
    ));
    let runs = STEPS.map(|step| json(&setup.path("out").join(step).join("benchmark.json")));
    for (name, run) in STEPS.iter().zip(&runs) {
        assert_eq!(run["run"]["dropped"], 0, "{name}");
        assert_eq!(run["run"]["frames"], 48, "{name}");
    }
    let workers = runs.each_ref().map(|run| run["run"]["workers"].clone());
    assert_eq!(workers, [1, 2, 2, 2].map(Value::from));
    let [first, queued, batched, skipping] = runs.each_ref().map(inferred);
    assert_eq!([first, queued], [(48, 48); 2]);
    assert!(batched.0 < 48 && batched.1 == 48, "{batched:?}");
    assert!(skipping.1 <= 24, "{skipping:?}");
    let series = json(&setup.path("out/series.json"));
    assert_eq!(series["kind"], "ablation");
    let steps = series["ablation"]["steps"].as_array().expect("a list");
    assert_eq!(steps[0]["relative_percent"], 100.0);
    assert!(steps[0]["gain"].is_null(), "{series}");
    for (step, run) in steps.iter().zip(&runs).skip(1) {
        let (fps, own) = (&step["fps"]["median"], &run["speed"]["fps"]);
        assert!(
            fps.as_f64() == own.as_f64() && fps.as_f64() > Some(0.0),
            "{step}"
        );
        assert!(gain(step)["ratios"].is_array(), "{step}");
        assert!(step["explanation"]["parts"].is_array(), "{step}");
    }
    assert_has!(output =>
        "1 first values", "detector.workers=1; detector.batch_size=1; detector.interval=0", "2 detector.workers=2",
        "4 detector.interval=3", "Of the First", "not explained", "What limits each step:");
}

/// The gain of a step: by CPU time where other programs disturbed the runs.
fn gain(step: &Value) -> &Value {
    match &step["not_measurable"] {
        Value::Null => &step["gain"],
        by => {
            assert!(step["gain"].is_null() && by.is_string(), "{step}");
            &step["cpu_gain"]
        }
    }
}

#[test]
fn named_keys_change_in_turns_over_the_rounds() {
    let setup = setup();
    let words = "--ablation --warmup 0 --frames 24 --repeat 2 --json --sweep batch_size=1,2,3 --sweep tracker.type=iou,sort";
    let words: Vec<&str> = words.split(' ').collect();
    let output = success(&bench(&setup, &words));
    let reported: Value = serde_json::from_str(&output).expect("JSON");
    assert_eq!(reported, json(&setup.path("out/series.json")));
    assert_eq!(reported["rounds"], 2);
    let steps = reported["ablation"]["steps"].as_array().expect("a list");
    let titles: Vec<_> = steps
        .iter()
        .filter_map(|step| step["title"].as_str())
        .collect();
    assert_eq!(
        titles,
        [
            "first values",
            "batch_size=2",
            "batch_size=3",
            "tracker.type=sort"
        ]
    );
    for step in steps {
        assert_eq!(step["fps"]["count"], 2, "{step}");
    }
    let ratios = gain(&steps[1])["ratios"].as_array();
    assert_eq!(ratios.map(Vec::len), Some(2));
}

#[test]
fn a_live_source_is_named_before_the_steps_run() {
    let setup = Setup::new(
        "sources: [{name: gate, uri: 'synthetic://traffic?width=192&height=108&fps=200&frames=20'}]\n\
         detector: {backend: scripted}\npublish: {mqtt: off, json_lines: {path: events.jsonl}}\n",
    );
    let output = bench(&setup, &["--ablation", "--warmup", "0", "--frames", "8"]);
    assert_has!(stderr(&output) => "gate gives frames at its own pace");
    let nothing = ["--ablation", "--set", "detector.workers=1"];
    let output = bench(&setup, &nothing);
    assert_eq!(output.status.code(), Some(1));
    assert_has!(stderr(&output) => "name keys by --sweep");
}
