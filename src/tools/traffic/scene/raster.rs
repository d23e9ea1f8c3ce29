// SPDX-License-Identifier: Apache-2.0
//! Rasterizes shapes with exact area coverage into 4-byte pixels: BGRx images, or sprites with alpha.
//!
//! The edges of a polygon add signed areas to a buffer; the prefix sum along a row is the coverage of each pixel.
//! Limbs are filled by the distance to their axis, which also gives their round shading.

use super::projector::{Canvas, Paint};
use jetwatch_types::{PIXEL_BYTES, Size};

/// Reusable buffer, so that frames do not allocate.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Signed areas, all zero between shapes.
    areas: Vec<f32>,
}

/// A canvas that draws pixels.
pub(super) struct Raster<'a> {
    pixels: &'a mut [u8],
    stride: usize,
    size: Size,
    /// Target pixels per image unit, right and down.
    scale: [f32; 2],
    /// Top left corner of the target in the scaled image, in pixels.
    origin: [f32; 2],
    scratch: &'a mut Scratch,
}

impl<'a> Raster<'a> {
    /// A target of `size` that shows the whole image, `aspect` image heights wide. `pixels` holds its rows.
    pub(super) fn new(
        pixels: &'a mut [u8],
        stride: usize,
        size: Size,
        aspect: f32,
        scratch: &'a mut Scratch,
    ) -> Self {
        let scale = [size.width as f32 / aspect, size.height as f32];
        Self {
            pixels,
            stride,
            size,
            scale,
            origin: [0.0; 2],
            scratch,
        }
    }

    /// A target of `size` that shows the part of a larger image that begins `origin` pixels from its corner.
    pub(super) fn region(
        whole: Size,
        aspect: f32,
        origin: [u32; 2],
        pixels: &'a mut [u8],
        size: Size,
        scratch: &'a mut Scratch,
    ) -> Self {
        let scale = [whole.width as f32 / aspect, whole.height as f32];
        let stride = size.width as usize * PIXEL_BYTES;
        Self {
            pixels,
            stride,
            size,
            scale,
            origin: origin.map(|v| v as f32),
            scratch,
        }
    }

    /// The pixels of the target.
    pub(super) fn pixels(&mut self) -> &mut [u8] {
        self.pixels
    }

    fn place(&self, [u, v]: [f32; 2]) -> [f32; 2] {
        [
            u * self.scale[0] - self.origin[0],
            v * self.scale[1] - self.origin[1],
        ]
    }

    fn row(&mut self, y: usize, x0: usize, x1: usize) -> &mut [u8] {
        let start = y * self.stride;
        &mut self.pixels[start + x0 * PIXEL_BYTES..start + x1 * PIXEL_BYTES]
    }

    /// The pixels that a range of coordinates touches, clipped to the target; `None` without any.
    fn clip(low: f32, high: f32, end: u32) -> Option<(usize, usize)> {
        let first = low.max(0.0).floor();
        let last = high.min(end as f32).ceil();
        // Both are between 0 and `finish`; a comparison with NaN is false and gives `None`.
        (first < last).then_some((first as usize, last as usize))
    }
}

/// Blends `color` (blue, green, red, 255) into a pixel with a weight from 0 to 256.
fn mix(pixel: &mut [u8], color: [u8; 4], weight: u32) {
    for (old, new) in pixel.iter_mut().zip(color) {
        // The weights add up to 256, so that the result fits a byte.
        *old = ((u32::from(*old) * (256 - weight) + u32::from(new) * weight + 128) >> 8) as u8;
    }
}

/// Adds the signed area of one edge to each pixel of a buffer of rows.
fn add_edge(areas: &mut [f32], width: usize, rows: usize, a: [f32; 2], b: [f32; 2]) {
    if a[1] == b[1] {
        return;
    }
    let (sign, top, bottom) = if a[1] < b[1] {
        (1.0, a, b)
    } else {
        (-1.0, b, a)
    };
    let slope = (bottom[0] - top[0]) / (bottom[1] - top[1]);
    let first = top[1].max(0.0);
    let last = bottom[1].min(rows as f32);
    if first >= last {
        return;
    }
    let mut x = top[0] + (first - top[1]) * slope;
    let limit = width as f32;
    let row_length = width + 2;
    let mut y = first as usize;
    let mut from = first;
    while y < rows && from < last {
        let to = last.min((y + 1) as f32);
        let height = to - from;
        let next = x + slope * height;
        let signed = sign * height;
        let (left, right) = if x < next { (x, next) } else { (next, x) };
        let (left, right) = (left.clamp(0.0, limit), right.clamp(0.0, limit));
        let row = &mut areas[y * row_length..(y + 1) * row_length];
        let column = left as usize;
        let column_end = right.ceil() as usize;
        if column_end <= column + 1 {
            let inside = 0.5 * (left + right) - column as f32;
            row[column] += signed * (1.0 - inside);
            row[column + 1] += signed * inside;
        } else {
            // The edge crosses several pixels of this row: a triangle in the first and the last, trapezes between.
            let per_pixel = 1.0 / (right - left);
            let start = 1.0 - (left - column as f32);
            let area = 0.5 * per_pixel * start * start;
            row[column] += signed * area;
            let end = right - (column_end - 1) as f32;
            let last_area = 0.5 * per_pixel * end * end;
            if column_end == column + 2 {
                row[column + 1] += signed * (1.0 - area - last_area);
            } else {
                let second = per_pixel * (start + 0.5);
                row[column + 1] += signed * (second - area);
                for cell in &mut row[column + 2..column_end - 1] {
                    *cell += signed * per_pixel;
                }
                let before = second + (column_end - column - 3) as f32 * per_pixel;
                row[column_end - 1] += signed * (1.0 - before - last_area);
            }
            row[column_end] += signed * last_area;
        }
        x = next;
        from = to;
        y += 1;
    }
}

