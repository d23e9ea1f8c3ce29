// SPDX-License-Identifier: Apache-2.0
//! The daemon with a real network in the real ONNX Runtime: a tiny one that the test writes itself.
//!
//! Needs `ORT_DYLIB_PATH`; without it the tests are skipped with a message.

use crate::support;
use crate::support::onnx_file;

use std::fs;

use onnx_file::TinyNetwork;
use support::clips;
use support::daemon::{
    Setup, Signal, exits, finish, signal, start, stderr, terminate, wait_until_some,
};
use support::onnx_runtime::write_model;
use support::ports::free_port;
use support::rtsp::RtspServer;

/// A network for 96×64 pixels that sees one box of class `car`, whatever the image shows.
fn network(score: f32) -> TinyNetwork {
    let cell = [0.5, 0.5, 4.0_f32.ln(), 2.0_f32.ln(), score, 0.1, 1.0];
    TinyNetwork::yolox(Some(1), &[(13, cell)])
}

/// A configuration with a model folder next to it; JSON lines go to `events.jsonl`.
fn setup(uri: &str, network: &TinyNetwork, width: u32) -> Setup {
    let setup = Setup::new(&format!(
        "sources: [{{name: cam, uri: '{uri}', reconnect_wait_ms: 100, stall_timeout_ms: 20000}}]\n\
         detector: {{backend: onnx, model: model}}\n\
         publish: {{mqtt: off, detections: true, json_lines: {{path: events.jsonl}}}}\n"
    ));
    let input = format!(
        "width: {width}, height: 64, color: bgr, letterbox: {{value: 0, placement: top_left}}"
    );
    let output = "{layout: yolox, name: output}\nlabels: [person, car]";
    let folder = setup.path("model");
    write_model(&folder, &network.bytes(), &input, output, "");
    setup
}

#[test]
fn real_video_through_a_real_network() {
    needs_onnx_runtime!();
    let media = tempfile::tempdir().expect("a temporary folder");
    let clip = clips::mp4(media.path(), "a.mp4", 192, 128, 40);
    let setup = setup(&clip.display().to_string(), &network(0.9), 96);
    exits(0, &mut setup.command("run"));
    let lines = setup.lines();
    let frames: Vec<_> = lines
        .iter()
        .filter(|line| line["kind"] == "detections")
        .collect();
    assert_eq!(frames.len(), 40);
    // The box is 32×16 around 12,12 of the input: clipped at the left, and twice as large in the source.
    let last = &frames[39]["tracks"][0];
    assert_eq!(last["label"], "car", "{last}");
    let numbers: Vec<f64> = last["box"]
        .as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_f64().unwrap())
        .collect();
    for (found, expected) in numbers.iter().zip([0.0, 8.0, 56.0, 40.0]) {
        assert!((found - expected).abs() <= 0.5, "{numbers:?}");
    }
}

#[test]
fn nan_output_stops_run_with_position() {
    needs_onnx_runtime!();
    let setup = setup(
        "synthetic://traffic?frames=50&realtime=false",
        &network(f32::NAN),
        96,
    );
    let output = finish(&mut setup.command("run"));
    assert_eq!(output.status.code(), Some(78), "{}", stderr(&output));
    let text = stderr(&output);
    assert_has!(text => "output `output` holds NaN at index", "detector.precision");
}

#[test]
fn network_unlike_model_yaml_stops_run() {
    needs_onnx_runtime!();
    let setup = setup(
        "synthetic://traffic?frames=50&realtime=false",
        &network(0.9),
        128,
    );
    for command in ["run", "check"] {
        let output = finish(&mut setup.command(command));
        let text = stderr(&output) + &String::from_utf8_lossy(&output.stdout);
        assert!(
            text.contains("input `images`") && text.contains("96") && text.contains("128"),
            "{command}: {text}"
        );
        assert_eq!(
            output.status.code(),
            Some(if command == "run" { 78 } else { 1 }),
            "{text}"
        );
    }
}

