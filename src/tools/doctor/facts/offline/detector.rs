// SPDX-License-Identifier: Apache-2.0
//! The networks: whether the box can run them in the configured backend and precision.

use std::path::Path;

use jetwatch_config::{Backend, Config, DetectorConfig, OnnxProvider, SecondaryConfig};
use jetwatch_detect::model::ModelSpec;
use jetwatch_detect::{self as detect, engines, scripted};
use jetwatch_pipeline as pipeline;
use jetwatch_types::{Placement, Size};

use super::super::Facts;
use crate::CheckReport;

/// Lowest compute capability with arithmetic of this precision, as in NVIDIA's table for TensorRT.
const CAPABILITIES: [(&str, (u32, u32)); 2] = [("fp16", (5, 3)), ("int8", (6, 1))];

/// Checks all networks; the size and the placement of the primary detector's input, as far as its folder is on this machine.
pub(super) fn check(config: &Config, facts: &Facts, report: &mut CheckReport) -> (Size, Placement) {
    let detector = &config.detector;
    let unknown = (scripted::INPUT, Placement::default());
    if detector.backend == Backend::Scripted {
        report.ok("detector", "scripted");
        return unknown;
    }
    let backend = match choose_backend(detector, facts) {
        Ok((backend, text)) => {
            report.ok("detector", &text);
            Some(backend)
        }
        Err(reason) => {
            report.failed("detector", &reason);
            None
        }
    };
    let spec = detector.model.as_deref();
    let spec = spec.and_then(|folder| load("model", folder, report));
    if let Some(spec) = &spec {
        check_model("model", spec, detector, backend, facts, report);
        check_labels(config, report);
    }
    for network in &config.secondary {
        let what = format!("secondary {}", network.name);
        if let Some(spec) = load(&what, &network.model, report) {
            let as_detector = with_precision(detector, network);
            check_model(&what, &spec, &as_detector, backend, facts, report);
        }
    }
    spec.map_or(unknown, |spec| (spec.input.size, spec.input.placement))
}

/// The backend that the box would use, in words; or why it has none.
fn choose_backend(config: &DetectorConfig, facts: &Facts) -> Result<(Backend, String), String> {
    match config.backend {
        Backend::TensorRt => tensorrt(config, facts).map(|text| (Backend::TensorRt, text)),
        Backend::Onnx => onnx(config, facts).map(|text| (Backend::Onnx, text)),
        _ => match (tensorrt(config, facts), onnx(config, facts)) {
            (Ok(text), _) => Ok((Backend::TensorRt, text)),
            (Err(_), Ok(text)) => Ok((Backend::Onnx, text)),
            (Err(tensorrt), Err(onnx)) => Err(format!("{tensorrt}; {onnx}")),
        },
    }
}

fn tensorrt(config: &DetectorConfig, facts: &Facts) -> Result<String, String> {
    let gpu = facts.gpu.get();
    let gpu = gpu.map_err(|reason| format!("TensorRT needs a GPU: {reason}"))?;
    // A library that the file names may be another one than the box's facts have.
    let version = match (&config.tensorrt.library, facts.tensorrt.get()) {
        (Some(path), _) => path.display().to_string(),
        (None, Ok(library)) => library.version.clone(),
        (None, Err(reason)) => return Err(reason.to_owned()),
    };
    let mut text = format!("TensorRT {version} on {}", gpu.name);
    if let Some(core) = config.tensorrt.dla {
        match facts.machine.units.dla_cores {
            Some(cores) if core >= cores => {
                return Err(format!(
                    "tensorrt.dla is {core}, and {} has {cores} DLA cores, numbered from 0",
                    facts.machine.family.name()
                ));
            }
            _ => text += &format!(", DLA core {core}"),
        }
    }
    Ok(text)
}

