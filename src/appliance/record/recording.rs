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
use super::encoders::Choice;
use super::overlay::Overlay;
use super::scribe::{Drawn, Scribe, Shot, Task};
use super::seats::Seats;
use super::shelf::{KeptView, Shelf};

/// Frames that may wait to be drawn, where fewer come at once.
const QUEUE: usize = 4;

/// Views that are kept beyond those in the queue: they are on their way through the follower.
const ON_THEIR_WAY: usize = 4;

/// What becomes of frames that the recording cannot keep up with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lag {
    /// They are dropped, and counted.
    Drops,
    /// They wait, as many as there are: whoever offers them bounds them.
    Waits,
}

impl Lag {
    /// Most frames that may wait, of which `burst` may come at once.
    fn room(self, burst: usize) -> usize {
        match self {
            Self::Drops => QUEUE.max(burst),
            Self::Waits => usize::MAX,
        }
    }
}

/// A running recording.
pub struct Recording {
    choice: Choice,
    tasks: Sender<Task>,
    /// Most tasks that wait when one more frame is taken.
    room: usize,
    seats: Seats,
    offered: u64,
    thread: JoinHandle<Drawn>,
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
    pub fn prepare(path: &Path) -> Result<Choice, RenderError> {
        gst::init().map_err(|error| RenderError::Element {
            element: "GStreamer",
            reason: error.to_string(),
            package: "libgstreamer1.0-0",
        })?;
        let choice = Choice::make(path)?;
        let file = File::options().append(true).create(true).open(path);
        file.map_err(|cause| RenderError::File {
            path: path.to_owned(),
            cause,
        })?;
        Ok(choice)
    }

    /// Starts the thread; `sources` are the names of those that share the picture, in the order of their places. The encoder starts
    /// with the first frame, which tells the size. At the end, it may take `deadline` to complete the file. Stage times go to
    /// `recorder`; `lag` says what becomes of what it cannot keep up with: of more than `burst` frames, which may come at once
    /// and be drawn before the next ones come.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(
        choice: Choice,
        sources: Vec<String>,
        recorder: Recorder,
        (lag, burst): (Lag, usize),
        deadline: Duration,
    ) -> Result<Self, RenderError> {
        // What is no frame must come through, and is little: frames are bounded where they are taken.
        let (tasks, waiting) = unbounded();
        let (end, ended) = bounded::<()>(0);
        let scribe = Scribe::new(choice.clone(), sources.len(), recorder, deadline);
        let thread = thread::Builder::new().name(thread_names::RECORD.to_owned());
        let thread = thread
            .spawn(move || {
                telemetry::name_thread(thread_names::RECORD);
                let drawn = scribe.run(&waiting);
                drop(end);
                drawn
            })
            .map_err(RenderError::Thread)?;
        log::info!(encoder = choice.encoder.element; "recording to {}", choice.path.display());
        Ok(Self {
            choice,
            tasks,
            room: lag.room(burst),
            seats: Seats::new(sources),
            offered: 0,
            thread,
            ended,
            deadline,
        })
    }

    /// A shelf for the views that go to a recording, of which `in_hand` may be in the hands of the detector's workers at once, and
    /// `burst` come to the recording at once.
    #[must_use]
    pub fn shelf(in_hand: usize, burst: usize) -> Shelf {
        Shelf::new(QUEUE.max(burst) + ON_THEIR_WAY + in_hand)
    }

    /// A source is there, and `overlay` draws over it. It gets the place of its name: one that is started anew goes on where it was. Others
    /// are not recorded, and told so.
    pub fn join(&mut self, source: SourceId, name: &str, overlay: Box<Overlay>) {
        if !self.seats.take(source, name, overlay) {
            log::warn!(source = name; "joined after the recording began, so that it has no place in it; restart the daemon to record it");
        }
    }

    /// A source is away: where several share the picture, its part is black from now on, so that nobody takes its last frame for what
    /// is there now.
    ///
    /// Frames of it that are still on their way are not drawn any more.
    pub fn away(&mut self, source: SourceId) {
        self.seats.set_away(source);
        self.empty(self.seats.of(source));
    }

    /// A source is there again, or may be soon.
    pub fn back(&mut self, source: SourceId) {
        self.seats.set_back(source);
    }

    /// A source is gone for good, and its part of the picture is black until another of its name joins.
    pub fn leave(&mut self, source: SourceId) {
        let seat = self.seats.give_up(source);
        self.empty(seat);
    }

    fn empty(&self, seat: Option<usize>) {
        if let Some(seat) = seat {
            let since = Instant::now();
            // Refused where the thread has ended with an error, which it has told.
            let _ = self.tasks.send(Task::Empty { seat, since });
        }
    }

    /// Takes a frame with the tracks seen in it. Without its view, or while the recording is behind, it is dropped.
    pub fn offer(&mut self, meta: &FrameMeta, view: Option<KeptView>, tracks: &[Track]) {
        let Some(seat) = self.seats.of(meta.source) else {
            return;
        };
        self.offered += 1;
        // A picture of another size shows the boxes elsewhere.
        let is_away = self.seats.is_away(meta.source);
        let fits = |view: &KeptView| {
            !is_away && view.size == meta.source_size && self.tasks.len() < self.room
        };
        let Some(view) = view.filter(fits) else {
            return;
        };
        // Refused where the thread has ended with an error, which it has told.
        let _ = self.tasks.send(Task::Draw(Box::new(Shot {
            meta: *meta,
            seat,
            overlay: self.seats.fresh[seat].take(),
            view,
            tracks: tracks.to_vec(),
        })));
    }

    /// Draws what waits, and completes the file; each takes at most as long as [`start`](Self::start) was told.
    #[must_use]
    pub fn close(self) -> RecordingEnd {
        drop(self.tasks);
        let patience = self.deadline * 2;
        let ended = self.ended.recv_timeout(patience);
        let drawn = match ended {
            Err(crossbeam_channel::RecvTimeoutError::Timeout) => Drawn {
                failure: Some(RenderError::Late {
                    path: self.choice.path.clone(),
                    waited_ms: patience.as_millis(),
                }),
                ..Drawn::default()
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
                pictures: drawn.pictures,
            },
            failure: drawn.failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_types::{Picture, Size};

    #[test]
    fn as_many_frames_may_wait_as_come_at_once() {
        assert_eq!([1, 4, 16].map(|burst| Lag::Drops.room(burst)), [4, 4, 16]);
        assert_eq!(Lag::Waits.room(1), usize::MAX);
        // While a batch waits, the next one is on its way.
        let picture = || Picture::new(Size::new(1, 1), 4, Box::new([0_u8; 4])).expect("4 bytes");
        let shelf = Recording::shelf(16, 16);
        let kept: Vec<_> = (0..100).map_while(|_| shelf.keep(picture())).collect();
        assert_eq!(kept.len(), 16 + 16 + ON_THEIR_WAY);
    }
}
