// SPDX-License-Identifier: Apache-2.0
//! The processing plan of a source: expected before it is opened, and actual in its running pipeline.

use std::fmt;

use jetwatch_config::{DecoderChoice, Scaling};
use jetwatch_platform::VideoUnit;

/// The work of a source, in the order of the data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessingPlan {
    /// The steps.
    pub steps: Vec<PlanStep>,
    /// Why better units are not used, one sentence each.
    pub notes: Vec<String>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanStep {
    /// Kind of work.
    pub kind: StepKind,
    /// The unit that does it.
    pub unit: VideoUnit,
    /// The GStreamer element; `jetwatch` for work without one.
    pub element: String,
    /// Sizes and formats; what is unknown is described as such.
    pub detail: String,
}

jetwatch_types::named_enum! {
    /// Kinds of work.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum StepKind {
        /// Captures images with a camera.
        Capture = "capture",
        /// Receives media from a server.
        Receive = "receive",
        /// Reads media from a file, or from the user's own elements.
        Read = "read",
        /// Decodes images.
        Decode = "decode",
        /// Changes the size, and possibly the pixel format.
        Scale = "scale",
        /// Changes the pixel format only.
        Color = "convert colors",
        /// Rotates images upright.
        Rotate = "rotate",
        /// Cuts out a part of the image.
        Crop = "crop",
        /// Copies between NVMM and CPU memory.
        Copy = "copy",
        /// Draws the synthetic scene.
        Draw = "draw",
    }

    /// Name of the kind of work.
    pub fn name;
}

impl ProcessingPlan {
    /// The part of this plan that the configuration does not accept, as a sentence.
    #[must_use]
    pub fn rejected_by(&self, decoder: DecoderChoice, scaling: Scaling) -> Option<String> {
        let requested_unit = match scaling {
            Scaling::Auto => None,
            Scaling::Vic => Some(VideoUnit::Vic),
            Scaling::Gpu => Some(VideoUnit::Gpu),
            Scaling::Cpu => Some(VideoUnit::Cpu),
        };
        self.steps.iter().find_map(|step| {
            let requested = match step.kind {
                // Images leave NVMM by a unit that converts their colors.
                StepKind::Color if scaling == Scaling::Cpu => return None,
                StepKind::Scale | StepKind::Color => {
                    let unit = requested_unit.filter(|unit| *unit != step.unit)?;
                    format!("scaling is to run on the {}", unit.name())
                }
                StepKind::Decode => match decoder {
                    DecoderChoice::Hardware if step.unit == VideoUnit::Cpu => {
                        "decoder is hardware".to_owned()
                    }
                    DecoderChoice::Software if step.unit != VideoUnit::Cpu => {
                        "decoder is software".to_owned()
                    }
                    _ => return None,
                },
                _ => return None,
            };
            let notes: String = self.notes.iter().map(|note| format!("; {note}")).collect();
            Some(format!(
                "{requested}, but the pipeline does this: {step}{notes}"
            ))
        })
    }
}

impl fmt::Display for PlanStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, unit) = (self.kind.name(), self.unit.name());
        write!(f, "{kind} by {unit} ({}", self.element)?;
        if !self.detail.is_empty() {
            write!(f, ", {}", self.detail)?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for ProcessingPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            step.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(kind: StepKind, unit: VideoUnit) -> ProcessingPlan {
        let step = PlanStep {
            kind,
            unit,
            element: "x".to_owned(),
            detail: "1×1 to 2×2".to_owned(),
        };
        ProcessingPlan {
            steps: vec![step],
            notes: vec!["the reason".to_owned()],
        }
    }

    #[test]
    fn a_plan_on_another_unit_than_configured_is_rejected() {
        use VideoUnit::{Cpu, Gpu, Nvdec, Vic};
        let auto = (DecoderChoice::Auto, Scaling::Auto);
        let vic = (DecoderChoice::Auto, Scaling::Vic);
        let hardware = (DecoderChoice::Hardware, Scaling::Auto);
        let software = (DecoderChoice::Software, Scaling::Cpu);
        let cases = [
            (StepKind::Scale, Cpu, auto, false),
            (StepKind::Scale, Vic, vic, false),
            (StepKind::Scale, Cpu, vic, true),
            (StepKind::Color, Gpu, vic, true),
            (StepKind::Copy, Cpu, vic, false),
            (StepKind::Decode, Cpu, vic, false),
            (StepKind::Decode, Cpu, hardware, true),
            (StepKind::Decode, Nvdec, hardware, false),
            (StepKind::Decode, Nvdec, software, true),
            (StepKind::Scale, Vic, software, true),
        ];
        for (kind, unit, (decoder, scaling), refused) in cases {
            let reason = plan(kind, unit).rejected_by(decoder, scaling);
            assert_eq!(reason.is_some(), refused, "{kind:?} {unit:?}");
            if let Some(reason) = reason {
                assert!(
                    reason.contains("1×1 to 2×2") && reason.ends_with("; the reason"),
                    "{reason}"
                );
            }
        }
    }

    #[test]
    fn a_plan_is_one_line() {
        let mut plan = plan(StepKind::Decode, VideoUnit::Nvdec);
        plan.steps.extend(plan.clone().steps);
        plan.steps[1].detail.clear();
        assert_eq!(
            plan.to_string(),
            "decode by NVDEC (x, 1×1 to 2×2); decode by NVDEC (x)"
        );
    }
}
