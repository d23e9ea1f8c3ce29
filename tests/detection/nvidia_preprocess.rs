// SPDX-License-Identifier: Apache-2.0
//! The preprocessing kernel against the CPU: equal to the detectors' tensor writer bit for bit, and every other number
//! format and NV12 against formulas of their own.
//!
//! The kernel runs on the double of libcuda, which compiles its source as C++, and on a real GPU where there is one.

use crate::support::cuda;

use std::sync::Arc;

use cuda::{echo, noise, run_on_gpus, tensor};
use jetwatch_detect::model::{ColorOrder, InputElement, InputSpec};
use jetwatch_nvidia::cuda::{ColorMatrix, Device, Element, PixelFormat, PlaneOrder, TensorFormat};
use jetwatch_nvidia::session::LetterboxRect;
use jetwatch_pixels::{Slot, TensorWriter};
use jetwatch_types::{Image, Letterbox, Placement, Size};

/// Mean and scale of each plane: none, and those of a well-known data set.
const NORMALIZATIONS: [([f32; 3], [f32; 3]); 2] = [
    ([0.0; 3], [1.0; 3]),
    (
        [123.675, 116.28, 103.53],
        [0.017_124_754, 0.017_507_003, 0.017_429_193],
    ),
];

/// Images in one run.
const BATCH: usize = 3;

/// An image of the batch.
struct Sample {
    inner: LetterboxRect,
    /// Rows as `InferenceSession::upload_image` wants them.
    rows: Vec<Vec<u8>>,
}

impl Sample {
    fn new(pixels: PixelFormat, inner: LetterboxRect, seed: u32) -> Self {
        let (width, height) = (inner.width as usize, inner.height);
        let (bytes, rows) = match pixels {
            PixelFormat::Bgrx => (4 * width, height),
            PixelFormat::Nv12(_) => (width.next_multiple_of(2), height + height.div_ceil(2)),
        };
        let row = |y: u32| noise(bytes, seed * 10_007 + y);
        Self {
            inner,
            rows: (0..rows).map(row).collect(),
        }
    }

    /// Blue, green and red of a pixel.
    fn pixel(&self, pixels: PixelFormat, x: usize, y: usize) -> [u8; 3] {
        match pixels {
            PixelFormat::Bgrx => [0, 1, 2].map(|color| self.rows[y][4 * x + color]),
            PixelFormat::Nv12(matrix) => {
                let chroma = &self.rows[self.inner.height as usize + y / 2][x / 2 * 2..];
                from_luma(matrix, self.rows[y][x], chroma[0], chroma[1])
            }
        }
    }
}

/// Limited-range luma and color differences as blue, green and red: the standard's factors in units of 2^-16.
fn from_luma(matrix: ColorMatrix, y: u8, u: u8, v: u8) -> [u8; 3] {
    let [y, u, v] = [i64::from(y) - 16, i64::from(u) - 128, i64::from(v) - 128];
    let (v_to_red, u_to_green, v_to_green, u_to_blue) = match matrix {
        ColorMatrix::Bt601 => (104_597, -25_675, -53_279, 132_201),
        ColorMatrix::Bt709 => (117_489, -13_975, -34_925, 138_438),
    };
    let byte = |sum: i64| ((sum + 32_768) >> 16).clamp(0, 255) as u8;
    let luma = 76_309 * y;
    [
        byte(luma + u_to_blue * u),
        byte(luma + u_to_green * u + v_to_green * v),
        byte(luma + v_to_red * v),
    ]
}

