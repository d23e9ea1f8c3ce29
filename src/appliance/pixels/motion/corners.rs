// SPDX-License-Identifier: Apache-2.0
//! Corners: points whose surroundings have contrast in every direction, so that their motion is unambiguous (Shi and Tomasi, 1994).

use jetwatch_types::Xyxy;

use super::pyramid::Plane;

/// One corner at most is taken in each square of this side, in pixels: they cover the whole image.
const BUCKET_SIDE: usize = 10;

/// Distance of corners from the edges, in pixels: a patch and its gradients are inside.
const BORDER: usize = 7;

/// Half of the side of the window in which contrast is measured.
const RADIUS: usize = 2;

/// Least contrast in the weakest direction: mean squared difference of brightness from one pixel to the next. Noise of a video
/// has a quarter of that.
const MIN_CONTRAST: f32 = 2.0;

/// Least contrast as a share of the strongest corner's.
const MIN_SHARE: f32 = 0.005;

/// Margin around the boxes of objects, in pixels: a patch at an object's edge moves with the object.
const MASK_MARGIN: f32 = 3.0;

/// Finds corners. Its memory is reused.
#[derive(Debug, Default)]
pub(crate) struct CornerDetector {
    /// Pixels where no corner is taken.
    masked: Vec<bool>,
    /// Products of gradients of the whole image: xx, xy, yy.
    products: [Vec<f32>; 3],
    /// Their sums over the columns of a window, for one row.
    columns: [Vec<f32>; 3],
    /// The best corner of each square, with its contrast.
    best: Vec<Option<(f32, [f32; 2])>>,
}

impl CornerDetector {
    /// Clears the mask for a plane of this size.
    pub(crate) fn clear_mask(&mut self, plane: &Plane) {
        self.masked.clear();
        self.masked.resize(plane.width * plane.height, false);
    }

    /// Masks the pixels of a box, in pixels of the plane, and a margin around it.
    pub(crate) fn mask(&mut self, plane: &Plane, [left, top, right, bottom]: &Xyxy) {
        let clamped = |value: f32, most: usize| value.clamp(0.0, most as f32) as usize;
        let first = clamped((left - MASK_MARGIN).floor(), plane.width);
        let end = clamped((right + MASK_MARGIN).ceil(), plane.width);
        let from = clamped((top - MASK_MARGIN).floor(), plane.height);
        let to = clamped((bottom + MASK_MARGIN).ceil(), plane.height);
        for y in from..to.max(from) {
            self.masked[y * plane.width..][first..end.max(first)].fill(true);
        }
    }

    /// Whether the pixel at this point is masked; those outside are.
    pub(crate) fn is_masked(&self, plane: &Plane, [x, y]: [f32; 2]) -> bool {
        let is_inside = x >= 0.0 && y >= 0.0 && x < plane.width as f32 && y < plane.height as f32;
        !is_inside || self.masked[y as usize * plane.width + x as usize]
    }

    /// The mask, one value for each pixel.
    pub(crate) fn masked(&self) -> &[bool] {
        &self.masked
    }

    /// Replaces `corners` by the best ones of the plane inside of `content` (left, top, right, bottom) that are not masked.
    pub(crate) fn find(&mut self, plane: &Plane, content: [usize; 4], corners: &mut Vec<[f32; 2]>) {
        corners.clear();
        let [left, top, right, bottom] = content;
        let (left, top) = (left + BORDER, top + BORDER);
        let right = right.min(plane.width).saturating_sub(BORDER);
        let bottom = bottom.min(plane.height).saturating_sub(BORDER);
        if left >= right || top >= bottom {
            return;
        }
        self.multiply_gradients(plane);
        let buckets_across = plane.width.div_ceil(BUCKET_SIDE);
        self.best.clear();
        self.best
            .resize(buckets_across * plane.height.div_ceil(BUCKET_SIDE), None);
        let window = ((2 * RADIUS + 1) * (2 * RADIUS + 1)) as f32;
        for y in top..bottom {
            self.sum_columns(plane, y);
            let buckets = &mut self.best[y / BUCKET_SIDE * buckets_across..][..buckets_across];
            for x in left..right {
                if self.masked[y * plane.width + x] {
                    continue;
                }
                let sum =
                    |columns: &[f32]| columns[x - RADIUS..=x + RADIUS].iter().sum::<f32>() / window;
                let [xx, xy, yy] = [
                    sum(&self.columns[0]),
                    sum(&self.columns[1]),
                    sum(&self.columns[2]),
                ];
                let contrast = weaker_eigenvalue(xx, xy, yy);
                let best = &mut buckets[x / BUCKET_SIDE];
                if contrast >= MIN_CONTRAST && best.is_none_or(|(most, _)| contrast > most) {
                    *best = Some((contrast, [x as f32 + 0.5, y as f32 + 0.5]));
                }
            }
        }
        let found = self.best.iter().flatten();
        let most = found.clone().map(|(contrast, _)| *contrast);
        let enough = most.fold(0.0, f32::max) * MIN_SHARE;
        corners.extend(
            found
                .filter(|(contrast, _)| *contrast >= enough)
                .map(|(_, at)| *at),
        );
    }

