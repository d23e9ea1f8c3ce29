// SPDX-License-Identifier: Apache-2.0
//! The daemon with a real network in the real ONNX Runtime: a tiny one that the test writes itself.
//!
//! Needs `ORT_DYLIB_PATH`; without it the tests are skipped with a message.

use crate::support;
use crate::support::onnx_file;

use std::fs;

use onnx_file::TinyNetwork;
use support::clips;
use support::daemon::{Setup, Signal, exits, signal, start, terminate, wait_until_some};
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
    let frames = setup.lines_of("detections");
    assert_eq!(frames.len(), 40);
    // The box is 32×16 around 12,12 of the input: clipped at the left, and twice as large in the source.
    let last = &frames[39]["tracks"][0];
    assert_eq!(last["label"], "car", "{last}");
    for (edge, expected) in [0.0, 8.0, 56.0, 40.0].into_iter().enumerate() {
        let found = last["box"][edge].as_f64().expect("a number");
        assert!((found - expected).abs() <= 0.5, "{last}");
    }
}

#[test]
fn unusable_networks_stop_the_run() {
    needs_onnx_runtime!();
    type Change = fn(&Setup);
    let as_it_is: Change = |_| {};
    let damage: Change = |setup| {
        let path = setup.path("model/tiny.onnx");
        let mut bytes = fs::read(&path).expect("written");
        bytes[100] ^= 1;
        fs::write(&path, bytes).expect("writable");
    };
    let nan = ["output `output` holds NaN at index", "detector.precision"];
    let unlike = ["input `images`", "found float32 [1, 3, 64, 96]"];
    for (score, width, change, words, is_found_by_check) in [
        (f32::NAN, 96, as_it_is, &nan[..], false),
        (0.9, 128, as_it_is, &unlike, true),
        (0.9, 96, damage, &["SHA-256"], false),
    ] {
        let scene = "synthetic://traffic?frames=50&realtime=false";
        let setup = setup(scene, &network(score), width);
        change(&setup);
        let mut texts = vec![exits(78, &mut setup.command("run")).err];
        if is_found_by_check {
            let check = exits(1, &mut setup.command("check"));
            texts.push(check.out + &check.err);
        }
        for text in texts {
            let missing: Vec<_> = words.iter().filter(|word| !text.contains(**word)).collect();
            assert!(missing.is_empty(), "{missing:?} in {text}");
        }
    }
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
    setup.wait_for_nth("detections", 9);
    drop(server);
    setup.wait_for("offline", |line| {
        line["kind"] == "source" && line["state"] == "offline"
    });
    let before = setup.lines_of("detections").len();
    let _server = RtspServer::start(port, &[]);
    setup.wait_for_nth("detections", before + 9);
    terminate(child);
    let lines = setup.lines_of("source");
    let states = lines.iter().filter_map(|line| line["state"].as_str());
    let states: Vec<&str> = states.collect();
    assert_eq!(states[..3], ["connecting", "online", "offline"]);
    assert_eq!(states.last(), Some(&"ended"), "{states:?}");
    let online = states.iter().filter(|state| **state == "online");
    assert!(online.count() >= 2, "{states:?}");
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
    let last = |kind: &str, source: &str| {
        let lines = setup.lines_of(kind).into_iter();
        lines.rev().find(|line| line["source"] == source)
    };
    let wait_for_state = |state: &str| {
        wait_until_some(state, || {
            (last("source", "late")?["state"] == state).then_some(())
        });
    };
    wait_for_state("offline");
    wait_until_some("frames of the other", || last("detections", "cam"));

    fs::create_dir(&pictures).expect("the folder is writable");
    crate::support::picture::write_flat(&pictures.join("1.png"), 96, 64, [0; 3]);
    signal(&child, Signal::HUP);
    let reload = setup.wait_for_nth("reload", 0);
    assert_eq!(reload["changed"], serde_json::json!(["late"]), "{reload}");
    assert_eq!(reload["unchanged"], 1, "{reload}");
    wait_until_some("its picture", || last("detections", "late"));
    wait_for_state("ended");
    signal(&child, Signal::HUP);
    // One that has ended has not failed.
    let reload = setup.wait_for_nth("reload", 1);
    assert_eq!(reload["unchanged"], 2, "{reload}");
    terminate(child);
}
