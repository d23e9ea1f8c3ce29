//! Secondary networks: which there are, and on which objects they look.

use std::path::PathBuf;
use std::time::Duration;

use jetwatch_types::Size;

/// A network that looks at crops of tracked objects.
#[derive(Debug, Clone, PartialEq)]
pub struct SecondaryConfig {
    /// Its name in attributes and statistics: letters, digits, `-` and `_`.
    pub name: String,
    /// Model folder with its `model.yaml`.
    pub model: PathBuf,
    /// Precision whose file is taken from the folder; `None`: as for the primary detector.
    pub precision: Option<String>,
    /// Place in the list of the network whose findings it looks at; `None`: it looks at tracked objects.
    pub on: Option<usize>,
    /// Labels of the objects, of the primary detector or of that other network; empty: all.
    pub classes: Vec<String>,
    /// Most crops in one batch. Default 1.
    pub batch_size: usize,
    /// Longest wait of a batch's first crop for company. Default 10 ms.
    pub batch_timeout: Duration,
    /// Networks that run side by side. Default 1.
    pub workers: usize,
    /// Least size of a box, in source pixels. Default 16×16.
    pub min_object: Size,
    /// Frames between two looks at a track, after the first [`vote_frames`](Self::vote_frames) of them. Default 30.
    pub reinfer_interval: u32,
    /// Newest looks that vote. Default 5.
    pub vote_frames: usize,
    /// Labels below this score do not count, 0 to 1. `None`: the model's own threshold.
    pub threshold: Option<f32>,
}
