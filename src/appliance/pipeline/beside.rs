//! A second detector on the frames of the first, whose tracks are recorded beside those of the first (`jetwatch run --beside`).
//!
//! [`PairDetector`] runs both networks in the inference worker, one after the other. What the second one finds waits in
//! [`Findings`] until the tracking stage has the same frame in its order; [`Beside`] tracks it there. It is drawn and not
//! published.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use jetwatch_config::{Config, ConfigError};
use jetwatch_detect::{self as detect, DetectError, Detector, DetectorFactory};
use jetwatch_record::{BesideView, Overlay};
use jetwatch_telemetry::Recorder;
use jetwatch_track::Tracker;
use jetwatch_types::{Detection, Frame, FrameMeta, SourceId, Track, TrackState};

use super::frame_scaler::FrameScaler;
use super::labels::unknown_labels;
use super::secondary::gives_embeddings;
use super::sources::tracker;
use super::track::DetectionFilter;
use super::{Options, PipelineError};

/// Frames over which the shown frame rates are means.
const RATE_FRAMES: usize = 64;

/// What the second detector found in one frame, and the time of each detector for it.
struct Finding {
    detections: Vec<Detection>,
    times: [Duration; 2],
}

/// Findings by source and number of the frame, between the inference workers and the tracking stage.
type Findings = Arc<Mutex<HashMap<(SourceId, u64), Finding>>>;

/// Makes the pair of detectors of each inference worker. Cheap to clone.
#[derive(Clone)]
pub(super) struct PairFactory {
    second: Arc<DetectorFactory>,
    findings: Findings,
}

impl PairFactory {
    /// The detector of worker number `worker`, which also runs the second network. Call it on the thread of that worker.
    pub(super) fn create(
        &self,
        first: Box<dyn Detector>,
        worker: usize,
    ) -> Result<Box<dyn Detector>, DetectError> {
        Ok(Box::new(PairDetector {
            first,
            second: self.second.create(worker)?,
            scaler: FrameScaler::new(self.second.input_size(), self.second.placement()),
            findings: Arc::clone(&self.findings),
            scaled: Vec::new(),
            found: Vec::new(),
        }))
    }
}

/// Runs both networks on the same frames; gives the detections of the first.
struct PairDetector {
    first: Box<dyn Detector>,
    second: Box<dyn Detector>,
    scaler: FrameScaler,
    findings: Findings,
    scaled: Vec<Frame>,
    found: Vec<Vec<Detection>>,
}

impl Detector for PairDetector {
    fn detect(
        &mut self,
        batch: &[Frame],
        results: &mut Vec<Vec<Detection>>,
    ) -> Result<(), DetectError> {
        let started = Instant::now();
        self.first.detect(batch, results)?;
        let first = started.elapsed();
        self.scaled.clear();
        let is_ready = |frame: &Frame| {
            frame.image.is_cpu_readable() && frame.image.size == self.scaler.inner_size(frame)
        };
        let frames = match batch.iter().all(is_ready) {
            true => batch,
            false => {
                for frame in batch {
                    self.scaled.push(self.scaler.scale(frame));
                }
                &self.scaled
            }
        };
        // Scaling is no part of it: the source has scaled for the first detector.
        let started = Instant::now();
        self.second.detect(frames, &mut self.found)?;
        let second = started.elapsed();
        let times = [first, second].map(|time| time / batch.len().max(1) as u32);
        let mut findings = self.findings.lock();
        for (frame, detections) in batch.iter().zip(self.found.drain(..)) {
            let key = (frame.meta.source, frame.meta.seq);
            findings.insert(key, Finding { detections, times });
        }
        Ok(())
    }
}

/// Means of the newest times of a detector.
#[derive(Default)]
struct DetectorTimes {
    newest: VecDeque<Duration>,
    frames: u32,
    total: Duration,
}

impl DetectorTimes {
    fn push(&mut self, time: Duration) {
        if self.newest.len() == RATE_FRAMES {
            self.newest.pop_front();
        }
        self.newest.push_back(time);
        self.frames += 1;
        self.total += time;
    }

