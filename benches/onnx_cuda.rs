// SPDX-License-Identifier: Apache-2.0
//! A network on ONNX Runtime's CUDA provider, as JSON: frames/s of jetwatch's detector, from images in host memory to detections,
//! in turns with a plain loop of ONNX Runtime over tensors that lie on the GPU already, with the same batch and as many sessions;
//! and its detections next to those of the CPU.
//!
//! `make bench BENCH=onnx_cuda ARGS="[seconds] [32x8...] [FOLDER...]"`: seconds for each figure, 2 by default, loads as batch and
//! workers, and models, `models/street-nano` by default. `ORT_DYLIB_PATH` names a library with the CUDA provider; without one, or without a GPU, it prints a message and
//! exits with 0.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use jetwatch_config::{OnnxProvider, Pacing, SyntheticScene};
use jetwatch_detect::decode::DecodeParams;
use jetwatch_detect::model::{InputElement, ModelSpec};
use jetwatch_detect::onnx::{OnnxModel, SessionSettings};
use jetwatch_detect::{ClassFilter, Detector, graph, ort_library};
use jetwatch_nvidia::cuda::Device;
use jetwatch_telemetry::Recorder;
use jetwatch_traffic::scene::Scene;
use jetwatch_types::{
    Detection, Frame, FrameMeta, Image, Letterbox, PIXEL_BYTES, PixelAspect, Size, SourceId,
};
use ort::environment::Environment;
use ort::ep::{self, ExecutionProvider, cuda::ConvAlgorithmSearch};
use ort::memory::{AllocationDevice, Allocator, AllocatorType, MemoryInfo, MemoryType};
use ort::session::{IoBinding, Session};
use ort::value::{DynValue, Tensor, ValueType};
use serde_json::{Value, json};

/// Batch and number of workers.
type Load = (usize, usize);
/// Loads of the detector.
const LOADS: [Load; 9] = [
    (1, 1),
    (1, 2),
    (8, 2),
    (16, 4),
    (16, 8),
    (32, 2),
    (32, 4),
    (32, 6),
    (32, 8),
];
/// Loads of models after the first.
const FURTHER_LOADS: [Load; 2] = [(1, 1), (16, 2)];
/// Images of the drawn street, all different.
const IMAGES: usize = 64;
const SOURCE: Size = Size::new(1280, 720);
/// Boxes of two providers are the same object above this IoU.
const SAME_BOX: f32 = 0.9;

#[path = "onnx_cuda/turns.rs"]
mod turns;

use turns::{Step, in_turns, mean};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() {
    // Cargo adds its own arguments, such as `--bench`.
    let words: Vec<String> = std::env::args().skip(1).collect();
    let seconds = words
        .iter()
        .find_map(|word| word.parse().ok())
        .unwrap_or(2.0);
    let mut folders: Vec<PathBuf> = words
        .iter()
        .filter(|word| Path::new(word).is_dir())
        .map(PathBuf::from)
        .collect();
    if folders.is_empty() {
        folders.push(concat!(env!("CARGO_MANIFEST_DIR"), "/../models/street-nano").into());
    }
    let skip = |reason: String| println!("{}", json!({ "skipped": reason }));
    let library = match ort_library::find(None) {
        Ok(library) => library,
        Err(error) => return skip(error.to_string()),
    };
    let environment = match ort_library::open(&library) {
        Ok(environment) => environment,
        Err(error) => return skip(error.to_string()),
    };
    if !ep::CUDA::is_available().unwrap_or(false) {
        return skip(format!("{} has no CUDA provider", library.display()));
    }
    let device = match Device::open(0) {
        Ok(device) => device,
        Err(error) => return skip(error.to_string()),
    };
    let time = Duration::from_secs_f64(seconds);
    let chosen: Vec<Load> = words.iter().filter_map(|word| load_of(word)).collect();
    let mut reports = Vec::new();
    for (index, folder) in folders.iter().enumerate() {
        let loads = match index {
            _ if !chosen.is_empty() => &chosen[..],
            0 => &LOADS,
            _ => &FURTHER_LOADS,
        };
        match measure(&environment, folder, loads, time) {
            Ok(report) => reports.push(report),
            Err(error) => {
                eprintln!("{}: {error}", folder.display());
                std::process::exit(1);
            }
        }
    }
    let report = json!({ "device": device.name(), "library": library, "models": reports });
    println!("{report:#}");
}

