//! A worker of a secondary network: takes crops, scales them, runs its network on batches of them, hands findings on.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, Sender};

use jetwatch_detect::{DetectError, Detector, Resampler};
use jetwatch_source::PixelPool;
use jetwatch_telemetry::{Level, Pulse, Recorder, Stage};
use jetwatch_types::{Detection, Frame, FrameMeta, Letterbox, PIXEL_BYTES, Picture};

use super::network::Network;
use super::votes::Vote;
use super::{Finding, Job};
use crate::follow::News;

/// What the workers of one network need. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Station {
    pub(super) index: usize,
    pub(super) network: Arc<Network>,
    pub(super) jobs: Receiver<Job>,
    /// Networks that look at the boxes that this one finds.
    pub(super) children: Vec<(Arc<Network>, Sender<Job>)>,
    pub(super) pool: PixelPool,
}

/// Runs until nobody sends crops any more, or the network fails.
pub(crate) fn work(
    mut detector: Box<dyn Detector>,
    station: &Station,
    news: &Sender<News>,
    recorder: &Recorder,
    pulse: &Pulse,
) -> Result<(), DetectError> {
    let network = &station.network;
    let mut resampler = Resampler::default();
    let mut batch: Vec<Job> = Vec::with_capacity(network.batch_size);
    let mut frames: Vec<Frame> = Vec::with_capacity(network.batch_size);
    let mut results: Vec<Vec<Detection>> = Vec::with_capacity(network.batch_size);
    loop {
        pulse.waits();
        let mut whole = recorder.batch(Level::Secondary, network.batch_size);
        {
            let mut range = recorder.range(Stage::SecondaryWait, network.batch_size);
            let came = station.next_batch(&mut batch).then_some(batch.len());
            range.set_items(came);
            whole.set_items(came);
            if came.is_none() {
                return Ok(());
            }
        }
        pulse.works();
        let range = recorder.range(Stage::Secondary, batch.len());
        let started = Instant::now();
        let waited: Duration = batch
            .iter()
            .map(|job| started.saturating_duration_since(job.since))
            .sum();
        frames.extend(batch.iter().map(|job| station.frame(job, &mut resampler)));
        detector.detect(&frames, &mut results)?;
        network
            .counters
            .batch(batch.len(), waited, started.elapsed());
        drop(range);
        drop(whole);
        frames.clear();
        station.pass_on(&batch, &results);
        for (job, found) in batch.drain(..).zip(&results) {
            let finding = Finding {
                network: station.index,
                source: job.source,
                track: job.track,
                votes: station.votes(&job, found),
                _claim: job.claim,
            };
            if news.send(News::Finding(finding)).is_err() {
                return Ok(());
            }
        }
    }
}

impl Station {
    /// Replaces `batch` by 1 to `batch_size` crops; false when no more come.
    fn next_batch(&self, batch: &mut Vec<Job>) -> bool {
        batch.clear();
        let Ok(first) = self.jobs.recv() else {
            return false;
        };
        batch.push(first);
        let deadline = Instant::now() + self.network.batch_timeout;
        while batch.len() < self.network.batch_size {
            match self.jobs.recv_deadline(deadline) {
                Ok(job) => batch.push(job),
                // The time is up, or what is here is the last.
                Err(_) => break,
            }
        }
        true
    }

    /// A crop as the network wants it: a picture of its own, scaled.
    fn frame(&self, job: &Job, resampler: &mut Resampler) -> Frame {
        let source_size = job.crop.source_size();
        let inner = Letterbox::new(source_size, self.network.input, self.network.placement).inner;
        let stride = inner.width as usize * PIXEL_BYTES;
        let mut scaled = self.pool.take(stride * inner.height as usize);
        let (pixels, size) = job.crop.pixels();
        resampler.scale(pixels, size, inner, scaled.as_mut());
        Frame {
            meta: FrameMeta {
                source: job.source,
                seq: job.seq,
                pts: None,
                captured_at: SystemTime::UNIX_EPOCH,
                entered_at: job.since,
                source_size,
            },
            crop: None,
            picture: Picture::new(inner, stride, Box::new(scaled))
                .expect("the memory was taken for this size"),
            view: None,
            truth: Vec::new(),
        }
    }

    /// What is found in a crop as votes: of each class the best, which comes first.
    fn votes(&self, job: &Job, found: &[Detection]) -> Vec<Vote> {
        let mut votes: Vec<Vote> = Vec::with_capacity(found.len());
        for detection in found {
            if votes.iter().all(|vote| vote.class != detection.class) {
                let xyxy = self.network.gives_boxes.then_some(detection.xyxy);
                votes.push(Vote {
                    class: detection.class,
                    score: detection.score,
                    xyxy: xyxy.map(|xyxy| job.crop.to_source(&xyxy)),
                });
            }
        }
        votes
    }

    /// Sends the boxes that were found in a batch to those who look at them.
    fn pass_on(&self, batch: &[Job], results: &[Vec<Detection>]) {
        for (child, queue) in &self.children {
            let mut objects = 0;
            for (job, found) in batch.iter().zip(results) {
                // Of several the best: an object has one value of each attribute.
                let best = found.iter().find_map(|detection| {
                    let xyxy = job.crop.to_source(&detection.xyxy);
                    (child.accepts(detection.class) && child.is_large_enough(&xyxy)).then_some(xyxy)
                });
                let crop = best.and_then(|xyxy| job.crop.part(&xyxy, child.margin, &self.pool));
                let Some(crop) = crop else { continue };
                objects += 1;
                let job = Job {
                    crop,
                    since: Instant::now(),
                    claim: job.claim.clone(),
                    ..*job
                };
                if queue.try_send(job).is_err() {
                    child.counters.dropped();
                }
            }
            child.counters.eligible(objects);
        }
    }
}
