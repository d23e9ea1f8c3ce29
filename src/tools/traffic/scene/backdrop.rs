// SPDX-License-Identifier: Apache-2.0
//! The static part of the image, drawn once per target size: the backdrop, the props as sprites, and the sensor noise.

use super::camera::Pose;
use super::ground_shader::GroundShader;
use super::projector::{Canvas, Projector};
use super::prop::Prop;
use super::raster::{Raster, Scratch};
use super::rng::Rng;
use super::visibility::VisibilityBuffer;
use jetwatch_types::{PIXEL_BYTES, Size, hash64};

/// Up to this many pixels, each pixel is the mean of four samples.
const SMOOTH_PIXELS: usize = 1_000_000;
/// Number of offsets into the noise tile; each row takes one of them.
const NOISE_STARTS: usize = 8192;

/// A prop as pixels with premultiplied alpha.
#[derive(Debug)]
struct Sprite {
    left: usize,
    top: usize,
    size: Size,
    pixels: Vec<u8>,
}

/// Backdrop, sprites and noise for one target size.
#[derive(Debug)]
pub(super) struct Backdrop {
    pub(super) size: Size,
    /// Rows without gaps.
    pixels: Vec<u8>,
    /// One per prop, in the order of the props; `None` outside the image.
    sprites: Vec<Option<Sprite>>,
    /// Noise to add to and to subtract from the bytes; empty without noise.
    more: Vec<u8>,
    less: Vec<u8>,
}

impl Backdrop {
    /// Draws the static background at `size`.
    pub(super) fn new(
        shader: &GroundShader<'_>,
        props: &[Prop],
        size: Size,
        scratch: &mut Scratch,
    ) -> Self {
        let aspect = shader.camera.aspect;
        let (columns, rows) = (size.width as usize, size.height as usize);
        let mut pixels = vec![0; columns * rows * PIXEL_BYTES];
        let points: &[[f32; 2]] = if columns * rows <= SMOOTH_PIXELS {
            &[[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]]
        } else {
            &[[0.5, 0.5]]
        };
        for (index, pixel) in pixels.chunks_exact_mut(PIXEL_BYTES).enumerate() {
            let (x, y) = ((index % columns) as f32, (index / columns) as f32);
            let mut sum = [0_u32; 3];
            for [dx, dy] in points {
                let color =
                    shader.color([(x + dx) / columns as f32 * aspect, (y + dy) / rows as f32]);
                for (sum, channel) in sum.iter_mut().zip(color) {
                    *sum += u32::from(channel);
                }
            }
            let count = points.len() as u32;
            // The mean of bytes fits a byte.
            let [red, green, blue] = sum.map(|sum| ((sum + count / 2) / count) as u8);
            pixel.copy_from_slice(&[blue, green, red, 255]);
        }
        let mut raster = Raster::new(&mut pixels, columns * PIXEL_BYTES, size, aspect, scratch);
        for prop in props {
            shade_ground(shader, prop, &mut raster);
        }
        let sprites = props
            .iter()
            .map(|prop| Sprite::new(shader, prop, size, scratch))
            .collect();
        let (more, less) = noise_tile(shader.appearance.noise, u64::from(shader.salt), columns);
        Self {
            size,
            pixels,
            sprites,
            more,
            less,
        }
    }

    /// Copies the backdrop into rows of `stride` bytes.
    pub(super) fn copy_to(&self, target: &mut [u8], stride: usize) {
        let row = self.size.width as usize * PIXEL_BYTES;
        for (to, from) in target.chunks_mut(stride).zip(self.pixels.chunks_exact(row)) {
            to[..row].copy_from_slice(from);
        }
    }

    /// Blends the sprite of this prop into the image.
    pub(super) fn blend_prop(&self, index: usize, target: &mut [u8], stride: usize) {
        let Some(Some(sprite)) = self.sprites.get(index) else {
            return;
        };
        let row = sprite.size.width as usize * PIXEL_BYTES;
        for (y, from) in sprite.pixels.chunks_exact(row).enumerate() {
            let start = (sprite.top + y) * stride + sprite.left * PIXEL_BYTES;
            for (to, from) in target[start..start + row]
                .chunks_exact_mut(PIXEL_BYTES)
                .zip(from.chunks_exact(PIXEL_BYTES))
            {
                match from[3] {
                    0 => {}
                    255 => to.copy_from_slice(from),
                    alpha => {
                        for (to, from) in to.iter_mut().zip(from) {
                            let through = (u32::from(*to) * u32::from(255 - alpha) + 127) / 255;
                            *to = from.saturating_add(through as u8);
                        }
                    }
                }
            }
        }
    }

