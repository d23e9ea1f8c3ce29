// SPDX-License-Identifier: Apache-2.0
//! Bounds of shapes, and of their part inside the image.
//!
//! Pure geometry in image coordinates. [`visibility`](super::visibility) calls it for every shape.

/// A rectangle in image coordinates: left, top, right, bottom.
pub(super) type Bounds = [f32; 4];

/// Empty bounds, the neutral element of [`extend`].
pub(super) const EMPTY_BOUNDS: Bounds = [
    f32::INFINITY,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NEG_INFINITY,
];

/// Grows `bounds` by the rectangle between two corners.
pub(super) fn extend(bounds: &mut Bounds, low: [f32; 2], high: [f32; 2]) {
    *bounds = [
        bounds[0].min(low[0]),
        bounds[1].min(low[1]),
        bounds[2].max(high[0]),
        bounds[3].max(high[1]),
    ];
}

/// The image's edges.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edges {
    /// Right and lower edge; the others are 0.
    outer: [f32; 2],
    /// The edges, moved inwards by [`FAINT_PIXELS`].
    inner: Bounds,
}

/// A shape that reaches less than this share of a pixel into the image is not visible there and does not count:
/// otherwise a long edge close to the border of the image would stretch the box along it.
const FAINT_PIXELS: f32 = 0.05;

impl Edges {
    /// The edges of an image of this aspect ratio and this many rows.
    pub(super) fn new(aspect: f32, rows: u32) -> Self {
        let faint = FAINT_PIXELS / rows.max(1) as f32;
        Self {
            outer: [aspect, 1.0],
            inner: [faint, faint, aspect - faint, 1.0 - faint],
        }
    }

    /// The rectangle to clip shapes to.
    pub(super) fn inner(&self) -> Bounds {
        self.inner
    }

    /// The extent of the part in the image of a shape between `low` and `high`; `clipped` gives its extent within
    /// [`inner`](Self::inner), and is called only where the shape crosses an edge of the image.
    pub(super) fn part_inside(
        &self,
        low: [f32; 2],
        high: [f32; 2],
        clipped: impl FnOnce() -> Bounds,
    ) -> Bounds {
        let [left, top, right, bottom] = self.inner;
        if low[0] >= left && low[1] >= top && high[0] <= right && high[1] <= bottom {
            return [low[0], low[1], high[0], high[1]];
        }
        if low[0] >= right || low[1] >= bottom || high[0] <= left || high[1] <= top {
            return EMPTY_BOUNDS;
        }
        let part = clipped();
        if part[0] > part[2] || part[1] > part[3] {
            return EMPTY_BOUNDS;
        }
        let reach = |found: f32, inner: f32, own: f32, outer: f32| {
            if found == inner {
                own.clamp(0.0, outer)
            } else {
                found
            }
        };
        [
            reach(part[0], left, low[0], self.outer[0]),
            reach(part[1], top, low[1], self.outer[1]),
            reach(part[2], right, high[0], self.outer[0]),
            reach(part[3], bottom, high[1], self.outer[1]),
        ]
    }
}

/// The extent of the part of a polygon that lies in the image.
pub(super) fn clip_polygon(corners: &[[f32; 2]], [left, top, right, bottom]: Bounds) -> Bounds {
    // Each of the four edges adds at most one corner to a convex face; 64 leave a margin for the few others.
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
                // Exactly on the edge, without rounding.
                next[kept][axis] = limit * sign;
                kept += 1;
            }
        }
        (now, count) = (next, kept);
    }
    let mut extent = EMPTY_BOUNDS;
    for corner in &now[..count] {
        extend(&mut extent, *corner, *corner);
    }
    extent
}

/// The extent of the part of a disc that lies in the image.
pub(super) fn clip_disc(
    [u, v]: [f32; 2],
    radius: f32,
    [left, top, right, bottom]: Bounds,
) -> Bounds {
    let (du, dv) = (u - u.clamp(left, right), v - v.clamp(top, bottom));
    if du * du + dv * dv >= radius * radius {
        return EMPTY_BOUNDS;
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
