//! Who waits for whom: for each stage, the stage that its thread spent most time in instead, or that lets it go on.
//!
//! Followed from stage to stage, this ends at the one that limits the pipeline.

use jetwatch_telemetry::Stage;

use super::steps::{Group, group};
use super::{CriticalPath, DETECTOR_STAGES, InputKind};

/// Stages in which a source's thread brings images.
const SOURCE_STAGES: [Stage; 4] = [
    Stage::Input,
    Stage::VideoDecode,
    Stage::Scale,
    Stage::Source,
];

/// All stages of a detector's thread.
const DETECTOR_THREAD: [Stage; 5] = [
    Stage::Batch,
    Stage::Tensor,
    Stage::Infer,
    Stage::Decode,
    Stage::SendResults,
];

impl CriticalPath {
    /// The stage that `stage` waits for; `None` for the one that limits the pipeline, and where it was not recorded.
    #[must_use]
    pub fn waits_for_stage(&self, stage: Stage) -> Option<Stage> {
        if self.limit() == Some(stage) {
            return None;
        }
        match stage {
            Stage::Batch => self.longest(&SOURCE_STAGES, stage),
            Stage::Enqueue => {
                let work = [&DETECTOR_STAGES[..], &[Stage::SendResults]].concat();
                self.longest(&work, stage)
            }
            Stage::SendResults => self.longest(&[Stage::Track, Stage::Publish], stage),
            Stage::Input => {
                let is_limit = self.limit() == Some(Stage::VideoDecode);
                (is_limit && self.decodes_in_hardware()).then_some(Stage::VideoDecode)
            }
            Stage::VideoDecode | Stage::Scale | Stage::Source => {
                let others = [&SOURCE_STAGES[..], &[Stage::Enqueue]].concat();
                self.longest(&others, stage)
            }
            Stage::Tensor | Stage::Infer | Stage::Decode => self.longest(&DETECTOR_THREAD, stage),
            Stage::Track | Stage::Publish => {
                let other = match stage {
                    Stage::Track => Stage::Publish,
                    _ => Stage::Track,
                };
                let idle = 1.0 - self.share(Stage::Track) - self.share(Stage::Publish);
                match self.share(other) > idle {
                    true => Some(other),
                    false => {
                        let work = [&DETECTOR_STAGES[..], &[Stage::Batch]].concat();
                        self.longest(&work, stage)
                    }
                }
            }
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
    #[must_use]
    pub fn waits_for(&self, stage: Stage) -> &'static str {
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
            _ if group(stage) == Group::Detector => "the GPU",
            _ => "-",
        }
    }

    /// The recorded stage with the longest time, by the time of each thread.
    fn longest(&self, stages: &[Stage], except: Stage) -> Option<Stage> {
        let recorded = self
            .stages
            .iter()
            .filter(|times| times.stage != except && stages.contains(&times.stage));
        let longest = recorded.max_by(|a, b| a.share.total_cmp(&b.share));
        longest.map(|times| times.stage)
    }
}
