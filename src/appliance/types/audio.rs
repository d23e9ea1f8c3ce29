// SPDX-License-Identifier: Apache-2.0
//! Encoded sound of a source as its camera sends it.

use std::sync::Arc;
use std::time::Duration;

/// Format of a stream of AAC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AudioFormat {
    /// Samples per second and channel.
    pub sample_rate: u32,
    /// Channels.
    pub channels: u16,
    /// `AudioSpecificConfig` of ISO/IEC 14496-3, which a decoder needs first.
    pub config: Arc<[u8]>,
}

/// One encoded unit: a raw AAC frame without a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AudioUnit {
    /// The frame.
    pub bytes: Arc<[u8]>,
    /// Presentation timestamp, on the clock of the video of the same source.
    pub pts: Duration,
}
