//! The ablation: one configuration from a naive pipeline to its best, in seven steps that each change one thing, in the
//! order in which DeepStream's guide optimizes a pipeline.
//!
//! Pure: [`AblationStep::apply`] gives the configuration of a step, [`compute_gains`] what each one gained. `jetwatch bench --ablation` runs them.

mod explanation;
mod gains;
mod settings;

use jetwatch_config::{
    Config, DetectorConfig, Interval, MAX_BATCH_SIZE, Pacing, Playback, SourceConfig, SourceUri,
};

pub use explanation::{Explanation, NotExplained, Part, RunCost, longest_stage};
pub use gains::{Gain, StepDetails, compute_gains};
pub use settings::changed_settings;

/// Frames that skip the network after each one that goes through it, where the configuration names no number.
const INTERVAL: u32 = 3;

/// Crops in a batch, where the configuration has single ones.
const CROPS: usize = 8;

/// The precision of the steps before INT8.
const FP32: &str = "fp32";

/// The precision of the last steps, and the one that comes before it where the CPU computes: `models/quantize.py`
/// makes INT8 of another kind for it.
const INT8: &str = "int8";
const INT8_CPU: &str = "int8_cpu";

/// One step of the ablation. Each differs from the one before only by what its name states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AblationStep {
    /// One frame at a time on one CPU core: drawn and recorded, images of the source's size handed to the detector and
    /// scaled there, single frames, single crops, FP32.
    Naive,
    /// Threads with queues between them, on all cores.
    Queues,
    /// Nothing is drawn.
    WithoutRendering,
    /// Sources scale, on the unit that is there for it.
    ScaledFirst,
    /// Batches of frames, and of crops.
    Batched,
    /// INT8.
    Int8,
    /// Inference only on some frames: the tracker predicts the tracks in between.
    Interval,
}

/// Properties of the models and of the machine.
#[derive(Debug, Clone, Default)]
pub struct Capabilities {
    /// Precisions of the primary network; `None`: there is no network.
    pub primary: Option<Vec<String>>,
    /// Those of each secondary network.
    pub secondary: Vec<Vec<String>>,
    /// Whether the primary network takes one frame at a time, whatever the batch.
    pub is_batch_one_only: bool,
    /// Whether the CPU runs the networks.
    pub runs_on_cpu: bool,
    /// Why nothing can be recorded here.
    pub recording_error: Option<String>,
}

impl Capabilities {
    /// The INT8 of a model with these precisions.
    fn int8(&self, available: &[String]) -> Option<&'static str> {
        let of_cpu = self.runs_on_cpu.then_some(INT8_CPU);
        let mut kinds = of_cpu.into_iter().chain([INT8]);
        kinds.find(|kind| available.iter().any(|known| known == kind))
    }
}

/// What a step runs.
#[derive(Debug, Clone)]
pub struct StepConfig {
    /// The configuration.
    pub config: Config,
    /// Where the step differs from its name, and why.
    pub notes: Vec<String>,
}

impl AblationStep {
    /// All steps, in order.
    pub const ALL: [Self; 7] = [
        Self::Naive,
        Self::Queues,
        Self::WithoutRendering,
        Self::ScaledFirst,
        Self::Batched,
        Self::Int8,
        Self::Interval,
    ];

    /// The step with this number, from 1.
    #[must_use]
    pub fn by_number(number: usize) -> Option<Self> {
        Self::ALL.get(number.checked_sub(1)?).copied()
    }

