// SPDX-License-Identifier: Apache-2.0
//! The grids of cells of a network over its input, one per stride. Pure.
//!
//! Networks halve their image repeatedly, rounding up; a grid with stride `s` has one cell for each complete or partial
//! square of `s` by `s` pixels. Decoders without anchors compute the stride from a tensor's size here, or the size from the stride.

use jetwatch_types::Size;

/// Maximum stride; strides are powers of two.
const MAX_STRIDE: u32 = 256;

/// One grid over the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grid {
    /// Distance of cells in pixels.
    pub stride: u32,
    /// Cells in a row.
    pub columns: usize,
    /// Rows of cells.
    pub rows: usize,
}

impl Grid {
    /// The grid with this stride over `input`.
    pub fn new(input: Size, stride: u32) -> Self {
        Self {
            stride,
            columns: input.width.div_ceil(stride) as usize,
            rows: input.height.div_ceil(stride) as usize,
        }
    }

    /// The grid of `columns` by `rows` cells over `input` with the least stride above `above`, if there is one.
    ///
    /// The strides of a network grow from grid to grid, which distinguishes grids of equal size over a small input.
    pub(crate) fn from_size(input: Size, above: u32, columns: usize, rows: usize) -> Option<Self> {
        strides_above(above)
            .map(|stride| Self::new(input, stride))
            .find(|grid| (grid.columns, grid.rows) == (columns, rows))
    }

    /// The grid of `cells` cells over `input` with the least stride above `above`, if there is one.
    pub(crate) fn from_cells(input: Size, above: u32, cells: usize) -> Option<Self> {
        strides_above(above)
            .map(|stride| Self::new(input, stride))
            .find(|grid| grid.cells() == cells)
    }

    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.columns * self.rows
    }

    /// Column and row of the cell with this number, counted row by row.
    pub fn cell(&self, number: usize) -> [f32; 2] {
        // Grids have far fewer than 2³² cells, and such divisions are faster.
        let (number, columns) = (number as u32, self.columns as u32);
        [(number % columns) as f32, (number / columns) as f32]
    }
}

fn strides_above(above: u32) -> impl Iterator<Item = u32> {
    (1..=MAX_STRIDE.ilog2())
        .map(|power| 1 << power)
        .filter(move |stride| *stride > above)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stride_follows_from_the_size_and_from_the_cells() {
        // 90 rows of stride 4, then 45, 22.5 and 11.25, each rounded up.
        let input = Size::new(640, 360);
        for (stride, columns, rows) in [(8, 80, 45), (16, 40, 23), (32, 20, 12), (64, 10, 6)] {
            let grid = Grid::new(input, stride);
            assert_eq!((grid.columns, grid.rows), (columns, rows));
            let found = Grid::from_size(input, stride / 2, columns, rows);
            assert_eq!(found, Some(grid));
            assert_eq!(Grid::from_cells(input, 0, columns * rows), Some(grid));
        }
        assert_eq!(Grid::from_size(input, 0, 40, 22), None);
        assert_eq!(Grid::from_cells(input, 0, 881), None);
    }

    #[test]
    fn grids_of_one_size_are_distinguished_by_the_previous_stride() {
        let input = Size::new(32, 32);
        assert_eq!(Grid::from_size(input, 16, 1, 1), Some(Grid::new(input, 32)));
        assert_eq!(Grid::from_size(input, 32, 1, 1), Some(Grid::new(input, 64)));
    }

    #[test]
    fn cells_are_counted_row_by_row() {
        let grid = Grid::new(Size::new(64, 32), 16);
        assert_eq!((grid.cell(0), grid.cell(5)), ([0.0, 0.0], [1.0, 1.0]));
    }
}
