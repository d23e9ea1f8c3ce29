// SPDX-License-Identifier: Apache-2.0
//! Visibility of each object: the extent of its shapes, and the share that nearer objects do not cover.
//!
//! The extent is exact, in image coordinates. The share comes from a grid of at most [`GRID_COLUMNS`] columns into which
//! shapes are written without antialiasing, nearer ones over farther ones: for an object of `n` cells the relative error is
//! about `1 / sqrt(n)`.

use super::bounds::{Bounds, EMPTY_BOUNDS, Edges, clip_disc, clip_polygon, extend};
use super::projector::{Canvas, Paint};

/// Maximum number of columns of the grid.
pub(super) const GRID_COLUMNS: usize = 320;

/// Minimum opacity of shapes that count.
const SOLID: f32 = 0.5;

/// Extent and cells of one object or of its rider.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Entry {
    /// Extent of its shapes, also outside the image.
    pub(super) whole: Bounds,
    /// Extent of their part inside the image.
    pub(super) inside: Bounds,
    /// Number of cells that the object was written to.
    pub(super) written: u32,
    /// Number of those that no nearer object covers.
    pub(super) uncovered: u32,
}

impl Entry {
    const EMPTY: Self = Self {
        whole: EMPTY_BOUNDS,
        inside: EMPTY_BOUNDS,
        written: 0,
        uncovered: 0,
    };

    fn grow(
        &mut self,
        edges: Edges,
        low: [f32; 2],
        high: [f32; 2],
        clipped: impl FnOnce() -> Bounds,
    ) {
        extend(&mut self.whole, low, high);
        let [left, top, right, bottom] = edges.part_inside(low, high, clipped);
        extend(&mut self.inside, [left, top], [right, bottom]);
    }

    /// Whether no part of it is inside the image.
    pub(super) fn is_empty(&self) -> bool {
        self.inside[0] >= self.inside[2] || self.inside[1] >= self.inside[3]
    }
}

/// Ranges of cells of the grid that a prop covers.
#[derive(Debug)]
pub(super) struct Mask(Vec<std::ops::Range<usize>>);

/// Measures the objects of one frame. Reused from frame to frame.
#[derive(Debug)]
pub(super) struct VisibilityBuffer {
    columns: usize,
    rows: usize,
    edges: Edges,
    /// Cells per image unit.
    scale: [f32; 2],
    /// Index of an entry plus one; 0: no object.
    cells: Vec<u16>,
    entries: Vec<Entry>,
    current: usize,
    first: usize,
}

impl VisibilityBuffer {
    /// The grid for an image of this size in pixels.
    pub(super) fn new(width: u32, height: u32) -> Self {
        let columns = (width as usize).clamp(1, GRID_COLUMNS);
        let rows = (columns * height as usize / width.max(1) as usize).clamp(1, GRID_COLUMNS);
        let aspect = width.max(1) as f32 / height.max(1) as f32;
        Self {
            columns,
            rows,
            edges: Edges::new(aspect, height),
            scale: [columns as f32 / aspect, rows as f32],
            cells: vec![0; columns * rows],
            entries: Vec::new(),
            current: 0,
            first: 0,
        }
    }

    /// Removes the objects of the last frame.
    pub(super) fn clear(&mut self) {
        self.cells.fill(0);
        self.entries.clear();
    }

    /// Starts an object, nearer than those before it, to which the next shapes belong. Returns the index of its first entry.
    pub(super) fn begin(&mut self) -> usize {
        self.first = self.entries.len();
        self.current = self.first;
        self.entries.extend([Entry::EMPTY; 2]);
        self.first
    }

    /// The cells written so far, for [`cover`](Self::cover).
    pub(super) fn mask(&self) -> Mask {
        let mut runs = Vec::new();
        for (row, cells) in self.cells.chunks_exact(self.columns).enumerate() {
            let mut column = 0;
            for run in cells.chunk_by(|a, b| (*a == 0) == (*b == 0)) {
                if run[0] != 0 {
                    let first = row * self.columns + column;
                    runs.push(first..first + run.len());
                }
                column += run.len();
            }
        }
        Mask(runs)
    }

    /// Hides these cells behind a prop, nearer than the objects so far.
    pub(super) fn cover(&mut self, mask: &Mask) {
        for run in &mask.0 {
            self.cells[run.clone()].fill(0);
        }
    }

