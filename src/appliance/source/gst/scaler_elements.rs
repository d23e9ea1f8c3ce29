//! The elements that scale, between `entry` and `sink`: made when the size and form of the pictures are known, and again when
//! a change of them needs other elements.
//!
//! All of it happens on the thread that pushes the pictures, inside the event that announces their form: no picture is on its
//! way through the elements that are taken out.

use gstreamer as gst;
use gstreamer::glib::WeakRef;
use gstreamer::prelude::*;

use crate::SourceError;
use crate::convert_plan::{ConvertStep, CropOf, Memory, VideoFormat};
use crate::elements::{make, set_if_supported, set_number};
use jetwatch_platform::VideoUnit;

use super::hardware::VideoHardware;

/// The caps feature of a Jetson's surfaces.
pub(super) const NVMM: &str = "memory:NVMM";

/// The format that the detector takes.
const OUTPUT_FORMAT: &str = "BGRx";

/// Buffers of a pool whose pictures the detector reads in place: one is written, one waits in its lane, the others are with the
/// workers. A pool that has run dry makes the source wait.
const SHARED_BUFFERS: &str = "8";

/// The elements of all steps.
#[derive(Default)]
pub(super) struct ScalerElements {
    steps: Vec<ConvertStep>,
    /// In the order of the data.
    elements: Vec<gst::Element>,
    /// The filter that sets each step's size.
    filters: Vec<gst::Element>,
    /// What cuts out a part, in the first step.
    cropper: Option<gst::Element>,
}

/// Where the chain stands. The pipeline's elements hold what holds this, so that it must not hold them.
pub(super) struct AttachPoints {
    pub(super) pipeline: WeakRef<gst::Pipeline>,
    pub(super) entry: WeakRef<gst::Element>,
    pub(super) sink: WeakRef<gst::Element>,
    pub(super) hardware: VideoHardware,
    /// Before the names of its elements, which are unique in a pipeline.
    pub(super) prefix: &'static str,
}

/// The same while it is worked on.
struct Attached {
    pipeline: gst::Pipeline,
    entry: gst::Element,
    sink: gst::Element,
}

impl AttachPoints {
    fn element_name(&self, what: &str, index: usize) -> String {
        match index {
            0 => format!("{}{what}", self.prefix),
            index => format!("{}{what}-{}", self.prefix, index + 1),
        }
    }

    /// `None` when the pipeline is on its way down.
    fn upgrade(&self) -> Option<Attached> {
        Some(Attached {
            pipeline: self.pipeline.upgrade()?,
            entry: self.entry.upgrade()?,
            sink: self.sink.upgrade()?,
        })
    }
}

impl ScalerElements {
    /// Makes the elements do `convert_plan`, which are not empty.
    pub(super) fn reconfigure(
        &mut self,
        steps: Vec<ConvertStep>,
        attach_points: &AttachPoints,
    ) -> Result<(), String> {
        if self.steps.is_empty() || !is_same_layout(&self.steps, &steps) {
            self.build(&steps, attach_points)?;
        }
        for (filter, step) in self.filters.iter().zip(&steps) {
            filter.set_property("caps", output_caps(step));
        }
        if let (Some(cutter), Some(cut)) = (&self.cropper, steps[0].crop) {
            set_crop(cutter, steps[0].unit, cut)?;
        }
        self.steps = steps;
        Ok(())
    }

    /// Lets the end of media pass when no picture has ever come.
    pub(super) fn forward_eos(&self, attach_points: &AttachPoints) {
        let Some(ground) = attach_points.upgrade().filter(|_| self.elements.is_empty()) else {
            return;
        };
        if ground.entry.link(&ground.sink).is_err() {
            log::warn!("the end of media does not reach the sink");
        }
    }

