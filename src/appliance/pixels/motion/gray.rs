// SPDX-License-Identifier: Apache-2.0
//! A frame as a small gray image: the mean brightness of square cells.

use jetwatch_types::{Frame, Image, PIXEL_BYTES, PixelPool, PooledPixels, Size, Xyxy};

/// Largest gray image, in pixels.
pub const MAX_GRAY_SIZE: Size = Size::new(160, 120);

/// Smallest side of a gray image that an estimate needs, in pixels.
const MIN_SIDE: u32 = 24;

/// Most rows of a cell that are read. The image of a network has fewer; more would make an image of 4K slow.
const MAX_ROWS_READ: u32 = 8;

/// Largest difference of brightness inside of a black bar of the video itself.
const MAX_BAR_CONTRAST: u8 = 6;

/// A small gray image of one frame, and where its pixels are in the source image.
pub struct GrayImage {
    /// At most [`MAX_GRAY_SIZE`].
    pub(crate) size: Size,
    /// `size.height` rows of `size.width` brightnesses.
    pub(crate) pixels: PooledPixels,
    /// Left and top edge of the gray image in source pixels.
    pub(crate) origin: [f32; 2],
    /// Width and height of a gray pixel in source pixels.
    pub(crate) per_pixel: [f32; 2],
    /// Edges of the part inside of uniform bars, in gray pixels: left, top, right, bottom.
    pub(crate) content: [usize; 4],
}

/// Makes gray images; their memory is reused once they are dropped.
#[derive(Default)]
pub struct GrayReducer {
    pool: PixelPool,
    /// Sums of one row of cells: one for each byte of a row of the image.
    sums: Vec<u16>,
}

impl GrayReducer {
    /// Reduces the network's image of a frame, which has no padding. `None` where the CPU cannot read it, or where it is smaller
    /// than 24 pixels on a side.
    #[must_use]
    pub fn reduce(&mut self, frame: &Frame) -> Option<GrayImage> {
        let image = &frame.image;
        if !image.is_cpu_readable() {
            return None;
        }
        let cell = cell_side(image.size);
        let size = Size::new(image.size.width / cell, image.size.height / cell);
        if size.width < MIN_SIDE || size.height < MIN_SIDE {
            return None;
        }
        let mut pixels = self
            .pool
            .acquire(size.width as usize * size.height as usize);
        let rows = pixels.as_mut().chunks_exact_mut(size.width as usize);
        for (y, row) in (0..).zip(rows) {
            self.reduce_row(image, y, cell, row);
        }
        let (origin, shown) = match frame.crop {
            Some(crop) => ([crop.left as f32, crop.top as f32], crop.size),
            None => ([0.0, 0.0], frame.meta.source_size),
        };
        let per_pixel = [
            (cell * shown.width) as f32 / image.size.width as f32,
            (cell * shown.height) as f32 / image.size.height as f32,
        ];
        let content = content(pixels.as_ref(), size);
        Some(GrayImage {
            size,
            pixels,
            origin,
            per_pixel,
            content,
        })
    }

    /// One row of cells of `cell`×`cell` pixels. Brightness is `(B + 2 G + R) / 4`.
    fn reduce_row(&mut self, image: &Image, y: u32, cell: u32, row: &mut [u8]) {
        let used = row.len() * cell as usize * PIXEL_BYTES;
        self.sums.clear();
        self.sums.resize(used, 0);
        let step = cell.div_ceil(MAX_ROWS_READ);
        let mut rows_read = 0;
        for line in (0..cell).step_by(step as usize) {
            let bytes = &image.row(y * cell + line)[..used];
            for (sum, byte) in self.sums.iter_mut().zip(bytes) {
                *sum += u16::from(*byte);
            }
            rows_read += 1;
        }
        let count = 4 * rows_read * cell;
        let cells = self.sums.chunks_exact(cell as usize * PIXEL_BYTES);
        for (gray, cell) in row.iter_mut().zip(cells) {
            let sum: u32 = cell
                .chunks_exact(PIXEL_BYTES)
                .map(|pixel| u32::from(pixel[0]) + 2 * u32::from(pixel[1]) + u32::from(pixel[2]))
                .sum();
            // A mean of bytes is a byte.
            *gray = ((sum + count / 2) / count) as u8;
        }
    }
}

impl GrayImage {
    /// Width and height in gray pixels.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Whether both show the same part of the source at the same scale.
    pub(crate) fn has_geometry_of(&self, other: &Geometry) -> bool {
        self.geometry() == *other
    }

    /// Size and place.
    pub(crate) fn geometry(&self) -> Geometry {
        Geometry {
            size: self.size,
            origin: self.origin,
            per_pixel: self.per_pixel,
        }
    }
}

/// Size of a gray image, and where it is in the source image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Geometry {
    pub(crate) size: Size,
    pub(crate) origin: [f32; 2],
    pub(crate) per_pixel: [f32; 2],
}

impl Geometry {
    /// A point in gray pixels, where the center of the first pixel is at 0.5, as one in source pixels.
    pub(crate) fn to_source(self, [x, y]: [f32; 2]) -> [f32; 2] {
        [
            self.origin[0] + x * self.per_pixel[0],
            self.origin[1] + y * self.per_pixel[1],
        ]
    }

    /// A box in source pixels as one in gray pixels.
    pub(crate) fn to_gray(self, xyxy: &Xyxy) -> Xyxy {
        let x = |v: f32| (v - self.origin[0]) / self.per_pixel[0];
        let y = |v: f32| (v - self.origin[1]) / self.per_pixel[1];
        [x(xyxy[0]), y(xyxy[1]), x(xyxy[2]), y(xyxy[3])]
    }
}

