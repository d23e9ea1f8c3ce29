// SPDX-License-Identifier: Apache-2.0
//! The daemon's TensorRT detector, from the ONNX file to the detections: with the doubles of TensorRT and of libcuda.
//!
//! The doubles compute one known function. The network here computes the same in ONNX's own operators, so that ONNX Runtime
//! gives the expected result. For each of 32×32 pixels: a box there, and the mean of channel 0 as its score.
//!
//! ```text
//!   images [B, 3, H, W] ── Conv (mean of 32×32) ── Reshape [B, 1, N] ─┬──────────────────────────── Concat ── output [B, 5, N]
//!                                                                     └─ Mul 0 ── Add boxes [1, 4, N] ─┘
//! ```
//!
//! Needs the doubles (`tests/nvidia_doubles/build`) and `ORT_DYLIB_PATH`; without them the tests are skipped with a message.

use crate::support;
use crate::support::classifier::write_folder;
use crate::support::cuda;
use crate::support::jetson_elements;
use crate::support::onnx_graph;
use crate::support::onnx_runtime::library_is_missing;
use crate::support::tensorrt;
use crate::support::virtual_jetson;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use jetson_elements::JetsonElements;
use onnx_graph::{Attribute, FLOAT, Graph, INT64};
use serde_json::Value;
use support::clips;
use support::daemon::{Setup, exits, finish, stderr, stdout};
use virtual_jetson::VirtualJetson;

const WIDTH: usize = 128;
const HEIGHT: usize = 96;
const CELL: usize = 32;
const COLUMNS: usize = WIDTH / CELL;
const CELLS: usize = COLUMNS * (HEIGHT / CELL);

/// Folders of the doubles that were built; none without ONNX Runtime.
fn doubles() -> Vec<PathBuf> {
    if library_is_missing() {
        return Vec::new();
    }
    let folder = |library: PathBuf| library.parent().expect("it lies in a folder").to_owned();
    tensorrt::libraries().into_iter().map(folder).collect()
}

/// The network with a dynamic batch axis, or for batches of one.
fn network(batch: Option<i64>) -> Vec<u8> {
    let mut graph = Graph::default();
    let strides = [
        Attribute::Ints("kernel_shape", &[CELL as u64, CELL as u64]),
        Attribute::Ints("strides", &[CELL as u64, CELL as u64]),
    ];
    graph.node("Conv", &["images", "mean"], "means", &strides);
    graph.node("Reshape", &["means", "flat"], "scores", &[]);
    graph.node("Mul", &["scores", "zero"], "nothing", &[]);
    graph.node("Add", &["nothing", "places"], "boxes", &[]);
    graph.node(
        "Concat",
        &["boxes", "scores"],
        "output",
        &[Attribute::Int("axis", 1)],
    );
    let (pixels, axis) = (CELL * CELL, CELL as i64);
    let mut weights = vec![0.0_f32; 3 * pixels];
    weights[..pixels].fill(1.0 / (pixels as f32 * 255.0));
    let mut places = vec![0.0_f32; 4 * CELLS];
    for cell in 0..CELLS {
        let (row, column) = (cell / COLUMNS, cell % COLUMNS);
        places[cell] = (column * CELL + CELL / 2) as f32;
        places[CELLS + cell] = (row * CELL + CELL / 2) as f32;
        places[2 * CELLS + cell] = CELL as f32;
        places[3 * CELLS + cell] = CELL as f32;
    }
    graph.constant(
        "mean",
        FLOAT,
        &[1, 3, axis, axis],
        &weights,
        f32::to_le_bytes,
    );
    graph.constant("flat", INT64, &[3], &[0_i64, 1, -1], i64::to_le_bytes);
    graph.constant("zero", FLOAT, &[1, 1, 1], &[0.0_f32], f32::to_le_bytes);
    let cells = CELLS as i64;
    graph.constant("places", FLOAT, &[1, 4, cells], &places, f32::to_le_bytes);
    let (height, width) = (HEIGHT as i64, WIDTH as i64);
    graph.input(
        "images",
        FLOAT,
        &[batch, Some(3), Some(height), Some(width)],
    );
    graph.output("output", FLOAT, &[batch, Some(5), Some(cells)]);
    graph.bytes()
}

