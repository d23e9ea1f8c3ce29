// SPDX-License-Identifier: Apache-2.0
//! The recording's thread: draws frames and passes them to the encoder.
//!
//! [`Recording`](super::Recording) starts and joins it, and bounds its queue.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use jetwatch_pixels::{Canvas, Grid, TileRect, copy_into};
use jetwatch_telemetry::{Level, Recorder, SourceCategory, Stage};
use jetwatch_types::{BudgetedImage, FrameMeta, MediaClock, PIXEL_BYTES, Track};

use super::RenderError;
use super::encoders::EncoderChoice;
use super::overlay::{Overlay, Viewport};
use super::video_writer::VideoWriter;

/// Minimum time between two tiled images.
const TILED_INTERVAL: Duration = Duration::from_micros(66_667);

/// Minimum time between any two images.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// One frame to draw.
pub(super) struct DrawRequest {
    pub(super) meta: FrameMeta,
    pub(super) tile: usize,
    /// New overlay of the tile, from this frame on.
    pub(super) overlay: Option<Box<Overlay>>,
    pub(super) full_image: Arc<BudgetedImage>,
    pub(super) tracks: Vec<Track>,
}

/// A command for the thread.
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
    /// By tile; `None` before its first frame.
    overlays: Vec<Option<Box<Overlay>>>,
    /// Created at the first frame, which determines the size.
    output: Option<OpenOutput>,
    recorder: Recorder,
    /// One for each tile: its ranges belong to the source of the tile.
    tile_recorders: Vec<Recorder>,
    deadline: Duration,
}

/// The canvas and the file.
struct OpenOutput {
    writer: VideoWriter,
    grid: Grid,
    clock: MediaClock,
    /// Time of the first frame.
    first: Instant,
    /// The tiled image; `None` for a single source.
    mosaic: Option<MosaicState>,
}

/// The image that several sources share.
struct MosaicState {
    pixels: Vec<u8>,
    stride: usize,
    /// Position of each source's newest image; `None` when its tile is black.
    tiles: Vec<Option<TileRect>>,
    /// Time of the first frame.
    first: Instant,
    /// Time of the newest frame.
    last_time: Duration,
    last_pts: Option<Duration>,
}

impl RecorderThread {
    /// State for a tile of each of `sources`; nothing is opened yet. At the end, the encoder may take up to
    /// `deadline`.
    pub(super) fn new(
        choice: EncoderChoice,
        sources: &[String],
        recorder: Recorder,
        deadline: Duration,
    ) -> Self {
        let of_source = |name: &String| recorder.clone().with_source(SourceCategory::new(name));
        Self {
            choice,
            overlays: sources.iter().map(|_| None).collect(),
            output: None,
            tile_recorders: sources.iter().map(of_source).collect(),
            recorder,
            deadline,
        }
    }

