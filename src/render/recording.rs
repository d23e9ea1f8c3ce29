//! The recording: annotated frames of one source, or of several side by side, into a file, by a thread named `record`.
//!
//! Nobody waits for it: what it cannot keep up with is dropped and counted. When it breaks, the daemon goes on without it and says so
//! at the end.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use gstreamer as gst;

use crate::telemetry::{Level, Recorder, Stage};
use crate::types::{FrameMeta, MediaClock, PIXEL_BYTES, SourceId, Track};

use super::RenderError;
use super::canvas::Canvas;
use super::encoders::Choice;
use super::film::Film;
use super::overlay::{Overlay, Viewport};
use super::seats::Seats;
use super::shelf::{KeptView, Shelf};
use super::tiler::{Grid, Place, copy_into};

/// Frames that wait to be drawn.
const QUEUE: usize = 4;

/// Views that are kept beyond those in the queue: they are on their way through the follower.
const ON_THEIR_WAY: usize = 4;

/// Least time between two pictures that show several sources.
const TILED_INTERVAL: Duration = Duration::from_micros(66_667);

/// One frame to be drawn.
struct Shot {
    meta: FrameMeta,
    seat: usize,
    /// What draws from now on in this seat.
    overlay: Option<Box<Overlay>>,
    view: KeptView,
    tracks: Vec<Track>,
}

/// What becomes of frames that the recording cannot keep up with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lag {
    /// They are dropped, and counted.
    Drops,
    /// They wait, as many as there are: whoever offers them bounds them.
    Waits,
}

/// A running recording.
pub struct Recording {
    choice: Choice,
    shots: Sender<Shot>,
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
    /// Frames that were not drawn because the recording was behind or had failed.
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

/// What the thread has done.
#[derive(Default)]
struct Drawn {
    frames: u64,
    pictures: u64,
    failure: Option<RenderError>,
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
    /// `recorder`; `lag` says what becomes of what it cannot keep up with.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(
        choice: Choice,
        sources: Vec<String>,
        recorder: Recorder,
        lag: Lag,
        deadline: Duration,
    ) -> Result<Self, RenderError> {
        let (shots, waiting) = match lag {
            Lag::Drops => bounded(QUEUE),
            Lag::Waits => unbounded(),
        };
        let (end, ended) = bounded::<()>(0);
        let scribe = Scribe {
            choice: choice.clone(),
            overlays: sources.iter().map(|_| None).collect(),
            reel: None,
            recorder,
            deadline,
        };
        let thread = thread::Builder::new().name("record".to_owned());
        let thread = thread
            .spawn(move || {
                crate::telemetry::name_thread("record");
                let drawn = scribe.run(&waiting);
                drop(end);
                drawn
            })
            .map_err(RenderError::Thread)?;
        log::info!(encoder = choice.encoder.element; "recording to {}", choice.path.display());
        Ok(Self {
            choice,
            shots,
            seats: Seats::new(sources),
            offered: 0,
            thread,
            ended,
            deadline,
        })
    }

    /// A shelf for the views that go to a recording, of which `in_hand` may be in the hands of the detector's workers at once.
    #[must_use]
    pub fn shelf(in_hand: usize) -> Shelf {
        Shelf::new(QUEUE + ON_THEIR_WAY + in_hand)
    }

    /// A source is there, and `overlay` draws over it. It gets the place of its name: one that is started anew goes on where it was. Others
    /// are not recorded, and told so.
    pub fn join(&mut self, source: SourceId, name: &str, overlay: Box<Overlay>) {
        if !self.seats.take(source, name, overlay) {
            log::warn!(source = name; "joined after the recording began, so that it has no place in it; restart the daemon to record it");
        }
    }

    /// Takes a frame with the tracks seen in it. Without its view, or while the recording is behind, it is dropped.
    pub fn offer(&mut self, meta: &FrameMeta, view: Option<KeptView>, tracks: &[Track]) {
        let Some(seat) = self.seats.of(meta.source) else {
            return;
        };
        self.offered += 1;
        // A picture of another size shows the boxes elsewhere.
        let fits = |view: &KeptView| view.size == meta.source_size && !self.shots.is_full();
        let Some(view) = view.filter(fits) else {
            return;
        };
        // Refused where the thread has ended with an error, which it has told.
        let _ = self.shots.try_send(Shot {
            meta: *meta,
            seat,
            overlay: self.seats.fresh[seat].take(),
            view,
            tracks: tracks.to_vec(),
        });
    }

