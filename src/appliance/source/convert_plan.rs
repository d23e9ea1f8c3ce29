//! From the picture that a decoder gives to the one that the network takes: which unit does it, in how many steps, through
//! which sizes. Pure: elements are made elsewhere.
//!
//! The limits of the VIC are kept here, so that no element of NVIDIA's meets them at run time: a step changes neither side by
//! more than a factor of 16, both pictures have at least 16 pixels a side, and three-channel RGB is neither read nor written.

use std::fmt;

use jetwatch_config::Scaling;
use jetwatch_platform::VideoUnit;
use jetwatch_types::{Crop, Size};

/// Greatest factor by which the VIC changes a side in one step.
const VIC_MAX_FACTOR: u32 = 16;

/// Least side of a picture that the VIC reads or writes, in pixels.
const VIC_MIN_SIDE: u32 = 16;

/// Formats in system memory that `nvvidconv` takes to the VIC, and to the GPU, by NVIDIA's Accelerated GStreamer guide.
const VIC_FORMATS: &[&str] = &[
    "I420",
    "UYVY",
    "YUY2",
    "YVYU",
    "NV12",
    "NV16",
    "NV24",
    "P010_10LE",
    "GRAY8",
    "BGRx",
    "RGBA",
    "Y42B",
];
const GPU_FORMATS: &[&str] = &["I420", "NV12", "P010_10LE", "GRAY8", "BGRx", "RGBA"];

/// What the network's side takes.
const OUTPUT_FORMAT: &str = "BGRx";

/// Between two steps of the VIC: half the memory of `BGRx`.
const INTERMEDIATE_FORMAT: &str = "NV12";

/// Where pixels lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// In memory of the processor.
    System,
    /// In a surface of a Jetson, `memory:NVMM`.
    Nvmm,
}

/// A picture as caps describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VideoFormat {
    pub(super) size: Size,
    /// GStreamer's name of the pixel format.
    pub(super) format: String,
    pub(super) memory: Memory,
}

impl fmt::Display for VideoFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            size,
            format,
            memory,
        } = self;
        write!(f, "{size} {format}")?;
        match memory {
            Memory::System => Ok(()),
            Memory::Nvmm => f.write_str(" in NVMM"),
        }
    }
}

/// One step: who does it, of which part, and what comes out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConvertStep {
    pub(super) unit: VideoUnit,
    /// Cut out of the picture before; `None`: all of it is taken.
    pub(super) crop: Option<CropOf>,
    pub(super) to: VideoFormat,
}

/// A part of a picture of this size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CropOf {
    pub(super) crop: Crop,
    pub(super) of: Size,
}

/// The units that this machine can scale with, or why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScalerAvailability {
    pub(super) vic: Result<(), String>,
    pub(super) gpu: Result<(), String>,
}

/// The steps, and why they are not done by a better unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConvertPlan {
    pub(super) steps: Vec<ConvertStep>,
    pub(super) note: Option<String>,
}

/// The way from `from` to `BGRx` of the size `inner`, or why there is none that the configuration accepts.
///
/// `output` says where the last picture lies if a Jetson's unit makes it; the processor always writes to its own memory.
pub(super) fn plan_conversion(
    from: &VideoFormat,
    inner: Size,
    scaling: Scaling,
    scalers: &ScalerAvailability,
    output: Memory,
) -> Result<ConvertPlan, String> {
    let by_vic = || -> Result<Vec<ConvertStep>, String> {
        scalers.vic.clone()?;
        vic(from, inner, output)
    };
    let by_gpu = || -> Result<Vec<ConvertStep>, String> {
        scalers.gpu.clone()?;
        accepts(from, GPU_FORMATS, VideoUnit::Gpu)?;
        Ok(through_nvmm(
            from,
            vec![final_step(VideoUnit::Gpu, inner, output)],
        ))
    };
    let without_note = |steps| ConvertPlan { steps, note: None };
    match scaling {
        Scaling::Vic => by_vic().map(without_note).map_err(|reason| {
            format!("scaling is vic, but the VIC cannot do it: {reason}; change it, or set scaling to auto")
        }),
        Scaling::Gpu => by_gpu().map(without_note).map_err(|reason| {
            format!("scaling is gpu, but the GPU cannot do it: {reason}; change it, or set scaling to auto")
        }),
        Scaling::Cpu => cpu(from, inner, scalers).map(without_note),
        Scaling::Auto => match by_vic() {
            Ok(steps) => Ok(without_note(steps)),
            Err(reason) => Ok(ConvertPlan {
                steps: cpu(from, inner, scalers)?,
                note: Some(format!("the CPU scales, not the VIC: {reason}")),
            }),
        },
    }
}

/// The same for a part of the picture, which the first step that can cuts out: no step more, and no copy.
pub(super) fn plan_crop_conversion(
    from: &VideoFormat,
    crop: Option<Crop>,
    inner: Size,
    scaling: Scaling,
    scalers: &ScalerAvailability,
    output: Memory,
) -> Result<ConvertPlan, String> {
    let Some(crop) = crop else {
        return plan_conversion(from, inner, scaling, scalers, output);
    };
    let part = VideoFormat {
        size: crop.size,
        ..from.clone()
    };
    let named = |reason: String| format!("roi is {crop} of {}: {reason}", from.size);
    let mut route = plan_conversion(&part, inner, scaling, scalers, output).map_err(named)?;
    let cut = Some(CropOf {
        crop,
        of: from.size,
    });
    match route.steps.as_mut_slice() {
        // A part that the VIC may not even copy out of NVMM: it copies the whole, and the processor cuts.
        [copy, scale] if scale.unit == VideoUnit::Cpu && is_too_small(crop.size) => {
            copy.to.size = from.size;
            scale.crop = cut;
        }
        [first, ..] => first.crop = cut,
        [] => {}
    }
    Ok(ConvertPlan {
        note: route.note.map(named),
        ..route
    })
}