/// A configuration with the model next to it; engines go below its folder.
fn setup(detector: &str, frames: u32, batch: Option<i64>) -> Setup {
    let setup = Setup::new(&format!(
        "sources: [{{name: cam, uri: 'synthetic://traffic?realtime=false&frames={frames}&width=256&height=192'}}]\n\
         detector: {{model: model, precision: fp32, {detector}}}\n\
         publish: {{mqtt: off, json_lines: {{path: events.jsonl}}}}\n"
    ));
    let keys = format!(
        "name: cells\n\
         input: {{name: images, width: {WIDTH}, height: {HEIGHT}, color: bgr, letterbox: {{value: 0, placement: top_left}}}}\n\
         output: {{layout: yolov8, name: output}}\nscore_threshold: 0.4\nlabels: [bright]\n"
    );
    write_folder(&setup.path("model"), &network(batch), &keys, "");
    setup
}

/// `jetwatch COMMAND --config` with the double of libcuda and of the TensorRT in `library`.
fn command(setup: &Setup, command: &str, library: &Path) -> Command {
    let mut built = setup.command(command);
    on_double(&mut built, library);
    built
}

fn on_double(command: &mut Command, library: &Path) {
    let library = library.display().to_string();
    // A machine with a GPU needs the existing entries of that path.
    let own = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let path = match cuda::is_real_gpu_only() {
        true => format!("{library}:{own}"),
        false => format!("{}:{library}:{own}", cuda::double().display()),
    };
    command.env("LD_LIBRARY_PATH", path);
}

/// A line of the detections' file: frame, box and score.
fn detections(path: &Path) -> Vec<Vec<f64>> {
    let text = fs::read_to_string(path).expect("it was written");
    text.lines()
        .map(|line| {
            line.split(',')
                .map(|number| number.trim().parse().expect("a number"))
                .collect()
        })
        .collect()
}

/// Runs to the end and returns the detections of each frame and the statistics.
fn run(setup: &Setup, mut command: Command) -> (Vec<Vec<f64>>, Value, String) {
    let (dump, stats) = (setup.path("detections.txt"), setup.path("stats.json"));
    command.arg("--dump-detections").arg(&dump);
    command.arg("--stats").arg(&stats);
    let text = exits(0, &mut command).err;
    (detections(&dump), setup.json("stats.json"), text)
}

/// Detections of ONNX Runtime on the scene of `setup`.
fn reference(frames: u32) -> Vec<Vec<f64>> {
    let setup = setup("backend: onnx, onnx_provider: cpu", frames, None);
    let (found, _, _) = run(&setup, setup.command("run"));
    assert!(
        found.len() > 3 * frames as usize,
        "the scene is bright somewhere"
    );
    found
}

fn assert_same(found: &[Vec<f64>], wanted: &[Vec<f64>], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (found, wanted) in found.iter().zip(wanted) {
        let differs = found
            .iter()
            .zip(wanted)
            .any(|(found, wanted)| (found - wanted).abs() > 1e-3);
        assert!(!differs, "{what}: {found:?} instead of {wanted:?}");
    }
}

const BUILDING: &str = "backend: tensorrt, tensorrt: {engines: engines, build: allow}";
const TAKING: &str = "backend: tensorrt, tensorrt: {engines: engines}";

#[test]
fn tensorrt_detections_equal_onnx_runtime_for_every_version() {
    let doubles = doubles();
    if doubles.is_empty() {
        return;
    }
    // One of 32 runs of a recorded graph measures the times of its stages.
    let wanted = reference(120);
    for double in doubles {
        let what = double.display().to_string();
        let setup = setup(BUILDING, 120, None);
        let (found, stats, printed) = run(&setup, command(&setup, "run", &double));
        assert_same(&found, &wanted, &what);
        assert!(printed.contains("building it now"), "{what}: {printed}");
        let stages = stats["stages"].as_array().expect("a list");
        let gpu = |name: &str| stages.iter().find(|stage| stage["stage"] == name);
        for name in ["gpu_copy_in", "gpu_tensor", "gpu_network", "gpu_copy_out"] {
            let stage = gpu(name).unwrap_or_else(|| panic!("{what}: no {name} in {stats}"));
            assert!(stage["items"].as_u64() > Some(0), "{stage}");
        }

        // The engine exists now, and is used without a build.
        let yaml = fs::read_to_string(&setup.config).expect("it is there");
        fs::write(&setup.config, yaml.replace(BUILDING, TAKING)).expect("written");
        let (found, _, printed) = run(&setup, command(&setup, "run", &double));
        assert_same(&found, &wanted, &what);
        assert!(!printed.contains("building"), "{what}: {printed}");
    }
}