    /// Its number, from 1.
    #[must_use]
    pub fn number(self) -> usize {
        self as usize + 1
    }

    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Naive => "1_naive",
            Self::Queues => "2_queues",
            Self::WithoutRendering => "3_without_rendering",
            Self::ScaledFirst => "4_scaled_first",
            Self::Batched => "5_batched",
            Self::Int8 => "6_int8",
            Self::Interval => "7_interval",
        }
    }

    /// What it changes, as text.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Naive => "naive: one core, one by one",
            Self::Queues => "threads and queues",
            Self::WithoutRendering => "without rendering",
            Self::ScaledFirst => "scaled before batching",
            Self::Batched => "batched frames and crops",
            Self::Int8 => "INT8",
            Self::Interval => "inference at intervals",
        }
    }

    /// What it changes that no key of the configuration sets; empty: nothing.
    #[must_use]
    pub const fn conditions(self) -> &'static str {
        match self {
            Self::Naive => {
                "one CPU core, one frame at a time through everything, --record, images scaled by the detector"
            }
            Self::Queues => "all CPU cores, queues between the threads",
            Self::WithoutRendering => "no --record",
            Self::ScaledFirst => "images scaled by their sources",
            Self::Batched | Self::Int8 | Self::Interval => "",
        }
    }

    /// Whether one core does everything.
    #[must_use]
    pub fn is_on_one_core(self) -> bool {
        self == Self::Naive
    }

    /// Whether frames are drawn and recorded.
    #[must_use]
    pub fn renders(self) -> bool {
        self < Self::WithoutRendering
    }

    /// Whether images keep the source's size up to the detector.
    #[must_use]
    pub fn scales_in_worker(self) -> bool {
        self < Self::ScaledFirst
    }

    /// What this step runs of `config`.
    #[must_use]
    pub fn apply(self, config: &Config, capabilities: &Capabilities) -> StepConfig {
        let mut layout = StepConfig {
            config: config.clone(),
            notes: Vec::new(),
        };
        layout.normalize_sources();
        if self.is_on_one_core() {
            layout.config.detector.workers = 1;
            for network in &mut layout.config.secondary {
                network.workers = 1;
            }
        }
        layout.choose_rendering(self, capabilities);
        if self == Self::ScaledFirst && config.sources.iter().any(is_synthetic) {
            layout.note("a drawn scene is drawn in the size that is asked for: part of this gain is its own");
        }
        layout.choose_batches(self, config, capabilities);
        layout.choose_precision(self, config, capabilities);
        layout.choose_interval(self, config);
        layout
    }
}

impl StepConfig {
    /// Sources provide frames as fast as these are consumed, and without end where possible.
    fn normalize_sources(&mut self) {
        for source in &mut self.config.sources {
            source.loop_at_end = true;
            source.playback_fps = Playback::Unlimited;
            if let SourceUri::Synthetic(scene) = &mut source.uri {
                scene.pacing = Pacing::Unlimited;
            }
        }
    }

    fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    fn choose_rendering(&mut self, step: AblationStep, capabilities: &Capabilities) {
        let Some(reason) = &capabilities.recording_error else {
            return;
        };
        if step == AblationStep::Naive {
            self.note(format!("nothing is drawn: {reason}"));
        } else if step == AblationStep::WithoutRendering {
            self.note("same as before: nothing was drawn");
        }
    }

    fn choose_batches(&mut self, step: AblationStep, config: &Config, capabilities: &Capabilities) {
        let batches = step >= AblationStep::Batched;
        let (frames, why_one) = match config.detector.batch_size {
            _ if capabilities.is_batch_one_only => (1, "the network takes one frame at a time"),
            1 => (
                config.sources.len().min(MAX_BATCH_SIZE as usize),
                "one source gives single frames",
            ),
            size => (size, ""),
        };
        self.config.detector.batch_size = if batches { frames } else { 1 };
        for network in &mut self.config.secondary {
            network.batch_size = match (batches, network.batch_size) {
                (false, _) => 1,
                (true, 1) => CROPS,
                (true, size) => size,
            };
        }
        if step == AblationStep::Batched {
            let crops: Vec<String> = self
                .config
                .secondary
                .iter()
                .map(|network| format!("{} crops of {}", network.batch_size, network.name))
                .collect();
            let note = match (frames, crops.is_empty()) {
                (1, true) => format!("same as before: {why_one}, and no secondary network"),
                (1, false) => format!("{}; {why_one}", crops.join(", ")),
                (frames, true) => format!("{frames} frames; no secondary network"),
                (frames, false) => format!("{frames} frames, {}", crops.join(", ")),
            };
            self.note(note);
        }
    }

