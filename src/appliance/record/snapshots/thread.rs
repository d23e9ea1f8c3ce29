// SPDX-License-Identifier: Apache-2.0
//! The thread of the snapshots: measures, encodes, keeps the best picture of each track in memory, and files it at its end.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use crossbeam_channel::Receiver;

use jetwatch_archive::{Archive, ArchiveError, Finish, MediaId, MediaKind, NewItem};
use jetwatch_types::{BudgetedImage, Size, SourceId, TrackId, Xyxy};

use super::encode::{Mark, SnapshotEncoder};
use super::select::sharpness;
use super::{Counters, PictureObserver, SnapshotPicture, SnapshotSettings};

/// Greatest size of all pictures in memory, in bytes. Beyond it the picture of the track with the oldest one is filed early.
const MAX_BYTES: usize = 64 << 20;

/// Greatest size of a published picture, in bytes, also where the broker takes larger ones.
const MAX_PUBLISHED_BYTES: usize = 256 << 10;

/// Quality below which a picture that is too large gets smaller sides instead.
const MIN_PUBLISHED_QUALITY: u8 = 20;

/// Shortest time between two published pictures of a label of a source.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);

/// Weight of sharpness: a flat picture has this share of its quality.
const MIN_SHARPNESS_WEIGHT: f32 = 0.3;

/// Shortest time between two lines in the log about files that cannot be written.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

pub(super) type Key = (SourceId, TrackId);

/// What the thread is to do.
pub(super) enum Task {
    /// A frame that may be the best picture of its objects.
    Candidate(Candidate),
    /// The track has ended.
    End { key: Key, identity: String },
}

/// A frame with better pictures of some objects.
pub(super) struct Candidate {
    pub(super) source: SourceId,
    pub(super) name: Arc<str>,
    /// Size of the source, to which boxes refer.
    pub(super) size: Size,
    pub(super) at: SystemTime,
    pub(super) image: Arc<BudgetedImage>,
    pub(super) objects: Vec<Object>,
}

/// One object of a candidate.
pub(super) struct Object {
    pub(super) track: TrackId,
    pub(super) class: u16,
    pub(super) score: f32,
    pub(super) xyxy: Xyxy,
    /// Without its sharpness.
    pub(super) quality: f32,
    pub(super) started_at: SystemTime,
    /// Identity of the snapshot of its track.
    pub(super) media: MediaId,
}

/// The best picture of a track.
struct Best {
    quality: f32,
    /// `None`: a picture of the track was filed before its end for want of memory, and has the identity.
    media: Option<MediaId>,
    name: Arc<str>,
    label: String,
    at: SystemTime,
    region: [f32; 4],
    /// Of the whole frame; tracks share it.
    jpeg: Bytes,
    published: Option<Bytes>,
}

pub(super) struct SnapshotThread {
    archive: Archive,
    settings: Arc<SnapshotSettings>,
    observer: Option<PictureObserver>,
    counters: Arc<Counters>,
    encoder: SnapshotEncoder,
    best: HashMap<Key, Best>,
    /// Tracks that go on with a picture in the archive.
    filed_early: HashSet<Key>,
    /// When a picture of a source's label was published.
    published: HashMap<(SourceId, String), Instant>,
    logged: Option<Instant>,
    /// Pictures that no size made small enough for the broker.
    unpublished: u64,
}

