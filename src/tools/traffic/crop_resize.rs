// SPDX-License-Identifier: Apache-2.0
//! Crops and scales a drawn image on the CPU, in place of the GStreamer elements of other sources.

use jetwatch_pixels::{Filter, Resizer};
use jetwatch_types::{Crop, Image, PIXEL_BYTES, PixelPool, Size};

/// Scales the part `crop` of `whole`, in `BGRx`, to `size`. `None` where the CPU cannot read the pixels or the part is not inside.
pub(super) fn crop_resize(
    resizer: &mut Resizer,
    whole: &Image,
    crop: Crop,
    size: Size,
    pool: &PixelPool,
) -> Option<Image> {
    let fits = crop.left + crop.size.width <= whole.size.width
        && crop.top + crop.size.height <= whole.size.height;
    if !fits || !whole.is_cpu_readable() {
        return None;
    }
    let stride = size.width as usize * PIXEL_BYTES;
    let mut pixels = pool.acquire(stride * size.height as usize);
    resizer.scale_part(whole, crop, size, Filter::Bilinear, pixels.as_mut());
    Image::new(size, stride, Box::new(pixels))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image whose blue is 10 times the column, and whose green is 10 times the row.
    fn ramp() -> Image {
        let pixels: Vec<u8> = (0..8)
            .flat_map(|y| (0..10).flat_map(move |x| [10 * x, 10 * y, 0, 0]))
            .collect();
        Image::new(Size::new(10, 8), 40, Box::new(pixels)).expect("large enough")
    }

    #[test]
    fn crops_are_scaled_from_their_position() {
        let crop = Crop {
            left: 4,
            top: 2,
            size: Size::new(4, 4),
        };
        let mut resizer = Resizer::default();
        let pool = PixelPool::default();
        let same = crop_resize(&mut resizer, &ramp(), crop, crop.size, &pool).expect("inside");
        assert_eq!(same.row(0)[..2], [40, 20]);
        assert_eq!(same.row(3)[12..14], [70, 50]);
        let half =
            crop_resize(&mut resizer, &ramp(), crop, Size::new(2, 2), &pool).expect("inside");
        assert_eq!(half.row(0)[..2], [45, 25], "the mean of four");
        let twice =
            crop_resize(&mut resizer, &ramp(), crop, Size::new(8, 8), &pool).expect("inside");
        assert_eq!(twice.row(0)[..2], [40, 20], "nothing comes from outside");
        assert_eq!(twice.row(0)[4..6], [43, 20]);
        let outside = Crop { left: 7, ..crop };
        assert!(crop_resize(&mut resizer, &ramp(), outside, crop.size, &pool).is_none());
    }
}
