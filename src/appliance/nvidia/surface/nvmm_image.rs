//! A picture in NVMM as it leaves the pipeline.

use std::fmt;

use gstreamer as gst;

use super::layout::ExpectedLayout;
use crate::cuda::PixelFormat;

/// A buffer of NVMM with one picture, and what the pipeline's caps say of it. The pool gets the buffer back when this is dropped.
#[derive(Clone)]
pub struct NvmmImage {
    pub(super) buffer: gst::Buffer,
    pub(super) expected: ExpectedLayout,
}

impl NvmmImage {
    /// Of `width`×`height` pixels. Whether the buffer really holds that is found out when a [`SurfaceReader`](super::SurfaceReader)
    /// reads it.
    #[must_use]
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
