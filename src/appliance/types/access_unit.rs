// SPDX-License-Identifier: Apache-2.0
//! Encoded video of a source as its camera sends it: access units, and the format of their stream.

use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::Size;

crate::named_enum! {
    /// Codec of an encoded video stream.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum VideoCodec {
        /// H.264, also called AVC.
        H264 = "H.264",
        /// H.265, also called HEVC.
        H265 = "H.265",
    }

    /// The name used in messages and reports.
    pub fn name;
}

/// Format of an encoded stream. Its parameter sets are in its access units, before each keyframe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamFormat {
    /// Codec of the video.
    pub codec: VideoCodec,
    /// Size of its images in pixels, before any rotation.
    pub size: Size,
}

/// One encoded image: an access unit as a byte stream, with start codes (H.264 and H.265, annex B).
#[derive(Debug, Clone)]
pub struct AccessUnit {
    /// The NAL units with their start codes; at a keyframe with the parameter sets of the stream.
    pub bytes: Bytes,
    /// Presentation timestamp: the same as [`FrameMeta::pts`](super::FrameMeta::pts) of its image.
    pub pts: Option<Duration>,
    /// Decoding timestamp, where the container or the parser has one.
    pub dts: Option<Duration>,
    /// Duration, where the container or the parser has one.
    pub duration: Option<Duration>,
    /// Wall-clock time at which it arrived in jetwatch, before it was decoded.
    pub captured_at: SystemTime,
    /// Whether decoding can begin here.
    pub is_keyframe: bool,
}
