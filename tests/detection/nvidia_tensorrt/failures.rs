// SPDX-License-Identifier: Apache-2.0
//! Failures: each library call with TensorRT's own message, plans that cannot run here, and the log.

use std::fs;

use jetwatch_nvidia::cuda::Element;
use jetwatch_nvidia::session::SessionError;
use jetwatch_nvidia::tensorrt::{Runtime, TensorRtError};

use super::network::{network, open_network, plan, request, run_and_compare};
use crate::support::cuda::is_child;
use crate::support::tensorrt::{Double, libraries, logged, run_on_each};

/// The error of building, loading and running, whichever comes first.
fn build_and_run_error(double: &Double) -> String {
    let build = || -> Result<_, TensorRtError> {
        let built = request(&open_network()).build(&double.library)?;
        let runtime = Runtime::new(&double.library, None)?;
        runtime.deserialize(&built.plan)
    };
    let engine = match build() {
        Ok(engine) => engine,
        Err(error) => return error.to_string(),
    };
    let run = || -> Result<_, SessionError> {
        let mut execution = engine.session(&double.device, &plan(Element::F32, 4))?;
        execution.run(2).inspect_err(|_| {
            assert!(
                execution.output(0).is_empty(),
                "nothing is shown after an error"
            );
        })
    };
    run().expect_err("it fails").to_string()
}

/// Variable that says which call of the double fails.
const FAIL: &str = "JETWATCH_DOUBLE_FAIL";

/// What fails, and what the error says of it.
#[rustfmt::skip]
const FAILURES: [(&str, [&str; 2]); 8] = [
    ("runtime", ["TensorRT failed at createInferRuntime: ", "CUDA initialization failure with error: 35"]),
    ("builder", ["TensorRT failed at createInferBuilder: ", "CUDA"]),
    ("parser", ["TensorRT failed at createNvOnnxParser: ", "createNvOnnxParser: createNvOnnxParser: out of memory"]),
    ("deserialize", ["TensorRT failed at IRuntime::deserializeCudaEngine: ", "Error Code 1: Cuda Runtime (out of memory)"]),
    ("context", ["the network cannot make an execution context: TensorRT failed at ICudaEngine::createExecutionContext: ",
                 "Error Code 2: OutOfMemory (no further information: requested size was"]),
    ("enqueue", ["the network cannot run a batch of 2: TensorRT failed at IExecutionContext::enqueueV3: ",
                 "Cask convolution execution"]),
    ("out-of-memory", ["TensorRT failed at IBuilder::buildSerializedNetwork: ", "OutOfMemory (Requested size was 1073741824 bytes.)"]),
    ("unsupported-layer", ["TensorRT failed at IBuilder::buildSerializedNetwork: ", "Could not find any implementation for node"]),
];

#[test]
fn failed_calls_are_reported_with_tensorrt_message() {
    let test = "failures::failed_calls_are_reported_with_tensorrt_message";
    for (failure, _) in FAILURES {
        run_on_each(test, &[(FAIL, failure)], |double| {
            let own = std::env::var(FAIL).expect("the parent sets it");
            let case = FAILURES.iter().find(|(failure, _)| *failure == own);
            let output = build_and_run_error(&double);
            for part in case.expect("it is one of them").1 {
                assert!(output.contains(part), "{own}: {output}");
            }
        });
        if is_child(test) {
            return;
        }
    }
}

#[test]
fn parser_errors_name_operator_and_file() {
    let test = "failures::parser_errors_name_operator_and_file";
    run_on_each(test, &[], |double| {
        let output = |onnx: &[u8]| {
            let error = request(onnx).build(&double.library).expect_err("refused");
            assert!(matches!(error, TensorRtError::Parse { .. }), "{error:?}");
            error.to_string()
        };
        let odd = output(&network(None, Element::F32, &["Conv", "UnsupportedThing"]));
        assert_has!(odd => "No importer registered for op: UnsupportedThing");
        let rubbish = output(b"this is no network");
        assert!(rubbish.contains("the bytes are no ModelProto"), "{rubbish}");
        let whole = open_network();
        let cut = output(&whole[..whole.len() - 20]);
        assert!(cut.contains("no ModelProto"), "{cut}");
    });
}

/// Variable with the folder of the plans of all versions.
const PLANS: &str = "JETWATCH_TEST_PLANS";

fn load_error(double: &Double, plan: &[u8]) -> String {
    let runtime = Runtime::new(&double.library, None).expect("a runtime");
    let error = runtime.deserialize(plan).expect_err("it cannot run here");
    error.to_string()
}

