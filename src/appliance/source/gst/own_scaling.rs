// SPDX-License-Identifier: Apache-2.0
//! Scaling of `I420` images in CPU memory by jetwatch itself, without elements between the decoder and the sink.
//!
//! [`I420Scaler`] scales as `videoscale` does and converts colors more exactly than `videoconvert`, in less time than both. [`plan`]
//! decides when the caps arrive. What it does not scale is left to elements, and then their last image is converted here, as `I420`.

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_video as gst_video;
use gstreamer_video::{
    VideoColorMatrix, VideoColorRange, VideoFormat, VideoInfo, VideoInterlaceMode,
};

use crate::convert_plan::{ConvertStep, Memory};
use crate::plan::{PlanStep, StepKind};
use jetwatch_pixels::{I420Scaler, Plane, YuvColors};
use jetwatch_platform::VideoUnit;
use jetwatch_types::{Image, PIXEL_BYTES, PixelPool, Size};

use super::scaler_elements::NVMM;

/// What jetwatch scales itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct OwnScaling {
    from: Size,
    to: Size,
    colors: YuvColors,
    /// No element is between the decoder and the sink.
    pub(super) is_alone: bool,
}

/// What jetwatch carries out of `steps` itself, on images with these caps: all of them, or the conversion of colors behind elements.
/// `None`: elements do all. `is_rotated`: by an element, before the first step.
pub(super) fn plan(
    caps: &gst::CapsRef,
    steps: &[ConvertStep],
    is_rotated: bool,
) -> Option<OwnScaling> {
    let [step] = steps else { return None };
    if step.unit != VideoUnit::Cpu || step.to.memory != Memory::System {
        return None;
    }
    let video = VideoInfo::from_caps(caps).ok()?;
    let behind_elements = OwnScaling {
        from: step.to.size,
        to: step.to.size,
        colors: colors(&video)?,
        is_alone: false,
    };
    let alone = OwnScaling {
        from: Size::new(video.width(), video.height()),
        is_alone: true,
        ..behind_elements
    };
    let is_whole = video.interlace_mode() == VideoInterlaceMode::Progressive;
    let is_plain = video.format() == VideoFormat::I420 && is_whole && !is_rotated;
    match is_plain && step.crop.is_none() && alone.scaler().is_some() {
        true => Some(alone),
        false => behind_elements.scaler().map(|_| behind_elements),
    }
}

/// `None` for RGB, and for matrices that no video has.
fn colors(video: &VideoInfo) -> Option<YuvColors> {
    let colorimetry = video.colorimetry();
    let (red, blue) = match colorimetry.matrix() {
        VideoColorMatrix::Bt601 => (0.299, 0.114),
        VideoColorMatrix::Bt709 => (0.2126, 0.0722),
        VideoColorMatrix::Bt2020 => (0.2627, 0.0593),
        VideoColorMatrix::Fcc => (0.30, 0.11),
        VideoColorMatrix::Smpte240m => (0.212, 0.087),
        _ => return None,
    };
    let full_range = match colorimetry.range() {
        VideoColorRange::Range0_255 => true,
        VideoColorRange::Range16_235 => false,
        _ => return None,
    };
    Some(YuvColors {
        red,
        blue,
        full_range,
    })
}

impl OwnScaling {
    fn scaler(&self) -> Option<I420Scaler> {
        I420Scaler::new(self.from, self.to, self.colors)
    }

    /// The work as a step of the processing plan.
    pub(super) fn step(self) -> PlanStep {
        PlanStep {
            kind: match self.from == self.to {
                true => StepKind::Color,
                false => StepKind::Scale,
            },
            unit: VideoUnit::Cpu,
            element: "jetwatch".to_owned(),
            detail: format!("{} I420 to {} BGRx", self.from, self.to),
        }
    }
}

/// Reads and scales samples.
#[derive(Default)]
pub(super) struct ScalingReader {
    scaler: Option<(OwnScaling, I420Scaler)>,
    /// Offsets and strides by the newest caps.
    layout: Option<(gst::Caps, [PlaneLayout; 3])>,
    pool: PixelPool,
}

#[derive(Clone, Copy)]
struct PlaneLayout {
    offset: usize,
    stride: usize,
}

impl ScalingReader {
    /// The scaled image of a sample; its buffer is free afterwards. `None` when it is smaller than its caps require.
    pub(super) fn read(&mut self, sample: &gst::Sample, scaling: OwnScaling) -> Option<Image> {
        let buffer = sample.buffer()?;
        let layout = self.layout(sample.caps()?, buffer)?;
        if self.scaler.as_ref().is_none_or(|(of, _)| *of != scaling) {
            self.scaler = Some((scaling, scaling.scaler()?));
        }
        let (_, scaler) = self.scaler.as_mut()?;
        let mapped = buffer.map_readable().ok()?;
        let chroma = Size::new(
            scaling.from.width.div_ceil(2),
            scaling.from.height.div_ceil(2),
        );
        let [luma, blue, red] = layout;
        let planes = [
            plane(&mapped, luma, scaling.from)?,
            plane(&mapped, blue, chroma)?,
            plane(&mapped, red, chroma)?,
        ];
        let stride = scaling.to.width as usize * PIXEL_BYTES;
        let mut pixels = self.pool.acquire(stride * scaling.to.height as usize);
        scaler.scale(planes, pixels.as_mut());
        Image::new(scaling.to, stride, Box::new(pixels))
    }

