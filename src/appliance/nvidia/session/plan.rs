// SPDX-License-Identifier: Apache-2.0
//! Plan of a session: tensors, their sizes, the batch.

use crate::cuda::{Element, PixelFormat, TensorFormat};

use super::SessionError;

/// Tensors and batch of one network.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The tensor that images are written to.
    pub input: InputPlan,
    /// Inputs with the same value for every image of every run.
    pub constants: Vec<ConstantPlan>,
    /// Outputs; their order defines their indices.
    pub outputs: Vec<OutputPlan>,
    /// Maximum number of images in one run, at least 1.
    pub batch: usize,
    /// Whether runs are recorded and launched as CUDA graphs.
    pub graphs: bool,
}

/// The input tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct InputPlan {
    /// Name of the tensor in the network.
    pub name: String,
    /// Data written for each image.
    pub source: InputSource,
}

/// Data written for each image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum InputSource {
    /// Pixels, which the GPU converts to the tensor.
    Images {
        /// Pixel format.
        pixels: PixelFormat,
        /// Tensor format.
        tensor: TensorFormat,
    },
    /// The tensor itself, ready for the network.
    Tensor {
        /// Bytes per image.
        bytes_per_image: usize,
    },
}

impl InputSource {
    /// Bytes per image in the tensor.
    pub fn bytes_per_image(&self) -> usize {
        match self {
            Self::Images { tensor, .. } => tensor.bytes(),
            Self::Tensor {
                bytes_per_image: bytes_per_picture,
            } => *bytes_per_picture,
        }
    }
}

/// An input with constant contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConstantPlan {
    /// Name of the tensor in the network.
    pub name: String,
    /// Contents for each image.
    pub bytes: Vec<u8>,
}

/// An output tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPlan {
    /// Name of the tensor in the network.
    pub name: String,
    /// Bytes per image.
    pub bytes_per_image: usize,
}

/// Maximum number of images in one run: the kernel indexes them with 16 bits.
pub const MAX_BATCH: usize = 65_535;

impl Plan {
    /// Checks that the plan can be run.
    pub(super) fn check(&self) -> Result<(), SessionError> {
        let refuse = |what: &str, found: String, expected: &str| {
            Err(SessionError::Plan {
                what: what.to_owned(),
                found,
                expected: expected.to_owned(),
            })
        };
        if self.batch == 0 || self.batch > MAX_BATCH {
            return refuse("the batch", self.batch.to_string(), "1 to 65535 images");
        }
        if let InputSource::Images { tensor, .. } = self.input.source {
            if !tensor.is_valid() {
                let found = format!("{}×{}", tensor.width, tensor.height);
                return refuse("the input's size", found, "1 to 2^31 pixels");
            }
            if let Element::I8 { scale } = tensor.element
                && !(scale.is_finite() && scale > 0.0)
            {
                return refuse("the input's scale", scale.to_string(), "a number above 0");
            }
        }
        for (name, bytes) in self.tensors() {
            if bytes == 0
                || self
                    .batch
                    .checked_mul(bytes)
                    .is_none_or(|all| all > isize::MAX as usize)
            {
                let what = format!("tensor `{name}`");
                return refuse(
                    &what,
                    format!("{bytes} bytes per image"),
                    "1 byte at least, and memory for it",
                );
            }
        }
        Ok(())
    }

    /// Name and bytes per image of every tensor.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (&str, usize)> {
        let input = (
            self.input.name.as_str(),
            self.input.source.bytes_per_image(),
        );
        let constants = self
            .constants
            .iter()
            .map(|plan| (plan.name.as_str(), plan.bytes.len()));
        let outputs = self
            .outputs
            .iter()
            .map(|plan| (plan.name.as_str(), plan.bytes_per_image));
        std::iter::once(input).chain(constants).chain(outputs)
    }
}
