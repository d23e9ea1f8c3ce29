// SPDX-License-Identifier: Apache-2.0
//! A sample of the sink as an [`Image`](jetwatch_types::Image): the only place that depends on the memory of its pixels.
//!
//! CPU memory, or, when the detector reads NVMM surfaces without a copy, `memory:NVMM`: such an image holds its surface and
//! returns it to the pool when dropped.

use std::sync::Arc;

use gstreamer as gst;
use gstreamer_video as gst_video;

use crate::SourceContext;
use jetwatch_nvidia::cuda::PixelFormat;
use jetwatch_nvidia::surface::{NvmmImage, SurfaceReader};
use jetwatch_types::{Image, Size};

use super::diagnostics::SessionDiagnostics;
use super::scaler_elements::NVMM;

/// Reads samples. Caches the layout of the newest caps, so that they are not parsed for every frame.
pub(super) struct SampleReader {
    layout: Option<(gst::Caps, Layout)>,
    nvmm_reader: Option<Arc<SurfaceReader>>,
    source: String,
    diagnostics: Arc<SessionDiagnostics>,
}

#[derive(Clone, Copy)]
struct Layout {
    size: Size,
    stride: usize,
    offset: usize,
    is_nvmm: bool,
}

impl SampleReader {
    /// A reader for the samples of one session.
    pub(super) fn new(context: &SourceContext, diagnostics: &Arc<SessionDiagnostics>) -> Self {
        Self {
            layout: None,
            nvmm_reader: context.nvmm_reader.clone(),
            source: context.name.clone(),
            diagnostics: Arc::clone(diagnostics),
        }
    }

    /// A reader for samples in CPU memory, outside of any session.
    pub(super) fn for_system_memory() -> Self {
        Self {
            layout: None,
            nvmm_reader: None,
            source: String::new(),
            diagnostics: Arc::default(),
        }
    }

    /// The image of a sample; dropping it returns the buffer to its pool. `None` when the buffer is smaller than its caps
    /// require.
    pub(super) fn read(&mut self, sample: &gst::Sample) -> Option<Image> {
        let buffer = sample.buffer_owned()?;
        let layout = self.layout(sample.caps()?, &buffer)?;
        if layout.is_nvmm {
            return self.zero_copy(buffer, layout.size);
        }
        let mapped = buffer.into_mapped_buffer_readable().ok()?;
        Image::new(
            layout.size,
            layout.stride,
            Box::new(Pixels {
                mapped,
                offset: layout.offset,
            }),
        )
    }

    /// An image that stays in NVMM. `None` when it cannot be read without a copy: the next session copies.
    fn zero_copy(&self, buffer: gst::Buffer, size: Size) -> Option<Image> {
        let image = NvmmImage::new(buffer, size.width, size.height, PixelFormat::Bgrx);
        match self.nvmm_reader.as_ref()?.surface(&image) {
            Ok(surface) => Some(Image::from_handle(size, surface)),
            Err(error) => {
                log::warn!(source = self.source.as_str(); "{error}; falling back to copying frames out of NVMM");
                self.diagnostics.disable_zero_copy();
                None
            }
        }
    }

    fn layout(&mut self, caps: &gst::CapsRef, buffer: &gst::Buffer) -> Option<Layout> {
        if self
            .layout
            .as_ref()
            .is_none_or(|(cached, _)| cached.as_ref() != caps)
        {
            let video = gst_video::VideoInfo::from_caps(caps).ok()?;
            let layout = Layout {
                size: Size::new(video.width(), video.height()),
                stride: usize::try_from(*video.stride().first()?).ok()?,
                offset: *video.offset().first()?,
                is_nvmm: caps
                    .features(0)
                    .is_some_and(|features| features.contains(NVMM)),
            };
            self.layout = Some((caps.to_owned(), layout));
        }
        let mut layout = self.layout.as_ref()?.1;
        // The buffer's own layout overrides the default one of its caps.
        if let Some(meta) = buffer.meta::<gst_video::VideoMeta>() {
            layout.stride = usize::try_from(*meta.stride().first()?).ok()?;
            layout.offset = *meta.offset().first()?;
        }
        Some(layout)
    }
}

/// A mapped GStreamer buffer; returned to its pool when the frame is dropped.
struct Pixels {
    mapped: gst::MappedBuffer<gst::buffer::Readable>,
    offset: usize,
}

impl AsRef<[u8]> for Pixels {
    fn as_ref(&self) -> &[u8] {
        self.mapped
            .as_slice()
            .get(self.offset..)
            .unwrap_or_default()
    }
}
