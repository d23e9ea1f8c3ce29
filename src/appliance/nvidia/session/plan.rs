//! What one execution is made for: tensors, their sizes, the batch.

use crate::cuda::{Element, PixelFormat, TensorFormat};

use super::ExecutionError;

/// Tensors and batch of one network.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The tensor that pictures go into.
    pub input: InputPlan,
    /// Inputs that are the same for every picture of every run.
    pub constants: Vec<ConstantPlan>,
    /// Outputs, in the order in which they are asked for.
    pub outputs: Vec<OutputPlan>,
    /// Most pictures in one run, at least 1.
    pub batch: usize,
    /// Whether runs are recorded as CUDA graphs and launched whole.
    pub graphs: bool,
}

/// The input tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct InputPlan {
    /// Its name in the network.
    pub name: String,
    /// What is written for each picture.
    pub source: InputSource,
}

/// What is written for each picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum InputSource {
    /// Pixels, of which the GPU makes the tensor.
    Images {
        /// How the pixels lie.
        pixels: PixelFormat,
        /// The tensor.
        tensor: TensorFormat,
    },
    /// The tensor itself, ready for the network.
    Tensor {
        /// Bytes that one picture takes.
        bytes_per_image: usize,
    },
}

impl InputSource {
    /// Bytes that one picture takes in the tensor.
    #[must_use]
    pub fn bytes_per_image(&self) -> usize {
        match self {
            Self::Images { tensor, .. } => tensor.bytes(),
            Self::Tensor {
                bytes_per_image: bytes_per_picture,
            } => *bytes_per_picture,
        }
    }
}

/// An input that never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConstantPlan {
    /// Its name in the network.
    pub name: String,
    /// What stands in it for each picture.
    pub bytes: Vec<u8>,
}

/// An output tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPlan {
    /// Its name in the network.
    pub name: String,
    /// Bytes that one picture takes.
    pub bytes_per_image: usize,
}

/// Most pictures in one run: the kernel numbers them in 16 bits.
pub const MAX_BATCH: usize = 65_535;

impl Plan {
    /// Refuses what cannot be run.
    pub(super) fn check(&self) -> Result<(), ExecutionError> {
        let refuse = |what: &str, found: String, expected: &str| {
            Err(ExecutionError::Plan {
                what: what.to_owned(),
                found,
                expected: expected.to_owned(),
            })
        };
        if self.batch == 0 || self.batch > MAX_BATCH {
            return refuse("the batch", self.batch.to_string(), "1 to 65535 pictures");
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
                    format!("{bytes} bytes a picture"),
                    "1 byte at least, and memory for it",
                );
            }
        }
        Ok(())
    }

    /// Name and bytes for each picture of every tensor.
    fn tensors(&self) -> impl Iterator<Item = (&str, usize)> {
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
