// SPDX-License-Identifier: Apache-2.0
//! A camera that shakes: the image of the scene shifts, turns and zooms a little with every frame.
//!
//! The scene is drawn larger than the image, so that the image never shows more than the scene has. Distances are in source pixels.

use jetwatch_types::{GroundTruthBox, PIXEL_BYTES, Similarity, Size, Xyxy, area, hash64};

use super::MIN_SIDE;

/// Changes of direction per second: of the quick part of the motion, and of the slow one.
const QUICK_HZ: f64 = 7.0;
const SLOW_HZ: f64 = 1.7;

/// Share of the quick part.
const QUICK_SHARE: f64 = 0.6;

/// Shift of the image's sides by rotation and by zoom, as a share of the largest shift.
const TURN_SHARE: f64 = 0.3;
const ZOOM_SHARE: f64 = 0.3;

/// The shaking of one camera.
#[derive(Debug, Clone)]
pub(super) struct Shake {
    size: Size,
    seed: u64,
    fps: f64,
    /// Largest shift.
    pixels: f64,
    /// How much larger than the image the scene is drawn.
    enlargement: f64,
    /// The scene before it is moved.
    canvas: Vec<u8>,
}

impl Shake {
    /// Shifts by at most `pixels` along each axis; `None` for 0.
    pub(super) fn new(size: Size, seed: u64, fps: f64, pixels: u32) -> Option<Self> {
        let pixels = f64::from(pixels);
        let side = f64::from(size.width.min(size.height));
        // Rotation moves the corners farther than the sides, along both axes.
        let margin = pixels * (1.0 + 2.0 * TURN_SHARE + ZOOM_SHARE) + 1.0;
        (pixels > 0.0).then(|| Self {
            size,
            seed,
            fps,
            pixels,
            enlargement: side / (side - 2.0 * margin).max(side * 0.2),
            canvas: Vec::new(),
        })
    }

    /// Where points of the still scene, which fills the image, are in the image of this frame.
    pub(super) fn motion(&self, frame: u64) -> Similarity {
        let time = frame as f64 / self.fps;
        let value = |axis: u64| {
            QUICK_SHARE * self.wave(time * QUICK_HZ, 2 * axis)
                + (1.0 - QUICK_SHARE) * self.wave(time * SLOW_HZ, 2 * axis + 1)
        };
        let (width, height) = (f64::from(self.size.width), f64::from(self.size.height));
        let half = width.min(height) / 2.0;
        let turn = value(2) * TURN_SHARE * self.pixels / half;
        let zoom = self.enlargement * (1.0 + value(3) * ZOOM_SHARE * self.pixels / half);
        // The sine and cosine of a small angle, on every machine the same.
        let (a, b) = (zoom * (1.0 - turn * turn / 2.0), zoom * turn);
        let [x, y] = [width / 2.0, height / 2.0];
        Similarity {
            a,
            b,
            x_shift: x - (a * x - b * y) + value(0) * self.pixels,
            y_shift: y - (b * x + a * y) + value(1) * self.pixels,
        }
    }