    /// Frames per second of its time, over the newest frames.
    fn fps(&self) -> f64 {
        let time: Duration = self.newest.iter().sum();
        self.newest.len() as f64 / time.as_secs_f64().max(1e-9)
    }

    /// The same over the whole run.
    fn fps_of_run(&self) -> f64 {
        f64::from(self.frames) / self.total.as_secs_f64().max(1e-9)
    }
}

/// The tracking state of the second detector.
pub(super) struct Beside {
    findings: Findings,
    filter: DetectionFilter,
    tracker: Tracker,
    /// The source whose frames are recorded: the first that delivers one.
    source: Option<SourceId>,
    names: [String; 2],
    times: [DetectorTimes; 2],
}

impl Beside {
    /// Loads the second detector of `options`, which may take minutes; `None` where there is none. `first` is the loaded detector
    /// of `config`.
    ///
    /// # Errors
    /// The model cannot be loaded, or the second configuration has labels that it does not have.
    pub(super) fn load(
        config: &Config,
        options: &Options,
        first: &DetectorFactory,
    ) -> Result<Option<(Self, PairFactory)>, PipelineError> {
        // It is for the recording only.
        let (Some(other), true) = (&options.beside, options.record.is_some()) else {
            return Ok(None);
        };
        let mut detector = other.detector.clone();
        // Both read the same batches, in the same workers.
        detector.batch_size = config.detector.batch_size;
        detector.workers = config.detector.workers;
        // Stage times are those of the first detector.
        let second = detect::load(&detector, &Recorder::default())?;
        if gives_embeddings(&second) {
            let model = second.model().to_owned();
            return Err(PipelineError::DetectorEmbeddings { model });
        }
        let unknown = unknown_labels(other, second.classes());
        if !unknown.is_empty() {
            return Err(ConfigError::new(unknown).into());
        }
        let findings = Findings::default();
        let source = &other.sources[0];
        let beside = Self {
            findings: Arc::clone(&findings),
            filter: DetectionFilter::new(
                source,
                second.classes(),
                [second.score_threshold(), second.nms_iou()],
            )?,
            tracker: tracker(other, source).with_classes(Arc::clone(second.classes())),
            source: None,
            names: names([first, &second]),
            times: Default::default(),
        };
        let second = Arc::new(second);
        Ok(Some((beside, PairFactory { second, findings })))
    }

    /// The overlay of the second copy of the image: zones and lines are those of the recorded source.
    pub(super) fn overlay(config: &Config, pair: &PairFactory) -> Box<Overlay> {
        let overlay = Overlay::new(pair.second.labels());
        Box::new(match config.sources.first() {
            Some(source) => overlay.with_rules(&source.rules).with_roi(source.roi),
            None => overlay,
        })
    }

    /// Tracks what the second detector found in this frame; call it in the order of the frames. `None` for another source than
    /// the recorded one.
    pub(super) fn process(&mut self, meta: &FrameMeta) -> Option<BesideView> {
        let finding = self.findings.lock().remove(&(meta.source, meta.seq));
        if *self.source.get_or_insert(meta.source) != meta.source {
            return None;
        }
        match finding {
            Some(Finding {
                mut detections,
                times,
            }) => {
                for (sum, time) in self.times.iter_mut().zip(times) {
                    sum.push(time);
                }
                self.filter.apply(&mut detections, &mut Vec::new());
                self.tracker.update(&detections);
            }
            None => {
                self.tracker.coast();
            }
        }
        let is_visible =
            |track: &&Track| matches!(track.state, TrackState::Active | TrackState::Lost);
        let tracks = self.tracker.tracks().iter().filter(is_visible);
        Some(BesideView {
            tracks: tracks.cloned().collect(),
            captions: self.captions(),
        })
    }

    fn captions(&self) -> [String; 2] {
        [0, 1].map(|at| format!("{} {:.1} frames/s", self.names[at], self.times[at].fps()))
    }

