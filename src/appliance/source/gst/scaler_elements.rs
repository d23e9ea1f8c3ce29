// SPDX-License-Identifier: Apache-2.0
//! The scaling elements between `entry` and `sink`: created when size and format of the images are known, and rebuilt when a
//! change of them needs other elements.
//!
//! All of it runs on the streaming thread, inside the caps event: no buffer is in the elements that are removed.

use gstreamer as gst;
use gstreamer::glib::WeakRef;
use gstreamer::prelude::*;
use gstreamer_video::{VideoColorMatrix, VideoColorRange, VideoColorimetry};

use crate::SourceError;
use crate::convert_plan::{ConvertStep, CropOf, Memory, VideoFormat};
use crate::elements::{make, set_if_supported, set_number};
use jetwatch_platform::VideoUnit;

use super::hardware::VideoHardware;
use super::orientation::{self, Orientation};

/// Caps feature of a Jetson surface.
pub(super) const NVMM: &str = "memory:NVMM";

/// Input format of the detector.
const OUTPUT_FORMAT: &str = "BGRx";

/// Pool size when the detector reads images without a copy: one is being written, one waits in the source queue, the others
/// are with the workers. An empty pool blocks the source.
const SHARED_BUFFERS: &str = "8";

/// The elements of all steps.
#[derive(Default)]
pub(super) struct ScalerElements {
    steps: Vec<ConvertStep>,
    /// In the order of the data.
    elements: Vec<gst::Element>,
    /// The filter that sets the output size of each step.
    filters: Vec<gst::Element>,
    /// The element that crops, in the first step.
    cropper: Option<gst::Element>,
    /// How images are rotated before the first step; `None`: they are upright.
    orientation: Option<Orientation>,
    /// The filter that sets the size of the rotated images.
    rotated_filter: Option<gst::Element>,
    /// The entry is linked to the sink, with no element in between.
    is_bypassed: bool,
}

/// Where the elements are linked. Weak references: the elements of the pipeline own this value.
pub(super) struct AttachPoints {
    pub(super) pipeline: WeakRef<gst::Pipeline>,
    pub(super) entry: WeakRef<gst::Element>,
    pub(super) sink: WeakRef<gst::Element>,
    pub(super) hardware: VideoHardware,
    /// Prefix of element names, which are unique in a pipeline.
    pub(super) prefix: &'static str,
}

/// [`AttachPoints`] with strong references.
struct Attached {
    pipeline: gst::Pipeline,
    entry: gst::Element,
    sink: gst::Element,
}

impl AttachPoints {
    pub(super) fn element_name(&self, what: &str, index: usize) -> String {
        match index {
            0 => format!("{}{what}", self.prefix),
            index => format!("{}{what}-{}", self.prefix, index + 1),
        }
    }

    /// Sets the caps that the sink accepts, unless the pipeline is shutting down.
    pub(super) fn accept(&self, caps: gst::Caps) {
        if let Some(sink) = self.sink.upgrade() {
            sink.set_property("caps", caps);
        }
    }

    /// `None` when the pipeline is shutting down.
    fn upgrade(&self) -> Option<Attached> {
        Some(Attached {
            pipeline: self.pipeline.upgrade()?,
            entry: self.entry.upgrade()?,
            sink: self.sink.upgrade()?,
        })
    }
}

impl ScalerElements {
    /// Makes the elements carry out `steps`, which are not empty; `rotate`: on images that are rotated before, to this format. Rebuilds
    /// them only if the layout changes.
    pub(super) fn reconfigure(
        &mut self,
        steps: Vec<ConvertStep>,
        rotate: Option<(Orientation, VideoFormat)>,
        attach_points: &AttachPoints,
    ) -> Result<(), String> {
        let orientation = rotate.as_ref().map(|(orientation, _)| *orientation);
        let is_rotated_so = self.orientation == orientation;
        if self.steps.is_empty() || !is_rotated_so || !is_same_layout(&self.steps, &steps) {
            self.build(&steps, rotate.as_ref(), attach_points)?;
        }
        if let (Some(filter), Some((_, to))) = (&self.rotated_filter, &rotate) {
            filter.set_property("caps", orientation::filter_caps(to, steps[0].unit));
        }
        for (filter, step) in self.filters.iter().zip(&steps) {
            filter.set_property("caps", output_caps(step));
        }
        if let (Some(cropper), Some(crop)) = (&self.cropper, steps[0].crop) {
            set_crop(cropper, steps[0].unit, crop)?;
        }
        self.steps = steps;
        Ok(())
    }

