// SPDX-License-Identifier: Apache-2.0
//! The best picture of each track as a JPEG file in the archive, on a thread named `snapshot`.
//!
//! The tracking stage calls [`Snapshots`], which selects frames and hands their images over: nothing is copied or encoded there,
//! and a frame that cannot be taken at once is left out. The thread measures how sharp the object is, encodes the frame, and keeps
//! the file in memory until the track has ended; then it goes into the archive. It draws no video: that is
//! [`Recording`](crate::Recording).

mod encode;
mod select;
mod thread;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use crossbeam_channel::{Sender, unbounded};

use jetwatch_archive::{Archive, MediaId, MediaKind};
use jetwatch_telemetry::{self as telemetry, BusyTime, thread_names};
use jetwatch_types::{
    BudgetedImage, EventKind, FrameMeta, SourceId, Track, TrackEvent, TrackId, TrackState,
};

pub use self::select::{BestSoFar, picture_quality};
use self::thread::{Candidate, Object, SnapshotThread, Task};
use super::RenderError;

/// Images that may wait for the thread or be with it.
const MAX_IMAGES: usize = 3;

/// How snapshots are made.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotSettings {
    /// Quality of the JPEG encoder, 1 to 100.
    pub quality: u8,
    /// Greatest width, in pixels.
    pub max_width: Option<u32>,
    /// Labels of the network, by class.
    pub labels: Vec<String>,
    /// Whether tracks of a class have snapshots.
    pub wanted: Vec<bool>,
    /// Pictures that are published have boxes and labels.
    pub draws: bool,
}

/// A picture to be published.
#[derive(Debug, Clone)]
pub struct SnapshotPicture {
    /// Name of the source.
    pub source: Arc<str>,
    /// Label of the track.
    pub label: String,
    /// The track.
    pub track: TrackId,
    /// The JPEG file.
    pub jpeg: Bytes,
}

/// Receives pictures on the thread of the snapshots.
pub type PictureObserver = Box<dyn Fn(SnapshotPicture) + Send>;

/// Counters of the snapshots of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnapshotReport {
    /// Files in the archive.
    pub files: u64,
    /// Files that could not be written.
    pub failed: u64,
    /// Better pictures that were left out, since earlier ones were not encoded yet.
    pub skipped: u64,
    /// Time in which the thread was at work.
    pub busy: Duration,
}

/// Counters that the thread shares.
#[derive(Default)]
struct Counters {
    files: AtomicU64,
    failed: AtomicU64,
    skipped: AtomicU64,
    busy: BusyTime,
    /// Images that wait or are with the thread.
    images: AtomicUsize,
    /// Greatest size of a published picture that receivers take, in bytes; 0: none has said so.
    max_published: AtomicUsize,
}

/// A track that has not ended.
struct LiveTrack {
    started_at: SystemTime,
    /// Identity of its snapshot, which events name.
    media: MediaId,
    best: BestSoFar,
}

/// The snapshots of all sources. Its methods neither block nor copy images.
pub struct Snapshots {
    settings: Arc<SnapshotSettings>,
    tasks: Sender<Task>,
    tracks: HashMap<(SourceId, TrackId), LiveTrack>,
    counters: Arc<Counters>,
    thread: JoinHandle<()>,
    /// Objects of the current frame, reused.
    objects: Vec<Object>,
}