    /// Sets the products of the gradients of all inner pixels.
    fn multiply_gradients(&mut self, plane: &Plane) {
        let (width, height) = (plane.width, plane.height);
        for products in &mut self.products {
            products.clear();
            products.resize(width * height, 0.0);
        }
        let [xx, xy, yy] = &mut self.products;
        for y in 1..height - 1 {
            let row = &plane.pixels[(y - 1) * width..][..3 * width];
            let (upper, rest) = row.split_at(width);
            let (middle, lower) = rest.split_at(width);
            let inner = y * width + 1..(y + 1) * width - 1;
            let products = (xx[inner.clone()].iter_mut())
                .zip(&mut xy[inner.clone()])
                .zip(&mut yy[inner]);
            let across = middle.iter().zip(&middle[2..]);
            let down = upper[1..].iter().zip(&lower[1..]);
            for (((xx, xy), yy), ((left, right), (above, below))) in products.zip(across.zip(down))
            {
                let gx = (right - left) * 0.5;
                let gy = (below - above) * 0.5;
                *xx = gx * gx;
                *xy = gx * gy;
                *yy = gy * gy;
            }
        }
    }

    /// Sums the products over the rows of the windows around row `y`.
    fn sum_columns(&mut self, plane: &Plane, y: usize) {
        for (columns, products) in self.columns.iter_mut().zip(&self.products) {
            columns.clear();
            columns.resize(plane.width, 0.0);
            for row in y - RADIUS..=y + RADIUS {
                let row = &products[row * plane.width..][..plane.width];
                for (sum, value) in columns.iter_mut().zip(row) {
                    *sum += value;
                }
            }
        }
    }
}

/// The smaller eigenvalue of a symmetric matrix.
fn weaker_eigenvalue(xx: f32, xy: f32, yy: f32) -> f32 {
    let mean = (xx + yy) * 0.5;
    let half = (xx - yy) * 0.5;
    mean - (half * half + xy * xy).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::motion::pyramid::Pyramid;

    /// Corners of an image of 80×60 that a function gives, outside of `boxes`.
    fn corners(brightness: impl Fn(usize, usize) -> u8, boxes: &[Xyxy]) -> Vec<[f32; 2]> {
        let pixels: Vec<u8> = (0..80 * 60)
            .map(|at| brightness(at % 80, at / 80))
            .collect();
        let mut pyramid = Pyramid::default();
        pyramid.build(&pixels, 80, 60);
        let plane = &pyramid.planes()[0];
        let mut detector = CornerDetector::default();
        detector.clear_mask(plane);
        boxes.iter().for_each(|masked| detector.mask(plane, masked));
        let mut found = Vec::new();
        detector.find(plane, [0, 0, 80, 60], &mut found);
        found
    }

    fn squares(x: usize, y: usize) -> u8 {
        match (x / 20 + y / 20) % 2 {
            0 => 60,
            _ => 160,
        }
    }

    #[test]
    fn corners_are_where_edges_meet() {
        let found = corners(squares, &[]);
        assert!(!found.is_empty());
        for [x, y] in found {
            let distance = |value: f32| (value - (value / 20.0).round() * 20.0).abs();
            assert!(distance(x) <= 3.0 && distance(y) <= 3.0, "({x}, {y})");
        }
    }

    #[test]
    fn flat_images_and_straight_edges_have_none() {
        assert!(corners(|_, _| 100, &[]).is_empty());
        assert!(corners(|x, _| if x < 40 { 20 } else { 220 }, &[]).is_empty());
        // Noise of one step.
        assert!(corners(|x, y| ((x + y) % 2) as u8 + 100, &[]).is_empty());
    }

    #[test]
    fn masked_boxes_have_none() {
        let found = corners(
            squares,
            &[[30.0, 10.0, 50.0, 30.0], [-9.0, 35.0, 500.0, 500.0]],
        );
        assert!(!found.is_empty());
        for [x, y] in found {
            assert!(
                !((27.0..53.0).contains(&x) && (7.0..33.0).contains(&y)),
                "({x}, {y})"
            );
            assert!(y < 32.0, "({x}, {y})");
        }
        assert!(corners(squares, &[[0.0, 0.0, 80.0, 60.0]]).is_empty());
    }
}
