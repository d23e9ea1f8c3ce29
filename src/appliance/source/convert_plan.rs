// SPDX-License-Identifier: Apache-2.0
//! Planning of the conversion from the decoder's image to the network's: units, number of steps, and intermediate sizes.
//! Pure: the caller creates the elements.
//!
//! The limits of the VIC are applied here, so that NVIDIA's elements never run into them: a step changes neither side by more
//! than a factor of 16, both images have at least 16 pixels per side, and three-channel RGB is neither read nor written.

use std::fmt;

use jetwatch_config::Scaling;
use jetwatch_platform::VideoUnit;
use jetwatch_types::{Crop, Size};

/// Maximum factor by which the VIC changes a side in one step.
const VIC_MAX_FACTOR: u32 = 16;

/// Minimum side of an image that the VIC reads or writes, in pixels.
const VIC_MIN_SIDE: u32 = 16;

/// Formats in system memory that `nvvidconv` converts on the VIC, and on the GPU, by NVIDIA's Accelerated GStreamer guide.
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

/// Input format of the detector.
const OUTPUT_FORMAT: &str = "BGRx";

/// Format between two steps of the VIC: half the memory of `BGRx`.
const INTERMEDIATE_FORMAT: &str = "NV12";

/// Memory of the pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// CPU memory.
    System,
    /// A Jetson surface, `memory:NVMM`.
    Nvmm,
}

/// Size, pixel format and memory of an image, from its caps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VideoFormat {
    pub(super) size: Size,
    /// GStreamer's name of the pixel format.
    pub(super) format: String,
    pub(super) memory: Memory,
    /// Colorimetry in the caps of an image in CPU memory that `nvvidconv` converts with wrong colors: it reads these images as BT.601
    /// with limited range, whatever their caps say. A surface in NVMM has its colors with it.
    pub(super) foreign_colors: Option<String>,
}

impl fmt::Display for VideoFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            size,
            format,
            memory,
            foreign_colors: _,
        } = self;
        write!(f, "{size} {format}")?;
        match memory {
            Memory::System => Ok(()),
            Memory::Nvmm => f.write_str(" in NVMM"),
        }
    }
}

/// One step: its unit, its crop, and its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConvertStep {
    pub(super) unit: VideoUnit,
    /// Crop before scaling; `None`: the whole image.
    pub(super) crop: Option<CropOf>,
    pub(super) to: VideoFormat,
}

/// A crop of an image of size `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CropOf {
    pub(super) crop: Crop,
    pub(super) of: Size,
}

/// The units of this machine that can scale, or the reason why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScalerAvailability {
    pub(super) vic: Result<(), String>,
    pub(super) gpu: Result<(), String>,
}

/// The steps, and why a better unit is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConvertPlan {
    pub(super) steps: Vec<ConvertStep>,
    pub(super) note: Option<String>,
}

/// Plans the conversion from `from` to `BGRx` of size `inner`. `output` is the memory of the last image if a unit of the Jetson
/// writes it; the CPU always writes to its own memory.
///
/// # Errors
/// No conversion exists that the configuration accepts; the reason.
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

/// Like [`plan_conversion`], for a crop of the image. The first step that can crop does so, without a further step or copy.
///
/// # Errors
/// Those of [`plan_conversion`].
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
    let with_crop = |reason: String| format!("roi is {crop} of {}: {reason}", from.size);
    let mut plan = plan_conversion(&part, inner, scaling, scalers, output).map_err(with_crop)?;
    let crop_of = Some(CropOf {
        crop,
        of: from.size,
    });
    match plan.steps.as_mut_slice() {
        // The VIC cannot even copy a crop of this size out of NVMM: it copies the whole image, and the CPU crops.
        [copy, scale] if scale.unit == VideoUnit::Cpu && is_too_small(crop.size) => {
            copy.to.size = from.size;
            scale.crop = crop_of;
        }
        [first, ..] => first.crop = crop_of,
        [] => {}
    }
    Ok(ConvertPlan {
        note: plan.note.map(with_crop),
        ..plan
    })
}

