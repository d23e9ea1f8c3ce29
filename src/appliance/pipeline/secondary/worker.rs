// SPDX-License-Identifier: Apache-2.0
//! A worker of a secondary network: takes crops, scales them, runs the network on batches of them, and sends the results to the
//! tracking stage.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, Sender};

use jetwatch_detect::{DetectError, Detector};
use jetwatch_pixels::{Filter, Resizer};
use jetwatch_telemetry::{Heartbeat, Level, Recorder, Stage};
use jetwatch_types::{
    Detection, Frame, FrameMeta, Image, Letterbox, PIXEL_BYTES, PixelAspect, PixelPool,
};

use super::crop::Crop;
use super::network::Network;
use super::votes::Vote;
use super::{CropJob, PreparedSecondary, SecondaryResult};
use crate::PipelineError;
use crate::workers::DetectorWorker;

/// What the workers of one network need of the others.
pub(crate) struct WorkerContext {
    pub(super) index: usize,
    pub(super) network: Arc<Network>,
    pub(super) jobs: Receiver<CropJob>,
    /// Networks whose input are the boxes that this one detects.
    pub(super) children: Vec<(Arc<Network>, Sender<CropJob>)>,
    pub(super) pool: PixelPool,
}

/// The workers of a secondary network; `M`: what the tracking stage receives.
pub(crate) struct SecondaryWorkers<M> {
    pub(crate) network: PreparedSecondary,
    pub(crate) context: WorkerContext,
    pub(crate) results: Sender<M>,
    pub(crate) recorder: Recorder,
}

impl<M: From<SecondaryResult> + Send + 'static> DetectorWorker for SecondaryWorkers<M> {
    fn load(&self, index: usize) -> Result<Box<dyn Detector>, DetectError> {
        self.network.make_detector(index)
    }

    fn run(&self, detector: Box<dyn Detector>, heartbeat: &Heartbeat) -> Result<(), DetectError> {
        run_worker(
            detector,
            &self.context,
            &self.results,
            &self.recorder,
            heartbeat,
        )
    }

    fn error(&self, cause: DetectError) -> PipelineError {
        self.network.error(cause)
    }
}

/// Runs until all senders of crops are gone, or the network fails.
fn run_worker<M: From<SecondaryResult>>(
    mut detector: Box<dyn Detector>,
    context: &WorkerContext,
    messages: &Sender<M>,
    recorder: &Recorder,
    heartbeat: &Heartbeat,
) -> Result<(), DetectError> {
    let network = &context.network;
    let mut resizer = Resizer::default();
    let mut batch: Vec<CropJob> = Vec::with_capacity(network.batch_size);
    let mut frames: Vec<Frame> = Vec::with_capacity(network.batch_size);
    let mut results: Vec<Vec<Detection>> = Vec::with_capacity(network.batch_size);
    loop {
        heartbeat.idle();
        let mut batch_range = recorder.batch(Level::Secondary, network.batch_size);
        {
            let mut range = recorder.range(Stage::SecondaryWait, network.batch_size);
            let received = context.next_batch(&mut batch).then_some(batch.len());
            range.set_items(received);
            batch_range.set_items(received);
            if received.is_none() {
                return Ok(());
            }
        }
        heartbeat.busy();
        let range = recorder.range(Stage::Secondary, batch.len());
        let started = Instant::now();
        let waited: Duration = batch
            .iter()
            .map(|job| started.saturating_duration_since(job.queued_at))
            .sum();
        frames.extend(batch.iter().map(|job| context.frame(job, &mut resizer)));
        detector.detect(&frames, &mut results)?;
        network
            .counters
            .batch(batch.len(), waited, started.elapsed());
        drop(range);
        drop(batch_range);
        frames.clear();
        context.forward_to_children(&batch, &results);
        for (job, found) in batch.drain(..).zip(&results) {
            let result = SecondaryResult {
                network: context.index,
                source: job.source,
                track: job.track,
                votes: context.votes(&job, found),
                _token: job.token,
            };
            if messages.send(result.into()).is_err() {
                return Ok(());
            }
        }
    }
}