/// A load such as `32x8`: batch and workers.
fn load_of(word: &str) -> Option<Load> {
    let (batch, workers) = word.split_once('x')?;
    let load = (batch.parse().ok()?, workers.parse().ok()?);
    ((1..=IMAGES).contains(&load.0) && load.1 > 0).then_some(load)
}

/// The figures of one model. The last of `loads` is the full one, at which the plain loop is also measured with other options.
fn measure(
    environment: &Environment,
    folder: &Path,
    loads: &[Load],
    time: Duration,
) -> Result<Value, Failure> {
    let full = loads[loads.len() - 1];
    let spec = ModelSpec::load(folder)?;
    let frames = frames(&spec);
    let mut accuracy = Vec::new();
    let cpu = detections(&spec, &frames, OnnxProvider::Cpu, 1)?;
    for batch in [1, full.0] {
        let gpu = detections(&spec, &frames, OnnxProvider::Cuda, batch)?;
        let same = agreement(&cpu, &gpu);
        eprintln!("{}: batch {batch}: {same}", spec.name);
        accuracy.push(json!({ "batch": batch, "agreement": same }));
    }
    let mut compared = Vec::new();
    for load in loads {
        compared.push(compare(environment, &spec, &frames, *load, time)?);
    }
    let default = PlainOptions::DEFAULT;
    let heuristic = PlainOptions {
        is_heuristic: true,
        ..default
    };
    let channels_last = PlainOptions {
        channels_last: true,
        ..default
    };
    let mut plain = Vec::new();
    for options in [default, heuristic, channels_last] {
        let (batch, sessions) = full;
        let rate = plain_loop(environment, &spec, full, options, time)?;
        eprintln!(
            "{}: plain loop alone, batch {batch}, {sessions} sessions, {options:?}: {rate:.0} frames/s",
            spec.name
        );
        plain.push(json!({
            "batch": batch, "sessions": sessions, "frames_per_s": rate, "heuristic": options.is_heuristic,
            "channels_last": options.channels_last,
        }));
    }
    Ok(json!({
        "model": spec.name, "input": [spec.input.size.width, spec.input.size.height],
        "accuracy": accuracy, "detector": compared, "plain_loop": plain,
    }))
}

/// Frames of the drawn street at the network's inner size.
fn frames(spec: &ModelSpec) -> Vec<Frame> {
    let inner = Letterbox::new(SOURCE, spec.input.size, spec.input.placement).inner;
    let stride = inner.width as usize * PIXEL_BYTES;
    let mut scene = Scene::new(&SyntheticScene {
        seed: 3,
        objects: 12,
        width: SOURCE.width,
        height: SOURCE.height,
        fps: 30,
        frames: None,
        shake: 0,
        pacing: Pacing::Unlimited,
    });
    let frame = |index: usize| {
        let mut pixels = vec![0; stride * inner.height as usize];
        scene.draw(index as u64 * 11, inner, &mut pixels, stride);
        Frame {
            meta: FrameMeta {
                source: SourceId(0),
                seq: index as u64,
                pts: None,
                captured_at: SystemTime::UNIX_EPOCH,
                received_at: Instant::now(),
                source_size: SOURCE,
            },
            crop: None,
            pixels: PixelAspect::default(),
            image: Image::new(inner, stride, Box::new(pixels)).expect("the memory is large enough"),
            full_image: None,
            truth: Vec::new(),
        }
    };
    (0..IMAGES).map(frame).collect()
}

fn load_model(
    spec: &ModelSpec,
    provider: OnnxProvider,
    (batch_size, workers): Load,
) -> Result<OnnxModel, Failure> {
    let settings = SessionSettings {
        threads: 1,
        batch_size,
        provider,
    };
    Ok(OnnxModel::load(
        spec.clone(),
        None,
        None,
        settings,
        workers,
    )?)
}

fn params(spec: &ModelSpec) -> Result<DecodeParams, Failure> {
    Ok(DecodeParams {
        score_threshold: spec.score_threshold,
        nms_iou: spec.nms_iou,
        max_detections: spec.max_detections,
        filter: ClassFilter::new(&spec.labels, &[])?,
    })
}