/// What the tensor of one image should be, as bytes.
fn reference(pixels: PixelFormat, format: &TensorFormat, sample: &Sample) -> Vec<u8> {
    let LetterboxRect {
        width,
        height,
        left,
        top,
    } = sample.inner;
    let mut bytes = Vec::with_capacity(format.bytes());
    for plane in 0..3 {
        let color = match format.order {
            PlaneOrder::Bgr => plane,
            PlaneOrder::Rgb => 2 - plane,
        };
        for y in 0..format.height {
            for x in 0..format.width {
                let inside = (left..left + width).contains(&x) && (top..top + height).contains(&y);
                let byte = if inside {
                    sample.pixel(pixels, (x - left) as usize, (y - top) as usize)[color]
                } else {
                    format.padding
                };
                let value = (f32::from(byte) - format.mean[plane]) * format.scale[plane];
                match format.element {
                    Element::F32 => bytes.extend(value.to_ne_bytes()),
                    Element::F16 => bytes.extend(half(value).to_ne_bytes()),
                    Element::I8 { scale } => {
                        let inverse = 1.0 / scale;
                        bytes.push(
                            (value * inverse).round_ties_even().clamp(-128.0, 127.0) as i8 as u8,
                        );
                    }
                    Element::U8 => bytes.push(value.round_ties_even().clamp(0.0, 255.0) as u8),
                }
            }
        }
    }
    bytes
}

/// The bits of the 16-bit float nearest to `value`, of two equally near ones the even one: found among all of them.
fn half(value: f32) -> u16 {
    let magnitude = |bits: u16| {
        let (exponent, fraction) = (i32::from(bits >> 10), f64::from(bits & 0x3ff) / 1024.0);
        match exponent {
            0 => fraction * 2.0_f64.powi(-14),
            _ => (1.0 + fraction) * 2.0_f64.powi(exponent - 15),
        }
    };
    let wanted = f64::from(value.abs());
    // Halves are in the order of their bits.
    let (mut low, mut high) = (0_u16, 0x7bff_u16);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if magnitude(middle) <= wanted {
            low = middle
        } else {
            high = middle
        }
    }
    let (below, above) = (wanted - magnitude(low), magnitude(high) - wanted);
    let nearest = if below < above || (below == above && low % 2 == 0) {
        low
    } else {
        high
    };
    nearest | if value.is_sign_negative() { 0x8000 } else { 0 }
}

/// Runs the kernel on `samples` and gives the tensor.
fn run_kernel(
    device: &Arc<Device>,
    pixels: PixelFormat,
    format: TensorFormat,
    samples: &[Sample],
) -> Vec<u8> {
    let mut execution = echo(pixels, format, samples.len())
        .session(device)
        .expect("an execution");
    for (index, sample) in samples.iter().enumerate() {
        execution
            .upload_image(index, sample.inner, |y| &sample.rows[y as usize])
            .expect("it fits");
    }
    execution.run(samples.len()).expect("it runs");
    execution.output(0).to_vec()
}

/// Images that fill the tensor, lie in it in every way, and are tiny.
fn inners(width: u32, height: u32) -> Vec<[LetterboxRect; BATCH]> {
    let inner = |width, height, left, top| LetterboxRect {
        width,
        height,
        left,
        top,
    };
    vec![
        [
            inner(width, height, 0, 0),
            inner(width, height / 2, 0, height / 4),
            inner(width / 2, height, width / 4, 0),
        ],
        [
            inner(1, 1, 0, 0),
            inner(1, 1, width - 1, height - 1),
            inner(width - 1, height - 1, 1, 1),
        ],
        [
            inner(width - 2, 3, 1, 2),
            inner(3, height - 2, 2, 0),
            inner(5, 5, width - 5, height - 5),
        ],
        [inner(16, 4, 16, 4), inner(15, 4, 17, 3), inner(17, 5, 3, 1)],
    ]
}

fn check(device: &Arc<Device>, pixels: PixelFormat, format: TensorFormat) {
    for (number, inners) in inners(format.width, format.height).into_iter().enumerate() {
        let seed = |index: usize| (number * BATCH + index) as u32;
        let samples: Vec<_> = inners
            .into_iter()
            .enumerate()
            .map(|(index, inner)| Sample::new(pixels, inner, seed(index)))
            .collect();
        let found = run_kernel(device, pixels, format, &samples);
        for (sample, found) in samples.iter().zip(found.chunks(format.bytes())) {
            let wanted = reference(pixels, &format, sample);
            let first = found.iter().zip(&wanted).position(|(a, b)| a != b);
            assert_eq!(
                first, None,
                "{pixels:?} {format:?} {:?}: first byte that differs",
                sample.inner
            );
        }
    }
}

