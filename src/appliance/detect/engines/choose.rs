//! Which of a model's files an engine is built from, and in which numbers it computes.

use super::EngineError;
use super::spec::EngineSpec;
use crate::graph::{self, Axis};
use crate::model::{ModelFile, ModelSpec};
use jetwatch_nvidia::tensorrt::Precision;

/// The file and the numbers for `wanted`, the name of a precision; `None` is int8 where the model has it, else the model's first.
///
/// A calibration is for int8 of the fp32 file alone. Without one, a file of the precision's own name is taken, and for fp16 else that
/// of fp32: TensorRT chooses 16-bit floats by itself there.
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

/// What a precision's name says: `int8` and `int8-small` compute in INT8.
pub(super) fn precision_of(name: &str) -> Option<Precision> {
    [
        ("fp32", Precision::Fp32),
        ("fp16", Precision::Fp16),
        ("int8", Precision::Int8),
    ]
    .into_iter()
    .find_map(|(word, numbers)| name.starts_with(word).then_some(numbers))
}

/// Pictures that a calibration of `spec` hands over at a time: as many as the network takes where that is fixed, else the batch that
/// the engine is to be fastest at.
pub fn calibration_batch(recipe: &EngineSpec) -> Result<usize, EngineError> {
    let network = graph::read(&recipe.file.path)?;
    let axes = network.inputs.first().and_then(|input| input.axes.as_ref());
    let own = match axes.and_then(|axes| axes.first()) {
        Some(Axis::Fixed(len)) => usize::try_from(*len).ok(),
        _ => None,
    };
    Ok(own.unwrap_or(recipe.batch as usize).max(1))
}