/// The detector of a worker; on the GPU it must be the one whose tensors stay there.
fn detector(
    model: &OnnxModel,
    spec: &ModelSpec,
    recorder: &Recorder,
) -> Result<Box<dyn Detector>, Failure> {
    let params = params(spec)?;
    if let Some(detector) = model.gpu_detector(&params, recorder) {
        return Ok(Box::new(detector?));
    }
    if model.provider() == "cuda" {
        return Err(
            "the network does not run with tensors that stay on the GPU; RUST_LOG=debug says why"
                .into(),
        );
    }
    Ok(Box::new(model.detector(params, recorder.clone())?))
}

fn detections(
    spec: &ModelSpec,
    frames: &[Frame],
    provider: OnnxProvider,
    batch: usize,
) -> Result<Vec<Vec<Detection>>, Failure> {
    let model = load_model(spec, provider, (batch, 1))?;
    let mut detector = detector(&model, spec, &Recorder::default())?;
    let (mut all, mut results) = (Vec::new(), Vec::new());
    for frames in frames.chunks(batch) {
        detector.detect(frames, &mut results)?;
        all.append(&mut results);
    }
    Ok(all)
}

/// How many detections of two providers are the same objects, and how far apart their scores are.
fn agreement(left: &[Vec<Detection>], right: &[Vec<Detection>]) -> Value {
    let count = |all: &[Vec<Detection>]| all.iter().map(Vec::len).sum::<usize>();
    let (mut same, mut apart) = (0, 0.0_f32);
    for (left, right) in left.iter().zip(right) {
        for one in left {
            let fits = |other: &&Detection| {
                other.class == one.class && iou(one.xyxy, other.xyxy) >= SAME_BOX
            };
            if let Some(other) = right.iter().find(fits) {
                same += 1;
                apart = apart.max((one.score - other.score).abs());
            }
        }
    }
    json!({ "cpu": count(left), "gpu": count(right), "same": same, "max_score_difference": apart })
}

fn iou(a: [f32; 4], b: [f32; 4]) -> f32 {
    let area = |r: [f32; 4]| (r[2] - r[0]).max(0.0) * (r[3] - r[1]).max(0.0);
    let common = area([
        a[0].max(b[0]),
        a[1].max(b[1]),
        a[2].min(b[2]),
        a[3].min(b[3]),
    ]);
    common / (area(a) + area(b) - common)
}

/// A detector and a plain loop with the same batch and as many sessions as workers, measured in turns.
fn compare(
    environment: &Environment,
    spec: &ModelSpec,
    frames: &[Frame],
    load: Load,
    time: Duration,
) -> Result<Value, Failure> {
    let (batch, workers) = load;
    let begin = Instant::now();
    let recorder = Recorder::default();
    let model = load_model(spec, OnnxProvider::Cuda, load)?;
    let opened = begin.elapsed().as_secs_f64();
    let batches: Vec<&[Frame]> = frames.chunks_exact(batch).collect();
    let make_detector = || -> Result<Step<'_>, Failure> {
        let mut detector = detector(&model, spec, &recorder)?;
        let (batches, mut results) = (&batches, Vec::new());
        Ok(Box::new(move |run| {
            detector.detect(batches[run % batches.len()], &mut results)?;
            Ok(results.len())
        }))
    };
    let sessions = plain_sessions(environment, spec, load, PlainOptions::DEFAULT)?;
    let make_plain = || plain_step(&sessions, batch);
    let rates = in_turns(workers, time, &[&make_plain, &make_detector])?;
    let (plain, detector) = (mean(&rates[0]), mean(&rates[1]));
    eprintln!(
        "{}: batch {batch}, {workers} workers: detector {detector:.0} frames/s, plain loop {plain:.0} frames/s, ratio {:.3}; \
         opened in {opened:.1} s",
        spec.name,
        detector / plain
    );
    let mut stages = serde_json::Map::new();
    for stage in recorder.summary().stages {
        if stage.items > 0 {
            let us_per_frame = |ms: f64| 1e3 * ms / stage.items as f64;
            let (wall, cpu) = (us_per_frame(stage.total_ms), stage.cpu_ms.map(us_per_frame));
            eprintln!(
                "  {}: {wall:.1} us per frame, CPU {cpu:.1?}",
                stage.stage.name()
            );
            let times = json!({ "us_per_frame": wall, "cpu_us_per_frame": cpu });
            stages.insert(stage.stage.name().to_owned(), times);
        }
    }
    Ok(json!({
        "batch": batch, "workers": workers, "frames_per_s": detector, "plain_frames_per_s": plain,
        "ratio": detector / plain, "rounds": rates[1], "plain_rounds": rates[0], "open_s": opened,
        "stages": stages,
    }))
}

