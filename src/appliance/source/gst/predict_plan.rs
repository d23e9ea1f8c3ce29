// SPDX-License-Identifier: Apache-2.0
//! The expected processing plan of a source before it is opened: from its address, its keys, and the available units.
//!
//! What only the media determines, such as sizes and codecs of files and servers, stays open; the running pipeline fills it in.

use crate::SourceError;
use crate::convert_plan::{Memory, VideoFormat, plan_crop_conversion};
use crate::plan::{PlanStep, ProcessingPlan, StepKind};
use jetwatch_config::{DecoderChoice, Scaling, SourceConfig, SourceUri, V4l2Format};
use jetwatch_platform::{Machine, VideoUnit};
use jetwatch_types::{Letterbox, PixelAspect, Placement, Size};

use super::camera;
use super::caps_handler::config_pixels;
use super::hardware::{ElementCheck, VideoHardware};
use super::stream::stream_element;

/// The plan for `config` on `machine` with a network input of this size and placement.
///
/// # Errors
/// GStreamer does not start; or the configured decoding or scaling is impossible on this machine for any media.
pub fn predict_plan(
    config: &SourceConfig,
    machine: &Machine,
    input: Size,
    placement: Placement,
) -> Result<ProcessingPlan, SourceError> {
    // It is drawn without GStreamer.
    if matches!(config.uri, SourceUri::Synthetic(_)) {
        return predict_plan_with(config, machine, &|_, _| Ok(()), input, placement);
    }
    super::init("*:1")?;
    let hardware = VideoHardware::detect(machine);
    predict_with(config, &hardware, input, placement)
}

/// The same for a machine whose elements `check` knows. GStreamer is not needed.
///
/// # Errors
/// As for [`predict_plan`].
pub fn predict_plan_with(
    config: &SourceConfig,
    machine: &Machine,
    check: &ElementCheck<'_>,
    input: Size,
    placement: Placement,
) -> Result<ProcessingPlan, SourceError> {
    let hardware = VideoHardware::detect_with(machine, check);
    predict_with(config, &hardware, input, placement)
}

fn predict_with(
    config: &SourceConfig,
    hardware: &VideoHardware,
    input: Size,
    placement: Placement,
) -> Result<ProcessingPlan, SourceError> {
    let mut plan = ProcessingPlan::default();
    let mut add = |kind, unit, element: &str, detail: &str| {
        plan.steps.push(PlanStep {
            kind,
            unit,
            element: element.to_owned(),
            detail: detail.to_owned(),
        });
    };
    if let SourceUri::Synthetic(_) = config.uri {
        add(
            StepKind::Draw,
            VideoUnit::Cpu,
            "jetwatch",
            "at the network's size",
        );
        return Ok(plan);
    }
    match &config.uri {
        SourceUri::Csi { sensor, .. } => {
            camera::check_csi(hardware, *sensor)?;
            add(StepKind::Capture, VideoUnit::Isp, "nvarguscamerasrc", "");
        }
        SourceUri::V4l2 { .. } => add(StepKind::Capture, VideoUnit::Cpu, "v4l2src", ""),
        SourceUri::Rtsp { .. } => add(StepKind::Receive, VideoUnit::Cpu, "rtspsrc", ""),
        SourceUri::Http { .. } => add(StepKind::Receive, VideoUnit::Cpu, "souphttpsrc", ""),
        SourceUri::Stream(location) => {
            add(
                StepKind::Receive,
                VideoUnit::Cpu,
                stream_element(location),
                "",
            );
        }
        SourceUri::File(_) => add(StepKind::Read, VideoUnit::Cpu, "filesrc", ""),
        SourceUri::Launch(_) => add(StepKind::Read, VideoUnit::Cpu, "launch", ""),
        SourceUri::Images(_) => add(StepKind::Decode, VideoUnit::Cpu, "jetwatch", "JPEG and PNG"),
        SourceUri::Synthetic(_) => {}
    }
    decoding(config, hardware, &mut plan)?;
    scaling(config, hardware, input, placement, &mut plan)?;
    Ok(plan)
}

