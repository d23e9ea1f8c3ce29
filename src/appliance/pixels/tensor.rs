// SPDX-License-Identifier: Apache-2.0
//! The input tensor: padding, plane order and normalization, written in one pass over the pixels.
//!
//! The image comes scaled to the letterbox's inner size. Only this module handles padding and the value range of the
//! network. Pure, except that it remembers the padding of each slot. Called by the detectors.

use jetwatch_types::{Image, Letterbox, PIXEL_BYTES, Size};

/// Planes of the tensor.
pub const CHANNELS: usize = 3;

/// How the pixels of an image become numbers of a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TensorFormat {
    /// Width and height in pixels.
    pub size: Size,
    /// Whether the planes are red, green, blue; otherwise blue, green, red.
    pub red_first: bool,
    /// Subtracted from each value (0 to 255), in the order of the planes. Not from bytes.
    pub mean: [f32; CHANNELS],
    /// Multiplied after that, in the order of the planes. Not with bytes.
    pub scale: [f32; CHANNELS],
    /// Value of the padding before mean and scale, 0 to 255.
    pub padding: u8,
}

/// Writes frames into the slots of one batch tensor, `[batch, 3, height, width]`, of 32-bit floats or of bytes.
///
/// The tensor must be the same memory in each call: existing padding is not written again.
#[derive(Debug)]
pub struct TensorWriter {
    size: Size,
    red_first: bool,
    /// `None` when values stay unchanged, 0 to 255, which saves the multiplication by one.
    normalize: Option<Normalize>,
    /// Padding of each plane, normalized.
    padding: [f32; CHANNELS],
    /// Padding of bytes.
    padding_byte: u8,
    /// Letterbox of the image last written to each slot.
    letterboxes: Vec<Option<Letterbox>>,
}

/// `y = (x - mean)·scale` for each plane.
#[derive(Debug, Clone, Copy)]
struct Normalize {
    mean: [f32; CHANNELS],
    scale: [f32; CHANNELS],
}

