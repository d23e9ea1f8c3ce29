// SPDX-License-Identifier: Apache-2.0
//! Runs of engines: batches, workers, graphs, types, layers.

use std::thread;

use jetwatch_nvidia::cuda::Element;
use jetwatch_nvidia::session::{
    ConstantPlan, InferenceSession, InputPlan, InputSource, OutputPlan, Plan, SessionError,
};
use jetwatch_nvidia::tensorrt::{BuildRequest, Generation, Precision, TensorMode};

use super::network::{
    BOXES_BYTES, HEIGHT, WIDTH, boxes, compare, engine, network, open_network, plan, request,
    run_and_compare, write,
};
use crate::support::cuda::noise;
use crate::support::onnx_graph::{FLOAT, Graph};
use crate::support::tensorrt::{logged, run_on_each};

/// Batch sizes that repeat soon, late, and consecutively.
const COUNTS: [usize; 14] = [1, 1, 1, 4, 4, 4, 2, 4, 1, 3, 3, 3, 2, 2];

#[test]
fn batches_of_an_open_engine_give_the_known_function() {
    let test = "run::batches_of_an_open_engine_give_the_known_function";
    let output = run_on_each(test, &[], |double| {
        let engine = engine(&double, request(&open_network()));
        for graphs in [false, true] {
            let plan = Plan {
                graphs,
                ..plan(Element::F32, 4)
            };
            let mut execution = engine.session(&double.device, &plan).expect("it fits");
            assert_eq!((execution.batch(), execution.outputs()), (4, 1));
            for (run, count) in COUNTS.into_iter().enumerate() {
                run_and_compare(&mut execution, count, run as u32 * 10);
            }
            // Runs of one count in a row are launched as a graph, of which few measure their stages.
            let stages = (0..4).filter(|_| {
                let times = execution.run(2).expect("it runs");
                times.stages.is_some()
            });
            let expected = if graphs { 0 } else { 4 };
            assert_eq!(stages.count(), expected, "graphs: {graphs}");
            compare(&execution, 2, (COUNTS.len() as u32 - 1) * 10);
        }
        assert_eq!(logged(log::Level::Warn, "cannot be recorded"), 0);
    });
    for printed in output {
        // For all tests it is checked that none is alive.
        for kind in ["IBuilder", "IRuntime", "ICudaEngine", "IExecutionContext"] {
            assert_has!(printed => &format!("double: count {kind} made="));
        }
    }
}

#[test]
fn each_batch_count_gets_cuda_graph() {
    let test = "run::each_batch_count_gets_cuda_graph";
    run_on_each(test, &[], |double| {
        let engine = engine(&double, request(&open_network()));
        let plan = plan(Element::F32, 4);
        let mut execution = engine.session(&double.device, &plan).expect("it fits");
        let mut launched = 0;
        for run in 0..12 {
            let count = 1 + run % 3;
            write(&mut execution, 0, run as u32);
            launched += usize::from(execution.run(count).expect("it runs").stages.is_none());
            assert_eq!(
                execution.output_f32(0)[..BOXES_BYTES / 4],
                boxes(run as u32, f64::from)
            );
        }
        // In generation 8 the one context has a new count each time, so nothing is worth recording.
        let shares = double.generation() != Generation::Eight;
        assert_eq!(launched, if shares { 9 } else { 0 });
    });
}

#[test]
fn fixed_batch_engine_runs_only_that_batch() {
    let test = "run::fixed_batch_engine_runs_only_that_batch";
    run_on_each(test, &[], |double| {
        let onnx = network(Some(2), Element::F32, &["Conv", "Relu"]);
        let engine = engine(&double, request(&onnx));
        let refused = engine.session(&double.device, &plan(Element::F32, 4));
        let output = refused.expect_err("it has two").to_string();
        let wanted = "the batch is 4, expected 2, which the engine was built for; the engine does not fit the model, build it again";
        assert_eq!(output, wanted);
        // Without open axes all contexts share the profile, in all generations.
        let plan = plan(Element::F32, 2);
        let mut executions: Vec<InferenceSession> = (0..3)
            .map(|_| engine.session(&double.device, &plan).expect("it fits"))
            .collect();
        for run in 0..4 {
            for (worker, execution) in executions.iter_mut().enumerate() {
                run_and_compare(execution, 2, run * 10 + 100 * worker as u32);
            }
        }
        let output = executions[0]
            .run(1)
            .expect_err("it has two alone")
            .to_string();
        assert_has!(output => "cannot be set to batches of 1: the engine was built only for batches of 2");
        run_and_compare(&mut executions[0], 2, 7);
    });
}