impl WorkerContext {
    /// Replaces `batch` by 1 to `batch_size` crops; false when all senders are gone.
    fn next_batch(&self, batch: &mut Vec<CropJob>) -> bool {
        batch.clear();
        let Ok(first) = self.jobs.recv() else {
            return false;
        };
        batch.push(first);
        let deadline = Instant::now() + self.network.batch_timeout;
        while batch.len() < self.network.batch_size {
            match self.jobs.recv_deadline(deadline) {
                Ok(job) => batch.push(job),
                // The time is up, or these are the last crops.
                Err(_) => break,
            }
        }
        true
    }

    /// A crop as a frame of its own, scaled for the network.
    fn frame(&self, job: &CropJob, resizer: &mut Resizer) -> Frame {
        let meta = FrameMeta {
            source: job.source,
            seq: job.seq,
            pts: None,
            captured_at: SystemTime::UNIX_EPOCH,
            received_at: job.queued_at,
            source_size: job.crop.source_size(),
        };
        scaled_frame(&job.crop, &self.network, meta, &self.pool, resizer)
    }

    /// The detections in a crop as votes: the best one of each class, which comes first.
    fn votes(&self, job: &CropJob, found: &[Detection]) -> Vec<Vote> {
        let mut votes: Vec<Vote> = Vec::with_capacity(found.len());
        for detection in found {
            if votes.iter().all(|vote| vote.class != detection.class) {
                let xyxy = self.network.is_detector.then_some(detection.xyxy);
                votes.push(Vote {
                    class: detection.class,
                    score: detection.score,
                    xyxy: xyxy.map(|xyxy| job.crop.to_source(&xyxy)),
                });
            }
        }
        votes
    }

    /// Sends the boxes detected in a batch to the networks that work on them.
    fn forward_to_children(&self, batch: &[CropJob], results: &[Vec<Detection>]) {
        for (child, queue) in &self.children {
            let (mut objects, mut small) = (0, 0);
            for (job, found) in batch.iter().zip(results) {
                // The best one only: an object has one value of each attribute.
                let of_class = found.iter().filter(|found| child.accepts(found.class));
                let mut boxes = of_class
                    .map(|found| job.crop.to_source(&found.xyxy))
                    .peekable();
                let has_any = boxes.peek().is_some();
                let best = boxes.find(|xyxy| child.is_large_enough(xyxy));
                small += usize::from(has_any && best.is_none());
                let crop = best.and_then(|xyxy| job.crop.sub_crop(&xyxy, child.margin, &self.pool));
                let Some(crop) = crop else { continue };
                objects += 1;
                let job = CropJob {
                    crop,
                    queued_at: Instant::now(),
                    token: job.token.clone(),
                    ..*job
                };
                if queue.try_send(job).is_err() {
                    child.counters.dropped();
                }
            }
            child.counters.eligible(objects, small);
        }
    }
}

/// A crop as a frame of its own, scaled for `network`; `meta` is that of the frame which it was cut out of.
pub(crate) fn scaled_frame(
    crop: &Crop,
    network: &Network,
    meta: FrameMeta,
    pool: &PixelPool,
    resizer: &mut Resizer,
) -> Frame {
    let source_size = crop.source_size();
    let inner = Letterbox::new(source_size, network.input, network.placement).inner;
    let stride = inner.width as usize * PIXEL_BYTES;
    let mut scaled = pool.acquire(stride * inner.height as usize);
    let (pixels, size) = crop.pixels();
    resizer.scale(pixels, size, inner, Filter::Triangle, scaled.as_mut());
    Frame {
        meta: FrameMeta {
            source_size,
            ..meta
        },
        crop: None,
        pixels: PixelAspect::default(),
        image: Image::new(inner, stride, Box::new(scaled))
            .expect("the memory was taken for this size"),
        full_image: None,
        truth: Vec::new(),
    }
}