fn onnx(config: &DetectorConfig, facts: &Facts) -> Result<String, String> {
    let (path, has_cuda) = match (&config.onnxruntime, facts.onnxruntime.get()) {
        (Some(path), _) => (path, None),
        (None, Ok(runtime)) => (&runtime.path, Some(runtime.has_cuda)),
        (None, Err(reason)) => return Err(reason.to_owned()),
    };
    let on = match (config.onnx_provider, has_cuda, facts.gpu.get()) {
        (OnnxProvider::Cpu, ..) => "the CPU",
        (OnnxProvider::Cuda, _, Err(reason)) => {
            return Err(format!("onnx_provider is cuda: {reason}"));
        }
        (OnnxProvider::Cuda, Some(false), _) => {
            return Err(format!(
                "onnx_provider is cuda, and {} has no provider for CUDA beside it",
                path.display()
            ));
        }
        (OnnxProvider::Auto, Some(false), _) | (OnnxProvider::Auto, _, Err(_)) => "the CPU",
        (OnnxProvider::Auto | OnnxProvider::Cuda, ..) => "the GPU",
    };
    Ok(format!("ONNX Runtime on {on}, {}", path.display()))
}

/// The model of a folder, where this machine has it.
fn load(what: &str, folder: &Path, report: &mut CheckReport) -> Option<ModelSpec> {
    if !folder.exists() {
        let text = format!(
            "{} is not on this machine: whether the box has it, its precisions and its labels are not checked",
            folder.display()
        );
        report.unknown(what, &text);
        return None;
    }
    ModelSpec::load(folder)
        .map_err(|error| report.failed(what, &error.to_string()))
        .ok()
}

/// Whether the model has the precision for the backend, and the GPU arithmetic for it.
fn check_model(
    what: &str,
    spec: &ModelSpec,
    config: &DetectorConfig,
    backend: Option<Backend>,
    facts: &Facts,
    report: &mut CheckReport,
) {
    let precision = match backend {
        Some(Backend::TensorRt) => match engines::check_precision(config, spec) {
            Ok(precision) => precision.to_owned(),
            Err(error) => return report.failed(what, &error.to_string()),
        },
        _ => match spec.file(config.precision.as_deref()) {
            Ok(file) => file.precision.clone(),
            Err(error) => return report.failed(what, &error.to_string()),
        },
    };
    let needed = CAPABILITIES.iter().find(|(name, _)| *name == precision);
    if let (Some(Backend::TensorRt), Ok(gpu), Some((_, needed))) =
        (backend, facts.gpu.get(), needed)
        && gpu.compute_capability < *needed
    {
        let (major, minor) = gpu.compute_capability;
        let text = format!(
            "{} has compute capability {major}.{minor}, {precision} needs {}.{}; set detector.precision to fp32",
            gpu.name, needed.0, needed.1
        );
        return report.failed(what, &text);
    }
    report.ok(what, &format!("{} in {precision}", spec.name));
    if backend == Some(Backend::TensorRt) {
        let text = "whether the box has the engine is not checked: jetwatch engine list on the box";
        report.unknown(what, text);
    }
}

fn check_labels(config: &Config, report: &mut CheckReport) {
    match detect::classes(&config.detector) {
        Ok(classes) => {
            for unknown in pipeline::unknown_labels(config, &classes) {
                report.failed("labels", &unknown.to_string());
            }
            for missing in pipeline::missing_group_labels(config, &classes) {
                report.unknown("labels", &missing.to_string());
            }
            if let Some(renamed) = pipeline::renamed_labels(config, &classes) {
                report.ok("labels", &renamed.to_string());
            }
        }
        Err(error) => report.failed("labels", &error.to_string()),
    }
}

/// The detector's settings with the precision of a secondary network, which always runs on the GPU.
fn with_precision(detector: &DetectorConfig, network: &SecondaryConfig) -> DetectorConfig {
    let mut settings = detector.clone();
    settings.precision.clone_from(&network.precision);
    settings.tensorrt.dla = None;
    settings.tensorrt.calibration = None;
    settings
}
