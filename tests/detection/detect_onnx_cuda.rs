// SPDX-License-Identifier: Apache-2.0
//! The ONNX Runtime detector with everything on the GPU: images, tensors, graphs.
//!
//! With the double of libcuda, in whose memory ONNX Runtime's CPU provider runs the layers; on a real GPU, by `tests/gpu/run`, with
//! the CUDA provider. Networks written again for several images run on the CPU. Needs `ORT_DYLIB_PATH`; without it the tests
//! are skipped with a message.

use std::path::Path;

use jetwatch_config::{DetectorConfig, OnnxProvider};
use jetwatch_detect::{DetectorFactory, graph, load, ort_library};
use jetwatch_telemetry::{Recorder, Stage};
use jetwatch_types::Frame;
use ort::ep::{self, ExecutionProvider};
use ort::session::Session;
use ort::value::Tensor;

use crate::detect_onnx::{assert_box, folder_with, frame, one_box};
use crate::support::cuda::{
    assert_let_go, has_gpu, is_child, is_real_gpu_only, run_on_double, run_on_real_gpu,
};
use crate::support::onnx_file::{CELLS, ROW};
use crate::support::onnx_graph::{Attribute, FLOAT, Graph, INT64};
use crate::support::onnx_runtime::config;

/// Runs `body` on the double, and on a real GPU if there is one and the library has the CUDA provider.
fn run_on_gpus(test: &str, body: impl FnOnce()) {
    if is_child(test) {
        return body();
    }
    needs_onnx_runtime!();
    if !is_real_gpu_only() {
        assert_let_go(test, &run_on_double(test, &[]));
    }
    if has_gpu() && has_cuda_provider() {
        run_on_real_gpu(test, &[]);
    }
}

fn has_cuda_provider() -> bool {
    let library = ort_library::find(None).expect("checked before");
    ort_library::open(&library).expect("ONNX Runtime");
    let has = ep::CUDA::is_available().unwrap_or(false);
    if !has {
        eprintln!(
            "skipped on the GPU: {} has no CUDA provider",
            library.display()
        );
    }
    has
}

fn cuda_config(folder: &Path, batch_size: usize) -> DetectorConfig {
    DetectorConfig {
        onnx_provider: OnnxProvider::Cuda,
        batch_size,
        ..config(folder)
    }
}

/// Runs batches of these grays; whether the tensors were on the GPU.
fn check_batches(prepared: &DetectorFactory, recorder: &Recorder, batches: &[&[u8]]) -> bool {
    let mut detector = prepared.create(0).expect("it works");
    let mut results = Vec::new();
    for grays in batches {
        let batch: Vec<Frame> = grays
            .iter()
            .enumerate()
            .map(|(seq, gray)| frame(seq as u64, *gray))
            .collect();
        detector.detect(&batch, &mut results).expect("it works");
        assert_eq!(results.len(), grays.len());
        for (found, gray) in results.iter().zip(*grays) {
            assert_box(found, *gray);
        }
    }
    recorder.summary().stage(Stage::GpuNetwork).count > 0
}

/// Batches of all sizes to 6, several times, so that runs are recorded and repeated.
const BATCHES: [&[u8]; 10] = [
    &[10, 40, 60, 0, 20, 70],
    &[50],
    &[20, 30],
    &[70, 10, 0],
    &[1, 2, 3, 4],
    &[60, 50, 40, 30, 20],
    &[0, 70, 20, 60, 40, 10],
    &[30],
    &[10, 20],
    &[60, 20, 30, 10],
];

#[test]
fn images_stay_on_the_gpu_from_upload_to_output() {
    run_on_gpus("images_stay_on_the_gpu_from_upload_to_output", || {
        for axis in [None, Some(1)] {
            let folder = folder_with(&one_box(axis).bytes());
            let recorder = Recorder::default();
            let config = cuda_config(folder.path(), 6);
            let prepared = load(&config, &recorder).expect("the model is right");
            assert_has!(prepared.describe() => "(cuda)");
            assert!(
                !prepared.runs_single_frames(),
                "one image was made to a batch"
            );
            assert!(check_batches(&prepared, &recorder, &BATCHES), "{axis:?}");
        }
    });
}

/// As [`one_box`] for one image, but with the mean of all images of a run added to each: twice the image where it is alone.
fn mixing_images() -> Vec<u8> {
    let single = one_box(Some(1));
    let mut graph = Graph::default();
    let over_images = [Attribute::Ints("axes", &[0]), Attribute::Int("keepdims", 1)];
    graph.node("ReduceMean", &["images"], "common", &over_images);
    graph.node("Add", &["images", "common"], "mixed", &[]);
    graph.mean("mixed", &[1, 2, 3]);
    graph.node("Reshape", &["mean", "column"], "mean3", &[]);
    graph.node("Mul", &["mean3", "mask"], "shift", &[]);
    graph.node("Add", &["rows", "shift"], "output", &[]);
    let shape = [1, CELLS as i64, ROW as i64];
    let half: Vec<f32> = single.mask.iter().map(|value| value / 2.0).collect();
    graph.constant("rows", FLOAT, &shape, &single.rows, f32::to_le_bytes);
    graph.constant("mask", FLOAT, &shape, &half, f32::to_le_bytes);
    graph.constant("column", INT64, &[3], &[-1_i64, 1, 1], i64::to_le_bytes);
    graph.input("images", FLOAT, &single.input_shape);
    graph.output("output", FLOAT, &shape.map(Some));
    graph.bytes()
}

