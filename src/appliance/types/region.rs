// SPDX-License-Identifier: Apache-2.0
//! Region of interest of a source: relative to the image size in the configuration, in pixels once that size is known.

use std::fmt;

use super::{Size, Xyxy};

/// A part of an image as shares of its width and height, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Region {
    /// Left edge.
    pub left: f32,
    /// Top edge.
    pub top: f32,
    /// Width, above 0.
    pub width: f32,
    /// Height, above 0.
    pub height: f32,
}

/// A region in pixels of one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crop {
    /// Left edge, even.
    pub left: u32,
    /// Top edge, even.
    pub top: u32,
    /// Width and height; even, except where the image ends.
    pub size: Size,
}

impl Region {
    /// The region in an image of this size, at least 2×2; `None` when it covers the whole image.
    ///
    /// The edges are even, since most video has chroma at half resolution.
    #[must_use]
    pub fn to_crop(&self, image_size: Size) -> Option<Crop> {
        let (left, right) = edges(self.left, self.width, image_size.width);
        let (top, bottom) = edges(self.top, self.height, image_size.height);
        let size = Size::new(right - left, bottom - top);
        (size != image_size).then_some(Crop { left, top, size })
    }
}

/// Start and length of the region along one axis.
fn edges(from: f32, share: f32, side: u32) -> (u32, u32) {
    let even = |at: f64| ((at * f64::from(side) / 2.0).round() as u32) * 2;
    let last = side.saturating_sub(2).next_multiple_of(2).min(side);
    let first = even(f64::from(from)).min(last);
    let end = even(f64::from(from) + f64::from(share));
    // An odd image side ends with a single pixel; it belongs to the region that reaches the end.
    let end = if end + 1 >= side { side } else { end };
    (first, end.max(first + 2).min(side))
}

impl Crop {
    /// The part of a box that is inside this crop, in pixels of the crop, and its share of the box's area; `None` when they do
    /// not overlap.
    #[must_use]
    pub fn inside(&self, xyxy: &Xyxy) -> Option<(Xyxy, f32)> {
        let [x, y] = [self.left as f32, self.top as f32];
        let (width, height) = (self.size.width as f32, self.size.height as f32);
        let moved = [xyxy[0] - x, xyxy[1] - y, xyxy[2] - x, xyxy[3] - y];
        let inside = [
            moved[0].clamp(0.0, width),
            moved[1].clamp(0.0, height),
            moved[2].clamp(0.0, width),
            moved[3].clamp(0.0, height),
        ];
        let share = super::area(&inside) / super::area(xyxy);
        (share > 0.0).then_some((inside, share))
    }
}

impl fmt::Display for Crop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {},{}", self.size, self.left, self.top)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(left: f32, top: f32, width: f32, height: f32) -> Region {
        Region {
            left,
            top,
            width,
            height,
        }
    }

    #[test]
    fn edges_are_even_and_inside() {
        #[rustfmt::skip]
        let cases = [
            (region(0.25, 0.5, 0.5, 0.25), (640, 360), Some("320×90 at 160,180")),
            (region(0.1, 0.1, 0.3, 0.3), (1920, 1080), Some("576×324 at 192,108")),
            // The last pixel of an odd side has no partner.
            (region(0.5, 0.0, 0.5, 1.0), (101, 51), Some("51×51 at 50,0")),
            (region(0.0, 0.0, 1.0, 1.0), (101, 51), None),
            (region(0.0001, 0.0, 0.9999, 1.0), (640, 360), None),
            (region(0.999, 0.999, 0.001, 0.001), (640, 360), Some("2×2 at 638,358")),
        ];
        for (region, (width, height), expected) in cases {
            let crop = region.to_crop(Size::new(width, height));
            let found = crop.map(|crop| crop.to_string());
            assert_eq!(found.as_deref(), expected, "{region:?} of {width}×{height}");
        }
    }

    #[test]
    fn boxes_are_clipped_at_region_edges() {
        let crop = Crop {
            left: 100,
            top: 50,
            size: Size::new(200, 100),
        };
        let all = [120.0, 60.0, 140.0, 80.0];
        assert_eq!(crop.inside(&all), Some(([20.0, 10.0, 40.0, 30.0], 1.0)));
        let half = [90.0, 60.0, 110.0, 80.0];
        assert_eq!(crop.inside(&half), Some(([0.0, 10.0, 10.0, 30.0], 0.5)));
        assert_eq!(crop.inside(&[0.0, 0.0, 100.0, 50.0]), None);
    }
}
