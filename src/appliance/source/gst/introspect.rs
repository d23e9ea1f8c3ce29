// SPDX-License-Identifier: Apache-2.0
//! The contents of a running pipeline: elements, their unit, and their negotiated caps.
//!
//! This confirms the plan. It does not depend on the request, so it also covers elements of a user's launch fragment.

use gstreamer as gst;
use gstreamer::glib;
use gstreamer::prelude::*;

use crate::convert_plan::{Memory, VideoFormat};
use crate::elements::ELEMENTS;
use crate::plan::{PlanStep, ProcessingPlan, StepKind};
use jetwatch_platform::VideoUnit;

use jetwatch_types::{Crop, Size};

use super::build::BuiltPipeline;
use super::own_scaling::OwnScaling;
use super::scaler::SINK;
use super::scaler_elements::format_of;

/// Limit of elements in one walk, above any pipeline of jetwatch; more means a loop.
pub(super) const MAX_WALK: usize = 200;

/// The plan that the elements of [`elements_upstream`] carry out, in the order of the data.
pub(super) fn plan(
    found: &[(gst::Element, Vec<PlanStep>)],
    launch: &BuiltPipeline,
) -> ProcessingPlan {
    let own_step = launch.diagnostics.own_scaling().map(OwnScaling::step);
    let of_elements = found.iter().flat_map(|(_, steps)| steps.clone());
    ProcessingPlan {
        steps: of_elements.chain(own_step).collect(),
        notes: launch.diagnostics.notes(),
    }
}

/// The elements between source and sink with their work, in the order of the data.
pub(super) fn elements_upstream(built: &BuiltPipeline) -> Vec<(gst::Element, Vec<PlanStep>)> {
    let sink = built.pipeline.by_name(SINK);
    let mut elements = Vec::new();
    let mut next = sink.and_then(|sink| sink.static_pad("sink"));
    while let Some(pad) = next.take() {
        let Some(from) = upstream_pad(&pad) else {
            break;
        };
        let Some(element) = from.parent_element() else {
            break;
        };
        next = sink_pad_of(&from, &element);
        elements.push(element);
        if elements.len() > MAX_WALK {
            break;
        }
    }
    let with_steps = |element: gst::Element| {
        let steps = steps(&element);
        (element, steps)
    };
    elements.into_iter().rev().map(with_steps).collect()
}

/// Whether a bin counts as one element.
fn is_opaque_bin(factory: &str) -> bool {
    factory == "rtspsrc"
        || ELEMENTS
            .iter()
            .any(|entry| entry.is_from_l4t() && entry.name == factory)
}

/// The pad of another element that feeds this one, through ghost pads of bins.
pub(super) fn upstream_pad(pad: &gst::Pad) -> Option<gst::Pad> {
    let mut peer = pad.peer()?;
    for _ in 0..MAX_WALK {
        if let Some(ghost) = peer.downcast_ref::<gst::GhostPad>() {
            let bin = ghost.parent_element()?;
            if is_opaque_bin(&factory_of(&bin)) {
                return Some(peer);
            }
            peer = ghost.target()?;
        } else if peer.parent_element().is_some() {
            return Some(peer);
        } else {
            // The inner side of a ghost pad: continue with the pad linked outside.
            peer = peer.parent()?.downcast::<gst::GhostPad>().ok()?.peer()?;
        }
    }
    None
}

/// The sink pad through which an element receives the data that leaves at `from`.
pub(super) fn sink_pad_of(from: &gst::Pad, element: &gst::Element) -> Option<gst::Pad> {
    if from.is::<gst::GhostPad>() {
        return element.static_pad("sink");
    }
    let inside = from.iterate_internal_links().into_iter();
    inside
        .filter_map(Result::ok)
        .next()
        .or_else(|| element.static_pad("sink"))
}

fn factory_of(element: &gst::Element) -> String {
    element
        .factory()
        .map_or_else(String::new, |factory| factory.name().to_string())
}

/// The work of one element; none for elements that only forward data.
fn steps(element: &gst::Element) -> Vec<PlanStep> {
    let name = factory_of(element);
    let class = element
        .factory()
        .map_or_else(String::new, |factory| factory.klass().to_owned());
    let caps = |pad: &str| element.static_pad(pad).and_then(|pad| pad.current_caps());
    let (from, to) = (caps("sink"), caps("src"));
    let step = |kind, unit, detail: String| PlanStep {
        kind,
        unit,
        element: name.clone(),
        detail,
    };
    let one = |kind, unit| vec![step(kind, unit, String::new())];
    match name.as_str() {
        "nvarguscamerasrc" => vec![step(
            StepKind::Capture,
            VideoUnit::Isp,
            describe_caps(to.as_ref()),
        )],
        "v4l2src" => vec![step(
            StepKind::Capture,
            VideoUnit::Cpu,
            describe_caps(to.as_ref()),
        )],
        "rtspsrc" | "souphttpsrc" | "udpsrc" | "srtsrc" | "rtmpsrc" | "rtmp2src" => {
            one(StepKind::Receive, VideoUnit::Cpu)
        }
        "appsrc" => vec![PlanStep {
            kind: StepKind::Decode,
            unit: VideoUnit::Cpu,
            element: "jetwatch".to_owned(),
            detail: describe_caps(to.as_ref()),
        }],
        "videoflip" => vec![step(StepKind::Rotate, VideoUnit::Cpu, change(&from, &to))],
        "nvvidconv" if rotates(element) => {
            vec![step(
                StepKind::Rotate,
                unit_of_converter(element),
                change(&from, &to),
            )]
        }
        "nvvidconv" => {
            let part = crop_of(element);
            conversion_steps(&name, unit_of_converter(element), part, from, to)
        }
        "videoscale" | "videoconvert" => conversion_steps(&name, VideoUnit::Cpu, None, from, to),
        "videocrop" => vec![step(StepKind::Crop, VideoUnit::Cpu, change(&from, &to))],
        _ if class.contains("Decoder") && !class.contains("Audio") => {
            let unit = match name.as_str() {
                "nvjpegdec" => VideoUnit::Nvjpg,
                "nvv4l2decoder" if is_on(element, "mjpeg") => VideoUnit::Nvjpg,
                "nvv4l2decoder" => VideoUnit::Nvdec,
                _ if class.contains("Hardware") => VideoUnit::Accelerator,
                _ => VideoUnit::Cpu,
            };
            vec![step(StepKind::Decode, unit, change(&from, &to))]
        }
        // Another element that changes images, in a user's launch fragment.
        _ if class.contains("Scaler") || class.contains("Converter/Video") => {
            let unit = match class.contains("Hardware") {
                true => VideoUnit::Accelerator,
                false => VideoUnit::Cpu,
            };
            conversion_steps(&name, unit, None, from, to)
        }
        _ if class.starts_with("Source") => one(StepKind::Read, VideoUnit::Cpu),
        _ => Vec::new(),
    }
}

