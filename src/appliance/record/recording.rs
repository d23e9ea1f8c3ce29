//! The recording: annotated frames of one source, or of several side by side, into a file, by a thread named `record`.
//!
//! Nobody waits for it: what it cannot keep up with is dropped and counted. When it breaks, the daemon goes on without it and says so
//! at the end.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use gstreamer as gst;

use jetwatch_telemetry::{self as telemetry, Recorder, thread_names};
use jetwatch_types::{FrameMeta, SourceId, Track};

use super::RenderError;
use super::encoders::EncoderChoice;
use super::image_budget::{BudgetedImage, ImageBudget};
use super::overlay::Overlay;
use super::recorder_thread::{Command, DrawRequest, RecorderThread, RecordingStats};
use super::tiles::TileAssignment;

/// Frames that may wait to be drawn, where fewer come at once.
const QUEUE_CAPACITY: usize = 4;

/// Views that are kept beyond those in the queue: they are on their way through the follower.
const IN_FLIGHT_IMAGES: usize = 4;

/// What becomes of frames that the recording cannot keep up with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverflowPolicy {
    /// They are dropped, and counted.
    Drop,
    /// They wait, as many as there are: whoever offers them bounds them.
    Block,
}

impl OverflowPolicy {
    /// Most frames that may wait, of which `burst` may come at once.
    fn queue_capacity(self, burst: usize) -> usize {
        match self {
            Self::Drop => QUEUE_CAPACITY.max(burst),
            Self::Block => usize::MAX,
        }
    }
}

/// A running recording.
pub struct Recording {
    choice: EncoderChoice,
    commands: Sender<Command>,
    /// Most tasks that wait when one more frame is taken.
    queue_capacity: usize,
    tiles: TileAssignment,
    offered: u64,
    thread: JoinHandle<RecordingStats>,
    ended: Receiver<()>,
    deadline: Duration,
}

/// Numbers of a recording.
#[derive(Debug, Clone, serde::Serialize)]
pub struct RecordingReport {
    /// The file.
    pub path: PathBuf,
    /// GStreamer's element that encoded it.
    pub encoder: &'static str,
    /// Frames drawn.
    pub frames: u64,
    /// Frames that were not drawn because the recording was behind or had failed, or their source counted as away by then.
    pub dropped: u64,
    /// Pictures in the file: one a frame, or fewer where several sources share them.
    pub pictures: u64,
}

/// How a recording ended.
#[derive(Debug)]
pub struct RecordingEnd {
    /// Its numbers.
    pub report: RecordingReport,
    /// Why it is not whole.
    pub failure: Option<RenderError>,
}

impl Recording {
    /// Makes the file where it is missing and finds what encodes for it. What is in it is lost with the first frame.
    ///
    /// # Errors
    /// The file cannot be made, or nothing here encodes for it.
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

