//! The elements that scale, between `entry` and `sink`: made when the size and form of the pictures are known, and again when
//! a change of them needs other elements.
//!
//! All of it happens on the thread that pushes the pictures, inside the event that announces their form: no picture is on its
//! way through the elements that are taken out.

use gstreamer as gst;
use gstreamer::glib::WeakRef;
use gstreamer::prelude::*;

use crate::SourceError;
use crate::elements::{make, set_if_known, set_number};
use crate::steps::{Cut, Form, Memory, Step};
use jetwatch_platform::VideoUnit;

use super::equipment::Equipment;

/// The caps feature of a Jetson's surfaces.
pub(super) const NVMM: &str = "memory:NVMM";

/// The format that the detector takes.
const TAKEN: &str = "BGRx";

/// Buffers of a pool whose pictures the detector reads in place: one is written, one waits in its lane, the others are with the
/// workers. A pool that has run dry makes the source wait.
const SHARED_BUFFERS: &str = "8";

/// The elements of all steps.
#[derive(Default)]
pub(super) struct Chain {
    steps: Vec<Step>,
    /// In the order of the data.
    elements: Vec<gst::Element>,
    /// The filter that sets each step's size.
    filters: Vec<gst::Element>,
    /// What cuts out a part, in the first step.
    cutter: Option<gst::Element>,
}

/// Where the chain stands. The pipeline's elements hold what holds this, so that it must not hold them.
pub(super) struct Place {
    pub(super) pipeline: WeakRef<gst::Pipeline>,
    pub(super) entry: WeakRef<gst::Element>,
    pub(super) sink: WeakRef<gst::Element>,
    pub(super) equipment: Equipment,
    /// Before the names of its elements, which are unique in a pipeline.
    pub(super) prefix: &'static str,
}

/// The same while it is worked on.
struct Ground {
    pipeline: gst::Pipeline,
    entry: gst::Element,
    sink: gst::Element,
}

impl Place {
    fn named(&self, what: &str, index: usize) -> String {
        match index {
            0 => format!("{}{what}", self.prefix),
            index => format!("{}{what}-{}", self.prefix, index + 1),
        }
    }

    /// `None` when the pipeline is on its way down.
    fn ground(&self) -> Option<Ground> {
        Some(Ground {
            pipeline: self.pipeline.upgrade()?,
            entry: self.entry.upgrade()?,
            sink: self.sink.upgrade()?,
        })
    }
}

impl Chain {
    /// Makes the elements do `steps`, which are not empty.
    pub(super) fn fit(&mut self, steps: Vec<Step>, place: &Place) -> Result<(), String> {
        if self.steps.is_empty() || !is_alike(&self.steps, &steps) {
            self.build(&steps, place)?;
        }
        for (filter, step) in self.filters.iter().zip(&steps) {
            filter.set_property("caps", caps_behind(step));
        }
        if let (Some(cutter), Some(cut)) = (&self.cutter, steps[0].cut) {
            cut_out(cutter, steps[0].unit, cut)?;
        }
        self.steps = steps;
        Ok(())
    }

    /// Lets the end of media pass when no picture has ever come.
    pub(super) fn pass_end(&self, place: &Place) {
        let Some(ground) = place.ground().filter(|_| self.elements.is_empty()) else {
            return;
        };
        if ground.entry.link(&ground.sink).is_err() {
            log::warn!("the end of media does not reach the sink");
        }
    }

