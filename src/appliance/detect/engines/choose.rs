// SPDX-License-Identifier: Apache-2.0
//! Selects the model file that an engine is built from, and its precision.

use super::EngineError;
use super::spec::EngineSpec;
use crate::graph::{self, Axis};
use crate::model::{ModelFile, ModelSpec};
use jetwatch_config::DetectorConfig;
use jetwatch_nvidia::tensorrt::Precision;

/// The file and the precision for `wanted`, the name of a precision. `None` is int8 if the model has it, else the model's first.
///
/// A calibration applies only to int8 from the fp32 file. Without one, the file of that precision is used, and for fp16 the
/// fp32 file if there is none: TensorRT selects 16-bit kernels itself.
pub(super) fn select_model_file(
    spec: &ModelSpec,
    wanted: Option<&str>,
    has_calibration: bool,
) -> Result<(ModelFile, Precision), EngineError> {
    let wanted = match wanted {
        Some(wanted) => wanted,
        None => match spec.file(Some("int8")) {
            Ok(file) => &file.precision,
            Err(_) => &spec.file(None)?.precision,
        },
    };
    let unknown = || EngineError::UnknownPrecision {
        model: spec.name.clone(),
        wanted: wanted.to_owned(),
    };
    let precision = precision_of(wanted).ok_or_else(unknown)?;
    let fp32 = || {
        let is_fp32 =
            |file: &&ModelFile| self::precision_of(&file.precision) == Some(Precision::Fp32);
        spec.files.iter().find(is_fp32)
    };
    if precision == Precision::Int8 && has_calibration {
        let file = fp32().ok_or_else(|| EngineError::NothingToCalibrate {
            model: spec.name.clone(),
        })?;
        return Ok((file.clone(), precision));
    }
    match (spec.file(Some(wanted)), precision) {
        (Ok(file), _) => Ok((file.clone(), precision)),
        (Err(error), Precision::Fp16) => match fp32() {
            Some(file) => Ok((file.clone(), precision)),
            None => Err(error.into()),
        },
        (Err(_), Precision::Int8) => Err(EngineError::NoInt8 {
            model: spec.name.clone(),
            wanted: wanted.to_owned(),
        }),
        (Err(error), Precision::Fp32) => Err(error.into()),
    }
}

/// Checks that an engine of `spec` can be built as `config` says; the name of its precision. No library is needed.
///
/// # Errors
/// The model has nothing that this precision can be built from, or the DLA does not run it.
pub fn check_precision(
    config: &DetectorConfig,
    spec: &ModelSpec,
) -> Result<&'static str, EngineError> {
    let has_calibration = config.tensorrt.calibration.is_some();
    let wanted = config.precision.as_deref();
    let (_, precision) = select_model_file(spec, wanted, has_calibration)?;
    if config.tensorrt.dla.is_some() && precision == Precision::Fp32 {
        let model = spec.name.clone();
        return Err(EngineError::DlaFloats { model });
    }
    Ok(match precision {
        Precision::Fp32 => "fp32",
        Precision::Fp16 => "fp16",
        Precision::Int8 => "int8",
    })
}

/// The precision of a name: `int8` and `int8-small` are INT8.
pub(super) fn precision_of(name: &str) -> Option<Precision> {
    [
        ("fp32", Precision::Fp32),
        ("fp16", Precision::Fp16),
        ("int8", Precision::Int8),
    ]
    .into_iter()
    .find_map(|(word, numbers)| name.starts_with(word).then_some(numbers))
}

/// Batch size of a calibration of `spec`: that of the network where it is fixed, else the batch size of the engine.
///
/// # Errors
/// The network's file cannot be read.
pub fn calibration_batch(spec: &EngineSpec) -> Result<usize, EngineError> {
    let network = graph::read(&spec.file.path)?;
    let axes = network.inputs.first().and_then(|input| input.axes.as_ref());
    let own = match axes.and_then(|axes| axes.first()) {
        Some(Axis::Fixed(len)) => usize::try_from(*len).ok(),
        _ => None,
    };
    Ok(own.unwrap_or(spec.batch as usize).max(1))
}