/// Side of the cells, a whole number of pixels: cells of different sizes would bend the image.
fn cell_side(size: Size) -> u32 {
    let columns = size.width.div_ceil(MAX_GRAY_SIZE.width);
    let rows = size.height.div_ceil(MAX_GRAY_SIZE.height);
    columns.max(rows).max(1)
}

/// Edges of the part inside of uniform bars at the sides, such as those of a film on a wide screen. An image that is uniform as
/// a whole has no content.
fn content(pixels: &[u8], size: Size) -> [usize; 4] {
    let (width, height) = (size.width as usize, size.height as usize);
    let is_uniform = |values: &mut dyn Iterator<Item = u8>| {
        let (mut low, mut high) = (u8::MAX, u8::MIN);
        for value in values {
            (low, high) = (low.min(value), high.max(value));
        }
        high.saturating_sub(low) <= MAX_BAR_CONTRAST
    };
    let row = |y: usize| is_uniform(&mut pixels[y * width..][..width].iter().copied());
    let top = (0..height).take_while(|y| row(*y)).count();
    let bottom = height - (top..height).rev().take_while(|y| row(*y)).count();
    let column = |x: usize| {
        let column = &mut (top..bottom).map(|y| pixels[y * width + x]);
        is_uniform(column)
    };
    let left = (0..width).take_while(|x| column(*x)).count();
    let right = width - (left..width).rev().take_while(|x| column(*x)).count();
    [left, top, right, bottom]
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_types::Crop;

    /// A frame whose pixels are those of a function, in all three channels.
    fn frame(size: Size, brightness: impl Fn(u32, u32) -> u8) -> Frame {
        let mut frame = Frame::black(0, 0, size);
        let stride = size.width as usize * PIXEL_BYTES;
        let mut bytes = Vec::with_capacity(stride * size.height as usize);
        for y in 0..size.height {
            for x in 0..size.width {
                let value = brightness(x, y);
                bytes.extend([value, value, value, 0]);
            }
        }
        frame.image = Image::new(size, stride, Box::new(bytes)).expect("whole rows");
        frame
    }

    #[test]
    fn cells_are_whole_and_hold_their_mean() {
        let ramp = |x: u32, y: u32| (x / 4 + y / 4) as u8;
        let gray = GrayReducer::default()
            .reduce(&frame(Size::new(640, 360), ramp))
            .expect("large enough");
        assert_eq!(gray.size(), Size::new(160, 90));
        for (at, value) in gray.pixels.as_ref().iter().enumerate() {
            assert_eq!(usize::from(*value), at % 160 + at / 160);
        }
        assert_eq!(gray.per_pixel, [4.0, 4.0]);
        let sizes = [
            ((416, 234), (138, 78)),
            ((416, 416), (104, 104)),
            ((120, 160), (60, 80)),
            ((3840, 2160), (160, 90)),
        ];
        for ((width, height), expected) in sizes {
            let gray = GrayReducer::default()
                .reduce(&frame(Size::new(width, height), |x, _| (x % 7) as u8))
                .expect("large enough");
            assert_eq!((gray.size.width, gray.size.height), expected);
        }
    }

    #[test]
    fn brightness_weighs_the_channels() {
        let mut frame = frame(Size::new(24, 24), |_, _| 0);
        let bytes = [40, 80, 120, 255].repeat(24 * 24);
        frame.image = Image::new(Size::new(24, 24), 96, Box::new(bytes)).expect("whole rows");
        let gray = GrayReducer::default().reduce(&frame).expect("large enough");
        assert!(gray.pixels.as_ref().iter().all(|value| *value == 80));
    }

    #[test]
    fn pixels_are_placed_in_the_source_image() {
        let mut frame = frame(Size::new(320, 180), |x, y| (x * y % 251) as u8);
        frame.meta.source_size = Size::new(1920, 1080);
        let whole = GrayReducer::default().reduce(&frame).expect("large enough");
        // A cell is 12 pixels of the source.
        assert_eq!(whole.geometry().to_source([10.0, 20.0]), [120.0, 240.0]);
        frame.crop = Some(Crop {
            left: 960,
            top: 270,
            size: Size::new(960, 540),
        });
        let part = GrayReducer::default().reduce(&frame).expect("large enough");
        let geometry = part.geometry();
        assert_eq!(geometry.to_source([10.0, 20.0]), [1020.0, 390.0]);
        let found = geometry.to_gray(&[1020.0, 390.0, 1026.0, 396.0]);
        assert_eq!(found, [10.0, 20.0, 11.0, 21.0]);
        assert!(!part.has_geometry_of(&whole.geometry()));
    }

    #[test]
    fn bars_of_the_video_are_no_content() {
        let film = |x: u32, y: u32| match (20..140).contains(&y) && (8..300).contains(&x) {
            true => (x * 7 + y * 13) as u8,
            false => 16 + (x % 3) as u8,
        };
        let gray = GrayReducer::default()
            .reduce(&frame(Size::new(320, 160), film))
            .expect("large enough");
        assert_eq!(gray.content, [4, 10, 150, 70]);
        let flat = GrayReducer::default()
            .reduce(&frame(Size::new(320, 160), |_, _| 90))
            .expect("large enough");
        assert!(flat.content[0] >= flat.content[2] || flat.content[1] >= flat.content[3]);
    }

    #[test]
    fn small_and_unreadable_images_have_no_gray_image() {
        let mut reducer = GrayReducer::default();
        assert!(
            reducer
                .reduce(&frame(Size::new(23, 100), |_, _| 0))
                .is_none()
        );
        let mut nvmm = frame(Size::new(100, 100), |_, _| 0);
        nvmm.image = Image::from_handle(Size::new(100, 100), ());
        assert!(reducer.reduce(&nvmm).is_none());
    }
}
