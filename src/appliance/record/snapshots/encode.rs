// SPDX-License-Identifier: Apache-2.0
//! A frame as a JPEG file, scaled and drawn on.

use bytes::Bytes;

use jetwatch_pixels::{Canvas, Color, Colors, Filter, Painter, Resizer, encode_bgrx_jpeg, halve};
use jetwatch_types::{Crop, Image, PIXEL_BYTES, Size, Xyxy};

use crate::picture_encoder::PictureEncoder;

/// Opacity of a label's background.
const LABEL_ALPHA: u8 = 200;

/// Smallest side of a picture that is made smaller.
const MIN_SIDE: u32 = 32;

/// What is drawn around one object.
pub(super) struct Mark {
    /// In pixels of the source.
    pub(super) xyxy: Xyxy,
    pub(super) class: u16,
    pub(super) text: String,
}

/// Encodes frames; keeps its working memory from one to the next.
pub(super) struct SnapshotEncoder {
    resizer: Resizer,
    pixels: Vec<u8>,
    quality: u8,
    pictures: PictureEncoder,
}

impl SnapshotEncoder {
    /// For pictures of this quality, 1 to 100, and some of lower ones.
    pub(super) fn new(quality: u8) -> Self {
        Self {
            resizer: Resizer::default(),
            pixels: Vec::new(),
            quality,
            pictures: PictureEncoder::new(quality),
        }
    }

    /// Copies `image` into working memory, no wider than `max_width`; returns its size there.
    pub(super) fn load(&mut self, image: &Image, max_width: Option<u32>) -> Size {
        let size = scaled_size(image.size, max_width);
        let bytes = size.width as usize * size.height as usize * PIXEL_BYTES;
        self.pixels.resize(bytes, 0);
        if size == image.size {
            let row_bytes = size.width as usize * PIXEL_BYTES;
            let rows = self.pixels.chunks_exact_mut(row_bytes);
            for (y, row) in (0..size.height).zip(rows) {
                row.copy_from_slice(image.row(y));
            }
        } else {
            let all = Crop {
                left: 0,
                top: 0,
                size: image.size,
            };
            let filter = Filter::Triangle;
            self.resizer
                .scale_part(image, all, size, filter, &mut self.pixels);
        }
        size
    }

    /// Draws on what was loaded. `source` is the size to which the boxes refer.
    pub(super) fn draw(&mut self, size: Size, source: Size, marks: &[Mark]) {
        let stride = size.width as usize * PIXEL_BYTES;
        let Some(mut canvas) = Canvas::bgrx(size, &mut self.pixels, stride) else {
            return;
        };
        let painter = Painter::for_size(size);
        let factors = [
            size.width as f32 / source.width.max(1) as f32,
            size.height as f32 / source.height.max(1) as f32,
        ];
        let to_canvas = |[left, top, right, bottom]: Xyxy| {
            let [fx, fy] = factors;
            [left * fx, top * fy, right * fx, bottom * fy]
        };
        let fill = |mark: &Mark| canvas.color_fill(Color::for_class(mark.class), 255);
        let boxes: Vec<_> = marks
            .iter()
            .map(|mark| (to_canvas(mark.xyxy), fill(mark)))
            .collect();
        painter.draw_boxes(&mut canvas, &boxes);
        for mark in marks {
            let [left, top, ..] = to_canvas(mark.xyxy);
            let colors = Colors {
                background: canvas.color_fill(Color::BLACK, LABEL_ALPHA),
                text: canvas.color_fill(Color::for_class(mark.class), 255),
            };
            painter.draw_label(&mut canvas, left as i32, top as i32, &mark.text, &colors);
        }
    }

    /// Halves the sides of what was loaded and drawn on, and returns its size then; `None`: it is too small for that.
    pub(super) fn halve(&mut self, size: Size) -> Option<Size> {
        let half = Size::new(size.width / 2, size.height / 2);
        if half.width < MIN_SIDE || half.height < MIN_SIDE {
            return None;
        }
        halve(&mut self.pixels, size);
        Some(half)
    }

    /// What was loaded and drawn on, as a JPEG file; `None` for a size that JPEG does not have.
    pub(super) fn encode(&mut self, size: Size, quality: u8) -> Option<Bytes> {
        match quality == self.quality {
            true => self.pictures.encode(size, &self.pixels),
            false => encode_bgrx_jpeg(size, &self.pixels, quality).map(Bytes::from),
        }
    }
}

/// `size` scaled down to at most `max_width`.
fn scaled_size(size: Size, max_width: Option<u32>) -> Size {
    match max_width {
        Some(max) if size.width > max => {
            let height = u64::from(size.height) * u64::from(max) / u64::from(size.width);
            Size::new(max, u32::try_from(height).unwrap_or(1).max(1))
        }
        _ => size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_images_are_scaled_and_others_are_not() {
        let size = Size::new(1920, 1080);
        assert_eq!(scaled_size(size, Some(640)), Size::new(640, 360));
        assert_eq!(scaled_size(size, Some(1920)), size);
        assert_eq!(scaled_size(size, None), size);
        assert_eq!(scaled_size(Size::new(4000, 1), Some(64)), Size::new(64, 1));
    }

    #[test]
    fn halved_pictures_have_the_means_of_four_pixels() {
        let size = Size::new(67, 65);
        let stride = 67 * PIXEL_BYTES;
        let bytes = (0..65 * 67 * PIXEL_BYTES).map(|at| (at / PIXEL_BYTES % 67) as u8);
        let image = Image::new(size, stride, Box::new(bytes.collect::<Vec<_>>()));
        let mut encoder = SnapshotEncoder::new(85);
        encoder.load(&image.expect("its size"), None);
        assert_eq!(encoder.halve(size), Some(Size::new(33, 32)));
        assert_eq!(encoder.pixels.len(), 33 * 32 * PIXEL_BYTES);
        // Columns 2x and 2x + 1.
        let column = |x: usize| encoder.pixels[(31 * 33 + x) * PIXEL_BYTES];
        assert_eq!([column(0), column(1), column(32)], [0, 2, 64]);
        assert_eq!(encoder.halve(Size::new(33, 32)), None, "too small");
    }

    #[test]
    fn picture_is_a_jpeg_file_and_drawing_changes_it() {
        let size = Size::new(64, 48);
        let bytes = vec![90; 64 * 48 * PIXEL_BYTES];
        let image = Image::new(size, 64 * PIXEL_BYTES, Box::new(bytes)).expect("its size");
        let mut encoder = SnapshotEncoder::new(85);
        assert_eq!(encoder.load(&image, None), size);
        let clean = encoder.encode(size, 85).expect("a size that JPEG has");
        assert!(clean.starts_with(&[0xff, 0xd8]) && clean.ends_with(&[0xff, 0xd9]));
        let mark = Mark {
            xyxy: [10.0, 20.0, 40.0, 40.0],
            class: 1,
            text: "car 90%".to_owned(),
        };
        encoder.draw(size, size, &[mark]);
        assert_ne!(encoder.encode(size, 85), Some(clean));
    }
}
