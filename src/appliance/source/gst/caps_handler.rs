// SPDX-License-Identifier: Apache-2.0
//! Adapts the scaling elements to the format and the orientation of the source, from the events that arrive at the entry.
//!
//! [`scaler`](super::scaler) calls it on the streaming thread, before the images of that format.

use std::sync::Arc;

use gstreamer as gst;
use parking_lot::Mutex;

use crate::SourceContext;
use crate::convert_plan::{ConvertStep, Memory, plan_crop_conversion, plan_full_size};
use jetwatch_config::{Scaling, SourceConfig, SourceUri};
use jetwatch_types::{PixelAspect, Region, Size};

use super::diagnostics::SessionDiagnostics;
use super::orientation::{self, Orientation};
use super::own_scaling::{self, OwnScaling};
use super::scaler_elements::{AttachPoints, ScalerElements, format_of};
use super::skip_probe::CapsInfo;

/// The handler of one session.
pub(super) struct CapsHandler {
    context: SourceContext,
    scaling: Scaling,
    roi: Option<Region>,
    /// Shape of the upright image, where the media does not tell it or is wrong.
    display_aspect: Option<(u32, u32)>,
    /// Whether images are rotated upright: not those of the user's own elements, which may have rotated them.
    rotates: bool,
    diagnostics: Arc<SessionDiagnostics>,
    caps_info: Arc<Mutex<CapsInfo>>,
    /// The newest caps.
    caps: Option<gst::Caps>,
    /// How images are rotated; `None`: they are upright.
    orientation: Option<Orientation>,
    elements: ScalerElements,
    attach_points: AttachPoints,
    /// The elements for full images, if requested.
    full_size: Option<(ScalerElements, AttachPoints)>,
}

impl CapsHandler {
    /// A handler that links its elements at `attach_points`, and those for full images at `full_size`.
    pub(super) fn new(
        context: &SourceContext,
        config: &SourceConfig,
        diagnostics: &Arc<SessionDiagnostics>,
        caps_info: &Arc<Mutex<CapsInfo>>,
        attach_points: AttachPoints,
        full_size: Option<AttachPoints>,
    ) -> Self {
        Self {
            context: context.clone(),
            scaling: config.scaling,
            roi: config.roi,
            display_aspect: config.display_aspect,
            rotates: !matches!(config.uri, SourceUri::Launch(_)),
            diagnostics: Arc::clone(diagnostics),
            caps_info: Arc::clone(caps_info),
            caps: None,
            orientation: None,
            elements: ScalerElements::default(),
            attach_points,
            full_size: full_size.map(|points| (ScalerElements::default(), points)),
        }
    }

