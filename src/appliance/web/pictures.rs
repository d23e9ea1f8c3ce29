// SPDX-License-Identifier: Apache-2.0
//! The newest picture of each source, which is made only while it is looked at.
//!
//! The pipeline asks [`CameraSlot::is_watched`] before it draws, and puts each picture into the slot of its source, where it takes
//! the place of the one before. Any number of viewers share it: one that is slow misses pictures and delays nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;

/// How pictures show what was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Boxes, labels and zones are in the pixels: for programs that show pictures only.
    Drawn,
    /// As the camera sees it, with [`Picture::marks`] beside it: for the page, which draws them.
    Plain,
}

/// One picture of one source.
#[derive(Debug, Clone)]
pub struct Picture {
    /// JPEG.
    pub jpeg: Bytes,
    /// What was found, as JSON: `tracks` with `id`, `label`, `score`, `is_lost` and `box` (left, top, right, bottom, 0 to 1). Empty for
    /// [`Look::Drawn`].
    pub marks: Bytes,
    /// When the frame arrived in jetwatch.
    pub captured_at: SystemTime,
    /// Number of the frame in its source.
    pub seq: u64,
}

/// The slots of all sources.
#[derive(Debug, Default)]
pub struct PictureBoard {
    cameras: Mutex<BTreeMap<String, Arc<CameraSlot>>>,
}

/// The slot of one source.
#[derive(Debug)]
pub struct CameraSlot {
    /// By the number of their [`Look`].
    looks: [Slot; 2],
}

#[derive(Debug)]
struct Slot {
    newest: watch::Sender<Option<Arc<Picture>>>,
    viewers: AtomicUsize,
}

/// A viewer of one source, who counts until it is dropped.
#[derive(Debug)]
pub(super) struct Viewer {
    slot: Arc<CameraSlot>,
    look: Look,
    newest: watch::Receiver<Option<Arc<Picture>>>,
}

impl PictureBoard {
    /// Adds a source, or finds it: viewers stay while a source is restarted.
    pub fn add(&self, source: &str) -> Arc<CameraSlot> {
        let mut cameras = self.cameras.lock();
        let slot = cameras
            .entry(source.to_owned())
            .or_insert_with(|| Arc::new(CameraSlot::new()));
        Arc::clone(slot)
    }

    /// Removes a source, unless someone looks at it.
    pub fn remove(&self, source: &str) {
        let mut cameras = self.cameras.lock();
        if cameras.get(source).is_some_and(|slot| !slot.is_watched()) {
            cameras.remove(source);
        }
    }

    /// A viewer of `source`; `None`: there is no such source.
    pub(super) fn look(&self, source: &str, look: Look) -> Option<Viewer> {
        let slot = Arc::clone(self.cameras.lock().get(source)?);
        slot.of(look).viewers.fetch_add(1, Ordering::AcqRel);
        let newest = slot.of(look).newest.subscribe();
        Some(Viewer { slot, look, newest })
    }
}

impl CameraSlot {
    fn new() -> Self {
        let slot = || Slot {
            newest: watch::Sender::new(None),
            viewers: AtomicUsize::new(0),
        };
        Self {
            looks: [slot(), slot()],
        }
    }

    fn of(&self, look: Look) -> &Slot {
        &self.looks[look as usize]
    }

    /// Whether someone looks.
    pub fn is_watched(&self) -> bool {
        [Look::Drawn, Look::Plain]
            .into_iter()
            .any(|look| self.is_watched_as(look))
    }

    /// Whether someone looks at such pictures.
    pub fn is_watched_as(&self, look: Look) -> bool {
        self.of(look).viewers.load(Ordering::Acquire) > 0
    }

    /// Takes the place of the picture before. Never blocks.
    pub fn put(&self, look: Look, picture: Picture) {
        self.of(look).newest.send_replace(Some(Arc::new(picture)));
    }
}

impl Viewer {
    /// The picture that is there now, which may be old.
    pub(super) fn newest(&mut self) -> Option<Arc<Picture>> {
        self.newest.borrow_and_update().clone()
    }

    /// Waits for a picture that this viewer has not seen; `None`: the source was removed.
    pub(super) async fn next(&mut self) -> Option<Arc<Picture>> {
        loop {
            self.newest.changed().await.ok()?;
            if let Some(picture) = self.newest() {
                return Some(picture);
            }
        }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let slot = self.slot.of(self.look);
        slot.viewers.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(seq: u64) -> Picture {
        Picture {
            jpeg: Bytes::from_static(b"picture"),
            marks: Bytes::new(),
            captured_at: SystemTime::UNIX_EPOCH,
            seq,
        }
    }

    #[test]
    fn slow_viewers_get_the_newest_picture_only() {
        let board = PictureBoard::default();
        let slot = board.add("gate");
        assert!(!slot.is_watched());
        assert!(board.look("yard", Look::Plain).is_none());
        let mut viewer = board.look("gate", Look::Plain).expect("it was added");
        assert!(slot.is_watched() && slot.is_watched_as(Look::Plain));
        assert!(!slot.is_watched_as(Look::Drawn));
        for seq in 0..5 {
            slot.put(Look::Plain, picture(seq));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let seen = runtime.block_on(viewer.next()).expect("a picture");
        assert_eq!(seen.seq, 4);
        drop(viewer);
        assert!(!slot.is_watched());
    }

    #[test]
    fn viewers_stay_while_a_source_restarts() {
        let board = PictureBoard::default();
        board.add("gate");
        let mut viewer = board.look("gate", Look::Plain).expect("it was added");
        board.remove("gate");
        board.add("gate").put(Look::Plain, picture(7));
        assert_eq!(viewer.newest().map(|picture| picture.seq), Some(7));
        drop(viewer);
        board.remove("gate");
        assert!(board.look("gate", Look::Plain).is_none());
    }
}
