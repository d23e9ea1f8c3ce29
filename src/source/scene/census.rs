//! What is seen of each thing: the extent of its shapes, and how much of it nearer things leave free.
//!
//! The extent is exact, in the picture's own coordinates. The free share comes from a grid of at most [`GRID_COLUMNS`]
//! columns into which shapes are written without smoothing, nearer ones over farther ones: a thing that fills `n` cells
//! is counted to about one in the square root of `n`.

use super::pen::{Canvas, Paint};

/// Most columns of the grid.
pub(super) const GRID_COLUMNS: usize = 320;

/// Shapes that let more than half of the light through do not count.
const SOLID: f32 = 0.5;

/// A rectangle in picture coordinates: left, top, right, bottom.
type Extent = [f32; 4];

const NO_EXTENT: Extent = [
    f32::INFINITY,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NEG_INFINITY,
];

fn take_in(extent: &mut Extent, low: [f32; 2], high: [f32; 2]) {
    *extent = [
        extent[0].min(low[0]),
        extent[1].min(low[1]),
        extent[2].max(high[0]),
        extent[3].max(high[1]),
    ];
}

/// The picture's edges.
#[derive(Debug, Clone, Copy)]
struct Frame {
    /// Right and lower edge; the others are 0.
    outer: [f32; 2],
    /// The edges, [`FAINT_PIXELS`] further in.
    inner: Extent,
}

/// What reaches less than this share of a pixel into the picture cannot be told from noise there and is not counted:
/// a long edge that grazes the picture's side would else stretch the box along it.
const FAINT_PIXELS: f32 = 0.05;

/// What was seen of one thing, or of its rider.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Entry {
    /// Extent of its shapes, beyond the picture too.
    pub(super) whole: Extent,
    /// Extent of what of them lies in the picture.
    pub(super) inside: Extent,
    /// Cells that the thing was written to.
    pub(super) written: u32,
    /// Cells that still show it.
    pub(super) left_over: u32,
}

impl Entry {
    const NOTHING: Self = Self {
        whole: NO_EXTENT,
        inside: NO_EXTENT,
        written: 0,
        left_over: 0,
    };

    /// True when nothing of it lies in the picture.
    pub(super) fn is_empty(&self) -> bool {
        self.inside[0] >= self.inside[2] || self.inside[1] >= self.inside[3]
    }

    /// Takes in a shape between `low` and `high`; `clipped` finds the extent of its part in the picture, and is asked
    /// only where the shape crosses the picture's edge.
    fn grow(
        &mut self,
        frame: Frame,
        low: [f32; 2],
        high: [f32; 2],
        clipped: impl FnOnce() -> Extent,
    ) {
        take_in(&mut self.whole, low, high);
        let [left, top, right, bottom] = frame.inner;
        if low[0] >= left && low[1] >= top && high[0] <= right && high[1] <= bottom {
            take_in(&mut self.inside, low, high);
        } else if low[0] < right && low[1] < bottom && high[0] > left && high[1] > top {
            let part = clipped();
            let reach = |found: f32, inner: f32, own: f32, outer: f32| {
                if found == inner {
                    own.clamp(0.0, outer)
                } else {
                    found
                }
            };
            if part[0] <= part[2] && part[1] <= part[3] {
                let part_low = [
                    reach(part[0], left, low[0], frame.outer[0]),
                    reach(part[1], top, low[1], frame.outer[1]),
                ];
                let part_high = [
                    reach(part[2], right, high[0], frame.outer[0]),
                    reach(part[3], bottom, high[1], frame.outer[1]),
                ];
                take_in(&mut self.inside, part_low, part_high);
            }
        }
    }
}

/// The extent of the part of a polygon that lies in the picture.
fn clip_polygon(corners: &[[f32; 2]], [left, top, right, bottom]: Extent) -> Extent {
    // Each of the four edges can add a corner to a convex face; the few that are not convex have room to spare.
    let mut now = [[0.0; 2]; 64];
    let mut count = corners.len().min(now.len());
    now[..count].copy_from_slice(&corners[..count]);
    for (axis, sign, limit) in [
        (0, 1.0, left),
        (0, -1.0, -right),
        (1, 1.0, top),
        (1, -1.0, -bottom),
    ] {
        let mut next = [[0.0; 2]; 64];
        let mut kept = 0;
        for i in 0..count {
            let (a, b) = (now[i], now[(i + 1) % count]);
            let (da, db) = (a[axis] * sign - limit, b[axis] * sign - limit);
            if da >= 0.0 && kept < next.len() {
                next[kept] = a;
                kept += 1;
            }
            if (da >= 0.0) != (db >= 0.0) && kept < next.len() {
                let share = da / (da - db);
                next[kept] = [a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share];
                // Exactly on the edge, whatever the rounding.
                next[kept][axis] = limit * sign;
                kept += 1;
            }
        }
        (now, count) = (next, kept);
    }
    let mut extent = NO_EXTENT;
    for corner in &now[..count] {
        take_in(&mut extent, *corner, *corner);
    }
    extent
}

/// The extent of the part of a disc that lies in the picture.
fn clip_disc([u, v]: [f32; 2], radius: f32, [left, top, right, bottom]: Extent) -> Extent {
    let (du, dv) = (u - u.clamp(left, right), v - v.clamp(top, bottom));
    if du * du + dv * dv >= radius * radius {
        return NO_EXTENT;
    }
    let (half_u, half_v) = (
        (radius * radius - dv * dv).sqrt(),
        (radius * radius - du * du).sqrt(),
    );
    [
        (u - half_u).max(left),
        (v - half_v).max(top),
        (u + half_u).min(right),
        (v + half_v).min(bottom),
    ]
}

