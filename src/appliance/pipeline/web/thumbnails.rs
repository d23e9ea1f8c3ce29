// SPDX-License-Identifier: Apache-2.0
//! Small pictures of the newest objects, in memory, for sources that keep no snapshots: which frames they are cut out of, and the
//! pictures themselves.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use crossbeam_channel::Receiver;
use parking_lot::Mutex;

use jetwatch_pixels::{Filter, Resizer};
use jetwatch_publish::track_identity;
use jetwatch_record::{BestSoFar, PictureEncoder, picture_quality};
use jetwatch_types::{
    BudgetedImage, Crop, EventKind, FrameMeta, PIXEL_BYTES, Size, SourceId, Track, TrackEvent,
    TrackId, TrackState, Xyxy,
};

use super::seen::{MAX_OPEN, shares};

/// Maximum number of pictures; the oldest leave. One has about 6 KB.
const MAX_PICTURES: usize = 500;

/// Size of a picture, 4 to 3 as on the page.
const SIZE: Size = Size {
    width: 240,
    height: 180,
};

/// The sides of a box are at most this share of those of its picture.
const MAX_SHARE: f32 = 0.55;

/// Minimum width of the part of an image that becomes a picture, as a share of the image's.
const MIN_WIDTH: f32 = 0.14;

/// Pictures of objects.
#[derive(Default)]
pub(crate) struct Thumbnails {
    in_view: Mutex<HashMap<(SourceId, TrackId), InView>>,
    /// By the identity of the object, which begins with its time.
    pictures: Mutex<BTreeMap<String, Thumbnail>>,
}

/// A track that has not ended.
struct InView {
    identity: String,
    best: BestSoFar,
}

/// The picture of an object.
#[derive(Debug, Clone)]
pub(super) struct Thumbnail {
    pub(super) jpeg: Bytes,
    /// The box in it: left, top, right and bottom, from 0 to 1.
    pub(super) mark: [f64; 4],
}

/// An object of a frame that no earlier frame showed as well.
#[derive(Debug)]
pub(super) struct Subject {
    identity: String,
    xyxy: Xyxy,
}

impl Thumbnails {
    /// Takes events of the tracks of a source.
    pub(super) fn on_events(&self, source: SourceId, name: &str, events: &[TrackEvent]) {
        let mut in_view = self.in_view.lock();
        for event in events {
            let key = (source, event.after.id);
            match event.kind {
                EventKind::New if in_view.len() < MAX_OPEN => {
                    let identity = track_identity(event.started_at, name, event.after.id);
                    let best = BestSoFar::default();
                    in_view.insert(key, InView { identity, best });
                }
                EventKind::New | EventKind::Update => {}
                EventKind::End => {
                    in_view.remove(&key);
                }
            }
        }
    }

    /// A source has ended: its tracks have no further events.
    pub(super) fn forget(&self, source: SourceId) {
        self.in_view.lock().retain(|(of, _), _| *of != source);
    }

    /// The objects of a frame of which it is the first picture or, unless `only_first`, better than all before. `has_image`: it becomes
    /// their picture.
    pub(super) fn better(
        &self,
        meta: &FrameMeta,
        tracks: &[Track],
        only_first: bool,
        has_image: bool,
    ) -> Vec<Subject> {
        self.better_at(meta, tracks, only_first, has_image, Instant::now())
    }

    fn better_at(
        &self,
        meta: &FrameMeta,
        tracks: &[Track],
        only_first: bool,
        has_image: bool,
        now: Instant,
    ) -> Vec<Subject> {
        let mut in_view = self.in_view.lock();
        if in_view.is_empty() {
            return Vec::new();
        }
        let seen = tracks
            .iter()
            .filter(|track| track.state == TrackState::Active && track.lost_frames == 0);
        seen.filter_map(|track| {
            let known = in_view.get_mut(&(meta.source, track.id))?;
            let quality = picture_quality(track.score, &track.xyxy, meta.source_size);
            let mut best = known.best;
            if (only_first && best.is_some()) || !best.improves(quality, now) {
                return None;
            }
            if has_image {
                known.best = best;
            }
            Some(Subject {
                identity: known.identity.clone(),
                xyxy: track.xyxy,
            })
        })
        .collect()
    }