    pub(super) fn add_noise(&self, frame: u64, target: &mut [u8], stride: usize) {
        if self.more.is_empty() {
            return;
        }
        let row = self.size.width as usize * PIXEL_BYTES;
        let of_frame = hash64(frame);
        for (y, to) in target
            .chunks_mut(stride)
            .take(self.size.height as usize)
            .enumerate()
        {
            let start = (hash64(of_frame ^ y as u64) as usize % NOISE_STARTS) * PIXEL_BYTES;
            let more = &self.more[start..start + row];
            let less = &self.less[start..start + row];
            for ((byte, more), less) in to[..row].iter_mut().zip(more).zip(less) {
                *byte = byte.saturating_add(*more).saturating_sub(*less);
            }
        }
    }
}

impl Sprite {
    fn new(
        shader: &GroundShader<'_>,
        prop: &Prop,
        size: Size,
        scratch: &mut Scratch,
    ) -> Option<Self> {
        let mut visibility = VisibilityBuffer::new(size.width, size.height);
        visibility.begin();
        draw_prop(shader, prop, &mut visibility);
        let entry = visibility.finish()[0];
        let extent = entry.inside;
        let aspect = shader.camera.aspect;
        let pixel =
            |value: f32, unit: f32, end: u32| (value / unit * end as f32).clamp(0.0, end as f32);
        let (left, right) = (
            pixel(extent[0], aspect, size.width).floor(),
            pixel(extent[2], aspect, size.width).ceil(),
        );
        let (top, bottom) = (
            pixel(extent[1], 1.0, size.height).floor(),
            pixel(extent[3], 1.0, size.height).ceil(),
        );
        if entry.is_empty() || left >= right || top >= bottom {
            return None;
        }
        // All four are inside the target.
        let (left, top) = (left as u32, top as u32);
        let sprite_size = Size::new(right as u32 - left, bottom as u32 - top);
        let mut pixels =
            vec![0; sprite_size.width as usize * sprite_size.height as usize * PIXEL_BYTES];
        let mut raster =
            Raster::region(size, aspect, [left, top], &mut pixels, sprite_size, scratch);
        draw_prop(shader, prop, &mut raster);
        Some(Self {
            left: left as usize,
            top: top as usize,
            size: sprite_size,
            pixels,
        })
    }
}

/// Draws a prop on any canvas.
pub(super) fn draw_prop<C: Canvas>(shader: &GroundShader<'_>, prop: &Prop, canvas: &mut C) {
    prop.draw(&mut Projector {
        canvas,
        camera: shader.camera,
        appearance: shader.appearance,
        pose: prop.pose,
    });
}

fn shade_ground<C: Canvas>(shader: &GroundShader<'_>, prop: &Prop, canvas: &mut C) {
    let appearance = shader.appearance;
    let radius = prop.shade_radius_m();
    // The crown is high above the ground: its shadow is offset away from the sun.
    let lift = if radius > 1.0 { 3.4 } else { 0.0 };
    let far = (lift / appearance.sun[1]).min(2.0 * lift)
        * if appearance.sun_light[1] > 0.0 {
            1.0
        } else {
            0.0
        };
    let at = [
        prop.pose.at[0] - appearance.sun[0] * far,
        prop.pose.at[1] - appearance.sun[2] * far,
    ];
    let mut projector = Projector {
        canvas,
        camera: shader.camera,
        appearance,
        pose: Pose {
            at,
            forward: [1.0, 0.0],
        },
    };
    for (grow, opacity) in [(1.25, 0.12), (1.0, 0.20), (0.7, 0.12)] {
        let ring: [[f32; 3]; 16] = std::array::from_fn(|i| {
            let turn = i as f32 / 16.0;
            [
                radius * grow * super::rng::cos_approx(turn),
                0.0,
                radius * grow * super::rng::sin_approx(turn),
            ]
        });
        projector.blend_haze(&ring, [0.02, 0.02, 0.03], opacity);
    }
}

fn noise_tile(strength: u8, seed: u64, columns: usize) -> (Vec<u8>, Vec<u8>) {
    if strength == 0 {
        return (Vec::new(), Vec::new());
    }
    let mut rng = Rng::new(&[seed, 0x6e6f_6973]);
    let length = (columns + NOISE_STARTS) * PIXEL_BYTES;
    let (mut more, mut less) = (vec![0; length], vec![0; length]);
    for (more, less) in more
        .chunks_exact_mut(PIXEL_BYTES)
        .zip(less.chunks_exact_mut(PIXEL_BYTES))
    {
        // Mostly luminance noise and a little color noise. The mean of two draws has a triangular distribution.
        let luma = rng.unit() + rng.unit() - 1.0;
        for (more, less) in more.iter_mut().zip(less).take(3) {
            let level = (luma * 0.8 + (rng.unit() - 0.5) * 0.4) * f32::from(strength);
            // The casts saturate, so that one of the two is 0.
            *more = (level + 0.5) as u8;
            *less = (0.5 - level) as u8;
        }
    }
    (more, less)
}