#[test]
fn two_workers_share_one_engine_on_two_threads() {
    let test = "run::two_workers_share_one_engine_on_two_threads";
    run_on_each(test, &[], |double| {
        let onnx = open_network();
        let engine = engine(
            &double,
            BuildRequest {
                contexts: 2,
                ..request(&onnx)
            },
        );
        let plan = plan(Element::F32, 4);
        let make = || engine.session(&double.device, &plan);
        thread::scope(|scope| {
            let mut workers = Vec::new();
            for worker in 0..2 {
                let make = &make;
                workers.push(scope.spawn(move || {
                    let mut execution = make().expect("there is one for each");
                    for run in 0..40 {
                        let count = 1 + run as usize % 4;
                        run_and_compare(&mut execution, count, worker * 10_000 + run * 10);
                    }
                }));
            }
            // ThreadSanitizer sees a join, and not the end of a scope.
            for worker in workers {
                worker.join().expect("it does not panic");
            }
        });
        let mut executions: Vec<InferenceSession> =
            (0..2).map(|_| make().expect("they were let go")).collect();
        let third = make();
        if double.generation() == Generation::Eight {
            let output = third.expect_err("it was built for two workers").to_string();
            let wanted = "the number of workers is more than the engine has optimization profiles";
            assert!(output.starts_with(wanted), "{output}");
            executions.remove(0);
            let mut again = make().expect("one was let go");
            run_and_compare(&mut again, 3, 5);
        } else {
            run_and_compare(&mut third.expect("all share a profile"), 3, 5);
        }
        run_and_compare(&mut executions[0], 3, 5);
    });
}

#[test]
fn steady_workers_do_not_allocate() {
    let test = "run::steady_workers_do_not_allocate";
    run_on_each(test, &[], |double| {
        let engine = engine(&double, request(&open_network()));
        let plan = plan(Element::F32, 4);
        let mut execution = engine.session(&double.device, &plan).expect("it fits");
        let mut work = |runs: u32| {
            for run in 0..runs {
                run_and_compare(&mut execution, 1 + run as usize % 4, run);
            }
        };
        work(12);
        let free = double.device.memory().expect("it is reported").free;
        work(60);
        assert_eq!(double.device.memory().expect("it is reported").free, free);
    });
}

#[test]
fn images_convert_to_every_input_type() {
    let test = "run::images_convert_to_every_input_type";
    run_on_each(test, &[], |double| {
        type Value = fn(u8) -> f64;
        let half = |byte: u8| f64::from((f32::from(byte) * 0.5).round_ties_even().min(127.0));
        let as_it_is: Value = f64::from;
        let cases: [(Element, Value); 4] = [
            (Element::F32, as_it_is),
            (Element::F16, as_it_is),
            (Element::U8, as_it_is),
            (Element::I8 { scale: 2.0 }, half),
        ];
        for (element, value) in cases {
            let onnx = network(None, element, &["Conv"]);
            let engine = engine(&double, request(&onnx));
            let plan = plan(element, 3);
            let mut execution = engine.session(&double.device, &plan).expect("it fits");
            for run in 0..3 {
                write(&mut execution, 1, run);
                execution.run(2).expect("it runs");
                let found = &execution.output_f32(0)[BOXES_BYTES / 4..];
                assert_eq!(found, boxes(run, value), "{element:?}");
            }
        }
    });
}

/// A network with a second input and two outputs.
fn two_input_output_network() -> Vec<u8> {
    let mut graph = Graph::default();
    graph.node("Conv", &["images"], "boxes", &[]);
    graph.node("Mul", &["boxes", "sizes"], "logits", &[]);
    let [height, width] = [HEIGHT, WIDTH].map(|size| Some(i64::from(size)));
    graph.input("images", FLOAT, &[None, Some(3), height, width]);
    graph.input("sizes", FLOAT, &[None, Some(2)]);
    graph.output("boxes", FLOAT, &[None, Some(5), Some(6)]);
    graph.output("logits", FLOAT, &[None, Some(10)]);
    graph.bytes()
}

