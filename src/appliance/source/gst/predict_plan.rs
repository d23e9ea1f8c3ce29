//! Who will do what for a source, before it is opened: by its address, its keys, and what the machine and GStreamer have.
//!
//! What only the media tells, sizes and codecs of files and servers, is left open here; the running pipeline fills it in.

use crate::SourceError;
use crate::convert_plan::{Memory, VideoFormat, plan_crop_conversion};
use crate::plan::{PlanStep, ProcessingPlan, StepKind};
use jetwatch_config::{DecoderChoice, Scaling, SourceConfig, SourceUri, V4l2Format};
use jetwatch_platform::{Machine, VideoUnit};
use jetwatch_types::{Letterbox, Placement, Size};

use super::camera;
use super::hardware::VideoHardware;

/// The plan for `config` on `machine` with a network whose input has this size and placement.
///
/// # Errors
/// GStreamer does not start; or what the configuration asks for cannot be done here, whatever the media is like.
pub fn predict_plan(
    config: &SourceConfig,
    machine: &Machine,
    input: Size,
    placement: Placement,
) -> Result<ProcessingPlan, SourceError> {
    let mut plan = ProcessingPlan::default();
    let mut add = |work, unit, element: &str, detail: &str| {
        plan.steps.push(PlanStep {
            kind: work,
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
    super::init("*:1")?;
    let equipment = VideoHardware::detect(machine);
    match &config.uri {
        SourceUri::Csi { sensor, .. } => {
            camera::check_csi(&equipment, *sensor)?;
            add(StepKind::Capture, VideoUnit::Isp, "nvarguscamerasrc", "");
        }
        SourceUri::V4l2 { .. } => add(StepKind::Capture, VideoUnit::Cpu, "v4l2src", ""),
        SourceUri::Rtsp { .. } => add(StepKind::Receive, VideoUnit::Cpu, "rtspsrc", ""),
        SourceUri::File(_) => add(StepKind::Read, VideoUnit::Cpu, "filesrc", ""),
        SourceUri::Launch(_) => add(StepKind::Read, VideoUnit::Cpu, "launch", ""),
        SourceUri::Images(_) => add(StepKind::Decode, VideoUnit::Cpu, "jetwatch", "JPEG and PNG"),
        SourceUri::Synthetic(_) => {}
    }
    decoding(config, &equipment, &mut plan)?;
    scaling(config, &equipment, input, placement, &mut plan)?;
    Ok(plan)
}

/// Who decodes, by codec.
fn decoding(
    config: &SourceConfig,
    equipment: &VideoHardware,
    plan: &mut ProcessingPlan,
) -> Result<(), SourceError> {
    let only_jpeg = match &config.uri {
        SourceUri::Csi { .. } | SourceUri::Images(_) | SourceUri::Synthetic(_) => return Ok(()),
        SourceUri::V4l2 { format, .. } => {
            if *format == V4l2Format::Raw {
                return Ok(());
            }
            true
        }
        _ => false,
    };
    let units = [
        (
            !only_jpeg,
            &equipment.decoder,
            VideoUnit::Nvdec,
            "H.264 and H.265",
        ),
        (
            true,
            &equipment.jpeg_decoder,
            VideoUnit::Nvjpg,
            "Motion JPEG",
        ),
    ];
    for (is_wanted, decoder, unit, codecs) in units {
        if !is_wanted {
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
                    "decoder is hardware, but nothing but the CPU decodes {codecs}: {reason}; set decoder to auto"
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

/// Who scales, and by which steps where the size is known.
fn scaling(
    config: &SourceConfig,
    equipment: &VideoHardware,
    input: Size,
    placement: Placement,
    plan: &mut ProcessingPlan,
) -> Result<(), SourceError> {
    let scalers = equipment.scalers();
    let from = known_format(config, equipment);
    // Where nothing is known of the pictures, any that every unit takes tells which unit it will be.
    let size = from.as_ref().map_or(input, |from| from.size);
    // Where the size is not known, neither is the part's.
    let crop = match &from {
        Some(from) => config.roi.and_then(|roi| roi.to_crop(from.size)),
        None => None,
    };
    let inner = Letterbox::with_crop(size, crop, input, placement).inner;
    let tried = from.clone().unwrap_or(VideoFormat {
        size,
        format: "NV12".to_owned(),
        memory: Memory::System,
    });
    let route = plan_crop_conversion(
        &tried,
        crop,
        inner,
        config.scaling,
        &scalers,
        Memory::System,
    )
    .map_err(SourceError::Refused)?;
    plan.notes.extend(route.note);
    // By how many steps is not known before the size is.
    let unknown = if from.is_none() {
        route.steps.len() - 1
    } else {
        0
    };
    let mut before = from;
    for step in route.steps.into_iter().skip(unknown) {
        let element = match step.unit {
            VideoUnit::Vic | VideoUnit::Gpu => "nvvidconv",
            _ => "videoscale and videoconvert",
        };
        let is_copy = before
            .as_ref()
            .is_some_and(|before| before.size == step.to.size)
            && step.to.format != "BGRx";
        let detail = match (&before, step.crop) {
            (Some(before), Some(cut)) => format!("{} of {before} to {}", cut.crop, step.to),
            (Some(before), None) => format!("{before} to {}", step.to),
            (None, _) if config.roi.is_some() => {
                "a part, of a size that the media tells".to_owned()
            }
            (None, _) => "from a size that the media tells".to_owned(),
        };
        plan.steps.push(PlanStep {
            kind: if is_copy {
                StepKind::Copy
            } else {
                StepKind::Scale
            },
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

/// The form of the pictures that will be scaled, where the keys of the source tell it.
fn known_format(config: &SourceConfig, equipment: &VideoHardware) -> Option<VideoFormat> {
    let size = match &config.uri {
        SourceUri::Csi { size, .. } => *size,
        SourceUri::V4l2 {
            size,
            format: V4l2Format::Mjpeg,
            ..
        } if config.decoder != DecoderChoice::Software && equipment.jpeg_decoder.is_ok() => *size,
        _ => None,
    };
    let (width, height) = size?;
    Some(VideoFormat {
        size: Size::new(width, height),
        format: "NV12".to_owned(),
        memory: Memory::Nvmm,
    })
}
