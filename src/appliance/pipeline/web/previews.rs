// SPDX-License-Identifier: Apache-2.0
//! Pictures for the page, with boxes and of single objects: which frames they are made of, and the thread that draws and encodes.
//!
//! While no one looks at a source, its frames cost a look at their tracks here. While someone does, a frame in each interval keeps its
//! full image, which goes with its tracks to the thread [`thread_names::WEB_PICTURES`]; where that is behind, the frame is left out.
//! Where the source keeps no snapshots, frames that show an object for the first time, or, at most twice a second, better than before,
//! go to the thread [`thread_names::WEB_OBJECTS`]; where that is behind, the next one does.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::{Mutex, RwLock};
use rustix::process::setpriority_process;
use serde_json::{Value, json};

use jetwatch_config::PreviewConfig;
use jetwatch_media::SourceStream;
use jetwatch_pixels::{Canvas, TileRect, copy_into};
use jetwatch_record::{Overlay, PictureEncoder, Viewport};
use jetwatch_telemetry::{OutputMeter, thread_names};
use jetwatch_types::{
    BudgetedImage, FrameMeta, PIXEL_BYTES, Size, SourceId, Track, TrackEvent, TrackState,
};
use jetwatch_web::{CameraSlot, Look, Picture, PictureBoard};

use super::media::StreamBoard;
use super::seen::shares;
use super::thumbnails::{Cut, Cutter, Thumbnails};
use crate::PipelineError;
use crate::threads::spawn;

/// Priority of the thread that draws, as of `nice`.
const NICE: i32 = 10;

/// Time between two frames of a source of which objects are cut out that have a picture already.
const OBJECTS_INTERVAL_MS: u64 = 500;

/// Most frames that wait to be drawn.
const MAX_WAITING: usize = 4;

/// Most frames that wait for their objects to be cut out.
const MAX_CUTS: usize = 2;

/// Full images that this may hold: those that wait, two in work, and one in the pipeline for each of some sources.
pub(crate) const HELD_IMAGES: usize = MAX_WAITING + MAX_CUTS + 8;

/// Which frames become pictures.
pub(crate) struct Previews {
    board: Arc<PictureBoard>,
    streams: Arc<StreamBoard>,
    thumbnails: Arc<Thumbnails>,
    started: Instant,
    interval: Duration,
    /// By the index of the source.
    cameras: RwLock<HashMap<SourceId, Camera>>,
    meter: OutputMeter,
    /// `None` once the run ends.
    queues: Mutex<Option<Queues>>,
}

/// What the threads are to do.
#[derive(Clone)]
struct Queues {
    jobs: Sender<Job>,
    cuts: Sender<Cut>,
}

struct Camera {
    slot: Arc<CameraSlot>,
    /// Time since the start, in ms, from which the next picture may be made.
    due_ms: AtomicU64,
    /// The same for the next request for a full image: one that is lost on its way is requested again.
    request_ms: AtomicU64,
    /// The same for the next frame of which objects are cut out that have a picture already.
    objects_ms: AtomicU64,
    /// Whether the last frame, of which none was cut out, showed an object better than before.
    wants_objects: AtomicBool,
}

/// What the thread that draws does.
enum Job {
    Add(SourceId, Arc<CameraSlot>, Box<Overlay>),
    Remove(SourceId),
    Draw(Box<Frame>),
}

struct Frame {
    meta: FrameMeta,
    image: Arc<BudgetedImage>,
    tracks: Vec<Track>,
}

