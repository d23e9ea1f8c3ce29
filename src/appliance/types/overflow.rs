//! What a stage does with items that the next one cannot keep up with.

/// Handling of frames and crops that a later stage cannot keep up with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OverflowPolicy {
    /// They are dropped, and counted.
    #[default]
    Drop,
    /// They wait without limit: the caller bounds them.
    Block,
}
