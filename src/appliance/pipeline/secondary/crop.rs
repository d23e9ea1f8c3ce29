// SPDX-License-Identifier: Apache-2.0
//! The part of an image that shows one object, in memory of its own.
//!
//! The tracking stage copies it at once, so that full images return to their pools and only the crops are kept.

use jetwatch_types::{Image, PIXEL_BYTES, PixelPool, PooledPixels, Size, Xyxy};

/// Pixels, and the region that they show.
pub(crate) struct Crop {
    /// Of the pixels.
    size: Size,
    pixels: PooledPixels,
    /// What they show, in source pixels.
    region: Xyxy,
}

impl Crop {
    /// The part of `image` inside the box `wanted` and a margin around it. `source` is the size of the source, the box is in source
    /// pixels, and `margin` is a share of its sides. `None` when the box lies outside the image.
    pub(crate) fn from_image(
        image: &Image,
        source: Size,
        wanted: &Xyxy,
        margin: f32,
        pool: &PixelPool,
    ) -> Option<Self> {
        let place = [0.0, 0.0, source.width as f32, source.height as f32];
        let row = |y| image.row(y);
        Self::extract(image.size, &place, row, &widened(wanted, margin), pool)
    }

    /// As [`from_image`](Self::from_image), out of this crop.
    pub(super) fn sub_crop(&self, wanted: &Xyxy, margin: f32, pool: &PixelPool) -> Option<Self> {
        let stride = self.size.width as usize * PIXEL_BYTES;
        let row = |y: u32| &self.pixels.as_ref()[y as usize * stride..][..stride];
        Self::extract(self.size, &self.region, row, &widened(wanted, margin), pool)
    }

    /// The pixels in packed rows, and their size.
    pub(super) fn pixels(&self) -> (&[u8], Size) {
        (self.pixels.as_ref(), self.size)
    }

    /// Width and height of what it shows, in source pixels, at least 1×1.
    pub(super) fn source_size(&self) -> Size {
        let [left, top, right, bottom] = self.region;
        let whole = |length: f32| length.round().max(1.0) as u32;
        Size::new(whole(right - left), whole(bottom - top))
    }

    /// A box in pixels of [`source_size`](Self::source_size) as one in source pixels.
    pub(super) fn to_source(&self, xyxy: &Xyxy) -> Xyxy {
        let size = self.source_size();
        let [left, top, right, bottom] = self.region;
        let x = |v: f32| left + v * (right - left) / size.width as f32;
        let y = |v: f32| top + v * (bottom - top) / size.height as f32;
        [x(xyxy[0]), y(xyxy[1]), x(xyxy[2]), y(xyxy[3])]
    }

    /// All pixels that the box `wanted` touches, of an image of `size` that shows `region`.
    fn extract<'p>(
        size: Size,
        region: &Xyxy,
        row: impl Fn(u32) -> &'p [u8],
        wanted: &Xyxy,
        pool: &PixelPool,
    ) -> Option<Self> {
        let per_pixel = [
            (region[2] - region[0]) / size.width as f32,
            (region[3] - region[1]) / size.height as f32,
        ];
        // A float becomes the nearest whole number that there is, NaN becomes 0.
        let first = |axis: usize| ((wanted[axis] - region[axis]) / per_pixel[axis]).floor() as u32;
        let end = |axis: usize, most: u32| {
            (((wanted[axis + 2] - region[axis]) / per_pixel[axis]).ceil() as u32).min(most)
        };
        let (left, right) = (first(0), end(0, size.width));
        let (top, bottom) = (first(1), end(1, size.height));
        if left >= right || top >= bottom {
            return None;
        }
        let cut = Size::new(right - left, bottom - top);
        let stride = cut.width as usize * PIXEL_BYTES;
        let mut pixels = pool.acquire(stride * cut.height as usize);
        let start = left as usize * PIXEL_BYTES;
        for (y, target) in (top..bottom).zip(pixels.as_mut().chunks_exact_mut(stride)) {
            target.copy_from_slice(&row(y)[start..start + stride]);
        }
        let x = |pixel: u32| region[0] + pixel as f32 * per_pixel[0];
        let y = |pixel: u32| region[1] + pixel as f32 * per_pixel[1];
        Some(Self {
            size: cut,
            pixels,
            region: [x(left), y(top), x(right), y(bottom)],
        })
    }
}

/// A box with `margin` of its sides around it.
fn widened([left, top, right, bottom]: &Xyxy, margin: f32) -> Xyxy {
    let (x, y) = ((right - left) * margin, (bottom - top) * margin);
    [left - x, top - y, right + x, bottom + y]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 8×6 pixels of a source of 16×12; each pixel holds its position.
    fn image() -> Image {
        let bytes: Vec<u8> = (0..6_u8)
            .flat_map(|y| (0..8_u8).flat_map(move |x| [x, y, 0, 0]))
            .collect();
        Image::new(Size::new(8, 6), 32, Box::new(bytes)).expect("the memory is large enough")
    }

    fn corners(crop: &Crop) -> ([u8; 2], [u8; 2]) {
        let (bytes, _) = crop.pixels();
        let last = bytes.len() - PIXEL_BYTES;
        ([bytes[0], bytes[1]], [bytes[last], bytes[last + 1]])
    }

    #[test]
    fn boxes_are_in_source_pixels_and_cut_to_whole_pixels_of_the_image() {
        let (image, pool) = (image(), PixelPool::default());
        let of =
            |wanted, margin| Crop::from_image(&image, Size::new(16, 12), &wanted, margin, &pool);
        let crop = of([4.0, 2.0, 9.0, 8.0], 0.0).expect("it is inside");
        assert_eq!(corners(&crop), ([2, 1], [4, 3]));
        assert_eq!(crop.region, [4.0, 2.0, 10.0, 8.0]);
        assert_eq!(crop.source_size(), Size::new(6, 6));
        assert_eq!(crop.to_source(&[1.0, 1.0, 6.0, 6.0]), [5.0, 3.0, 10.0, 8.0]);
        // A margin of half of each side, clipped to the image.
        let crop = of([4.0, 2.0, 8.0, 6.0], 0.5).expect("it is inside");
        assert_eq!(crop.region, [2.0, 0.0, 10.0, 8.0]);
        let crop = of([-50.0, -50.0, 500.0, 500.0], 1.0).expect("it covers all");
        assert_eq!(corners(&crop), ([0, 0], [7, 5]));
        for nothing in [[16.0, 0.0, 20.0, 4.0], [5.0, 5.0, 5.0, 5.0], [f32::NAN; 4]] {
            let wide = of(nothing, 0.0).is_some_and(|crop| crop.pixels().1.width > 1);
            assert!(!wide, "{nothing:?}");
        }
    }

    #[test]
    fn a_part_of_a_crop_is_that_part_of_the_image() {
        let (image, pool) = (image(), PixelPool::default());
        let source = Size::new(16, 12);
        let crop = Crop::from_image(&image, source, &[4.0, 2.0, 14.0, 10.0], 0.0, &pool);
        let part = crop
            .expect("inside")
            .sub_crop(&[6.0, 4.0, 10.0, 8.0], 0.0, &pool);
        let whole = Crop::from_image(&image, source, &[6.0, 4.0, 10.0, 8.0], 0.0, &pool);
        let (part, whole) = (part.expect("inside"), whole.expect("inside"));
        assert_eq!(part.pixels(), whole.pixels());
        assert_eq!(part.region, whole.region);
    }
}