/// Decoding steps, by codec.
fn decoding(
    config: &SourceConfig,
    hardware: &VideoHardware,
    plan: &mut ProcessingPlan,
) -> Result<(), SourceError> {
    let (may_be_video, may_be_jpeg) = match &config.uri {
        SourceUri::Csi { .. } | SourceUri::Images(_) | SourceUri::Synthetic(_) => return Ok(()),
        SourceUri::V4l2 { format, .. } => match format {
            V4l2Format::Raw => return Ok(()),
            V4l2Format::Any | V4l2Format::Mjpeg => (false, true),
            V4l2Format::H264 | V4l2Format::H265 => (true, false),
        },
        _ => (true, true),
    };
    let units = [
        (
            may_be_video,
            &hardware.decoder,
            VideoUnit::Nvdec,
            "H.264 and H.265",
        ),
        (
            may_be_jpeg,
            &hardware.jpeg_decoder,
            VideoUnit::Nvjpg,
            "Motion JPEG",
        ),
    ];
    for (is_possible, decoder, unit, codecs) in units {
        if !is_possible {
            continue;
        }
        let step = |unit, element: &str, detail: String| PlanStep {
            kind: StepKind::Decode,
            unit,
            element: element.to_owned(),
            detail,
        };
        match (decoder, config.decoder) {
            (Ok(decoder), DecoderChoice::Auto | DecoderChoice::Hardware) => {
                let step = step(unit, decoder.element, format!("if it is {codecs}"));
                plan.steps.push(step);
            }
            (Err(reason), DecoderChoice::Hardware) => {
                return Err(SourceError::Refused(format!(
                    "decoder is hardware, but only the CPU decodes {codecs}: {reason}; set decoder to auto"
                )));
            }
            (Err(reason), DecoderChoice::Auto) => {
                plan.steps.push(step(
                    VideoUnit::Cpu,
                    "decodebin",
                    format!("if it is {codecs}"),
                ));
                plan.notes.push(format!(
                    "the CPU decodes {codecs}, not {}: {reason}",
                    unit.name()
                ));
            }
            (_, DecoderChoice::Software) => {
                plan.steps.push(step(
                    VideoUnit::Cpu,
                    "decodebin",
                    format!("if it is {codecs}"),
                ));
            }
        }
    }
    Ok(())
}

/// Scaling steps; exact when the size is known.
fn scaling(
    config: &SourceConfig,
    hardware: &VideoHardware,
    input: Size,
    placement: Placement,
    plan: &mut ProcessingPlan,
) -> Result<(), SourceError> {
    let scalers = hardware.scalers();
    let from = known_format(config, hardware);
    // For unknown images: a format that every unit reads shows which unit will be used.
    let size = from.as_ref().map_or(input, |from| from.size);
    // Without the size, the crop is unknown, too.
    let crop = match &from {
        Some(from) => config.roi.and_then(|roi| roi.to_crop(from.size)),
        None => None,
    };
    let pixels = match &from {
        Some(from) => config_pixels(config.display_aspect, from.size).unwrap_or_default(),
        None => PixelAspect::default(),
    };
    let inner = Letterbox::with_crop(size, crop, pixels, input, placement).inner;
    let format = from.clone().unwrap_or(VideoFormat {
        size,
        format: "NV12".to_owned(),
        memory: Memory::System,
        foreign_colors: None,
    });
    let conversion = plan_crop_conversion(
        &format,
        crop,
        inner,
        config.scaling,
        &scalers,
        Memory::System,
    )
    .map_err(SourceError::Refused)?;
    plan.notes.extend(conversion.note);
    // The number of steps depends on the size.
    let unknown = if from.is_none() {
        conversion.steps.len() - 1
    } else {
        0
    };
    let mut before = from;
    for step in conversion.steps.into_iter().skip(unknown) {
        let element = match step.unit {
            VideoUnit::Vic | VideoUnit::Gpu => "nvvidconv",
            _ => "jetwatch, or videoscale and videoconvert",
        };
        let kind = match &before {
            Some(before) if before.size != step.to.size => StepKind::Scale,
            Some(before) if before.format != step.to.format => StepKind::Color,
            Some(_) => StepKind::Copy,
            None => StepKind::Scale,
        };
        let detail = match (&before, step.crop) {
            (Some(before), Some(cut)) => format!("{} of {before} to {}", cut.crop, step.to),
            (Some(before), None) => format!("{before} to {}", step.to),
            (None, _) if config.roi.is_some() => "a part; its size depends on the media".to_owned(),
            (None, _) => "source size depends on the media".to_owned(),
        };
        plan.steps.push(PlanStep {
            kind,
            unit: step.unit,
            element: element.to_owned(),
            detail,
        });
        before = before.map(|_| step.to);
    }
    if config.scaling == Scaling::Cpu && scalers.vic.is_ok() {
        plan.notes
            .push("the CPU scales, not the VIC: scaling is cpu".to_owned());
    }
    Ok(())
}

/// Size and format of the decoded images, when the keys of the source determine them.
fn known_format(config: &SourceConfig, hardware: &VideoHardware) -> Option<VideoFormat> {
    let size = match &config.uri {
        SourceUri::Csi { size, .. } => *size,
        SourceUri::V4l2 {
            size,
            format: V4l2Format::Mjpeg,
            ..
        } if config.decoder != DecoderChoice::Software && hardware.jpeg_decoder.is_ok() => *size,
        SourceUri::V4l2 {
            size,
            format: V4l2Format::H264 | V4l2Format::H265,
            ..
        } if config.decoder != DecoderChoice::Software && hardware.decoder.is_ok() => *size,
        _ => None,
    };
    let (width, height) = size?;
    Some(VideoFormat {
        size: Size::new(width, height),
        format: "NV12".to_owned(),
        memory: Memory::Nvmm,
        foreign_colors: None,
    })
}