    fn build(&mut self, steps: &[ConvertStep], attach_points: &AttachPoints) -> Result<(), String> {
        let ground = attach_points.upgrade().ok_or("the pipeline is gone")?;
        let said = |error: SourceError| error.to_string();
        let failed = |error: gst::glib::BoolError| error.to_string();
        self.remove(&ground);
        for (index, step) in steps.iter().enumerate() {
            let filter =
                make("capsfilter", &attach_points.element_name("size", index)).map_err(said)?;
            match step.unit {
                VideoUnit::Vic | VideoUnit::Gpu => {
                    let converter = converter(step, index, attach_points)?;
                    if step.crop.is_some() {
                        self.cropper = Some(converter.clone());
                    }
                    self.elements.extend([converter, filter.clone()]);
                }
                _ => {
                    if step.crop.is_some() {
                        let crop = make("videocrop", &attach_points.element_name("crop", index))
                            .map_err(said)?;
                        self.cropper = Some(crop.clone());
                        self.elements.push(crop);
                    }
                    // Scaling comes before the color conversion because the network's input is usually smaller than the
                    // source, so that fewer pixels are converted.
                    let scale = make("videoscale", &attach_points.element_name("scale", index))
                        .map_err(said)?;
                    // The letterbox's aspect is ours: the scaler must fill its output and never draw borders.
                    scale.set_property("add-borders", false);
                    let convert = make("videoconvert", &attach_points.element_name("convert", 0))
                        .map_err(said)?;
                    self.elements.extend([scale, filter.clone(), convert]);
                }
            }
            self.filters.push(filter);
        }
        ground.pipeline.add_many(&self.elements).map_err(failed)?;
        let whole = std::iter::once(&ground.entry)
            .chain(&self.elements)
            .chain(std::iter::once(&ground.sink));
        gst::Element::link_many(whole).map_err(failed)?;
        for element in self.elements.iter().rev() {
            element.sync_state_with_parent().map_err(failed)?;
        }
        Ok(())
    }

    fn remove(&mut self, attached: &Attached) {
        self.filters.clear();
        self.cropper = None;
        let elements = std::mem::take(&mut self.elements);
        if let (Some(first), Some(last)) = (elements.first(), elements.last()) {
            attached.entry.unlink(first);
            last.unlink(&attached.sink);
        }
        for element in &elements {
            if element.set_state(gst::State::Null).is_err()
                || attached.pipeline.remove(element).is_err()
            {
                log::warn!("{} does not leave its pipeline", element.name());
            }
        }
    }
}

/// A converter of the Jetson for one step, told which unit to use.
fn converter(
    step: &ConvertStep,
    index: usize,
    attach_points: &AttachPoints,
) -> Result<gst::Element, String> {
    let unit = attach_points.hardware.scaler(step.unit)?;
    let converter = make(unit.element, &attach_points.element_name("scale", index))
        .map_err(|error| error.to_string())?;
    if let Some((property, word)) = unit.setting
        && !set_if_supported(property, &converter, word)
    {
        return Err(format!("{} does not take {property}={word}", unit.element));
    }
    // As on the processor. The element's own default is the nearest pixel, which networks are not trained with.
    if !set_if_supported("interpolation-method", &converter, "Bilinear") {
        log::warn!(
            "{} does not scale bilinearly on this release: detections may suffer",
            unit.element
        );
    }
    // Rows of pixels one after another, which is what a network's input is written from.
    set_if_supported("bl-output", &converter, "false");
    if step.to.memory == Memory::Nvmm && step.to.format == OUTPUT_FORMAT {
        // These wait for the detector where they are.
        set_if_supported("output-buffers", &converter, SHARED_BUFFERS);
    }
    if step.unit == VideoUnit::Gpu {
        // The GPU writes to its own memory alone.
        set_if_supported("nvbuf-memory-type", &converter, "nvbuf-mem-cuda-device");
    }
    Ok(converter)
}

/// Tells the element which part of the picture it takes: a Jetson's by its edges, the processor's by what is left out.
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
                "{} does not take {property}={pixels}, which roi needs; leave roi out, or set scaling to cpu",
                cropper.name()
            ));
        }
    }
    Ok(())
}

/// Whether the same elements do both, with other sizes.
fn is_same_layout(before: &[ConvertStep], now: &[ConvertStep]) -> bool {
    let kind = |step: &ConvertStep| {
        let is_cut = step.crop.is_some();
        (step.unit, is_cut, step.to.memory, step.to.format.clone())
    };
    before.len() == now.len() && before.iter().zip(now).all(|(a, b)| kind(a) == kind(b))
}

/// What the filter behind a step lets through. The processor's filter stands before the color conversion, so that it says
/// nothing of the format.
fn output_caps(step: &ConvertStep) -> gst::Caps {
    let VideoFormat {
        size,
        format,
        memory,
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

/// The form of pictures with these caps; `None` when they are no raw video.
pub(super) fn format_of(caps: &gst::CapsRef) -> Option<VideoFormat> {
    let video = caps
        .structure(0)
        .filter(|video| video.name() == "video/x-raw")?;
    let side = |name: &str| u32::try_from(video.get::<i32>(name).ok()?).ok();
    let is_nvmm = caps
        .features(0)
        .is_some_and(|features| features.contains(NVMM));
    Some(VideoFormat {
        size: jetwatch_types::Size::new(side("width")?, side("height")?),
        format: video.get::<String>("format").ok()?,
        memory: if is_nvmm {
            Memory::Nvmm
        } else {
            Memory::System
        },
    })
}
