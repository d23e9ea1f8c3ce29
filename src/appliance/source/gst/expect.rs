//! Who will do what for a source, before it is opened: by its address, its keys, and what the machine and GStreamer have.
//!
//! What only the media tells, sizes and codecs of files and servers, is left open here; the running pipeline fills it in.

use crate::SourceError;
use crate::plan::{Plan, PlanStep, Work};
use crate::steps::{Form, Memory, route_of_part};
use jetwatch_config::{DecoderChoice, Scaling, SourceConfig, SourceUri, V4l2Format};
use jetwatch_platform::{Machine, VideoUnit};
use jetwatch_types::{Letterbox, Placement, Size};

use super::camera;
use super::equipment::Equipment;

/// The plan for `config` on `machine` with a network whose input has this size and placement.
///
/// # Errors
/// GStreamer does not start; or what the configuration asks for cannot be done here, whatever the media is like.
pub fn expect(
    config: &SourceConfig,
    machine: &Machine,
    input: Size,
    placement: Placement,
) -> Result<Plan, SourceError> {
    let mut plan = Plan::default();
    let mut add = |work, unit, element: &str, detail: &str| {
        plan.steps.push(PlanStep {
            work,
            unit,
            element: element.to_owned(),
            detail: detail.to_owned(),
        });
    };
    if let SourceUri::Synthetic(_) = config.uri {
        add(
            Work::Draw,
            VideoUnit::Cpu,
            "jetwatch",
            "at the network's size",
        );
        return Ok(plan);
    }
    super::init("*:1")?;
    let equipment = Equipment::of(machine);
    match &config.uri {
        SourceUri::Csi { sensor, .. } => {
            camera::check_csi(&equipment, *sensor)?;
            add(Work::Capture, VideoUnit::Isp, "nvarguscamerasrc", "");
        }
        SourceUri::V4l2 { .. } => add(Work::Capture, VideoUnit::Cpu, "v4l2src", ""),
        SourceUri::Rtsp { .. } => add(Work::Receive, VideoUnit::Cpu, "rtspsrc", ""),
        SourceUri::File(_) => add(Work::Read, VideoUnit::Cpu, "filesrc", ""),
        SourceUri::Launch(_) => add(Work::Read, VideoUnit::Cpu, "launch", ""),
        SourceUri::Images(_) => add(Work::Decode, VideoUnit::Cpu, "jetwatch", "JPEG and PNG"),
        SourceUri::Synthetic(_) => {}
    }
    decoding(config, &equipment, &mut plan)?;
    scaling(config, &equipment, input, placement, &mut plan)?;
    Ok(plan)
}

/// Who decodes, by codec.
fn decoding(
    config: &SourceConfig,
    equipment: &Equipment,
    plan: &mut Plan,
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
            work: Work::Decode,
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
    equipment: &Equipment,
    input: Size,
    placement: Placement,
    plan: &mut Plan,
) -> Result<(), SourceError> {
    let scalers = equipment.scalers();
    let from = known_form(config, equipment);
    // Where nothing is known of the pictures, any that every unit takes tells which unit it will be.
    let size = from.as_ref().map_or(input, |from| from.size);
    // Where the size is not known, neither is the part's.
    let crop = match &from {
        Some(from) => config.roi.and_then(|roi| roi.of(from.size)),
        None => None,
    };
    let inner = Letterbox::of_part(size, crop, input, placement).inner;
    let tried = from.clone().unwrap_or(Form {
        size,
        format: "NV12".to_owned(),
        memory: Memory::System,
    });
    let route = route_of_part(
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
        let detail = match (&before, step.cut) {
            (Some(before), Some(cut)) => format!("{} of {before} to {}", cut.crop, step.to),
            (Some(before), None) => format!("{before} to {}", step.to),
            (None, _) if config.roi.is_some() => {
                "a part, of a size that the media tells".to_owned()
            }
            (None, _) => "from a size that the media tells".to_owned(),
        };
        plan.steps.push(PlanStep {
            work: if is_copy { Work::Copy } else { Work::Scale },
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
fn known_form(config: &SourceConfig, equipment: &Equipment) -> Option<Form> {
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
    Some(Form {
        size: Size::new(width, height),
        format: "NV12".to_owned(),
        memory: Memory::Nvmm,
    })
}
