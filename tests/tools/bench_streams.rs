// SPDX-License-Identifier: Apache-2.0
//! `jetwatch bench --streams`: the real binary runs copies of short sources whose limit is known, and `jetwatch report` draws
//! the result. Secondary networks in a sweep.

use crate::support;
use crate::support::classifier;

use std::fs;
use std::time::Instant;

use classifier::{keys, network, write_model};
use support::bench::{bench, json};
use support::daemon::{
    Setup, Signal, finish, json_lines_config, signal, start, stderr, stdout, success,
    wait_for_output, wait_until_some,
};
use support::picture::write_flat;
use support::report::report;

/// Runs `bench --streams` with these arguments into the folder `out`; returns the exit code, stdout and stderr.
fn streams(setup: &Setup, words: &[&str]) -> (Option<i32>, String, String) {
    let output = bench(setup, &[&["--streams"], words].concat());
    (output.status.code(), stdout(&output), stderr(&output))
}

const SCENE: &str = "uri: synthetic://traffic?seed=3&objects=2&width=64&height=36&realtime=false";

#[test]
fn search_ends_at_the_most_that_may_be_tried_and_is_drawn() {
    let setup = Setup::new(&json_lines_config(SCENE));
    let words = [
        "--max-streams",
        "3",
        "--fps",
        "2",
        "--duration",
        "2s",
        "--repeat",
        "1",
    ];
    let (code, printed, aside) = streams(&setup, &words);
    assert_eq!(code, Some(0), "{aside}");
    let series = json(&setup.path("out/series.json"));
    assert_eq!(series["kind"], "streams");
    let trials = series["streams"]["trials"].as_array().expect("trials");
    // Which trials there are depends on whether this machine keeps up; each is what it is called.
    for trial in trials {
        let count = trial["streams"].as_u64().expect("a number");
        assert!((1..=3).contains(&count), "{trial}");
        let sources = trial["sources"].as_array().expect("sources");
        assert_eq!(sources.len() as u64, count, "{trial}");
        let names: Vec<&str> = sources.iter().filter_map(|s| s["name"].as_str()).collect();
        let wanted: Vec<String> = (1..=count).map(|number| format!("cam-{number}")).collect();
        assert_eq!(names, wanted);
        let sum = |key: &str| -> u64 { sources.iter().filter_map(|s| s[key].as_u64()).sum() };
        assert_eq!(trial["dropped"].as_u64(), Some(sum("dropped")));
        assert_eq!(trial["received"].as_u64(), Some(sum("received")));
        let has_drops = sum("dropped") + sum("late") > 0;
        assert!(!(has_drops && trial["has_kept_up"] == true), "{trial}");
    }
    let fit = &series["streams"]["fit"];
    let found = fit["streams"].as_u64().expect("a number");
    assert_eq!(fit["is_lower_bound"] == true, found == 3, "{fit}");
    if found == 3 {
        assert_has!(printed => "At least 3 streams of 2.0 frames/s fit");
    }

    let page = setup.path("page.html");
    let html = page.to_str().expect("a plain path");
    let text = success(&report(
        &["--html", html],
        &[&setup.path("out/series.json")],
    ));
    assert!(text.contains("Trials by number of streams"), "{text}");
    let page = fs::read_to_string(&page).expect("a page");
    assert!(page.contains("\"drops\":[{\"x\":1"), "the data of the plot");
}

#[test]
fn a_source_that_is_slower_than_its_rate_does_not_fit_even_once() {
    // Each frame takes 200 ms in the source: at most 5 frames/s, where 20 are asked for. No machine makes that fit.
    let slow = "uri: launch:videotestsrc is-live=false ! video/x-raw,width=64,height=36,framerate=20/1 ! identity sleep-time=200000";
    let config = json_lines_config(slow).replace(
        "backend: scripted",
        &format!(
            "model: {}\n  backend: onnx",
            concat!(env!("CARGO_MANIFEST_DIR"), "/models/street-nano")
        ),
    );
    needs_onnx_runtime!();
    let setup = Setup::new(&config);
    let words = ["--fps", "20", "--duration", "2s", "--repeat", "2"];
    let (code, printed, aside) = streams(&setup, &words);
    assert_eq!(code, Some(0), "{aside}");
    let series = json(&setup.path("out/series.json"));
    let fit = &series["streams"]["fit"];
    assert_eq!(fit["streams"], 0, "{series}");
    assert_eq!(
        (&fit["above"]["passed"], &fit["above"]["failed"]),
        (&0.into(), &2.into())
    );
    // Beside other programs no failed trial proves anything.
    let is_disturbed = printed.contains("not measurable on this machine now: other programs took");
    let answer = match is_disturbed {
        true => "Whether one stream of 20.0 frames/s fits is not measurable on this machine now",
        false => "Not even one stream of 20.0 frames/s fits",
    };
    assert_has!(printed => answer, "What limits 1 stream:");
}

