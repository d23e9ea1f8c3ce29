//! Secondary networks made ready: their models read and opened, their classes looked up. Done once, before any thread starts.

use crate::config::{Backend, Config, DetectorConfig, MAX_BATCH_SIZE, SecondaryConfig};
use crate::detect::{self, ClassFilter, DetectError, Detector, Prepared};
use crate::pipeline::PipelineError;
use crate::telemetry::Recorder;

/// A secondary network that can run.
pub struct PreparedSecondary {
    pub(super) config: SecondaryConfig,
    pub(super) prepared: Prepared,
    /// Flags for the classes that it looks at; empty: all.
    pub(super) classes: Box<[bool]>,
    /// Most crops in one run of the network.
    pub(super) most: usize,
}

impl PreparedSecondary {
    /// Its name in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// What runs which network, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        self.prepared.describe()
    }

    /// The detector of a worker, made on its own thread.
    pub(in crate::pipeline) fn make_detector(
        &self,
        worker: usize,
    ) -> Result<Box<dyn Detector>, DetectError> {
        self.prepared.make_detector(worker)
    }

    /// How many of it run side by side.
    pub(in crate::pipeline) fn workers(&self) -> usize {
        self.config.workers
    }
}

/// Opens the secondary networks of `config`, whose primary detector has the `labels`. The first that cannot work is the
/// error, with its place in the list.
pub fn prepare_secondary(
    config: &Config,
    labels: &[String],
) -> Result<Vec<PreparedSecondary>, PipelineError> {
    let networks = config.secondary.iter().enumerate();
    let opened: Vec<(&SecondaryConfig, Prepared)> = networks
        .map(|(index, network)| Ok((network, open(config, index, network)?)))
        .collect::<Result<_, PipelineError>>()?;
    let classes: Vec<Box<[bool]>> = opened
        .iter()
        .enumerate()
        .map(|(index, (network, _))| {
            let labels = match network.on {
                None => labels,
                Some(parent) => opened[parent].1.labels(),
            };
            chosen(index, network, labels)
        })
        .collect::<Result<_, PipelineError>>()?;
    let prepared = opened.into_iter().zip(classes);
    Ok(prepared
        .map(|((config, prepared), classes)| PreparedSecondary {
            config: config.clone(),
            most: if prepared.takes_single_frames() {
                1
            } else {
                MAX_BATCH_SIZE as usize
            },
            prepared,
            classes,
        })
        .collect())
}

fn failed(index: usize, network: &SecondaryConfig, cause: DetectError) -> PipelineError {
    PipelineError::Secondary {
        key: format!("secondary[{index}]"),
        name: network.name.clone(),
        cause: Box::new(cause),
    }
}

fn open(
    config: &Config,
    index: usize,
    network: &SecondaryConfig,
) -> Result<Prepared, PipelineError> {
    // Stages inside of the network are those of the primary detector; a batch of crops is one range as a whole.
    let prepared = detect::prepare(&settings(&config.detector, network), &Recorder::silent())
        .map_err(|cause| failed(index, network, cause))?;
    if prepared.takes_single_frames() && network.batch_size > 1 {
        return Err(PipelineError::SecondaryBatch {
            key: format!("secondary[{index}].batch_size"),
            found: network.batch_size,
            model: prepared.model().to_owned(),
        });
    }
    Ok(prepared)
}

/// The settings of the primary detector with what the secondary network has of its own.
fn settings(detector: &DetectorConfig, network: &SecondaryConfig) -> DetectorConfig {
    DetectorConfig {
        backend: match detector.backend {
            // The truth knows nothing of attributes.
            Backend::Scripted => Backend::Auto,
            backend => backend,
        },
        model: Some(network.model.clone()),
        precision: network.precision.clone(),
        score_threshold: network.threshold,
        nms_iou: None,
        classes: Vec::new(),
        batch_size: network.batch_size,
        batch_timeout: network.batch_timeout,
        workers: network.workers,
        ..detector.clone()
    }
}

/// Flags for the classes that the network looks at.
fn chosen(
    index: usize,
    network: &SecondaryConfig,
    labels: &[String],
) -> Result<Box<[bool]>, PipelineError> {
    if network.classes.is_empty() {
        return Ok(Box::default());
    }
    let filter = match ClassFilter::new(labels, &network.classes) {
        Err(DetectError::UnknownClass { label, near, .. }) => {
            return Err(PipelineError::SecondaryClass {
                key: format!("secondary[{index}].on.classes"),
                of: match network.on {
                    None => "detector",
                    Some(_) => "network that it stands on",
                },
                label,
                near,
                known: labels.to_vec(),
            });
        }
        Err(cause) => return Err(failed(index, network, cause)),
        Ok(filter) => filter,
    };
    // The labels are at most 10 000.
    Ok((0..labels.len())
        .map(|class| filter.keeps(class as u16))
        .collect())
}