    /// Links the entry to the sink: the reader of the sink scales.
    pub(super) fn bypass(&mut self, attach_points: &AttachPoints) -> Result<(), String> {
        if self.is_bypassed {
            return Ok(());
        }
        let attached = attach_points
            .upgrade()
            .ok_or("the pipeline is shutting down")?;
        self.remove(&attached);
        self.steps.clear();
        let linked = attached.entry.link(&attached.sink);
        linked.map_err(|error| error.to_string())?;
        self.is_bypassed = true;
        Ok(())
    }

    /// Forwards end-of-stream when no image has ever arrived.
    pub(super) fn forward_eos(&self, attach_points: &AttachPoints) {
        let is_linked = self.is_bypassed || !self.elements.is_empty();
        let Some(attached) = attach_points.upgrade().filter(|_| !is_linked) else {
            return;
        };
        if attached.entry.link(&attached.sink).is_err() {
            log::warn!("cannot forward end-of-stream to the sink");
        }
    }

    fn build(
        &mut self,
        steps: &[ConvertStep],
        rotate: Option<&(Orientation, VideoFormat)>,
        attach_points: &AttachPoints,
    ) -> Result<(), String> {
        let attached = attach_points
            .upgrade()
            .ok_or("the pipeline is shutting down")?;
        let to_text = |error: SourceError| error.to_string();
        let failed = |error: gst::glib::BoolError| error.to_string();
        self.remove(&attached);
        if let Some((orientation, to)) = rotate {
            let unit = steps[0].unit;
            let (elements, filter) = orientation::elements(*orientation, to, unit, attach_points)?;
            self.elements.extend(elements);
            self.rotated_filter = filter;
            self.orientation = Some(*orientation);
        }
        for (index, step) in steps.iter().enumerate() {
            let filter =
                make("capsfilter", &attach_points.element_name("size", index)).map_err(to_text)?;
            match step.unit {
                VideoUnit::Vic | VideoUnit::Gpu => {
                    let name = attach_points.element_name("scale", index);
                    let converter = converter(step, &name, attach_points)?;
                    if step.crop.is_some() {
                        self.cropper = Some(converter.clone());
                    }
                    self.elements.extend([converter, filter.clone()]);
                }
                _ => {
                    if step.crop.is_some() {
                        let crop = make("videocrop", &attach_points.element_name("crop", index))
                            .map_err(to_text)?;
                        self.cropper = Some(crop.clone());
                        self.elements.push(crop);
                    }
                    // Scaling comes before the color conversion because the network's input is usually smaller than the
                    // source, so fewer pixels are converted.
                    let scale = make("videoscale", &attach_points.element_name("scale", index))
                        .map_err(to_text)?;
                    // The letterbox determines the aspect ratio: the scaler must fill its output without borders.
                    scale.set_property("add-borders", false);
                    let convert = make("videoconvert", &attach_points.element_name("convert", 0))
                        .map_err(to_text)?;
                    self.elements.extend([scale, filter.clone(), convert]);
                }
            }
            self.filters.push(filter);
        }
        attached.pipeline.add_many(&self.elements).map_err(failed)?;
        let elements = std::iter::once(&attached.entry)
            .chain(&self.elements)
            .chain(std::iter::once(&attached.sink));
        gst::Element::link_many(elements).map_err(failed)?;
        for element in self.elements.iter().rev() {
            element.sync_state_with_parent().map_err(failed)?;
        }
        Ok(())
    }

    fn remove(&mut self, attached: &Attached) {
        if std::mem::take(&mut self.is_bypassed) {
            attached.entry.unlink(&attached.sink);
        }
        self.filters.clear();
        self.cropper = None;
        self.orientation = None;
        self.rotated_filter = None;
        let elements = std::mem::take(&mut self.elements);
        if let (Some(first), Some(last)) = (elements.first(), elements.last()) {
            attached.entry.unlink(first);
            last.unlink(&attached.sink);
        }
        for element in &elements {
            if element.set_state(gst::State::Null).is_err()
                || attached.pipeline.remove(element).is_err()
            {
                log::warn!("{} cannot be removed from its pipeline", element.name());
            }
        }
    }
}

