// SPDX-License-Identifier: Apache-2.0
//! Appearance of detections: the network that `tracker.appearance` names computes an embedding of each detection, before the tracking
//! stage sees the frame.
//!
//! ```text
//!   detect-N ── results of frames ──► sgie-NAME-N ── the same, with embeddings ──► track
//!               bounded queue          crops in batches                           restores the order
//! ```
//!
//! Without the option the inference workers send their results to the tracking stage directly. With it they wait when the queue is full,
//! so that frames of live sources are dropped before the detector and not after it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};

use jetwatch_detect::{DetectError, Detector};
use jetwatch_pixels::Resizer;
use jetwatch_telemetry::{Heartbeat, Level, Recorder, Stage};
use jetwatch_types::{Detection, Frame, FrameMeta, Image, PixelPool, Xyxy};

use super::PipelineError;
use super::secondary::{Crop, NamedCounters, Network, PreparedSecondary, scaled_frame};
use super::track::{FrameResult, TrackInput};
use super::workers::DetectorWorker;

/// A result on its way to the network, with its place in the order of its source.
pub(super) type PendingResult = (u64, FrameResult);

/// The workers of the network.
pub(super) struct AppearanceWorkers {
    prepared: PreparedSecondary,
    network: Network,
    pool: PixelPool,
    jobs: Receiver<PendingResult>,
    results: Sender<TrackInput>,
    recorder: Recorder,
}

impl AppearanceWorkers {
    /// For a network that takes frames from `jobs`.
    pub(super) fn new(
        prepared: PreparedSecondary,
        jobs: Receiver<PendingResult>,
        results: Sender<TrackInput>,
        recorder: Recorder,
    ) -> Self {
        Self {
            network: Network::new(&prepared),
            prepared,
            pool: PixelPool::default(),
            jobs,
            results,
            recorder,
        }
    }

    /// Name and counters of the network.
    pub(super) fn counters(&self) -> NamedCounters {
        let network = &self.network;
        (Arc::clone(&network.name), Arc::clone(&network.counters))
    }

    /// Names of the threads.
    pub(super) fn names(&self) -> Vec<String> {
        self.prepared.worker_names()
    }

    /// The crop of a box as a frame of its own, scaled for the network.
    fn frame(
        &self,
        meta: &FrameMeta,
        image: &Image,
        xyxy: &Xyxy,
        resizer: &mut Resizer,
    ) -> Option<Frame> {
        let network = &self.network;
        let crop = Crop::from_image(image, meta.source_size, xyxy, network.margin, &self.pool)?;
        Some(scaled_frame(&crop, network, *meta, &self.pool, resizer))
    }
}

impl DetectorWorker for AppearanceWorkers {
    fn load(&self, index: usize) -> Result<Box<dyn Detector>, DetectError> {
        self.prepared.make_detector(index)
    }

    fn run(&self, detector: Box<dyn Detector>, heartbeat: &Heartbeat) -> Result<(), DetectError> {
        let mut embedder = Embedder {
            detector,
            workers: self,
            resizer: Resizer::default(),
            frames: Vec::with_capacity(self.network.batch_size),
            unused: Vec::new(),
        };
        loop {
            heartbeat.idle();
            let Ok((order, mut result)) = self.jobs.recv() else {
                return Ok(());
            };
            heartbeat.busy();
            embedder.embed(&mut result)?;
            let message = TrackInput::Detections { order, result };
            if self.results.send(message).is_err() {
                return Ok(());
            }
        }
    }

    fn error(&self, cause: DetectError) -> PipelineError {
        self.prepared.error(cause)
    }
}

/// The network of one worker, and its memory.
struct Embedder<'w> {
    detector: Box<dyn Detector>,
    workers: &'w AppearanceWorkers,
    resizer: Resizer,
    frames: Vec<Frame>,
    /// The network has no detections.
    unused: Vec<Vec<Detection>>,
}

impl Embedder<'_> {
    /// Sets the embeddings of those detections of a frame that the network accepts.
    fn embed(&mut self, result: &mut FrameResult) -> Result<(), DetectError> {
        let network = &self.workers.network;
        let detections = result.detections.as_deref().unwrap_or_default();
        result.embeddings.clear();
        result.embeddings.resize(detections.len(), None);
        let of_class = (0..detections.len()).filter(|at| network.accepts(detections[*at].class));
        let is_large = |at: &usize| network.is_large_enough(&detections[*at].xyxy);
        let (accepted, small): (Vec<usize>, Vec<usize>) = of_class.partition(is_large);
        network.counters.eligible(accepted.len(), small.len());
        if accepted.is_empty() {
            return Ok(());
        }
        let Some(image) = result.full_image.as_deref() else {
            network.counters.without_pixels();
            return Ok(());
        };
        for places in accepted.chunks(network.batch_size.max(1)) {
            let _whole = self.workers.recorder.batch(Level::Secondary, places.len());
            let _range = self.workers.recorder.range(Stage::Secondary, places.len());
            let started = Instant::now();
            self.frames.clear();
            let mut shown = Vec::with_capacity(places.len());
            for &place in places {
                let xyxy = &detections[place].xyxy;
                // A box outside of the image has no pixels.
                if let Some(frame) =
                    self.workers
                        .frame(&result.meta, image, xyxy, &mut self.resizer)
                {
                    self.frames.push(frame);
                    shown.push(place);
                }
            }
            if shown.is_empty() {
                continue;
            }
            self.detector.detect(&self.frames, &mut self.unused)?;
            for (place, embedding) in shown.iter().zip(self.detector.embeddings()) {
                result.embeddings[*place] = Some(Arc::clone(embedding));
            }
            network
                .counters
                .batch(shown.len(), Duration::ZERO, started.elapsed());
        }
        self.frames.clear();
        Ok(())
    }
}
