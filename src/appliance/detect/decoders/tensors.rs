// SPDX-License-Identifier: Apache-2.0
//! Checks of the output tensors of a network: number, types, axes. Pure.
//!
//! Independent of the layout. Decoders call it when they are created, so that `decode` can rely on it.

use super::{DType, Mismatch, TensorShape, TensorView};

/// Fails unless the network has exactly `wanted` output tensors. `roles` names them in the layout's order.
pub(crate) fn check_count(
    shapes: &[TensorShape<'_>],
    wanted: usize,
    roles: &str,
) -> Result<(), Mismatch> {
    if shapes.len() == wanted {
        return Ok(());
    }
    Err(Mismatch {
        // The first that is missing, or the first that is too many.
        tensor: shapes.len().min(wanted),
        expected: format!("{wanted} tensors ({roles}) instead of {}", shapes.len()),
        advice: "name the tensors in output of model.yaml in this order".to_owned(),
    })
}

/// Fails unless tensor number `tensor` has elements of `element` and the axes `wanted`.
///
/// An axis of `None` may have any length. Each axis has a word for the error.
pub(crate) fn check_axes(
    shapes: &[TensorShape<'_>],
    tensor: usize,
    element: DType,
    wanted: &[(Option<usize>, &str)],
    advice: &str,
) -> Result<(), Mismatch> {
    let shape = shapes[tensor];
    let fits = shape.axes.len() == wanted.len()
        && shape
            .axes
            .iter()
            .zip(wanted)
            .all(|(found, (wanted, _))| wanted.is_none_or(|wanted| *found == wanted));
    if fits && shape.element == element {
        return Ok(());
    }
    let axes: Vec<String> = wanted
        .iter()
        .map(|(length, name)| match length {
            Some(length) => length.to_string(),
            None => (*name).to_owned(),
        })
        .collect();
    Err(Mismatch {
        tensor,
        expected: format!("{} [{}]", element_name(element), axes.join(", ")),
        advice: advice.to_owned(),
    })
}

/// The type as networks write it.
pub(crate) fn element_name(element: DType) -> &'static str {
    match element {
        DType::F32 => "float32",
        DType::I32 => "int32",
        DType::I64 => "int64",
    }
}

/// The floats of tensor number `tensor`. Panics when it has another type or not `len` elements.
pub(crate) fn floats<'a>(tensors: &[TensorView<'a>], tensor: usize, len: usize) -> &'a [f32] {
    let TensorView::F32(numbers) = tensors[tensor] else {
        panic!("tensor {tensor} was checked to hold 32-bit floats");
    };
    assert_eq!(numbers.len(), len, "numbers in tensor {tensor}");
    numbers
}