    fn choose_precision(
        &mut self,
        step: AblationStep,
        config: &Config,
        capabilities: &Capabilities,
    ) {
        let Some(primary) = &capabilities.primary else {
            self.choose_secondary_precision(step, capabilities);
            if step == AblationStep::Int8 {
                self.note("the scripted detector has no INT8");
            }
            return;
        };
        let has_full = primary.iter().any(|known| known == FP32);
        let detector = &mut self.config.detector;
        let notes = if step >= AblationStep::Int8 {
            let notes = int8(
                detector,
                &config.detector,
                has_full,
                capabilities.int8(primary),
            );
            notes
                .into_iter()
                .filter(|_| step == AblationStep::Int8)
                .collect()
        } else {
            let notes = fp32(detector, has_full).into_iter();
            notes
                .filter(|_| step == AblationStep::Naive)
                .collect::<Vec<_>>()
        };
        self.notes.extend(notes);
        self.choose_secondary_precision(step, capabilities);
    }

    fn choose_secondary_precision(&mut self, step: AblationStep, capabilities: &Capabilities) {
        let networks = self
            .config
            .secondary
            .iter_mut()
            .zip(&capabilities.secondary);
        for (network, known) in networks {
            if step >= AblationStep::Int8 && is_int8(network.precision.as_deref()) {
                continue;
            }
            let wanted = match step {
                AblationStep::Int8 | AblationStep::Interval => capabilities.int8(known),
                _ => known.iter().any(|known| known == FP32).then_some(FP32),
            };
            // A network without this precision runs as configured in all steps.
            if let Some(wanted) = wanted {
                network.precision = Some(wanted.to_owned());
            }
        }
    }

    fn choose_interval(&mut self, step: AblationStep, config: &Config) {
        if step != AblationStep::Interval {
            self.config.detector.interval = Interval::Frames(0);
            for source in &mut self.config.sources {
                source.interval = None;
            }
            return;
        }
        // The adaptive interval follows the load of live sources; here sources wait, so it would skip no frame.
        let fixed = |interval: Interval| match interval {
            Interval::Frames(0) | Interval::Adaptive => Interval::Frames(INTERVAL),
            fixed @ Interval::Frames(_) => fixed,
        };
        let chosen = fixed(config.detector.interval);
        self.config.detector.interval = chosen;
        for source in &mut self.config.sources {
            source.interval = source.interval.map(fixed);
        }
        if let Interval::Frames(skipped) = chosen {
            self.note(format!("inference on every {}", ordinal(skipped + 1)));
        }
    }
}

/// `4th frame`.
fn ordinal(number: u32) -> String {
    let ending = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{ending} frame")
}

/// Whether a source is a synthetic scene.
fn is_synthetic(source: &SourceConfig) -> bool {
    matches!(source.uri, SourceUri::Synthetic(_))
}

/// The unquantized network, for the steps before the last; and the reason where there is none.
fn fp32(detector: &mut DetectorConfig, has_fp32: bool) -> Vec<String> {
    detector.tensorrt.calibration = None;
    if !has_fp32 {
        let given = detector.precision.as_deref();
        let given = given.unwrap_or("its first precision");
        return vec![format!("this model has no FP32: {given} in its place")];
    }
    detector.precision = Some(FP32.to_owned());
    let dla = detector.tensorrt.dla.take();
    let note = dla.map(|_| "on the GPU up to the last step: a DLA has no FP32".to_owned());
    note.into_iter().collect()
}

/// Whether a precision is INT8 of some kind.
fn is_int8(precision: Option<&str>) -> bool {
    precision.is_some_and(|precision| precision.starts_with(INT8))
}

/// The network of the last step; and the reason where it is not in INT8.
fn int8(
    detector: &mut DetectorConfig,
    given: &DetectorConfig,
    has_fp32: bool,
    own: Option<&str>,
) -> Vec<String> {
    if is_int8(given.precision.as_deref()) {
        // One of several kinds, as configured.
        detector.precision.clone_from(&given.precision);
    } else if let Some(own) = own {
        detector.precision = Some(own.to_owned());
    } else if given.tensorrt.calibration.is_none() {
        // With a calibration, TensorRT makes INT8 of the whole network, as configured.
        fp32(detector, has_fp32);
        return vec!["this model has no INT8".to_owned()];
    }
    let dla = given.tensorrt.dla;
    let note = dla.map(|dla| format!("on DLA {dla}, as configured"));
    note.into_iter().collect()
}

#[cfg(test)]
mod tests;
