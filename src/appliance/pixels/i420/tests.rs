// SPDX-License-Identifier: Apache-2.0
//! Scaling of `I420` images against definitions that are computed number by number.

use super::*;

const BT709: YuvColors = YuvColors {
    red: 0.2126,
    blue: 0.0722,
    full_range: false,
};

fn noise(seed: u32) -> u8 {
    (seed.wrapping_mul(2_654_435_761) >> 24) as u8
}

/// The value of a plane at a position of the result, number by number.
fn sampled(plane: Plane<'_>, from: Size, to: Size, column: u32, row: u32) -> i32 {
    let at = |x: u32, y: u32| i32::from(plane.bytes[y as usize * plane.stride + x as usize]);
    let center = (f64::from(row) + 0.5) * f64::from(from.height) / f64::from(to.height) - 0.5;
    let weight = ((center - center.floor()) * 256.0).round() as i32;
    let inside = |row: f64| row.clamp(0.0, f64::from(from.height - 1)) as u32;
    let between = |x: u32| {
        let (above, below) = (
            at(x, inside(center.floor())),
            at(x, inside(center.floor() + 1.0)),
        );
        (above * (256 - weight) + below * weight + 128) / 256
    };
    if from.width == to.width {
        return between(column);
    }
    let position = column * (((from.width - 1) << 16) / (to.width - 1) - 1);
    let (left, weight) = (position >> 16, (position >> 8 & 0xff) as i32);
    (between(left) * (256 - weight) + between(left + 1) * weight) / 256
}

/// Blue, green and red of a pixel by the definition of Y'CbCr.
fn exact([luma, blue, red]: [i32; 3], colors: YuvColors) -> [f64; 3] {
    let (black, white, spread) = match colors.full_range {
        true => (0, 255.0, 255.0),
        false => (16, 219.0, 224.0),
    };
    let luma = f64::from(luma - black) / white;
    let [blue, red] = [(blue, colors.blue), (red, colors.red)]
        .map(|(value, weight)| luma + f64::from(value - 128) / spread * 2.0 * (1.0 - weight));
    let green = (luma - colors.blue * blue - colors.red * red) / (1.0 - colors.blue - colors.red);
    [blue, green, red].map(|value| (255.0 * value).clamp(0.0, 255.0))
}

#[test]
fn colors_are_within_one_level_of_the_exact_formula() {
    let mut largest = 0.0_f64;
    for (red, blue) in [(0.299, 0.114), (0.2126, 0.0722), (0.2627, 0.0593)] {
        for full_range in [false, true] {
            let colors = YuvColors {
                red,
                blue,
                full_range,
            };
            // Each luma with each pair of every fifth blue and red difference.
            let size = Size::new(512, 2);
            let mut scaler = I420Scaler::new(size, size, colors).expect("a supported size");
            let luma: Vec<u8> = (0..1024).map(|index| (index / 2 % 256) as u8).collect();
            let mut result = vec![0; 1024 * PIXEL_BYTES];
            for (u, v) in (0..52 * 52).map(|pair| (pair / 52 * 5, pair % 52 * 5)) {
                let planes = [luma.as_slice(), &[u as u8; 256], &[v as u8; 256]];
                let planes = planes.map(|bytes| Plane {
                    bytes,
                    stride: bytes.len().min(512),
                });
                scaler.scale(planes, &mut result);
                for (pixel, luma) in result.as_chunks::<PIXEL_BYTES>().0.iter().zip(0_i32..) {
                    for (value, exact) in pixel.iter().zip(exact([luma / 2 % 256, u, v], colors)) {
                        largest = largest.max((f64::from(*value) - exact).abs());
                    }
                }
            }
        }
    }
    assert!(largest < 1.0, "{largest}");
}

#[test]
fn i420_scaler_matches_naive_reference() {
    let sizes = [
        (Size::new(48, 36), Size::new(41, 29)),
        (Size::new(97, 61), Size::new(33, 17)),
        (Size::new(64, 48), Size::new(64, 30)),
        (Size::new(64, 48), Size::new(40, 48)),
        (Size::new(31, 23), Size::new(31, 23)),
        (Size::new(640, 32), Size::new(21, 9)),
    ];
    for (from, to) in sizes {
        for full_range in [false, true] {
            let colors = YuvColors {
                full_range,
                ..BT709
            };
            let chroma = chroma_size(from);
            let plane = |size: Size, seed: u32| -> Vec<u8> {
                let count = (size.width + 5) * size.height;
                (0..count).map(|index| noise(index + seed)).collect()
            };
            let bytes = [plane(from, 1), plane(chroma, 77), plane(chroma, 991)];
            let stride = |size: Size| size.width as usize + 5;
            let planes = [
                Plane {
                    bytes: &bytes[0],
                    stride: stride(from),
                },
                Plane {
                    bytes: &bytes[1],
                    stride: stride(chroma),
                },
                Plane {
                    bytes: &bytes[2],
                    stride: stride(chroma),
                },
            ];
            let mut scaler = I420Scaler::new(from, to, colors).expect("a supported size");
            let mut result = vec![7; (to.width * to.height) as usize * PIXEL_BYTES];
            scaler.scale(planes, &mut result);
            let mut baseline = vec![9; result.len()];
            scaler.scale_planes(&planes, &mut baseline);
            assert!(
                baseline == result,
                "{from} to {to}: other pixels with the instructions of every CPU"
            );
            let (pixels, _) = result.as_chunks::<PIXEL_BYTES>();
            for (index, pixel) in (0_u32..).zip(pixels) {
                let (x, y) = (index % to.width, index / to.width);
                let at =
                    |plane: usize| sampled(planes[plane], chroma, chroma_size(to), x / 2, y / 2);
                let luma = sampled(planes[0], from, to, x, y);
                let wanted = exact([luma, at(1), at(2)], colors);
                let is_near =
                    |(value, wanted): (&u8, f64)| (f64::from(*value) - wanted).abs() < 1.0;
                assert!(
                    pixel.iter().zip(wanted).all(is_near) && pixel[3] == 255,
                    "{from} to {to} at {x},{y}, full range {full_range}: {pixel:?} for {wanted:?}"
                );
            }
        }
    }
}

#[test]
fn sizes_that_gstreamer_scales_another_way_are_refused() {
    let is_supported = |from: (u32, u32), to: (u32, u32)| {
        let size = |(width, height)| Size::new(width, height);
        I420Scaler::new(size(from), size(to), BT709).is_some()
    };
    assert!(is_supported((480, 360), (416, 312)));
    assert!(is_supported((1920, 1080), (416, 234)));
    assert!(is_supported((416, 416), (416, 416)));
    assert!(!is_supported((320, 240), (416, 312)), "it grows");
    assert!(!is_supported((832, 600), (416, 312)), "half the width");
    assert!(!is_supported((480, 624), (416, 312)), "half the height");
    // Two rows of chroma less.
    assert!(!is_supported((480, 316), (416, 312)));
    assert!(!is_supported((4000, 3000), (100, 75)), "by a factor of 40");
    assert!(!is_supported((480, 360), (0, 312)));
}
