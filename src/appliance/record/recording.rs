// SPDX-License-Identifier: Apache-2.0
//! Recording: writes annotated frames of one source, or of several in a grid, to a file, on a thread named `record`.
//!
//! It never blocks the pipeline. While it is behind, frames of live sources are dropped and counted; the readers of files wait, by
//! the images that it has not released yet. When it fails, the daemon continues without it and reports the error at the end.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use gstreamer as gst;

use jetwatch_telemetry::{self as telemetry, Recorder, thread_names};
use jetwatch_types::{BudgetedImage, FrameMeta, ImageBudget, SourceId, Track};

use super::RenderError;
use super::encoders::EncoderChoice;
use super::overlay::Overlay;
use super::recorder_thread::{Command, DrawRequest, RecorderThread, RecordingStats};
use super::tiles::TileAssignment;

/// Minimum queue length, in frames.
const QUEUE_CAPACITY: usize = 4;

/// Full images beyond those in the queue: frames in the tracking stage.
const IN_FLIGHT_IMAGES: usize = 4;

/// A running recording.
pub struct Recording {
    choice: EncoderChoice,
    commands: Sender<Command>,
    /// A frame is accepted while the queue has at most this many tasks.
    queue_capacity: usize,
    tiles: TileAssignment,
    /// Frames after this time are not recorded; `None`: all are.
    length: Option<Duration>,
    first_at: Option<Instant>,
    offered: u64,
    thread: JoinHandle<RecordingStats>,
    ended: Receiver<()>,
    deadline: Duration,
}

/// Counters of a recording.
#[derive(Debug, Clone, serde::Serialize)]
pub struct RecordingReport {
    /// The file.
    pub path: PathBuf,
    /// Name of the GStreamer encoder element.
    pub encoder: &'static str,
    /// Frames drawn.
    pub frames: u64,
    /// Frames not drawn: those of live sources while the recording was behind, and those that came after it had failed or after
    /// their source had gone offline.
    pub dropped: u64,
    /// Images in the file: one per frame, or fewer when several sources share them.
    pub images: u64,
}

/// Result of a recording.
#[derive(Debug)]
pub struct RecordingEnd {
    /// Counters of the recording.
    pub report: RecordingReport,
    /// Why the recording is incomplete; `None`: it is complete.
    pub failure: Option<RenderError>,
}

impl Recording {
    /// Creates the file if it is missing and selects an encoder. The first frame overwrites its contents.
    ///
    /// # Errors
    /// The file cannot be created, or no installed encoder fits it.
    pub fn prepare(path: &Path) -> Result<EncoderChoice, RenderError> {
        gst::init().map_err(|error| RenderError::Element {
            element: "GStreamer",
            reason: error.to_string(),
            package: "libgstreamer1.0-0",
        })?;
        let choice = EncoderChoice::select(path)?;
        let file = File::options().append(true).create(true).open(path);
        file.map_err(|cause| RenderError::File {
            path: path.to_owned(),
            cause,
        })?;
        Ok(choice)
    }

    /// Starts the recorder thread. `sources` are the names of the sources in the image, in the order of their tiles. The
    /// encoder starts at the first frame, which determines the size. At the end, it may take `deadline` to finalize the file. Stage
    /// times go to `recorder`. Up to `burst` frames may arrive at once.
    ///
    /// # Errors
    /// The operating system refuses the thread.
    pub fn start(
        choice: EncoderChoice,
        sources: Vec<String>,
        recorder: Recorder,
        burst: usize,
        deadline: Duration,
    ) -> Result<Self, RenderError> {
        // Unbounded for control commands, which are few; `push` bounds the number of frames.
        let (commands, waiting) = unbounded();
        let (end, ended) = bounded::<()>(0);
        let recorder_thread = RecorderThread::new(choice.clone(), &sources, recorder, deadline);
        let thread = thread::Builder::new().name(thread_names::RECORD.to_owned());
        let thread = thread
            .spawn(move || {
                telemetry::name_thread(thread_names::RECORD);
                let drawn = recorder_thread.run(&waiting);
                drop(end);
                drawn
            })
            .map_err(RenderError::Thread)?;
        log::info!(encoder = choice.encoder.element; "recording to {}", choice.path.display());
        Ok(Self {
            choice,
            commands,
            queue_capacity: queue_capacity(burst),
            tiles: TileAssignment::new(sources),
            length: None,
            first_at: None,
            offered: 0,
            thread,
            ended,
            deadline,
        })
    }

    /// Records the time `length` after the first frame, and nothing later.
    #[must_use]
    pub fn limited_to(mut self, length: Option<Duration>) -> Self {
        self.length = length;
        self
    }

    /// The budget of full images for a recording: up to `in_hand` are in the detector's workers, and up to `burst` arrive at the
    /// recording at once.
    pub fn image_budget(in_hand: usize, burst: usize) -> ImageBudget {
        ImageBudget::new(QUEUE_CAPACITY.max(burst) + IN_FLIGHT_IMAGES + in_hand)
    }

