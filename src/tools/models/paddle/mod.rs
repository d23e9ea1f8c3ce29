//! Converts a network of PaddlePaddle 2 into an ONNX file: the detectors of PaddleDetection in its registry packages.
//!
//! A network is two files: `model.pdmodel`, a protobuf message with the operators ([`program`]), and `model.pdiparams`, the
//! weights one after the other ([`parameters`]). [`network`] takes the part between an input and the requested tensors, and
//! folds batch normalization into the convolutions before it; [`onnx_writer`](crate::onnx_writer) writes the result. What comes after the
//! requested tensors, such as NMS, is left out: the detector does that itself. Only the operators that
//! such networks use are known; any other one is an error that names it. Pure; called by the download of a registry package.

mod error;
mod network;
mod operators;
mod parameters;
mod program;
#[cfg(test)]
mod tests;

pub use error::PaddleError;

use jetwatch_types::Size;

use crate::onnx_writer;

/// Producer as other converters of Paddle write it; the inference of layouts tells PicoDet from NanoDet by it.
const PRODUCER: &str = "PaddlePaddle";

/// What to convert, and into what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    /// Name of the input variable, an image of three planes; the ONNX input has the same name.
    pub input: String,
    /// Size of the input.
    pub size: Size,
    /// Variables that become outputs, `[batch, channels, height, width]` each.
    pub outputs: Vec<ConvertedOutput>,
    /// Names and texts for the metadata of the file, such as its origin and licence.
    pub metadata: Vec<(String, String)>,
}

/// A variable that becomes an output of shape `[batch, height·width, channels]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvertedOutput {
    /// The variable in the program.
    pub variable: String,
    /// Name of the output in the ONNX file.
    pub name: String,
}

/// Converts `program` (the bytes of `model.pdmodel`) with the weights in `parameters` (those of `model.pdiparams`).
///
/// The result is an ONNX file of operator set 13 with the input `[batch, 3, height, width]`. The same input gives the same bytes.
///
/// # Errors
/// A file is damaged, the network has no such variables, or it uses an operator that is not known here.
pub fn convert(
    program: &[u8],
    parameters: &[u8],
    conversion: &Conversion,
) -> Result<Vec<u8>, PaddleError> {
    let program = program::Program::read(program)?;
    let weights = parameters::read(parameters, &program)?;
    let network = network::Network::build(&program, &weights, conversion)?;
    Ok(onnx_writer::write(&onnx_writer::Network {
        producer: PRODUCER,
        metadata: &conversion.metadata,
        input: &conversion.input,
        size: conversion.size,
        nodes: &network.nodes,
        initializers: &network.initializers,
        outputs: &network.outputs,
    }))
}
