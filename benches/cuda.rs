//! The way through the GPU without an engine, as JSON: kernel and copies against the memory's bandwidth, graphs against single
//! calls, and two workers around a network that keeps the GPU busy for 3 ms.
//!
//! `cargo bench --bench cuda [seconds]`: seconds for each number of workers, 3 unless told. Without a GPU it says so and ends well.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use jetwatch::nvidia::cuda::{ColorMatrix, Device, Element, PixelFormat, PlaneOrder, TensorFormat};
use jetwatch::nvidia::echo::{Echo, EchoRecording};
use jetwatch::nvidia::execution::{Execution, ExecutionError, Inner, InputSource, StageTimes};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

const WIDTH: u32 = 640;
const HEIGHT: u32 = 384;

/// Runs behind each figure; before them, a few that do not count.
const RUNS: usize = 60;
const WARM_UP: usize = 6;

/// How long the network of the workers takes, and for how many frames at a time.
const PAUSE: Duration = Duration::from_millis(3);
const FRAMES: usize = 8;

fn main() {
    // Cargo gives its own arguments, such as `--bench`.
    let seconds = std::env::args()
        .find_map(|word| word.parse().ok())
        .unwrap_or(3.0);
    let device = match Device::open(0) {
        Ok(device) => device,
        Err(error) => return println!("{}", json!({ "error": error.to_string() })),
    };
    match measure(&device, Duration::from_secs_f64(seconds)) {
        Ok(report) => println!("{report:#}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

fn measure(device: &Arc<Device>, time: Duration) -> Result<Value, ExecutionError> {
    let (major, minor) = device.compute_capability();
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
        "device": device.name(),
        "compute_capability": format!("{major}.{minor}"),
        "driver_cuda": device.driver_version().to_string(),
        "memory_gb_per_s_in_theory": device.bytes_per_second().map(|rate| rate as f64 / 1e9),
        "device_copy_gb_per_s": copy,
        "kernels": kernels,
        "calls": [calls(device, EchoRecording::Off)?, calls(device, EchoRecording::Contexts)?],
        "workers": [workers(device, 1, time)?, workers(device, 2, time)?, workers(device, 3, time)?],
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

fn echo(pixels: PixelFormat, element: Element, batch: usize) -> Echo {
    Echo {
        input: InputSource::Pictures {
            pixels,
            tensor: format(element),
        },
        batch,
        output_bytes: 4096,
        pause: Duration::ZERO,
        recording: EchoRecording::Off,
    }
}

/// Writes a picture of the whole tensor into every slot.
fn fill(execution: &mut Execution, rows: &[u8]) -> Result<(), ExecutionError> {
    let inner = Inner {
        width: WIDTH,
        height: HEIGHT,
        left: 0,
        top: 0,
    };
    let pitch = 4 * WIDTH as usize;
    for index in 0..execution.batch() {
        execution.write(index, inner, |y| {
            &rows[y as usize % HEIGHT as usize * pitch..]
        })?;
    }
    Ok(())
}

fn picture() -> Vec<u8> {
    (0..4 * WIDTH * HEIGHT)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

/// Stages of [`RUNS`] runs of the whole batch, of an echo that is run call by call.
fn times(execution: &mut Execution) -> Result<Vec<StageTimes>, ExecutionError> {
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
fn device_copy(device: &Arc<Device>) -> Result<f64, ExecutionError> {
    let bytes = 256 << 20;
    let copy = Echo {
        input: InputSource::Tensor {
            bytes_per_picture: bytes,
        },
        output_bytes: bytes,
        ..echo(PixelFormat::Bgrx, Element::F32, 1)
    };
    let times = times(&mut copy.execution(device)?)?;
    Ok(2.0 * bytes as f64 / median(&times, |times| times.network) / 1e9)
}

fn kernel(
    device: &Arc<Device>,
    name: &str,
    pixels: PixelFormat,
    element: Element,
    batch: usize,
    copy: f64,
) -> Result<Value, ExecutionError> {
    let mut execution = echo(pixels, element, batch).execution(device)?;
    fill(&mut execution, &picture())?;
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
fn calls(device: &Arc<Device>, recording: EchoRecording) -> Result<Value, ExecutionError> {
    let small = TensorFormat {
        width: 64,
        height: 64,
        ..format(Element::F32)
    };
    let echo = Echo {
        input: InputSource::Pictures {
            pixels: PixelFormat::Bgrx,
            tensor: small,
        },
        recording,
        ..echo(PixelFormat::Bgrx, Element::F32, 1)
    };
    let mut execution = echo.execution(device)?;
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

/// Frames a second of `count` workers, each of which writes all pictures anew for every run.
fn workers(device: &Arc<Device>, count: usize, time: Duration) -> Result<Value, ExecutionError> {
    let busy = Echo {
        pause: PAUSE,
        recording: EchoRecording::Contexts,
        ..echo(PixelFormat::Bgrx, Element::F32, FRAMES)
    };
    let rows = picture();
    let barrier = Barrier::new(count);
    let work = || -> Result<_, ExecutionError> {
        let mut execution = busy.execution(device)?;
        fill(&mut execution, &rows)?;
        for _ in 0..WARM_UP {
            execution.run(FRAMES)?;
        }
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
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().expect("a worker that does not panic")
        };
        threads
            .into_iter()
            .map(join)
            .collect::<Result<Vec<_>, ExecutionError>>()
    })?;
    let mut alone = Echo {
        output_bytes: 1,
        ..busy
    }
    .execution(device)?;
    let network = median(&times(&mut alone)?, |times| times.network);
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
        "of_which_writing_pictures": sum(|(_, _, _, writing)| *writing),
        "network_ms": network * 1e3,
    }))
}