    /// Handles an event of the stream that arrives at `pad`.
    pub(super) fn on_event(&mut self, pad: &gst::Pad, event: &gst::EventRef) {
        let done = match event.view() {
            gst::EventView::Caps(event) => {
                self.caps = Some(event.caps_owned());
                if self.rotates
                    && let Some(orientation) = orientation::upstream_of(pad)
                {
                    self.set_orientation(Some(orientation));
                }
                self.configure()
            }
            gst::EventView::Tag(event) => match orientation::of_tags(event.tag()) {
                // It may come before the caps.
                Some(orientation) if self.set_orientation(orientation) => self.configure(),
                _ => Ok(()),
            },
            gst::EventView::Eos(_) => {
                self.elements.forward_eos(&self.attach_points);
                if let Some((elements, attach_points)) = &self.full_size {
                    elements.forward_eos(attach_points);
                }
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(reason) = done {
            self.diagnostics.reject(reason.clone());
            if let Some(entry) = self.attach_points.entry.upgrade() {
                gst::element_error!(entry, gst::StreamError::Format, ("{reason}"));
            }
        }
    }

    /// Whether images are to be rotated in another way than before.
    fn set_orientation(&mut self, orientation: Option<Orientation>) -> bool {
        if orientation == self.orientation {
            return false;
        }
        self.orientation = orientation;
        let tag = orientation.map_or("rotate-0", |orientation| orientation.tag);
        let source = self.context.name.as_str();
        if !self.rotates {
            log::warn!(source; "the media has image-orientation {tag}, and a launch fragment is not rotated; add to it: ! videoflip method=automatic");
            return false;
        }
        log::info!(source; "the media has image-orientation {tag}: its images are rotated upright");
        true
    }

    /// Adapts the elements to the newest caps and orientation.
    fn configure(&mut self) -> Result<(), String> {
        let Some(caps) = self.caps.clone() else {
            return Ok(());
        };
        let from = format_of(&caps).ok_or_else(|| {
            format!("the decoder outputs {caps}, expected raw video with a size and a format")
        })?;
        let orientation = self.orientation.filter(|_| self.rotates);
        let from = match orientation {
            Some(orientation) => orientation.rotated(from),
            None => from,
        };
        let size = from.size;
        let crop = self.roi.and_then(|roi| roi.to_crop(size));
        let pixels = self.pixel_aspect(&caps, size, orientation);
        let inner = self.context.output_size(size, crop, pixels);
        let scalers = self.attach_points.hardware.scalers();
        let output = self.output();
        let part = self.context.source_crop(crop);
        let plan = plan_crop_conversion(&from, part, inner, self.scaling, &scalers, output)?;
        let full_steps = match self.full_size {
            Some(_) => plan_full_size(&from, &scalers)?,
            None => Vec::new(),
        };
        let planned =
            |steps: &[ConvertStep]| own_scaling::plan(&caps, steps, orientation.is_some());
        let own_scaling = planned(&plan.steps);
        let full_scaling = planned(&full_steps);
        let info = CapsInfo {
            size,
            crop,
            pixels,
            own_scaling,
            full_scaling,
        };
        *self.caps_info.lock() = info;
        if self.diagnostics.is_new_format(&from) {
            log::info!(source = self.context.name.as_str(), size:%, inner:%; "video format {caps}");
        }
        if let Some(note) = plan.note {
            self.diagnostics.add_note(note);
        }
        if let Some(curve) = hdr_curve(&caps) {
            self.diagnostics.add_note(format!(
                "the media is HDR ({curve}), and its brightness is not converted: images are pale, and less may be detected; record in SDR"
            ));
        }
        self.diagnostics.set_own_scaling(own_scaling);
        let rotate = orientation.map(|orientation| (orientation, from.clone()));
        let accept = |points: &AttachPoints, own: Option<OwnScaling>, is_full| {
            let from = own.map(|_| caps.as_ref());
            points.accept(own_scaling::accepted_caps(from, is_full));
            own.is_some_and(|own| own.is_alone)
        };
        match accept(&self.attach_points, own_scaling, false) {
            true => self.elements.bypass(&self.attach_points)?,
            false => self
                .elements
                .reconfigure(plan.steps, rotate.clone(), &self.attach_points)?,
        }
        let Some((elements, attach_points)) = &mut self.full_size else {
            return Ok(());
        };
        match accept(attach_points, full_scaling, true) {
            true => elements.bypass(attach_points),
            false => elements.reconfigure(full_steps, rotate, attach_points),
        }
    }

    /// Shape of the pixels of upright images of `size`.
    fn pixel_aspect(
        &self,
        caps: &gst::CapsRef,
        size: Size,
        orientation: Option<Orientation>,
    ) -> PixelAspect {
        if let Some(pixels) = config_pixels(self.display_aspect, size) {
            return pixels;
        }
        let stream = caps.structure(0);
        let ratio = stream.and_then(|it| it.get::<gst::Fraction>("pixel-aspect-ratio").ok());
        let pixels = ratio.and_then(|ratio| {
            let (width, height) = (ratio.numer(), ratio.denom());
            PixelAspect::new(width.try_into().ok()?, height.try_into().ok()?)
        });
        let pixels = pixels.unwrap_or_default();
        match orientation {
            Some(orientation) if orientation.swaps_sides => pixels.turned(),
            _ => pixels,
        }
    }

    /// Memory of the last step's images on a Jetson.
    fn output(&self) -> Memory {
        // On the GPU the converter writes to CUDA memory, which is not a surface that the other engines share.
        let is_shared = self.scaling != Scaling::Gpu;
        match &self.context.nvmm_reader {
            Some(reader) if is_shared && reader.is_usable() => Memory::Nvmm,
            _ => Memory::System,
        }
    }
}

/// Name of the curve by which HDR media store brightness; `None`: it is not HDR, or this GStreamer does not know the curve (before 1.18).
fn hdr_curve(caps: &gst::CapsRef) -> Option<&'static str> {
    let colorimetry = caps.structure(0)?.get::<&str>("colorimetry").ok()?;
    match colorimetry.split(':').nth(2).unwrap_or(colorimetry) {
        "bt2100-pq" | "14" => Some("PQ"),
        "bt2100-hlg" | "15" => Some("HLG"),
        _ => None,
    }
}

/// Shape of the pixels of upright images of `size` by the key `display_aspect`; `None`: the media states it.
pub(super) fn config_pixels(display_aspect: Option<(u32, u32)>, size: Size) -> Option<PixelAspect> {
    let (width, height) = display_aspect?;
    Some(PixelAspect::new(width * size.height, height * size.width).unwrap_or_default())
}