    fn build(&mut self, steps: &[Step], place: &Place) -> Result<(), String> {
        let ground = place.ground().ok_or("the pipeline is gone")?;
        let said = |error: SourceError| error.to_string();
        let failed = |error: gst::glib::BoolError| error.to_string();
        self.take_out(&ground);
        for (index, step) in steps.iter().enumerate() {
            let filter = make("capsfilter", &place.named("size", index)).map_err(said)?;
            match step.unit {
                VideoUnit::Vic | VideoUnit::Gpu => {
                    let converter = converter(step, index, place)?;
                    if step.cut.is_some() {
                        self.cutter = Some(converter.clone());
                    }
                    self.elements.extend([converter, filter.clone()]);
                }
                _ => {
                    if step.cut.is_some() {
                        let crop = make("videocrop", &place.named("crop", index)).map_err(said)?;
                        self.cutter = Some(crop.clone());
                        self.elements.push(crop);
                    }
                    // Scaling comes before the color conversion because the network's input is usually smaller than the
                    // source, so that fewer pixels are converted.
                    let scale = make("videoscale", &place.named("scale", index)).map_err(said)?;
                    // The letterbox's aspect is ours: the scaler must fill its output and never draw borders.
                    scale.set_property("add-borders", false);
                    let convert = make("videoconvert", &place.named("convert", 0)).map_err(said)?;
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

    fn take_out(&mut self, ground: &Ground) {
        self.filters.clear();
        self.cutter = None;
        let elements = std::mem::take(&mut self.elements);
        if let (Some(first), Some(last)) = (elements.first(), elements.last()) {
            ground.entry.unlink(first);
            last.unlink(&ground.sink);
        }
        for element in &elements {
            if element.set_state(gst::State::Null).is_err()
                || ground.pipeline.remove(element).is_err()
            {
                log::warn!("{} does not leave its pipeline", element.name());
            }
        }
    }
}

/// A converter of the Jetson for one step, told which unit to use.
fn converter(step: &Step, index: usize, place: &Place) -> Result<gst::Element, String> {
    let unit = place.equipment.scaler(step.unit)?;
    let converter =
        make(unit.element, &place.named("scale", index)).map_err(|error| error.to_string())?;
    if let Some((property, word)) = unit.setting
        && !set_if_known(property, &converter, word)
    {
        return Err(format!("{} does not take {property}={word}", unit.element));
    }
    // As on the processor. The element's own default is the nearest pixel, which networks are not trained with.
    if !set_if_known("interpolation-method", &converter, "Bilinear") {
        log::warn!(
            "{} does not scale bilinearly on this release: detections may suffer",
            unit.element
        );
    }
    // Rows of pixels one after another, which is what a network's input is written from.
    set_if_known("bl-output", &converter, "false");
    if step.to.memory == Memory::Nvmm && step.to.format == TAKEN {
        // These wait for the detector where they are.
        set_if_known("output-buffers", &converter, SHARED_BUFFERS);
    }
    if step.unit == VideoUnit::Gpu {
        // The GPU writes to its own memory alone.
        set_if_known("nvbuf-memory-type", &converter, "nvbuf-mem-cuda-device");
    }
    Ok(converter)
}

/// Tells the element which part of the picture it takes: a Jetson's by its edges, the processor's by what is left out.
fn cut_out(cutter: &gst::Element, unit: VideoUnit, Cut { crop, of }: Cut) -> Result<(), String> {
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
        if !set_number(property, cutter, pixels) {
            return Err(format!(
                "{} does not take {property}={pixels}, which roi needs; leave roi out, or set scaling to cpu",
                cutter.name()
            ));
        }
    }
    Ok(())
}

/// Whether the same elements do both, with other sizes.
fn is_alike(before: &[Step], now: &[Step]) -> bool {
    let kind = |step: &Step| {
        let is_cut = step.cut.is_some();
        (step.unit, is_cut, step.to.memory, step.to.format.clone())
    };
    before.len() == now.len() && before.iter().zip(now).all(|(a, b)| kind(a) == kind(b))
}

/// What the filter behind a step lets through. The processor's filter stands before the color conversion, so that it says
/// nothing of the format.
fn caps_behind(step: &Step) -> gst::Caps {
    let Form {
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
pub(super) fn form_of(caps: &gst::CapsRef) -> Option<Form> {
    let video = caps
        .structure(0)
        .filter(|video| video.name() == "video/x-raw")?;
    let side = |name: &str| u32::try_from(video.get::<i32>(name).ok()?).ok();
    let is_nvmm = caps
        .features(0)
        .is_some_and(|features| features.contains(NVMM));
    Some(Form {
        size: jetwatch_types::Size::new(side("width")?, side("height")?),
        format: video.get::<String>("format").ok()?,
        memory: if is_nvmm {
            Memory::Nvmm
        } else {
            Memory::System
        },
    })
}