    /// Starts the thread; `sources` are the names of those that share the picture, in the order of their places. The encoder starts
    /// with the first frame, which tells the size. At the end, it may take `deadline` to complete the file. Stage times go to
    /// `recorder`; `overflow` says what becomes of what it cannot keep up with: of more than `burst` frames, which may come at once
    /// and be drawn before the next ones come.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(
        choice: EncoderChoice,
        sources: Vec<String>,
        recorder: Recorder,
        (overflow, burst): (OverflowPolicy, usize),
        deadline: Duration,
    ) -> Result<Self, RenderError> {
        // What is no frame must come through, and is little: frames are bounded where they are taken.
        let (commands, waiting) = unbounded();
        let (end, ended) = bounded::<()>(0);
        let recorder_thread =
            RecorderThread::new(choice.clone(), sources.len(), recorder, deadline);
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
            queue_capacity: overflow.queue_capacity(burst),
            tiles: TileAssignment::new(sources),
            offered: 0,
            thread,
            ended,
            deadline,
        })
    }

    /// A shelf for the views that go to a recording, of which `in_hand` may be in the hands of the detector's workers at once, and
    /// `burst` come to the recording at once.
    #[must_use]
    pub fn image_budget(in_hand: usize, burst: usize) -> ImageBudget {
        ImageBudget::new(QUEUE_CAPACITY.max(burst) + IN_FLIGHT_IMAGES + in_hand)
    }

    /// A source is there, and `overlay` draws over it. It gets the place of its name: one that is started anew goes on where it was. Others
    /// are not recorded, and told so.
    pub fn add_source(&mut self, source: SourceId, name: &str, overlay: Box<Overlay>) {
        if !self.tiles.assign(source, name, overlay) {
            log::warn!(source = name; "joined after the recording began, so that it has no place in it; restart the daemon to record it");
        }
    }

    /// A source is away: where several share the picture, its part is black from now on, so that nobody takes its last frame for what
    /// is there now.
    ///
    /// Frames of it that are still on their way are not drawn any more.
    pub fn set_offline(&mut self, source: SourceId) {
        self.tiles.set_offline(source);
        self.clear_tile(self.tiles.tile_of(source));
    }

    /// A source is there again, or may be soon.
    pub fn set_online(&mut self, source: SourceId) {
        self.tiles.set_online(source);
    }

    /// A source is gone for good, and its part of the picture is black until another of its name joins.
    pub fn remove_source(&mut self, source: SourceId) {
        let tile = self.tiles.release(source);
        self.clear_tile(tile);
    }

    fn clear_tile(&self, tile: Option<usize>) {
        if let Some(seat) = tile {
            let since = Instant::now();
            // Refused where the thread has ended with an error, which it has told.
            let _ = self.commands.send(Command::ClearTile { tile: seat, since });
        }
    }

    /// Takes a frame with the tracks seen in it. Without its view, or while the recording is behind, it is dropped.
    pub fn push(&mut self, meta: &FrameMeta, full_image: Option<BudgetedImage>, tracks: &[Track]) {
        let Some(tile) = self.tiles.tile_of(meta.source) else {
            return;
        };
        self.offered += 1;
        // A picture of another size shows the boxes elsewhere.
        let is_offline = self.tiles.is_offline(meta.source);
        let fits = |view: &BudgetedImage| {
            !is_offline
                && view.size == meta.source_size
                && self.commands.len() < self.queue_capacity
        };
        let Some(full_image) = full_image.filter(fits) else {
            return;
        };
        // Refused where the thread has ended with an error, which it has told.
        let _ = self.commands.send(Command::Draw(Box::new(DrawRequest {
            meta: *meta,
            tile,
            overlay: self.tiles.new_overlays[tile].take(),
            full_image,
            tracks: tracks.to_vec(),
        })));
    }

    /// Draws what waits, and completes the file; each takes at most as long as [`start`](Self::start) was told.
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
            // Its panic, if any, was told by the hook.
            _ => self.thread.join().unwrap_or_default(),
        };
        RecordingEnd {
            report: RecordingReport {
                path: self.choice.path,
                encoder: self.choice.encoder.element,
                frames: drawn.frames,
                dropped: self.offered - drawn.frames,
                pictures: drawn.images,
            },
            failure: drawn.failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_types::{Image, Size};

    #[test]
    fn recorder_queue_holds_one_batch() {
        assert_eq!(
            [1, 4, 16].map(|burst| OverflowPolicy::Drop.queue_capacity(burst)),
            [4, 4, 16]
        );
        assert_eq!(OverflowPolicy::Block.queue_capacity(1), usize::MAX);
        // While a batch waits, the next one is on its way.
        let picture = || Image::new(Size::new(1, 1), 4, Box::new([0_u8; 4])).expect("4 bytes");
        let shelf = Recording::image_budget(16, 16);
        let kept: Vec<_> = (0..100)
            .map_while(|_| shelf.try_acquire(picture()))
            .collect();
        assert_eq!(kept.len(), 16 + 16 + IN_FLIGHT_IMAGES);
    }
}
