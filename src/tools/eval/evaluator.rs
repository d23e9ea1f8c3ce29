// SPDX-License-Identifier: Apache-2.0
//! Runs detectors on a list of images: every image once through each of one or more precisions of a model.
//!
//! Images are scaled by the daemon's elements and batched by its [`Batcher`]. Each worker holds one detector of each precision and
//! runs all of them on a batch, so that an image is decoded only once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use jetwatch_config::{Config, DetectorConfig};
use jetwatch_detect::{self as detect, DetectError, Detector, DetectorFactory};
use jetwatch_pipeline::{Batcher, PipelineError, join, spawn};
use jetwatch_source::{self as source, Flow, FrameHandler, SourceContext};
use jetwatch_telemetry::{Recorder, Stage, StopToken};
use jetwatch_types::{Detection, Frame, FrameMeta, Size, SourceId};

/// Interval between calls of the progress callback.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(20);

/// Files of images with their annotated sizes.
pub type ImageList = Arc<[(PathBuf, Size)]>;

/// Loaded detectors, one per precision.
pub(crate) struct Evaluator {
    config: Config,
    networks: Arc<[(DetectorFactory, Recorder)]>,
}

/// The detections of a run.
pub struct EvaluationRun {
    /// For each precision: the detections of each image, best first; `None` where the image could not be read.
    pub found: Vec<Vec<Option<Vec<Detection>>>>,
    /// Images that could not be read or have another size than annotated: index in the list and reason, in order.
    pub unreadable: Vec<(usize, String)>,
    /// Time from the first image to the last result.
    pub elapsed: Duration,
    /// For each precision: mean time of one image inside the network, in ms.
    pub infer_ms: Vec<f64>,
}

impl Evaluator {
    /// Opens the model of `config` once for each of `precisions`, which are names of files in it.
    ///
    /// The minimum score is that of `config`. Of its sources only the first is used, for name and stall timeout.
    ///
    /// # Errors
    /// The model cannot be loaded, or GStreamer cannot be started.
    pub(crate) fn new(config: &Config, precisions: &[String]) -> Result<Self, PipelineError> {
        let networks = precisions.iter().map(|precision| {
            let recorder = Recorder::default();
            let detector = DetectorConfig {
                precision: Some(precision.clone()),
                ..config.detector.clone()
            };
            Ok((detect::load(&detector, &recorder)?, recorder))
        });
        let networks: Vec<_> = networks.collect::<Result<_, DetectError>>()?;
        source::gst::init(&config.log.gst_debug)?;
        Ok(Self {
            config: config.clone(),
            networks: networks.into(),
        })
    }

    /// Runs every image through every precision. Blocks until all are done; `progress` is called on this thread with the number of
    /// images done so far.
    ///
    /// # Errors
    /// A thread or the source cannot be started, or a detector fails. Unreadable images are no error.
    pub(crate) fn run(
        &self,
        images: &ImageList,
        progress: &mut dyn FnMut(usize),
    ) -> Result<EvaluationRun, PipelineError> {
        let detector = &self.config.detector;
        let table = Arc::new(ResultTable::new(images, self.networks.len()));
        let batcher = Arc::new(Batcher::new(&[false], detector.batch_size, None));
        let stop = StopToken::default();
        let mut workers = Vec::new();
        for index in 0..detector.workers {
            let worker = Worker {
                index,
                networks: Arc::clone(&self.networks),
                batcher: Arc::clone(&batcher),
                table: Arc::clone(&table),
                batch_size: detector.batch_size,
                batch_timeout: detector.batch_timeout,
            };
            let stop = stop.clone();
            workers.push(spawn(&format!("detect-{index}"), move || {
                let batcher = Arc::clone(&worker.batcher);
                let result = worker.run();
                if result.is_err() {
                    batcher.discard();
                    stop.stop();
                }
                result
            })?);
        }
        let source = self.start_source(images, &table, &batcher, &stop);
        if source.is_err() {
            batcher.close_all();
        }
        while !workers.iter().all(std::thread::JoinHandle::is_finished) {
            progress(table.done.load(Ordering::Relaxed));
            std::thread::sleep(PROGRESS_INTERVAL);
        }
        progress(table.done.load(Ordering::Relaxed));
        let results: Vec<_> = workers.into_iter().map(join).collect();
        let ended = source.and_then(|source| source.join().map_err(PipelineError::from));
        results.into_iter().collect::<Result<Vec<()>, _>>()?;
        match ended {
            // Without a readable image the source is empty; each image is listed in the result.
            Err(PipelineError::Source(source::SourceError::Empty)) | Ok(()) => {}
            Err(error) => return Err(error),
        }
        let infer_ms = self.networks.iter().map(|(_, recorder)| {
            let summary = recorder.summary();
            let infer = summary.stage(Stage::Infer);
            infer.total_ms / infer.items.max(1) as f64
        });
        Ok(table.finish(infer_ms.collect()))
    }

