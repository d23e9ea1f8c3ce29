//! The recording's thread: draws frames and passes them to the encoder.
//!
//! Started and joined by the recording, which bounds its queue.

use std::fs;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use jetwatch_telemetry::{Level, Recorder, Stage};
use jetwatch_types::{BudgetedImage, FrameMeta, MediaClock, PIXEL_BYTES, Track};

use super::RenderError;
use super::canvas::Canvas;
use super::encoders::EncoderChoice;
use super::overlay::{Overlay, Viewport};
use super::tiler::{Grid, TileRect, copy_into};
use super::video_writer::VideoWriter;

/// Least time between two images that show several sources.
const TILED_INTERVAL: Duration = Duration::from_micros(66_667);

/// Least time between any two images.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// One frame to be drawn.
pub(super) struct DrawRequest {
    pub(super) meta: FrameMeta,
    pub(super) tile: usize,
    /// The new overlay of this tile, from now on.
    pub(super) overlay: Option<Box<Overlay>>,
    pub(super) full_image: BudgetedImage,
    pub(super) tracks: Vec<Track>,
}

/// A task of the thread.
pub(super) enum Command {
    Draw(Box<DrawRequest>),
    /// The source of this tile is offline or removed.
    ClearTile {
        tile: usize,
        since: Instant,
    },
}

/// Counters of the thread.
#[derive(Default)]
pub(super) struct RecordingStats {
    pub(super) frames: u64,
    pub(super) images: u64,
    pub(super) failure: Option<RenderError>,
}

/// The thread's state.
pub(super) struct RecorderThread {
    choice: EncoderChoice,
    /// By tile; present from its first frame.
    overlays: Vec<Option<Box<Overlay>>>,
    /// Created with the first frame, which determines the size.
    output: Option<OpenOutput>,
    recorder: Recorder,
    deadline: Duration,
}

/// The canvas and the file.
struct OpenOutput {
    writer: VideoWriter,
    grid: Grid,
    clock: MediaClock,
    /// Time of the first frame.
    first: Instant,
    /// The whole image, when sources share it.
    mosaic: Option<MosaicState>,
}

/// An image that sources share.
struct MosaicState {
    pixels: Vec<u8>,
    stride: usize,
    /// Position of each source's newest image.
    tiles: Vec<Option<TileRect>>,
    /// Time of the first frame.
    first: Instant,
    /// Time of the newest frame.
    last_time: Duration,
    last_pts: Option<Duration>,
}

impl RecorderThread {
    /// For `sources` tiles; nothing is drawn or opened yet. At the end, the encoder may take `deadline`.
    pub(super) fn new(
        choice: EncoderChoice,
        sources: usize,
        recorder: Recorder,
        deadline: Duration,
    ) -> Self {
        Self {
            choice,
            overlays: (0..sources).map(|_| None).collect(),
            output: None,
            recorder,
            deadline,
        }
    }

    /// Draws until all senders are gone, then finalizes the file.
    pub(super) fn run(mut self, commands: &Receiver<Command>) -> RecordingStats {
        let mut drawn = RecordingStats::default();
        for task in commands {
            let done = match task {
                Command::Draw(shot) => self.draw(*shot).map(|images| (1, images)),
                Command::ClearTile { tile: seat, since } => {
                    self.clear_source(seat, since).map(|shown| (0, shown))
                }
            };
            match done {
                Ok((frames, images)) => {
                    drawn.frames += frames;
                    drawn.images += images;
                }
                Err(error) => {
                    log::error!("{error}; the daemon continues without the recording");
                    drawn.failure = Some(error);
                    return drawn;
                }
            }
        }
        match self.output {
            Some(reel) => drawn.failure = reel.writer.close(self.deadline).err(),
            None => {
                let path = self.choice.path;
                // A device or a pipe is not removed.
                if fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() == 0) {
                    let _ = fs::remove_file(&path);
                }
                drawn.failure = Some(RenderError::Nothing { path });
            }
        }
        drawn
    }

    /// Blackens a tile of a shared image; returns the number of images written.
    fn clear_source(&mut self, tile: usize, since: Instant) -> Result<u64, RenderError> {
        let Some(reel) = &mut self.output else {
            return Ok(0);
        };
        let Some(shared) = &mut reel.mosaic else {
            return Ok(0);
        };
        if shared.tiles[tile].take().is_none() {
            return Ok(0);
        }
        shared.clear_tile(reel.grid.cell(tile));
        // At once, as there may be no further frame that would show it.
        let at = shared.time_of(since);
        shared.push(&mut reel.writer, at)
    }

    /// Draws one frame; returns the number of images written.
    fn draw(&mut self, mut request: DrawRequest) -> Result<u64, RenderError> {
        let reel = match &mut self.output {
            Some(reel) => reel,
            None => {
                let reel = OpenOutput::open(&self.choice, self.overlays.len(), &request)?;
                self.output.insert(reel)
            }
        };
        let tile = request.tile;
        if let Some(overlay) = request.overlay.take() {
            self.overlays[tile] = Some(overlay);
        }
        let (shot, Some(overlay)) = (&request, &mut self.overlays[tile]) else {
            return Ok(0);
        };
        let recorder = &self.recorder;
        let _whole = recorder.batch(Level::Record, 1);
        let render = || recorder.range_with_payload(Stage::Render, 1, shot.meta.seq);
        let encode = || recorder.range_with_payload(Stage::Encode, 1, shot.meta.seq);
        match &mut reel.mosaic {
            None => {
                let came = shot.meta.received_at.saturating_duration_since(reel.first);
                let at = reel.clock.next(shot.meta.pts.unwrap_or(came));
                let (grid, whole) = (reel.grid, reel.grid.size());
                let waiting = encode();
                reel.writer.wait_for_room()?;
                drop(waiting);
                let _range = render();
                reel.writer.push(at, |pixels, stride| {
                    let place = grid.fit(0, shot.full_image.size);
                    if place.size != whole {
                        pixels.fill(0);
                    }
                    annotate(shot, place, pixels, stride, overlay);
                })?;
                Ok(1)
            }
            Some(shared) => {
                let at = shared.time_of(shot.meta.received_at);
                let range = render();
                let place = reel.grid.fit(tile, shot.full_image.size);
                if shared.tiles[tile].replace(place) != Some(place) {
                    shared.clear_tile(reel.grid.cell(tile));
                }
                annotate(shot, place, &mut shared.pixels, shared.stride, overlay);
                drop(range);
                let is_early = |last: Duration| at.saturating_sub(last) < TILED_INTERVAL;
                if shared.last_pts.is_some_and(is_early) {
                    return Ok(0);
                }
                let _range = encode();
                shared.push(&mut reel.writer, at)
            }
        }
    }
}