/// Options of the provider in the plain loop.
#[derive(Debug, Clone, Copy)]
struct PlainOptions {
    is_heuristic: bool,
    channels_last: bool,
}

impl PlainOptions {
    const DEFAULT: Self = Self {
        is_heuristic: false,
        channels_last: false,
    };
}

/// Frames/s of a loop that does nothing but run ONNX Runtime: inputs lie on the GPU, and outputs stay there. The file is written
/// again for the batch, with fixed shapes.
fn plain_loop(
    environment: &Environment,
    spec: &ModelSpec,
    load: Load,
    options: PlainOptions,
    time: Duration,
) -> Result<f64, Failure> {
    let sessions = plain_sessions(environment, spec, load, options)?;
    let make = || plain_step(&sessions, load.0);
    Ok(mean(&in_turns(load.1, time, &[&make])?[0]))
}

type PlainSession = (Session, IoBinding);

/// A session for each worker, each run a few times: the provider looks for its algorithms while nothing else runs.
fn plain_sessions(
    environment: &Environment,
    spec: &ModelSpec,
    (batch, workers): Load,
    options: PlainOptions,
) -> Result<Mutex<Vec<PlainSession>>, Failure> {
    let bytes = spec.file(None)?.read()?;
    let bytes =
        graph::with_batch(&bytes, &[&spec.input.name], batch).map_err(|error| error.what)?;
    let mut sessions = Vec::new();
    for _ in 0..workers {
        let (mut session, binding) = plain_session(environment, spec, &bytes, batch, options)?;
        for _ in 0..3 {
            session.run_binding(&binding)?;
        }
        sessions.push((session, binding));
    }
    Ok(Mutex::new(sessions))
}

fn plain_step(sessions: &Mutex<Vec<PlainSession>>, batch: usize) -> Result<Step<'_>, Failure> {
    let taken = sessions.lock().expect("no worker panics").pop();
    let (mut session, binding) = taken.ok_or("more workers than sessions")?;
    Ok(Box::new(move |_| {
        session.run_binding(&binding)?;
        Ok(batch)
    }))
}

fn plain_session(
    environment: &Environment,
    spec: &ModelSpec,
    bytes: &[u8],
    batch: usize,
    options: PlainOptions,
) -> Result<(Session, IoBinding), Failure> {
    let search = match options.is_heuristic {
        true => ConvAlgorithmSearch::Heuristic,
        false => ConvAlgorithmSearch::Exhaustive,
    };
    let cuda = ep::CUDA::default()
        .with_conv_algorithm_search(search)
        .with_prefer_nhwc(options.channels_last);
    let session = open_session(environment, cuda, bytes)?;
    let memory = MemoryInfo::new(
        AllocationDevice::CUDA,
        0,
        AllocatorType::Device,
        MemoryType::Default,
    )?;
    let allocator = Allocator::new(&session, memory)?;
    let (height, width) = (
        spec.input.size.height as usize,
        spec.input.size.width as usize,
    );
    let shape = [batch, 3, height, width];
    let bytes = (0..batch * 3 * height * width)
        .map(|i| ((i as u32).wrapping_mul(2_654_435_761) >> 24) as u8);
    let input: DynValue = match spec.input.element {
        InputElement::Uint8 => Tensor::from_array((shape, bytes.collect::<Vec<u8>>()))?.into_dyn(),
        InputElement::Float32 => {
            let floats: Vec<f32> = bytes
                .map(|byte| f32::from(byte) * spec.input.scale[0])
                .collect();
            Tensor::from_array((shape, floats))?.into_dyn()
        }
    };
    let mut binding = session.create_binding()?;
    // Copied to the GPU now, once.
    binding.bind_input(spec.input.name.as_str(), &input)?;
    for outlet in session.outputs() {
        let ValueType::Tensor { shape, .. } = outlet.dtype() else {
            return Err("an output that is no tensor".into());
        };
        let output = Tensor::<f32>::new(&allocator, shape.to_vec())?;
        binding.bind_output(outlet.name(), output)?;
    }
    binding.synchronize_inputs()?;
    Ok((session, binding))
}

fn open_session(environment: &Environment, cuda: ep::CUDA, bytes: &[u8]) -> ort::Result<Session> {
    Session::builder(environment)?
        .with_execution_providers([cuda.build().error_on_failure()])?
        .commit_from_memory(bytes)
}