    /// Counts the uncovered cells of each object. The entries are in the order of [`begin`](Self::begin), two per object.
    pub(super) fn finish(&mut self) -> &[Entry] {
        for cell in &self.cells {
            if let Some(entry) = usize::from(*cell)
                .checked_sub(1)
                .and_then(|index| self.entries.get_mut(index))
            {
                entry.uncovered += 1;
            }
        }
        &self.entries
    }

    fn write(&mut self, row: usize, low: f32, high: f32) {
        // A cell belongs to a shape that contains its center.
        let first = (low - 0.5).ceil().max(0.0) as usize;
        let last = ((high - 0.5).ceil().max(0.0) as usize).min(self.columns);
        let Some(mark) = u16::try_from(self.current + 1)
            .ok()
            .filter(|_| first < last)
        else {
            return;
        };
        let mut written = 0;
        for cell in &mut self.cells[row * self.columns + first..row * self.columns + last] {
            written += u32::from(*cell != mark);
            *cell = mark;
        }
        self.entries[self.current].written += written;
    }

    fn rows_between(&self, low: f32, high: f32) -> std::ops::Range<usize> {
        let first = (low * self.scale[1] - 0.5).ceil().max(0.0) as usize;
        let last = ((high * self.scale[1] - 0.5).ceil().max(0.0) as usize).min(self.rows);
        first..last
    }
}

impl Canvas for VisibilityBuffer {
    const COLORED: bool = false;

    fn part(&mut self, part: u8) {
        self.current = self.first + usize::from(part.min(1));
    }

    fn polygon(&mut self, corners: &[[f32; 2]], paint: Paint) {
        if paint.opacity < SOLID {
            return;
        }
        let (mut low, mut high, mut doubled) = ([f32::INFINITY; 2], [f32::NEG_INFINITY; 2], 0.0);
        let mut before = corners[corners.len() - 1];
        for &[u, v] in corners {
            low = [low[0].min(u), low[1].min(v)];
            high = [high[0].max(u), high[1].max(v)];
            doubled += before[0] * v - before[1] * u;
            before = [u, v];
        }
        // A face seen edge-on has no area.
        let extent = (high[0] - low[0]).max(high[1] - low[1]);
        if doubled.abs() < extent * 2e-5 {
            return;
        }
        let edges = self.edges;
        self.entries[self.current].grow(edges, low, high, || clip_polygon(corners, edges.inner()));
        for row in self.rows_between(low[1], high[1]) {
            let v = (row as f32 + 0.5) / self.scale[1];
            let (mut left, mut right) = (f32::INFINITY, f32::NEG_INFINITY);
            let mut before = corners[corners.len() - 1];
            for &now in corners {
                if (before[1] <= v) != (now[1] <= v) {
                    let u =
                        before[0] + (now[0] - before[0]) * (v - before[1]) / (now[1] - before[1]);
                    left = left.min(u);
                    right = right.max(u);
                }
                before = now;
            }
            if left < right {
                self.write(row, left * self.scale[0], right * self.scale[0]);
            }
        }
    }