    /// The picture of an object.
    pub(super) fn get(&self, identity: &str) -> Option<Thumbnail> {
        self.pictures.lock().get(identity).cloned()
    }

    fn put(&self, identity: String, thumbnail: Thumbnail) {
        let mut pictures = self.pictures.lock();
        pictures.insert(identity, thumbnail);
        while pictures.len() > MAX_PICTURES {
            pictures.pop_first();
        }
    }
}

/// A frame of which objects are cut out.
pub(super) struct Cut {
    pub(super) image: Arc<BudgetedImage>,
    /// The boxes are in pixels of an image of this size.
    pub(super) source: Size,
    pub(super) subjects: Vec<Subject>,
}

/// Cuts pictures out of images; keeps its working memory from one to the next.
pub(super) struct Cutter {
    resizer: Resizer,
    pixels: Vec<u8>,
    encoder: PictureEncoder,
    thumbnails: Arc<Thumbnails>,
}

impl Cutter {
    pub(super) fn new(encoder: PictureEncoder, thumbnails: Arc<Thumbnails>) -> Self {
        let bytes = SIZE.width as usize * SIZE.height as usize * PIXEL_BYTES;
        Self {
            resizer: Resizer::default(),
            pixels: vec![0; bytes],
            encoder,
            thumbnails,
        }
    }

    /// Until the queue is closed.
    pub(super) fn run(mut self, cuts: &Receiver<Cut>) {
        for cut in cuts {
            for subject in cut.subjects {
                let (part, mark) = part_with(&subject.xyxy, cut.source, cut.image.size);
                let filter = Filter::Triangle;
                self.resizer
                    .scale_part(&cut.image, part, SIZE, filter, &mut self.pixels);
                if let Some(jpeg) = self.encoder.encode(SIZE, &self.pixels) {
                    let thumbnail = Thumbnail { jpeg, mark };
                    self.thumbnails.put(subject.identity, thumbnail);
                }
            }
        }
    }
}

