// SPDX-License-Identifier: Apache-2.0
//! Time per crop of a secondary network: 10 objects per frame, in batches of 1, 4 and 10, with all steps of a worker
//! (scaling, writing the tensor, the network, reading its scores).
//!
//! - `onnxruntime`: a small classifier of 64×64 pixels and 5.2 million multiplications, which this benchmark writes itself, on
//!   one thread. Needs `ORT_DYLIB_PATH`; without it this part is skipped with a message.
//! - `modeled_gpu`: **a model of a GPU, not a measurement**: each run of the network takes 1.0 ms, and each crop in it
//!   0.1 ms more, in which the CPU waits. Scaling and writing the tensor are real.
//!
//! ```text
//! make bench BENCH=secondary
//! ```

#[path = "../tests/support/classifier.rs"]
mod classifier;
#[path = "../tests/support/onnx_file.rs"]
mod onnx_file;
#[path = "../tests/support/onnx_graph.rs"]
pub mod onnx_graph;
#[path = "../tests/support/onnx_message.rs"]
mod onnx_message;

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use classifier::write_model;
use criterion::{Criterion, criterion_group, criterion_main};
use jetwatch_config::{Backend, Config, DetectorConfig};
use jetwatch_detect::model::ModelSpec;
use jetwatch_detect::{DetectError, Detector, load};
use jetwatch_pixels::{Filter, Resizer, Slot, TensorWriter};
use jetwatch_telemetry::Recorder;
use jetwatch_types::{
    Detection, Frame, FrameMeta, Image, Letterbox, PIXEL_BYTES, PixelAspect, Placement, Size,
    SourceId,
};
use onnx_file::onnx_graph::{Attribute, FLOAT, Graph};

const OBJECTS: u32 = 10;
const BATCHES: [usize; 3] = [1, 4, 10];
const SIDE: u32 = 64;
const INPUT: Size = Size::new(SIDE, SIDE);

/// The modeled GPU: time of a run, and of each crop in it.
const RUN: Duration = Duration::from_micros(1000);
const CROP: Duration = Duration::from_micros(100);

/// Weights around 0, scaled so that the outputs of a layer with this many inputs stay around 0.
fn weights(count: i64, inputs: i64) -> Vec<f32> {
    let most = (3.0 / inputs as f32).sqrt();
    let number = |index: u32| {
        let noise = (index.wrapping_mul(2_654_435_761) >> 16) as f32 / 65_536.0;
        (2.0 * noise - 1.0) * most
    };
    (0..count as u32).map(number).collect()
}

/// Four convolutions of 3×3, their mean, and ten scores.
fn network() -> Vec<u8> {
    let mut graph = Graph::default();
    let mut from = "images".to_owned();
    for (layer, (inputs, outputs, stride)) in [(3, 16, 2), (16, 32, 2), (32, 64, 2), (64, 64, 1)]
        .into_iter()
        .enumerate()
    {
        let [weight, sum, to] = ["weight", "sum", "layer"].map(|name| format!("{name}{layer}"));
        let shape: [i64; 4] = [outputs, inputs, 3, 3];
        let numbers = weights(shape.iter().product(), 9 * inputs);
        graph.constant(&weight, FLOAT, &shape, &numbers, f32::to_le_bytes);
        let attributes = [
            Attribute::Ints("kernel_shape", &[3, 3]),
            Attribute::Ints("pads", &[1, 1, 1, 1]),
            Attribute::Ints("strides", &[stride, stride]),
        ];
        graph.node("Conv", &[&from, &weight], &sum, &attributes);
        graph.node("Relu", &[&sum], &to, &[]);
        from = to;
    }
    graph.node("GlobalAveragePool", &[&from], "mean", &[]);
    graph.node("Flatten", &["mean"], "row", &[]);
    graph.node("MatMul", &["row", "last"], "scores", &[]);
    let last = weights(640, 64);
    graph.constant("last", FLOAT, &[64, 10], &last, f32::to_le_bytes);
    let side = Some(i64::from(SIDE));
    graph.input("images", FLOAT, &[None, Some(3), side, side]);
    graph.output("scores", FLOAT, &[None, Some(10)]);
    graph.bytes()
}

/// The model folder of the classifier.
fn model() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let keys = format!(
        "input: {{name: images, width: {SIDE}, height: {SIDE}, color: rgb, mean: 127.5, scale: 0.0078125, \
         letterbox: {{value: 0, placement: stretch}}}}\n\
         output: {{layout: logits, name: scores}}\nlabels: [a, b, c, d, e, f, g, h, i, j]\nscore_threshold: 0.0\n"
    );
    write_model(folder.path(), &network(), &keys);
    folder
}

