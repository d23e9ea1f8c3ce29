// SPDX-License-Identifier: Apache-2.0
//! The letterbox: placement of a source image in the network's input, and the conversion of boxes in both directions.
//!
//! ```text
//!   source 480×360            input 416×416 (Placement::TopLeft)
//!   ┌────────────┐            ┌────────────┐ ┐
//!   │            │  scale     │ inner      │ │ 312   pixels delivered by the source, already scaled
//!   │            │ ───────►   │            │ │
//!   └────────────┘            ├────────────┤ ┘
//!                             │ padding    │       written by the tensor writer
//!                             └────────────┘
//! ```

use super::{Crop, PixelAspect, Size, Xyxy};

/// Placement of the scaled image in the network's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// At the top left; padding right or below (YOLOX; nvinfer with `maintain-aspect-ratio=1`).
    #[default]
    TopLeft,
    /// In the middle; padding on both sides (YOLOv5 and later; nvinfer's `symmetric-padding=1`).
    Center,
    /// No padding: the image is stretched to the input (nvinfer's default, `maintain-aspect-ratio=0`).
    Stretch,
}

/// Placement of an image of one source size in one input size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Letterbox {
    /// Size of the source image, or of the crop of it.
    pub source: Size,
    /// Left and top edge of the crop in the source image; `(0, 0)` for the whole image.
    pub origin: (u32, u32),
    /// Size of the network's input.
    pub input: Size,
    /// Size of the scaled image inside the input, at least 1×1.
    pub inner: Size,
    /// Left edge of the scaled image inside the input, in pixels.
    pub left: u32,
    /// Top edge of the scaled image inside the input, in pixels.
    pub top: u32,
}

impl Letterbox {
    /// Fits `source` into `input`. Both must be at least 1×1; 0 counts as 1.
    ///
    /// ```
    /// use jetwatch_types::{Letterbox, Placement, Size};
    ///
    /// let fit = Letterbox::new(Size::new(1280, 720), Size::new(416, 416), Placement::Center);
    /// assert_eq!((fit.inner, fit.top), (Size::new(416, 234), 91));
    /// // A box of the network, in pixels of the camera's image.
    /// assert_eq!(fit.to_source(&[0.0, 91.0, 208.0, 208.0]), [0.0, 0.0, 640.0, 360.0]);
    /// ```
    pub fn new(source: Size, input: Size, placement: Placement) -> Self {
        let source = Size::new(source.width.max(1), source.height.max(1));
        let input = Size::new(input.width.max(1), input.height.max(1));
        let inner = match placement {
            Placement::Stretch => input,
            Placement::TopLeft | Placement::Center => {
                // Integers, so that 480×360 in 416×416 is 416×312 on every machine. Rounded down, like the reference
                // implementations of YOLOX and YOLOv5.
                let (sw, sh) = (u64::from(source.width), u64::from(source.height));
                let (iw, ih) = (u64::from(input.width), u64::from(input.height));
                let (w, h) = if iw * sh <= ih * sw {
                    (iw, sh * iw / sw)
                } else {
                    (sw * ih / sh, ih)
                };
                // Both are at most the input's sides, which are u32.
                Size::new((w as u32).max(1), (h as u32).max(1))
            }
        };
        let (left, top) = match placement {
            Placement::Center => (
                (input.width - inner.width) / 2,
                (input.height - inner.height) / 2,
            ),
            Placement::TopLeft | Placement::Stretch => (0, 0),
        };
        Self {
            source,
            origin: (0, 0),
            input,
            inner,
            left,
            top,
        }
    }

    /// Fits a crop of a source image into `input`, as it is shown; `None` is all of `source`.
    pub fn with_crop(
        source: Size,
        crop: Option<Crop>,
        pixels: PixelAspect,
        input: Size,
        placement: Placement,
    ) -> Self {
        let (part, origin) = match crop {
            None => (source, (0, 0)),
            Some(crop) => (crop.size, (crop.left, crop.top)),
        };
        Self {
            source: Size::new(part.width.max(1), part.height.max(1)),
            origin,
            ..Self::new(pixels.shown(part), input, placement)
        }
    }

