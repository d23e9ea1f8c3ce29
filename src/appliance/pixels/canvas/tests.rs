// SPDX-License-Identifier: Apache-2.0
//! Filled rectangles in all layouts: the expected samples change, and no others.

use proptest::prelude::*;

use super::*;

/// Memory of an image in one of the layouts, with padded rows.
struct Memory {
    layout: &'static str,
    size: Size,
    planes: Vec<(Vec<u8>, usize)>,
}

const LAYOUTS: [&str; 3] = ["bgrx", "nv12", "i420"];

/// Initial value of the memory.
const BEFORE: u8 = 0x5b;

impl Memory {
    fn new(layout: &'static str, size: Size, padding: usize) -> Self {
        let (width, height) = (size.width as usize, size.height as usize);
        let (columns, half) = (width.div_ceil(2), height.div_ceil(2));
        let shapes: &[(usize, usize)] = match layout {
            "nv12" => &[(width, height), (columns * 2, half)],
            "i420" => &[(width, height), (columns, half), (columns, half)],
            _ => &[(width * 4, height)],
        };
        let plane = |&(row, rows): &(usize, usize)| {
            let stride = row + padding;
            // The last row needs no padding.
            (vec![BEFORE; stride * (rows - 1) + row], stride)
        };
        Self {
            layout,
            size,
            planes: shapes.iter().map(plane).collect(),
        }
    }

    fn canvas(&mut self) -> Canvas<'_> {
        let size = self.size;
        let mut planes = self
            .planes
            .iter_mut()
            .map(|(bytes, stride)| (bytes.as_mut_slice(), *stride));
        let mut next = || planes.next().expect("as many planes as the layout has");
        let canvas = match self.layout {
            "bgrx" => {
                let (bytes, stride) = next();
                Canvas::bgrx(size, bytes, stride)
            }
            "nv12" => Canvas::nv12(size, next(), next()),
            _ => Canvas::i420(size, next(), next(), next()),
        };
        canvas.expect("the memory is large enough")
    }

    /// Whether a byte of a plane may change when `rectangle` is filled, and the value of an opaque fill.
    fn expected(&self, plane: usize, at: usize, rectangle: Rectangle, color: Color) -> Option<u8> {
        let stride = self.planes[plane].1;
        let (row, byte) = (at / stride, at % stride);
        let [y, u, v] = color.to_yuv(Matrix::for_height(self.size.height));
        let (bytes, cell, values): (usize, usize, &[u8]) = match (self.layout, plane) {
            ("bgrx", _) => (4, 1, &[color.blue, color.green, color.red, 255]),
            (_, 0) => (1, 1, &[y]),
            ("nv12", _) => (2, 2, &[u, v]),
            (_, 1) => (1, 2, &[u]),
            _ => (1, 2, &[v]),
        };
        // The pixels of this sample, and whether one of them is in the image and in the rectangle.
        let (column, samples) = (byte / bytes, (self.size.width as usize).div_ceil(cell));
        let reaches = |from: usize, first: i32, last: i32, side: u32| {
            let (from, to) = ((from * cell) as i64, ((from + 1) * cell) as i64);
            let (first, last) = (
                i64::from(first).max(0),
                i64::from(last).min(i64::from(side)),
            );
            first < last && from < last && to > first
        };
        let is_inside = column < samples
            && reaches(column, rectangle.left, rectangle.right, self.size.width)
            && reaches(row, rectangle.top, rectangle.bottom, self.size.height);
        is_inside.then(|| values[byte % bytes])
    }
}

#[test]
fn too_small_buffer_gives_no_canvas() {
    for layout in LAYOUTS {
        for size in [Size::new(7, 5), Size::new(1, 1), Size::new(64, 2)] {
            for plane in 0..Memory::new(layout, size, 3).planes.len() {
                let mut memory = Memory::new(layout, size, 3);
                memory.planes[plane].0.pop();
                let is_canvas = std::panic::catch_unwind(move || {
                    let _ = memory.canvas();
                });
                assert!(is_canvas.is_err(), "{layout} {size}, plane {plane}");
            }
        }
    }
    let mut short = vec![0; 400];
    assert!(Canvas::bgrx(Size::new(10, 10), &mut short, 39).is_none());
    assert!(Canvas::bgrx(Size::new(10, 0), &mut [], 40).is_some());
}

#[test]
fn half_alpha_blend_is_mean() {
    let mut memory = Memory::new("bgrx", Size::new(2, 1), 0);
    memory.planes[0].0.fill(100);
    let mut canvas = memory.canvas();
    let fill = canvas.color_fill(Color::new(200, 0, 100), 128);
    canvas.fill(Rectangle::new(1, 0, 2, 1), &fill);
    assert_eq!(memory.planes[0].0, [100, 100, 100, 100, 100, 50, 150, 178]);
}

fn side() -> impl Strategy<Value = i32> {
    prop_oneof![-5..70_i32, Just(i32::MIN), Just(i32::MAX), any::<i32>()]
}

proptest! {
    #[test]
    fn opaque_fill_changes_only_its_samples(
        layout in prop::sample::select(&LAYOUTS),
        (width, height) in (1..40_u32, 1..30_u32),
        padding in 0..9_usize,
        (left, top, right, bottom) in (side(), side(), side(), side()),
    ) {
        let mut memory = Memory::new(layout, Size::new(width, height), padding);
        let rectangle = Rectangle::new(left, top, right, bottom);
        let color = Color::new(250, 120, 3);
        let mut canvas = memory.canvas();
        let fill = canvas.color_fill(color, 255);
        canvas.fill(rectangle, &fill);
        for (plane, (bytes, _)) in memory.planes.iter().enumerate() {
            for (at, byte) in bytes.iter().enumerate() {
                let expected = memory.expected(plane, at, rectangle, color).unwrap_or(BEFORE);
                prop_assert_eq!(*byte, expected, "{} plane {} byte {}", layout, plane, at);
            }
        }
    }

    #[test]
    fn blend_lies_between_background_and_color(
        layout in prop::sample::select(&LAYOUTS),
        alpha in any::<u8>(),
        (left, top) in (-4..20_i32, -4..20_i32),
    ) {
        let mut memory = Memory::new(layout, Size::new(17, 11), 2);
        let rectangle = Rectangle::new(left, top, left + 9, top + 7);
        let color = Color::new(9, 255, 77);
        let mut canvas = memory.canvas();
        let fill = canvas.color_fill(color, alpha);
        canvas.fill(rectangle, &fill);
        for (plane, (bytes, _)) in memory.planes.iter().enumerate() {
            for (at, byte) in bytes.iter().enumerate() {
                let expected = memory.expected(plane, at, rectangle, color).unwrap_or(BEFORE);
                let (low, high) = (expected.min(BEFORE), expected.max(BEFORE));
                prop_assert!((low..=high).contains(byte), "{} plane {} byte {}", layout, plane, at);
            }
        }
    }
}