#[test]
fn batched_workers_and_single_image_networks_give_same_detections() {
    let doubles = doubles();
    if doubles.is_empty() {
        return;
    }
    let wanted = reference(30);
    for double in doubles {
        let what = double.display().to_string();
        let settings = format!("{BUILDING}, batch_size: 4, batch_timeout_ms: 20, workers: 2");
        for batch in [None, Some(1)] {
            let setup = setup(&settings, 30, batch);
            let (found, _, printed) = run(&setup, command(&setup, "run", &double));
            assert_same(&found, &wanted, &what);
            let one = printed.contains("the network takes one frame at a time");
            assert_eq!(one, batch.is_some(), "{what}: {printed}");
        }
    }
}

/// A secondary network for crops of the primary detections: seven scores per crop, from the mean of its colors.
fn add_secondary(setup: &Setup) {
    let mut graph = Graph::default();
    graph.mean("images", &[2, 3]);
    graph.node("MatMul", &["mean", "weights"], "scores", &[]);
    let weights: Vec<f32> = (0..21).map(|at| (at % 7 + 1) as f32 / 3.0).collect();
    graph.constant("weights", FLOAT, &[3, 7], &weights, f32::to_le_bytes);
    graph.input("images", FLOAT, &[None, Some(3), Some(32), Some(32)]);
    graph.output("scores", FLOAT, &[None, Some(7)]);
    let keys = "name: second\n\
        input: {name: images, width: 32, height: 32, color: bgr, scale: 0.00392156862745098, letterbox: {value: 0, placement: stretch}}\n\
        output: {layout: logits, name: scores}\nscore_threshold: 0.05\nlabels: [a, b, c, d, e, f, g]\n";
    write_folder(&setup.path("second"), &graph.bytes(), keys, "");
    let yaml = fs::read_to_string(&setup.config).expect("it is there");
    let secondary = "secondary:\n  - {name: second, model: second, batch_size: 3, min_object: 8x8, vote_frames: 2, reinfer_interval: 4}\n";
    fs::write(&setup.config, yaml + secondary).expect("written");
}

/// Last result of the secondary network for each track: label and score.
fn attributes(setup: &Setup) -> BTreeMap<u64, (String, f64)> {
    let mut found = BTreeMap::new();
    for line in setup.lines() {
        let track = &line["after"];
        for attribute in track["attributes"].as_array().into_iter().flatten() {
            assert_eq!(attribute["name"], "second");
            let label = attribute["label"].as_str().expect("text").to_owned();
            let score = attribute["score"].as_f64().expect("a number");
            let id = line["track_id"].as_u64().expect("a number");
            found.insert(id, (label, score));
        }
    }
    found
}

#[test]
fn secondary_networks_run_on_tensorrt_as_on_onnx_runtime() {
    let doubles = doubles();
    if doubles.is_empty() {
        return;
    }
    // Nothing moves, so that every crop of a track is the same.
    let still = |detector: &str| {
        let setup = setup(detector, 60, None);
        add_secondary(&setup);
        let yaml = fs::read_to_string(&setup.config).expect("it is there");
        let yaml = yaml
            .replace("realtime=false", "objects=0&fps=30")
            .replace("{mqtt: off", "{mqtt: off, update_interval_ms: 100");
        // Without objects all scores are low.
        let tracker = "tracker: {min_new_track_score: 0, probation_evidence: 0}\n";
        fs::write(&setup.config, yaml + tracker).expect("written");
        let model = setup.path("model/model.yaml");
        let yaml = fs::read_to_string(&model).expect("it is there");
        fs::write(
            &model,
            yaml.replace("score_threshold: 0.4", "score_threshold: 0.1"),
        )
        .expect("written");
        setup
    };
    let onnx = still("backend: onnx");
    run(&onnx, onnx.command("run"));
    let wanted = attributes(&onnx);
    assert!(wanted.len() >= 3, "{wanted:?}");
    assert!(wanted.values().all(|(label, _)| label == "g"), "{wanted:?}");
    for double in doubles {
        let what = double.display().to_string();
        let setup = still(BUILDING);
        let (_, stats, printed) = run(&setup, command(&setup, "run", &double));
        // Two engines: one for each network.
        assert_eq!(
            printed.matches("building it now").count(),
            2,
            "{what}: {printed}"
        );
        let found = attributes(&setup);
        assert_eq!(found.len(), wanted.len(), "{what}: {found:?} {wanted:?}");
        for (id, (label, score)) in &found {
            let (other, reference) = &wanted[id];
            assert_eq!(label, other, "{what}: {id}");
            assert!(
                (score - reference).abs() < 2e-3,
                "{what}: {id}: {score} {reference}"
            );
        }
        let second = &stats["secondary"][0];
        assert!(second["crops"].as_u64() > Some(0), "{what}: {stats}");
        assert_eq!(second["dropped_crops"], 0, "{what}: {stats}");
    }
}

