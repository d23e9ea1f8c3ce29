// SPDX-License-Identifier: Apache-2.0
//! Who waits for whom: for each stage, the stage that its thread spent most time in instead, or that lets it go on.
//!
//! Followed from stage to stage, this ends at the one that limits the pipeline.

use jetwatch_telemetry::Stage;

use super::{CriticalPath, InputKind};
use crate::report::stages::{DETECTOR_STAGES, Group, SOURCE_STAGES, TRACK_STAGES};

impl CriticalPath {
    /// The stage that `stage` waits for; `None` for the one that limits the pipeline, and where it was not recorded.
    ///
    /// A thread that runs the limiting stage is at work there. Another one waits for frames or for room, whichever takes longer.
    pub(crate) fn waits_for_stage(&self, stage: Stage) -> Option<Stage> {
        let limit = self.limit();
        if limit == Some(stage) {
            return None;
        }
        let limit_in = |wanted| limit.filter(|limit| Group::of(*limit) == wanted);
        match stage {
            Stage::Input => {
                let is_limit = limit == Some(Stage::VideoDecode);
                (is_limit && self.decodes_in_hardware()).then_some(Stage::VideoDecode)
            }
            Stage::VideoDecode | Stage::Scale | Stage::Source => {
                limit_in(Group::Source).or_else(|| self.longest(&[Stage::Input, Stage::Enqueue]))
            }
            Stage::Enqueue => limit_in(Group::Detector)
                .or_else(|| {
                    limit_in(Group::Track).and_then(|_| self.longest(&[Stage::SendResults]))
                })
                .or_else(|| self.longest(&DETECTOR_STAGES)),
            Stage::Batch => limit_in(Group::Source).or_else(|| self.longest(&SOURCE_STAGES)),
            Stage::Tensor | Stage::Infer | Stage::Decode => limit_in(Group::Detector)
                .or_else(|| self.longest(&[Stage::Batch, Stage::SendResults])),
            Stage::SendResults => limit_in(Group::Track).or_else(|| self.longest(&TRACK_STAGES)),
            Stage::Track | Stage::Publish => limit_in(Group::Track)
                .or_else(|| limit_in(Group::Detector))
                .or_else(|| self.longest(&[Stage::Batch])),
            Stage::Secondary => Some(Stage::SecondaryWait),
            Stage::SecondaryWait | Stage::Render => Some(Stage::Track),
            Stage::VideoDecodeStay
            | Stage::ScaleStay
            | Stage::Encode
            | Stage::GpuCopyIn
            | Stage::GpuTensor
            | Stage::GpuNetwork
            | Stage::GpuCopyOut => None,
        }
    }

    /// What a stage waits for, as text.
    pub(crate) fn waits_for(&self, stage: Stage) -> &'static str {
        if let Some(waited) = self.waits_for_stage(stage) {
            return waited.name();
        }
        match stage {
            Stage::Input => match self.input {
                InputKind::Camera => "the next image of the camera",
                InputKind::File => "the next image of the file",
                InputKind::Unknown => "the next image",
            },
            _ if self.limit() == Some(stage) => "nothing: it is the limit",
            Stage::Encode => "the encoder",
            _ if Group::of(stage) == Group::Detector => "the GPU",
            _ => "-",
        }
    }

    /// The recorded stage with the longest time, by the time of each thread.
    fn longest(&self, stages: &[Stage]) -> Option<Stage> {
        let recorded = self.stages.iter().filter(|(own, _)| stages.contains(own));
        let longest = recorded.max_by(|(_, a), (_, b)| a.share.total_cmp(&b.share));
        Some(longest?.0)
    }
}