    /// The budget of full images of files: while as many are kept, their readers wait. Up to `burst` arrive at the recording at once.
    pub fn budget_of_files(burst: usize) -> ImageBudget {
        ImageBudget::new(QUEUE_CAPACITY.max(burst))
    }

    /// Assigns the tile with its name to a source: a restarted source continues in its tile. A source without a tile is not
    /// recorded, with a warning in the log.
    pub fn add_source(&mut self, source: SourceId, name: &str, overlay: Box<Overlay>) {
        if !self.tiles.assign(source, name, overlay) {
            log::warn!(source = name; "added after the recording started, so it is not recorded; restart the daemon to record it");
        }
    }

    /// Marks a source as offline. In a tiled image its tile becomes black, so that its last frame is not taken for a current
    /// one. Its frames that are still in the queue are not drawn.
    pub fn set_offline(&mut self, source: SourceId) {
        self.tiles.set_offline(source);
        self.clear_tile(self.tiles.tile_of(source));
    }

    /// Marks a source as online, or as connecting again.
    pub fn set_online(&mut self, source: SourceId) {
        self.tiles.set_online(source);
    }

    /// Removes a source; its tile is black until another source of the same name is added.
    pub fn remove_source(&mut self, source: SourceId) {
        let tile = self.tiles.release(source);
        self.clear_tile(tile);
    }

    fn clear_tile(&self, tile: Option<usize>) {
        if let Some(seat) = tile {
            let since = Instant::now();
            // Fails when the thread has ended with an error, which it has logged.
            let _ = self.commands.send(Command::ClearTile { tile: seat, since });
        }
    }

    /// Queues a frame with its tracks; never blocks. Drops it when it has no full image, or when the queue is full, unless its
    /// reader waits for the recording.
    pub fn push(
        &mut self,
        meta: &FrameMeta,
        full_image: Option<Arc<BudgetedImage>>,
        tracks: &[Track],
    ) {
        let Some(tile) = self.tiles.tile_of(meta.source) else {
            return;
        };
        let first_at = *self.first_at.get_or_insert_with(Instant::now);
        if self
            .length
            .is_some_and(|length| first_at.elapsed() > length)
        {
            return;
        }
        self.offered += 1;
        // Boxes refer to the source size: an image of another size would show them at wrong positions.
        let is_offline = self.tiles.is_offline(meta.source);
        let fits = |view: &Arc<BudgetedImage>| {
            !is_offline
                && view.size == meta.source_size
                && (view.is_awaited() || self.commands.len() < self.queue_capacity)
        };
        let Some(full_image) = full_image.filter(fits) else {
            return;
        };
        // Fails when the thread has ended with an error, which it has logged.
        let _ = self.commands.send(Command::Draw(Box::new(DrawRequest {
            meta: *meta,
            tile,
            overlay: self.tiles.new_overlays[tile].take(),
            full_image,
            tracks: tracks.to_vec(),
        })));
    }

    /// Draws the queued frames and finalizes the file. Blocks; each of the two takes at most the deadline passed to
    /// [`start`](Self::start).
    #[must_use]
    pub fn close(self) -> RecordingEnd {
        drop(self.commands);
        let timeout = self.deadline * 2;
        let ended = self.ended.recv_timeout(timeout);
        let drawn = match ended {
            Err(crossbeam_channel::RecvTimeoutError::Timeout) => RecordingStats {
                failure: Some(RenderError::Late {
                    path: self.choice.path.clone(),
                    waited_ms: timeout.as_millis(),
                }),
                ..RecordingStats::default()
            },
            // A panic has already been logged by the panic hook.
            _ => self.thread.join().unwrap_or_default(),
        };
        RecordingEnd {
            report: RecordingReport {
                path: self.choice.path,
                encoder: self.choice.encoder.element,
                frames: drawn.frames,
                dropped: self.offered - drawn.frames,
                images: drawn.images,
            },
            failure: drawn.failure,
        }
    }
}

/// Most frames that may wait to be drawn, of which `burst` may arrive at once.
fn queue_capacity(burst: usize) -> usize {
    QUEUE_CAPACITY.max(burst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_types::{Image, Size};

    #[test]
    fn recorder_queue_holds_one_batch() {
        assert_eq!([1, 4, 16].map(queue_capacity), [4, 4, 16]);
        // One batch waits in the queue while the next one arrives.
        let image = || Image::new(Size::new(1, 1), 4, Box::new([0_u8; 4])).expect("4 bytes");
        let budget = Recording::image_budget(16, 16);
        let images: Vec<_> = (0..100)
            .map_while(|_| budget.try_acquire(image()))
            .collect();
        assert_eq!(images.len(), 16 + 16 + IN_FLIGHT_IMAGES);
    }
}
