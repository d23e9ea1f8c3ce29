// SPDX-License-Identifier: Apache-2.0
//! For tests: a static scene with detail everywhere, seen by a moving camera.

use jetwatch_types::{
    Frame, Image, PIXEL_BYTES, PixelPool, Similarity, Size, SplitMix64, Xyxy, hash64,
};

use super::{GrayImage, GrayReducer};

/// Brightness of the scene at a point, 0 to 255: smooth random values with detail of 6 to 20 units.
pub(crate) fn texture([x, y]: [f32; 2]) -> f32 {
    let fine = lattice(x / 6.0, y / 6.0, 1);
    let coarse = lattice(x / 20.0, y / 20.0, 2);
    (fine * 0.6 + coarse * 0.4) * 255.0
}

/// Random values at whole numbers, 0 to 1, interpolated.
fn lattice(x: f32, y: f32, salt: u64) -> f32 {
    let (left, top) = (x.floor(), y.floor());
    let smooth = |t: f32| t * t * (3.0 - 2.0 * t);
    let (fx, fy) = (smooth(x - left), smooth(y - top));
    let value = |dx: i64, dy: i64| {
        let (column, row) = (left as i64 + dx, top as i64 + dy);
        let place =
            (column as u64).wrapping_mul(0x1_0001) ^ (row as u64).wrapping_mul(0x9_0000_0007);
        (hash64(place ^ (salt << 40)) >> 40) as f32 / (1 << 24) as f32
    };
    let upper = value(0, 0) * (1.0 - fx) + value(1, 0) * fx;
    let lower = value(0, 1) * (1.0 - fx) + value(1, 1) * fx;
    upper * (1.0 - fy) + lower * fy
}

/// What a camera sees. Coordinates are pixels of its image, which is also the source.
pub(crate) struct View {
    pub(crate) size: Size,
    /// Where points of the scene are in the image.
    pub(crate) motion: Similarity,
    /// Boxes of objects in the image, with their shift against the scene: their texture moves on its own.
    pub(crate) objects: Vec<(Xyxy, [f64; 2])>,
    /// Largest noise of a pixel, as brightness, and its seed.
    pub(crate) noise: (f32, u64),
    /// Gain and offset of the brightness.
    pub(crate) exposure: (f32, f32),
    /// Share of the width on each side that is a black bar.
    pub(crate) bars: f32,
}

impl View {
    /// The scene through a motion, without noise and objects.
    pub(crate) fn of(motion: Similarity) -> Self {
        Self {
            size: Size::new(320, 180),
            motion,
            objects: Vec::new(),
            noise: (0.0, 0),
            exposure: (0.8, 20.0),
            bars: 0.0,
        }
    }

    /// It as a gray image.
    pub(crate) fn gray(&self) -> GrayImage {
        GrayReducer::default()
            .reduce(&self.frame())
            .expect("large enough")
    }

    /// It as a frame.
    pub(crate) fn frame(&self) -> Frame {
        let mut frame = Frame::black(0, 0, self.size);
        let stride = self.size.width as usize * PIXEL_BYTES;
        let mut pixels = PixelPool::default().acquire(stride * self.size.height as usize);
        let back = self.motion.inverse().expect("a motion has an inverse");
        let mut random = SplitMix64::new(self.noise.1);
        let bar = self.size.width as f32 * self.bars;
        for (y, row) in pixels.as_mut().chunks_exact_mut(stride).enumerate() {
            for (x, pixel) in row.chunks_exact_mut(PIXEL_BYTES).enumerate() {
                let at = [x as f64 + 0.5, y as f64 + 0.5];
                let noise =
                    ((random.next_u64() >> 40) as f32 / (1 << 23) as f32 - 1.0) * self.noise.0;
                let is_bar =
                    at[0] < f64::from(bar) || at[0] > f64::from(self.size.width as f32 - bar);
                let value = match is_bar {
                    true => 16.0,
                    false => self.brightness(&back, at) * self.exposure.0 + self.exposure.1 + noise,
                };
                pixel[..3].fill(value.round().clamp(0.0, 255.0) as u8);
            }
        }
        frame.image = Image::new(self.size, stride, Box::new(pixels)).expect("whole rows");
        frame
    }

    fn brightness(&self, back: &Similarity, at: [f64; 2]) -> f32 {
        let object = self.objects.iter().find(|(xyxy, _)| {
            let [left, top, right, bottom] = xyxy.map(f64::from);
            (left..right).contains(&at[0]) && (top..bottom).contains(&at[1])
        });
        let point = match object {
            // Far from the scene: other texture.
            Some((_, [dx, dy])) => [at[0] - dx + 5000.0, at[1] - dy + 5000.0],
            None => back.point(at),
        };
        texture(point.map(|value| value as f32))
    }
}