/// Counts the things of one frame. Reused from frame to frame.
#[derive(Debug)]
pub(super) struct Census {
    columns: usize,
    rows: usize,
    frame: Frame,
    /// Cells per picture unit.
    scale: [f32; 2],
    /// Index of an entry plus one; 0 where nothing was written.
    cells: Vec<u16>,
    entries: Vec<Entry>,
    current: usize,
    first: usize,
}

impl Census {
    /// A grid for a picture of this many pixels.
    pub(super) fn new(width: u32, height: u32) -> Self {
        let columns = (width as usize).clamp(1, GRID_COLUMNS);
        let rows = (columns * height as usize / width.max(1) as usize).clamp(1, GRID_COLUMNS);
        let aspect = width.max(1) as f32 / height.max(1) as f32;
        let faint = FAINT_PIXELS / height.max(1) as f32;
        Self {
            columns,
            rows,
            frame: Frame {
                outer: [aspect, 1.0],
                inner: [faint, faint, aspect - faint, 1.0 - faint],
            },
            scale: [columns as f32 / aspect, rows as f32],
            cells: vec![0; columns * rows],
            entries: Vec::new(),
            current: 0,
            first: 0,
        }
    }

    /// Forgets the last frame.
    pub(super) fn clear(&mut self) {
        self.cells.fill(0);
        self.entries.clear();
    }

    /// The next shapes belong to a new thing, nearer than those before it. Returns the index of its first entry.
    pub(super) fn begin(&mut self) -> usize {
        self.first = self.entries.len();
        self.current = self.first;
        self.entries.extend([Entry::NOTHING; 2]);
        self.first
    }

    /// Counts the cells that still show each thing. The entries are in the order of [`begin`](Self::begin), two for each.
    pub(super) fn finish(&mut self) -> &[Entry] {
        for cell in &self.cells {
            if let Some(entry) = usize::from(*cell)
                .checked_sub(1)
                .and_then(|index| self.entries.get_mut(index))
            {
                entry.left_over += 1;
            }
        }
        &self.entries
    }

    fn write(&mut self, row: usize, low: f32, high: f32) {
        // A cell belongs to a shape that holds its middle.
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

impl Canvas for Census {
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
        // A face seen from its edge has no area and paints nothing, however long it is.
        let extent = (high[0] - low[0]).max(high[1] - low[1]);
        if doubled.abs() < extent * 2e-5 {
            return;
        }
        let frame = self.frame;
        self.entries[self.current].grow(frame, low, high, || clip_polygon(corners, frame.inner));
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
        let frame = self.frame;
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
        self.entries[self.current].grow(frame, low, high, || {
            let mut extent = NO_EXTENT;
            for step in 0..=24 {
                let (at, radius) = disc(step as f32 / 24.0);
                let part = clip_disc(at, radius, frame.inner);
                take_in(&mut extent, [part[0], part[1]], [part[2], part[3]]);
            }
            extent
        });
        // Both ends and eight discs between stand for the whole; a cell is coarser than what this leaves out.
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
        let mut census = Census::new(640, 360);
        census.clear();
        census.begin();
        census.polygon(&rectangle(0.2, 0.2, 0.6, 0.6), SOLID_PAINT);
        census.begin();
        census.polygon(&rectangle(0.4, 0.1, 0.9, 0.7), SOLID_PAINT);
        census.polygon(
            &rectangle(0.0, 0.0, 1.0, 1.0),
            Paint {
                opacity: 0.2,
                ..SOLID_PAINT
            },
        );
        let entries = census.finish();
        let free = |index: usize| entries[index].left_over as f32 / entries[index].written as f32;
        assert!((free(0) - 0.5).abs() < 0.03, "{}", free(0));
        assert_eq!(free(2), 1.0);
        assert_eq!(entries[0].inside, [0.2, 0.2, 0.6, 0.6]);
        assert_eq!(
            entries[2].inside,
            [0.4, 0.1, 0.9, 0.7],
            "glass does not count"
        );
        assert!(entries[1].is_empty() && entries[3].is_empty());
    }

    #[test]
    fn only_what_is_in_the_picture_counts_for_its_extent() {
        let mut census = Census::new(64, 64);
        census.begin();
        // A triangle whose tips lie outside: the part in the picture is lower than its whole.
        census.polygon(&[[-1.0, 0.0], [1.0, 0.5], [-1.0, 1.0]], SOLID_PAINT);
        census.begin();
        census.limb([-0.3, 0.5], 0.5, [-0.3, 0.5], 0.5, SOLID_PAINT);
        let entries = census.finish();
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
    fn shapes_outside_the_picture_fill_no_cell() {
        let mut census = Census::new(64, 64);
        census.clear();
        census.begin();
        census.polygon(&rectangle(-0.5, 0.2, -0.1, 0.6), SOLID_PAINT);
        census.limb([3.0, 0.5], 0.1, [3.5, 0.5], 0.1, SOLID_PAINT);
        let entry = census.finish()[0];
        assert!(entry.is_empty() && entry.written == 0, "{entry:?}");
    }
}
