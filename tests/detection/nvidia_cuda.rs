// SPDX-License-Identifier: Apache-2.0
//! The GPU and its driver: buffers, error texts, and the inference session of one worker with the loopback network.
//!
//! On the double of libcuda, which the tests build, and on a real GPU where there is one.

use crate::support::cuda;

use std::process::Command;
use std::thread;

use cuda::{echo, noise, run_on_gpus, tensor};
use jetwatch_nvidia::cuda::{
    CudaError, Device, DeviceBuffer, Element, Event, EventKind, PinnedBuffer, PixelFormat, Stream,
    Version,
};
use jetwatch_nvidia::loopback::{GraphMode, LoopbackNetwork};
use jetwatch_nvidia::session::{InferenceSession, InputSource, LetterboxRect, SessionError};

/// Writes noise as a picture of the whole tensor into slot `index`.
fn fill(execution: &mut InferenceSession, index: usize, width: u32, height: u32, seed: u32) {
    let bytes = noise((width * height * 4) as usize, seed);
    let inner = LetterboxRect {
        width,
        height,
        left: 0,
        top: 0,
    };
    let row = |y: u32| &bytes[(y * width * 4) as usize..];
    execution
        .upload_image(index, inner, row)
        .expect("the picture fits");
}

/// Blue of the first pixel of that noise: the first number of the tensor.
fn first_number(seed: u32) -> f32 {
    f32::from(noise(1, seed)[0])
}

#[test]
fn gpu_properties_are_read() {
    run_on_gpus("gpu_properties_are_read", &[], |device| {
        assert!(!device.name().is_empty());
        assert!(device.driver_version() >= Version::MIN_VERSION);
        assert!(device.compute_capability() >= (5, 0), "{device:?}");
        assert!(device.multiprocessors() > 0 && device.threads_per_multiprocessor() >= 1024);
        let memory = device.memory().expect("it is reported");
        assert!(
            memory.free <= memory.total && memory.total > 0,
            "{memory:?}"
        );
        assert!(Device::count().expect("it is reported") > 0);
        let copies = [Device::open(0), Device::open(0)];
        for copy in copies {
            assert_eq!(copy.expect("it opens again").name(), device.name());
        }
        device
            .make_current()
            .expect("the context outlives the other two");
    });
}

#[test]
fn buffers_keep_data_and_free_memory() {
    run_on_gpus("buffers_keep_data_and_free_memory", &[], |device| {
        let stream = Stream::new(&device).expect("a stream");
        for len in [1, 255, 256, 257, 1 << 20] {
            let mut buffer = DeviceBuffer::new(&device, len).expect("memory");
            let bytes = noise(len, len as u32);
            stream.upload(&bytes, &mut buffer).expect("copied there");
            let mut back = vec![0; len];
            stream.download(&buffer, &mut back).expect("copied back");
            assert_eq!((back, buffer.len()), (bytes, len));
            let mut pinned = PinnedBuffer::new(&device, len).expect("memory");
            assert!(
                pinned.as_slice().iter().all(|byte| *byte == 0),
                "{len} new bytes are zero"
            );
            pinned.as_mut_slice().fill(7);
            assert_eq!(pinned.as_slice(), vec![7; len]);
        }
        assert!(
            DeviceBuffer::new(&device, 0)
                .expect("nothing is little")
                .is_empty()
        );
        let begin = Event::new(&device, EventKind::Timing).expect("an event");
        let end = Event::new(&device, EventKind::Timing).expect("an event");
        begin.record(&stream).expect("recorded");
        end.record(&stream).expect("recorded");
        end.synchronize().expect("reached");
        assert!(end.since(&begin).expect("both are reached").as_secs() < 10);
        let error = Event::new(&device, EventKind::Timing)
            .expect("an event")
            .since(&begin);
        assert!(
            matches!(
                error,
                Err(CudaError::Call {
                    call: "cuEventElapsedTime",
                    ..
                })
            ),
            "{error:?}"
        );
    });
}