    /// Ends the tracks of a source: what follows does not continue them.
    pub(super) fn end_tracks(&mut self, source: SourceId) {
        if self.source == Some(source) {
            self.tracker.finish();
        }
    }

    /// Logs the frame rates of the run.
    pub(super) fn log_rates(&self) {
        let [first, second] = [0, 1].map(|at| (&self.names[at], self.times[at].fps_of_run()));
        log::info!(
            "frames/s of detector time: {} {:.1}, {} {:.1}",
            first.0,
            first.1,
            second.0,
            second.1
        );
    }
}

/// Model and precision of each detector; numbered where they are the same.
fn names(detectors: [&DetectorFactory; 2]) -> [String; 2] {
    let names = detectors.map(|detector| match detector.precision() {
        Some(precision) => format!("{} {precision}", detector.model()),
        None => detector.model().to_owned(),
    });
    numbered(names)
}

fn numbered([first, second]: [String; 2]) -> [String; 2] {
    match first == second {
        true => [format!("{first} (1)"), format!("{second} (2)")],
        false => [first, second],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_types::{Image, PIXEL_BYTES, PixelAspect, Placement, Size};

    /// Finds a box as large as the image that it was given.
    struct SizeDetector;

    impl Detector for SizeDetector {
        fn detect(
            &mut self,
            batch: &[Frame],
            results: &mut Vec<Vec<Detection>>,
        ) -> Result<(), DetectError> {
            results.clear();
            results.extend(batch.iter().map(|frame| {
                let Size { width, height } = frame.image.size;
                vec![Detection {
                    class: 0,
                    score: 0.9,
                    xyxy: [0.0, 0.0, width as f32, height as f32],
                }]
            }));
            Ok(())
        }
    }

    fn image(size: Size) -> Image {
        let row = size.width as usize * PIXEL_BYTES;
        Image::new(size, row, Box::new(vec![9_u8; row * size.height as usize])).expect("its size")
    }

    #[test]
    fn second_detector_gets_each_frame_in_its_own_size() {
        let findings = Findings::default();
        let mut pair = PairDetector {
            first: Box::new(SizeDetector),
            second: Box::new(SizeDetector),
            scaler: FrameScaler::new(Size::new(16, 16), Placement::TopLeft),
            findings: Arc::clone(&findings),
            scaled: Vec::new(),
            found: Vec::new(),
        };
        let frame = |seq| Frame {
            meta: FrameMeta::for_test(3, seq, Size::new(32, 16)),
            crop: None,
            pixels: PixelAspect::default(),
            image: image(Size::new(8, 4)),
            full_image: Some(image(Size::new(32, 16))),
            truth: Vec::new(),
        };
        let mut results = Vec::new();
        pair.detect(&[frame(5), frame(6)], &mut results)
            .expect("it detects");
        assert_eq!(results[0][0].xyxy, [0.0, 0.0, 8.0, 4.0]);
        let mut findings = findings.lock();
        for seq in [5, 6] {
            let found = findings.remove(&(SourceId(3), seq)).expect("both frames");
            assert_eq!(found.detections[0].xyxy, [0.0, 0.0, 16.0, 8.0]);
        }
        assert!(findings.is_empty());
    }

    #[test]
    fn shown_rate_is_that_of_the_newest_frames() {
        let mut times = DetectorTimes::default();
        times.push(Duration::from_secs(60));
        for _ in 0..RATE_FRAMES {
            times.push(Duration::from_millis(10));
        }
        assert!((times.fps() - 100.0).abs() < 0.01);
        assert!((times.fps_of_run() - 65.0 / 60.64).abs() < 0.01);
    }

    #[test]
    fn equal_models_are_numbered() {
        let names = |first: &str, second: &str| numbered([first.to_owned(), second.to_owned()]);
        assert_eq!(names("a int8", "a fp32"), ["a int8", "a fp32"]);
        assert_eq!(names("a int8", "a int8"), ["a int8 (1)", "a int8 (2)"]);
    }
}
