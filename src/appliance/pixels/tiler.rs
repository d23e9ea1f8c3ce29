// SPDX-License-Identifier: Apache-2.0
//! Tiling: a grid of cells of one size. Each cell shows the whole image of one source in its aspect ratio.
//!
//! Pure computation of cell positions, and scaling of pixels into cells. A grid with one cell is the image itself, with even
//! sides, as encoders require.

use jetwatch_types::{Image, Letterbox, PIXEL_BYTES, Placement, Size};

/// Size of the output when it shows more than one source.
const MOSAIC_SIZE: Size = Size::new(1280, 720);

/// A rectangle inside the output image, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileRect {
    /// First column.
    pub left: u32,
    /// First row.
    pub top: u32,
    /// Width and height.
    pub size: Size,
}

/// The layout of the sources' images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    columns: u32,
    cell: Size,
    whole: Size,
}

impl Grid {
    /// Layout for `sources` sources; `first` is the image size of the first. One source fills the output at its own size;
    /// several share 1280×720 pixels, with as many columns as rows or one more.
    pub fn new(sources: usize, first: Size) -> Self {
        let sources = u32::try_from(sources).unwrap_or(u32::MAX);
        if sources <= 1 {
            let whole = even(first);
            return Self {
                columns: 1,
                cell: whole,
                whole,
            };
        }
        let columns = sources.isqrt() + u32::from(sources.isqrt().pow(2) < sources);
        let rows = sources.div_ceil(columns);
        let cell = Size::new(
            (MOSAIC_SIZE.width / columns).max(1),
            (MOSAIC_SIZE.height / rows).max(1),
        );
        Self {
            columns,
            cell,
            whole: MOSAIC_SIZE,
        }
    }

    /// Size of the output; both sides are even.
    pub const fn size(&self) -> Size {
        self.whole
    }

    /// The cell of a source.
    #[must_use]
    pub fn cell(&self, source: usize) -> TileRect {
        let source = u32::try_from(source).unwrap_or(u32::MAX);
        let left = (source % self.columns).saturating_mul(self.cell.width);
        let top = (source / self.columns).saturating_mul(self.cell.height);
        TileRect {
            left: left.min(self.whole.width - self.cell.width),
            top: top.min(self.whole.height - self.cell.height),
            size: self.cell,
        }
    }

    /// Position of an image of the size `source` in its cell: unscaled when it fits except for one row or column, otherwise as
    /// large as the cell allows, centered.
    pub fn fit(&self, index: usize, source: Size) -> TileRect {
        let cell = self.cell(index);
        let spare =
            |cell: u32, source: u32| cell.checked_sub(source).is_some_and(|spare| spare < 2);
        if spare(cell.size.width, source.width) && spare(cell.size.height, source.height) {
            return TileRect {
                size: source,
                ..cell
            };
        }
        let fit = Letterbox::new(source, cell.size, Placement::Center);
        TileRect {
            left: cell.left + fit.left,
            top: cell.top + fit.top,
            size: fit.inner,
        }
    }
}

/// The size with even sides, one pixel larger where necessary.
fn even(size: Size) -> Size {
    let even = |side: u32| side.max(2).next_multiple_of(2);
    Size::new(even(size.width), even(size.height))
}

/// Writes `image` to `tile` of a `BGRx` output whose rows have `stride` bytes, scaled where sizes differ. Each pixel is the
/// mean of four samples, evenly spaced in the pixel's source area.
///
/// # Panics
/// When `tile` is not inside `pixels`.
pub fn copy_into(image: &Image, tile: TileRect, pixels: &mut [u8], stride: usize) {
    let (from, to) = (image.size, tile.size);
    if from.width == 0 || from.height == 0 {
        return;
    }
    let row_bytes = to.width as usize * PIXEL_BYTES;
    let start = tile.left as usize * PIXEL_BYTES;
    let rows = pixels.chunks_mut(stride).skip(tile.top as usize);
    for (y, row) in (0..to.height).zip(rows) {
        let row = &mut row[start..start + row_bytes];
        if from == to {
            row.copy_from_slice(image.row(y));
            continue;
        }
        let [upper, lower] = quarters(y, from.height, to.height).map(|y| image.row(y));
        let (to_pixels, _) = row.as_chunks_mut::<PIXEL_BYTES>();
        for (x, pixel) in (0..to.width).zip(to_pixels) {
            let [left, right] = quarters(x, from.width, to.width).map(|x| x as usize * PIXEL_BYTES);
            for (channel, value) in pixel.iter_mut().enumerate() {
                let sum = [upper, lower]
                    .iter()
                    .map(|row| u16::from(row[left + channel]) + u16::from(row[right + channel]))
                    .sum::<u16>();
                // The mean of four bytes fits into a byte.
                *value = ((sum + 2) / 4) as u8;
            }
        }
    }
}

