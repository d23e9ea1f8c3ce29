// SPDX-License-Identifier: Apache-2.0
//! Kept pictures and clips, and encoded streams, for the page: views of the archive and of the rings of the sources.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use crossbeam_channel::{Receiver, bounded};
use parking_lot::Mutex;
use serde_json::{Value, json};

use jetwatch_archive::{Archive, MediaId, MediaKind};
use jetwatch_files::OFlags;
use jetwatch_media::{LiveSegment, LiveStream as RingView, SourceStream, UnitNotice};
use jetwatch_web::{
    LiveStream, LiveStreams, MediaContent, MediaLibrary, MediaPage, MediaPart, MediaQuery,
    MediaStream, OpenedStream,
};

use super::export::Export;
use super::media_page::page;
use crate::run_state::RunState;

/// Longest wait for the first image of a stream.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(3);

/// The encoded streams of the sources that run.
#[derive(Default)]
pub(crate) struct StreamBoard {
    streams: Mutex<BTreeMap<String, Weak<SourceStream>>>,
}

impl StreamBoard {
    /// A source begins, with its stream.
    pub(crate) fn add(&self, source: &str, stream: &Arc<SourceStream>) {
        let stream = Arc::downgrade(stream);
        self.streams.lock().insert(source.to_owned(), stream);
    }

    /// Names of the sources whose stream has begun.
    pub(super) fn names(&self) -> Vec<String> {
        let streams = self.streams.lock();
        let begun = streams.iter().filter(|(_, stream)| {
            let stream = stream.upgrade();
            stream.is_some_and(|stream| stream.format().is_some())
        });
        begun.map(|(name, _)| name.clone()).collect()
    }
}

impl LiveStreams for StreamBoard {
    fn open(&self, source: &str) -> Option<OpenedStream> {
        let stream = self.streams.lock().get(source)?.upgrade()?;
        let (came, units) = bounded::<()>(1);
        let notice: Arc<UnitNotice> = Arc::new(move || {
            // One that waits stands for all.
            let _ = came.try_send(());
        });
        let mut view = StreamView {
            ring: stream.subscribe(&notice),
            units,
            _notice: notice,
        };
        let until = std::time::Instant::now() + BEGIN_TIMEOUT;
        loop {
            match view.ring.read() {
                LiveSegment::Init { bytes, codec } => {
                    return Some(OpenedStream {
                        codecs: codec,
                        first: bytes.into(),
                        rest: Box::new(view),
                    });
                }
                LiveSegment::Empty => view.units.recv_deadline(until).ok()?,
                LiveSegment::Fragment(_) | LiveSegment::Ended => return None,
            }
        }
    }
}

/// A view of a ring that waits for units.
struct StreamView {
    ring: RingView,
    units: Receiver<()>,
    /// Called as long as this is kept.
    _notice: Arc<UnitNotice>,
}

impl LiveStream for StreamView {
    fn next(&mut self, timeout: Duration) -> Option<bytes::Bytes> {
        loop {
            match self.ring.read() {
                LiveSegment::Init { bytes, .. } | LiveSegment::Fragment(bytes) => {
                    return Some(bytes.into());
                }
                LiveSegment::Ended => return None,
                LiveSegment::Empty => {
                    if self.units.recv_timeout(timeout).is_err() {
                        return Some(bytes::Bytes::new());
                    }
                }
            }
        }
    }
}

/// The archive, once it is open.
pub(super) struct Library {
    run: Arc<RunState>,
}

impl Library {
    pub(super) fn of(run: &Arc<RunState>) -> Self {
        Self {
            run: Arc::clone(run),
        }
    }

    fn archive(&self) -> Option<&Archive> {
        self.run.loaded.get()?.archive.as_ref()
    }

    /// Whether anything is kept.
    pub(super) fn is_open(&self) -> bool {
        self.archive().is_some()
    }
}

impl MediaLibrary for Library {
    fn items(&self, query: &MediaQuery) -> MediaPage {
        let Some(archive) = self.archive() else {
            return MediaPage::default();
        };
        page(archive, query).unwrap_or_else(|error| {
            log::warn!("the page cannot list what is kept: {error}");
            MediaPage::default()
        })
    }

    fn open(&self, id: &str, part: MediaPart) -> Option<MediaContent> {
        let archive = self.archive()?;
        let item = archive.get(&MediaId::parse(id)?).ok()?;
        let is_picture = item.kind == MediaKind::Snapshot;
        if is_picture != (part == MediaPart::Snapshot) {
            return None;
        }
        let file = jetwatch_files::open_below(archive.folder(), &item.path, OFlags::RDONLY).ok()?;
        let bytes = file.metadata().ok()?.len();
        let name = item.path.file_name()?.to_string_lossy();
        let name = format!("{}-{name}", item.source);
        Some(MediaContent { file, bytes, name })
    }

    fn pin(&self, id: &str, pinned: bool) -> Result<(), String> {
        let archive = self.archive().ok_or("nothing is kept")?;
        let id = MediaId::parse(id).ok_or("there is no such item")?;
        let pinned = archive.pin(&id, pinned);
        pinned.map(|_| ()).map_err(|error| error.to_string())
    }

    fn export(
        &self,
        source: &str,
        from: SystemTime,
        to: SystemTime,
    ) -> Option<Box<dyn MediaStream>> {
        let export = Export::of(self.archive()?, source, from, to)?;
        Some(Box::new(export))
    }

    fn usage(&self) -> Value {
        let usage = self
            .archive()
            .and_then(|archive| archive.usage(SystemTime::now()).ok());
        let Some(usage) = usage else {
            return Value::Null;
        };
        let bytes = |kind| usage.bytes_of(kind);
        json!({
            "snapshot_bytes": bytes(MediaKind::Snapshot),
            "clip_bytes": bytes(MediaKind::Clip),
            "continuous_bytes": bytes(MediaKind::Continuous),
            "bytes_per_day": usage.bytes_per_day,
            "pinned_bytes": usage.pinned_bytes,
            "days_left": usage.days_left,
            "is_full": usage.is_full,
        })
    }
}
