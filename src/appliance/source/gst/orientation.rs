// SPDX-License-Identifier: Apache-2.0
//! Orientation of the images: phones rotate no pixels; they write into the file how a player has to rotate them.
//!
//! GStreamer reports it by the tag `image-orientation`. The images of such a file are rotated before everything else, by the
//! elements of [`elements`]; all others pass no further element. [`caps_handler`](super::caps_handler) decides.

use gstreamer as gst;
use gstreamer::prelude::*;

use crate::convert_plan::{ConvertStep, Memory, VideoFormat};
use crate::elements::{make, set_if_supported};
use jetwatch_platform::VideoUnit;
use jetwatch_types::Size;

use super::introspect::{MAX_WALK, sink_pad_of, upstream_pad};
use super::scaler_elements::{AttachPoints, converter, output_caps};

/// How images are rotated so that they are upright.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Orientation {
    /// Value of the tag. Rotations are clockwise; `flip` is a horizontal mirroring that comes first.
    pub(super) tag: &'static str,
    /// `video-direction` of `videoflip`.
    direction: &'static str,
    /// `flip-method` of `nvvidconv`.
    flip_method: &'static str,
    /// Whether width and height change places.
    pub(super) swaps_sides: bool,
}

const fn orientation(
    tag: &'static str,
    direction: &'static str,
    flip_method: &'static str,
    swaps_sides: bool,
) -> Orientation {
    Orientation {
        tag,
        direction,
        flip_method,
        swaps_sides,
    }
}

const ORIENTATIONS: [Orientation; 7] = [
    orientation("rotate-90", "90r", "clockwise", true),
    orientation("rotate-180", "180", "rotate-180", false),
    orientation("rotate-270", "90l", "counterclockwise", true),
    orientation("flip-rotate-0", "horiz", "horizontal-flip", false),
    orientation("flip-rotate-90", "ur-ll", "upper-right-diagonal", true),
    orientation("flip-rotate-180", "vert", "vertical-flip", false),
    orientation("flip-rotate-270", "ul-lr", "upper-left-diagonal", true),
];

/// What the tags say about the orientation: nothing (`None`), that images are upright (`Some(None)`), or how to rotate them.
pub(super) fn of_tags(tags: &gst::TagListRef) -> Option<Option<Orientation>> {
    let tag = tags.get::<gst::tags::ImageOrientation>()?;
    let known = |orientation: &Orientation| orientation.tag == tag.get();
    Some(ORIENTATIONS.into_iter().find(known))
}

/// The orientation by the tags that pads before `pad` have already seen: a demuxer knows it before its first buffer, and some decoders
/// forward tags only behind their first image.
pub(super) fn upstream_of(pad: &gst::Pad) -> Option<Orientation> {
    let mut pad = pad.clone();
    for _ in 0..MAX_WALK {
        let from = upstream_pad(&pad)?;
        let tags = (0..).map_while(|index| from.sticky_event::<gst::event::Tag>(index));
        let found = tags.filter_map(|event| of_tags(event.tag())).last();
        if let Some(orientation) = found {
            return orientation;
        }
        pad = sink_pad_of(&from, &from.parent_element()?)?;
    }
    None
}

impl Orientation {
    /// The format of an image after it was rotated.
    pub(super) fn rotated(self, format: VideoFormat) -> VideoFormat {
        let Size { width, height } = format.size;
        match self.swaps_sides {
            true => VideoFormat {
                size: Size::new(height, width),
                ..format
            },
            false => format,
        }
    }
}

/// The elements that rotate images, in the order of the data, and the filter that sets the rotated size, where there is one. `to` is
/// the format of the rotated images; `unit` is the unit of the first step behind.
///
/// # Errors
/// An element is missing, or cannot rotate images.
pub(super) fn elements(
    orientation: Orientation,
    to: &VideoFormat,
    unit: VideoUnit,
    attach_points: &AttachPoints,
) -> Result<(Vec<gst::Element>, Option<gst::Element>), String> {
    let name = |what| attach_points.element_name(what, 0);
    let made = |factory, what| make(factory, &name(what)).map_err(|error| error.to_string());
    let (property, nick, rotate, others) = match to.memory {
        Memory::Nvmm => {
            let rotate = converter(&nvmm_step(to, unit), &name("rotate"), attach_points)?;
            let filter = made("capsfilter", "rotated-size")?;
            ("flip-method", orientation.flip_method, rotate, Some(filter))
        }
        Memory::System => {
            let rotate = made("videoflip", "rotate")?;
            ("video-direction", orientation.direction, rotate, None)
        }
    };
    if !set_if_supported(property, &rotate, nick) {
        return Err(format!(
            "{} does not support {property}={nick}",
            rotate.name()
        ));
    }
    let elements = match &others {
        Some(filter) => vec![rotate, filter.clone()],
        // It does nothing unless `videoflip` of this release cannot read the format.
        None => vec![made("videoconvert", "rotate-convert")?, rotate],
    };
    Ok((elements, others))
}

/// Caps of the filter of [`elements`].
pub(super) fn filter_caps(to: &VideoFormat, unit: VideoUnit) -> gst::Caps {
    output_caps(&nvmm_step(to, unit))
}

fn nvmm_step(to: &VideoFormat, unit: VideoUnit) -> ConvertStep {
    ConvertStep {
        unit,
        crop: None,
        to: to.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_orientation_is_one_that_videoflip_has() {
        gst::init().expect("GStreamer starts");
        let flip = make("videoflip", "flip").expect("it is installed");
        for orientation in ORIENTATIONS {
            let direction = orientation.direction;
            assert!(
                set_if_supported("video-direction", &flip, direction),
                "{direction}"
            );
            let mut tags = gst::TagList::new();
            let owned = tags.get_mut().expect("it is not shared");
            owned.add::<gst::tags::ImageOrientation>(&orientation.tag, gst::TagMergeMode::Append);
            assert_eq!(of_tags(&tags), Some(Some(orientation)));
        }
    }

    #[test]
    fn upright_images_and_other_tags_turn_nothing() {
        gst::init().expect("GStreamer starts");
        let mut tags = gst::TagList::new();
        let owned = tags.get_mut().expect("it is not shared");
        owned.add::<gst::tags::Title>(&"holidays", gst::TagMergeMode::Append);
        assert_eq!(of_tags(owned), None);
        owned.add::<gst::tags::ImageOrientation>(&"rotate-0", gst::TagMergeMode::Append);
        assert_eq!(of_tags(owned), Some(None));
    }
}
