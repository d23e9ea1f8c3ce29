// SPDX-License-Identifier: Apache-2.0
//! Builds: calibration, timing cache, progress, DLA.

use std::sync::Mutex;

use jetwatch_nvidia::cuda::Element;
use jetwatch_nvidia::tensorrt::{
    BuildRequest, Built, CalibrationInput, Generation, ImplicitInt8, Precision, Progress, Runtime,
    TensorRtError,
};

use super::network::{
    HEIGHT, WIDTH, engine, network, open_network, plan, request, run_and_compare,
};
use crate::support::tensorrt::{Double, logged, run_on_each, run_on_each_without_gpu};

/// Calibration images of one value each, which end or fail.
struct CalibrationImages {
    batch: usize,
    left: usize,
    numbers: usize,
    /// Error instead of the last batch.
    failure: Option<&'static str>,
    memory: Vec<f32>,
    given: usize,
}

impl CalibrationImages {
    fn new(batches: usize) -> Self {
        Self {
            batch: 4,
            left: batches,
            numbers: 4 * 3 * (WIDTH * HEIGHT) as usize,
            failure: None,
            memory: Vec::new(),
            given: 0,
        }
    }
}

impl CalibrationInput for CalibrationImages {
    fn batch_size(&self) -> usize {
        self.batch
    }

    fn next_batch(&mut self) -> Result<Option<&[f32]>, String> {
        if self.left == 0 {
            return match self.failure {
                Some(reason) => Err(reason.to_owned()),
                None => Ok(None),
            };
        }
        self.left -= 1;
        self.given += 1;
        self.memory = vec![0.5; self.numbers];
        // The largest number is at the end, so that the whole batch must have arrived.
        self.memory[self.numbers - 1] = -127.0;
        Ok(Some(&self.memory))
    }
}

/// INT8 with `images` and an earlier `cache`.
fn int8<'a>(
    onnx: &'a [u8],
    images: &'a mut CalibrationImages,
    cache: Option<&[u8]>,
) -> BuildRequest<'a> {
    BuildRequest {
        precision: Precision::Int8,
        implicit_int8: Some(ImplicitInt8 {
            images: Some(images),
            cache: cache.map(<[u8]>::to_vec),
        }),
        ..request(onnx)
    }
}

/// Builds INT8 of the usual network with `images` and an earlier `cache`.
fn calibrate(
    double: &Double,
    images: &mut CalibrationImages,
    cache: Option<&[u8]>,
) -> Result<Built, TensorRtError> {
    let onnx = open_network();
    let request = BuildRequest {
        device: Some(&double.device),
        ..int8(&onnx, images, cache)
    };
    request.build(&double.library)
}

#[test]
fn calibration_reads_images_from_gpu_memory_and_writes_cache() {
    let test = "build::calibration_reads_images_from_gpu_memory_and_writes_cache";
    run_on_each(test, &[], |double| {
        if !double.calibrates() {
            let error = calibrate(&double, &mut CalibrationImages::new(1), None);
            let output = error.expect_err("there is no calibrator").to_string();
            assert_has!(output => "cannot calibrate a network; give a network with Q/DQ nodes");
            return;
        }
        let free = double.device.memory().expect("it is reported").free;
        let mut images = CalibrationImages::new(3);
        let built = calibrate(&double, &mut images, None).expect("it builds");
        assert_eq!(images.given, 3);
        // Other processes use memory of a real GPU meanwhile, and its driver keeps some.
        if double.is_on_double() {
            assert_eq!(double.device.memory().expect("it is reported").free, free);
        }
        let cache = built.calibration_cache.expect("it calibrated");
        let text = String::from_utf8(cache.clone()).expect("text");
        // 127 / 127 as the bits of a float.
        assert_has!(text => "-EntropyCalibration2\nimages: 3f800000\n");

        let mut unused = CalibrationImages::new(3);
        let again = calibrate(&double, &mut unused, Some(&cache)).expect("it builds");
        let found = (unused.given, again.calibration_cache);
        assert_eq!(found, (0, None), "the cache is enough");
        let stale = b"TRT-1-LegacyCalibration\nimages: 3f800000\n";
        let mut restarted = CalibrationImages::new(2);
        let built = calibrate(&double, &mut restarted, Some(stale)).expect("it builds");
        assert_eq!(restarted.given, 2, "a cache of another kind is no use");
        assert!(built.calibration_cache.is_some());

        let runtime = Runtime::new(&double.library, None).expect("a runtime");
        let engine = runtime.deserialize(&again.plan).expect("an engine");
        let json = engine.inspect().expect("it is reported");
        assert!(json.contains("\"Precision\": \"INT8\""), "{json}");
        let plan = plan(Element::F32, 4);
        let mut execution = engine.session(&double.device, &plan).expect("it fits");
        run_and_compare(&mut execution, 3, 8);
    });
}