/// The way from `from` to `BGRx` of the same size in the processor's memory, or why there is none. Nothing is scaled, so that the
/// VIC's limits do not matter; what is in the processor's memory already stays with the processor.
pub(super) fn plan_full_size(
    from: &VideoFormat,
    scalers: &ScalerAvailability,
) -> Result<Vec<ConvertStep>, String> {
    let unit = match (from.memory, &scalers.vic, &scalers.gpu) {
        (Memory::System, ..) => VideoUnit::Cpu,
        (Memory::Nvmm, Ok(()), _) => VideoUnit::Vic,
        (Memory::Nvmm, _, Ok(())) => VideoUnit::Gpu,
        (Memory::Nvmm, Err(reason), _) => {
            return Err(format!(
                "the pictures lie in NVMM and nothing can copy them from there: {reason}"
            ));
        }
    };
    Ok(vec![final_step(unit, from.size, Memory::System)])
}

/// On the processor. A picture in NVMM is copied to its memory first, which only `nvvidconv` can do.
fn cpu(
    from: &VideoFormat,
    inner: Size,
    scalers: &ScalerAvailability,
) -> Result<Vec<ConvertStep>, String> {
    let mut steps = Vec::new();
    if from.memory == Memory::Nvmm {
        let unit = match (&scalers.vic, &scalers.gpu) {
            (Ok(()), _) => VideoUnit::Vic,
            (_, Ok(())) => VideoUnit::Gpu,
            (Err(reason), _) => {
                return Err(format!(
                    "the pictures lie in NVMM and nothing can copy them from there: {reason}"
                ));
            }
        };
        let to = VideoFormat {
            memory: Memory::System,
            ..from.clone()
        };
        steps.push(ConvertStep {
            unit,
            crop: None,
            to,
        });
    }
    steps.push(final_step(VideoUnit::Cpu, inner, Memory::System));
    Ok(steps)
}

fn vic(from: &VideoFormat, inner: Size, output: Memory) -> Result<Vec<ConvertStep>, String> {
    accepts(from, VIC_FORMATS, VideoUnit::Vic)?;
    for (what, size) in [("source", from.size), ("network's picture", inner)] {
        if is_too_small(size) {
            return Err(format!(
                "the {what} has {size} pixels, and the VIC needs at least {VIC_MIN_SIDE}×{VIC_MIN_SIDE}"
            ));
        }
    }
    let last = final_step(VideoUnit::Vic, inner, output);
    if fits(from.size, inner) {
        return Ok(through_nvmm(from, vec![last]));
    }
    let between = Size::new(
        intermediate_size(from.size.width, inner.width),
        intermediate_size(from.size.height, inner.height),
    );
    if !fits(from.size, between) || !fits(between, inner) {
        return Err(format!(
            "{} to {inner} is more than two steps of a factor of {VIC_MAX_FACTOR}",
            from.size
        ));
    }
    let to = VideoFormat {
        size: between,
        format: INTERMEDIATE_FORMAT.to_owned(),
        memory: Memory::Nvmm,
    };
    let first = ConvertStep {
        unit: VideoUnit::Vic,
        crop: None,
        to,
    };
    Ok(vec![first, last])
}

/// A converter of the Jetson has its own memory at one side at least: from the processor's memory to the processor's memory,
/// the one step writes there, and another gets the picture out.
fn through_nvmm(from: &VideoFormat, steps: Vec<ConvertStep>) -> Vec<ConvertStep> {
    match steps.as_slice() {
        [only] if from.memory == Memory::System && only.to.memory == Memory::System => {
            let mut first = only.clone();
            first.to.memory = Memory::Nvmm;
            vec![first, only.clone()]
        }
        _ => steps,
    }
}

fn final_step(unit: VideoUnit, size: Size, memory: Memory) -> ConvertStep {
    let to = VideoFormat {
        size,
        format: OUTPUT_FORMAT.to_owned(),
        memory,
    };
    ConvertStep {
        unit,
        crop: None,
        to,
    }
}

/// Whether `unit` can take pictures of this form. What lies in NVMM was made by another unit of the Jetson and always fits.
fn accepts(from: &VideoFormat, formats: &[&str], unit: VideoUnit) -> Result<(), String> {
    if from.memory == Memory::Nvmm || formats.contains(&from.format.as_str()) {
        return Ok(());
    }
    Err(format!(
        "the source gives {}, and the {} reads {} alone",
        from.format,
        unit.name(),
        formats.join(", ")
    ))
}

/// Whether the VIC neither reads nor writes pictures of this size.
fn is_too_small(size: Size) -> bool {
    size.width.min(size.height) < VIC_MIN_SIDE
}

/// Whether one step of the VIC leads from one size to the other.
fn fits(from: Size, to: Size) -> bool {
    let fits = |from: u32, to: u32| {
        let (less, more) = (from.min(to), from.max(to));
        u64::from(more) <= u64::from(less) * u64::from(VIC_MAX_FACTOR)
    };
    fits(from.width, to.width) && fits(from.height, to.height)
}

/// A side between two steps: the end's where one step leads there, else the geometric mean, so that both steps change it
/// alike. Even, as colors of `NV12` have half the pixels.
fn intermediate_size(from: u32, to: u32) -> u32 {
    let side = match fits(Size::new(from, 1), Size::new(to, 1)) {
        true => to,
        false => (f64::from(from) * f64::from(to)).sqrt().round() as u32,
    };
    side.max(VIC_MIN_SIDE).next_multiple_of(2)
}

#[cfg(test)]
mod tests;