    /// A smooth random curve from -1 to 1 that changes direction at whole numbers.
    fn wave(&self, at: f64, stream: u64) -> f64 {
        let whole = at.floor();
        let knot = |number: f64| {
            let bits = hash64(self.seed ^ hash64(stream ^ ((number as u64) << 8)));
            (bits >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
        };
        let t = at - whole;
        let smooth = t * t * (3.0 - 2.0 * t);
        knot(whole) * (1.0 - smooth) + knot(whole + 1.0) * smooth
    }

    /// Size in which the scene is drawn for an image of the size `target`, and memory for it.
    pub(super) fn canvas(&mut self, target: Size) -> (Size, &mut Vec<u8>) {
        let size = self.canvas_size(target);
        let bytes = size.width as usize * size.height as usize * PIXEL_BYTES;
        self.canvas.resize(bytes, 0);
        (size, &mut self.canvas)
    }

    fn canvas_size(&self, target: Size) -> Size {
        let side = |pixels: u32| (f64::from(pixels) * self.enlargement).ceil() as u32;
        Size::new(side(target.width), side(target.height))
    }

    /// Draws the image of a frame from the canvas, in `BGRx`, interpolated.
    pub(super) fn draw(&self, frame: u64, target: Size, pixels: &mut [u8], stride: usize) {
        let Some(back) = self.motion(frame).inverse() else {
            return;
        };
        let canvas = self.canvas_size(target);
        let ratio = |a: u32, b: u32| f64::from(a) / f64::from(b);
        let to_source = [
            ratio(self.size.width, target.width),
            ratio(self.size.height, target.height),
        ];
        let to_canvas = [
            ratio(canvas.width, self.size.width),
            ratio(canvas.height, self.size.height),
        ];
        let last = [
            canvas.width.saturating_sub(2),
            canvas.height.saturating_sub(2),
        ];
        let row_bytes = canvas.width as usize * PIXEL_BYTES;
        let rows = pixels.chunks_mut(stride).take(target.height as usize);
        for (y, row) in rows.enumerate() {
            let row = &mut row[..target.width as usize * PIXEL_BYTES];
            for (x, pixel) in row.chunks_exact_mut(PIXEL_BYTES).enumerate() {
                let point = back.point([
                    (x as f64 + 0.5) * to_source[0],
                    (y as f64 + 0.5) * to_source[1],
                ]);
                let on_axis = |axis: usize| {
                    let most = f64::from(last[axis]) + 1.0;
                    let at = (point[axis] * to_canvas[axis] - 0.5).clamp(0.0, most);
                    let place = (at as usize).min(last[axis] as usize);
                    (place, (at - place as f64) as f32)
                };
                let ((column, right_part), (line, lower_part)) = (on_axis(0), on_axis(1));
                let start = line * row_bytes + column * PIXEL_BYTES;
                let upper = &self.canvas[start..start + 2 * PIXEL_BYTES];
                let lower = &self.canvas[start + row_bytes..start + row_bytes + 2 * PIXEL_BYTES];
                for (channel, value) in pixel.iter_mut().enumerate() {
                    let mix = |line: &[u8]| {
                        let (left, right) = (line[channel], line[channel + PIXEL_BYTES]);
                        f32::from(left) * (1.0 - right_part) + f32::from(right) * right_part
                    };
                    *value =
                        (mix(upper) * (1.0 - lower_part) + mix(lower) * lower_part + 0.5) as u8;
                }
            }
        }
    }

    /// Moves the boxes of the still scene to the image of a frame. The size of a box is that of the still scene's, scaled: the slight
    /// rotation is not in it.
    pub(super) fn move_truth(&self, frame: u64, truth: &mut Vec<GroundTruthBox>) {
        let motion = self.motion(frame);
        let (width, height) = (self.size.width as f32, self.size.height as f32);
        truth.retain_mut(|object| {
            let moved: Xyxy = motion.xyxy(&object.xyxy);
            object.xyxy = [
                moved[0].clamp(0.0, width),
                moved[1].clamp(0.0, height),
                moved[2].clamp(0.0, width),
                moved[3].clamp(0.0, height),
            ];
            object.visible *= area(&object.xyxy) / area(&moved).max(f32::MIN_POSITIVE);
            let [left, top, right, bottom] = object.xyxy;
            right - left >= MIN_SIDE && bottom - top >= MIN_SIDE
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shake(pixels: u32) -> Shake {
        Shake::new(Size::new(640, 360), 3, 30.0, pixels).expect("it shakes")
    }

    #[test]
    fn the_image_stays_inside_of_the_scene_and_moves() {
        assert!(Shake::new(Size::new(640, 360), 3, 30.0, 0).is_none());
        let shake = shake(20);
        let mut longest = 0.0_f64;
        for frame in 0..3000 {
            let motion = shake.motion(frame);
            let back = motion.inverse().expect("a scale above 0");
            for corner in [[0.0, 0.0], [640.0, 0.0], [0.0, 360.0], [640.0, 360.0]] {
                let [x, y] = back.point(corner);
                let is_inside = (0.0..=640.0).contains(&x) && (0.0..=360.0).contains(&y);
                assert!(is_inside, "frame {frame}: ({x}, {y})");
            }
            let (now, next) = (
                motion.point([320.0, 180.0]),
                shake.motion(frame + 1).point([320.0, 180.0]),
            );
            longest = longest.max((next[0] - now[0]).hypot(next[1] - now[1]));
            assert!((now[0] - 320.0).abs() <= 20.0 && (now[1] - 180.0).abs() <= 20.0);
        }
        assert!(
            (4.0..20.0).contains(&longest),
            "{longest} pixels in a frame"
        );
    }

    #[test]
    fn pixels_and_boxes_move_alike() {
        // The canvas is black, with a white square in the still scene.
        let mut shake = shake(15);
        let target = Size::new(320, 180);
        let square: Xyxy = [300.0, 160.0, 340.0, 200.0];
        let (canvas, pixels) = shake.canvas(target);
        let scale = [canvas.width as f32 / 640.0, canvas.height as f32 / 360.0];
        for (index, pixel) in pixels.chunks_exact_mut(PIXEL_BYTES).enumerate() {
            let (x, y) = (index as u32 % canvas.width, index as u32 / canvas.width);
            let [x, y] = [(x as f32 + 0.5) / scale[0], (y as f32 + 0.5) / scale[1]];
            let is_white =
                (square[0]..square[2]).contains(&x) && (square[1]..square[3]).contains(&y);
            pixel.fill(if is_white { 255 } else { 0 });
        }
        for frame in [0, 7, 100] {
            let mut truth = vec![GroundTruthBox {
                id: 1,
                label: "car",
                xyxy: square,
                visible: 1.0,
            }];
            shake.move_truth(frame, &mut truth);
            let mut image = vec![0; 320 * 180 * PIXEL_BYTES];
            shake.draw(frame, target, &mut image, 320 * PIXEL_BYTES);
            let (mut sum, mut count) = ([0.0_f32; 2], 0.0_f32);
            for (index, pixel) in image.chunks_exact(PIXEL_BYTES).enumerate() {
                if pixel[0] > 127 {
                    sum[0] += (index % 320) as f32 * 2.0 + 1.0;
                    sum[1] += (index / 320) as f32 * 2.0 + 1.0;
                    count += 1.0;
                }
            }
            let [left, top, right, bottom] = truth[0].xyxy;
            let (x, y) = (sum[0] / count, sum[1] / count);
            assert!(
                (x - (left + right) / 2.0).abs() < 0.7,
                "frame {frame}: {x} in {left}..{right}"
            );
            assert!(
                (y - (top + bottom) / 2.0).abs() < 0.7,
                "frame {frame}: {y} in {top}..{bottom}"
            );
            assert_eq!(truth[0].visible, 1.0);
        }
    }
}
