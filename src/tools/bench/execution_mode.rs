//! How the steps of `jetwatch bench --ablation` run a pipeline, through its extension points.
//!
//! The daemon drops what the recording and secondary networks cannot keep up with. In the ablation nothing is dropped, so that
//! every step does all of its work: an [`InFlightLimit`] limits the frames in the pipeline, and the sources wait for it.

use std::sync::Arc;

use jetwatch_config::Config;
use jetwatch_detect::Detector;
use jetwatch_pipeline::{DetectorContext, Options};
use jetwatch_source::{FrameHandler, ImageSize};
use jetwatch_types::OverflowPolicy;

use super::in_flight::{InFlightLimit, LimitedHandler};
use super::scaling_detector::ScalingDetector;

/// Batches of each worker that may be in the pipeline at once: one that is formed, one in the network, one behind it.
const BATCHES_IN_FLIGHT: usize = 3;

/// Batches of crops of each worker that may wait. The crop of a track is not made again while one waits, so a long queue would
/// be less work.
const CROP_BATCHES: usize = 2;

/// Execution mode of a pipeline. The default is that of the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExecutionMode {
    /// Concurrency of the frames.
    pub backpressure: Backpressure,
    /// Where images are scaled to the size of the network.
    pub scale_at: ScaleAt,
}

/// Concurrency of the frames in the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backpressure {
    /// Queues between the threads; the recording and secondary networks drop what they cannot keep up with.
    #[default]
    Drop,
    /// Queues between the threads; the sources wait for all later parts, and nothing is dropped.
    Block,
    /// The next frame starts when the one before has been published, drawn, and processed by every network.
    Serial,
}

/// Where images are scaled to the size of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScaleAt {
    /// In the source, on the scaler of the machine.
    #[default]
    Source,
    /// Behind the queue, on the CPU, by the detector's worker while it prepares its batch.
    Detector,
}

impl ExecutionMode {
    /// `options` for a run of `config` in this mode.
    #[must_use]
    pub fn apply(self, config: &Config, mut options: Options) -> Options {
        if self.scale_at == ScaleAt::Detector {
            options.image_size = ImageSize::Source;
            options.detector_decorator = Some(Arc::new(
                |detector: Box<dyn Detector>, context: &DetectorContext| -> Box<dyn Detector> {
                    Box::new(ScalingDetector::new(detector, context))
                },
            ));
        }
        if let Some(limit) = self.in_flight_limit(config) {
            options.overflow = OverflowPolicy::Block;
            let limit = Arc::new(limit);
            options.observer = Some(Arc::clone(&limit) as _);
            options.handler_decorator = Some(Arc::new(
                move |handler: Arc<dyn FrameHandler>| -> Arc<dyn FrameHandler> {
                    Arc::new(LimitedHandler::new(Arc::clone(&limit), handler))
                },
            ));
        }
        options
    }

    /// The limit of frames in the pipeline; `None` where queues drop frames instead.
    fn in_flight_limit(self, config: &Config) -> Option<InFlightLimit> {
        let batches = config.detector.workers * config.detector.batch_size;
        let networks = config.secondary.iter();
        let crops = networks.map(|network| CROP_BATCHES * network.workers * network.batch_size);
        match self.backpressure {
            Backpressure::Drop => None,
            Backpressure::Serial => Some(InFlightLimit::new(1, 0)),
            Backpressure::Block => Some(InFlightLimit::new(
                BATCHES_IN_FLIGHT * batches + config.sources.len(),
                crops.sum(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_mode_leaves_the_options_of_the_daemon() {
        let config = Config::for_source("synthetic://traffic", None).expect("a valid source");
        let options = ExecutionMode::default().apply(&config, Options::default());
        assert_eq!(options.overflow, OverflowPolicy::Drop);
        assert_eq!(options.image_size, ImageSize::Network);
        assert!(options.detector_decorator.is_none());
        assert!(options.handler_decorator.is_none() && options.observer.is_none());
    }

    #[test]
    fn serial_mode_with_late_scaling_uses_all_extension_points() {
        let config = Config::for_source("synthetic://traffic", None).expect("a valid source");
        let mode = ExecutionMode {
            backpressure: Backpressure::Serial,
            scale_at: ScaleAt::Detector,
        };
        let options = mode.apply(&config, Options::default());
        assert_eq!(options.overflow, OverflowPolicy::Block);
        assert_eq!(options.image_size, ImageSize::Source);
        assert!(options.detector_decorator.is_some());
        assert!(options.handler_decorator.is_some() && options.observer.is_some());
    }
}