/// Copies the frame to its tile and draws over it.
fn annotate(
    request: &DrawRequest,
    place: TileRect,
    pixels: &mut [u8],
    stride: usize,
    overlay: &mut Overlay,
) {
    copy_into(&request.full_image, place, pixels, stride);
    let start = place.top as usize * stride + place.left as usize * PIXEL_BYTES;
    let viewport = Viewport {
        source: request.meta.source_size,
        drawn_size: place.size,
    };
    if let Some(mut canvas) = Canvas::bgrx(place.size, &mut pixels[start..], stride) {
        overlay.draw(&mut canvas, viewport, &request.tracks);
    }
}

impl OpenOutput {
    fn open(
        choice: &EncoderChoice,
        sources: usize,
        first: &DrawRequest,
    ) -> Result<Self, RenderError> {
        let grid = Grid::new(sources, first.full_image.size);
        let whole = grid.size();
        let stride = whole.width as usize * PIXEL_BYTES;
        let shared = (sources > 1).then(|| MosaicState {
            pixels: vec![0; stride * whole.height as usize],
            stride,
            tiles: vec![None; sources],
            first: first.meta.received_at,
            last_time: Duration::ZERO,
            last_pts: None,
        });
        Ok(Self {
            writer: VideoWriter::open(choice, whole)?,
            grid,
            clock: MediaClock::default(),
            first: first.meta.received_at,
            mosaic: shared,
        })
    }
}

impl MosaicState {
    /// Time in the file of a frame that arrived at `came`. Frames of several sources are drawn in the order in which inference
    /// ends: one that arrived slightly earlier belongs to the same image.
    fn time_of(&mut self, came: Instant) -> Duration {
        let at = came.saturating_duration_since(self.first);
        self.last_time = self.last_time.max(at);
        self.last_time
    }

    /// Writes the image in its current state; returns the number of images written.
    fn push(&mut self, writer: &mut VideoWriter, at: Duration) -> Result<u64, RenderError> {
        // Players ignore a second image of the same time.
        let soon = self.last_pts.map_or(at, |last| at.max(last + MIN_INTERVAL));
        (self.last_time, self.last_pts) = (soon, Some(soon));
        writer.wait_for_room()?;
        let whole = &self.pixels;
        writer.push(soon, |pixels, _| pixels.copy_from_slice(whole))?;
        Ok(1)
    }

    fn clear_tile(&mut self, cell: TileRect) {
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
    fn mosaic_sources_share_one_timeline() {
        let first = Instant::now();
        let mut shared = MosaicState {
            pixels: Vec::new(),
            stride: 0,
            tiles: Vec::new(),
            first,
            last_time: Duration::ZERO,
            last_pts: None,
        };
        let ms = Duration::from_millis;
        // Batches of three, each with the newest frame in the middle.
        let came = [0, 3, 1, 125, 127, 124, 250, 253, 249];
        let times = came.map(|came| shared.time_of(first + ms(came)).as_millis());
        assert_eq!(times, [0, 3, 3, 125, 127, 127, 250, 253, 253]);
    }
}
