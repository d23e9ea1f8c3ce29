// SPDX-License-Identifier: Apache-2.0
//! Secondary networks behind the scripted detector, in the real binary and the real ONNX Runtime: tiny networks that the tests
//! write themselves classify crops of the synthetic scene; the results are compared with its pixels.
//!
//! Those that run a network need `ORT_DYLIB_PATH`; without it they are skipped with a message.

use crate::support;
use crate::support::classifier;
use crate::support::onnx_file;

use std::collections::BTreeMap;

use classifier::{BRIGHTNESS_THRESHOLD, keys, network, write_model};
use jetwatch_config::{Pacing, SyntheticScene};
use jetwatch_traffic::scene::Scene;
use jetwatch_types::{PIXEL_BYTES, Size};
use onnx_file::TinyNetwork;
use serde_json::Value;
use support::daemon::{Setup, exits, of_kind};

const SIZE: Size = Size::new(320, 180);
const FRAMES: u64 = 20;

/// The scripted detector on a scene, with this list of secondary networks; `bright` is the folder of the classifier.
fn setup(secondary: &str) -> Setup {
    let setup = Setup::new(&format!(
        "sources: [{{name: cam, uri: 'synthetic://traffic?seed=5&objects=12&width=320&height=180&fps=30&frames={FRAMES}'}}]\n\
         detector: {{backend: scripted, scripted: {{min_visible: 0.3}}}}\n\
         publish: {{mqtt: off, detections: true, stats_interval_s: 60, json_lines: {{path: events.jsonl}}}}\n\
         secondary:\n{secondary}"
    ));
    write_model(&setup.path("bright"), &network(None, 16), &keys(16));
    setup
}

/// All lines of a run that ends well.
fn run(setup: &Setup) -> Vec<Value> {
    exits(0, &mut setup.command("run"));
    setup.lines()
}

/// The error at its start.
fn refused(setup: &Setup) -> String {
    let output = exits(78, &mut setup.command("run"));
    output.err
}

/// The labels that a network gives to a track.
fn labels(track: &Value, name: &str) -> Vec<String> {
    let attributes = track["attributes"].as_array().expect("a list");
    attributes
        .iter()
        .filter(|attribute| attribute["name"] == name)
        .map(|attribute| attribute["label"].as_str().expect("text").to_owned())
        .collect()
}

fn numbers(list: &Value) -> Vec<f32> {
    let list = list.as_array().expect("a list");
    list.iter()
        .map(|number| number.as_f64().expect("a number") as f32)
        .collect()
}

/// The mean of all colors within each track's box, over the frames in which it was seen.
fn brightness(lines: &[Value]) -> BTreeMap<u64, Vec<f32>> {
    let mut scene = Scene::new(&SyntheticScene {
        seed: 5,
        objects: 12,
        width: SIZE.width,
        height: SIZE.height,
        fps: 30,
        frames: Some(FRAMES),
        shake: 0,
        pacing: Pacing::Unlimited,
    });
    let stride = SIZE.width as usize * PIXEL_BYTES;
    let mut pixels = vec![0; stride * SIZE.height as usize];
    let mut means: BTreeMap<u64, Vec<f32>> = BTreeMap::new();
    for frame in of_kind(lines, "detections") {
        let seq = frame["frame"]["seq"].as_u64().expect("a number");
        scene.draw(seq, SIZE, &mut pixels, stride);
        for track in frame["tracks"].as_array().expect("a list") {
            if track["state"] != "active" {
                continue;
            }
            let edges = numbers(&track["box"]);
            let [left, top, right, bottom] = [0, 1, 2, 3].map(|edge| edges[edge] as usize);
            let (mut sum, mut count) = (0_u64, 0_u64);
            for y in top..bottom {
                for pixel in pixels[y * stride..][left * PIXEL_BYTES..right * PIXEL_BYTES]
                    .chunks_exact(PIXEL_BYTES)
                {
                    sum += pixel[..3]
                        .iter()
                        .map(|value| u64::from(*value))
                        .sum::<u64>();
                    count += 3;
                }
            }
            let id = track["track_id"].as_u64().expect("a number");
            means
                .entry(id)
                .or_default()
                .push(sum as f32 / count.max(1) as f32);
        }
    }
    means
}

const BRIGHT: &str = "  - {name: light, model: bright, runs_on: {classes: [car, truck, bus, person]}, batch_size: 4, \
                      min_object: 6x6, reinfer_interval: 2}\n";