#[test]
fn failed_calibration_reports_reason() {
    let test = "build::failed_calibration_reports_reason";
    run_on_each(test, &[], |double| {
        if !double.calibrates() {
            return;
        }
        let output = |images: &mut CalibrationImages| {
            let error = calibrate(&double, images, None);
            error.expect_err("it cannot be finished").to_string()
        };
        let mut failing = CalibrationImages {
            failure: Some("picture 9 is no JPEG"),
            ..CalibrationImages::new(2)
        };
        let wanted = "TensorRT failed at IInt8Calibrator::getBatch: picture 9 is no JPEG";
        assert_eq!(output(&mut failing), wanted);
        let mut short = CalibrationImages {
            numbers: 100,
            ..CalibrationImages::new(2)
        };
        let wanted = "a batch of 100 numbers was given, expected 73728";
        assert!(output(&mut short).contains(wanted));
        let mut other = CalibrationImages {
            batch: 2,
            ..CalibrationImages::new(2)
        };
        let wanted = "tensor `images`: found calibration batches of 2, expected batches of 4";
        assert!(output(&mut other).starts_with(wanted));
        assert_eq!(other.given, 0);
        let none = output(&mut CalibrationImages::new(0));
        assert!(none.contains("the calibrator gave no batch"), "{none}");
    });
}

#[test]
fn calibration_without_gpu_keeps_images_in_host_memory() {
    let test = "build::calibration_without_gpu_keeps_images_in_host_memory";
    run_on_each_without_gpu(test, |library| {
        let calibrates = matches!(library.generation(), Generation::Eight | Generation::Ten);
        if !calibrates {
            return;
        }
        let mut images = CalibrationImages::new(2);
        let onnx = open_network();
        let request = int8(&onnx, &mut images, None);
        let built = request.build(&library).expect("it builds");
        let cache = String::from_utf8(built.calibration_cache.expect("a cache"));
        assert!(cache.expect("text").contains("\nimages: 3f800000\n"));
        assert_eq!(images.given, 2);
    });
}

#[test]
fn build_reports_progress_and_is_cancelable() {
    let test = "build::build_reports_progress_and_is_cancelable";
    run_on_each(test, &[], |double| {
        let onnx = open_network();
        let steps = Mutex::new(Vec::new());
        let on_progress = |progress: &Progress| {
            steps.lock().expect("no panic").push(progress.clone());
            true
        };
        let reported = BuildRequest {
            progress: Some(&on_progress),
            workspace_bytes: Some(64 << 20),
            ..request(&onnx)
        };
        reported.build(&double.library).expect("it builds");
        let steps = steps.into_inner().expect("no panic");
        let canceled = BuildRequest {
            progress: Some(&|_| false),
            ..request(&onnx)
        };
        let canceled = canceled.build(&double.library);
        if double.generation() == Generation::Eight {
            assert_eq!(steps, [], "TensorRT 8 tells nothing");
            canceled.expect("and cannot be stopped");
            return;
        }
        let outer = "Building an engine from network";
        let inner = steps
            .iter()
            .find(|step| step.parent == outer)
            .expect("an inner phase");
        let found = (inner.phase.as_str(), inner.steps);
        assert_eq!(found, ("Timing graph nodes", 2));
        let last = steps.last().expect("steps");
        let found = (last.phase.as_str(), last.done, last.steps);
        assert_eq!(found, (outer, 3, 3), "{steps:?}");
        let error = canceled.expect_err("it was canceled");
        assert!(matches!(error, TensorRtError::Canceled), "{error}");
    });
}

#[test]
fn timing_cache_is_used_by_next_build() {
    let test = "build::timing_cache_is_used_by_next_build";
    run_on_each(test, &[], |double| {
        let onnx = open_network();
        let build = |cache: Option<&[u8]>| {
            let request = BuildRequest {
                timing_cache: cache,
                ..request(&onnx)
            };
            request.build(&double.library).expect("it builds")
        };
        let known = || logged(log::Level::Trace, "timing from the cache");
        let first = build(None).timing_cache;
        if double.generation() == Generation::Rtx {
            assert_eq!(first, None, "TensorRT-RTX keeps none");
            return;
        }
        let first = first.expect("it keeps one");
        assert_eq!(known(), 0);
        let second = build(Some(&first)).timing_cache.expect("it keeps one");
        assert_eq!((known(), second == first), (2, true));
        // An invalid cache only costs time.
        let third = build(Some(b"no cache")).timing_cache;
        assert_eq!((known(), third.as_ref()), (2, Some(&first)));
    });
}

#[test]
fn dla_is_rejected_without_dla_hardware() {
    let test = "build::dla_is_rejected_without_dla_hardware";
    run_on_each(test, &[], |double| {
        let onnx = network(Some(1), Element::F16, &["Conv", "Relu"]);
        let on_dla = BuildRequest {
            dla: Some(0),
            ..request(&onnx)
        };
        let error = on_dla.build(&double.library).expect_err("there is none");
        let wanted =
            "core 0 was requested, and this machine has 0; cores count from 0, or remove --dla";
        assert!(error.to_string().contains(wanted), "{error}");
        let error = Runtime::new(&double.library, Some(0)).expect_err("there is none");
        let wanted = "detector.tensorrt.dla is 0, and this machine has 0 DLA cores";
        assert!(error.to_string().contains(wanted), "{error}");
    });
}