#[test]
fn plans_of_other_versions_and_damaged_plans_are_rejected() {
    let test = "failures::plans_of_other_versions_and_damaged_plans_are_rejected";
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display().to_string();
    // Twice: first each version writes its plan, then it loads those of the others.
    for round in ["write", "read"] {
        let settings = [(PLANS, path.as_str()), ("JETWATCH_TEST_ROUND", round)];
        run_on_each(test, &settings, |double| {
            let folder = std::env::var(PLANS).expect("the parent sets it");
            let own = format!("{}.plan", double.name());
            if std::env::var("JETWATCH_TEST_ROUND").is_ok_and(|round| round == "write") {
                let built = request(&open_network())
                    .build(&double.library)
                    .expect("it builds");
                fs::write(format!("{folder}/{own}"), built.plan).expect("written");
                return;
            }
            let mut others = 0;
            for entry in fs::read_dir(&folder).expect("the folder is there") {
                let entry = entry.expect("an entry");
                let plan = fs::read(entry.path()).expect("a plan");
                if entry.file_name().to_string_lossy() != own {
                    let output = load_error(&double, &plan);
                    assert!(output.contains("Version tag does not match"), "{output}");
                    others += 1;
                    continue;
                }
                for len in [plan.len() - 1, plan.len() / 2, 24] {
                    let output = load_error(&double, &plan[..len]);
                    assert!(output.contains("truncated or damaged"), "{len}: {output}");
                }
                let output = load_error(&double, b"this is no plan at all");
                assert!(output.contains("kPLAN_MAGIC_TAG failed"), "{output}");
                let output = load_error(&double, b"");
                assert!(output.ends_with("the plan is empty"), "{output}");
                let runtime = Runtime::new(&double.library, None).expect("a runtime");
                let engine = runtime.deserialize(&plan).expect("its own");
                let mut execution = engine
                    .session(&double.device, &self::plan(Element::F32, 2))
                    .expect("it fits");
                run_and_compare(&mut execution, 2, 1);
            }
            // One version alone may be built here, for measurements.
            assert_eq!(others > 0, libraries().len() > 1, "plans of all versions");
        });
        if is_child(test) {
            return;
        }
    }
}

#[test]
fn plans_of_other_gpus_are_rejected() {
    let test = "failures::plans_of_other_gpus_are_rejected";
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display().to_string();
    for capability in ["7.2", "8.7"] {
        let settings = [
            (PLANS, path.as_str()),
            ("JETWATCH_DOUBLE_CAPABILITY", capability),
        ];
        run_on_each(test, &settings, |double| {
            let folder = std::env::var(PLANS).expect("the parent sets it");
            let file = format!("{folder}/{}.plan", double.name());
            if let Ok(plan) = fs::read(&file) {
                let output = load_error(&double, &plan);
                assert_has!(output => "expecting compute 8.7 got compute 7.2");
                return;
            }
            let built = request(&open_network())
                .build(&double.library)
                .expect("it builds");
            fs::write(file, built.plan).expect("written");
        });
        if is_child(test) {
            return;
        }
    }
}

#[test]
fn messages_of_every_severity_and_from_any_thread_reach_the_log() {
    let test = "failures::messages_of_every_severity_and_from_any_thread_reach_the_log";
    let settings = [
        ("JETWATCH_DOUBLE_LOG_ALL", "1"),
        ("JETWATCH_DOUBLE_LOG_THREAD", "1"),
    ];
    run_on_each(test, &settings, |double| {
        let output = load_error(&double, b"this is no plan at all");
        assert!(output.contains("kPLAN_MAGIC_TAG failed"), "{output}");
        use log::Level::{Debug, Error, Trace, Warn};
        for (level, wanted) in [(Error, 2), (Warn, 1), (Debug, 1), (Trace, 1)] {
            assert_eq!(logged(level, "createInferRuntime"), wanted, "at {level}");
        }
    });
}

#[test]
fn error_recorder_is_released_by_all_objects() {
    let test = "failures::error_recorder_is_released_by_all_objects";
    run_on_each(test, &[], |double| {
        let built = request(&open_network())
            .build(&double.library)
            .expect("it builds");
        let runtime = Runtime::new(&double.library, None).expect("a runtime");
        let engine = runtime.deserialize(&built.plan).expect("an engine");
        let mut execution = engine
            .session(&double.device, &plan(Element::F32, 4))
            .expect("it fits");
        load_error(&double, b"this is no plan at all");
        // The execution keeps alive what it needs.
        drop((runtime, engine));
        for run in 0..3 {
            run_and_compare(&mut execution, 2, run);
        }
        drop(execution);
        let left = logged(log::Level::Debug, "reference to a released error recorder");
        assert_eq!(left, 0);
    });
}