#[test]
fn classifier_labels_match_pixels() {
    needs_onnx_runtime!();
    let setup = setup(BRIGHT);
    let lines = run(&setup);
    let means = brightness(&lines);
    let events = of_kind(&lines, "event");
    let (mut checked, mut updates) = (BTreeMap::<String, usize>::new(), 0);
    for event in &events {
        // Each change of a result is published at once as an update event.
        let before = event["before"]
            .as_object()
            .map(|_| labels(&event["before"], "light"));
        updates += usize::from(
            event["type"] == "update" && before != Some(labels(&event["after"], "light")),
        );
        if event["type"] != "end" {
            continue;
        }
        let output = labels(&event["after"], "light");
        assert!(output.len() <= 1, "labels that exclude each other: {event}");
        let means = &means[&event["track_id"].as_u64().expect("a number")];
        let sure = match () {
            () if means.iter().all(|mean| *mean > BRIGHTNESS_THRESHOLD + 8.0) => "bright",
            () if means.iter().all(|mean| *mean < BRIGHTNESS_THRESHOLD - 8.0) => "dark",
            () => continue,
        };
        if let Some(label) = output.first() {
            assert_eq!(label, sure, "{means:?} for {event}");
            *checked.entry(sure.to_owned()).or_default() += 1;
        }
    }
    assert!(
        checked.len() == 2 && checked.values().sum::<usize>() >= 4,
        "{checked:?}"
    );
    assert!(
        updates >= checked.values().sum::<usize>(),
        "{updates} updates were published, {checked:?}"
    );

    let stats = of_kind(&lines, "stats");
    let light = &stats.last().expect("one at the end")["secondary"][0];
    assert_eq!(light["name"], "light");
    let crops = light["crops"].as_u64().expect("a number");
    let batches = light["batches"].as_u64().expect("a number");
    assert!(
        crops > 0 && batches <= crops && crops <= 4 * batches,
        "{light}"
    );
    let objects = light["objects_per_frame"].as_f64().expect("a number");
    let suggested = light["suggested_batch_size"].as_f64().expect("a number");
    assert!(
        objects > 1.0 && (suggested - objects).abs() <= 0.5,
        "{light}"
    );
    assert_eq!(light["frames_without_pixels"], 0, "{light}");
}

#[test]
fn dependent_network_runs_only_on_classified_tracks() {
    needs_onnx_runtime!();
    let setup = setup(&format!(
        "{BRIGHT}  - {{name: again, model: bright, runs_on: {{secondary: light, classes: [bright]}}, min_object: 6x6, vote_frames: 1, reinfer_interval: 0}}\n"
    ));
    let lines = run(&setup);
    let mut output = 0;
    for event in of_kind(&lines, "event") {
        let again = labels(&event["after"], "again");
        if !again.is_empty() {
            assert_eq!(labels(&event["after"], "light"), ["bright"], "{event}");
            output += 1;
        }
    }
    assert!(output > 0, "it never looked");
}

#[test]
fn secondary_detector_boxes_are_in_source_pixels_and_usable() {
    needs_onnx_runtime!();
    let setup = setup(
        "  - {name: shade, model: bright, runs_on: {secondary: part}, min_object: 1x1, vote_frames: 1}\n  \
           - {name: part, model: part, runs_on: {classes: [car]}, min_object: 6x6, vote_frames: 1, reinfer_interval: 0}\n",
    );
    // Whatever the image shows: a box of class `plate` over the middle quarter of the input, 24,16 to 72,48 of 96×64.
    // Stride 8, column 5, row 3: center 40+8, 24+8.
    let middle = [1.0, 1.0, 6.0_f32.ln(), 4.0_f32.ln(), 0.9, 1.0, 0.0];
    let detector = TinyNetwork::yolox(None, &[(3 * 12 + 5, middle)]);
    write_model(
        &setup.path("part"),
        &detector.bytes(),
        "input: {name: images, width: 96, height: 64, color: bgr, letterbox: {value: 0, placement: stretch}}\n\
         output: {layout: yolox, name: output}\nlabels: [plate, lamp]\n",
    );
    let lines = run(&setup);
    let (mut boxes, mut shades) = (0, 0);
    for event in of_kind(&lines, "event") {
        let attributes = event["after"]["attributes"].as_array().expect("a list");
        for attribute in attributes {
            if attribute["name"] == "shade" {
                assert_eq!(
                    attribute["box"],
                    Value::Null,
                    "the label applies to the whole part"
                );
                shades += 1;
                continue;
            }
            assert_eq!(
                (&attribute["name"], &attribute["label"]),
                (&"part".into(), &"plate".into())
            );
            assert_eq!(event["label"], "car", "{event}");
            let (part, whole) = (numbers(&attribute["box"]), numbers(&event["after"]["box"]));
            // The object has moved a little since the crop.
            let size = [whole[2] - whole[0], whole[3] - whole[1]];
            for axis in [0, 1] {
                let near = 0.2 * size[axis] + 4.0;
                let wanted = whole[axis] + size[axis] / 4.0;
                assert!((part[axis] - wanted).abs() <= near, "{part:?} in {whole:?}");
                let wanted = size[axis] / 2.0;
                let found = part[axis + 2] - part[axis];
                assert!((found - wanted).abs() <= near, "{part:?} in {whole:?}");
            }
            boxes += 1;
        }
    }
    assert!(boxes > 0 && shades > 0, "{boxes} boxes, {shades} shades");
}