#[test]
fn a_number_of_copies_of_a_file_runs_at_its_pace() {
    let setup = Setup::new(&json_lines_config("uri: images:frames"));
    fs::create_dir(setup.path("frames")).expect("a folder");
    for name in ["a.png", "b.png"] {
        write_flat(&setup.path("frames").join(name), 64, 36, [90, 120, 60]);
    }
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/models/street-nano");
    needs_onnx_runtime!();
    let model = format!("detector.model={model}");
    let more = [
        "--set",
        &model,
        "--set",
        "detector.backend=onnx",
        "--duration",
        "4s",
    ];
    let begun = Instant::now();
    let (code, printed, aside) = streams(&setup, &[&["2", "--fps", "5"], &more[..]].concat());
    let lasted = begun.elapsed().as_secs_f64();
    assert_eq!(code, Some(0), "{aside}");
    let series = json(&setup.path("out/series.json"));
    assert!(series["streams"]["fit"].is_null(), "nothing was searched");
    let trials = series["streams"]["trials"].as_array().expect("trials");
    assert_eq!(trials.len(), 1);
    for source in trials[0]["sources"].as_array().expect("sources") {
        // Five frames a second since the source began, never more, since the pace is set; a busy machine may give fewer.
        let most = 5.0 * lasted + 1.0;
        let received = source["received"].as_f64().expect("a number");
        assert!(received > 0.0 && received <= most, "{source}");
        assert!(
            printed.contains(source["name"].as_str().expect("a name")),
            "{printed}"
        );
    }
}

#[test]
fn a_signal_in_a_trial_is_told_as_such() {
    let setup = Setup::new(&json_lines_config(SCENE));
    let mut command = setup.command("bench");
    command.arg("--output").arg(setup.path("out"));
    let child = start(command.args(["--streams", "--fps", "2", "--duration", "500s"]));
    wait_until_some("a trial", || {
        setup.path("out/streams_01/trial_1").exists().then_some(())
    });
    signal(&child, Signal::INT);
    let output = wait_for_output(child);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_has!(text => "stopped by a signal");
    assert!(!text.contains("cannot run"), "{text}");
}

#[test]
fn mistakes_are_reported_before_a_trial() {
    let setup = Setup::new(&json_lines_config(SCENE));
    for (words, code, wanted) in [
        (&["0"][..], 2, "expected a number from 1 to 64"),
        (&["--frames", "9"], 2, "cannot be used with"),
        (&["2", "--fps", "0"], 2, "--fps"),
    ] {
        let (found, _, aside) = streams(&setup, words);
        assert_eq!(found, Some(code), "{words:?}: {aside}");
        assert!(aside.contains(wanted), "{words:?}: {aside}");
    }
}

#[test]
fn a_sweep_of_a_secondary_network_shows_crops_and_fill_up_to_256() {
    needs_onnx_runtime!();
    let scene = "uri: synthetic://traffic?seed=3&objects=8&width=192&height=108&realtime=false";
    let secondary =
        "secondary: [{name: light, model: bright, min_object: 2x2, reinfer_interval: 0}]\n";
    let setup = Setup::new(&(json_lines_config(scene) + secondary));
    write_model(&setup.path("bright"), &network(None, 16), &keys(16));
    let sweep = [
        "--frames",
        "30",
        "--warmup",
        "1",
        "--sweep",
        "secondary[0].batch_size=3,256",
    ];
    let printed = success(&bench(&setup, &sweep));
    assert_has!(printed => "Crops/s", "Dropped Crops", "Fill", "Wait, ms", "Suggested Batch Size");
    let series = json(&setup.path("out/series.json"));
    assert_eq!(series["kind"], "sweep");
    for (point, size) in [(0, 3.0), (1, 256.0)] {
        let name = format!("secondary[0].batch_size={size}");
        assert_eq!(series["points"][point]["name"], name.as_str());
        assert!(printed.contains(&name), "{name} is not in\n{printed}");
        let network = &series["points"][point]["secondary"][0];
        assert_eq!(network["batch_size"], size, "{network}");
        assert!(network["crops_per_s"].as_f64() > Some(0.0), "{network}");
        assert!(network["mean_batch"].as_f64() <= Some(size), "{network}");
    }
    let path = setup.path("out/series.json");
    let text = success(&report(&[], &[&path, &path]));
    assert!(text.contains("The same points side by side"), "{text}");
    let refused = finish(
        setup
            .command("bench")
            .args(["--set", "secondary[0].batch_size=257"]),
    );
    assert_eq!(refused.status.code(), Some(78));
    assert_has!(stderr(&refused) => "from 1 to 256");
}
