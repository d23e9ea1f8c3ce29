// SPDX-License-Identifier: Apache-2.0
//! Drawing over one frame: 20 boxes with labels, with and without the trajectories of their tracks, in 1920×1080 pixels.
//!
//! `near`: the same image again and again, as one that was just copied is still in the CPU's caches; `far`: eight in turns,
//! 64 MB in `BGRx`, so that each row comes from memory.
//!
//!     make bench BENCH=render

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use jetwatch_pixels::{Canvas, Grid, copy_into};
use jetwatch_record::{Overlay, Viewport};
use jetwatch_types::{Image, Size, Track, TrackId, TrackState};

const SIZE: Size = Size::new(1920, 1080);
const TRACKS: u64 = 20;

/// People and cars from 60 to 400 pixels high, somewhere in the image, which move by a few pixels a frame.
fn tracks(frame: u64) -> Vec<Track> {
    let track = |id: u64| {
        let height = 60.0 + (id * 97 % 340) as f32;
        let width = height * if id.is_multiple_of(2) { 0.45 } else { 1.6 };
        let left = (id * 331 % 1500) as f32 + (frame % 64) as f32 * 2.0;
        let top = (id * 193 % 640) as f32 + 20.0;
        Track {
            id: TrackId(id + 1),
            state: TrackState::Active,
            class: (id % 5) as u16,
            score: 0.55 + id as f32 / 50.0,
            top_score: 0.9,
            xyxy: [left, top, left + width, top + height],
            age_frames: 40,
            hits: 40,
            lost_frames: 0,
            attributes: Default::default(),
        }
    };
    (0..TRACKS).map(track).collect()
}

/// Images of one layout, and how each becomes a canvas.
struct Layout {
    name: &'static str,
    bytes: usize,
    canvas: fn(&mut [u8]) -> Option<Canvas<'_>>,
}

const PIXELS: usize = (SIZE.width * SIZE.height) as usize;

fn nv12(bytes: &mut [u8]) -> Option<Canvas<'_>> {
    let (luma, chroma) = bytes.split_at_mut(PIXELS);
    Canvas::nv12(SIZE, (luma, 1920), (chroma, 1920))
}

fn i420(bytes: &mut [u8]) -> Option<Canvas<'_>> {
    let (luma, chroma) = bytes.split_at_mut(PIXELS);
    let (blue, red) = chroma.split_at_mut(PIXELS / 4);
    Canvas::i420(SIZE, (luma, 1920), (blue, 960), (red, 960))
}

fn bgrx(bytes: &mut [u8]) -> Option<Canvas<'_>> {
    Canvas::bgrx(SIZE, bytes, 1920 * 4)
}

const LAYOUTS: [Layout; 3] = [
    Layout {
        name: "nv12",
        bytes: PIXELS * 3 / 2,
        canvas: nv12,
    },
    Layout {
        name: "i420",
        bytes: PIXELS * 3 / 2,
        canvas: i420,
    },
    Layout {
        name: "bgrx",
        bytes: PIXELS * 4,
        canvas: bgrx,
    },
];

fn draw(criterion: &mut Criterion) {
    let labels = ["person", "car", "bus", "truck", "bicycle"].map(str::to_owned);
    let viewport = Viewport {
        source: SIZE,
        drawn_size: SIZE,
    };
    for layout in LAYOUTS {
        let cases = [
            ("boxes_and_labels_near", true, 1),
            ("boxes_and_labels_far", true, 8),
            ("with_trails_near", false, 1),
        ];
        for (what, fresh, count) in cases {
            let mut pictures = vec![vec![90_u8; layout.bytes]; count];
            let mut overlay = Overlay::new(&labels);
            let mut frame = 0_u64;
            criterion.bench_function(&format!("{}/{what}", layout.name), |bencher| {
                bencher.iter_custom(|rounds| {
                    let mut spent = Duration::ZERO;
                    for _ in 0..rounds {
                        frame += 1;
                        if fresh {
                            overlay = Overlay::new(&labels);
                        }
                        let tracks = tracks(frame);
                        let picture = &mut pictures[frame as usize % count];
                        let began = Instant::now();
                        let mut canvas = (layout.canvas)(picture).expect("its own size");
                        overlay.draw(&mut canvas, viewport, black_box(&tracks));
                        spent += began.elapsed();
                    }
                    spent
                });
            });
        }
    }
}

fn tile(criterion: &mut Criterion) {
    let grid = Grid::new(4, SIZE);
    let place = grid.fit(1, SIZE);
    let stride = grid.size().width as usize * 4;
    let mut pixels = vec![0; stride * grid.size().height as usize];
    let picture = Image::new(SIZE, 1920 * 4, Box::new(vec![70_u8; PIXELS * 4]));
    let picture = picture.expect("its own size");
    criterion.bench_function("tile_1080p_to_a_quarter_of_720p", |bencher| {
        bencher.iter(|| copy_into(black_box(&picture), place, &mut pixels, stride));
    });
}

criterion_group!(benches, draw, tile);
criterion_main!(benches);
