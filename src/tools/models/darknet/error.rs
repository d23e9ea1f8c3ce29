//! Errors of the conversion of a Darknet network.

/// Why a network of Darknet cannot be converted. The texts begin with the line of the configuration, where there is one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DarknetError {
    /// The `.cfg` file is wrong, or asks for something that is not supported.
    #[error("line {line}: {reason}")]
    Config {
        /// Line of the section or the key, from 1.
        line: usize,
        /// What was found, and what is expected.
        reason: String,
    },
    /// The `.weights` file does not fit the `.cfg` file.
    #[error("{0}")]
    Weights(String),
}

impl DarknetError {
    /// An error at a line of the configuration.
    pub(super) fn at(line: usize, reason: impl Into<String>) -> Self {
        Self::Config {
            line,
            reason: reason.into(),
        }
    }
}