#[test]
fn host_tensors_constants_and_several_outputs_work() {
    let test = "run::host_tensors_constants_and_several_outputs_work";
    run_on_each(test, &[], |double| {
        let engine = engine(&double, request(&two_input_output_network()));
        let numbers = 3 * (WIDTH * HEIGHT) as usize;
        let output = |name: &str, bytes_per_picture| OutputPlan {
            name: name.to_owned(),
            bytes_per_image: bytes_per_picture,
        };
        let plan = Plan {
            input: InputPlan {
                name: "images".to_owned(),
                source: InputSource::Tensor {
                    bytes_per_image: numbers * 4,
                },
            },
            constants: vec![ConstantPlan {
                name: "sizes".to_owned(),
                bytes: vec![0; 8],
            }],
            // In the caller's order, not the engine's.
            outputs: vec![output("logits", 40), output("boxes", BOXES_BYTES)],
            batch: 3,
            graphs: true,
        };
        let mut execution = engine.session(&double.device, &plan).expect("it fits");
        for run in 0..4_u32 {
            let bytes: Vec<u8> = noise(numbers * 2, run);
            for index in 0..2 {
                let slot = execution.write_tensor_f32(index).expect("a slot");
                for (number, byte) in slot.iter_mut().zip(&bytes[index * numbers..]) {
                    *number = f32::from(*byte);
                }
            }
            execution.run(2).expect("it runs");
            for index in 0..2 {
                let own = &bytes[index * numbers..][..numbers];
                let sum: f64 = own.iter().copied().map(f64::from).sum();
                let mean = sum / numbers as f64;
                let wanted: Vec<f32> = (0..10)
                    .map(|at| (mean * f64::from(at % 7 + 1)) as f32)
                    .collect();
                assert_eq!(execution.output_f32(0)[index * 10..][..10], wanted);
            }
            assert_eq!(execution.output(1).len(), 2 * BOXES_BYTES);
            assert_eq!(execution.output_f32(1)[..3], [16.0, 48.0, 80.0]);
        }
    });
}

#[test]
fn mismatching_plans_are_rejected_before_allocation() {
    let test = "run::mismatching_plans_are_rejected_before_allocation";
    run_on_each(test, &[], |double| {
        let engine = engine(&double, request(&two_input_output_network()));
        let good = Plan {
            constants: vec![ConstantPlan {
                name: "sizes".to_owned(),
                bytes: vec![0; 8],
            }],
            outputs: vec![
                OutputPlan {
                    name: "boxes".to_owned(),
                    bytes_per_image: BOXES_BYTES,
                },
                OutputPlan {
                    name: "logits".to_owned(),
                    bytes_per_image: 40,
                },
            ],
            ..plan(Element::F32, 4)
        };
        let free = double.device.memory().expect("it is reported").free;
        type Corruption = fn(&mut Plan);
        #[rustfmt::skip]
        let cases: [(Corruption, &str); 12] = [
            (|plan| plan.batch = 5, "the batch is 5, expected 1 to 4; the engine does not fit"),
            (|plan| plan.batch = 0, "the batch is 0, expected 1 to 4"),
            (|plan| plan.input.name = "image".to_owned(), "the name of an input is `image`, expected images, sizes"),
            (|plan| plan.input.name = "boxes".to_owned(), "the name of an input is `boxes`, expected images, sizes"),
            (|plan| plan.outputs[0].name = "images".to_owned(), "the name of an output is `images`, expected boxes, logits"),
            (|plan| plan.constants.clear(), "the engine's input `sizes` is not used, expected used by the model"),
            (|plan| plan.outputs.truncate(1), "the engine's output `logits` is not used"),
            (|plan| plan.outputs.push(plan.outputs[1].clone()), "output `logits` is used more than once, expected used once"),
            (
                |plan| plan.outputs[1].bytes_per_image = 44,
                "output `logits` is fp32 [-1, 10] of 40 bytes per image, expected 44 bytes per image",
            ),
            (
                |plan| plan.constants[0].bytes.truncate(7),
                "input `sizes` is fp32 [-1, 2] of 8 bytes per image, expected 7 bytes per image",
            ),
            (|plan| plan.input = self::plan(Element::F16, 1).input, "the type of input `images` is fp32, expected fp16"),
            (
                |plan| {
                    plan.input.source = InputSource::Tensor { bytes_per_image: 4 };
                },
                "input `images` is fp32 [-1, 3, 64, 96] of 73728 bytes per image, expected 4 bytes per image",
            ),
        ];
        for (spoil, wanted) in cases {
            let mut plan = good.clone();
            spoil(&mut plan);
            let error = engine.session(&double.device, &plan).expect_err(wanted);
            assert!(matches!(error, SessionError::Plan { .. }), "{error:?}");
            let output = error.to_string();
            assert!(output.contains(wanted), "{output}");
        }
        assert_eq!(double.device.memory().expect("it is reported").free, free);
        engine
            .session(&double.device, &good)
            .expect("the good one fits");
    });
}