impl SnapshotThread {
    pub(super) fn new(
        archive: Archive,
        settings: Arc<SnapshotSettings>,
        observer: Option<PictureObserver>,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            archive,
            encoder: SnapshotEncoder::new(settings.quality),
            settings,
            observer,
            counters,
            best: HashMap::new(),
            filed_early: HashSet::new(),
            published: HashMap::new(),
            logged: None,
            unpublished: 0,
        }
    }

    /// Runs until all senders are gone; then files what is left.
    pub(super) fn run(mut self, tasks: &Receiver<Task>) {
        let busy = self.counters.busy.clone();
        for task in tasks {
            busy.time(|| match task {
                Task::Candidate(candidate) => {
                    self.on_candidate(candidate);
                    self.counters.images.fetch_sub(1, Ordering::AcqRel);
                }
                Task::End { key, identity } => {
                    self.end(key, Some(identity));
                    self.filed_early.remove(&key);
                }
            });
        }
        let left: Vec<Key> = self.best.keys().copied().collect();
        left.into_iter().for_each(|key| self.end(key, None));
    }

    fn on_candidate(&mut self, candidate: Candidate) {
        let Candidate {
            source,
            name,
            size,
            at,
            image,
            objects,
        } = candidate;
        // Boxes are in pixels of the source; the image may have another size.
        let factors = [
            image.size.width as f32 / size.width.max(1) as f32,
            image.size.height as f32 / size.height.max(1) as f32,
        ];
        let weighted = |object: &Object| {
            let [left, top, right, bottom] = object.xyxy;
            let [fx, fy] = factors;
            let sharpness = sharpness(&image, &[left * fx, top * fy, right * fx, bottom * fy]);
            object.quality * (MIN_SHARPNESS_WEIGHT + (1.0 - MIN_SHARPNESS_WEIGHT) * sharpness)
        };
        let better: Vec<(Object, f32)> = objects
            .into_iter()
            .filter_map(|object| {
                let quality = weighted(&object);
                let known = self.best.get(&(source, object.track));
                let is_better = known.is_none_or(|best| quality > best.quality);
                is_better.then_some((object, quality))
            })
            .collect();
        if better.is_empty() {
            return;
        }
        let scaled = self.encoder.load(&image, self.settings.max_width);
        // The source gets its memory back before the slow part.
        drop(image);
        let Some(jpeg) = self.encoder.encode(scaled, self.settings.quality) else {
            return;
        };
        let published = self.picture_to_publish(&better, scaled, size, &jpeg);
        for (object, quality) in better {
            let key = (source, object.track);
            let label = self.label(object.class);
            let media = (!self.filed_early.contains(&key)).then_some(object.media);
            let best = Best {
                quality,
                media,
                name: Arc::clone(&name),
                label,
                at: at.max(object.started_at),
                region: normalized(&object.xyxy, size),
                jpeg: jpeg.clone(),
                published: published.clone(),
            };
            self.best.insert(key, best);
            self.publish(key, false);
        }
        self.limit_memory();
    }

    /// The picture as it is published; `None` where none is.
    fn picture_to_publish(
        &mut self,
        better: &[(Object, f32)],
        scaled: Size,
        source: Size,
        jpeg: &Bytes,
    ) -> Option<Bytes> {
        self.observer.as_ref()?;
        let mut file = jpeg.clone();
        if self.settings.draws {
            let marks: Vec<Mark> = better.iter().map(|(object, _)| self.mark(object)).collect();
            self.encoder.draw(scaled, source, &marks);
            file = self.encoder.encode(scaled, self.settings.quality)?;
        }
        self.fit(file, scaled)
    }

    /// `file`, or what was loaded and has the size `scaled` at a lower quality and then in smaller sizes, within the limit of published pictures.
    fn fit(&mut self, mut file: Bytes, mut scaled: Size) -> Option<Bytes> {
        let limit = match self.counters.max_published.load(Ordering::Relaxed) {
            0 => MAX_PUBLISHED_BYTES,
            limit => limit.min(MAX_PUBLISHED_BYTES),
        };
        let mut quality = self.settings.quality;
        while file.len() > limit {
            if quality >= MIN_PUBLISHED_QUALITY {
                quality = quality / 4 * 3;
            } else {
                let Some(half) = self.encoder.halve(scaled) else {
                    self.unpublished += 1;
                    if self.unpublished == 1 {
                        log::warn!(
                            "pictures are not published: the smallest one has {} bytes, and the broker takes {limit}; raise its limit of \
                             the packet size (mosquitto: max_packet_size)",
                            file.len()
                        );
                    }
                    return None;
                };
                scaled = half;
            }
            file = self.encoder.encode(scaled, quality)?;
        }
        Some(file)
    }

    fn label(&self, class: u16) -> String {
        let label = self.settings.labels.get(usize::from(class));
        label.cloned().unwrap_or_else(|| format!("class {class}"))
    }

    fn mark(&self, object: &Object) -> Mark {
        let percent = (object.score.clamp(0.0, 1.0) * 100.0).round();
        Mark {
            xyxy: object.xyxy,
            class: object.class,
            text: format!("{} {} {percent}%", self.label(object.class), object.track),
        }
    }

    /// Publishes the best picture of a track, unless one of its label was published a moment ago; `is_last`: at its end in any case.
    fn publish(&mut self, key: Key, is_last: bool) {
        let (Some(observer), Some(best)) = (&self.observer, self.best.get_mut(&key)) else {
            return;
        };
        let place = (key.0, best.label.clone());
        let now = Instant::now();
        let is_due = self
            .published
            .get(&place)
            .is_none_or(|at| now.duration_since(*at) >= PUBLISH_INTERVAL);
        if !is_due && !is_last {
            return;
        }
        // Once: at the end only what was not published before.
        let Some(jpeg) = best.published.take() else {
            return;
        };
        self.published.insert(place, now);
        observer(SnapshotPicture {
            source: Arc::clone(&best.name),
            label: best.label.clone(),
            track: key.1,
            jpeg,
        });
    }

    fn limit_memory(&mut self) {
        let bytes = |best: &Best| best.jpeg.len() + best.published.as_ref().map_or(0, Bytes::len);
        while self.best.values().map(bytes).sum::<usize>() > MAX_BYTES {
            let oldest = self.best.iter().min_by_key(|(_, best)| best.at);
            let Some(key) = oldest.map(|(key, _)| *key) else {
                return;
            };
            self.end(key, None);
            self.filed_early.insert(key);
        }
    }

    fn end(&mut self, key: Key, identity: Option<String>) {
        self.publish(key, true);
        let Some(best) = self.best.remove(&key) else {
            return;
        };
        match self.file(&best, identity) {
            Ok(()) => {
                self.counters.files.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                self.counters.failed.fetch_add(1, Ordering::Relaxed);
                let now = Instant::now();
                let is_due = self
                    .logged
                    .is_none_or(|at| now.duration_since(at) >= LOG_INTERVAL);
                if is_due {
                    self.logged = Some(now);
                    log::warn!("a snapshot was not kept: {error}");
                }
            }
        }
    }

    fn file(&self, best: &Best, identity: Option<String>) -> Result<(), ArchiveError> {
        let item = NewItem {
            id: best.media.clone(),
            label: Some(best.label.clone()),
            tracks: identity.into_iter().collect(),
            region: Some(best.region),
            ..NewItem::new(MediaKind::Snapshot, &best.name, best.at)
        };
        let mut pending = self.archive.begin(item)?;
        if let Err(source) = pending.write_all(&best.jpeg) {
            let path = pending.path().to_owned();
            pending.discard()?;
            return Err(match jetwatch_archive::is_no_space(&source) {
                true => ArchiveError::Full { path },
                false => ArchiveError::Io {
                    action: "write",
                    path,
                    source,
                },
            });
        }
        pending.finish(Finish::complete(best.at)).map(|_| ())
    }
}

fn normalized(xyxy: &Xyxy, size: Size) -> [f32; 4] {
    let (width, height) = (size.width.max(1) as f32, size.height.max(1) as f32);
    let [left, top, right, bottom] = *xyxy;
    [left / width, top / height, right / width, bottom / height].map(|edge| {
        if edge.is_finite() {
            edge.clamp(0.0, 1.0)
        } else {
            0.0
        }
    })
}
