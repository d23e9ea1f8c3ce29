//! A detector worker: takes batches from the lanes, runs its own detector, hands results on.
//!
//! Two or more of them overlap the network of one batch with the CPU work of another; the follower puts their results back
//! into order.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;

use crate::detect::{DetectError, Detector};
use crate::telemetry::{Level, Pulse, Recorder, Stage};
use crate::types::{Detection, Frame, FrameMeta};

use super::cascade::{Permits, Pixels};
use super::follow::News;
use super::lanes::{Lanes, Ticketed};

/// Settings of a worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchRule {
    pub(super) size: usize,
    pub(super) timeout: Duration,
}

/// Runs until the lanes are closed and drained, or the detector fails.
pub(super) fn work(
    mut detector: Box<dyn Detector>,
    lanes: &Arc<Lanes>,
    rule: BatchRule,
    recorder: &Recorder,
    results: &Sender<News>,
    pulse: &Pulse,
    keep: Option<&Permits>,
) -> Result<(), DetectError> {
    let mut taken: Vec<Ticketed> = Vec::with_capacity(rule.size);
    let mut batch: Vec<Frame> = Vec::with_capacity(rule.size);
    let mut stubs: Vec<(u64, FrameMeta)> = Vec::with_capacity(rule.size);
    let mut kept: Vec<Option<Pixels>> = Vec::with_capacity(rule.size);
    let mut detections: Vec<Vec<Detection>> = Vec::with_capacity(rule.size);
    loop {
        pulse.waits();
        let mut whole = recorder.batch(Level::Detect, rule.size);
        {
            let mut range = recorder.range(Stage::Batch, rule.size);
            let came = lanes
                .next_batch(rule.size, rule.timeout, &mut taken)
                .then_some(taken.len());
            range.set_items(came);
            whole.set_items(came);
            if came.is_none() {
                return Ok(());
            }
        }
        pulse.works();
        for item in taken.drain(..) {
            stubs.push((item.ticket, item.frame.meta));
            batch.push(item.frame);
        }
        detector.detect(&batch, &mut detections)?;
        drop(whole);
        // Pixels go back to their pool before anybody waits for the follower, but for those that are to be looked at again.
        kept.extend(
            batch
                .drain(..)
                .map(|frame| keep.and_then(|keep| keep.keep(frame))),
        );
        let pictures = kept.drain(..);
        for (((ticket, meta), found), pixels) in
            stubs.drain(..).zip(detections.drain(..)).zip(pictures)
        {
            if results
                .send(News::Result {
                    ticket,
                    meta,
                    detections: found,
                    pixels,
                })
                .is_err()
            {
                return Ok(());
            }
        }
    }
}