/// A Jetson converter for one step, with its unit set.
pub(super) fn converter(
    step: &ConvertStep,
    name: &str,
    attach_points: &AttachPoints,
) -> Result<gst::Element, String> {
    let unit = attach_points.hardware.scaler(step.unit)?;
    let converter = make(unit.element, name).map_err(|error| error.to_string())?;
    if let Some((property, nick)) = unit.setting
        && !set_if_supported(property, &converter, nick)
    {
        return Err(format!(
            "{} does not support {property}={nick}",
            unit.element
        ));
    }
    // Bilinear, as on the CPU. The element's default is nearest neighbor, which networks are not trained with.
    if !set_if_supported("interpolation-method", &converter, "Bilinear") {
        log::warn!(
            "{} does not support bilinear scaling in this release: detections may be less accurate",
            unit.element
        );
    }
    // Pitch-linear rows, which the tensor writer reads.
    set_if_supported("bl-output", &converter, "false");
    if step.to.memory == Memory::Nvmm && step.to.format == OUTPUT_FORMAT {
        // These buffers stay in NVMM while the detector uses them.
        set_if_supported("output-buffers", &converter, SHARED_BUFFERS);
    }
    if step.unit == VideoUnit::Gpu {
        // The GPU writes to its own memory only.
        set_if_supported("nvbuf-memory-type", &converter, "nvbuf-mem-cuda-device");
    }
    Ok(converter)
}

/// Sets the crop: by its edges on a Jetson converter, by the margins on `videocrop`.
fn set_crop(
    cropper: &gst::Element,
    unit: VideoUnit,
    CropOf { crop, of }: CropOf,
) -> Result<(), String> {
    let (right, bottom) = (crop.left + crop.size.width, crop.top + crop.size.height);
    let (right, bottom) = match unit {
        VideoUnit::Vic | VideoUnit::Gpu => (right, bottom),
        _ => (of.width - right, of.height - bottom),
    };
    let edges = [
        ("left", crop.left),
        ("right", right),
        ("top", crop.top),
        ("bottom", bottom),
    ];
    for (property, pixels) in edges {
        if !set_number(property, cropper, pixels) {
            return Err(format!(
                "{} does not support {property}={pixels}, which roi needs; remove roi, or set scaling to cpu",
                cropper.name()
            ));
        }
    }
    Ok(())
}

/// Whether both need the same elements, possibly with other sizes.
fn is_same_layout(before: &[ConvertStep], now: &[ConvertStep]) -> bool {
    let kind = |step: &ConvertStep| {
        let is_cut = step.crop.is_some();
        (step.unit, is_cut, step.to.memory, step.to.format.clone())
    };
    before.len() == now.len() && before.iter().zip(now).all(|(a, b)| kind(a) == kind(b))
}

/// Output caps of a step. On the CPU the filter comes before the color conversion, so its caps have no format.
pub(super) fn output_caps(step: &ConvertStep) -> gst::Caps {
    let VideoFormat {
        size,
        format,
        memory,
        foreign_colors: _,
    } = &step.to;
    let mut caps = gst::Caps::builder("video/x-raw")
        .field("width", size.width.cast_signed())
        .field("height", size.height.cast_signed());
    if step.unit != VideoUnit::Cpu {
        caps = caps.field("format", format);
    }
    match memory {
        Memory::System => caps.build(),
        Memory::Nvmm => caps.features([NVMM]).build(),
    }
}

/// Size, format and memory in these caps; `None` when they are not raw video.
pub(super) fn format_of(caps: &gst::CapsRef) -> Option<VideoFormat> {
    let video = caps
        .structure(0)
        .filter(|video| video.name() == "video/x-raw")?;
    let side = |name: &str| u32::try_from(video.get::<i32>(name).ok()?).ok();
    let is_nvmm = caps
        .features(0)
        .is_some_and(|features| features.contains(NVMM));
    let foreign_colors = match is_nvmm {
        true => None,
        false => video.get::<String>("colorimetry").ok(),
    };
    Some(VideoFormat {
        size: jetwatch_types::Size::new(side("width")?, side("height")?),
        format: video.get::<String>("format").ok()?,
        memory: if is_nvmm {
            Memory::Nvmm
        } else {
            Memory::System
        },
        foreign_colors: foreign_colors.filter(|colors| !is_limited_bt601(colors)),
    })
}

/// Whether this colorimetry has the matrix of BT.601 and limited range; `true` for RGB, which has no matrix.
fn is_limited_bt601(colorimetry: &str) -> bool {
    let Ok(colors) = colorimetry.parse::<VideoColorimetry>() else {
        return false;
    };
    match colors.matrix() {
        VideoColorMatrix::Rgb => true,
        VideoColorMatrix::Bt601 => colors.range() == VideoColorRange::Range16_235,
        _ => false,
    }
}
