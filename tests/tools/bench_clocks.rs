// SPDX-License-Identifier: Apache-2.0
//! `jetwatch bench --maximize-clocks` on a virtual Jetson of files, with doubles of JetPack's tools: the clocks are held while
//! it runs and restored afterwards, also when it was killed.

use crate::support;
use crate::support::virtual_jetson;

use std::process::{Command, Stdio};

use support::daemon::{Setup, finish, json_lines_config, stderr, wait_until_some};
use virtual_jetson::VirtualJetson;

const SCENE: &str = "uri: synthetic://traffic?seed=3&objects=2&width=64&height=36&fps=30";
const MARK: &str = "/run/jetwatch-held-clocks";
const RECORD: &str = "/var/lib/jetwatch-setup/tune.json";

fn bench(setup: &Setup, jetson: &VirtualJetson, words: &[&str]) -> Command {
    let mut command = setup.command("bench");
    command.arg("--root").arg(jetson.path("/"));
    command.arg("--output").arg(setup.path("out"));
    command.args(["--warmup", "0"]).args(words);
    command
}

#[test]
fn clocks_are_restored_at_end() {
    let (setup, jetson) = (
        Setup::new(&json_lines_config(SCENE)),
        VirtualJetson::xavier_nx(),
    );
    let before = jetson.settings();
    let output = finish(&mut bench(
        &setup,
        &jetson,
        &["--frames", "5", "--maximize-clocks"],
    ));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(jetson.settings(), before);
    assert_eq!(jetson.calls("jetson_clocks --restore").len(), 1);
    assert!(!jetson.root().exists(MARK) && !jetson.root().exists(RECORD));
    let result = std::fs::read(setup.path("out/benchmark.json")).expect("a result");
    let result: serde_json::Value = serde_json::from_slice(&result).expect("JSON");
    let meta = &result["meta"];
    assert_eq!(meta["clocks_maximized"], true);
    assert!(
        meta["machine_name"]
            .as_str()
            .is_some_and(|name| name.contains("Xavier NX")),
        "{meta}"
    );
    assert!(meta["power_mode"].is_string(), "{meta}");
    // The rail that feeds the module; its readings in the files do not change.
    let energy = &meta["energy"];
    assert_eq!(energy["measured"], serde_json::json!(["VDD_IN"]));
    let rails = meta["before"]["rails"].as_array().expect("rails");
    let feeding = rails
        .iter()
        .find(|rail| rail["name"] == "VDD_IN")
        .expect("VDD_IN");
    let product = |rail: &serde_json::Value| {
        Some(rail["millivolts"].as_f64()? * rail["milliamperes"].as_f64()?)
    };
    let watts = product(feeding).expect("readings") / 1e6;
    let (found, joules) = (energy["watts"].as_f64(), energy["joules"].as_f64());
    assert!(
        (found.expect("a power") / watts - 1.0).abs() < 0.01,
        "{energy} of {watts} W"
    );
    assert_eq!(
        result["speed"]["joules_per_frame"].as_f64(),
        joules.map(|joules| joules / 5.0)
    );
    let throttling = meta["throttling"].to_string();
    assert_has!(throttling => "VDD_CPU_GPU_CV draws more current");
}

#[test]
fn clocks_of_killed_benchmark_are_restored_at_next_start() {
    let (setup, jetson) = (
        Setup::new(&json_lines_config(SCENE)),
        VirtualJetson::xavier_nx(),
    );
    let before = jetson.settings();
    let mut running = bench(&setup, &jetson, &["--duration", "60s", "--maximize-clocks"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let held = wait_until_some("held clocks", || {
        let is_held = jetson.root().exists(RECORD) && jetson.settings() != before;
        is_held.then(|| jetson.settings())
    });

    // While the holder runs, the boost stays.
    let output = finish(&mut bench(&setup, &jetson, &["--frames", "5"]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(jetson.root().exists(MARK) && held != before);

    // SIGKILL.
    running.kill().expect("killed");
    running.wait().expect("ended");
    assert_ne!(
        jetson.settings(),
        before,
        "no process has restored them yet"
    );
    let output = finish(&mut bench(&setup, &jetson, &["--frames", "5"]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_has!(stderr(&output) => "a benchmark that was killed had held them");
    assert_eq!(jetson.settings(), before);
    assert!(!jetson.root().exists(MARK) && !jetson.root().exists(RECORD));
}