    /// Draws until all senders are dropped, then finalizes the file. Blocks on the channel and on the encoder.
    pub(super) fn run(mut self, commands: &Receiver<Command>) -> RecordingStats {
        let mut stats = RecordingStats::default();
        for command in commands {
            let done = match command {
                Command::Draw(request) => self.draw(*request).map(|images| (1, images)),
                Command::ClearTile { tile, since } => {
                    self.clear_source(tile, since).map(|images| (0, images))
                }
            };
            match done {
                Ok((frames, images)) => {
                    stats.frames += frames;
                    stats.images += images;
                }
                Err(error) => {
                    log::error!("{error}; the daemon continues without the recording");
                    stats.failure = Some(error);
                    return stats;
                }
            }
        }
        match self.output {
            Some(output) => stats.failure = output.writer.close(self.deadline).err(),
            None => {
                let path = self.choice.path;
                // Devices and pipes are not removed.
                if fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() == 0) {
                    let _ = fs::remove_file(&path);
                }
                stats.failure = Some(RenderError::Nothing { path });
            }
        }
        stats
    }

    /// Fills a tile of the mosaic with black; returns the number of images written.
    fn clear_source(&mut self, tile: usize, since: Instant) -> Result<u64, RenderError> {
        let Some(output) = &mut self.output else {
            return Ok(0);
        };
        let Some(mosaic) = &mut output.mosaic else {
            return Ok(0);
        };
        if mosaic.tiles[tile].take().is_none() {
            return Ok(0);
        }
        mosaic.clear_tile(output.grid.cell(tile));
        // At once, since no further frame may follow.
        let at = mosaic.time_of(since);
        mosaic.push(&mut output.writer, at)
    }

    /// Draws one frame; returns the number of images written.
    fn draw(&mut self, mut request: DrawRequest) -> Result<u64, RenderError> {
        let output = match &mut self.output {
            Some(output) => output,
            None => {
                let output = OpenOutput::open(&self.choice, self.overlays.len(), &request)?;
                self.output.insert(output)
            }
        };
        let tile = request.tile;
        if let Some(overlay) = request.overlay.take() {
            self.overlays[tile] = Some(overlay);
        }
        let (request, Some(overlay)) = (&request, &mut self.overlays[tile]) else {
            return Ok(0);
        };
        let (recorder, own) = (&self.recorder, &self.tile_recorders[tile]);
        let _whole = recorder.batch(Level::Record, 1);
        let render = || own.range_with_payload(Stage::Render, 1, request.meta.seq);
        let encode = || recorder.range_with_payload(Stage::Encode, 1, request.meta.seq);
        match &mut output.mosaic {
            None => {
                let arrived = request
                    .meta
                    .received_at
                    .saturating_duration_since(output.first);
                let at = output.clock.next(request.meta.pts.unwrap_or(arrived));
                let grid = output.grid;
                let waiting = encode();
                output.writer.wait_for_space()?;
                drop(waiting);
                let _range = render();
                output.writer.push(at, |pixels, stride| {
                    let target = grid.fit(0, request.full_image.size);
                    if target.size != grid.cell(0).size {
                        pixels.fill(0);
                    }
                    annotate(request, target, pixels, stride, overlay);
                })?;
                Ok(1)
            }
            Some(mosaic) => {
                let at = mosaic.time_of(request.meta.received_at);
                let range = render();
                let target = output.grid.fit(tile, request.full_image.size);
                if mosaic.tiles[tile].replace(target) != Some(target) {
                    mosaic.clear_tile(output.grid.cell(tile));
                }
                annotate(request, target, &mut mosaic.pixels, mosaic.stride, overlay);
                drop(range);
                let is_early = |last: Duration| at.saturating_sub(last) < TILED_INTERVAL;
                if mosaic.last_pts.is_some_and(is_early) {
                    return Ok(0);
                }
                let _range = encode();
                mosaic.push(&mut output.writer, at)
            }
        }
    }
}

/// Copies the frame to its tile and draws its tracks over it.
fn annotate(
    request: &DrawRequest,
    target: TileRect,
    pixels: &mut [u8],
    stride: usize,
    overlay: &mut Overlay,
) {
    copy_into(&request.full_image, target, pixels, stride);
    let viewport = Viewport {
        source: request.meta.source_size,
        drawn_size: target.size,
    };
    // A tile that is not inside `pixels` is not drawn.
    let start = target.top as usize * stride + target.left as usize * PIXEL_BYTES;
    let canvas = pixels
        .get_mut(start..)
        .and_then(|tile| Canvas::bgrx(target.size, tile, stride));
    if let Some(mut canvas) = canvas {
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
        let mosaic = (sources > 1).then(|| MosaicState {
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
            mosaic,
        })
    }
}

impl MosaicState {
    /// Time in the file of a frame that arrived at `arrived`. Frames of several sources are drawn in the order in which inference
    /// ends: one that arrived slightly earlier belongs to the same image.
    fn time_of(&mut self, arrived: Instant) -> Duration {
        let at = arrived.saturating_duration_since(self.first);
        self.last_time = self.last_time.max(at);
        self.last_time
    }

    /// Writes the image in its current state; returns the number of images written.
    fn push(&mut self, writer: &mut VideoWriter, at: Duration) -> Result<u64, RenderError> {
        // Players ignore a second image of the same time.
        let pts = self.last_pts.map_or(at, |last| at.max(last + MIN_INTERVAL));
        (self.last_time, self.last_pts) = (pts, Some(pts));
        writer.wait_for_space()?;
        let image = &self.pixels;
        writer.push(pts, |pixels, _| pixels.copy_from_slice(image))?;
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
        let mut mosaic = MosaicState {
            pixels: Vec::new(),
            stride: 0,
            tiles: Vec::new(),
            first,
            last_time: Duration::ZERO,
            last_pts: None,
        };
        let ms = Duration::from_millis;
        // Batches of three, each with the newest frame in the middle.
        let arrived = [0, 3, 1, 125, 127, 124, 250, 253, 249];
        let times = arrived.map(|arrived| mosaic.time_of(first + ms(arrived)).as_millis());
        assert_eq!(times, [0, 3, 3, 125, 127, 127, 250, 253, 253]);
    }
}
