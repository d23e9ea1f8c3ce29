// SPDX-License-Identifier: Apache-2.0
//! Loads the secondary networks: opens their models and resolves their classes, once, before any thread starts.

use crate::PipelineError;
use jetwatch_config::{
    Backend, Config, DetectorConfig, MAX_CROP_BATCH_SIZE, SecondaryConfig, TensorRtConfig,
};
use jetwatch_detect::layouts::LayoutKind;
use jetwatch_detect::{self as detect, ClassFilter, DetectError, Detector, DetectorFactory};
use jetwatch_telemetry::{Recorder, thread_names};
use jetwatch_types::Classes;

/// A secondary network that can run.
pub struct PreparedSecondary {
    /// Its place in the list of the configuration.
    index: usize,
    pub(super) config: SecondaryConfig,
    pub(super) prepared: DetectorFactory,
    /// For each class of the parent, whether it is accepted; empty: all are.
    pub(super) classes: Box<[bool]>,
    /// Most crops in one run of the network.
    pub(super) max_batch: usize,
}

impl PreparedSecondary {
    /// Its name in the configuration.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Which runtime runs which network, as text.
    pub fn describe(&self) -> String {
        self.prepared.describe()
    }

    /// Loads the detector of a worker; called on its thread.
    pub(crate) fn make_detector(&self, worker: usize) -> Result<Box<dyn Detector>, DetectError> {
        self.prepared.create(worker)
    }

    /// The error of the pipeline for an error of this network.
    pub(crate) fn error(&self, cause: DetectError) -> PipelineError {
        failed(self.index, &self.config, cause)
    }

    /// Names of the threads of its workers.
    pub(crate) fn worker_names(&self) -> Vec<String> {
        let names =
            (0..self.config.workers).map(|index| thread_names::secondary(self.name(), index));
        names.collect()
    }
}