#[test]
fn the_primary_detector_does_not_wait_for_secondary_networks() {
    needs_onnx_runtime!();
    // Frames come as fast as they are taken, and every object of each must be classified.
    let setup = Setup::new(
        "sources: [{name: cam, uri: 'synthetic://traffic?seed=5&objects=20&width=160&height=90&realtime=false&frames=20'}]\n\
         detector: {backend: scripted}\n\
         publish: {mqtt: off, detections: true, stats_interval_s: 60, json_lines: {path: events.jsonl}}\n\
         secondary: [{name: light, model: bright, reinfer_interval: 0, vote_frames: 1, min_object: 1x1, batch_timeout_ms: 200, batch_size: 64}]\n",
    );
    write_model(&setup.path("bright"), &network(None, 16), &keys(16));
    let lines = run(&setup);
    assert_eq!(of_kind(&lines, "detections").len(), 20, "no frame is lost");
    let source = of_kind(&lines, "source");
    assert_eq!(source.last().expect("its end")["state"], "ended");
    let stats = of_kind(&lines, "stats");
    let light = &stats.last().expect("one at the end")["secondary"][0];
    assert!(light["crops"].as_u64() > Some(0), "{light}");
}

#[test]
fn invalid_secondary_network_is_reported_with_key() {
    #[rustfmt::skip]
    let cases = [
        ("  - {name: a, model: bright, runs_on: {classes: [cars]}}\n", "secondary[0].runs_on.classes: the detector has no label `cars`; did you mean car"),
        ("  - {name: a, model: bright}\n  - {name: b, model: bright, runs_on: {secondary: a, classes: [brigth]}}\n",
         "secondary[1].runs_on.classes: the network that it stands on has no label `brigth`; did you mean bright?"),
        ("  - {name: a, model: fixed, batch_size: 8}\n", "secondary[0].batch_size: found 8, but tiny takes one crop at a time"),
        ("  - {name: a, model: bright}\n  - {name: b, model: nowhere}\n", "secondary[1] (b): cannot read"),
    ];
    needs_onnx_runtime!();
    for (secondary, wanted) in cases {
        let setup = setup(secondary);
        write_model(&setup.path("fixed"), &network(Some(1), 16), &keys(16));
        let found = refused(&setup);
        assert!(found.contains(wanted), "{found}\ninstead of\n{wanted}");
    }
}

#[test]
fn check_reports_all_secondary_problems() {
    needs_onnx_runtime!();
    let setup = setup(
        "  - {name: a, model: bright, runs_on: {classes: [cars]}}\n  - {name: b, model: nowhere}\n  - {name: c, model: bright, runs_on: {secondary: b}}\n",
    );
    let text = exits(1, &mut setup.command("check")).out;
    assert_has!(text => "secondary[0].runs_on.classes: the detector has no label `cars`", "secondary[1] (b): cannot read");
    let of_third = text.lines().filter(|line| line.contains("secondary[2]"));
    assert_eq!(of_third.count(), 0, "nothing is known of it: {text}");
}

#[test]
fn fixed_batch_network_runs_crops_individually() {
    needs_onnx_runtime!();
    let setup = setup("  - {name: light, model: fixed, min_object: 6x6}\n");
    write_model(&setup.path("fixed"), &network(Some(1), 16), &keys(16));
    let lines = run(&setup);
    let stats = of_kind(&lines, "stats");
    let light = &stats.last().expect("one at the end")["secondary"][0];
    assert!(light["crops"].as_u64() > Some(0), "{light}");
    assert_eq!(light["suggested_batch_size"], 1, "more do not fit: {light}");
}

/// A model of a GPU, not a measurement: a run of the network costs a fixed time, and each crop in it a little more.
fn modeled_gpu_ms(runs: f64, crops: f64) -> f64 {
    const RUN_MS: f64 = 1.0;
    const CROP_MS: f64 = 0.1;
    runs * RUN_MS + crops * CROP_MS
}

#[test]
fn on_a_modeled_gpu_the_suggested_batch_is_three_times_as_fast_as_single_crops() {
    needs_onnx_runtime!();
    let light = |batch_size: u64| {
        let setup = Setup::new(&format!(
            "sources: [{{name: cam, uri: 'synthetic://traffic?seed=5&objects=24&width=160&height=90&fps=15&frames=20'}}]\n\
             detector: {{backend: scripted}}\n\
             publish: {{mqtt: off, stats_interval_s: 60, json_lines: {{path: events.jsonl}}}}\n\
             secondary: [{{name: light, model: bright, reinfer_interval: 0, min_object: 1x1, batch_size: {batch_size}}}]\n"
        ));
        write_model(&setup.path("bright"), &network(None, 16), &keys(16));
        let lines = run(&setup);
        let stats = of_kind(&lines, "stats");
        stats.last().expect("one at the end")["secondary"][0].clone()
    };
    let suggested = light(1)["suggested_batch_size"].as_u64().expect("a number");
    assert!(suggested >= 10, "{suggested} objects in a frame");
    let batched = light(suggested);
    let [runs, crops] = ["batches", "crops"].map(|key| batched[key].as_f64().expect("a number"));
    let gained = modeled_gpu_ms(crops, crops) / modeled_gpu_ms(runs, crops);
    assert!(gained >= 3.0, "{gained:.2} times as fast: {batched}");
}