/// The part of a batch tensor for one image.
#[derive(Debug)]
pub enum Slot<'a> {
    /// 32-bit floats.
    F32(&'a mut [f32]),
    /// Bytes, which are neither shifted nor scaled.
    U8(&'a mut [u8]),
}

impl TensorWriter {
    /// A writer for batches of at most `slots` images.
    pub fn new(format: TensorFormat, slots: usize) -> Self {
        let TensorFormat { mean, scale, .. } = format;
        let as_is = mean == [0.0; CHANNELS] && scale == [1.0; CHANNELS];
        let value = f32::from(format.padding);
        Self {
            size: format.size,
            red_first: format.red_first,
            normalize: (!as_is).then_some(Normalize { mean, scale }),
            padding: std::array::from_fn(|channel| (value - mean[channel]) * scale[channel]),
            padding_byte: format.padding,
            letterboxes: vec![None; slots],
        }
    }

    /// Elements of one image in the tensor.
    pub fn slot_len(&self) -> usize {
        CHANNELS * self.plane_len()
    }

    /// Writes `image` into slot `index`; `slot` is that part of the tensor.
    ///
    /// # Panics
    /// `slot` does not have [`slot_len`](Self::slot_len) elements, there is no slot `index`, or the image does not have
    /// the letterbox's inner size.
    pub fn write(&mut self, index: usize, slot: Slot<'_>, image: &Image, letterbox: &Letterbox) {
        assert_eq!(image.size, letterbox.inner, "size of the image");
        assert_eq!(letterbox.input, self.size, "size of the input");
        let is_padded = self.letterboxes[index] == Some(*letterbox);
        match slot {
            Slot::F32(slot) => {
                let mut planes = self.planes(slot);
                if !is_padded {
                    pad(&mut planes, self.padding);
                }
                self.each_row(planes, image, letterbox, |row, pixels| {
                    self.write_row(row, pixels);
                });
            }
            Slot::U8(slot) => {
                let mut planes = self.planes(slot);
                if !is_padded {
                    pad(&mut planes, [self.padding_byte; CHANNELS]);
                }
                let bytes = |value: i32, _: usize| value as u8;
                self.each_row(planes, image, letterbox, |row, pixels| {
                    split(pixels, self.by_color(row).0, bytes);
                });
            }
        }
        self.letterboxes[index] = Some(*letterbox);
    }

    fn planes<'s, T>(&self, slot: &'s mut [T]) -> [&'s mut [T]; CHANNELS] {
        assert_eq!(slot.len(), self.slot_len(), "numbers in a slot");
        let (first, rest) = slot.split_at_mut(self.plane_len());
        let (second, third) = rest.split_at_mut(self.plane_len());
        [first, second, third]
    }

    /// Calls `write` with each row of the letterbox's inner part and its pixels.
    #[inline(always)]
    fn each_row<T>(
        &self,
        mut planes: [&mut [T]; CHANNELS],
        image: &Image,
        letterbox: &Letterbox,
        write: impl Fn([&mut [T]; CHANNELS], &[u8]),
    ) {
        let width = self.size.width as usize;
        let inner_width = letterbox.inner.width as usize;
        for y in 0..letterbox.inner.height {
            let start = (letterbox.top + y) as usize * width + letterbox.left as usize;
            let row = planes
                .each_mut()
                .map(|plane| &mut plane[start..start + inner_width]);
            write(row, image.row(y));
        }
    }

    fn plane_len(&self) -> usize {
        self.size.width as usize * self.size.height as usize
    }

    /// The planes in the order blue, green, red, and their indices among the planes.
    fn by_color<'p, T>(
        &self,
        [first, second, third]: [&'p mut [T]; CHANNELS],
    ) -> ([&'p mut [T]; CHANNELS], [usize; CHANNELS]) {
        match self.red_first {
            false => ([first, second, third], [0, 1, 2]),
            true => ([third, second, first], [2, 1, 0]),
        }
    }

    fn write_row(&self, planes: [&mut [f32]; CHANNELS], pixels: &[u8]) {
        // From here on by color; mean and scale are by plane.
        let (colors, [b, g, r]) = self.by_color(planes);
        match &self.normalize {
            None => split(pixels, colors, |value, _| value as f32),
            Some(Normalize { mean, scale }) => {
                let mean = [mean[b], mean[g], mean[r]];
                let scale = [scale[b], scale[g], scale[r]];
                split(pixels, colors, |value, color| {
                    (value as f32 - mean[color]) * scale[color]
                });
            }
        }
    }
}

fn pad<T: Copy>(planes: &mut [&mut [T]; CHANNELS], padding: [T; CHANNELS]) {
    for (plane, padding) in planes.iter_mut().zip(padding) {
        plane.fill(padding);
    }
}

/// Splits `BGRx` pixels into rows of blue, green and red, each value passed through `map` with the number of its color.
///
/// One 32-bit load per pixel and slices of equal length: the compiler emits vector instructions.
#[inline(always)]
fn split<T>(
    pixels: &[u8],
    [blue, green, red]: [&mut [T]; CHANNELS],
    map: impl Fn(i32, usize) -> T,
) {
    let (pixels, _) = pixels.as_chunks::<PIXEL_BYTES>();
    // Signed, because that conversion to float is one instruction on all targets.
    let value = |pixel: i32, shift: u32| (pixel >> shift) & 0xff;
    for (((pixel, blue), green), red) in pixels.iter().zip(blue).zip(green).zip(red) {
        let pixel = i32::from_le_bytes(*pixel);
        *blue = map(value(pixel, 0), 0);
        *green = map(value(pixel, 8), 1);
        *red = map(value(pixel, 16), 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_types::Placement;

    fn format(size: Size, red_first: bool, mean: [f32; 3], scale: [f32; 3]) -> TensorFormat {
        TensorFormat {
            size,
            red_first,
            mean,
            scale,
            padding: 114,
        }
    }

    /// An image whose every byte differs from its neighbors, padding bytes of the rows included.
    fn test_image(size: Size, stride_extra: usize, seed: u32) -> Image {
        let stride = size.width as usize * PIXEL_BYTES + stride_extra;
        let bytes: Vec<u8> = (0..stride * size.height as usize)
            .map(|i| ((i as u32).wrapping_add(seed).wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        Image::new(size, stride, Box::new(bytes)).expect("the memory is large enough")
    }

    /// What the tensor should be, number by number.
    fn reference(format: &TensorFormat, image: &Image, letterbox: &Letterbox) -> Vec<f32> {
        let mut tensor = Vec::new();
        for channel in 0..CHANNELS {
            let byte = if format.red_first {
                2 - channel
            } else {
                channel
            };
            for y in 0..format.size.height {
                for x in 0..format.size.width {
                    let inside = (letterbox.left..letterbox.left + letterbox.inner.width)
                        .contains(&x)
                        && (letterbox.top..letterbox.top + letterbox.inner.height).contains(&y);
                    let value = if inside {
                        image.row(y - letterbox.top)
                            [(x - letterbox.left) as usize * PIXEL_BYTES + byte]
                    } else {
                        format.padding
                    };
                    tensor.push((f32::from(value) - format.mean[channel]) * format.scale[channel]);
                }
            }
        }
        tensor
    }

    #[test]
    fn tensor_matches_naive_reference() {
        let normalizations = [
            ([0.0; 3], [1.0; 3]),
            ([123.7, 116.3, 103.5], [0.017, 0.018, 0.016]),
        ];
        let sources = [(480, 360), (7, 13), (1, 1), (333, 31), (64, 96), (97, 1)];
        for red_first in [false, true] {
            for (mean, scale) in normalizations {
                for placement in [Placement::TopLeft, Placement::Center, Placement::Stretch] {
                    for (seed, (w, h)) in sources.into_iter().enumerate() {
                        let format = format(Size::new(96, 64), red_first, mean, scale);
                        let letterbox = Letterbox::new(Size::new(w, h), format.size, placement);
                        let mut writer = TensorWriter::new(format, 1);
                        let mut tensor = vec![f32::NAN; writer.slot_len()];
                        // The second image goes over the first without new padding.
                        for seed in [seed as u32, seed as u32 + 77] {
                            let image =
                                test_image(letterbox.inner, (seed % 3) as usize * 4 + 3, seed);
                            writer.write(0, Slot::F32(&mut tensor), &image, &letterbox);
                            let same = tensor == reference(&format, &image, &letterbox);
                            assert!(same, "{red_first} {mean:?} {placement:?} {w}×{h}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn byte_tensor_equals_pixels() {
        for red_first in [false, true] {
            let format = format(Size::new(96, 64), red_first, [0.0; 3], [1.0; 3]);
            let mut writer = TensorWriter::new(format, 1);
            let mut bytes = vec![7; writer.slot_len()];
            for (seed, (w, h)) in [(480, 360), (97, 1), (64, 96)].into_iter().enumerate() {
                let letterbox = Letterbox::new(Size::new(w, h), format.size, Placement::Center);
                let image = test_image(letterbox.inner, 3, seed as u32);
                writer.write(0, Slot::U8(&mut bytes), &image, &letterbox);
                let floats: Vec<f32> = bytes.iter().map(|byte| f32::from(*byte)).collect();
                let same = floats == reference(&format, &image, &letterbox);
                assert!(same, "{red_first} {w}×{h}");
            }
        }
    }

    #[test]
    fn padding_is_rewritten_when_the_letterbox_changes_and_per_slot() {
        let format = format(Size::new(64, 64), false, [0.0; 3], [1.0; 3]);
        let wide = Letterbox::new(Size::new(640, 360), format.size, Placement::TopLeft);
        let tall = Letterbox::new(Size::new(360, 640), format.size, Placement::TopLeft);
        let mut writer = TensorWriter::new(format, 2);
        let mut tensor = vec![f32::NAN; 2 * writer.slot_len()];
        for order in [[wide, tall], [tall, wide], [tall, tall]] {
            for (index, (slot, letterbox)) in
                tensor.chunks_exact_mut(3 * 64 * 64).zip(order).enumerate()
            {
                let image = test_image(letterbox.inner, 0, index as u32);
                writer.write(index, Slot::F32(slot), &image, &letterbox);
                assert!(
                    slot == reference(&format, &image, &letterbox),
                    "slot {index} of {order:?}"
                );
            }
        }
    }
}