#[test]
fn network_that_mixes_images_takes_one_at_a_time() {
    run_on_gpus("network_that_mixes_images_takes_one_at_a_time", || {
        let folder = folder_with(&mixing_images());
        let recorder = Recorder::default();
        let config = cuda_config(folder.path(), 4);
        let prepared = load(&config, &recorder).expect("the model is right");
        assert!(prepared.runs_single_frames());
        // Enough runs that a recorded one is measured: one in 32 is.
        let batches: [&[u8]; 3] = [&[10, 40, 60, 0], &[70], &[0, 60]];
        assert!(check_batches(&prepared, &recorder, &batches.repeat(6)));
    });
}

#[test]
fn two_workers_and_one_more_have_their_own_executions() {
    run_on_gpus("two_workers_and_one_more_have_their_own_executions", || {
        let folder = folder_with(&one_box(None).bytes());
        let recorder = Recorder::default();
        let config = DetectorConfig {
            workers: 2,
            ..cuda_config(folder.path(), 6)
        };
        let prepared = load(&config, &recorder).expect("the model is right");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| assert!(check_batches(&prepared, &recorder, &BATCHES)));
            }
        });
    });
}

/// Numbers between 0 and 255 that differ from image to image.
fn noise(len: usize, seed: u32) -> Vec<f32> {
    (0..len as u32)
        .map(|index| {
            ((index ^ seed.wrapping_mul(0x9e37_79b9)).wrapping_mul(2_654_435_761) >> 24) as f32
        })
        .collect()
}

/// All outputs of `network` for `images` of these sizes in one run on the CPU.
fn outputs(
    network: &[u8],
    input: &str,
    [height, width]: [usize; 2],
    images: &[u32],
) -> Vec<Vec<f32>> {
    let library = ort_library::find(None).expect("checked before");
    let environment = ort_library::open(&library).expect("ONNX Runtime");
    let mut session = Session::builder(&environment)
        .and_then(|mut builder| builder.commit_from_memory(network))
        .expect("it opens");
    let numbers: Vec<f32> = images
        .iter()
        .flat_map(|seed| noise(3 * height * width, *seed))
        .collect();
    let tensor = Tensor::from_array(([images.len(), 3, height, width], numbers)).expect("it fits");
    let found = session.run(ort::inputs![input => tensor]).expect("it runs");
    found
        .iter()
        .map(|(name, value)| {
            let (shape, numbers) = value.try_extract_tensor::<f32>().expect("floats");
            assert_eq!(shape[0], images.len() as i64, "{name}");
            numbers.to_vec()
        })
        .collect()
}

#[test]
fn networks_for_one_image_compute_the_same_for_four() {
    needs_onnx_runtime!();
    let Some(data) = std::env::var_os("JETWATCH_TEST_DATA").filter(|path| !path.is_empty()) else {
        eprintln!("skipped: JETWATCH_TEST_DATA is not set");
        return;
    };
    let street =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("models/street-nano/street-nano_fp32.onnx");
    let models = Path::new(&data).join("models");
    #[rustfmt::skip]
    let cases = [
        (models.join("yolox_nano.onnx"), "images", [416, 416], false),
        (models.join("picodet_s_lcnet_416.onnx"), "image", [416, 416], false),
        (street, "images", [288, 512], true),
    ];
    for (path, input, size, is_open) in cases {
        let bytes = std::fs::read(&path).expect("it is there");
        let found = graph::has_open_batch(&bytes, input);
        assert_eq!(found, Ok(is_open), "{path:?}");
        let four = graph::with_batch(&bytes, &[input], 4).expect("it is whole");
        let together = outputs(&four, input, size, &[1, 2, 3, 4]);
        for image in 0..4 {
            let single = outputs(&bytes, input, size, &[image as u32 + 1]);
            assert_eq!(single.len(), together.len());
            for (one, all) in single.iter().zip(&together) {
                let part = &all[image * one.len()..][..one.len()];
                let apart = one
                    .iter()
                    .zip(part)
                    .map(|(a, b)| (a - b).abs() / (1.0 + a.abs()));
                let apart = apart.fold(0.0_f32, f32::max);
                assert!(apart < 1e-4, "{path:?}, image {image}: {apart}");
            }
        }
    }
}
