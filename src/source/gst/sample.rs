//! A sample of the sink as a [`Picture`]: the one place that knows in which memory its pixels lie.
//!
//! Today that is the processor's. A sample whose caps say `memory:NVMM` would become a picture that holds its surface here,
//! and nowhere else; the steps before the sink can leave their pictures there already.

use gstreamer as gst;
use gstreamer_video as gst_video;

use crate::types::{Picture, Size};

/// Reads samples. It remembers the layout of the caps seen last: parsing them for every frame would be waste.
#[derive(Default)]
pub(super) struct Reader {
    layout: Option<(gst::Caps, Layout)>,
}

#[derive(Clone, Copy)]
struct Layout {
    size: Size,
    stride: usize,
    offset: usize,
}

impl Reader {
    /// The picture of a sample, which gives its buffer back when it is dropped; `None` when the buffer does not hold what its
    /// caps promise.
    pub(super) fn read(&mut self, sample: &gst::Sample) -> Option<Picture> {
        let buffer = sample.buffer_owned()?;
        let layout = self.layout(sample.caps()?, &buffer)?;
        let mapped = buffer.into_mapped_buffer_readable().ok()?;
        Picture::new(
            layout.size,
            layout.stride,
            Box::new(Pixels {
                mapped,
                offset: layout.offset,
            }),
        )
    }

    fn layout(&mut self, caps: &gst::CapsRef, buffer: &gst::Buffer) -> Option<Layout> {
        if self
            .layout
            .as_ref()
            .is_none_or(|(known, _)| known.as_ref() != caps)
        {
            let video = gst_video::VideoInfo::from_caps(caps).ok()?;
            let layout = Layout {
                size: Size::new(video.width(), video.height()),
                stride: usize::try_from(*video.stride().first()?).ok()?,
                offset: *video.offset().first()?,
            };
            self.layout = Some((caps.to_owned(), layout));
        }
        let mut layout = self.layout.as_ref()?.1;
        // The buffer's own layout wins over the default one of its caps.
        if let Some(meta) = buffer.meta::<gst_video::VideoMeta>() {
            layout.stride = usize::try_from(*meta.stride().first()?).ok()?;
            layout.offset = *meta.offset().first()?;
        }
        Some(layout)
    }
}

/// A mapped GStreamer buffer, given back to its pool when the frame is dropped.
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