impl Previews {
    /// Starts the threads. Pictures go to `board` and `thumbnails`.
    pub(super) fn start(
        config: &PreviewConfig,
        board: Arc<PictureBoard>,
        streams: Arc<StreamBoard>,
        thumbnails: Arc<Thumbnails>,
    ) -> Result<(Arc<Self>, [JoinHandle<()>; 2]), PipelineError> {
        let (jobs, waiting) = bounded(MAX_WAITING + 64);
        // Checked by the configuration: 95 at most.
        let encoder = || PictureEncoder::new(u8::try_from(config.quality).unwrap_or(70));
        let meter = OutputMeter::default();
        let painter = PictureThread {
            meter: meter.clone(),
            max_width: config.max_width,
            encoder: encoder(),
            sources: HashMap::new(),
            pixels: Vec::new(),
        };
        let drawing = spawn(thread_names::WEB_PICTURES, move || {
            // Of this thread alone. Frames come first; where it is refused, pictures compete with them.
            let _ = setpriority_process(None, NICE);
            painter.run(&waiting);
        })?;
        let (cuts, waiting) = bounded(MAX_CUTS);
        let cutter = Cutter::new(encoder(), Arc::clone(&thumbnails));
        // Few frames, of which each may be the last of its object: with the priority of all.
        let cutting = spawn(thread_names::WEB_OBJECTS, move || cutter.run(&waiting))?;
        let previews = Self {
            board,
            streams,
            thumbnails,
            started: Instant::now(),
            interval: Duration::from_secs(1) / config.max_fps.max(1),
            cameras: RwLock::default(),
            meter,
            queues: Mutex::new(Some(Queues { jobs, cuts })),
        };
        Ok((Arc::new(previews), [drawing, cutting]))
    }

    /// The encoded stream of a source that begins, where it has one.
    pub(crate) fn add_stream(&self, source: &str, stream: Option<&Arc<SourceStream>>) {
        if let Some(stream) = stream {
            self.streams.add(source, stream);
        }
    }

    /// A source begins.
    pub(crate) fn add(&self, id: SourceId, name: &str, overlay: Box<Overlay>) {
        let slot = self.board.add(name);
        let camera = Camera {
            slot: Arc::clone(&slot),
            due_ms: AtomicU64::new(0),
            request_ms: AtomicU64::new(0),
            objects_ms: AtomicU64::new(0),
            wants_objects: AtomicBool::new(false),
        };
        self.cameras.write().insert(id, camera);
        self.send(Job::Add(id, slot, overlay));
    }

    /// A source has ended and is removed.
    pub(crate) fn remove(&self, id: SourceId, name: &str) {
        self.cameras.write().remove(&id);
        self.thumbnails.forget(id);
        self.board.remove(name);
        self.send(Job::Remove(id));
    }

    /// Whether the next frame of a source is to have a full image.
    pub(crate) fn is_due(&self, source: SourceId) -> bool {
        let now = self.now_ms();
        let cameras = self.cameras.read();
        cameras
            .get(&source)
            .is_some_and(|camera| camera.is_due(now))
    }

    /// As [`is_due`](Self::is_due); it is requested by that, and for a while not again.
    pub(crate) fn request(&self, source: SourceId) -> bool {
        let now = self.now_ms();
        let cameras = self.cameras.read();
        let Some(camera) = cameras.get(&source).filter(|camera| camera.is_due(now)) else {
            return false;
        };
        let again = now + self.interval_ms() / 4;
        camera.request_ms.store(again, Ordering::Relaxed);
        true
    }

    /// Takes the events of the tracks of a source that keeps no snapshots.
    pub(crate) fn on_events(&self, source: SourceId, name: &str, events: &[TrackEvent]) {
        self.thumbnails.on_events(source, name, events);
    }

    /// Makes pictures of a frame and its objects, where they are due. Without `image`, the next frame may get one. Never blocks.
    pub(crate) fn offer(
        &self,
        meta: &FrameMeta,
        image: Option<&Arc<BudgetedImage>>,
        tracks: &[Track],
    ) {
        let now = self.now_ms();
        let cameras = self.cameras.read();
        let Some(camera) = cameras.get(&meta.source) else {
            return;
        };
        let queues = self.queues.lock();
        let Some(queues) = queues.as_ref() else {
            return;
        };
        self.cut(meta, camera, image, tracks, queues);
        let due = camera.due_ms.load(Ordering::Relaxed);
        let Some(image) = image.filter(|_| camera.slot.is_watched() && now >= due) else {
            return;
        };
        // From the time at which this one was due, so that the rate is kept where frames come a little late.
        let next = (due + self.interval_ms()).max(now + self.interval_ms() / 2);
        camera.due_ms.store(next, Ordering::Relaxed);
        if queues.jobs.len() >= MAX_WAITING {
            self.meter.lost(1);
        } else {
            let _ = queues.jobs.try_send(Job::Draw(Box::new(Frame {
                meta: *meta,
                image: Arc::clone(image),
                tracks: tracks.to_vec(),
            })));
        }
    }

