// SPDX-License-Identifier: Apache-2.0
//! Inputs of a parsed network, and the shapes that an engine is built and calibrated for.

use std::ffi::c_char;

use super::DataType;
use super::dims::{Dims32, Dims64};
use super::error::TensorRtError;
use super::ffi_guard::text;
use super::object::{Object, call};
use super::request::{BuildRequest, Shapes};
use super::version::Generation;
use super::vtable::{NETWORK_INPUT, NETWORK_INPUTS, TENSOR_NAME, TENSOR_SHAPE, TENSOR_TYPE};

/// An input of a parsed network.
pub(super) struct Input {
    name: String,
    /// Axes; an open one is -1.
    shape: Vec<i64>,
    data_type: DataType,
}

/// The inputs of `network`. `failed` creates the error of a call that returned null.
pub(super) fn inputs(
    network: &Object,
    failed: impl Fn(&'static str) -> TensorRtError,
) -> Result<Vec<Input>, TensorRtError> {
    let count = call!(network, NETWORK_INPUTS, () -> i32)?;
    let mut inputs = Vec::new();
    for index in 0..count {
        let tensor = call!(network, NETWORK_INPUT, (i32) -> *mut std::ffi::c_void, index)?;
        // SAFETY: tensors belong to the network, which outlives this use.
        let tensor = unsafe { Object::borrowed(tensor, &network.library) };
        let tensor = tensor.ok_or_else(|| failed("INetworkDefinition::getInput"))?;
        let name = call!(tensor, TENSOR_NAME, () -> *const c_char)?;
        // SAFETY: the tensor returns a zero-terminated text that lives as long as it.
        let name = unsafe { text(name) };
        let shape = if network.library.generation() == Generation::Eight {
            call!(tensor, TENSOR_SHAPE, () -> Dims32)?.axes()
        } else {
            call!(tensor, TENSOR_SHAPE, () -> Dims64)?.axes()
        };
        let data_type = call!(tensor, TENSOR_TYPE, () -> i32)?;
        inputs.push(Input {
            name,
            shape: shape.ok_or_else(|| failed("ITensor::getDimensions"))?,
            data_type: DataType::from_number(data_type),
        });
    }
    Ok(inputs)
}

impl Input {
    /// Whether an axis is open, so that an optimization profile is needed.
    pub(super) fn is_dynamic(&self) -> bool {
        self.shape.contains(&-1)
    }

    /// The requested shapes, or all batches from 1 on when only the batch is open.
    pub(super) fn shapes(&self, request: &BuildRequest<'_>) -> Result<Shapes, TensorRtError> {
        let mut requested = request.shapes.iter();
        if let Some(shapes) = requested.find(|shapes| shapes.input == self.name) {
            return Ok(shapes.clone());
        }
        let is_open = |(axis, len): (usize, &i64)| (*len == -1).then_some(axis);
        let open: Vec<usize> = self.shape.iter().enumerate().filter_map(is_open).collect();
        if open != [0] {
            return Err(TensorRtError::Tensor {
                tensor: self.name.clone(),
                found: format!("{:?}, open in axes other than the batch", self.shape),
                expected: "an input with only its batch axis open; set input.width and input.height in model.yaml, or export the network with a fixed size".to_owned(),
            });
        }
        let with_batch = |batch: u32| {
            let mut shape = self.shape.clone();
            shape[0] = i64::from(batch);
            shape
        };
        let most = request.batch.max(1);
        Ok(Shapes {
            input: self.name.clone(),
            min: with_batch(1),
            opt: with_batch(most),
            max: with_batch(most),
        })
    }
}

/// Number of values per calibration batch, which uses the optimum shape; 0 without calibration images.
///
/// TensorRT reads that many values from the batch's address, so smaller batches are refused here.
pub(super) fn calibration_values(
    inputs: &[Input],
    request: &BuildRequest<'_>,
) -> Result<usize, TensorRtError> {
    let implicit = request.implicit_int8.as_ref();
    let Some(images) = implicit.and_then(|implicit| implicit.images.as_deref()) else {
        return Ok(0);
    };
    let [input] = inputs else {
        return Err(TensorRtError::Failed {
            call: "IInt8Calibrator::getBatch",
            reason: format!(
                "the network has {} inputs; calibration feeds networks with one",
                inputs.len()
            ),
        });
    };
    let shape = match input.is_dynamic() {
        true => input.shapes(request)?.opt,
        false => input.shape.clone(),
    };
    let mismatch = |found: String, expected: String| TensorRtError::Tensor {
        tensor: input.name.clone(),
        found,
        expected,
    };
    if input.data_type != DataType::F32 {
        let found = format!("{} in the network", input.data_type);
        return Err(mismatch(found, "fp32, which calibration feeds".to_owned()));
    }
    let numbers = shape.iter().try_fold(1_usize, |product, axis| {
        product.checked_mul(usize::try_from(*axis).ok()?)
    });
    let batch = shape.first().copied().unwrap_or(1);
    match numbers {
        Some(numbers) if i64::try_from(images.batch_size()) == Ok(batch) => Ok(numbers),
        _ => Err(mismatch(
            format!("calibration batches of {}", images.batch_size()),
            format!("batches of {batch}, as in the shape {shape:?} that the engine is built for"),
        )),
    }
}