impl Canvas for Raster<'_> {
    const COLORED: bool = true;

    fn part(&mut self, _: u8) {}

    fn polygon(&mut self, corners: &[[f32; 2]], paint: Paint) {
        let (mut low, mut high) = ([f32::INFINITY; 2], [f32::NEG_INFINITY; 2]);
        for corner in corners {
            let place = self.place(*corner);
            low = [low[0].min(place[0]), low[1].min(place[1])];
            high = [high[0].max(place[0]), high[1].max(place[1])];
        }
        let Some((x0, x1)) = Self::clip(low[0], high[0], self.size.width) else {
            return;
        };
        let Some((y0, y1)) = Self::clip(low[1], high[1], self.size.height) else {
            return;
        };
        let (width, rows) = (x1 - x0, y1 - y0);
        let row_length = width + 2;
        if self.scratch.areas.len() < row_length * rows {
            self.scratch.areas.resize(row_length * rows, 0.0);
        }
        let (scale, shift) = (
            self.scale,
            [self.origin[0] + x0 as f32, self.origin[1] + y0 as f32],
        );
        let local = |[u, v]: [f32; 2]| [u * scale[0] - shift[0], v * scale[1] - shift[1]];
        let mut before = local(corners[corners.len() - 1]);
        for corner in corners {
            let now = local(*corner);
            add_edge(&mut self.scratch.areas, width, rows, before, now);
            before = now;
        }
        let fall = 1.0 / (high[1] - low[1]).max(1.0);
        let full = paint.opacity * 256.0;
        for y in 0..rows {
            let share = (((y0 + y) as f32 + 0.5 - low[1]) * fall).clamp(0.0, 1.0);
            let channel = |i: usize| {
                let (top, bottom) = (f32::from(paint.top[i]), f32::from(paint.bottom[i]));
                (top + (bottom - top) * share) as u8
            };
            let color = [channel(2), channel(1), channel(0), 255];
            let start = (y0 + y) * self.stride;
            let pixels = &mut self.pixels[start + x0 * PIXEL_BYTES..start + x1 * PIXEL_BYTES];
            let areas = &mut self.scratch.areas[y * row_length..(y + 1) * row_length];
            let (mut sum, mut weight) = (0.0_f32, 0);
            for (pixel, area) in pixels.chunks_exact_mut(PIXEL_BYTES).zip(areas.iter_mut()) {
                // Away from edges, neither the sum nor the weight changes.
                if *area != 0.0 {
                    sum += *area;
                    *area = 0.0;
                    weight = (sum.abs().min(1.0) * full + 0.5) as u32;
                }
                if weight >= 256 {
                    pixel.copy_from_slice(&color);
                } else if weight > 0 {
                    mix(pixel, color, weight);
                }
            }
            areas[width] = 0.0;
            areas[width + 1] = 0.0;
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
        // Distances are in row heights; columns have another width where the target is stretched.
        let [kx, ky] = self.scale;
        let squeeze = ky / kx;
        let (a, b) = (self.place(from), self.place(to));
        let (ra, rb) = (from_radius * ky, to_radius * ky);
        let (low_x, high_x) = (
            (a[0] - ra / squeeze).min(b[0] - rb / squeeze),
            (a[0] + ra / squeeze).max(b[0] + rb / squeeze),
        );
        let (low_y, high_y) = ((a[1] - ra).min(b[1] - rb), (a[1] + ra).max(b[1] + rb));
        let Some((x0, x1)) = Self::clip(low_x, high_x, self.size.width) else {
            return;
        };
        let Some((y0, y1)) = Self::clip(low_y, high_y, self.size.height) else {
            return;
        };
        let axis = [(b[0] - a[0]) * squeeze, b[1] - a[1]];
        let length = axis[0] * axis[0] + axis[1] * axis[1];
        let per_length = if length > 1e-6 { 1.0 / length } else { 0.0 };
        let color = [paint.top[2], paint.top[1], paint.top[0]];
        // A limb thinner than a pixel covers only a part of it.
        for y in y0..y1 {
            let dy = y as f32 + 0.5 - a[1];
            for (x, pixel) in (x0..x1).zip(self.row(y, x0, x1).chunks_exact_mut(PIXEL_BYTES)) {
                let dx = (x as f32 + 0.5 - a[0]) * squeeze;
                let share = ((dx * axis[0] + dy * axis[1]) * per_length).clamp(0.0, 1.0);
                let (ex, ey) = (dx - axis[0] * share, dy - axis[1] * share);
                let radius = ra + (rb - ra) * share;
                let square = ex * ex + ey * ey;
                let reach = radius + 0.5;
                if square >= reach * reach {
                    continue;
                }
                let coverage = (reach - square.sqrt()).min(2.0 * radius).min(1.0) * paint.opacity;
                // Round shading: the axis is brighter than the rim.
                let shade = 266.0 - 56.0 * (square / (radius * radius + 0.25)).min(1.0);
                let lit = color.map(|c| (f32::from(c) * shade * (1.0 / 256.0)) as u8);
                mix(
                    pixel,
                    [lit[0], lit[1], lit[2], 255],
                    (coverage * 256.0) as u32,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHITE: Paint = Paint {
        top: [255; 3],
        bottom: [255; 3],
        opacity: 1.0,
    };

    fn drawn(size: Size, draw: impl Fn(&mut Raster<'_>)) -> Vec<u8> {
        let stride = size.width as usize * PIXEL_BYTES;
        let mut pixels = vec![0; stride * size.height as usize];
        let mut scratch = Scratch::default();
        draw(&mut Raster::new(
            &mut pixels,
            stride,
            size,
            size.width as f32 / size.height as f32,
            &mut scratch,
        ));
        // The buffer is left clean.
        assert!(scratch.areas.iter().all(|area| area.abs() < 1e-6));
        pixels
    }

    /// The whole coverage in pixels.
    fn coverage(pixels: &[u8]) -> f32 {
        pixels
            .chunks_exact(PIXEL_BYTES)
            .map(|pixel| f32::from(pixel[1]) / 255.0)
            .sum()
    }

    #[test]
    fn a_polygon_covers_its_area() {
        let size = Size::new(40, 20);
        // In image heights: 1 is 20 pixels. Expected areas in pixels, inside the target.
        #[rustfmt::skip]
        let cases: [(&[[f32; 2]], f32); 5] = [
            (&[[0.1, 0.1], [0.6, 0.1], [0.6, 0.5], [0.1, 0.5]], 80.0),
            (&[[0.125, 0.13], [0.325, 0.13], [0.325, 0.18], [0.125, 0.18]], 4.0),
            (&[[0.2, 0.1], [1.7, 0.5], [0.3, 0.9]], 232.0),
            (&[[-1.0, 0.25], [3.0, 0.25], [3.0, 0.75], [-1.0, 0.75]], 400.0),
            (&[[2.5, 0.0], [3.0, 0.0], [3.0, 1.0]], 0.0),
        ];
        for (corners, expected) in cases {
            let pixels = drawn(size, |raster| raster.polygon(corners, WHITE));
            let found = coverage(&pixels);
            assert!(
                (found - expected).abs() < 0.5,
                "{corners:?} covers {found}, not {expected}"
            );
            let mut turned = corners.to_vec();
            turned.reverse();
            // The direction does not matter.
            assert_eq!(pixels, drawn(size, |raster| raster.polygon(&turned, WHITE)));
        }
    }

    #[test]
    fn a_limb_covers_its_area() {
        let pixels = drawn(Size::new(80, 40), |raster| {
            raster.limb([0.5, 0.5], 0.1, [1.5, 0.5], 0.1, WHITE)
        });
        // 8 by 40 pixels and a disc of radius 4; the rim is darker, so that brightness is below area.
        let found = pixels
            .chunks_exact(PIXEL_BYTES)
            .filter(|pixel| pixel[1] > 100)
            .count() as f32;
        assert!((found - (320.0 + 50.3)).abs() < 12.0, "{found}");
    }

    #[test]
    fn numbers_beyond_all_bounds_do_no_harm() {
        for far in [1e9, -1e9, f32::INFINITY, f32::NAN] {
            drawn(Size::new(5, 3), |raster| {
                raster.limb([far, 0.5], 0.1, [1.5, far], 0.1, WHITE)
            });
        }
        for far in [1e7, -1e7] {
            drawn(Size::new(5, 3), |raster| {
                raster.polygon(&[[far, far], [0.3, 0.2], [0.9, far]], WHITE)
            });
        }
    }
}