    /// Draws what waits, and completes the file; each takes at most as long as [`start`](Self::start) was told.
    #[must_use]
    pub fn close(self) -> RecordingEnd {
        drop(self.shots);
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

/// The thread's side.
struct Scribe {
    choice: Choice,
    /// By the seat; there with its first frame.
    overlays: Vec<Option<Box<Overlay>>>,
    /// There once the first frame has told the size.
    reel: Option<Reel>,
    recorder: Recorder,
    deadline: Duration,
}

/// What is drawn on and written to.
struct Reel {
    film: Film,
    grid: Grid,
    clock: MediaClock,
    /// When the first frame came.
    first: Instant,
    /// The whole picture, where sources share it.
    shared: Option<Shared>,
}

/// A picture that sources share.
struct Shared {
    pixels: Vec<u8>,
    stride: usize,
    /// Where the newest picture of each source lies.
    places: Vec<Option<Place>>,
    /// When the first frame came.
    first: Instant,
    /// Time of the newest frame.
    newest: Duration,
    shown_at: Option<Duration>,
}

impl Scribe {
    fn run(mut self, shots: &Receiver<Shot>) -> Drawn {
        let mut drawn = Drawn::default();
        for shot in shots {
            match self.draw(shot) {
                Ok(pictures) => {
                    drawn.frames += 1;
                    drawn.pictures += pictures;
                }
                Err(error) => {
                    log::error!("{error}; the daemon goes on without it");
                    drawn.failure = Some(error);
                    return drawn;
                }
            }
        }
        match self.reel {
            Some(reel) => drawn.failure = reel.film.close(self.deadline).err(),
            None => {
                let path = self.choice.path;
                // A device or a pipe stays.
                if fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() == 0) {
                    let _ = fs::remove_file(&path);
                }
                drawn.failure = Some(RenderError::Nothing { path });
            }
        }
        drawn
    }

    /// Draws one frame; how many pictures were written.
    fn draw(&mut self, mut shot: Shot) -> Result<u64, RenderError> {
        let reel = match &mut self.reel {
            Some(reel) => reel,
            None => {
                let reel = Reel::open(&self.choice, self.overlays.len(), &shot)?;
                self.reel.insert(reel)
            }
        };
        let seat = shot.seat;
        if let Some(overlay) = shot.overlay.take() {
            self.overlays[seat] = Some(overlay);
        }
        let (shot, Some(overlay)) = (&shot, &mut self.overlays[seat]) else {
            return Ok(0);
        };
        let recorder = &self.recorder;
        let _whole = recorder.batch(Level::Record, 1);
        let render = || recorder.range_with_payload(Stage::Render, 1, shot.meta.seq);
        let encode = || recorder.range_with_payload(Stage::Encode, 1, shot.meta.seq);
        match &mut reel.shared {
            None => {
                let came = shot.meta.entered_at.saturating_duration_since(reel.first);
                let at = reel.clock.next(shot.meta.pts.unwrap_or(came));
                let (grid, whole) = (reel.grid, reel.grid.size());
                let waiting = encode();
                reel.film.wait_for_room()?;
                drop(waiting);
                let _range = render();
                reel.film.show(at, |pixels, stride| {
                    let place = grid.place(0, shot.view.size);
                    if place.size != whole {
                        pixels.fill(0);
                    }
                    annotate(shot, place, pixels, stride, overlay);
                })?;
                Ok(1)
            }
            Some(shared) => {
                let at = shared.time_of(shot.meta.entered_at);
                let range = render();
                let place = reel.grid.place(seat, shot.view.size);
                if shared.places[seat].replace(place) != Some(place) {
                    shared.blacken(reel.grid.cell(seat));
                }
                annotate(shot, place, &mut shared.pixels, shared.stride, overlay);
                drop(range);
                let is_early = |shown: Duration| at.saturating_sub(shown) < TILED_INTERVAL;
                if shared.shown_at.is_some_and(is_early) {
                    return Ok(0);
                }
                shared.shown_at = Some(at);
                let _range = encode();
                reel.film.wait_for_room()?;
                let whole = &shared.pixels;
                reel.film
                    .show(at, |pixels, _| pixels.copy_from_slice(whole))?;
                Ok(1)
            }
        }
    }
}

/// Puts the frame to its place and draws over it.
fn annotate(shot: &Shot, place: Place, pixels: &mut [u8], stride: usize, overlay: &mut Overlay) {
    copy_into(&shot.view, place, pixels, stride);
    let start = place.top as usize * stride + place.left as usize * PIXEL_BYTES;
    let viewport = Viewport {
        source: shot.meta.source_size,
        shown: place.size,
    };
    if let Some(mut canvas) = Canvas::bgrx(place.size, &mut pixels[start..], stride) {
        overlay.draw(&mut canvas, viewport, &shot.tracks);
    }
}

impl Reel {
    fn open(choice: &Choice, sources: usize, first: &Shot) -> Result<Self, RenderError> {
        let grid = Grid::new(sources, first.view.size);
        let whole = grid.size();
        let stride = whole.width as usize * PIXEL_BYTES;
        let shared = (sources > 1).then(|| Shared {
            pixels: vec![0; stride * whole.height as usize],
            stride,
            places: vec![None; sources],
            first: first.meta.entered_at,
            newest: Duration::ZERO,
            shown_at: None,
        });
        Ok(Self {
            film: Film::open(choice, whole)?,
            grid,
            clock: MediaClock::default(),
            first: first.meta.entered_at,
            shared,
        })
    }
}

impl Shared {
    /// Time in the file of a frame that came at `came`. Frames of several sources are drawn in the order in which the network is
    /// through with them: one that came a little earlier belongs to the same picture.
    fn time_of(&mut self, came: Instant) -> Duration {
        let at = came.saturating_duration_since(self.first);
        self.newest = self.newest.max(at);
        self.newest
    }

    fn blacken(&mut self, cell: Place) {
        let rows = self.pixels.chunks_mut(self.stride);
        let start = cell.left as usize * PIXEL_BYTES;
        let bytes = cell.size.width as usize * PIXEL_BYTES;
        for row in rows.skip(cell.top as usize).take(cell.size.height as usize) {
            row[start..start + bytes].fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_several_sources_share_one_time() {
        let first = Instant::now();
        let mut shared = Shared {
            pixels: Vec::new(),
            stride: 0,
            places: Vec::new(),
            first,
            newest: Duration::ZERO,
            shown_at: None,
        };
        let ms = Duration::from_millis;
        // Batches of three, each with the newest frame in the middle.
        let came = [0, 3, 1, 125, 127, 124, 250, 253, 249];
        let times = came.map(|came| shared.time_of(first + ms(came)).as_millis());
        assert_eq!(times, [0, 3, 3, 125, 127, 127, 250, 253, 253]);
    }
}