/// The detector with ONNX Runtime on one thread.
fn onnx(folder: &Path, batch_size: usize) -> Box<dyn Detector> {
    let config = DetectorConfig {
        backend: Backend::Onnx,
        workers: 1,
        threads_per_worker: 1,
        batch_size,
        ..Config::for_source("synthetic://traffic", folder.to_str())
            .expect("a folder of plain text")
            .detector
    };
    let prepared = load(&config, &Recorder::default()).expect("the model is right");
    prepared.create(0).expect("the network opens")
}

/// A detector that writes its tensor, and waits for the modeled times.
struct ModeledGpu {
    writer: TensorWriter,
    tensor: Vec<f32>,
}

impl ModeledGpu {
    fn new(folder: &Path, batch_size: usize) -> Self {
        let spec = ModelSpec::load(folder).expect("the model is right");
        let writer = TensorWriter::new(spec.input.format(), batch_size);
        let tensor = vec![0.0; writer.slot_len() * batch_size];
        Self { writer, tensor }
    }
}

impl Detector for ModeledGpu {
    fn detect(
        &mut self,
        batch: &[Frame],
        results: &mut Vec<Vec<Detection>>,
    ) -> Result<(), DetectError> {
        let slot_len = self.writer.slot_len();
        let slots = self.tensor.chunks_exact_mut(slot_len);
        for (slot, (frame, tensor)) in batch.iter().zip(slots).enumerate() {
            let letterbox = Letterbox::new(frame.meta.source_size, INPUT, Placement::Stretch);
            self.writer
                .write(slot, Slot::F32(tensor), &frame.image, &letterbox);
        }
        let end = Instant::now() + RUN + CROP * batch.len() as u32;
        results.resize_with(batch.len(), Vec::new);
        // A sleep would be longer by the wake-up latency.
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        Ok(())
    }
}

/// Pixels of the objects of one frame, from 24×48 to 132×66.
fn crops() -> Vec<(Vec<u8>, Size)> {
    let crop = |object: u32| {
        let size = Size::new(24 + 12 * object, 48 + 2 * object);
        let bytes = size.width * size.height * PIXEL_BYTES as u32;
        let pixels = (0..bytes).map(|byte| ((byte * (7 + object)) >> 3) as u8);
        (pixels.collect(), size)
    };
    (0..OBJECTS).map(crop).collect()
}

/// A crop in the network's input format, as a worker of secondary inference makes it.
fn frame((pixels, size): &(Vec<u8>, Size), resampler: &mut Resizer) -> Frame {
    let inner = Letterbox::new(*size, INPUT, Placement::Stretch).inner;
    let stride = inner.width as usize * PIXEL_BYTES;
    let mut scaled = vec![0; stride * inner.height as usize];
    resampler.scale(pixels, *size, inner, Filter::Triangle, &mut scaled);
    Frame {
        meta: FrameMeta {
            source: SourceId(0),
            seq: 0,
            pts: None,
            captured_at: SystemTime::UNIX_EPOCH,
            received_at: Instant::now(),
            source_size: *size,
        },
        crop: None,
        pixels: PixelAspect::default(),
        image: Image::new(inner, stride, Box::new(scaled)).expect("large enough"),
        full_image: None,
        truth: Vec::new(),
    }
}

fn run(criterion: &mut Criterion, name: &str, detector: impl Fn(usize) -> Box<dyn Detector>) {
    let crops = crops();
    for batch_size in BATCHES {
        let mut detector = detector(batch_size);
        let mut resampler = Resizer::default();
        let (mut batch, mut results) = (Vec::new(), Vec::new());
        criterion.bench_function(&format!("{name}/crop_at_batch_{batch_size}"), |bencher| {
            bencher.iter_custom(|rounds| {
                let began = Instant::now();
                for _ in 0..rounds {
                    for crops in black_box(&crops).chunks(batch_size) {
                        batch.clear();
                        batch.extend(crops.iter().map(|crop| frame(crop, &mut resampler)));
                        detector
                            .detect(&batch, &mut results)
                            .expect("the network runs");
                    }
                }
                began.elapsed() / OBJECTS
            });
        });
    }
}

fn secondary(criterion: &mut Criterion) {
    let folder = model();
    run(criterion, "modeled_gpu", |batch_size| {
        Box::new(ModeledGpu::new(folder.path(), batch_size))
    });
    if std::env::var_os("ORT_DYLIB_PATH").is_none_or(|path| path.is_empty()) {
        eprintln!("onnxruntime is left out: ORT_DYLIB_PATH is not set");
        return;
    }
    run(criterion, "onnxruntime", |batch_size| {
        onnx(folder.path(), batch_size)
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    targets = secondary
}
criterion_main!(benches);