#[test]
fn cuda_graphs_equal_single_calls_for_any_batch() {
    run_on_gpus(
        "cuda_graphs_equal_single_calls_for_any_batch",
        &[],
        |device| {
            let recordings = [
                GraphMode::Off,
                GraphMode::Contexts,
                GraphMode::OneContext,
                GraphMode::Impossible,
            ];
            let format = tensor(32, 8, Element::F32);
            for recording in recordings {
                let echo = LoopbackNetwork {
                    graph_mode: recording,
                    ..echo(PixelFormat::Bgrx, format, 4)
                };
                let mut execution = echo.session(&device).expect("an execution");
                // Batch sizes repeat soon, late, and consecutively; images differ from run to run.
                for (run, count) in [1, 1, 4, 4, 4, 2, 4, 1, 3, 3, 3, 2, 2]
                    .into_iter()
                    .enumerate()
                {
                    let seed = |index: usize| (run * 10 + index) as u32;
                    for index in 0..count {
                        fill(&mut execution, index, 32, 8, seed(index));
                    }
                    let times = execution.run(count).expect("it runs");
                    assert!(times.total.as_secs() < 10, "{times:?}");
                    let numbers = execution.output_f32(0);
                    assert_eq!(numbers.len(), count * 3 * 32 * 8);
                    for (index, picture) in numbers.chunks(3 * 32 * 8).enumerate() {
                        let found = (picture[0], recording, run, index);
                        assert_eq!(found, (first_number(seed(index)), recording, run, index));
                    }
                }
            }
        },
    );
}

#[test]
fn integrated_gpu_reads_images_without_copy() {
    let test = "integrated_gpu_reads_images_without_copy";
    run_on_gpus(test, &[("JETWATCH_DOUBLE_INTEGRATED", "1")], |device| {
        assert!(device.is_integrated());
        let format = tensor(64, 32, Element::F32);
        let before = device.memory().expect("it is reported").free;
        let mut execution = echo(PixelFormat::Bgrx, format, 2)
            .session(&device)
            .expect("an execution");
        let used = before - device.memory().expect("it is reported").free;
        // Slots once, tensor, output and results; no second copy of the slots.
        assert!(
            used < 2 * (64 * 32 * 4 + 3 * format.bytes()) + 4096,
            "{used} bytes"
        );
        for run in 0..3 {
            fill(&mut execution, 0, 64, 32, run);
            execution.run(2).expect("it runs");
            assert_eq!(execution.output_f32(0)[0], first_number(run));
            let found = execution.output_f32(0)[format.bytes() / 4];
            assert_eq!(found, 114.0, "no picture is all padding");
        }
    });
}

#[test]
fn host_tensors_arrive_unchanged() {
    run_on_gpus("host_tensors_arrive_unchanged", &[], |device| {
        let echo = LoopbackNetwork {
            input: InputSource::Tensor {
                bytes_per_image: 400,
            },
            output_bytes: 100,
            ..echo(PixelFormat::Bgrx, tensor(32, 8, Element::F32), 3)
        };
        let mut execution = echo.session(&device).expect("an execution");
        for run in 0..3_u16 {
            for index in 0..3 {
                let slot = execution.write_tensor_f32(index).expect("a slot");
                assert_eq!(slot.len(), 100);
                slot.fill(f32::from(run) + index as f32);
            }
            execution.run(3).expect("it runs");
            let found: Vec<f32> = execution
                .output_f32(0)
                .iter()
                .step_by(25)
                .copied()
                .collect();
            assert_eq!(found, [0.0, 1.0, 2.0].map(|index| index + f32::from(run)));
        }
        let inner = LetterboxRect {
            width: 1,
            height: 1,
            left: 0,
            top: 0,
        };
        let error = execution
            .upload_image(0, inner, |_| &[0; 4])
            .expect_err("it takes no pictures");
        let wanted = "the input is an image, expected tensors; this is a bug in jetwatch";
        assert_eq!(error.to_string(), wanted);
    });
}

#[test]
fn invalid_input_is_rejected_without_side_effects() {
    run_on_gpus(
        "invalid_input_is_rejected_without_side_effects",
        &[],
        |device| {
            let whole = echo(PixelFormat::Bgrx, tensor(32, 8, Element::F32), 2);
            let mut execution = whole.session(&device).expect("an execution");
            fill(&mut execution, 0, 32, 8, 5);
            let inner = |width, height, left, top| LetterboxRect {
                width,
                height,
                left,
                top,
            };
            let row: &[u8] = &[0; 128];
            #[rustfmt::skip]
            let errors = [
                (execution.upload_image(2, inner(1, 1, 0, 0), |_| row), "the number of the slot is 2, expected 0 to 1"),
                (execution.upload_image(0, inner(32, 8, 1, 0), |_| row), "the image is 32×8 at 1, 0, expected a part of 32×8"),
                (execution.upload_image(0, inner(1, u32::MAX, 0, 1), |_| row), "expected a part of 32×8"),
                (execution.upload_image(1, inner(32, 8, 0, 0), |_| &row[1..]), "a row of the image is 127 bytes long, expected 128 bytes"),
                (execution.write_tensor(0).map(|_| ()), "the input is a tensor, expected images"),
                (execution.run(0).map(|_| ()), "the number of images is 0, expected 1 to 2"),
                (execution.run(3).map(|_| ()), "the number of images is 3, expected 1 to 2"),
            ];
            for (result, wanted) in errors {
                let error = result.expect_err(wanted).to_string();
                assert!(
                    error.contains(wanted) && error.ends_with("this is a bug in jetwatch"),
                    "{error}"
                );
            }
            execution.run(1).expect("it still runs");
            assert_eq!(execution.output_f32(0)[0], first_number(5));
            for (batch, width) in [(0, 32), (1 << 16, 32), (1, 0)] {
                let error =
                    echo(PixelFormat::Bgrx, tensor(width, 8, Element::F32), batch).session(&device);
                assert!(
                    matches!(error, Err(SessionError::Plan { .. })),
                    "{batch} {width} {error:?}"
                );
            }
            let error = echo(
                PixelFormat::Bgrx,
                tensor(32, 8, Element::I8 { scale: 0.0 }),
                1,
            )
            .session(&device);
            assert!(matches!(error, Err(SessionError::Plan { .. })), "{error:?}");
        },
    );
}