/// Runs `jetwatch` with these arguments, which build an engine with the TensorRT in `library`.
fn build_engine(words: &str, library: &Path) {
    let mut build = Command::new(env!("CARGO_BIN_EXE_jetwatch"));
    build.args(words.split_whitespace());
    on_double(&mut build, library);
    exits(0, &mut build);
}

/// Builds the configured engine.
fn build_configured(setup: &Setup, library: &Path) {
    let config = setup.config.display();
    build_engine(&format!("engine build --config {config}"), library);
}

#[test]
fn missing_engine_error_includes_build_command() {
    let Some(double) = doubles().pop() else {
        return;
    };
    let setup = setup(TAKING, 5, None);
    let text = exits(78, &mut command(&setup, "run", &double)).err;
    let command_line = text
        .split_once("build it with: jetwatch ")
        .and_then(|(_, rest)| rest.split_once(';'))
        .map(|(command, _)| command.to_owned())
        .unwrap_or_else(|| panic!("no command in {text}"));
    build_engine(&command_line, &double);
    exits(0, &mut command(&setup, "run", &double));
}

#[test]
fn auto_backend_uses_tensorrt_or_logs_reason() {
    let Some(double) = doubles().pop() else {
        return;
    };
    needs_onnx_runtime!();
    let setup = setup("backend: auto, tensorrt: {engines: engines}", 5, None);
    let check = |command: &mut Command| {
        let output = finish(command);
        (stdout(&output), stderr(&output))
    };
    // No GPU: nothing is wrong.
    let (printed, aside) = check(&mut setup.command("check"));
    assert!(
        printed.contains("detector: onnx, cells in fp32"),
        "{printed}\n{aside}"
    );
    assert!(!aside.contains("TensorRT"), "{aside}");
    // A GPU and TensorRT, and no engine.
    let aside = exits(0, &mut command(&setup, "run", &double)).err;
    assert_has!(aside => "falling back to ONNX Runtime", "jetwatch engine build");
    // And with one.
    build_configured(&setup, &double);
    let (printed, aside) = check(&mut command(&setup, "check", &double));
    assert!(
        printed.contains("detector: tensorrt, cells in fp32"),
        "{printed}\n{aside}"
    );
}

#[test]
fn engine_build_and_failure_are_published() {
    let Some(double) = doubles().pop() else {
        return;
    };
    let setup = setup(BUILDING, 5, None);
    let mut run = command(&setup, "run", &double);
    run.env("JETWATCH_DOUBLE_BUILD_MS", "2500");
    exits(0, &mut run);
    let reported = setup.lines_of("detector");
    let names: Vec<&str> = reported
        .iter()
        .map(|line| line["state"].as_str().expect("a text"))
        .collect();
    assert_eq!(names.first(), Some(&"engine_missing"), "{reported:?}");
    assert_eq!(names.last(), Some(&"ready"), "{reported:?}");
    assert!(
        names.len() > 3
            && names[1..names.len() - 1]
                .iter()
                .all(|name| *name == "building"),
        "{reported:?}"
    );
    let reason = reported[0]["reason"].as_str().expect("a text");
    assert_has!(reason => "jetwatch engine build");
    let elapsed = reported[names.len() - 2]["elapsed_ms"].as_u64();
    assert!(elapsed > Some(1000), "{reported:?}");
    let runs = reported[names.len() - 1]["runs"].as_str().expect("a text");
    assert!(runs.starts_with("tensorrt, cells in fp32"), "{runs}");

    fs::remove_dir_all(setup.path("engines")).expect("they are there");
    fs::remove_file(setup.path("events.jsonl")).expect("it is there");
    let mut run = command(&setup, "run", &double);
    run.env("JETWATCH_DOUBLE_FAIL", "unsupported-layer");
    exits(1, &mut run);
    let reported = setup.lines_of("detector");
    let last = reported.last().expect("progress was reported");
    assert_eq!(last["state"], "failed", "{reported:?}");
    let reason = last["reason"].as_str().expect("a text");
    assert_has!(reason => "IBuilder::buildSerializedNetwork");
}

