//! A picture in NVMM as it leaves the pipeline.

use std::fmt;

use gstreamer as gst;

use super::layout::Wanted;
use crate::cuda::PixelFormat;

/// A buffer of NVMM with one picture, and what the pipeline's caps say of it. The pool gets the buffer back when this is dropped.
#[derive(Clone)]
pub struct NvmmPicture {
    pub(super) buffer: gst::Buffer,
    pub(super) wanted: Wanted,
}

impl NvmmPicture {
    /// Of `width`×`height` pixels. Whether the buffer really holds that is found out when a [`SurfaceReader`](super::SurfaceReader)
    /// reads it.
    #[must_use]
    pub fn new(buffer: gst::Buffer, width: u32, height: u32, pixels: PixelFormat) -> Self {
        let wanted = Wanted {
            width,
            height,
            pixels,
        };
        Self { buffer, wanted }
    }
}

impl fmt::Debug for NvmmPicture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wanted { width, height, .. } = self.wanted;
        write!(f, "NvmmPicture({width}×{height})")
    }
}