    fn start_source(
        &self,
        images: &ImageList,
        table: &Arc<ResultTable>,
        batcher: &Arc<Batcher>,
        stop: &StopToken,
    ) -> Result<source::SourceHandle, PipelineError> {
        let config = &self.config.sources[0];
        let network = &self.networks[0].0;
        let handler = Submission {
            results: Arc::clone(table),
            batcher: Arc::clone(batcher),
        };
        let context = SourceContext::standalone(
            &config.name,
            network.input_size(),
            network.placement(),
            stop,
            Arc::new(handler),
        );
        let files = images.iter().map(|(path, _)| path.clone()).collect();
        let rejecting = Arc::clone(table);
        let unreadable = move |place: usize, _: &Path, reason: &str| {
            rejecting.reject(place, reason.to_owned());
        };
        source::start_image_source(config, files, Arc::new(unreadable), context).map_err(|cause| {
            PipelineError::Thread {
                name: format!("source-{}", config.name),
                cause,
            }
        })
    }
}

/// Submits each image to the networks.
struct Submission {
    results: Arc<ResultTable>,
    batcher: Arc<Batcher>,
}

impl FrameHandler for Submission {
    fn frame(&self, frame: Frame) -> Flow {
        match self.results.submit(&frame) {
            true => self.batcher.push(frame),
            false => Flow::Continue,
        }
    }

    fn ended(&self, source: SourceId) {
        self.batcher.close(source);
    }
}

/// Results by image.
struct ResultTable {
    images: ImageList,
    /// Images with a result.
    done: AtomicUsize,
    results: Mutex<Results>,
}

struct Results {
    found: Vec<Vec<Option<Vec<Detection>>>>,
    unreadable: Vec<(usize, String)>,
    /// Arrival of the first image.
    began: Option<Instant>,
    /// Arrival of the latest result.
    ended: Option<Instant>,
}

impl ResultTable {
    fn new(images: &ImageList, networks: usize) -> Self {
        Self {
            done: AtomicUsize::new(0),
            results: Mutex::new(Results {
                found: vec![vec![None; images.len()]; networks],
                unreadable: Vec::new(),
                began: None,
                ended: None,
            }),
            images: Arc::clone(images),
        }
    }

    fn results(&self) -> MutexGuard<'_, Results> {
        self.results.lock()
    }

    /// Whether the frame goes to the detectors: an image of another size than annotated is rejected.
    fn submit(&self, frame: &Frame) -> bool {
        self.results().began.get_or_insert_with(Instant::now);
        let place = image_index(&frame.meta);
        let (found, expected) = (frame.meta.source_size, self.images[place].1);
        if found != expected {
            let reason = format!(
                "it has {found} pixels, but was annotated with {expected}: it was rotated or scaled since"
            );
            self.reject(place, reason);
        }
        found == expected
    }

    fn reject(&self, place: usize, reason: String) {
        self.results().unreadable.push((place, reason));
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Stores what network number `network` found in the images with the indices `places`.
    fn record(&self, network: usize, places: &[usize], found: &mut Vec<Vec<Detection>>) {
        let mut results = self.results();
        for (place, found) in places.iter().zip(found.drain(..)) {
            results.found[network][*place] = Some(found);
        }
        results.ended = Some(Instant::now());
        if network + 1 == results.found.len() {
            self.done.fetch_add(places.len(), Ordering::Relaxed);
        }
    }

    fn finish(&self, infer_ms: Vec<f64>) -> EvaluationRun {
        let mut results = self.results();
        let mut unreadable = std::mem::take(&mut results.unreadable);
        unreadable.sort();
        let took = match (results.began, results.ended) {
            (Some(began), Some(ended)) => ended.saturating_duration_since(began),
            _ => Duration::ZERO,
        };
        EvaluationRun {
            found: std::mem::take(&mut results.found),
            unreadable,
            elapsed: took,
            infer_ms,
        }
    }
}

/// Index of an image in the list.
pub(crate) fn image_index(meta: &FrameMeta) -> usize {
    meta.pts.map_or(0, |pts| pts.as_secs() as usize)
}

/// One worker with a detector of each network.
struct Worker {
    index: usize,
    networks: Arc<[(DetectorFactory, Recorder)]>,
    batcher: Arc<Batcher>,
    table: Arc<ResultTable>,
    batch_size: usize,
    batch_timeout: Duration,
}

impl Worker {
    /// Runs until the batcher is closed and drained, or a detector fails.
    fn run(self) -> Result<(), PipelineError> {
        let detectors = self
            .networks
            .iter()
            .map(|(network, _)| network.create(self.index));
        let mut detectors: Vec<Box<dyn Detector>> = detectors.collect::<Result<_, _>>()?;
        let (mut taken, mut batch, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let mut found = Vec::new();
        while self
            .batcher
            .next_batch(self.batch_size, self.batch_timeout, &mut taken)
        {
            batch.clear();
            batch.extend(taken.drain(..).map(|item| item.frame));
            places.clear();
            places.extend(batch.iter().map(|frame| image_index(&frame.meta)));
            for (network, detector) in detectors.iter_mut().enumerate() {
                detector
                    .detect(&batch, &mut found)
                    .map_err(|cause| self.failure(&places, cause))?;
                self.table.record(network, &places, &mut found);
            }
        }
        Ok(())
    }

    /// The error, with the image's path where the batch has only one.
    fn failure(&self, places: &[usize], cause: DetectError) -> PipelineError {
        match places {
            [place] => PipelineError::Image {
                path: self.table.images[*place].0.clone(),
                cause: Box::new(cause),
            },
            _ => cause.into(),
        }
    }
}
