// SPDX-License-Identifier: Apache-2.0
//! The networks of a run, loaded before anything starts, and the encoder of its recording.

use std::sync::Arc;

use jetwatch_config::{Config, ConfigError};
use jetwatch_detect::DetectorFactory;
use jetwatch_record::{EncoderChoice, Recording};
use jetwatch_source as source;
use jetwatch_telemetry::Recorder;

use super::detector_status::DetectorStatusPublisher;
use super::labels::{missing_group_labels, renamed_labels, unknown_labels};
use super::secondary::{PreparedSecondary, check_boxes, prepare_secondary, take_appearance};
use super::sources::needs_gstreamer;
use super::{Options, PipelineError};

/// What is loaded before anything starts.
pub(super) struct Models {
    pub(super) detector: Arc<DetectorFactory>,
    pub(super) secondary: Vec<PreparedSecondary>,
    /// The network for the appearance of detections.
    pub(super) appearance: Option<PreparedSecondary>,
    /// `None` where nothing is recorded.
    pub(super) encoder: Option<EncoderChoice>,
}

impl Models {
    /// Loads the detector, which may take minutes, and the secondary networks.
    pub(super) fn load(
        config: &Config,
        options: &Options,
        status: &DetectorStatusPublisher<'_>,
        recorder: &Recorder,
    ) -> Result<Self, PipelineError> {
        let encoder = match &options.record {
            Some(path) => {
                source::gst::init(&config.log.gst_debug)?;
                Some(Recording::prepare(path)?)
            }
            None => None,
        };
        let detector = Arc::new(status.load(recorder)?);
        check_boxes(&detector)?;
        let unknown = unknown_labels(config, detector.classes());
        if !unknown.is_empty() {
            return Err(ConfigError::new(unknown).into());
        }
        for missing in missing_group_labels(config, detector.classes()) {
            log::warn!("{missing}");
        }
        if let Some(renamed) = renamed_labels(config, detector.classes()) {
            log::info!("{renamed}");
        }
        // After the detector, which frees much memory on this thread's heap: the registry of GStreamer fits into it.
        if config.sources.iter().any(needs_gstreamer) {
            source::gst::init(&config.log.gst_debug)?;
        }
        // The first network that cannot work is the error; the others are logged.
        let mut secondary = prepare_secondary(config, detector.classes()).map_err(|problems| {
            let (first, others) = *problems;
            for other in others {
                log::error!("{other}");
            }
            first
        })?;
        Ok(Self {
            detector,
            appearance: take_appearance(config, &mut secondary),
            secondary,
            encoder,
        })
    }
}
