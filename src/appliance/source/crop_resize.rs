//! A part of a drawn picture, scaled: for the built-in scene, which has no GStreamer element that would do it.
//!
//! Bilinear between the four nearest pixels, as GStreamer's and a Jetson's scalers are set here.

use jetwatch_types::{Crop, Image, PIXEL_BYTES, Size};

use super::pool::PixelPool;

/// Scales the part `crop` of `whole` to `size`. `None` when the pixels cannot be read, or the part is not inside.
pub(super) fn crop_resize(
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
    for (y, row) in (0_u32..).zip(pixels.as_mut().chunks_exact_mut(stride)) {
        let (up, down, share_down) = lerp_index(y, size.height, crop.size.height);
        let rows = [up, down].map(|row| whole.row(crop.top + row));
        for (x, pixel) in (0_u32..).zip(row.chunks_exact_mut(PIXEL_BYTES)) {
            let (left, right, share_right) = lerp_index(x, size.width, crop.size.width);
            let at = |row: &[u8], column: u32, byte: usize| {
                f32::from(row[(crop.left + column) as usize * PIXEL_BYTES + byte])
            };
            for (byte, value) in pixel.iter_mut().enumerate() {
                let [above, below] = rows.map(|row| {
                    let (a, b) = (at(row, left, byte), at(row, right, byte));
                    a + (b - a) * share_right
                });
                *value = (above + (below - above) * share_down).round() as u8;
            }
        }
    }
    Image::new(size, stride, Box::new(pixels))
}

/// The two pixels between which the middle of pixel `at` of `to` lies among `from`, and how far behind the first.
fn lerp_index(at: u32, to: u32, from: u32) -> (u32, u32, f32) {
    let last = from.saturating_sub(1);
    let middle = (at as f32 + 0.5) * from as f32 / to as f32 - 0.5;
    let middle = middle.clamp(0.0, last as f32);
    let first = middle as u32;
    (first, (first + 1).min(last), middle - first as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture whose blue is 10 times the column, and whose green is 10 times the row.
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
        let pool = PixelPool::default();
        let same = crop_resize(&ramp(), crop, crop.size, &pool).expect("inside");
        assert_eq!(same.row(0)[..2], [40, 20]);
        assert_eq!(same.row(3)[12..14], [70, 50]);
        let half = crop_resize(&ramp(), crop, Size::new(2, 2), &pool).expect("inside");
        assert_eq!(half.row(0)[..2], [45, 25], "the mean of four");
        let twice = crop_resize(&ramp(), crop, Size::new(8, 8), &pool).expect("inside");
        assert_eq!(twice.row(0)[..2], [40, 20], "nothing comes from outside");
        assert_eq!(twice.row(0)[4..6], [43, 20]);
        let outside = Crop { left: 7, ..crop };
        assert!(crop_resize(&ramp(), outside, crop.size, &pool).is_none());
    }
}