#[test]
fn gpu_failure_stops_daemon_with_tensorrt_message() {
    let Some(double) = doubles().pop() else {
        return;
    };
    let setup = setup(BUILDING, 5, None);
    #[rustfmt::skip]
    let cases = [
        ("enqueue", "IExecutionContext::enqueueV3", "Cask convolution execution"),
        ("context", "ICudaEngine::createExecutionContext", "Error Code"),
        ("deserialize", "IRuntime::deserializeCudaEngine", "Error Code"),
        ("out-of-memory", "IBuilder::buildSerializedNetwork", "OutOfMemory"),
    ];
    for (fails, call, printed) in cases {
        let _ = fs::remove_dir_all(setup.path("engines"));
        let mut run = command(&setup, "run", &double);
        run.env("JETWATCH_DOUBLE_FAIL", fails);
        let text = exits(1, &mut run).err;
        let last = text.lines().last().unwrap_or_default();
        assert!(
            last.contains(call) && last.contains(printed),
            "{fails}: {text}"
        );
    }
}

/// Values that the network was not trained with.
#[test]
fn impossible_scores_are_refused_when_the_engine_is_loaded() {
    let Some(double) = doubles().pop() else {
        return;
    };
    let setup = setup(BUILDING, 5, None);
    let path = setup.path("model/model.yaml");
    let yaml = fs::read_to_string(&path).expect("written");
    let yaml = yaml.replacen("color: bgr", "color: bgr, scale: 100", 1);
    fs::write(&path, yaml).expect("written");
    let text = exits(78, &mut command(&setup, "run", &double)).err;
    assert_has!(text => "output `output`: found a score outside of 0 to 1", "for a made-up image");
}

#[test]
fn layers_are_timed_with_tensorrt() {
    let doubles = doubles();
    if doubles.is_empty() {
        return;
    }
    let output = tempfile::tempdir().expect("a folder");
    let layers = |code: i32, mut bench: Command| {
        bench.args(["--only", "layers", "--json", "--output"]);
        bench.arg(output.path());
        exits(code, bench.args(["--frames", "7", "--preload", "3"]))
    };
    for double in doubles {
        let setup = setup(BUILDING, 5, None);
        let printed = layers(0, command(&setup, "bench", &double)).out;
        let numbers: Value = serde_json::from_str(&printed).expect("JSON");
        let each = numbers["layers"].as_array().expect("a list");
        assert!(!each.is_empty(), "{printed}");
        let shares: f64 = each
            .iter()
            .map(|layer| layer["share"].as_f64().expect("a number"))
            .sum();
        assert!((shares - 1.0).abs() < 1e-6, "{printed}");
        assert!(each.iter().all(|layer| layer["runs"] == 7), "{printed}");
        // The inspector names the layers as the profiler does.
        assert!(
            each.iter()
                .all(|layer| layer["precision"] != "unknown" && layer["device"] == "GPU"),
            "{printed}"
        );
        let times: Vec<f64> = each
            .iter()
            .map(|layer| layer["mean_ms"].as_f64().expect("a time"))
            .collect();
        assert!(times.is_sorted_by(|a, b| a >= b), "{printed}");
    }
    let setup = setup("backend: scripted", 5, None);
    let printed = layers(1, setup.command("bench"));
    assert_eq!(printed.out, "", "{}", printed.err);
    assert_has!(printed.err => "the scripted detector has no layers");
}

