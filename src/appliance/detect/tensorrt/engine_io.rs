// SPDX-License-Identifier: Apache-2.0
//! What a TensorRT session needs to know of an engine: tensors, batch size, shapes of the outputs, buffers.

use std::path::Path;

use jetwatch_nvidia::tensorrt::{DataType, Engine, TensorMode};

use super::super::decoders::DType;
use super::super::model::ModelSpec;
use super::super::ort_session::RunShape;
use super::super::signature::{Element, TensorInfo};
use super::super::{DetectError, gpu_plan};

/// The inputs or the outputs of the engine, for the check against `model.yaml`.
pub(super) fn tensors_of(engine: &Engine, mode: TensorMode, spec: &ModelSpec) -> Vec<TensorInfo> {
    let of_mode = engine.tensors().filter(|info| info.mode == mode);
    of_mode
        .map(|info| {
            // TensorRT before version 10 has no 64-bit integers and uses 32-bit ones instead.
            let is_sizes = Some(&info.name) == spec.input.sizes_name.as_ref();
            let element = match info.data_type {
                DataType::F32 => Element::Supported(DType::F32),
                DataType::I32 if is_sizes => Element::Supported(DType::I64),
                DataType::I32 => Element::Supported(DType::I32),
                DataType::I64 => Element::Supported(DType::I64),
                DataType::U8 => Element::Uint8,
                other => Element::Other(other.to_string()),
            };
            TensorInfo {
                name: info.name.clone(),
                tensor: Some((element, info.shape.clone())),
            }
        })
        .collect()
}

/// Maximum number of images in one run of the engine.
pub(super) fn max_batch(engine: &Engine, spec: &ModelSpec) -> usize {
    let input = engine.tensors().find(|info| info.name == spec.input.name);
    let max = input
        .and_then(|info| info.profile.as_ref())
        .and_then(|[_, _, max]| max.first().copied());
    max.and_then(|max| usize::try_from(max).ok())
        .map_or(1, |max| max.max(1))
}

/// Type and shape of each output of the layout in a run of `slots` images. All axes but the batch axis, if there is one,
/// must be fixed.
pub(super) fn output_shapes(
    engine: &Engine,
    spec: &ModelSpec,
    path: &Path,
    slots: usize,
) -> Result<Vec<RunShape>, DetectError> {
    let info_of = |name: &String| engine.tensors().find(|info| info.name == *name);
    let first = spec.output.tensors.first().and_then(info_of);
    let has_batch = spec
        .output
        .has_batch_axis(first.map_or(0, |info| info.shape.len()));
    let of = |name: &String| {
        let info = info_of(name);
        let found = info.map_or(&[][..], |info| info.shape.as_slice());
        let refuse = |expected: &str, advice: &str| DetectError::Tensor {
            path: path.to_owned(),
            tensor: format!("output `{name}`"),
            found: format!("{found:?}"),
            expected: expected.to_owned(),
            advice: advice.to_owned(),
        };
        let element = match info.map(|info| info.data_type) {
            Some(DataType::F32) => DType::F32,
            Some(DataType::I32) => DType::I32,
            Some(DataType::I64) => DType::I64,
            _ => {
                return Err(refuse(
                    "float32, int32 or int64",
                    "export the network with outputs in 32-bit floats",
                ));
            }
        };
        let axes = found.iter().enumerate().map(|(index, axis)| match axis {
            -1 if index == 0 && has_batch => Some(slots),
            axis => usize::try_from(*axis).ok(),
        });
        let axes = axes.collect::<Option<Vec<usize>>>().ok_or_else(|| {
            refuse(
                "axes of known length behind that of the batch",
                "export the network with fixed shapes, or leave its non-maximum suppression out and choose the layout of what \
                 comes before it",
            )
        })?;
        Ok(RunShape { element, axes })
    };
    spec.output.tensors.iter().map(of).collect()
}

/// Bytes of the second input for one image: the input's width and height in the type that the engine takes.
pub(super) fn sizes_bytes(engine: &Engine, spec: &ModelSpec) -> Vec<u8> {
    let numbers = [spec.input.size.width, spec.input.size.height];
    let name = spec.input.sizes_name.as_deref();
    let info = engine
        .tensors()
        .find(|info| Some(info.name.as_str()) == name);
    match info.map(|info| info.data_type) {
        Some(DataType::I32) => numbers.map(|number| number.to_ne_bytes()).concat(),
        _ => gpu_plan::long_sizes(spec.input.size),
    }
}