    fn layout(&mut self, caps: &gst::CapsRef, buffer: &gst::BufferRef) -> Option<[PlaneLayout; 3]> {
        // The buffer's own layout overrides the default one of its caps.
        if let Some(meta) = buffer.meta::<gst_video::VideoMeta>() {
            return planes_of(meta.offset(), meta.stride());
        }
        if self
            .layout
            .as_ref()
            .is_none_or(|(cached, _)| cached.as_ref() != caps)
        {
            let video = VideoInfo::from_caps(caps).ok()?;
            self.layout = Some((caps.to_owned(), planes_of(video.offset(), video.stride())?));
        }
        self.layout.as_ref().map(|(_, layout)| *layout)
    }
}

fn planes_of(offsets: &[usize], strides: &[i32]) -> Option<[PlaneLayout; 3]> {
    let plane = |index: usize| {
        Some(PlaneLayout {
            offset: *offsets.get(index)?,
            stride: usize::try_from(*strides.get(index)?).ok()?,
        })
    };
    Some([plane(0)?, plane(1)?, plane(2)?])
}

/// A plane of `size` in a buffer; `None` when the buffer is too small.
fn plane(
    bytes: &[u8],
    PlaneLayout { offset, stride }: PlaneLayout,
    size: Size,
) -> Option<Plane<'_>> {
    let bytes = bytes.get(offset..)?;
    let last_row = stride.checked_mul(size.height as usize - 1)?;
    let is_complete = bytes.len() >= last_row.checked_add(size.width as usize)?;
    is_complete.then_some(Plane { bytes, stride })
}

/// Caps of the images that the sink accepts: those that are read here, of a decoder with the caps `from`, or those of the last step.
/// `is_full`: full images, which are always in CPU memory.
pub(super) fn accepted_caps(from: Option<&gst::CapsRef>, is_full: bool) -> gst::Caps {
    let accepted = |format: &str| gst::Caps::builder("video/x-raw").field("format", format);
    let Some(from) = from else {
        let mut caps = accepted("BGRx").build();
        // Both memories: the last step decides, and the reader handles both.
        if !is_full {
            caps.merge(accepted("BGRx").features([NVMM]).build());
        }
        return caps;
    };
    let colorimetry = from
        .structure(0)
        .and_then(|it| it.get::<&str>("colorimetry").ok());
    match colorimetry {
        Some(colorimetry) => accepted("I420").field("colorimetry", colorimetry).build(),
        None => accepted("I420").build(),
    }
}

/// Answers the allocation queries that arrive at `pad` while `is_read_here`, so that decoders decode into the memory that is read here.
///
/// They may add rows and columns to their images, and get a pool that does so. Without the first answer they would copy each image
/// into a buffer without. Without the second libav's would, where the height is not a multiple of 16, as 360 and 1080 are not: the
/// buffers of its own pool are as large as the coded image, and it hands on no buffer of another size than its caps.
pub(super) fn offer_padded_buffers(
    pad: &gst::Pad,
    is_read_here: impl Fn() -> bool + Send + Sync + 'static,
) {
    pad.add_probe(gst::PadProbeType::QUERY_DOWNSTREAM, move |_, info| {
        let Some(gst::QueryViewMut::Allocation(query)) =
            info.query_mut().map(gst::QueryRef::view_mut)
        else {
            return gst::PadProbeReturn::Ok;
        };
        if !is_read_here() {
            return gst::PadProbeReturn::Ok;
        }
        let bytes = match query.get() {
            (Some(caps), true) => bytes_in_system_memory(caps),
            _ => None,
        };
        query.add_allocation_meta::<gst_video::VideoMeta>(None);
        if let Some(bytes) = bytes {
            // No maximum: a decoder keeps as many images as the stream refers to.
            query.add_allocation_pool(Some(&gst_video::VideoBufferPool::new()), bytes, 0, 0);
        }
        gst::PadProbeReturn::Handled
    });
}

/// Size of an image with these caps; `None` for other formats than decoders on the CPU have, and for memory of a Jetson.
fn bytes_in_system_memory(caps: &gst::CapsRef) -> Option<u32> {
    let is_elsewhere = caps
        .features(0)
        .is_some_and(|features| features.contains(NVMM));
    let video = VideoInfo::from_caps(caps).ok()?;
    let is_offered = video.format() == VideoFormat::I420 && !is_elsewhere;
    is_offered
        .then(|| u32::try_from(video.size()).ok())
        .flatten()
}

#[cfg(test)]
mod tests;