/// Opens the secondary networks of `config`, whose primary detector has the `classes`.
///
/// # Errors
/// The first that cannot work, with its place in the list, and all others.
pub fn prepare_secondary(
    config: &Config,
    classes: &Classes,
) -> Result<Vec<PreparedSecondary>, Box<(PipelineError, Vec<PipelineError>)>> {
    let mut problems = Vec::new();
    let mut kept = |problem| problems.push(problem);
    let networks = || config.secondary.iter().enumerate();
    let opened: Vec<Option<DetectorFactory>> = networks()
        .map(|(index, network)| open(config, index, network).map_err(&mut kept).ok())
        .collect();
    let accepted: Vec<Option<Box<[bool]>>> = networks()
        .map(|(index, network)| {
            let classes = match network.on {
                None => classes,
                // The labels of a parent that cannot be opened are unknown.
                Some(parent) => opened[parent].as_ref()?.classes(),
            };
            class_flags(index, network, classes).map_err(&mut kept).ok()
        })
        .collect();
    let mut problems = problems.into_iter();
    if let Some(first) = problems.next() {
        return Err(Box::new((first, problems.collect())));
    }
    let prepared = networks().zip(opened).zip(accepted);
    Ok(prepared
        .filter_map(|(((index, config), prepared), classes)| {
            let prepared = prepared?;
            Some(PreparedSecondary {
                index,
                config: config.clone(),
                max_batch: if prepared.runs_single_frames() {
                    1
                } else {
                    MAX_CROP_BATCH_SIZE as usize
                },
                prepared,
                classes: classes?,
            })
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
) -> Result<DetectorFactory, PipelineError> {
    // Stages inside of the network are those of the primary detector; a batch of crops is one range as a whole.
    let prepared = detect::load(&settings(&config.detector, network), &Recorder::silent())
        .map_err(|cause| failed(index, network, cause))?;
    if prepared.runs_single_frames() && network.batch_size > 1 {
        return Err(PipelineError::SecondaryBatch {
            key: format!("secondary[{index}].batch_size"),
            found: network.batch_size,
            model: prepared.model().to_owned(),
        });
    }
    check_layout(config, index, network, &prepared)?;
    Ok(prepared)
}

/// Only the network for the appearance gives embeddings.
fn check_layout(
    config: &Config,
    index: usize,
    network: &SecondaryConfig,
    prepared: &DetectorFactory,
) -> Result<(), PipelineError> {
    let is_wanted = config.tracker.appearance.as_deref() == Some(network.name.as_str());
    match (is_wanted, gives_embeddings(prepared)) {
        (true, false) => Err(PipelineError::AppearanceLayout {
            name: network.name.clone(),
            model: prepared.model().to_owned(),
        }),
        (false, true) => Err(PipelineError::UnusedEmbeddings {
            key: format!("secondary[{index}]"),
            name: network.name.clone(),
            model: prepared.model().to_owned(),
        }),
        (true, true) | (false, false) => Ok(()),
    }
}

/// Whether the output of a network is a vector.
fn gives_embeddings(prepared: &DetectorFactory) -> bool {
    let spec = prepared.spec();
    spec.is_some_and(|spec| spec.output.layout.kind() == LayoutKind::Embedding)
}

/// What the network of `detector.model` gives, where these are no boxes, and what to do with it.
fn no_boxes(prepared: &DetectorFactory) -> Option<&'static str> {
    match prepared.spec()?.output.layout.kind() {
        LayoutKind::Detector => None,
        LayoutKind::Classifier => Some(
            "labels of whole images and no boxes; add it to the list `secondary`, which runs it on the objects of a detector",
        ),
        LayoutKind::Embedding => Some(
            "embeddings and no boxes; add it to the list `secondary` and name it in tracker.appearance",
        ),
    }
}

/// Fails where the network of `detector.model` gives no boxes.
///
/// # Errors
/// It is a classifier, or gives embeddings.
pub fn check_boxes(prepared: &DetectorFactory) -> Result<(), PipelineError> {
    let model = prepared.model().to_owned();
    match no_boxes(prepared) {
        Some(gives) => Err(PipelineError::NoBoxes { model, gives }),
        None => Ok(()),
    }
}

/// Takes the network that `tracker.appearance` names out of `networks`, which are all of `config`.
pub(crate) fn take_appearance(
    config: &Config,
    networks: &mut Vec<PreparedSecondary>,
) -> Option<PreparedSecondary> {
    let wanted = config.tracker.appearance.as_deref()?;
    let place = networks
        .iter()
        .position(|network| network.name() == wanted)?;
    let network = networks.remove(place);
    for other in networks {
        // None runs on it: the configuration was checked.
        other.config.on = other
            .config
            .on
            .map(|on| if on > place { on - 1 } else { on });
    }
    Some(network)
}

/// The settings of all networks of `config`, each as a detector of its own: the primary one, then the secondary ones.
pub fn all_networks(config: &Config) -> Vec<DetectorConfig> {
    let primary = &config.detector;
    let secondary = config.secondary.iter();
    let secondary = secondary.map(|network| settings(primary, network));
    [primary.clone()].into_iter().chain(secondary).collect()
}

/// The settings of the primary detector with what the secondary network has of its own. Groups are of the primary detector's
/// labels, its calibration is of another network, and its DLA is its own: secondary networks run on the GPU.
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
        groups: Vec::new(),
        batch_size: network.batch_size,
        batch_timeout: network.batch_timeout,
        workers: network.workers,
        tensorrt: TensorRtConfig {
            calibration: None,
            dla: None,
            ..detector.tensorrt.clone()
        },
        ..detector.clone()
    }
}

/// For each label, whether the network accepts it; empty: all.
fn class_flags(
    index: usize,
    network: &SecondaryConfig,
    classes: &Classes,
) -> Result<Box<[bool]>, PipelineError> {
    if network.classes.is_empty() {
        return Ok(Box::default());
    }
    let filter = match ClassFilter::with_groups(classes, &network.classes) {
        Err(DetectError::UnknownClass { label, near, .. }) => {
            return Err(PipelineError::SecondaryClass {
                key: format!("secondary[{index}].runs_on.classes"),
                of: match network.on {
                    None => "detector",
                    Some(_) => "network that it stands on",
                },
                label,
                near,
                known: classes.names(),
            });
        }
        Err(cause) => return Err(failed(index, network, cause)),
        Ok(filter) => filter,
    };
    // The labels are at most 10 000.
    Ok((0..classes.labels().len())
        .map(|class| filter.accepts(class as u16))
        .collect())
}
