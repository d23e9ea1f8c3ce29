//! A detector worker: takes batches from the lanes, runs its own detector, hands results on.
//!
//! Two or more of them overlap the network of one batch with the CPU work of another; the follower puts their results back
//! into order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use jetwatch_detect::{DetectError, Detector};
use jetwatch_record::{BudgetedImage, ImageBudget};
use jetwatch_source::ImageSize;
use jetwatch_telemetry::{Heartbeat, Level, Recorder, Stage};
use jetwatch_types::{Detection, Frame, FrameMeta};

use super::batcher::{Batcher, QueuedFrame};
use super::track::TrackInput;

/// Settings of a worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchSettings {
    pub(super) size: usize,
    pub(super) timeout: Duration,
    /// Size of the images that sources deliver.
    pub(super) image_size: ImageSize,
}

/// Runs until the lanes are closed and drained, or the detector fails.
pub(super) fn run_worker(
    mut detector: Box<dyn Detector>,
    lanes: &Arc<Batcher>,
    rule: BatchSettings,
    recorder: &Recorder,
    results: &Sender<TrackInput>,
    shelf: Option<&ImageBudget>,
    pulse: &Heartbeat,
) -> Result<(), DetectError> {
    let mut taken: Vec<QueuedFrame> = Vec::with_capacity(rule.size);
    let mut batch: Vec<Frame> = Vec::with_capacity(rule.size);
    let mut pending: Vec<(u64, FrameMeta)> = Vec::with_capacity(rule.size);
    let mut detections: Vec<Vec<Detection>> = Vec::with_capacity(rule.size);
    let mut full_images = Vec::with_capacity(rule.size);
    loop {
        pulse.idle();
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
        pulse.busy();
        for item in taken.drain(..) {
            pending.push((item.order, item.frame.meta));
            batch.push(item.frame);
        }
        let began = Instant::now();
        detector.detect(&batch, &mut detections)?;
        lanes.add_busy_time(began.elapsed());
        drop(whole);
        // Pixels go back to their pool before anybody waits for the follower, but for a bounded number that is looked at again.
        let keep = |frame| keep_full_image(shelf?, frame, rule.image_size);
        full_images.extend(batch.drain(..).map(keep));
        let results_of_batch = pending.drain(..).zip(detections.drain(..));
        for (((ticket, meta), found), view) in results_of_batch.zip(full_images.drain(..)) {
            if results
                .send(TrackInput::Detections {
                    order: ticket,
                    meta,
                    detections: found,
                    full_image: view,
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
fn keep_full_image(
    shelf: &ImageBudget,
    frame: Frame,
    image_size: ImageSize,
) -> Option<BudgetedImage> {
    // Later stages need the whole image, not the region of interest.
    let is_whole = frame.crop.is_none() || image_size == ImageSize::Source;
    let uncropped = is_whole.then_some(frame.image);
    let image = frame.full_image.or(uncropped)?;
    image
        .is_cpu_readable()
        .then(|| shelf.try_acquire(image))
        .flatten()
}