/// Plans the conversion from `from` to `BGRx` of the same size in CPU memory. Nothing is scaled, so the VIC's size limits do not
/// apply; what is in CPU memory stays with the CPU.
///
/// # Errors
/// The image is in NVMM and no unit can copy it to CPU memory.
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
                "the images are in NVMM and nothing can copy them out: {reason}"
            ));
        }
    };
    Ok(vec![final_step(unit, from.size, Memory::System)])
}

/// Steps on the CPU. An image in NVMM is first copied to CPU memory, which only `nvvidconv` can do.
fn cpu(
    from: &VideoFormat,
    inner: Size,
    scalers: &ScalerAvailability,
) -> Result<Vec<ConvertStep>, String> {
    let mut steps = match from.memory {
        // The unit converts the colors, too: what it writes does not name those of other formats.
        Memory::Nvmm => plan_full_size(from, scalers)?,
        Memory::System => Vec::new(),
    };
    steps.push(final_step(VideoUnit::Cpu, inner, Memory::System));
    Ok(steps)
}

fn vic(from: &VideoFormat, inner: Size, output: Memory) -> Result<Vec<ConvertStep>, String> {
    accepts(from, VIC_FORMATS, VideoUnit::Vic)?;
    for (what, size) in [("source", from.size), ("network's image", inner)] {
        if is_too_small(size) {
            return Err(format!(
                "the {what} has {size} pixels, the VIC needs at least {VIC_MIN_SIDE}×{VIC_MIN_SIDE}"
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
            "{} to {inner} needs more than two steps of a factor of {VIC_MAX_FACTOR}",
            from.size
        ));
    }
    let to = VideoFormat {
        size: between,
        format: INTERMEDIATE_FORMAT.to_owned(),
        memory: Memory::Nvmm,
        foreign_colors: None,
    };
    let first = ConvertStep {
        unit: VideoUnit::Vic,
        crop: None,
        to,
    };
    Ok(vec![first, last])
}

/// A Jetson converter needs NVMM on at least one side: between CPU memory and CPU memory, the first step writes to NVMM, and a
/// second one copies the image out.
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
        foreign_colors: None,
    };
    ConvertStep {
        unit,
        crop: None,
        to,
    }
}

/// Checks that `unit` reads images of this format. An image in NVMM comes from another unit of the Jetson and always fits.
fn accepts(from: &VideoFormat, formats: &[&str], unit: VideoUnit) -> Result<(), String> {
    if from.memory == Memory::Nvmm {
        return Ok(());
    }
    if let Some(colors) = &from.foreign_colors {
        return Err(format!(
            "the source delivers images in CPU memory with colorimetry {colors}, which nvvidconv would take for bt601"
        ));
    }
    if formats.contains(&from.format.as_str()) {
        return Ok(());
    }
    Err(format!(
        "the source delivers {}, the {} reads only {}",
        from.format,
        unit.name(),
        formats.join(", ")
    ))
}

/// Whether the VIC can neither read nor write images of this size.
fn is_too_small(size: Size) -> bool {
    size.width.min(size.height) < VIC_MIN_SIDE
}

/// Whether one step of the VIC can scale from one size to the other.
fn fits(from: Size, to: Size) -> bool {
    let fits = |from: u32, to: u32| {
        let (less, more) = (from.min(to), from.max(to));
        u64::from(more) <= u64::from(less) * u64::from(VIC_MAX_FACTOR)
    };
    fits(from.width, to.width) && fits(from.height, to.height)
}

/// One side of the intermediate image: the final one if one step is enough, else the geometric mean, so that both steps scale
/// equally. Even, since chroma of `NV12` has half the resolution.
fn intermediate_size(from: u32, to: u32) -> u32 {
    let side = match fits(Size::new(from, 1), Size::new(to, 1)) {
        true => to,
        false => (f64::from(from) * f64::from(to)).sqrt().round() as u32,
    };
    side.max(VIC_MIN_SIDE).next_multiple_of(2)
}

#[cfg(test)]
mod tests;