#[test]
fn workers_on_several_threads_are_independent_and_do_not_allocate() {
    let test = "workers_on_several_threads_are_independent_and_do_not_allocate";
    run_on_gpus(test, &[], |device| {
        let echo = echo(PixelFormat::Bgrx, tensor(64, 32, Element::F32), 3);
        let mut executions: Vec<_> = (0..3)
            .map(|_| echo.session(&device).expect("an execution"))
            .collect();
        let mut work = |runs: u32| {
            thread::scope(|scope| {
                let mut workers = Vec::new();
                for (worker, execution) in executions.iter_mut().enumerate() {
                    workers.push(scope.spawn(move || {
                        for run in 0..runs {
                            let seed = worker as u32 * 1000 + run;
                            fill(execution, 1, 64, 32, seed);
                            execution.run(2 + run as usize % 2).expect("it runs");
                            assert_eq!(execution.output_f32(0)[3 * 64 * 32], first_number(seed));
                        }
                    }));
                }
                // ThreadSanitizer sees a join, and not the end of a scope.
                for worker in workers {
                    worker.join().expect("it does not panic");
                }
            });
        };
        work(4);
        let free = device.memory().expect("it is reported").free;
        work(40);
        assert_eq!(device.memory().expect("it is reported").free, free);
    });
}

/// With each of these variables (name, value) on the double, `what` gives the error next to it.
fn check_errors(test: &str, cases: &[([&str; 2], &str)], what: impl FnOnce() -> Option<String>) {
    if cuda::is_child(test) {
        eprintln!("ERROR: {}", what().expect("an error"));
        return;
    }
    if cuda::is_real_gpu_only() {
        return;
    }
    for ([name, value], wanted) in cases {
        let output = cuda::run_on_double(test, &[(*name, *value)]);
        assert!(output.contains(&format!("ERROR: {wanted}")), "{output}");
    }
}

fn open_error() -> Option<String> {
    Device::open(0).err().map(|error| error.to_string())
}

/// The error of opening, making an execution, and running it some times.
fn run_error() -> Option<String> {
    let run = || -> Result<(), SessionError> {
        let device = Device::open(0)?;
        let mut execution =
            echo(PixelFormat::Bgrx, tensor(32, 8, Element::F32), 2).session(&device)?;
        for _ in 0..5 {
            if let Err(error) = execution.run(2) {
                assert!(
                    execution.output(0).is_empty(),
                    "nothing is shown after an error"
                );
                return Err(error);
            }
        }
        Ok(())
    };
    run().err().map(|error| error.to_string())
}

#[test]
fn drivers_that_cannot_be_used_are_rejected() {
    #[rustfmt::skip]
    let cases = [
        (["JETWATCH_DOUBLE_DRIVER", "11030"], "NVIDIA's driver supports CUDA 11.3, expected 11.4 or newer; update the driver"),
        (["JETWATCH_DOUBLE_GPUS", "0"], "NVIDIA's driver is installed but sees no GPU; check `nvidia-smi`"),
    ];
    check_errors(
        "drivers_that_cannot_be_used_are_rejected",
        &cases,
        open_error,
    );
}

#[test]
fn missing_gpu_index_is_reported() {
    let wanted = "there is no GPU number 3, expected 0 to 0; choose another";
    let cases = [(["JETWATCH_DOUBLE_GPUS", "1"], wanted)];
    check_errors("missing_gpu_index_is_reported", &cases, || {
        Device::open(3).err().map(|error| error.to_string())
    });
}