/// The part of an image that shows a box, and where the box is in it. The box is in pixels of the size `source`.
fn part_with(xyxy: &Xyxy, source: Size, image: Size) -> (Crop, [f64; 4]) {
    let (wide, high) = (image.width as f32, image.height as f32);
    let (fx, fy) = (
        wide / source.width.max(1) as f32,
        high / source.height.max(1) as f32,
    );
    let inside = |edge: f32, end: f32| {
        if edge.is_nan() {
            0.0
        } else {
            edge.clamp(0.0, end)
        }
    };
    let (left, right) = (inside(xyxy[0] * fx, wide), inside(xyxy[2] * fx, wide));
    let (top, bottom) = (inside(xyxy[1] * fy, high), inside(xyxy[3] * fy, high));
    let aspect = SIZE.width as f32 / SIZE.height as f32;
    let width = ((right - left) / MAX_SHARE)
        .max((bottom - top) * aspect / MAX_SHARE)
        .max(MIN_WIDTH * wide)
        .min(wide)
        .min(high * aspect)
        .max(1.0);
    let size = Size::new(width as u32, ((width / aspect) as u32).max(1));
    let start = |from: f32, to: f32, side: u32, end: u32| {
        let wanted = ((from + to) / 2.0 - side as f32 / 2.0).max(0.0) as u32;
        wanted.min(end.saturating_sub(side))
    };
    let part = Crop {
        left: start(left, right, size.width, image.width),
        top: start(top, bottom, size.height, image.height),
        size,
    };
    let (x, y) = (part.left as f32, part.top as f32);
    (
        part,
        shares(&[left - x, top - y, right - x, bottom - y], size),
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use jetwatch_types::Attributes;
    use std::time::{Duration, UNIX_EPOCH};

    const HD: Size = Size {
        width: 1280,
        height: 720,
    };

    /// A track with a box within an image of 720 lines.
    pub(in super::super) fn active(id: u64) -> Track {
        Track {
            id: TrackId(id),
            state: TrackState::Active,
            class: 0,
            score: 0.8,
            top_score: 0.8,
            xyxy: [600.0, 300.0, 700.0, 400.0],
            age_frames: 3,
            hits: 3,
            lost_frames: 0,
            attributes: Attributes::default(),
        }
    }

    /// Its first event.
    pub(in super::super) fn began(track: &Track) -> TrackEvent {
        TrackEvent {
            kind: EventKind::New,
            before: None,
            after: track.clone(),
            started_at: UNIX_EPOCH,
            frame_at: UNIX_EPOCH,
            ended_at: None,
            duration: Duration::ZERO,
            embedding: None,
        }
    }

    #[test]
    fn part_shows_the_whole_box_within_the_image() {
        for (name, xyxy, source, image) in [
            ("small", [600.0, 300.0, 620.0, 340.0], HD, HD),
            ("corner", [0.0, 0.0, 30.0, 60.0], HD, HD),
            ("far corner", [1250.0, 700.0, 1280.0, 720.0], HD, HD),
            ("high", [600.0, 0.0, 700.0, 720.0], HD, HD),
            ("all", [0.0, 0.0, 1280.0, 720.0], HD, HD),
            (
                "scaled",
                [600.0, 300.0, 620.0, 340.0],
                HD,
                Size::new(640, 360),
            ),
            ("outside", [-50.0, f32::NAN, 2000.0, 900.0], HD, HD),
            ("tiny", [0.0, 0.0, 1.0, 1.0], HD, Size::new(4, 1)),
        ] {
            let (part, mark) = part_with(&xyxy, source, image);
            assert!(
                part.left + part.size.width <= image.width,
                "{name}: {part:?}"
            );
            assert!(
                part.top + part.size.height <= image.height,
                "{name}: {part:?}"
            );
            assert!(mark[0] <= mark[2] && mark[1] <= mark[3], "{name}: {mark:?}");
        }
        // The box is in the middle, 40 pixels high in 134: the minimum of the width is 179.
        let (part, mark) = part_with(&[600.0, 300.0, 620.0, 340.0], HD, HD);
        assert_eq!((part.size.width, part.size.height), (179, 134));
        assert!((mark[1] + mark[3] - 1.0).abs() < 0.02, "{mark:?}");
    }

    #[test]
    fn a_frame_without_image_asks_for_one_and_the_next_one_is_taken() {
        let thumbnails = Thumbnails::default();
        let begin = Instant::now();
        let meta = FrameMeta::for_test(0, 0, HD);
        let mut track = active(3);
        let event = began(&track);
        let better = |track: &Track, has_image, ms| {
            let now = begin + Duration::from_millis(ms);
            let tracks = std::slice::from_ref(track);
            let found = thumbnails.better_at(&meta, tracks, false, has_image, now);
            let [] = found.as_slice() else {
                assert_eq!(
                    found[0].identity,
                    track_identity(UNIX_EPOCH, "gate", track.id)
                );
                return true;
            };
            false
        };
        assert!(!better(&track, true, 0), "it is not known");
        thumbnails.on_events(meta.source, "gate", &[event]);
        assert!(better(&track, false, 0) && better(&track, false, 1) && better(&track, true, 2));
        assert!(!better(&track, true, 1000), "it is as good as before");
        let later = active(4);
        thumbnails.on_events(meta.source, "gate", &[began(&later)]);
        let both = [track.clone(), later];
        let found = thumbnails.better(&meta, &both, true, true);
        assert_eq!(found.len(), 1, "only one has no picture");
        track.lost_frames = 1;
        track.xyxy = [500.0, 200.0, 800.0, 500.0];
        assert!(!better(&track, true, 1000), "the box is a guess");
        track.lost_frames = 0;
        assert!(better(&track, true, 1000));
        thumbnails.forget(meta.source);
        track.xyxy = [10.0, 10.0, 1200.0, 700.0];
        assert!(!better(&track, true, 2000), "its source has ended");
    }

    #[test]
    fn the_newest_pictures_stay() {
        let thumbnails = Thumbnails::default();
        let id = |number: usize| format!("{number:05}");
        for number in 0..=MAX_PICTURES {
            let (jpeg, mark) = (Bytes::from(id(number)), [0.0; 4]);
            thumbnails.put(id(number), Thumbnail { jpeg, mark });
        }
        assert!(thumbnails.get(&id(0)).is_none());
        let found = thumbnails.get(&id(MAX_PICTURES)).expect("the newest");
        assert_eq!(found.jpeg, id(MAX_PICTURES));
    }
}
