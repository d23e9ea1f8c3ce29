// SPDX-License-Identifier: Apache-2.0
//! An inference worker: takes batches from the batcher, runs its detector, and sends the results to the tracking stage.
//!
//! Two or more workers overlap the network of one batch with the CPU work of another; the tracking stage restores the order of
//! their results.

use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::Sender;

use jetwatch_detect::{DetectError, Detector, DetectorFactory};
use jetwatch_pixels::motion::GrayReducer;
use jetwatch_telemetry::{Heartbeat, Level, Recorder, Stage};
use jetwatch_types::{BudgetedImage, Detection, Frame, FrameMeta};

use super::PipelineError;
use super::appearance::PendingResult;
use super::batcher::{BatchSettings, Batcher, QueuedFrame};
use super::image_budgets::ImageBudgets;
use super::track::{FrameResult, TrackInput};
use super::workers::DetectorWorker;

/// What the inference workers share.
pub(super) struct InferWorkers {
    pub(super) detector: Arc<DetectorFactory>,
    /// Receives stage times.
    pub(super) recorder: Recorder,
    pub(super) settings: BatchSettings,
    pub(super) batcher: Arc<Batcher>,
    pub(super) results: ResultQueue,
    /// Limits the images kept for later stages; `None` where no stage needs them.
    pub(super) image_budgets: Option<ImageBudgets>,
    /// Whether the tracking stage estimates the motion of the cameras.
    pub(super) needs_gray: bool,
}

/// Where results go.
pub(super) enum ResultQueue {
    /// To the tracking stage.
    Track(Sender<TrackInput>),
    /// To the network for the appearance of detections, and from there to the tracking stage.
    Appearance(Sender<PendingResult>),
}

impl ResultQueue {
    /// Sends the result with this place in the order of its source; false where its receivers have ended.
    fn send(&self, order: u64, result: FrameResult) -> bool {
        match self {
            Self::Track(results) => results
                .send(TrackInput::Detections { order, result })
                .is_ok(),
            Self::Appearance(results) => results.send((order, result)).is_ok(),
        }
    }
}

impl DetectorWorker for InferWorkers {
    fn load(&self, index: usize) -> Result<Box<dyn Detector>, DetectError> {
        self.detector.create(index)
    }

    fn run(&self, detector: Box<dyn Detector>, heartbeat: &Heartbeat) -> Result<(), DetectError> {
        run_worker(detector, self, heartbeat)
    }

    fn error(&self, cause: DetectError) -> PipelineError {
        cause.into()
    }
}

/// Runs until the batcher is closed and drained, or the detector fails.
fn run_worker(
    mut detector: Box<dyn Detector>,
    context: &InferWorkers,
    heartbeat: &Heartbeat,
) -> Result<(), DetectError> {
    let InferWorkers {
        batcher,
        results,
        image_budgets,
        recorder,
        ..
    } = context;
    let BatchSettings { size, timeout } = context.settings;
    let mut taken: Vec<QueuedFrame> = Vec::with_capacity(size);
    let mut batch: Vec<Frame> = Vec::with_capacity(size);
    let mut pending: Vec<(u64, FrameMeta, bool)> = Vec::with_capacity(size);
    let mut detections: Vec<Vec<Detection>> = Vec::with_capacity(size);
    let mut images = Vec::with_capacity(size);
    let mut reducer = context.needs_gray.then(GrayReducer::default);
    loop {
        heartbeat.idle();
        let mut batch_range = recorder.batch(Level::Detect, size);
        {
            let mut range = recorder.range(Stage::Batch, size);
            let received = batcher
                .next_batch(size, timeout, &mut taken)
                .then_some(taken.len());
            range.set_items(received);
            batch_range.set_items(received);
            if received.is_none() {
                return Ok(());
            }
        }
        heartbeat.busy();
        let taken_at = Instant::now();
        for item in taken.drain(..) {
            pending.push((item.order, item.frame.meta, item.is_live));
            batch.push(item.frame);
        }
        detector.detect(&batch, &mut detections)?;
        batcher.add_busy_time(taken_at.elapsed());
        drop(batch_range);
        // Images return to their pool before this thread may wait for the tracking stage, but for the limited number that later
        // stages need.
        let keep = |frame, is_live| keep_full_image(image_budgets.as_ref()?, frame, is_live);
        let frames = batch.drain(..).zip(&pending);
        images.extend(frames.map(|(frame, (.., is_live))| {
            let gray = reducer.as_mut().and_then(|reducer| reducer.reduce(&frame));
            (gray, keep(frame, *is_live))
        }));
        let _range = recorder.range(Stage::SendResults, pending.len());
        let in_worker = Some([taken_at, Instant::now()]);
        let results_of_batch = pending.drain(..).zip(detections.drain(..));
        for (((order, meta, _), detections), (gray, full_image)) in
            results_of_batch.zip(images.drain(..))
        {
            let result = FrameResult {
                meta,
                in_worker,
                detections: Some(detections),
                embeddings: Vec::new(),
                gray,
                full_image,
            };
            if !results.send(order, result) {
                return Ok(());
            }
        }
    }
}

/// Keeps an image of a frame for later stages: the full image where there is one, else the network's, if the CPU can read it.
fn keep_full_image(budgets: &ImageBudgets, frame: Frame, is_live: bool) -> Option<BudgetedImage> {
    // Later stages need the whole image, not the region of interest.
    let is_whole = frame.crop.is_none();
    let uncropped = (is_whole && budgets.needs_each()).then_some(frame.image);
    let image = frame.full_image.or(uncropped)?;
    image
        .is_cpu_readable()
        .then(|| budgets.keep(image, is_live))
        .flatten()
}
