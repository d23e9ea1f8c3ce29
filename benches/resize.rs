// SPDX-License-Identifier: Apache-2.0
//! Scaling a crop on the CPU, by size of the crop and of the result; and scaling and converting the `I420` images of video decoders.
//!
//! ```text
//! make bench BENCH=resize
//! ```

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use jetwatch_pixels::{Filter, I420Scaler, JpegColors, Plane, Resizer, YuvColors};
use jetwatch_types::{PIXEL_BYTES, Size};

const CASES: [(Size, Size); 4] = [
    (Size::new(120, 200), Size::new(64, 64)),
    (Size::new(60, 120), Size::new(128, 256)),
    (Size::new(400, 300), Size::new(224, 224)),
    (Size::new(1920, 1080), Size::new(416, 234)),
];

fn resize(criterion: &mut Criterion) {
    let bytes = |size: Size| size.width as usize * size.height as usize * PIXEL_BYTES;
    let mut resizer = Resizer::default();
    for (from, to) in CASES {
        let pixels: Vec<u8> = (0..bytes(from)).map(|at| (at * 7919 % 251) as u8).collect();
        let mut result = vec![0; bytes(to)];
        criterion.bench_function(&format!("{from}_to_{to}"), |bencher| {
            bencher.iter(|| {
                resizer.scale(black_box(&pixels), from, to, Filter::Triangle, &mut result);
                black_box(&mut result);
            });
        });
    }
}

const VIDEO: [(Size, Size); 2] = [
    (Size::new(480, 360), Size::new(416, 312)),
    (Size::new(1920, 1080), Size::new(416, 234)),
];

fn i420(criterion: &mut Criterion) {
    let bt709 = YuvColors {
        red: 0.2126,
        blue: 0.0722,
        full_range: false,
    };
    for (from, to) in VIDEO {
        let (width, height) = (from.width as usize, from.height as usize);
        let plane = |stride: usize, rows: usize| -> Vec<u8> {
            (0..stride * rows)
                .map(|at| (at * 7919 % 251) as u8)
                .collect()
        };
        let (luma, chroma) = (plane(width, height), plane(width / 2, height / 2));
        let chroma = Plane {
            bytes: &chroma,
            stride: width / 2,
        };
        let luma = Plane {
            bytes: &luma,
            stride: width,
        };
        let mut scaler = I420Scaler::new(from, to, bt709).expect("a supported size");
        let mut result = vec![0; to.width as usize * to.height as usize * PIXEL_BYTES];
        criterion.bench_function(&format!("i420_{from}_to_{to}"), |bencher| {
            bencher.iter(|| {
                scaler.scale(black_box([luma, chroma, chroma]), &mut result);
                black_box(&mut result);
            });
        });
    }
}

fn jpeg_colors(criterion: &mut Criterion) {
    let size = Size::new(960, 540);
    let colors = JpegColors::new(size);
    let pixels: Vec<u8> = (0..960 * 540 * PIXEL_BYTES)
        .map(|at| (at * 7919 % 251) as u8)
        .collect();
    let mut planes = vec![0; colors.bytes()];
    criterion.bench_function(&format!("bgrx_{size}_to_jpeg_colors"), |bencher| {
        bencher.iter(|| {
            colors.convert(black_box(&pixels), &mut planes);
            black_box(&mut planes);
        });
    });
}

criterion_group!(benches, resize, i420, jpeg_colors);
criterion_main!(benches);
