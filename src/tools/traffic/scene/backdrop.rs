//! Everything that stands still, drawn once for a target size: the backdrop, the props as sprites, and the sensor's noise.

use super::camera::Pose;
use super::ground_shader::GroundShader;
use super::projector::{Canvas, Projector};
use super::prop::Prop;
use super::raster::{Raster, Scratch};
use super::rng::Rng;
use super::visibility::VisibilityBuffer;
use jetwatch_types::{PIXEL_BYTES, Size, hash64};

/// Up to this many pixels, each is the mean of four points.
const SMOOTH_PIXELS: usize = 1_000_000;
/// Noise begins at one of so many places of its tile, row by row.
const NOISE_STARTS: usize = 8192;

/// A prop as pixels with alpha, premultiplied.
#[derive(Debug)]
struct Sprite {
    left: usize,
    top: usize,
    size: Size,
    pixels: Vec<u8>,
}

/// What was drawn for one target size.
#[derive(Debug)]
pub(super) struct Backdrop {
    pub(super) size: Size,
    /// Rows without gaps.
    pixels: Vec<u8>,
    /// One for each prop, in their order; `None` for one outside the picture.
    sprites: Vec<Option<Sprite>>,
    /// What noise adds to and takes from bytes; empty without noise.
    more: Vec<u8>,
    less: Vec<u8>,
}

impl Backdrop {
    /// Draws the still world at `size`.
    pub(super) fn new(
        surface: &GroundShader<'_>,
        props: &[Prop],
        size: Size,
        scratch: &mut Scratch,
    ) -> Self {
        let aspect = surface.camera.aspect;
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
                    surface.color([(x + dx) / columns as f32 * aspect, (y + dy) / rows as f32]);
                for (sum, channel) in sum.iter_mut().zip(color) {
                    *sum += u32::from(channel);
                }
            }
            let count = points.len() as u32;
            // A mean of bytes is a byte.
            let [red, green, blue] = sum.map(|sum| ((sum + count / 2) / count) as u8);
            pixel.copy_from_slice(&[blue, green, red, 255]);
        }
        let mut raster = Raster::new(&mut pixels, columns * PIXEL_BYTES, size, aspect, scratch);
        for prop in props {
            shade_ground(surface, prop, &mut raster);
        }
        let sprites = props
            .iter()
            .map(|prop| Sprite::new(surface, prop, size, scratch))
            .collect();
        let (more, less) = noise_tile(surface.appearance.noise, u64::from(surface.salt), columns);
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

    /// Lays the sprite of this prop over the picture.
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

    /// Adds the noise of this frame.
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
        surface: &GroundShader<'_>,
        prop: &Prop,
        size: Size,
        scratch: &mut Scratch,
    ) -> Option<Self> {
        let mut census = VisibilityBuffer::new(size.width, size.height);
        census.begin();
        draw_prop(surface, prop, &mut census);
        let entry = census.finish()[0];
        let extent = entry.inside;
        let aspect = surface.camera.aspect;
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
        // All four lie inside the target.
        let (left, top) = (left as u32, top as u32);
        let sprite_size = Size::new(right as u32 - left, bottom as u32 - top);
        let mut pixels =
            vec![0; sprite_size.width as usize * sprite_size.height as usize * PIXEL_BYTES];
        let mut raster =
            Raster::region(size, aspect, [left, top], &mut pixels, sprite_size, scratch);
        draw_prop(surface, prop, &mut raster);
        Some(Self {
            left: left as usize,
            top: top as usize,
            size: sprite_size,
            pixels,
        })
    }
}

/// Draws a prop on any canvas.
pub(super) fn draw_prop<C: Canvas>(surface: &GroundShader<'_>, prop: &Prop, canvas: &mut C) {
    prop.draw(&mut Projector {
        canvas,
        camera: surface.camera,
        appearance: surface.appearance,
        pose: prop.pose,
    });
}

fn shade_ground<C: Canvas>(surface: &GroundShader<'_>, prop: &Prop, canvas: &mut C) {
    let look = surface.appearance;
    let radius = prop.shade_radius_m();
    // Crowns stand high: their shadow lies away from the sun.
    let lift = if radius > 1.0 { 3.4 } else { 0.0 };
    let far =
        (lift / look.sun[1]).min(2.0 * lift) * if look.sun_light[1] > 0.0 { 1.0 } else { 0.0 };
    let at = [
        prop.pose.at[0] - look.sun[0] * far,
        prop.pose.at[1] - look.sun[2] * far,
    ];
    let mut pen = Projector {
        canvas,
        camera: surface.camera,
        appearance: look,
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
        pen.blend_haze(&ring, [0.02, 0.02, 0.03], opacity);
    }
}

fn noise_tile(strength: u8, seed: u64, columns: usize) -> (Vec<u8>, Vec<u8>) {
    if strength == 0 {
        return (Vec::new(), Vec::new());
    }
    let mut dice = Rng::new(&[seed, 0x6e6f_6973]);
    let length = (columns + NOISE_STARTS) * PIXEL_BYTES;
    let (mut more, mut less) = (vec![0; length], vec![0; length]);
    for (more, less) in more
        .chunks_exact_mut(PIXEL_BYTES)
        .zip(less.chunks_exact_mut(PIXEL_BYTES))
    {
        // Mostly brightness, a little color; the mean of two draws is rarer at its ends, as a sensor's noise is.
        let luma = dice.unit() + dice.unit() - 1.0;
        for (more, less) in more.iter_mut().zip(less).take(3) {
            let level = (luma * 0.8 + (dice.unit() - 0.5) * 0.4) * f32::from(strength);
            // The casts saturate: one of the two is zero.
            *more = (level + 0.5) as u8;
            *less = (0.5 - level) as u8;
        }
    }
    (more, less)
}