#[test]
fn damaged_network_file_is_rejected_by_checksum() {
    needs_onnx_runtime!();
    let setup = setup(
        "synthetic://traffic?frames=50&realtime=false",
        &network(0.9),
        96,
    );
    let path = setup.path("model/tiny.onnx");
    let mut bytes = fs::read(&path).unwrap();
    bytes[100] ^= 1;
    fs::write(&path, bytes).unwrap();
    let output = exits(78, &mut setup.command("run"));
    assert!(output.err.contains("SHA-256"), "{}", output.err);
}

#[test]
fn rtsp_camera_outage_is_handled_end_to_end() {
    needs_onnx_runtime!();
    // Another program must not get the port while the server is away.
    let port = free_port();
    let server = RtspServer::start(port, &[]);
    let uri = server.uri();
    let setup = setup(&uri, &network(0.9), 96);
    let child = start(&mut setup.command("run"));
    let lines = || setup.lines();
    let frames = |least: usize| {
        wait_until_some("frames", || {
            (lines()
                .iter()
                .filter(|line| line["kind"] == "detections")
                .count()
                >= least)
                .then_some(())
        })
    };
    let states = || -> Vec<String> {
        lines()
            .iter()
            .filter(|line| line["kind"] == "source")
            .map(|line| line["state"].as_str().unwrap().to_owned())
            .collect()
    };
    frames(10);
    drop(server);
    wait_until_some("offline", || {
        states()
            .iter()
            .any(|state| state == "offline")
            .then_some(())
    });
    let before = lines()
        .iter()
        .filter(|line| line["kind"] == "detections")
        .count();
    let _server = RtspServer::start(port, &[]);
    frames(before + 10);
    terminate(child);
    let states = states();
    assert_eq!(
        (states[0].as_str(), states[1].as_str(), states[2].as_str()),
        ("connecting", "online", "offline"),
        "{states:?}"
    );
    assert_eq!(
        states.last().map(String::as_str),
        Some("ended"),
        "{states:?}"
    );
    assert!(
        states.iter().filter(|state| *state == "online").count() >= 2,
        "{states:?}"
    );
}

#[test]
fn reload_retries_permanently_failed_source() {
    needs_onnx_runtime!();
    let scene = "synthetic://traffic?width=96&height=64&fps=4";
    let setup = setup(scene, &network(0.5), 96);
    let pictures = setup.path("later");
    let text = fs::read_to_string(&setup.config).expect("readable");
    let late = format!(
        ", {{name: late, uri: 'images:{}'}}]\ndetector",
        pictures.display()
    );
    let text = text.replace("]\ndetector", &late);
    fs::write(&setup.config, text).expect("writable");
    let child = start(&mut setup.command("run"));
    let of = |kind: &str, source: Option<&str>| -> Vec<serde_json::Value> {
        let lines = setup.lines().into_iter();
        let is_named = |line: &serde_json::Value| source.is_none_or(|name| line["source"] == name);
        lines
            .filter(|line| line["kind"] == kind && is_named(line))
            .collect()
    };
    wait_until_some("its failure", || {
        (of("source", Some("late")).last()?["state"] == "offline").then_some(())
    });
    wait_until_some("frames of the other", || {
        of("detections", Some("cam")).pop()
    });

    fs::create_dir(&pictures).expect("the folder is writable");
    crate::support::picture::write_flat(&pictures.join("1.png"), 96, 64, [0; 3]);
    signal(&child, Signal::HUP);
    let reload = wait_until_some("the reload", || of("reload", None).pop());
    assert_eq!(reload["changed"], serde_json::json!(["late"]), "{reload}");
    assert_eq!(reload["unchanged"], 1, "{reload}");
    wait_until_some("its picture", || of("detections", Some("late")).pop());
    wait_until_some("its end", || {
        (of("source", Some("late")).last()?["state"] == "ended").then_some(())
    });
    signal(&child, Signal::HUP);
    let reload = wait_until_some("the second reload", || {
        of("reload", None).into_iter().nth(1)
    });
    assert_eq!(
        reload["unchanged"], 2,
        "one that has ended has not failed: {reload}"
    );
    terminate(child);
}
