// SPDX-License-Identifier: Apache-2.0
//! Shapes in an image, in shares of its width and height: the areas and lines of scene rules, checked once.
//!
//! They are written as pairs of numbers, `0.1,0.2,0.9,0.2`, counted from the image's top left corner.

use super::redact::quoted;

/// A point in the image: shares of its width and its height, 0 to 1.
pub type Point = [f32; 2];

/// Why a shape is none.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum GeometryError {
    #[error(
        "found \"{}\", expected pairs of numbers from 0 to 1, such as 0.1,0.2,0.9,0.2",
        quoted(found)
    )]
    Text { found: String },
    #[error("point {point} lies at {x},{y}, outside of the image; expected both from 0 to 1")]
    Outside {
        /// Which point, from 1.
        point: usize,
        x: f32,
        y: f32,
    },
    #[error("found {found} points, expected {expected}")]
    Points {
        found: usize,
        expected: &'static str,
    },
    #[error("both ends are the same point, expected two")]
    NoLength,
    #[error(
        "the sides from point {first} and from point {second} meet, expected a border that goes around once"
    )]
    Crossing {
        /// The point at which one side begins, from 1.
        first: usize,
        second: usize,
    },
}

/// Reads `x,y,x,y,…`; that the points are in the image is checked with the shape.
///
/// # Errors
/// A part that is no number, or a number without its partner.
pub fn parse_points(text: &str) -> Result<Vec<Point>, GeometryError> {
    let numbers = text
        .split(',')
        .map(|part| {
            let number = part.trim().parse::<f32>().ok();
            number.ok_or_else(|| GeometryError::Text {
                found: part.trim().to_owned(),
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let (points, rest) = numbers.as_chunks::<2>();
    match rest {
        [] => Ok(points.to_vec()),
        [alone, ..] => Err(GeometryError::Text {
            found: alone.to_string(),
        }),
    }
}

/// An area whose border does not meet itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Polygon {
    points: Vec<Point>,
}

/// A line with a direction and a length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Where it begins.
    pub from: Point,
    /// Where it ends.
    pub to: Point,
}

impl Polygon {
    /// The area within the corners `x,y,x,y,…`.
    ///
    /// # Errors
    /// As [`parse_points`] and [`new`](Self::new).
    pub fn parse(text: &str) -> Result<Self, GeometryError> {
        parse_points(text).and_then(Self::new)
    }

    /// The area within these corners.
    ///
    /// # Errors
    /// Fewer than three corners, one outside of the image, or sides that meet.
    pub fn new(points: Vec<Point>) -> Result<Self, GeometryError> {
        check_inside(&points)?;
        let corners = points.len();
        if corners < 3 {
            return Err(GeometryError::Points {
                found: corners,
                expected: "three or more",
            });
        }
        let side = |index: usize| (points[index], points[(index + 1) % corners]);
        for first in 0..corners {
            let (a, b) = side(first);
            // Neighbors share a corner, and may share no more: a side that turns back on itself encloses nothing.
            let (_, c) = side((first + 1) % corners);
            let turns_back = cross(a, b, c) == 0.0 && dot(b, a, c) > 0.0;
            if a == b || turns_back {
                return Err(GeometryError::Crossing {
                    first: first + 1,
                    second: (first + 1) % corners + 1,
                });
            }
            for second in first + 2..corners {
                let (c, d) = side(second);
                if (second + 1) % corners != first && meet(a, b, c, d) {
                    return Err(GeometryError::Crossing {
                        first: first + 1,
                        second: second + 1,
                    });
                }
            }
        }
        Ok(Self { points })
    }

    /// Its corners.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Whether a point lies in it. Of two areas with a common side, a point on that side lies in at most one.
    #[must_use]
    pub fn contains(&self, [x, y]: Point) -> bool {
        let mut inside = false;
        let mut before = self.points[self.points.len() - 1];
        for &corner in &self.points {
            if (corner[1] > y) != (before[1] > y) {
                let share = (y - corner[1]) / (before[1] - corner[1]);
                if x < corner[0] + share * (before[0] - corner[0]) {
                    inside = !inside;
                }
            }
            before = corner;
        }
        inside
    }
}

/// Areas count as apart where they share less than a strip of this width, in shares of the image: neighbors that were
/// drawn by hand along one border.
const TOUCHING: f64 = 1e-3;

impl Polygon {
    /// Whether a point can lie in both. Areas with a common border are apart.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.has_border_within(other) || other.has_border_within(self)
    }

    /// Whether a point just next to this area's border, and in it, is in the other.
    ///
    /// The sides are cut where they meet the other's, so that each piece is in the other area or out of it as a whole, and
    /// its middle decides which.
    fn has_border_within(&self, other: &Self) -> bool {
        let wide = |[x, y]: Point| [f64::from(x), f64::from(y)];
        let sides = |area: &Self| -> Vec<[[f64; 2]; 2]> {
            let points = &area.points;
            let next = |index: usize| points[(index + 1) % points.len()];
            let side = |(index, from): (usize, &Point)| [wide(*from), wide(next(index))];
            points.iter().enumerate().map(side).collect()
        };
        let others = sides(other);
        sides(self).into_iter().any(|[from, to]| {
            let way = [to[0] - from[0], to[1] - from[1]];
            let length = way[0].hypot(way[1]);
            let mut cuts = vec![0.0, 1.0];
            for [a, b] in &others {
                let across = [b[0] - a[0], b[1] - a[1]];
                let offset = [a[0] - from[0], a[1] - from[1]];
                let turn = way[0] * across[1] - way[1] * across[0];
                if turn != 0.0 {
                    cuts.push((offset[0] * across[1] - offset[1] * across[0]) / turn);
                }
                // Sides along each other are cut at their ends; cuts elsewhere do no harm.
                for end in [a, b] {
                    let reach = [end[0] - from[0], end[1] - from[1]];
                    cuts.push((reach[0] * way[0] + reach[1] * way[1]) / (length * length));
                }
            }
            cuts.retain(|cut| (0.0..=1.0).contains(cut));
            cuts.sort_by(f64::total_cmp);
            cuts.windows(2).any(|piece| {
                let middle = f64::midpoint(piece[0], piece[1]);
                [TOUCHING, -TOUCHING].into_iter().any(|aside| {
                    let at = [
                        (from[0] + middle * way[0] - aside * way[1] / length) as f32,
                        (from[1] + middle * way[1] + aside * way[0] / length) as f32,
                    ];
                    (piece[1] - piece[0]) * length > TOUCHING
                        && self.contains(at)
                        && other.contains(at)
                })
            })
        })
    }
}

impl Segment {
    /// The line `x,y,x,y`.
    ///
    /// # Errors
    /// As [`parse_points`] and [`new`](Self::new).
    pub fn parse(text: &str) -> Result<Self, GeometryError> {
        parse_points(text).and_then(|points| Self::new(&points))
    }

    /// The line between two points.
    ///
    /// # Errors
    /// Other than two points, one outside of the image, or a length of zero.
    pub fn new(points: &[Point]) -> Result<Self, GeometryError> {
        check_inside(points)?;
        match points {
            [from, to] if from == to => Err(GeometryError::NoLength),
            [from, to] => Ok(Self {
                from: *from,
                to: *to,
            }),
            _ => Err(GeometryError::Points {
                found: points.len(),
                expected: "two",
            }),
        }
    }

    /// On which side a point lies as one goes along the line: above 0 on the right, below 0 on the left.
    #[must_use]
    pub fn side(&self, at: Point) -> f32 {
        cross(self.from, self.to, at)
    }

    /// Whether the segment between two points meets the line, its ends included.
    #[must_use]
    pub fn crosses(&self, from: Point, to: Point) -> bool {
        meet(self.from, self.to, from, to)
    }
}

fn check_inside(points: &[Point]) -> Result<(), GeometryError> {
    let is_outside = |point: &Point| !point.iter().all(|share| (0.0..=1.0).contains(share));
    match points.iter().position(is_outside) {
        Some(index) => Err(GeometryError::Outside {
            point: index + 1,
            x: points[index][0],
            y: points[index][1],
        }),
        None => Ok(()),
    }
}

/// Twice the area of a triangle, above 0 when it goes around clockwise as seen on the image.
fn cross(a: Point, b: Point, c: Point) -> f32 {
    (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
}

/// Above 0 when `b` and `c` lie in the same direction from `a`.
fn dot(a: Point, b: Point, c: Point) -> f32 {
    (b[0] - a[0]) * (c[0] - a[0]) + (b[1] - a[1]) * (c[1] - a[1])
}

/// Whether two lines have a point in common.
fn meet(a: Point, b: Point, c: Point, d: Point) -> bool {
    let sides = [
        cross(a, b, c),
        cross(a, b, d),
        cross(c, d, a),
        cross(c, d, b),
    ];
    if sides[0] * sides[1] < 0.0 && sides[2] * sides[3] < 0.0 {
        return true;
    }
    let touches =
        |from: Point, to: Point, at: Point, side: f32| side == 0.0 && dot(at, from, to) <= 0.0;
    touches(a, b, c, sides[0])
        || touches(a, b, d, sides[1])
        || touches(c, d, a, sides[2])
        || touches(c, d, b, sides[3])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(text: &str) -> Result<Polygon, String> {
        parse_points(text)
            .and_then(Polygon::new)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn invalid_polygons_are_rejected_with_position() {
        #[rustfmt::skip]
        let cases = [
            ("0.1,0.1,0.9,x", "found \"x\", expected pairs of numbers from 0 to 1, such as 0.1,0.2,0.9,0.2"),
            ("0.1,0.1,0.9", "found \"0.9\", expected pairs of numbers from 0 to 1, such as 0.1,0.2,0.9,0.2"),
            ("0,0,1,0,1,1.5", "point 3 lies at 1,1.5, outside of the image; expected both from 0 to 1"),
            ("0,0,1,0,NaN,1", "point 3 lies at NaN,1, outside of the image; expected both from 0 to 1"),
            ("0,0,1,1", "found 2 points, expected three or more"),
            ("0,0,1,1,1,0,0,1", "the sides from point 1 and from point 3 meet, expected a border that goes around once"),
            ("0,0,1,0,0.5,0", "the sides from point 1 and from point 2 meet, expected a border that goes around once"),
            ("0,0,0,0,1,1", "the sides from point 1 and from point 2 meet, expected a border that goes around once"),
            // The fourth corner lies on the first side.
            ("0,0,1,0,1,1,0.5,0,0,1", "the sides from point 1 and from point 3 meet, expected a border that goes around once"),
        ];
        for (text, wanted) in cases {
            assert_eq!(area(text), Err(wanted.to_owned()), "{text}");
        }
    }

    #[test]
    fn polygon_contains_inner_points() {
        let bay = area("0.2,0.2,0.8,0.2,0.8,0.8,0.5,0.4,0.2,0.8").expect("a border");
        for (at, wanted) in [
            ([0.3, 0.3], true),
            ([0.5, 0.3], true),
            ([0.5, 0.6], false),
            ([0.25, 0.6], true),
            ([0.1, 0.3], false),
            ([0.5, 0.1], false),
            ([f32::NAN, 0.3], false),
        ] {
            assert_eq!(bay.contains(at), wanted, "{at:?}");
        }
        let left = area("0,0,0.5,0,0.5,1,0,1").expect("a border");
        let right = area("0.5,0,1,0,1,1,0.5,1").expect("a border");
        assert_ne!(left.contains([0.5, 0.5]), right.contains([0.5, 0.5]));
    }

    #[test]
    fn polygons_overlap_when_they_share_points() {
        let square = "0.2,0.2,0.6,0.2,0.6,0.6,0.2,0.6";
        #[rustfmt::skip]
        let rows = [
            (square, true, "itself"),
            ("0.2,0.6,0.6,0.6,0.6,0.2,0.2,0.2", true, "the other way around"),
            ("0.3,0.3,0.5,0.3,0.4,0.5", true, "within"),
            ("0,0,1,0,1,1,0,1", true, "around"),
            ("0.5,0.5,0.9,0.5,0.9,0.9,0.5,0.9", true, "a corner"),
            ("0.4,0.2,0.8,0.2,0.8,0.6,0.4,0.6", true, "sides along each other"),
            ("0.1,0.35,0.9,0.35,0.9,0.45,0.1,0.45", true, "a cross"),
            ("0.6,0.2,0.9,0.2,0.9,0.6,0.6,0.6", false, "a neighbor"),
            ("0.6,0.6,0.9,0.6,0.9,0.9", false, "a common corner"),
            ("0.599,0.1,0.9,0.1,0.9,0.7,0.5995,0.7", false, "drawn by hand"),
            ("0.7,0.7,0.9,0.7,0.9,0.9", false, "elsewhere"),
        ];
        for (other, wanted, why) in rows {
            let (one, other) = (area(square).expect("one"), area(other).expect("other"));
            assert_eq!(one.overlaps(&other), wanted, "{why}");
            assert_eq!(other.overlaps(&one), wanted, "{why}, asked the other way");
        }
        // Two combs whose teeth share only borders.
        let down = area("0,0,1,0,1,0.5,0.6,0.5,0.6,0.2,0.4,0.2,0.4,0.5,0,0.5").expect("one");
        let up = area("0.4,0.2,0.6,0.2,0.6,0.9,0.4,0.9").expect("a tooth");
        assert!(!down.overlaps(&up));
    }

    #[test]
    fn segments_have_two_ends_length_and_sides() {
        let wanted = Err(GeometryError::NoLength);
        assert_eq!(Segment::new(&[[0.5, 0.5], [0.5, 0.5]]), wanted);
        let one = Segment::new(&[[0.5, 0.5]]).expect_err("one point");
        assert_eq!(one.to_string(), "found 1 points, expected two");
        let line = Segment::new(&[[0.2, 0.5], [0.8, 0.5]]).expect("a line");
        // Below is on the right of who goes right.
        assert!(line.side([0.5, 0.9]) > 0.0);
        assert!(line.side([0.5, 0.1]) < 0.0);
        assert!(line.crosses([0.5, 0.1], [0.5, 0.9]));
        // Its end belongs to it.
        assert!(line.crosses([0.8, 0.1], [0.8, 0.9]));
        assert!(!line.crosses([0.9, 0.1], [0.9, 0.9]));
        assert!(!line.crosses([0.5, 0.1], [0.5, 0.4]));
    }
}
