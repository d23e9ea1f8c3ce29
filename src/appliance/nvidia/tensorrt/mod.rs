// SPDX-License-Identifier: Apache-2.0
//! TensorRT without its headers: its C++ methods are called through vtables.
//!
//! TensorRT has no C interface beyond a few factory functions. Each public class is an object of two pointers: its own vtable,
//! and at byte 8 a pointer to an implementation whose vtable has one slot per method. The slots form generations: within one
//! they do not move, later versions only append. `vtable` contains them, with the first version of each method; a call of
//! a method that the opened version does not have is an error of jetwatch.
//! Sources: the public headers of 8.5.2, 8.6.1, 10.0.1 to 10.16, 11.0, 11.1, 11.4 and TensorRT-RTX 1.7.
//!
//! ```text
//!   Library ──► Builder (network, parser, config) ──► plan (bytes) ──► Runtime ──► Engine ──► InferenceSession
//!      └ Logger (to jetwatch's log)    └ Recorder, ProgressMonitor, Calibrator      └ inspector
//! ```

mod bindings;
mod builder;
mod calibrator;
mod context;
mod dims;
mod engine;
mod enqueue;
mod error;
mod ffi_guard;
mod library;
mod logger;
mod method;
mod object;
mod parser;
mod profiler;
mod progress;
mod recorder;
mod request;
mod runtime;
mod shapes;
mod shared_object;
mod version;
mod vtable;

pub use calibrator::CalibrationInput;
pub use engine::{Engine, TensorInfo, TensorMode};
pub use error::TensorRtError;
pub use library::{Library, names_of_libraries};
pub use parser::NodeError;
pub use progress::Progress;
pub use request::{BuildRequest, Built, ImplicitInt8, Precision, Shapes};
pub use runtime::Runtime;
pub use version::{Flavor, Generation, Version};

/// Element type of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataType {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
    /// Signed byte, quantized.
    I8,
    /// 32-bit integer.
    I32,
    /// One byte, 0 or 1.
    Bool,
    /// Unsigned byte.
    U8,
    /// 16-bit brain float.
    Bf16,
    /// 64-bit integer.
    I64,
    /// Another type, by its number in TensorRT's `DataType`.
    Other(i32),
}

impl DataType {
    /// From TensorRT's number, which is the same in all versions.
    const fn from_number(number: i32) -> Self {
        match number {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::I8,
            3 => Self::I32,
            4 => Self::Bool,
            5 => Self::U8,
            7 => Self::Bf16,
            8 => Self::I64,
            other => Self::Other(other),
        }
    }

    /// Size of one element in bytes; `None` when it is below one or unknown.
    #[must_use]
    pub const fn bytes(self) -> Option<usize> {
        match self {
            Self::F32 | Self::I32 => Some(4),
            Self::F16 | Self::Bf16 => Some(2),
            Self::I8 | Self::Bool | Self::U8 => Some(1),
            Self::I64 => Some(8),
            Self::Other(_) => None,
        }
    }
}

impl std::fmt::Display for DataType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::F32 => f.write_str("fp32"),
            Self::F16 => f.write_str("fp16"),
            Self::I8 => f.write_str("int8"),
            Self::I32 => f.write_str("int32"),
            Self::Bool => f.write_str("bool"),
            Self::U8 => f.write_str("uint8"),
            Self::Bf16 => f.write_str("bf16"),
            Self::I64 => f.write_str("int64"),
            Self::Other(number) => write!(f, "type {number}"),
        }
    }
}