    /// Cuts out of a frame the objects that no earlier one showed, or none as well.
    fn cut(
        &self,
        meta: &FrameMeta,
        camera: &Camera,
        image: Option<&Arc<BudgetedImage>>,
        tracks: &[Track],
        queues: &Queues,
    ) {
        let now = self.now_ms();
        let only_first = now < camera.objects_ms.load(Ordering::Relaxed);
        let image = image.filter(|_| !queues.cuts.is_full());
        let subjects = self
            .thumbnails
            .better(meta, tracks, only_first, image.is_some());
        let is_wanted = !subjects.is_empty() && image.is_none();
        camera.wants_objects.store(is_wanted, Ordering::Relaxed);
        if let Some(image) = image.filter(|_| !subjects.is_empty()) {
            let next = now + OBJECTS_INTERVAL_MS;
            camera.objects_ms.store(next, Ordering::Relaxed);
            let _ = queues.cuts.try_send(Cut {
                image: Arc::clone(image),
                source: meta.source_size,
                subjects,
            });
        }
    }

    /// Counters of the pictures.
    pub(crate) const fn meter(&self) -> &OutputMeter {
        &self.meter
    }

    /// Ends the threads.
    pub(super) fn close(&self) {
        self.queues.lock().take();
    }

    /// For changes of the sources, which are few.
    fn send(&self, job: Job) {
        let queues = self.queues.lock().clone();
        if let Some(queues) = queues {
            // Fails where the thread has ended.
            let _ = queues.jobs.send(job);
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn interval_ms(&self) -> u64 {
        u64::try_from(self.interval.as_millis()).unwrap_or(u64::MAX)
    }
}

impl Camera {
    fn is_due(&self, now: u64) -> bool {
        let has_passed = |time: &AtomicU64| now >= time.load(Ordering::Relaxed);
        let is_wanted = (self.slot.is_watched() && has_passed(&self.due_ms))
            || self.wants_objects.load(Ordering::Relaxed);
        is_wanted && has_passed(&self.request_ms)
    }
}

/// The state of the thread.
struct PictureThread {
    meter: OutputMeter,
    max_width: u32,
    encoder: PictureEncoder,
    sources: HashMap<SourceId, (Arc<CameraSlot>, Box<Overlay>)>,
    /// `BGRx`, of the last picture.
    pixels: Vec<u8>,
}

impl PictureThread {
    fn run(mut self, jobs: &Receiver<Job>) {
        for job in jobs {
            match job {
                Job::Add(id, slot, overlay) => {
                    self.sources.insert(id, (slot, overlay));
                }
                Job::Remove(id) => {
                    self.sources.remove(&id);
                }
                Job::Draw(frame) => {
                    let busy = self.meter.busy.clone();
                    busy.time(|| self.draw(*frame));
                    self.meter.delivered();
                }
            }
        }
    }

    fn draw(&mut self, frame: Frame) {
        let Some((slot, overlay)) = self.sources.get_mut(&frame.meta.source) else {
            return;
        };
        let size = picture_size(frame.image.size, self.max_width);
        let stride = size.width as usize * PIXEL_BYTES;
        self.pixels.resize(stride * size.height as usize, 0);
        let (left, top) = (0, 0);
        copy_into(
            &frame.image,
            TileRect { left, top, size },
            &mut self.pixels,
            stride,
        );
        // The image returns to its pool before the rest.
        drop(frame.image);
        let viewport = Viewport {
            source: frame.meta.source_size,
            drawn_size: size,
        };
        // JPEG has all sizes up to the greatest width of a picture.
        let picture = |jpeg, marks| Picture {
            jpeg,
            marks,
            captured_at: frame.meta.captured_at,
            seq: frame.meta.seq,
        };
        if slot.is_watched_as(Look::Plain)
            && let Some(jpeg) = self.encoder.encode(size, &self.pixels)
        {
            let marks = marks(overlay, frame.meta.source_size, &frame.tracks);
            slot.put(Look::Plain, picture(jpeg, marks));
        }
        if !slot.is_watched_as(Look::Drawn) {
            return;
        }
        if let Some(mut canvas) = Canvas::bgrx(size, &mut self.pixels, stride) {
            overlay.draw(&mut canvas, viewport, &frame.tracks);
        }
        if let Some(jpeg) = self.encoder.encode(size, &self.pixels) {
            slot.put(Look::Drawn, picture(jpeg, Bytes::new()));
        }
    }
}

/// What the page draws over a picture, as JSON.
fn marks(overlay: &Overlay, source: Size, tracks: &[Track]) -> Bytes {
    let tracks: Vec<Value> = tracks
        .iter()
        .map(|track| {
            json!({
                "id": track.id.0,
                "label": overlay.label(track.class),
                "score": (f64::from(track.score) * 100.0).round() / 100.0,
                "is_lost": track.state != TrackState::Active,
                "box": shares(&track.xyxy, source),
            })
        })
        .collect();
    json!({ "tracks": tracks }).to_string().into()
}

/// The size of the picture of an image: as wide as `max_width` at most.
fn picture_size(image: Size, max_width: u32) -> Size {
    if image.width <= max_width {
        return image;
    }
    let height = u64::from(image.height) * u64::from(max_width) / u64::from(image.width);
    Size::new(max_width, u32::try_from(height).unwrap_or(u32::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use super::super::thumbnails::tests::{active, began};
    use super::*;
    use jetwatch_types::{Image, ImageBudget};

    fn image(size: Size) -> Arc<BudgetedImage> {
        let stride = size.width as usize * PIXEL_BYTES;
        let pixels = vec![90; stride * size.height as usize];
        let image = Image::new(size, stride, Box::new(pixels)).expect("its size");
        Arc::new(ImageBudget::new(1).try_acquire(image).expect("a place"))
    }

    #[test]
    fn wide_images_are_scaled_in_their_aspect() {
        for (image, wanted) in [
            ((1920, 1080), (960, 540)),
            ((640, 360), (640, 360)),
            ((4000, 3), (960, 1)),
        ] {
            let found = picture_size(Size::new(image.0, image.1), 960);
            assert_eq!((found.width, found.height), wanted);
        }
    }

    #[test]
    fn an_object_without_a_place_gets_the_next_one() {
        let (jobs, _drawn) = bounded(64);
        let (cuts, waiting) = bounded(MAX_CUTS);
        let previews = Previews {
            board: Arc::default(),
            streams: Arc::default(),
            thumbnails: Arc::default(),
            started: Instant::now(),
            interval: Duration::from_millis(100),
            cameras: RwLock::default(),
            meter: OutputMeter::default(),
            queues: Mutex::new(Some(Queues { jobs, cuts })),
        };
        let (id, size) = (SourceId(0), Size::new(1280, 720));
        previews.add(id, "gate", Box::new(Overlay::new(&[])));
        let (meta, image) = (FrameMeta::for_test(0, 0, size), image(size));
        for number in 0..=MAX_CUTS {
            let track = active(number as u64);
            previews.on_events(id, "gate", &[began(&track)]);
            previews.offer(&meta, Some(&image), &[track]);
        }
        assert!(waiting.is_full() && previews.is_due(id));
        waiting.recv().expect("the first");
        previews.offer(&meta, Some(&image), &[active(MAX_CUTS as u64)]);
        assert!(waiting.is_full() && !previews.is_due(id));
    }

    #[test]
    fn nothing_is_requested_or_drawn_while_no_one_looks() {
        let config = PreviewConfig::default();
        let board = Arc::new(PictureBoard::default());
        let (previews, threads) =
            Previews::start(&config, Arc::clone(&board), Arc::default(), Arc::default())
                .expect("a thread");
        let id = SourceId(0);
        previews.add(id, "gate", Box::new(Overlay::new(&[])));
        let size = Size::new(64, 32);
        assert!(!previews.is_due(id) && !previews.request(id));
        let meta = FrameMeta::for_test(0, 0, size);
        let image = image(size);
        previews.offer(&meta, Some(&image), &[]);
        // Only this test holds it: no job has it.
        assert_eq!(Arc::strong_count(&image), 1);
        previews.remove(id, "gate");
        assert!(!previews.is_due(id));
        previews.close();
        for thread in threads {
            thread.join().expect("it ends");
        }
    }
}