    fn limb(
        &mut self,
        from: [f32; 2],
        from_radius: f32,
        to: [f32; 2],
        to_radius: f32,
        paint: Paint,
    ) {
        if paint.opacity < SOLID {
            return;
        }
        let low = [
            (from[0] - from_radius).min(to[0] - to_radius),
            (from[1] - from_radius).min(to[1] - to_radius),
        ];
        let high = [
            (from[0] + from_radius).max(to[0] + to_radius),
            (from[1] + from_radius).max(to[1] + to_radius),
        ];
        let edges = self.edges;
        let disc = |share: f32| {
            let radius = from_radius + (to_radius - from_radius) * share;
            (
                [
                    from[0] + (to[0] - from[0]) * share,
                    from[1] + (to[1] - from[1]) * share,
                ],
                radius,
            )
        };
        self.entries[self.current].grow(edges, low, high, || {
            let mut extent = EMPTY_BOUNDS;
            for step in 0..=24 {
                let (at, radius) = disc(step as f32 / 24.0);
                let part = clip_disc(at, radius, edges.inner());
                extend(&mut extent, [part[0], part[1]], [part[2], part[3]]);
            }
            extent
        });
        // Ten discs approximate the limb; the error is below the size of a cell.
        for row in self.rows_between(low[1], high[1]) {
            let v = (row as f32 + 0.5) / self.scale[1];
            let (mut left, mut right) = (f32::INFINITY, f32::NEG_INFINITY);
            for step in 0..=9 {
                let ([u, middle], radius) = disc(step as f32 / 9.0);
                let dv = v - middle;
                if dv.abs() <= radius {
                    let half = (radius * radius - dv * dv).sqrt();
                    left = left.min(u - half);
                    right = right.max(u + half);
                }
            }
            if left < right {
                self.write(row, left * self.scale[0], right * self.scale[0]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOLID_PAINT: Paint = Paint {
        top: [0; 3],
        bottom: [0; 3],
        opacity: 1.0,
    };

    fn rectangle(left: f32, top: f32, right: f32, bottom: f32) -> [[f32; 2]; 4] {
        [[left, top], [right, top], [right, bottom], [left, bottom]]
    }

    #[test]
    fn the_nearer_half_hides_the_farther() {
        let mut visibility = VisibilityBuffer::new(640, 360);
        visibility.clear();
        visibility.begin();
        visibility.polygon(&rectangle(0.2, 0.2, 0.6, 0.6), SOLID_PAINT);
        visibility.begin();
        visibility.polygon(&rectangle(0.4, 0.1, 0.9, 0.7), SOLID_PAINT);
        visibility.polygon(
            &rectangle(0.0, 0.0, 1.0, 1.0),
            Paint {
                opacity: 0.2,
                ..SOLID_PAINT
            },
        );
        let entries = visibility.finish();
        let free = |index: usize| entries[index].uncovered as f32 / entries[index].written as f32;
        assert!((free(0) - 0.5).abs() < 0.03, "{}", free(0));
        assert_eq!(free(2), 1.0);
        assert_eq!(entries[0].inside, [0.2, 0.2, 0.6, 0.6]);
        // Translucent shapes do not count.
        assert_eq!(entries[2].inside, [0.4, 0.1, 0.9, 0.7]);
        assert!(entries[1].is_empty() && entries[3].is_empty());
    }

    #[test]
    fn visibility_mask_hides_its_source() {
        let mut visibility = VisibilityBuffer::new(64, 64);
        visibility.begin();
        visibility.polygon(&rectangle(0.0, 0.0, 0.5, 1.0), SOLID_PAINT);
        let mask = visibility.mask();
        visibility.clear();
        visibility.begin();
        visibility.polygon(&rectangle(0.25, 0.25, 1.0, 0.75), SOLID_PAINT);
        visibility.cover(&mask);
        visibility.begin();
        visibility.polygon(&rectangle(0.0, 0.0, 0.25, 0.25), SOLID_PAINT);
        let entries = visibility.finish();
        assert_eq!(
            (entries[0].written, entries[0].uncovered),
            (48 * 32, 32 * 32)
        );
        // Objects nearer than the mask are uncovered.
        assert_eq!((entries[2].written, entries[2].uncovered), (256, 256));
    }

    #[test]
    fn only_visible_parts_count_for_the_bounds() {
        let mut visibility = VisibilityBuffer::new(64, 64);
        visibility.begin();
        // A triangle with two corners outside the image: its part inside is lower than the whole.
        visibility.polygon(&[[-1.0, 0.0], [1.0, 0.5], [-1.0, 1.0]], SOLID_PAINT);
        visibility.begin();
        visibility.limb([-0.3, 0.5], 0.5, [-0.3, 0.5], 0.5, SOLID_PAINT);
        let entries = visibility.finish();
        assert_eq!(entries[0].whole, [-1.0, 0.0, 1.0, 1.0]);
        for (entry, wanted) in [
            (entries[0], [0.0, 0.25, 1.0, 0.75]),
            (entries[2], [0.0, 0.1, 0.2, 0.9]),
        ] {
            for (found, wanted) in entry.inside.iter().zip(wanted) {
                assert!((found - wanted).abs() < 2e-3, "{entry:?}");
            }
        }
    }

    #[test]
    fn shapes_outside_the_image_fill_no_cell() {
        let mut visibility = VisibilityBuffer::new(64, 64);
        visibility.clear();
        visibility.begin();
        visibility.polygon(&rectangle(-0.5, 0.2, -0.1, 0.6), SOLID_PAINT);
        visibility.limb([3.0, 0.5], 0.1, [3.5, 0.5], 0.1, SOLID_PAINT);
        let entry = visibility.finish()[0];
        assert!(entry.is_empty() && entry.written == 0, "{entry:?}");
    }
}