#[test]
fn kernel_equals_tensor_writer_bit_for_bit() {
    let test = "kernel_equals_tensor_writer_bit_for_bit";
    run_on_gpus(test, &[], |device| {
        let size = Size::new(96, 64);
        for placement in [Placement::TopLeft, Placement::Center, Placement::Stretch] {
            for (color, order) in [
                (ColorOrder::Bgr, PlaneOrder::Bgr),
                (ColorOrder::Rgb, PlaneOrder::Rgb),
            ] {
                for (mean, scale) in NORMALIZATIONS {
                    let spec = InputSpec {
                        name: "input".to_owned(),
                        sizes_name: None,
                        scales_name: None,
                        size,
                        color,
                        mean,
                        scale,
                        placement,
                        padding: 114,
                        element: InputElement::Float32,
                    };
                    let format = TensorFormat {
                        order,
                        mean,
                        scale,
                        ..tensor(96, 64, Element::F32)
                    };
                    for (w, h) in [(480, 360), (7, 13), (1, 1), (333, 31), (64, 96), (97, 1)] {
                        let letterbox = Letterbox::new(Size::new(w, h), size, placement);
                        let Letterbox {
                            inner, left, top, ..
                        } = letterbox;
                        let place = LetterboxRect {
                            width: inner.width,
                            height: inner.height,
                            left,
                            top,
                        };
                        let sample = Sample::new(PixelFormat::Bgrx, place, w);
                        let stride = 4 * inner.width as usize;
                        let image = Image::new(inner, stride, Box::new(sample.rows.concat()))
                            .expect("all rows");
                        let mut writer = TensorWriter::new(spec.format(), 1);
                        let mut wanted = vec![f32::NAN; writer.slot_len()];
                        writer.write(0, Slot::F32(&mut wanted), &image, &letterbox);
                        let wanted: Vec<u8> =
                            wanted.into_iter().flat_map(f32::to_ne_bytes).collect();
                        let found = run_kernel(&device, PixelFormat::Bgrx, format, &[sample]);
                        assert!(found == wanted, "{placement:?} {color:?} {mean:?} {w}×{h}");
                    }
                }
            }
        }
    });
}

#[test]
fn every_format_and_position_matches_reference() {
    run_on_gpus(
        "every_format_and_position_matches_reference",
        &[],
        |device| {
            let elements = [
                Element::F32,
                Element::F16,
                Element::I8 { scale: 0.0171 },
                Element::U8,
            ];
            let matrices = [ColorMatrix::Bt601, ColorMatrix::Bt709].map(PixelFormat::Nv12);
            for pixels in [PixelFormat::Bgrx].into_iter().chain(matrices) {
                for element in elements {
                    for (order, (mean, scale)) in [PlaneOrder::Rgb, PlaneOrder::Bgr]
                        .into_iter()
                        .zip(NORMALIZATIONS)
                    {
                        // Also sizes of which no 16 bytes are a whole number of pixels.
                        for (width, height) in [(96, 32), (48, 20), (37, 11)] {
                            check(
                                &device,
                                pixels,
                                TensorFormat {
                                    order,
                                    mean,
                                    scale,
                                    ..tensor(width, height, element)
                                },
                            );
                        }
                    }
                }
            }
        },
    );
}

