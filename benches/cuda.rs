// SPDX-License-Identifier: Apache-2.0
//! Inference on the GPU, as JSON: kernel and copies against the memory's bandwidth, graphs against single calls, and two
//! workers around a network that keeps the GPU busy for 3 ms.
//!
//! `make bench BENCH=cuda ARGS="[seconds] [workers]"`: seconds for each number of workers, 3 by default; `workers` skips the rest.
//! Without a GPU it prints a message and exits with 0.
//! The network is a loopback. `JETWATCH_BENCH_TENSORRT` names a library of TensorRT, or a double of it, whose engine takes its
//! place in a second measurement; `JETWATCH_DOUBLE_KERNEL_US` sets how long a double keeps the GPU busy.

use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use jetwatch_nvidia::cuda::{ColorMatrix, Device, Element, PixelFormat, PlaneOrder, TensorFormat};
use jetwatch_nvidia::loopback::{GraphMode, LoopbackNetwork};
use jetwatch_nvidia::session::{
    InferenceSession, InputPlan, InputSource, LetterboxRect, OutputPlan, Plan, SessionError,
    StageTimes,
};
use jetwatch_nvidia::tensorrt::{BuildRequest, Engine, Library, Precision, Runtime};
use onnx_graph::{FLOAT, Graph};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

#[path = "../tests/support/onnx_graph.rs"]
mod onnx_graph;
#[path = "../tests/support/onnx_message.rs"]
mod onnx_message;

const WIDTH: u32 = 640;
const HEIGHT: u32 = 384;

/// Number of runs per figure, after a few warm-up runs.
const RUNS: usize = 60;
const WARM_UP: usize = 6;

/// Duration of the workers' network, and its batch size.
const PAUSE: Duration = Duration::from_millis(3);
const FRAMES: usize = 8;