    /// Converts a box from input pixels to source pixels, clipped to the source image or its crop.
    ///
    /// Each axis has its own factor: rounding the inner size changes the aspect ratio by up to one pixel.
    #[must_use]
    pub fn to_source(&self, input: &Xyxy) -> Xyxy {
        let (w, h) = (self.source.width as f32, self.source.height as f32);
        let fx = w / self.inner.width as f32;
        let fy = h / self.inner.height as f32;
        let (ox, oy) = (self.origin.0 as f32, self.origin.1 as f32);
        let x = |v: f32| ((v - self.left as f32) * fx).clamp(0.0, w) + ox;
        let y = |v: f32| ((v - self.top as f32) * fy).clamp(0.0, h) + oy;
        [x(input[0]), y(input[1]), x(input[2]), y(input[3])]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A box in input pixels: the inverse of [`Letterbox::to_source`] inside the image.
    fn to_input(letterbox: &Letterbox, source: &Xyxy) -> Xyxy {
        let fx = letterbox.inner.width as f32 / letterbox.source.width as f32;
        let fy = letterbox.inner.height as f32 / letterbox.source.height as f32;
        let (left, top) = (letterbox.left as f32, letterbox.top as f32);
        let (ox, oy) = (letterbox.origin.0 as f32, letterbox.origin.1 as f32);
        let x = |x: f32| (x - ox) * fx + left;
        let y = |y: f32| (y - oy) * fy + top;
        [x(source[0]), y(source[1]), x(source[2]), y(source[3])]
    }

    #[test]
    fn letterbox_has_known_sizes() {
        #[rustfmt::skip]
        let cases = [
            ((480, 360), (416, 416), Placement::TopLeft, (416, 312), (0, 0)),
            ((1920, 1080), (416, 416), Placement::Center, (416, 234), (0, 91)),
            ((1080, 1920), (640, 384), Placement::Center, (216, 384), (212, 0)),
            ((640, 384), (640, 384), Placement::TopLeft, (640, 384), (0, 0)),
            ((1, 1), (416, 416), Placement::TopLeft, (416, 416), (0, 0)),
            ((4000, 1), (416, 416), Placement::Center, (416, 1), (0, 207)),
            ((333, 77), (640, 384), Placement::Stretch, (640, 384), (0, 0)),
        ];
        for ((sw, sh), (iw, ih), placement, inner, offset) in cases {
            let letterbox = Letterbox::new(Size::new(sw, sh), Size::new(iw, ih), placement);
            assert_eq!(
                (letterbox.inner.width, letterbox.inner.height),
                inner,
                "{sw}×{sh} into {iw}×{ih}"
            );
            assert_eq!(
                (letterbox.left, letterbox.top),
                offset,
                "{sw}×{sh} into {iw}×{ih}"
            );
        }
    }

    #[test]
    fn boxes_come_back_within_half_a_source_pixel() {
        for source in [
            (1, 1),
            (3, 7),
            (480, 360),
            (641, 479),
            (1919, 1081),
            (1920, 1080),
            (4096, 17),
            (17, 4096),
        ] {
            for input in [(416, 416), (640, 384), (321, 97)] {
                for placement in [Placement::TopLeft, Placement::Center, Placement::Stretch] {
                    let source = Size::new(source.0, source.1);
                    let letterbox = Letterbox::new(source, Size::new(input.0, input.1), placement);
                    let (w, h) = (source.width as f32, source.height as f32);
                    for expected in [[0.0, 0.0, w, h], [w * 0.25, h * 0.4, w * 0.3, h * 0.9]] {
                        let there = to_input(&letterbox, &expected);
                        let back = letterbox.to_source(&there);
                        for (a, b) in expected.iter().zip(back) {
                            assert!(
                                (a - b).abs() <= 0.5,
                                "{source} {placement:?}: {expected:?} converted back to {back:?}"
                            );
                        }
                    }
                    let whole = letterbox.to_source(&[0.0, 0.0, input.0 as f32, input.1 as f32]);
                    for (a, b) in [0.0, 0.0, w, h].iter().zip(whole) {
                        assert!((a - b).abs() <= 1e-3, "padding is clipped away: {whole:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_crop_maps_back_to_its_place_in_the_image() {
        let crop = Crop {
            left: 160,
            top: 90,
            size: Size::new(320, 180),
        };
        let (source, input) = (Size::new(640, 360), Size::new(416, 416));
        let part = Letterbox::with_crop(
            source,
            Some(crop),
            PixelAspect::default(),
            input,
            Placement::TopLeft,
        );
        assert_eq!(part.inner, Size::new(416, 234));
        let whole = part.to_source(&[0.0, 0.0, 416.0, 234.0]);
        assert_eq!(whole, [160.0, 90.0, 480.0, 270.0]);
        let inside = [200.0, 100.0, 300.0, 200.0];
        let back = part.to_source(&to_input(&part, &inside));
        for (found, expected) in back.iter().zip(inside) {
            assert!((found - expected).abs() < 1e-3, "{back:?}");
        }
        assert_eq!(
            Letterbox::with_crop(
                source,
                None,
                PixelAspect::default(),
                input,
                Placement::Center
            ),
            Letterbox::new(source, input, Placement::Center)
        );
    }

    #[test]
    fn pixels_that_are_not_square_keep_the_shape_of_objects() {
        let pixels = PixelAspect::new(16, 11).expect("a shape");
        let (source, input) = (Size::new(720, 576), Size::new(512, 512));
        assert_eq!(pixels.shown(source), Size::new(1047, 576));
        let fit = Letterbox::with_crop(source, None, pixels, input, Placement::TopLeft);
        assert_eq!(fit.inner, Size::new(512, 281));
        // Boxes are in pixels of the source.
        assert_eq!(
            fit.to_source(&[0.0, 0.0, 512.0, 281.0]),
            [0.0, 0.0, 720.0, 576.0]
        );
        assert_eq!(
            pixels.turned().shown(Size::new(160, 90)),
            Size::new(110, 90)
        );
        assert_eq!(PixelAspect::new(0, 1), None);
        assert_eq!(PixelAspect::new(1, 11), None);
    }
}
