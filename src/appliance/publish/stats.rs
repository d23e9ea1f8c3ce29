// SPDX-License-Identifier: Apache-2.0
//! Parts of the statistics: of secondary networks, of a spool, and of kept files.

use std::time::Duration;

use jetwatch_archive::MediaKind;
use jetwatch_spool::Class;

/// Statistics of one secondary network, since the daemon's start.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct SecondaryStats {
    /// Name of the network.
    pub name: String,
    /// Objects eligible for the network, mean over the frames that have any.
    pub objects_per_frame: f64,
    /// The batch size for all objects of such a frame: the mean, rounded, limited to the network's maximum.
    pub suggested_batch_size: usize,
    /// Configured batch size, in crops.
    pub batch_size: usize,
    /// Crops inferred.
    pub crops: u64,
    /// Batches inferred.
    pub batches: u64,
    /// Mean crops per batch.
    pub mean_batch: f64,
    /// Crops dropped because the queue was full.
    pub dropped_crops: u64,
    /// Results that arrived after their track had ended.
    pub late_results: u64,
    /// Frames whose objects were not classified because no pixels of them could be kept or read.
    pub frames_without_pixels: u64,
    /// Mean time from the cut of a crop to the start of its batch, in ms.
    pub mean_wait_ms: f64,
    /// Mean inference time of a batch, in ms.
    pub mean_infer_ms: f64,
}

/// Statistics of a spool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpoolStats {
    /// Identity of its numbering, 16 hexadecimal digits.
    pub id: String,
    /// Size of what is in memory of the kernel, in bytes.
    pub runtime_bytes: u64,
    /// Size of what is on the device, in bytes; `None`: a power cut takes what waits.
    pub state_bytes: Option<u64>,
    /// Age of the oldest message that is not acknowledged.
    pub oldest_age: Option<Duration>,
    /// Late messages sent per second since the last statistics.
    pub replay_rate: f64,
    /// Messages dropped since the start, by class in the order of [`SPOOL_CLASSES`].
    pub dropped: [u64; SPOOL_CLASSES.len()],
    /// Time in which its thread was at work since the start.
    pub busy: Duration,
}

/// The names of the classes of messages in a spool.
pub const SPOOL_CLASSES: [&str; 5] = {
    let all = Class::ALL;
    [
        all[0].name(),
        all[1].name(),
        all[2].name(),
        all[3].name(),
        all[4].name(),
    ]
};

/// Files of video and pictures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MediaStats {
    /// Size of the files of each kind.
    pub bytes: [(MediaKind, u64); 3],
    /// Size of the pinned files.
    pub pinned_bytes: u64,
    /// Free space on their device.
    pub free_bytes: u64,
    /// Days until files are deleted for want of space, at the rate of the last day; `None` without a rate.
    pub days_left: Option<f64>,
    /// Recording has stopped for want of space.
    pub is_full: bool,
}