/// Source coordinates of the two samples of output pixel `at`: at one and three quarters of its source area. `from` source
/// pixels are scaled to `to`.
fn quarters(at: u32, from: u32, to: u32) -> [u32; 2] {
    [1, 3].map(|quarter| {
        let position = (u64::from(at) * 4 + quarter) * u64::from(from) / (u64::from(to) * 4);
        // Less than `from`, which is a u32.
        position as u32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_disjoint_inside_and_sufficient() {
        for sources in 1..=64 {
            let grid = Grid::new(sources, Size::new(641, 359));
            let whole = grid.size();
            assert_eq!((whole.width % 2, whole.height % 2), (0, 0), "{sources}");
            let cells: Vec<TileRect> = (0..sources).map(|index| grid.cell(index)).collect();
            for (index, cell) in cells.iter().enumerate() {
                assert!(
                    cell.left + cell.size.width <= whole.width,
                    "{sources}: {cell:?}"
                );
                assert!(
                    cell.top + cell.size.height <= whole.height,
                    "{sources}: {cell:?}"
                );
                let is_apart = |other: &TileRect| {
                    other.left.abs_diff(cell.left) >= cell.size.width
                        || other.top.abs_diff(cell.top) >= cell.size.height
                };
                assert!(cells[..index].iter().all(is_apart), "{sources}: {cells:?}");
            }
        }
        let columns = |sources| Grid::new(sources, MOSAIC_SIZE).columns;
        assert_eq!([2, 4, 5, 9, 10, 64].map(columns), [2, 2, 3, 3, 4, 8]);
    }

    #[test]
    fn single_source_keeps_even_size() {
        let grid = Grid::new(1, Size::new(641, 359));
        assert_eq!(grid.size(), Size::new(642, 360));
        let rect = grid.fit(0, Size::new(641, 359));
        let found = (rect.left, rect.top, rect.size);
        assert_eq!(found, (0, 0, Size::new(641, 359)));
        assert_eq!(Grid::new(1, Size::new(1, 1)).size(), Size::new(2, 2));
    }

    #[test]
    fn an_image_keeps_its_aspect_in_its_cell() {
        let grid = Grid::new(4, MOSAIC_SIZE);
        let cases = [
            (0, Size::new(1920, 1080), (0, 0, 640, 360)),
            (1, Size::new(640, 480), (640 + 80, 0, 480, 360)),
            (2, Size::new(100, 400), (275, 360, 90, 360)),
            (3, Size::new(10, 10), (640 + 140, 360, 360, 360)),
        ];
        for (index, source, (left, top, width, height)) in cases {
            let size = Size::new(width, height);
            assert_eq!(grid.fit(index, source), TileRect { left, top, size });
        }
    }

    /// An image whose pixel at column x and row y has the values x, y, 7 and 0.
    fn image(width: u32, height: u32) -> Image {
        let pixels: Vec<u8> = (0..height)
            .flat_map(|y| (0..width).flat_map(move |x| [x as u8, y as u8, 7, 0]))
            .collect();
        Image::new(
            Size::new(width, height),
            width as usize * 4,
            Box::new(pixels),
        )
        .expect("its own size")
    }

    #[test]
    fn tile_copy_writes_only_its_tile() {
        for (width, height) in [(8, 6), (16, 12), (200, 150), (3, 2), (1, 1), (255, 1)] {
            let rect = TileRect {
                left: 3,
                top: 2,
                size: Size::new(8, 6),
            };
            let stride = 60;
            let mut pixels = vec![99_u8; stride * 10];
            copy_into(&image(width, height), rect, &mut pixels, stride);
            for (index, pixel) in pixels.as_chunks::<4>().0.iter().enumerate() {
                let (x, y) = (index % 15, index / 15);
                let is_inside = (3..11).contains(&x) && (2..8).contains(&y);
                if !is_inside {
                    assert_eq!(pixel, &[99; 4], "{width}×{height} at {x},{y}");
                    continue;
                }
                // The center of the pixel's source area.
                let middle =
                    |at: usize, from: u32, to: f32| (at as f32 + 0.5) * from as f32 / to - 0.5;
                let expected = [middle(x - 3, width, 8.0), middle(y - 2, height, 6.0)];
                for (value, expected) in pixel.iter().zip(expected) {
                    assert!(
                        (f32::from(*value) - expected).abs() <= 1.0,
                        "{pixel:?}, {expected:?}"
                    );
                }
                assert_eq!(pixel[2..], [7, 0]);
            }
        }
    }

    #[test]
    fn an_image_of_the_same_size_is_copied_unchanged() {
        let rect = TileRect {
            left: 0,
            top: 0,
            size: Size::new(5, 4),
        };
        let mut pixels = vec![0; 80];
        let original = image(5, 4);
        copy_into(&original, rect, &mut pixels, 20);
        for y in 0..4 {
            assert_eq!(&pixels[y as usize * 20..][..20], original.row(y));
        }
    }
}
