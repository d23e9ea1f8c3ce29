//! A detector worker: takes batches from the lanes, runs its own detector, hands results on.
//!
//! Two or more of them overlap the network of one batch with the CPU work of another; the follower puts their results back
//! into order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use jetwatch_detect::{DetectError, Detector};
use jetwatch_record::{KeptView, Shelf};
use jetwatch_telemetry::{Level, Pulse, Recorder, Stage};
use jetwatch_types::{Detection, Frame, FrameMeta};

use super::follow::News;
use super::lanes::{Lanes, Ticketed};
use super::late_scale::{LateScaler, Wanted};

/// Settings of a worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchRule {
    pub(super) size: usize,
    pub(super) timeout: Duration,
    /// What it scales pictures for itself; `None`: sources do.
    pub(super) late: Option<Wanted>,
}

/// Runs until the lanes are closed and drained, or the detector fails.
pub(super) fn work(
    mut detector: Box<dyn Detector>,
    lanes: &Arc<Lanes>,
    rule: BatchRule,
    recorder: &Recorder,
    results: &Sender<News>,
    shelf: Option<&Shelf>,
    pulse: &Pulse,
) -> Result<(), DetectError> {
    let mut taken: Vec<Ticketed> = Vec::with_capacity(rule.size);
    let mut batch: Vec<Frame> = Vec::with_capacity(rule.size);
    let mut stubs: Vec<(u64, FrameMeta)> = Vec::with_capacity(rule.size);
    let mut detections: Vec<Vec<Detection>> = Vec::with_capacity(rule.size);
    let mut views = Vec::with_capacity(rule.size);
    let mut scaler = rule.late.map(LateScaler::new);
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
        let began = Instant::now();
        if let Some(scaler) = &mut scaler {
            let _range = recorder.range(Stage::Tensor, batch.len());
            for frame in &mut batch {
                scaler.fit(frame, shelf.is_some());
            }
        }
        detector.detect(&batch, &mut detections)?;
        lanes.worked(began.elapsed());
        drop(whole);
        // Pixels go back to their pool before anybody waits for the follower, but for a bounded number that is looked at again.
        views.extend(batch.drain(..).map(|frame| keep(shelf?, frame)));
        let results_of_batch = stubs.drain(..).zip(detections.drain(..));
        for (((ticket, meta), found), view) in results_of_batch.zip(views.drain(..)) {
            if results
                .send(News::Result {
                    ticket,
                    meta,
                    detections: found,
                    view,
                })
                .is_err()
            {
                return Ok(());
            }
        }
    }
}

/// Keeps the picture of a frame for later: that at source size where there is one, else that at the network's, where the
/// processor can read it.
fn keep(shelf: &Shelf, frame: Frame) -> Option<KeptView> {
    // A part of the picture is no view.
    let whole = frame.crop.is_none().then_some(frame.picture);
    let picture = frame.view.or(whole)?;
    picture.has_rows().then(|| shelf.keep(picture)).flatten()
}