fn main() {
    // Cargo adds its own arguments, such as `--bench`.
    let seconds = std::env::args()
        .find_map(|word| word.parse().ok())
        .unwrap_or(3.0);
    let device = match Device::open(0) {
        Ok(device) => device,
        Err(error) => return println!("{}", json!({ "error": error.to_string() })),
    };
    let parts = match std::env::args().any(|word| word == "workers") {
        true => Parts::Workers,
        false => Parts::All,
    };
    match measure(&device, Duration::from_secs_f64(seconds), parts) {
        Ok(report) => {
            println!("{report:#}");
            summarize(&report);
        }
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

/// The main figures, on stderr.
fn summarize(report: &Value) {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    for kernel in report["memory"]["kernels"].as_array().into_iter().flatten() {
        eprintln!(
            "kernel {} {} batch {}: {:.1} us, {:.0} % of a device copy, {:.0} % of the memory's rate; copy in {:.0} us, {:.1} GB/s",
            kernel["pixels"],
            kernel["element"],
            kernel["batch"],
            number(&kernel["kernel_us"]),
            1e2 * number(&kernel["share_of_device_copy"]),
            1e2 * number(&kernel["share_of_theory"]),
            number(&kernel["copy_in_us"]),
            number(&kernel["copy_in_gb_per_s"]),
        );
    }
    let workers = |name: &str, workers: &Value| {
        for workers in workers.as_array().into_iter().flatten() {
            eprintln!(
                "{name}, {} workers: {:.0} frames/s, {:.3} of the network alone ({:.3} ms); {:.3} ms of CPU a frame",
                workers["workers"],
                number(&workers["frames_per_s"]),
                number(&workers["share"]),
                number(&workers["network_ms"]),
                number(&workers["cpu_ms_per_frame"]),
            );
        }
    };
    workers("echo", &report["workers"]);
    let engine = &report["tensorrt"];
    workers("engine", &engine["workers"]);
    if !engine.is_null() {
        eprintln!(
            "engine: loaded in {:.1} ms, execution made in {:.1} ms, first run {:.1} ms, second {:.1} ms",
            number(&engine["load_ms"]),
            number(&engine["execution_ms"]),
            number(&engine["first_run_ms"]),
            number(&engine["later_run_ms"]),
        );
    }
}

/// Errors of a measurement.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Selected measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parts {
    /// All.
    All,
    /// Those that need no fast GPU.
    Workers,
}

fn measure(device: &Arc<Device>, time: Duration, parts: Parts) -> Result<Value, Failure> {
    let busy = |calls: Calls| loopback_for(calls).session(device);
    let mut report = json!({
        "device": device.name(),
        "compute_capability": format!("{}.{}", device.compute_capability().0, device.compute_capability().1),
        "driver_cuda": device.driver_version().to_string(),
        "workers": all_workers(&busy, time)?,
    });
    let library = std::env::var_os("JETWATCH_BENCH_TENSORRT").filter(|path| !path.is_empty());
    if let Some(path) = library {
        report["tensorrt"] = tensorrt(device, Path::new(&path), time)?;
    }
    if parts == Parts::All {
        report["memory"] = memory(device)?;
        report["calls"] = json!([
            calls(device, GraphMode::Off)?,
            calls(device, GraphMode::Contexts)?
        ]);
    }
    Ok(report)
}

/// The kernel and copies against the memory's bandwidth.
fn memory(device: &Arc<Device>) -> Result<Value, SessionError> {
    let copy = device_copy(device)?;
    let mut kernels = Vec::new();
    for batch in [1, 8, 32, 128, 256] {
        kernels.push(kernel(
            device,
            "bgrx",
            PixelFormat::Bgrx,
            Element::F32,
            batch,
            copy,
        )?);
    }
    for batch in [8, 128] {
        kernels.push(kernel(
            device,
            "bgrx",
            PixelFormat::Bgrx,
            Element::F16,
            batch,
            copy,
        )?);
        kernels.push(kernel(
            device,
            "bgrx",
            PixelFormat::Bgrx,
            Element::I8 { scale: 0.5 },
            batch,
            copy,
        )?);
        let nv12 = PixelFormat::Nv12(ColorMatrix::Bt709);
        kernels.push(kernel(device, "nv12", nv12, Element::F32, batch, copy)?);
    }
    Ok(json!({
        "gb_per_s_in_theory": device.bytes_per_second().map(|rate| rate as f64 / 1e9),
        "device_copy_gb_per_s": copy,
        "kernels": kernels,
    }))
}

fn format(element: Element) -> TensorFormat {
    TensorFormat {
        width: WIDTH,
        height: HEIGHT,
        element,
        order: PlaneOrder::Rgb,
        mean: [123.675, 116.28, 103.53],
        scale: [0.017_124_754, 0.017_507_003, 0.017_429_193],
        padding: 114,
    }
}

fn echo(pixels: PixelFormat, element: Element, batch: usize) -> LoopbackNetwork {
    LoopbackNetwork {
        input: InputSource::Images {
            pixels,
            tensor: format(element),
        },
        batch,
        output_bytes: 4096,
        pause: Duration::ZERO,
        graph_mode: GraphMode::Off,
    }
}

/// Writes a picture of the whole tensor into every slot.
fn fill(session: &mut InferenceSession, rows: &[u8]) -> Result<(), SessionError> {
    let inner = LetterboxRect {
        width: WIDTH,
        height: HEIGHT,
        left: 0,
        top: 0,
    };
    let pitch = 4 * WIDTH as usize;
    for index in 0..session.batch() {
        session.upload_image(index, inner, |y| {
            &rows[y as usize % HEIGHT as usize * pitch..]
        })?;
    }
    Ok(())
}

fn image() -> Vec<u8> {
    (0..4 * WIDTH * HEIGHT)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

/// Stages of [`RUNS`] runs of the whole batch, of an echo that is run call by call.
fn times(execution: &mut InferenceSession) -> Result<Vec<StageTimes>, SessionError> {
    let count = execution.batch();
    let mut times = Vec::with_capacity(WARM_UP + RUNS);
    for _ in 0..WARM_UP + RUNS {
        times.extend(execution.run(count)?.stages);
    }
    Ok(times.split_off(WARM_UP))
}

/// Seconds: the median of one stage.
fn median(times: &[StageTimes], stage: impl Fn(&StageTimes) -> Duration) -> f64 {
    let mut seconds: Vec<f64> = times
        .iter()
        .map(|times| stage(times).as_secs_f64())
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Gigabytes a second, read and written, of a copy inside the GPU's memory that is larger than its caches.
fn device_copy(device: &Arc<Device>) -> Result<f64, SessionError> {
    let bytes = 256 << 20;
    let copy = LoopbackNetwork {
        input: InputSource::Tensor {
            bytes_per_image: bytes,
        },
        output_bytes: bytes,
        ..echo(PixelFormat::Bgrx, Element::F32, 1)
    };
    let times = times(&mut copy.session(device)?)?;
    Ok(2.0 * bytes as f64 / median(&times, |times| times.network) / 1e9)
}

fn kernel(
    device: &Arc<Device>,
    name: &str,
    pixels: PixelFormat,
    element: Element,
    batch: usize,
    copy: f64,
) -> Result<Value, SessionError> {
    let mut execution = echo(pixels, element, batch).session(device)?;
    fill(&mut execution, &image())?;
    let times = times(&mut execution)?;
    let numbers = (WIDTH * HEIGHT) as usize;
    let pixel_bytes = match pixels {
        PixelFormat::Bgrx => 4 * numbers,
        PixelFormat::Nv12(_) => numbers * 3 / 2,
    };
    let made = median(&times, |times| times.preprocess);
    let copied = median(&times, |times| times.copy_in);
    let moved = (batch * (pixel_bytes + format(element).bytes())) as f64 / made / 1e9;
    Ok(json!({
        "pixels": name,
        "element": format!("{element:?}"),
        "batch": batch,
        "kernel_us": made * 1e6,
        "kernel_gb_per_s": moved,
        "share_of_device_copy": moved / copy,
        "share_of_theory": device.bytes_per_second().map(|rate| moved * 1e9 / rate as f64),
        "copy_in_us": copied * 1e6,
        "copy_in_gb_per_s": (batch * pixel_bytes) as f64 / copied / 1e9,
    }))
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// What one run of nearly nothing costs the host: the calls, and the waking up after them.
fn calls(device: &Arc<Device>, recording: GraphMode) -> Result<Value, SessionError> {
    let small = TensorFormat {
        width: 64,
        height: 64,
        ..format(Element::F32)
    };
    let echo = LoopbackNetwork {
        input: InputSource::Images {
            pixels: PixelFormat::Bgrx,
            tensor: small,
        },
        graph_mode: recording,
        ..echo(PixelFormat::Bgrx, Element::F32, 1)
    };
    let mut execution = echo.session(device)?;
    for _ in 0..WARM_UP {
        execution.run(1)?;
    }
    let (begin, cpu) = (Instant::now(), cpu_time());
    let count = 3200;
    let mut totals = Vec::with_capacity(count);
    let mut stages = Vec::with_capacity(count);
    for _ in 0..count {
        let times = execution.run(1)?;
        totals.push(times.total);
        stages.extend(times.stages);
    }
    let each = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
    let (wall, cpu) = (each(begin.elapsed()), each(cpu_time() - cpu));
    totals.sort();
    Ok(json!({
        "recording": format!("{recording:?}"),
        "wall_us": wall,
        "cpu_us": cpu,
        "gpu_us": totals[count / 2].as_secs_f64() * 1e6,
        "runs_with_stages": stages.len(),
        "copy_in_us": median(&stages, |times| times.copy_in) * 1e6,
        "kernel_us": median(&stages, |times| times.preprocess) * 1e6,
        "network_us": median(&stages, |times| times.network) * 1e6,
        "copy_out_us": median(&stages, |times| times.copy_out) * 1e6,
    }))
}

/// How the runs of a network are submitted to the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Calls {
    /// One by one, so that the stages of every run are measured.
    Single,
    /// Whole, as graphs.
    Graphs,
}

/// The network of the workers.
fn loopback_for(calls: Calls) -> LoopbackNetwork {
    LoopbackNetwork {
        pause: PAUSE,
        graph_mode: match calls {
            Calls::Single => GraphMode::Off,
            Calls::Graphs => GraphMode::Contexts,
        },
        ..echo(PixelFormat::Bgrx, Element::F32, FRAMES)
    }
}

/// Makes one worker's execution.
type Make<'m> = &'m (dyn Fn(Calls) -> Result<InferenceSession, SessionError> + Sync);

/// One worker, two, and three.
fn all_workers(make: Make<'_>, time: Duration) -> Result<Value, SessionError> {
    let counts = 1..=3;
    let measured = counts.map(|count| workers(make, count, time));
    Ok(measured.collect::<Result<Vec<_>, _>>()?.into())
}

/// Frames/s of `count` workers, each of which writes all images for every run.
fn workers(make: Make<'_>, count: usize, time: Duration) -> Result<Value, SessionError> {
    let rows = image();
    let mut alone = make(Calls::Single)?;
    fill(&mut alone, &rows)?;
    let network = median(&times(&mut alone)?, |times| times.network);
    drop(alone);
    let barrier = Barrier::new(count);
    // An error before the barrier would leave the others waiting there.
    let mut executions = Vec::with_capacity(count);
    for _ in 0..count {
        let mut execution = make(Calls::Graphs)?;
        fill(&mut execution, &rows)?;
        for _ in 0..WARM_UP {
            execution.run(FRAMES)?;
        }
        executions.push(execution);
    }
    let work = |mut execution: InferenceSession| -> Result<_, SessionError> {
        barrier.wait();
        let (begin, cpu) = (Instant::now(), cpu_time());
        let mut runs = 0;
        let mut writing = Duration::ZERO;
        while begin.elapsed() < time {
            let write = cpu_time();
            fill(&mut execution, &rows)?;
            writing += cpu_time() - write;
            execution.run(FRAMES)?;
            runs += 1;
        }
        Ok((runs, begin.elapsed(), cpu_time() - cpu, writing))
    };
    let results = thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = executions
            .into_iter()
            .map(|execution| scope.spawn(move || work(execution)))
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().expect("a worker that does not panic")
        };
        threads
            .into_iter()
            .map(join)
            .collect::<Result<Vec<_>, SessionError>>()
    })?;
    let rate: f64 = results
        .iter()
        .map(|(runs, elapsed, ..)| f64::from(*runs) * FRAMES as f64 / elapsed.as_secs_f64())
        .sum();
    let frames: f64 = results
        .iter()
        .map(|(runs, ..)| f64::from(*runs) * FRAMES as f64)
        .sum();
    let sum = |part: fn(&(i32, Duration, Duration, Duration)) -> Duration| {
        results.iter().map(part).sum::<Duration>().as_secs_f64() * 1e3 / frames
    };
    let pure = FRAMES as f64 / network;
    Ok(json!({
        "workers": count,
        "frames_per_s": rate,
        "frames_per_s_of_the_network_alone": pure,
        "share": rate / pure,
        "cpu_ms_per_frame": sum(|(_, _, cpu, _)| *cpu),
        "of_which_writing_images": sum(|(_, _, _, writing)| *writing),
        "network_ms": network * 1e3,
    }))
}