/// The work of a converter between two formats: none, a copy, another pixel format, or another size.
fn conversion_steps(
    element: &str,
    unit: VideoUnit,
    part: Option<Crop>,
    from: Option<gst::Caps>,
    to: Option<gst::Caps>,
) -> Vec<PlanStep> {
    let (Some(from), Some(to)) = (
        from.and_then(|caps| format_of(&caps)),
        to.and_then(|caps| format_of(&caps)),
    ) else {
        return Vec::new();
    };
    let kind = if from.size != to.size || part.is_some() {
        Some(StepKind::Scale)
    } else if from.format != to.format {
        Some(StepKind::Color)
    } else {
        None
    };
    let mut steps = Vec::new();
    let mut add = |kind, unit, detail| {
        steps.push(PlanStep {
            kind,
            unit,
            element: element.to_owned(),
            detail,
        });
    };
    // Jetson converters work in NVMM: they copy from and to CPU memory.
    let is_jetson = matches!(unit, VideoUnit::Vic | VideoUnit::Gpu);
    let copies = |format: &VideoFormat| is_jetson && format.memory == Memory::System;
    if copies(&from) {
        add(StepKind::Copy, VideoUnit::Cpu, format!("{from} into NVMM"));
    }
    if let Some(kind) = kind {
        let of = part.map_or_else(String::new, |part| format!("{part} of "));
        add(kind, unit, format!("{of}{from} to {to}"));
    }
    if copies(&to) {
        add(StepKind::Copy, VideoUnit::Cpu, format!("{to} out of NVMM"));
    }
    steps
}

/// The crop of a Jetson converter, from its edge properties; `None` when none is set.
fn crop_of(element: &gst::Element) -> Option<Crop> {
    let edge = |name: &str| {
        let exists = element.has_property_with_type(name, i32::static_type());
        let value = exists.then(|| element.property::<i32>(name))?;
        u32::try_from(value).ok()
    };
    let [left, right, top, bottom] = ["left", "right", "top", "bottom"].map(edge);
    let (left, top) = (left?, top?);
    let (width, height) = (right?.checked_sub(left)?, bottom?.checked_sub(top)?);
    (width > 0 && height > 0).then_some(Crop {
        left,
        top,
        size: Size::new(width, height),
    })
}

/// The unit of a Jetson converter, from its property. The default may differ between releases and proves nothing.
fn unit_of_converter(element: &gst::Element) -> VideoUnit {
    let nick = element
        .has_property("compute-hw")
        .then(|| element.property_value("compute-hw"))
        .and_then(|value| {
            let (_, choice) = glib::EnumValue::from_value(&value)?;
            Some(choice.nick().to_owned())
        });
    let units = [VideoUnit::Vic, VideoUnit::Gpu];
    let named = units.into_iter().find(|unit| {
        nick.as_deref()
            .is_some_and(|nick| nick.eq_ignore_ascii_case(unit.name()))
    });
    named.unwrap_or(VideoUnit::Accelerator)
}

fn is_on(element: &gst::Element, property: &str) -> bool {
    element.has_property_with_type(property, bool::static_type())
        && element.property::<bool>(property)
}

/// Whether a Jetson converter rotates images.
fn rotates(element: &gst::Element) -> bool {
    element
        .has_property("flip-method")
        .then(|| element.property_value("flip-method"))
        .and_then(|value| {
            let (_, choice) = glib::EnumValue::from_value(&value)?;
            Some(choice.value() != 0)
        })
        .unwrap_or(false)
}

/// Two formats as short text.
fn change(from: &Option<gst::Caps>, to: &Option<gst::Caps>) -> String {
    let (from, to) = (describe_caps(from.as_ref()), describe_caps(to.as_ref()));
    format!("{from} to {to}")
}

/// Caps as short text: size and format of images, the media type of everything else.
fn describe_caps(caps: Option<&gst::Caps>) -> String {
    let Some(caps) = caps else {
        return "unknown".to_owned();
    };
    if let Some(form) = format_of(caps) {
        return form.to_string();
    }
    let media = caps.structure(0);
    media.map_or_else(|| "unknown".to_owned(), |media| media.name().to_string())
}