#[test]
fn dla_runs_supported_layers_and_reports_others() {
    let test = "build::dla_runs_supported_layers_and_reports_others";
    run_on_each(test, &[("JETWATCH_DOUBLE_DLA_CORES", "2")], |double| {
        let onnx = network(Some(1), Element::F32, &["Conv", "Relu", "Softmax"]);
        let quantized = network(
            Some(1),
            Element::F32,
            &["QuantizeLinear", "DequantizeLinear", "Conv"],
        );
        let build = |onnx: &[u8], dla: u32, precision, gpu_fallback| {
            let request = BuildRequest {
                dla: Some(dla),
                gpu_fallback,
                precision,
                ..request(onnx)
            };
            request.build(&double.library)
        };
        let output =
            |built: Result<Built, TensorRtError>| built.expect_err("it is refused").to_string();
        let none = output(build(&onnx, 2, Precision::Fp32, true));
        assert_has!(none => "core 2 was requested, and this machine has 2");
        let explicit = output(build(&quantized, 0, Precision::Int8, true));
        assert_has!(explicit => "DLA supports implicit quantization only: give the fp32 network with --calibration-images");
        if !double.calibrates() {
            return;
        }
        let full = output(build(&onnx, 1, Precision::Fp32, true));
        assert!(full.contains("neither FP16 nor INT8"), "{full}");
        let alone = output(build(&onnx, 1, Precision::Fp16, false));
        assert_has!(alone => "DLA does not support Softmax layers");

        let built = build(&onnx, 1, Precision::Fp16, true).expect("it builds");
        let runtime = Runtime::new(&double.library, Some(1)).expect("core 1 is there");
        let engine = runtime.deserialize(&built.plan).expect("an engine");
        let json = engine.inspect().expect("it is reported");
        assert_has!(json => "\"Device\": \"DLA\"", "\"Device\": \"GPU\"");
        let mut execution = engine
            .session(&double.device, &plan(Element::F32, 1))
            .expect("it fits");
        run_and_compare(&mut execution, 1, 4);
    });
}

#[test]
fn only_unquantized_networks_need_calibration() {
    let test = "build::only_unquantized_networks_need_calibration";
    run_on_each(test, &[], |double| {
        let onnx = open_network();
        let plain = BuildRequest {
            precision: Precision::Int8,
            ..request(&onnx)
        };
        let error = plain.build(&double.library).expect_err("it has no scales");
        let wanted = if double.calibrates() {
            "give --calibration-images, a calibration cache, or the int8 network"
        } else {
            "give a network with Q/DQ nodes"
        };
        assert!(error.to_string().contains(wanted), "{error}");
        // Images that are not needed are not read, also in strongly typed networks.
        let onnx = network(
            None,
            Element::F32,
            &["QuantizeLinear", "DequantizeLinear", "Conv"],
        );
        let mut images = CalibrationImages::new(3);
        let quantized = BuildRequest {
            device: Some(&double.device),
            ..int8(&onnx, &mut images, None)
        };
        let built = quantized.build(&double.library).expect("it builds");
        assert!(built.is_quantized && built.calibration_cache.is_none());
        assert_eq!(images.given, 0);
    });
}

#[test]
fn dynamic_dims_other_than_batch_must_be_given() {
    use crate::support::onnx_graph::{FLOAT, Graph};
    use jetwatch_nvidia::tensorrt::Shapes;
    let test = "build::dynamic_dims_other_than_batch_must_be_given";
    run_on_each(test, &[], |double| {
        let mut graph = Graph::default();
        graph.node("Conv", &["images"], "boxes", &[]);
        graph.input("images", FLOAT, &[None, Some(3), None, None]);
        graph.output("boxes", FLOAT, &[None, Some(5), None]);
        let onnx = graph.bytes();
        let error = request(&onnx)
            .build(&double.library)
            .expect_err("no size is known");
        let wanted = "tensor `images`: found [-1, 3, -1, -1], open in axes other than the batch";
        assert!(error.to_string().starts_with(wanted), "{error}");
        let shape = |batch: i64| vec![batch, 3, 64, 96];
        let shapes = |most| Shapes {
            input: "images".to_owned(),
            min: shape(1),
            opt: shape(2),
            max: shape(most),
        };
        let wrong = BuildRequest {
            shapes: vec![shapes(1)],
            ..request(&onnx)
        };
        let error = wrong.build(&double.library).expect_err("2 is more than 1");
        assert!(
            error
                .to_string()
                .contains("IBuilderConfig::addOptimizationProfile")
                || error.to_string().contains("min ≤ opt ≤ max"),
            "{error}"
        );
        let right = BuildRequest {
            shapes: vec![shapes(4)],
            ..request(&onnx)
        };
        let engine = engine(&double, right);
        // The output's size is known only once shapes are set, so no memory can be made for it.
        let error = engine
            .session(&double.device, &plan(Element::F32, 2))
            .expect_err("its sizes are open");
        assert!(
            error.to_string().contains(
                "input `images` is fp32 [-1, 3, -1, -1], expected no open axis but the batch"
            ),
            "{error}"
        );
    });
}