#[test]
fn failed_calls_are_reported_with_cuda_message() {
    let (memory, fail) = ("JETWATCH_DOUBLE_GPU_BYTES", "JETWATCH_DOUBLE_FAIL");
    #[rustfmt::skip]
    let cases = [
        ([memory, "16000"], "out of GPU memory: requested 6144 bytes, 5248 of 16000 are free; lower detector.batch_size or detector.workers"),
        ([memory, "20000"], "out of page-locked memory: requested 6144 bytes, 3104 of 20000 are free; lower detector.batch_size or detector.workers"),
        ([fail, "cuModuleLoadDataEx:222"], "NVIDIA's driver (CUDA 11.4) refuses jetwatch's kernels for jetwatch's double of a GPU: \
          CUDA_ERROR_UNSUPPORTED_PTX_VERSION: the driver reported no reason"),
        ([fail, "cuStreamCreate:226"], "cuStreamCreate failed with an unknown error (226): the driver has no description of it"),
        ([fail, "cuLaunchKernel:700"], "cuLaunchKernel failed with CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered"),
        ([fail, "cuGraphLaunch:700:2"], "cuGraphLaunch failed with CUDA_ERROR_ILLEGAL_ADDRESS (700)"),
    ];
    check_errors(
        "failed_calls_are_reported_with_cuda_message",
        &cases,
        run_error,
    );
}

#[test]
fn upload_and_download_report_a_failed_wait() {
    let test = "upload_and_download_report_a_failed_wait";
    let settings = [("JETWATCH_DOUBLE_FAIL", "cuStreamSynchronize:700")];
    run_on_gpus(test, &settings, |device| {
        let stream = Stream::new(&device).expect("a stream");
        let mut buffer = DeviceBuffer::new(&device, 64).expect("memory");
        let mut bytes = vec![7; 64];
        let up = stream.upload(&bytes, &mut buffer);
        let down = stream.download(&buffer, &mut bytes);
        for failed in [up, down] {
            let error = failed.expect_err("the wait failed").to_string();
            assert_has!(error => "cuStreamSynchronize");
        }
    });
}

#[test]
fn events_may_be_used_on_a_thread_without_a_context() {
    run_on_gpus(
        "events_may_be_used_on_a_thread_without_a_context",
        &[],
        |device| {
            let stream = Stream::new(&device).expect("a stream");
            let timing = || Event::new(&device, EventKind::Timing).expect("an event");
            let (begin, end) = (timing(), timing());
            let elsewhere = |job: &(dyn Fn() + Sync)| {
                std::thread::scope(|threads| {
                    threads.spawn(job).join().expect("it does not panic");
                });
            };
            elsewhere(&|| begin.record(&stream).expect("recorded"));
            elsewhere(&|| end.record(&stream).expect("recorded"));
            elsewhere(&|| end.synchronize().expect("reached"));
            elsewhere(&|| assert!(end.since(&begin).expect("reached").as_secs() < 10));
        },
    );
}

#[test]
fn failed_graph_capture_falls_back_to_single_calls() {
    for settings in [
        [("JETWATCH_DOUBLE_FAIL", "cuGraphInstantiateWithFlags:801")],
        [("JETWATCH_DOUBLE_FAIL", "cuStreamBeginCapture_v2:801")],
        [("JETWATCH_DOUBLE_FAIL", "cuStreamEndCapture:901")],
    ] {
        run_on_gpus(
            "failed_graph_capture_falls_back_to_single_calls",
            &settings,
            |_| {
                assert_eq!(run_error(), None);
            },
        );
    }
}

#[test]
fn missing_or_invalid_libcuda_is_error_without_panic() {
    let test = "missing_or_invalid_libcuda_is_error_without_panic";
    if cuda::is_child(test) {
        eprintln!("ERROR: {}", open_error().expect("an error"));
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    if !cuda::has_gpu() {
        let output = cuda::run_with_libraries(test, folder.path());
        assert_has!(output => &format!("ERROR: {}", cuda::no_gpu_message()));
    }
    if cuda::is_real_gpu_only() {
        return;
    }
    // Two libraries of that name: one without any function, one that has only its version.
    let version =
        "extern \"C\" int cuDriverGetVersion(int *version) { *version = 12000; return 0; }\n";
    for (source, wanted) in [("", "cuDriverGetVersion"), (version, "cuInit")] {
        let file = folder.path().join("libcuda.cpp");
        std::fs::write(&file, source).expect("written");
        let built = Command::new("c++")
            .args(["-shared", "-fPIC", "-o"])
            .arg(folder.path().join("libcuda.so.1"))
            .arg(&file)
            .status()
            .expect("a C++ compiler");
        assert!(built.success());
        let output = cuda::run_with_libraries(test, folder.path());
        let wanted = format!(
            "ERROR: libcuda.so has no function {wanted}, expected NVIDIA's driver of CUDA 11.4 or newer"
        );
        assert!(output.contains(&wanted), "{output}");
    }
}
