//! Errors of the conversion of a Paddle network.

use jetwatch_detect::graph::Malformed;

/// Why a network of PaddlePaddle cannot be converted.
#[derive(Debug, thiserror::Error)]
pub enum PaddleError {
    /// The program is not a protobuf message.
    #[error(
        "model.pdmodel: {} at byte {}: the file is damaged, or not a program of PaddlePaddle 2", .0.what, .0.at
    )]
    Program(Malformed),
    /// The weights do not fit the program.
    #[error(
        "model.pdiparams: {what} at byte {at}: the file is damaged, or belongs to another model.pdmodel"
    )]
    Parameters {
        /// What is wrong.
        what: String,
        /// Place in the file, in bytes.
        at: usize,
    },
    /// A requested variable or weight does not exist.
    #[error("model.pdmodel has no variable `{name}`, expected {expected}")]
    Missing {
        /// The variable.
        name: String,
        /// What it should be.
        expected: &'static str,
    },
    /// An operator, or a use of one, that is not known here.
    #[error(
        "the network cannot be converted: operator `{operator}` with the output `{output}`: {reason}"
    )]
    Operator {
        /// Paddle's name of the operator.
        operator: String,
        /// The variable that it writes.
        output: String,
        /// What was found, and what is supported.
        reason: String,
    },
}