impl Snapshots {
    /// Starts the thread. Files go to `archive`, and pictures to `observer`, where there is one.
    ///
    /// # Errors
    /// The operating system refuses the thread.
    pub fn start(
        archive: Archive,
        settings: SnapshotSettings,
        observer: Option<PictureObserver>,
    ) -> Result<Self, RenderError> {
        let settings = Arc::new(settings);
        let counters = Arc::new(Counters::default());
        // Unbounded for the ends of tracks, of which none may be lost; the number of images is limited.
        let (tasks, waiting) = unbounded();
        let thread = SnapshotThread::new(
            archive,
            Arc::clone(&settings),
            observer,
            Arc::clone(&counters),
        );
        let name = thread_names::SNAPSHOT;
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                telemetry::name_thread(name);
                thread.run(&waiting);
            })
            .map_err(RenderError::Thread)?;
        Ok(Self {
            settings,
            tasks,
            tracks: HashMap::new(),
            counters,
            thread,
            objects: Vec::new(),
        })
    }

    /// Takes the steps of tracks of a source. `identity` is the `id` of an event. Replaces `ids` by the identities of their
    /// snapshots, by event.
    pub fn on_events(
        &mut self,
        source: SourceId,
        events: &[TrackEvent],
        ids: &mut Vec<Option<String>>,
        identity: impl Fn(&TrackEvent) -> String,
    ) {
        ids.clear();
        for event in events {
            let key = (source, event.after.id);
            match event.kind {
                EventKind::New if self.is_wanted(event.after.class) => {
                    let track = LiveTrack {
                        started_at: event.started_at,
                        media: MediaId::new(MediaKind::Snapshot, event.frame_at),
                        best: BestSoFar::default(),
                    };
                    ids.push(Some(track.media.to_string()));
                    self.tracks.insert(key, track);
                }
                EventKind::New | EventKind::Update => {
                    let track = self.tracks.get(&key);
                    ids.push(track.map(|track| track.media.to_string()));
                }
                EventKind::End => {
                    let track = self.tracks.remove(&key);
                    ids.push(track.as_ref().map(|track| track.media.to_string()));
                    if track.is_some() {
                        let identity = identity(event);
                        // Fails where the thread has panicked, which is logged.
                        let _ = self.tasks.send(Task::End { key, identity });
                    }
                }
            }
        }
    }

    /// Takes a frame, where it has a better picture of a track. `name` is that of the source. The image is taken out of
    /// `image` only then.
    pub fn on_frame(
        &mut self,
        meta: &FrameMeta,
        name: &str,
        tracks: &[Track],
        image: &mut Option<Arc<BudgetedImage>>,
    ) {
        if self.tracks.is_empty() || !image.as_ref().is_some_and(|image| image.is_cpu_readable()) {
            return;
        }
        let is_full = self.counters.images.load(Ordering::Acquire) >= MAX_IMAGES;
        let now = Instant::now();
        for track in tracks {
            let is_seen = track.state == TrackState::Active && track.lost_frames == 0;
            let Some(live) = self
                .tracks
                .get_mut(&(meta.source, track.id))
                .filter(|_| is_seen)
            else {
                continue;
            };
            let quality = picture_quality(track.score, &track.xyxy, meta.source_size);
            if is_full {
                let mut best = live.best;
                if best.improves(quality, now) {
                    self.counters.skipped.fetch_add(1, Ordering::Relaxed);
                }
            } else if live.best.improves(quality, now) {
                self.objects.push(Object {
                    track: track.id,
                    class: track.class,
                    score: track.score,
                    xyxy: track.xyxy,
                    quality,
                    started_at: live.started_at,
                    media: live.media.clone(),
                });
            }
        }
        if self.objects.is_empty() {
            return;
        }
        let Some(image) = image.take() else {
            return;
        };
        self.counters.images.fetch_add(1, Ordering::AcqRel);
        let candidate = Candidate {
            source: meta.source,
            name: name.into(),
            size: meta.source_size,
            at: meta.captured_at,
            image,
            objects: std::mem::take(&mut self.objects),
        };
        let _ = self.tasks.send(Task::Candidate(candidate));
    }

    /// Receivers of published pictures take `bytes` at most: larger ones are made smaller.
    pub fn limit_published(&self, bytes: usize) {
        self.counters
            .max_published
            .store(bytes.max(1), Ordering::Relaxed);
    }

    /// Whether tracks of a class have snapshots.
    fn is_wanted(&self, class: u16) -> bool {
        let wanted = self.settings.wanted.get(usize::from(class));
        wanted.copied().unwrap_or_default()
    }

    /// The thread ends once it has written what it has; its counters are complete then.
    #[must_use]
    pub fn end(self) -> EndingSnapshots {
        EndingSnapshots {
            thread: self.thread,
            counters: self.counters,
        }
    }
}

/// Snapshots whose thread ends.
pub struct EndingSnapshots {
    thread: JoinHandle<()>,
    counters: Arc<Counters>,
}

impl EndingSnapshots {
    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// The counters.
    pub fn report(&self) -> SnapshotReport {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SnapshotReport {
            files: count(&self.counters.files),
            failed: count(&self.counters.failed),
            skipped: count(&self.counters.skipped),
            busy: self.counters.busy.total(),
        }
    }
}
