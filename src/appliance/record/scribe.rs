//! The recording's thread: draws what it is given, and gives it to the encoder.
//!
//! Started and ended by the recording, which bounds what waits here.

use std::fs;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use jetwatch_telemetry::{Level, Recorder, Stage};
use jetwatch_types::{FrameMeta, MediaClock, PIXEL_BYTES, Track};

use super::RenderError;
use super::canvas::Canvas;
use super::encoders::Choice;
use super::film::Film;
use super::overlay::{Overlay, Viewport};
use super::shelf::KeptView;
use super::tiler::{Grid, Place, copy_into};

/// Least time between two pictures that show several sources.
const TILED_INTERVAL: Duration = Duration::from_micros(66_667);

/// Least time between any two pictures.
const NEXT: Duration = Duration::from_millis(1);

/// One frame to be drawn.
pub(super) struct Shot {
    pub(super) meta: FrameMeta,
    pub(super) seat: usize,
    /// What draws from now on in this seat.
    pub(super) overlay: Option<Box<Overlay>>,
    pub(super) view: KeptView,
    pub(super) tracks: Vec<Track>,
}

/// What the thread is to do.
pub(super) enum Task {
    Draw(Box<Shot>),
    /// Nothing more comes from who sat here, at least for now.
    Empty {
        seat: usize,
        since: Instant,
    },
}

/// What the thread has done.
#[derive(Default)]
pub(super) struct Drawn {
    pub(super) frames: u64,
    pub(super) pictures: u64,
    pub(super) failure: Option<RenderError>,
}

/// The thread's side.
pub(super) struct Scribe {
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
    /// For the places of so many `sources`; nothing is drawn or opened yet. At the end, the encoder may take `deadline`.
    pub(super) fn new(
        choice: Choice,
        sources: usize,
        recorder: Recorder,
        deadline: Duration,
    ) -> Self {
        Self {
            choice,
            overlays: (0..sources).map(|_| None).collect(),
            reel: None,
            recorder,
            deadline,
        }
    }

    /// Draws until nobody gives anything any more, and completes the file.
    pub(super) fn run(mut self, tasks: &Receiver<Task>) -> Drawn {
        let mut drawn = Drawn::default();
        for task in tasks {
            let done = match task {
                Task::Draw(shot) => self.draw(*shot).map(|pictures| (1, pictures)),
                Task::Empty { seat, since } => self.empty(seat, since).map(|shown| (0, shown)),
            };
            match done {
                Ok((frames, pictures)) => {
                    drawn.frames += frames;
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

    /// Blackens a seat of a picture that sources share; how many pictures were written.
    fn empty(&mut self, seat: usize, since: Instant) -> Result<u64, RenderError> {
        let Some(reel) = &mut self.reel else {
            return Ok(0);
        };
        let Some(shared) = &mut reel.shared else {
            return Ok(0);
        };
        if shared.places[seat].take().is_none() {
            return Ok(0);
        }
        shared.blacken(reel.grid.cell(seat));
        // At once, as nobody may be left whose next frame would show it.
        let at = shared.time_of(since);
        shared.show(&mut reel.film, at)
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
                let _range = encode();
                shared.show(&mut reel.film, at)
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

    /// Writes the picture as it is; how many were written.
    fn show(&mut self, film: &mut Film, at: Duration) -> Result<u64, RenderError> {
        // Two of one time are none to a player.
        let soon = self.shown_at.map_or(at, |shown| at.max(shown + NEXT));
        (self.newest, self.shown_at) = (soon, Some(soon));
        film.wait_for_room()?;
        let whole = &self.pixels;
        film.show(soon, |pixels, _| pixels.copy_from_slice(whole))?;
        Ok(1)
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