/// `jetwatch bench --ablation` with further arguments.
fn ablation(code: i32, setup: &Setup, library: &Path, more: &[&str]) -> String {
    let mut bench = command(setup, "bench", library);
    bench.arg("--output").arg(setup.path("out"));
    bench.args(["--ablation", "--warmup", "0", "--frames", "24"]);
    exits(code, bench.args(more)).err
}

/// Runtime of the network in each step, and mean number of frames per batch.
fn steps(setup: &Setup) -> Vec<(String, f64)> {
    let mut folders: Vec<PathBuf> = fs::read_dir(setup.path("out"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    let reported = |folder: &PathBuf| {
        let text = fs::read(folder.join("benchmark.json")).expect("a result");
        let result: Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(result["run"]["frames"], 24, "{}", folder.display());
        let stages = result["run"]["stages"].as_array().expect("a list");
        let infer = stages.iter().find(|stage| stage["stage"] == "infer");
        let number = |key: &str| infer.and_then(|stage| stage[key].as_f64()).expect(key);
        let runs = find(&result["meta"], "detector").expect("what runs the network");
        // Memory and time of the GPU are known where the network runs on it.
        let is_on_gpu = runs.starts_with("tensorrt");
        let memory = &result["meta"]["gpu_memory"];
        let found = memory["most_used_mib"].as_f64() > Some(0.0);
        assert_eq!(found, is_on_gpu, "{memory}");
        // In a short run no batch may have been timed.
        let is_timed = result["speed"]["gpu_ms_per_frame"].is_number();
        assert!(is_on_gpu || !is_timed, "{}", result["speed"]);
        (runs, number("items") / number("count"))
    };
    folders.iter().map(reported).collect()
}

/// The text of a key at any depth.
fn find(value: &Value, key: &str) -> Option<String> {
    let map = value.as_object()?;
    let own = map.get(key).and_then(Value::as_str).map(str::to_owned);
    own.or_else(|| map.values().find_map(|value| find(value, key)))
}

#[test]
fn steps_of_an_ablation_build_their_engines_where_they_may() {
    let doubles = doubles();
    let Some(double) = doubles.last() else {
        return;
    };
    let settings = format!("{TAKING}, batch_size: 2, batch_timeout_ms: 500, interval: 1");
    let setup = setup(&settings, 50, None);
    assert_has!(ablation(1, &setup, double, &[]) => "jetwatch engine build");
    let allowed = ["--set", "detector.tensorrt.build=allow"];
    ablation(0, &setup, double, &allowed);
    let all = steps(&setup);
    assert!(
        all.len() == 4 && all.iter().all(|(runs, _)| runs.starts_with("tensorrt")),
        "{all:?}"
    );
    assert!(
        all[..2].iter().all(|(_, frames)| *frames == 1.0) && all[2].1 > 1.0,
        "{all:?}"
    );
}

#[test]
fn doctor_compares_and_times_both_runtimes() {
    let doubles = doubles();
    if doubles.is_empty() {
        return;
    }
    for double in doubles {
        let setup = setup("backend: auto, tensorrt: {engines: engines}", 5, None);
        let json = setup.path("doctor.json");
        let mut doctor = command(&setup, "doctor", &double);
        doctor.arg("--detector").arg("--json").arg(&json);
        assert_has!(exits(0, &mut doctor).out =>
            "unknown recorded: ",
            "ok     tensorrt: tensorrt, cells in fp32",
            "ok     onnx: onnx, cells in fp32",
            "ok     tensorrt and onnx detections: 100.0 % of",
            "ok     tensorrt speed: ",
            "gpu_network",
            "verdict: the detector works on this machine");
        let numbers = &setup.json("doctor.json")["numbers"];
        assert_eq!(numbers["is_proven"], true, "{numbers}");
        assert!(numbers["tensorrt"]["fps"].as_f64() > Some(0.0), "{numbers}");
    }
}

#[test]
fn doctor_and_check_detect_diverging_detector() {
    needs_onnx_runtime!();
    let setup = setup("backend: auto", 5, None);
    let golden = setup.path("model/golden.json");
    let check = |code: i32, options: &[&str]| exits(code, setup.command("check").args(options)).out;
    let model = setup.path("model").display().to_string();
    let prove = ["--models", "--prove", &model];
    let printed = check(0, &["--models"]);
    assert!(!printed.contains("recorded"), "{printed}");
    assert_has!(check(1, &prove) => "golden.json is missing");
    let mut record = setup.command("doctor");
    record.arg("--detector").arg("--record").arg(&golden);
    exits(0, &mut record);
    let doctor = |code: i32| exits(code, setup.command("doctor").arg("--detector")).out;
    assert_has!(doctor(0) => "ok     onnx detections: 100.0 % of", "unknown tensorrt: ", "unknown results prove nothing");
    let printed = check(0, &prove);
    assert_has!(printed => "ok     recorded model: onnx, cells in fp32", ": 100.0 % of", "ok     detector: ");
    assert!(
        !printed.contains("broker") && !printed.contains("source cam"),
        "{printed}"
    );

    // All recorded boxes moved by half a cell.
    let text = fs::read_to_string(&golden).expect("it was written");
    let mut moved: Value = serde_json::from_str(&text).expect("JSON");
    for image in moved["sets"][0]["images"].as_array_mut().expect("a list") {
        for detection in image["detections"].as_array_mut().expect("a list") {
            for edge in [2, 4] {
                let place = detection[edge].as_f64().expect("a number") + 160.0;
                detection[edge] = place.into();
            }
        }
    }
    fs::write(&golden, moved.to_string()).expect("written");
    assert_has!(doctor(1) => "wrong  onnx detections: ", "verdict: the detector does not work correctly");
    for options in [&prove[..], &["--models"], &[]] {
        assert_has!(check(1, options) => "wrong  recorded model: ");
    }

    let mut other: Value = serde_json::from_str(&text).expect("JSON");
    for image in other["sets"][0]["images"].as_array_mut().expect("a list") {
        image["sha256"] = "0".repeat(64).into();
    }
    fs::write(&golden, other.to_string()).expect("written");
    assert_has!(doctor(0) => "images differ from the");
    for (options, state) in [(&prove[..], "wrong "), (&["--models"], "unknown")] {
        let printed = check(i32::from(state != "unknown"), options);
        assert_has!(printed => &format!("{state} recorded model: "));
    }
}

/// A virtual Jetson Xavier NX with a clip that it decodes, and a double of TensorRT that runs the network.
struct Jetson {
    machine: VirtualJetson,
    elements: JetsonElements,
    clip: PathBuf,
    double: PathBuf,
    _folder: tempfile::TempDir,
}

impl Jetson {
    const FRAMES: u32 = 40;

    /// `None` where there is no double of TensorRT.
    fn new() -> Option<Self> {
        let double = doubles().into_iter().next()?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let clip = folder.path().join("bars.mp4");
        clips::gst_launch(&format!(
            "videotestsrc num-buffers={} horizontal-speed=4 ! video/x-raw,format=I420,width=256,height=192,framerate=30/1 ! \
             x264enc speed-preset=ultrafast key-int-max=10 bframes=0 ! mp4mux ! filesink location={}",
            Self::FRAMES,
            clip.display()
        ));
        Some(Self {
            machine: VirtualJetson::xavier_nx(),
            elements: JetsonElements::new(),
            clip,
            double,
            _folder: folder,
        })
    }

    /// A configuration with the clip, the VIC, and a detector with these settings.
    fn setup(&self, detector: &str) -> Setup {
        let setup = setup(detector, 1, None);
        let yaml = fs::read_to_string(&setup.config).expect("it is there");
        let (_, rest) = yaml.split_once('\n').expect("sources first");
        let uri = self.clip.display();
        let source = format!("{{name: cam, uri: '{uri}', decoder: hardware, scaling: vic}}");
        fs::write(&setup.config, format!("sources: [{source}]\n{rest}")).expect("written");
        setup
    }

    /// A command of the daemon on this machine.
    fn command(&self, setup: &Setup, command: &str) -> Command {
        let mut command = setup.command(command);
        command.envs(self.elements.environment());
        let folders = [&cuda::double(), &self.double, &jetson_elements::plugin()];
        let folders = folders.map(|folder| folder.display().to_string()).join(":");
        command
            .env("LD_LIBRARY_PATH", folders)
            .env("JETWATCH_DOUBLE_INTEGRATED", "1")
            .env("JETWATCH_DOUBLE_COUNTS", "1")
            .arg("--root")
            .arg(self.machine.path("/"));
        command
    }

    /// Runs the clip and returns the detections and the output.
    fn run(&self, detector: &str, environment: &[(&str, &str)]) -> (Vec<Vec<f64>>, String) {
        let setup = self.setup(detector);
        let mut command = self.command(&setup, "run");
        command.envs(environment.iter().copied());
        let (found, _, printed) = run(&setup, command);
        (found, printed)
    }
}

#[test]
fn jetson_images_reach_network_without_copy() {
    let Some(jetson) = Jetson::new() else { return };
    if cuda::is_real_gpu_only() || library_is_missing() {
        return;
    }
    // ONNX Runtime reads the CPU's memory: the same images by way of the copy.
    let (wanted, _) = jetson.run("backend: onnx, onnx_provider: cpu", &[]);
    assert!(wanted.len() >= Jetson::FRAMES as usize, "bright bars");
    let work = jetson.elements.activity();
    assert!(work.iter().any(|work| work.cpu_copy), "{work:?}");

    let jetson = Jetson {
        elements: JetsonElements::new(),
        ..jetson
    };
    let (found, printed) = jetson.run(BUILDING, &[]);
    assert_has!(printed => "images scaled by the VIC stay in NVMM");
    assert_same(&found, &wanted, "in place");
    let work = jetson.elements.activity();
    let elements: Vec<&str> = work.iter().map(|work| work.element.as_str()).collect();
    assert_eq!(elements, ["nvv4l2decoder", "nvvidconv"], "{work:?}");
    assert!(work.iter().all(|work| !work.cpu_copy), "{work:?}");
    assert!(
        work.iter()
            .all(|work| work.frames == u64::from(Jetson::FRAMES)),
        "{work:?}"
    );
    assert_eq!(work[1].to, "NVMM BGRx 128x96 pitch");
    // Registered once for each buffer of the pool, and nothing leaks.
    assert_has!(printed =>
        "double: libcuda: EGL images: registered=0 ever=8", "double: libnvbufsurface: alive: surfaces=0 images=0 made images=8");

    // Batches of several workers hold more images at a time, and the pool is large enough.
    let settings = format!("{BUILDING}, batch_size: 4, batch_timeout_ms: 20, workers: 2");
    let (found, _) = jetson.run(&settings, &[]);
    assert_same(&found, &wanted, "two workers");
    assert!(jetson.elements.activity().iter().all(|work| !work.cpu_copy));

    // `check` has the same plan.
    let output = stdout(&finish(
        &mut jetson.command(&jetson.setup(BUILDING), "check"),
    ));
    assert_has!(output =>
        "images: read by the GPU in NVMM, without a copy", "scale by VIC (nvvidconv, 256×192 NV12 in NVMM to 128×96 BGRx in NVMM)");
}

#[test]
fn unreadable_surfaces_are_copied() {
    let Some(jetson) = Jetson::new() else { return };
    if cuda::is_real_gpu_only() || library_is_missing() {
        return;
    }
    let (wanted, _) = jetson.run("backend: onnx, onnx_provider: cpu", &[]);
    let jetson = Jetson {
        elements: JetsonElements::new(),
        ..jetson
    };
    let fails = [("JETWATCH_DOUBLE_SURFACE_FAIL", "NvBufSurfaceMapEglImage")];
    let (found, printed) = jetson.run(BUILDING, &fails);
    assert_has!(printed => "NvBufSurfaceMapEglImage of libnvbufsurface failed", "falling back to copying frames out of NVMM");
    // The first image was lost, with its session; the next session starts again.
    assert_eq!(found.len(), wanted.len());
    let work = jetson.elements.activity();
    let copied: u64 = work
        .iter()
        .filter(|work| work.cpu_copy)
        .map(|work| work.frames)
        .sum();
    assert_eq!(copied, u64::from(Jetson::FRAMES), "{work:?}");

    // So does `check`, whose first frame is then not the first image.
    let setup = jetson.setup(BUILDING);
    let mut check = jetson.command(&setup, "check");
    check.envs(fails);
    let text = exits(0, &mut check).out;
    assert_has!(text =>
        "ok     source cam: 256×192 pixels, first frame after", "copy by CPU (nvvidconv, 128×96 BGRx out of NVMM)");
}