/// The same with an engine of the library at `path`, and the time until its first outputs.
fn tensorrt(device: &Arc<Device>, path: &Path, time: Duration) -> Result<Value, Failure> {
    let library = Library::open(Some(path))?;
    let onnx = network();
    let request = BuildRequest {
        batch: FRAMES as u32,
        contexts: 3,
        ..BuildRequest::new(&onnx, Precision::Fp32)
    };
    let built = request.build(&library)?;
    let mut begin = Instant::now();
    let mut lap = || {
        let taken = begin.elapsed().as_secs_f64() * 1e3;
        begin = Instant::now();
        taken
    };
    let runtime = Runtime::new(&library, None)?;
    let engine: Arc<Engine> = runtime.deserialize(&built.plan)?;
    let load_ms = lap();
    let make = |calls: Calls| engine.session(device, &plan_for(calls));
    let mut first = make(Calls::Graphs)?;
    let execution_ms = lap();
    fill(&mut first, &image())?;
    lap();
    first.run(FRAMES)?;
    let first_run_ms = lap();
    first.run(FRAMES)?;
    let later_run_ms = lap();
    drop(first);
    Ok(json!({
        "library": library.path().display().to_string(),
        "version": library.version().to_string(),
        "load_ms": load_ms,
        "execution_ms": execution_ms,
        "first_run_ms": first_run_ms,
        "later_run_ms": later_run_ms,
        "workers": all_workers(&make, time)?,
    }))
}

/// A network that a double of TensorRT takes: images in, the cells' boxes out.
fn network() -> Vec<u8> {
    let mut graph = Graph::default();
    graph.node("Conv", &["images"], "boxes", &[]);
    let [height, width] = [HEIGHT, WIDTH].map(i64::from);
    graph.input("images", FLOAT, &[None, Some(3), Some(height), Some(width)]);
    graph.output("boxes", FLOAT, &[None, Some(5), Some(cells() as i64)]);
    graph.bytes()
}

fn cells() -> usize {
    (WIDTH / 32 * HEIGHT / 32) as usize
}

fn plan_for(calls: Calls) -> Plan {
    Plan {
        input: InputPlan {
            name: "images".to_owned(),
            source: echo(PixelFormat::Bgrx, Element::F32, FRAMES).input,
        },
        constants: Vec::new(),
        outputs: vec![OutputPlan {
            name: "boxes".to_owned(),
            bytes_per_image: 4 * 5 * cells(),
        }],
        batch: FRAMES,
        graphs: calls == Calls::Graphs,
    }
}
