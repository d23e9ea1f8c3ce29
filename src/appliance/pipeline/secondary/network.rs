// SPDX-License-Identifier: Apache-2.0
//! The settings of one secondary network, shared by the tracking stage and its workers, and tokens for crops in flight.

use std::sync::Arc;

use jetwatch_detect::layouts::LayoutKind;
use jetwatch_types::{Size, Xyxy};

use super::counters::Counters;
use super::prepare::PreparedSecondary;
use super::votes::VoteRule;

/// One secondary network.
pub(crate) struct Network {
    pub(crate) name: Arc<str>,
    pub(super) labels: Vec<Arc<str>>,
    /// The network whose results are its input; `None`: tracked objects are.
    pub(super) parent: Option<usize>,
    /// For each class of its parent, whether it is accepted; empty: all are.
    pub(super) classes: Box<[bool]>,
    pub(super) min_object: Size,
    /// Margin of crops around the object, as a share of its sides.
    pub(crate) margin: f32,
    pub(crate) batch_size: usize,
    pub(super) batch_timeout: std::time::Duration,
    pub(super) reinfer_interval: u32,
    pub(super) rule: VoteRule,
    /// It is a detector, whose boxes may be the input of other networks.
    pub(super) is_detector: bool,
    pub(super) input: Size,
    pub(super) placement: jetwatch_types::Placement,
    pub(crate) counters: Arc<Counters>,
}

impl Network {
    pub(crate) fn new(prepared: &PreparedSecondary) -> Self {
        let (config, detector) = (&prepared.config, &prepared.prepared);
        let classifier = detector
            .spec()
            .map(|spec| &spec.output.layout)
            .filter(|layout| layout.kind() == LayoutKind::Classifier);
        Self {
            name: config.name.as_str().into(),
            labels: detector
                .labels()
                .iter()
                .map(|label| label.as_str().into())
                .collect(),
            parent: config.on,
            classes: prepared.classes.clone(),
            min_object: config.min_object,
            margin: detector.spec().map_or(0.0, |spec| spec.crop_margin),
            batch_size: config.batch_size,
            batch_timeout: config.batch_timeout,
            reinfer_interval: config.reinfer_interval,
            rule: VoteRule {
                window: config.vote_frames,
                threshold: detector.score_threshold(),
                allow_several: classifier.is_none_or(|layout| layout.allows_several()),
            },
            is_detector: classifier.is_none(),
            input: detector.input_size(),
            placement: detector.placement(),
            counters: Arc::new(Counters::new(prepared.max_batch, config.batch_size)),
        }
    }

    /// Whether it accepts `class` of its parent.
    pub(crate) fn accepts(&self, class: u16) -> bool {
        let kept = self.classes.get(usize::from(class)).copied();
        kept.unwrap_or(self.classes.is_empty())
    }

    /// Whether a box has at least the minimum size.
    pub(crate) fn is_large_enough(&self, [left, top, right, bottom]: &Xyxy) -> bool {
        right - left >= self.min_object.width as f32
            && bottom - top >= self.min_object.height as f32
    }

    /// The label of a class, which is one of its own.
    pub(super) fn label(&self, class: u16) -> Arc<str> {
        Arc::clone(&self.labels[usize::from(class)])
    }
}

/// Marks crops of a source as in flight, as long as clones of it exist.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlightToken(Arc<()>);

impl InFlightToken {
    /// Whether others have a clone.
    pub(super) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}