#[test]
fn engine_reports_tensors_layers_and_memory() {
    let test = "run::engine_reports_tensors_layers_and_memory";
    run_on_each(test, &[], |double| {
        let engine = engine(&double, request(&open_network()));
        let tensors: Vec<_> = engine.tensors().collect();
        assert_eq!(tensors.len(), 2);
        let shape = |batch: i64| vec![batch, 3, 64, 96];
        let found = (tensors[0].name.as_str(), tensors[0].mode, &tensors[0].shape);
        assert_eq!(found, ("images", TensorMode::Input, &shape(-1)));
        let profile = Some([shape(1), shape(4), shape(4)]);
        assert_eq!(tensors[0].profile, profile);
        let found = (tensors[1].name.as_str(), tensors[1].mode, &tensors[1].shape);
        assert_eq!(found, ("boxes", TensorMode::Output, &vec![-1, 5, 6]));
        assert_eq!((tensors[1].format, tensors[1].vectorized), (0, None));
        assert_eq!(engine.name().expect("it has one"), "tiny");
        assert_eq!(engine.layers().expect("it is reported"), 2);
        // 10.0 can ask this too, by the method that later versions replace.
        assert!(engine.context_bytes().expect("it is reported") > 0);
        let json = engine.inspect().expect("it is reported");
        let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(value["Layers"].as_array().map(Vec::len), Some(2), "{json}");
        assert_eq!(value["Layers"][0]["Precision"], "FP32", "{json}");
        assert_eq!(value["Bindings"], serde_json::json!(["images", "boxes"]));
    });
}

#[test]
fn layer_times_are_reported_per_run() {
    let test = "run::layer_times_are_reported_per_run";
    run_on_each(test, &[], |double| {
        let engine = engine(&double, request(&open_network()));
        let plan = plan(Element::F32, 4);
        let mut execution = engine.session(&double.device, &plan).expect("it fits");
        for run in 0..3 {
            run_and_compare(&mut execution, 2, run);
        }
        assert_eq!(execution.layer_times(), []);
        execution.measure_layers().expect("it can");
        for run in 0..5 {
            run_and_compare(&mut execution, 1 + run as usize % 2, run);
            let times = execution.run(2).expect("it runs");
            assert!(times.stages.is_some(), "no graph is launched");
        }
        let layers = execution.layer_times();
        assert_eq!(layers.len(), 2, "{layers:?}");
        for layer in &layers {
            assert_eq!(layer.runs, 10, "{layers:?}");
            assert!(!layer.name.is_empty() && layer.total_ms > 0.0, "{layers:?}");
        }
        execution
            .enable_layer_ranges()
            .expect("it was built with details");
        run_and_compare(&mut execution, 2, 1);
    });
}

#[test]
fn supported_precisions_are_accepted_per_version() {
    let test = "run::supported_precisions_are_accepted_per_version";
    run_on_each(test, &[], |double| {
        let quantized = network(
            None,
            Element::F32,
            &["QuantizeLinear", "DequantizeLinear", "Conv", "Relu"],
        );
        let int8 = engine(
            &double,
            BuildRequest {
                precision: Precision::Int8,
                ..request(&quantized)
            },
        );
        let json = int8.inspect().expect("it is reported");
        assert!(json.contains("\"Precision\": \"INT8\""), "{json}");
        let plan = plan(Element::F32, 4);
        let mut execution = int8.session(&double.device, &plan).expect("it fits");
        run_and_compare(&mut execution, 4, 3);

        let onnx = open_network();
        let half = BuildRequest {
            precision: Precision::Fp16,
            ..request(&onnx)
        };
        if double.calibrates() {
            let json = engine(&double, half).inspect().expect("it is reported");
            assert!(json.contains("\"Precision\": \"FP16\""), "{json}");
        } else {
            let error = half.build(&double.library).expect_err("it cannot");
            assert_has!(error.to_string() => "export it with 16-bit weights");
        }
    });
}