#[test]
fn bytes_saturate_and_round_to_even() {
    run_on_gpus("bytes_saturate_and_round_to_even", &[], |device| {
        let inner = LetterboxRect {
            width: 16,
            height: 1,
            left: 0,
            top: 0,
        };
        let bytes: Vec<u8> = (0..16_u8).flat_map(|i| [i * 17, 1, 3, 255]).collect();
        let sample = || Sample {
            inner,
            rows: vec![bytes.clone()],
        };
        let signed = TensorFormat {
            mean: [127.5, 0.0, 0.0],
            ..tensor(16, 1, Element::I8 { scale: 0.5 })
        };
        let found = run_kernel(&device, PixelFormat::Bgrx, signed, &[sample()]);
        let blue: Vec<i8> = found[..16].iter().map(|byte| *byte as i8).collect();
        let wanted = [
            -128, -128, -128, -128, -119, -85, -51, -17, 17, 51, 85, 119, 127, 127, 127, 127,
        ];
        assert_eq!(blue, wanted);
        // 1.5 and 4.5 lie between two: to the even one.
        let halves = TensorFormat {
            scale: [1.5; 3],
            mean: [0.0; 3],
            ..tensor(16, 1, Element::U8)
        };
        let found = run_kernel(&device, PixelFormat::Bgrx, halves, &[sample()]);
        assert_eq!((found[16], found[32], found[15], found[1]), (2, 4, 255, 26));
    });
}

#[test]
fn halves_are_rounded_to_even_and_reach_zero_and_infinity() {
    run_on_gpus(
        "halves_are_rounded_to_even_and_reach_zero_and_infinity",
        &[],
        |device| {
            let inner = LetterboxRect {
                width: 8,
                height: 1,
                left: 0,
                top: 0,
            };
            // Halves from 2048 on are 2 apart; the smallest are units of 2^-24.
            let unit = 2.0_f32.powi(-24);
            let format = TensorFormat {
                scale: [683.0, 1.5 * unit, -0.25 * unit],
                ..tensor(8, 1, Element::F16)
            };
            let bytes: Vec<u8> = [0, 3, 9, 95, 96, 128, 200, 255]
                .iter()
                .flat_map(|i| [*i, *i, *i, 0])
                .collect();
            let sample = Sample {
                inner,
                rows: vec![bytes],
            };
            let found = run_kernel(&device, PixelFormat::Bgrx, format, &[sample]);
            let bits: Vec<u16> = found
                .as_chunks::<2>()
                .0
                .iter()
                .map(|two| u16::from_ne_bytes(*two))
                .collect();
            // 0, 2048 of 2049, 6148 of 6147, 64896 of 64885, infinity of 65568 and more.
            let wanted = [0, 0x6800, 0x6e01, 0x7bec, 0x7c00, 0x7c00, 0x7c00, 0x7c00];
            assert_eq!(bits[..8], wanted);
            // Units: 0, 4 of 4.5, 14 of 13.5, 142 of 142.5, 144, 192, 300, 382 of 382.5.
            assert_eq!(bits[8..16], [0, 4, 14, 142, 144, 192, 300, 382]);
            // Below zero: none of 0, 1 of 0.75, 2 of 2.25, 24 of 23.75, 24, 32, 50, 64 of 63.75.
            let wanted = [0, 1, 2, 24, 24, 32, 50, 64].map(|units| 0x8000 | units);
            assert_eq!(bits[16..], wanted);
        },
    );
}

#[test]
fn colors_of_nv12_are_those_of_the_standards() {
    // The factors in whole numbers against the standards' definition in 64-bit floats.
    for (matrix, red, blue) in [
        (ColorMatrix::Bt601, 0.299, 0.114),
        (ColorMatrix::Bt709, 0.2126, 0.0722),
    ] {
        let green = 1.0 - red - blue;
        for step in 0..256 * 256 * 16_u32 {
            let [y, u, v] = [step % 16 * 17, step / 16 % 256, step / 4096].map(|byte| byte as u8);
            let luma = (f64::from(y) - 16.0) / 219.0;
            let [u_share, v_share] = [u, v].map(|byte| (f64::from(byte) - 128.0) / 224.0);
            let r = luma + 2.0 * (1.0 - red) * v_share;
            let b = luma + 2.0 * (1.0 - blue) * u_share;
            let g = (luma - red * r - blue * b) / green;
            for (found, exact) in from_luma(matrix, y, u, v).into_iter().zip([b, g, r]) {
                let exact = (255.0 * exact).clamp(0.0, 255.0);
                assert!(
                    (f64::from(found) - exact).abs() < 0.51,
                    "{matrix:?} {y} {u} {v}: {found}, {exact}"
                );
            }
        }
    }
}
