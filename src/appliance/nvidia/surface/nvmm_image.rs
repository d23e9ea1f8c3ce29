// SPDX-License-Identifier: Apache-2.0
//! An image in NVMM, as delivered by the GStreamer pipeline.

use std::fmt;

use gstreamer as gst;

use super::layout::ExpectedLayout;
use crate::cuda::PixelFormat;

/// An NVMM buffer with one image, and its caps. Dropping it returns the buffer to its pool.
#[derive(Clone)]
pub struct NvmmImage {
    pub(super) buffer: gst::Buffer,
    pub(super) expected: ExpectedLayout,
}

impl NvmmImage {
    /// An image of `width`×`height` pixels. A [`SurfaceReader`](super::SurfaceReader) checks that the buffer really holds it.
    pub fn new(buffer: gst::Buffer, width: u32, height: u32, pixels: PixelFormat) -> Self {
        let expected = ExpectedLayout {
            width,
            height,
            pixels,
        };
        Self { buffer, expected }
    }
}

impl fmt::Debug for NvmmImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExpectedLayout { width, height, .. } = self.expected;
        write!(f, "NvmmPicture({width}×{height})")
    }
}
