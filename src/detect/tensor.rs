//! The input tensor: padding, plane order and normalization, written in one pass over the pixels.
//!
//! The picture comes scaled to the letterbox's inner size; this is the only place that knows of padding and of the
//! network's value range. Pure but for the memory of which slot was padded how. Called by the detectors.

use super::DetectError;
use super::model::{ColorOrder, InputSpec};
use crate::types::{Frame, Letterbox, PIXEL_BYTES, Picture, Placement, Size};

/// Planes of the tensor.
pub const CHANNELS: usize = 3;

/// Writes frames into the slots of one batch tensor, `[batch, 3, height, width]`, 32-bit floats.
///
/// The tensor must be the same memory at every call: padding that is already there is not written again.
#[derive(Debug)]
pub struct TensorWriter {
    size: Size,
    color: ColorOrder,
    /// `None` when values stay as they are, 0 to 255, so that no time is spent on multiplying by one.
    normalize: Option<Normalize>,
    /// Padding of each plane, normalized.
    padding: [f32; CHANNELS],
    /// How the pictures lie that were last written to each slot.
    letterboxes: Vec<Option<Letterbox>>,
}

/// `y = (x - mean)·scale` for each plane.
#[derive(Debug, Clone, Copy)]
struct Normalize {
    mean: [f32; CHANNELS],
    scale: [f32; CHANNELS],
}

impl TensorWriter {
    /// A writer for batches of at most `slots` pictures as `input` wants them.
    #[must_use]
    pub fn new(input: &InputSpec, slots: usize) -> Self {
        let (mean, scale) = (input.mean, input.scale);
        let as_is = mean == [0.0; CHANNELS] && scale == [1.0; CHANNELS];
        let value = f32::from(input.padding);
        Self {
            size: input.size,
            color: input.color,
            normalize: (!as_is).then_some(Normalize { mean, scale }),
            padding: std::array::from_fn(|channel| (value - mean[channel]) * scale[channel]),
            letterboxes: vec![None; slots],
        }
    }

    /// Numbers that one picture takes in the tensor.
    #[must_use]
    pub fn slot_len(&self) -> usize {
        CHANNELS * self.plane_len()
    }

    /// Writes `picture` into slot `index`, which is the part `slot` of the tensor.
    ///
    /// Panics when `slot` does not have [`slot_len`](Self::slot_len) numbers, when there is no slot `index`, or when
    /// the picture does not have the letterbox's inner size: see [`fit`] for that check.
    pub fn write(
        &mut self,
        index: usize,
        slot: &mut [f32],
        picture: &Picture,
        letterbox: &Letterbox,
    ) {
        assert_eq!(slot.len(), self.slot_len(), "numbers in a slot");
        assert_eq!(picture.size, letterbox.inner, "size of the picture");
        assert_eq!(letterbox.input, self.size, "size of the input");
        let plane_len = self.plane_len();
        let (first, rest) = slot.split_at_mut(plane_len);
        let (second, third) = rest.split_at_mut(plane_len);
        let mut planes = [first, second, third];
        if self.letterboxes[index] != Some(*letterbox) {
            for (plane, padding) in planes.iter_mut().zip(self.padding) {
                plane.fill(padding);
            }
            self.letterboxes[index] = Some(*letterbox);
        }
        let width = self.size.width as usize;
        let inner_width = letterbox.inner.width as usize;
        for y in 0..letterbox.inner.height {
            let start = (letterbox.top + y) as usize * width + letterbox.left as usize;
            let row = planes
                .each_mut()
                .map(|plane| &mut plane[start..start + inner_width]);
            self.write_row(row, picture.row(y));
        }
    }

    fn plane_len(&self) -> usize {
        self.size.width as usize * self.size.height as usize
    }

    fn write_row(&self, planes: [&mut [f32]; CHANNELS], pixels: &[u8]) {
        let [first, second, third] = planes;
        // From here on by color; mean and scale go by plane.
        let (blue, red, [b, g, r]) = match self.color {
            ColorOrder::Bgr => (first, third, [0, 1, 2]),
            ColorOrder::Rgb => (third, first, [2, 1, 0]),
        };
        match &self.normalize {
            None => split(pixels, [blue, second, red], |value, _| value),
            Some(Normalize { mean, scale }) => {
                let mean = [mean[b], mean[g], mean[r]];
                let scale = [scale[b], scale[g], scale[r]];
                split(pixels, [blue, second, red], |value, color| {
                    (value - mean[color]) * scale[color]
                });
            }
        }
    }
}

/// Splits `BGRx` pixels into rows of blue, green and red, each value passed through `map` with the number of its color.
///
/// One 32-bit load per pixel and equally long slices: the compiler makes vector instructions of it.
#[inline(always)]
fn split(
    pixels: &[u8],
    [blue, green, red]: [&mut [f32]; CHANNELS],
    map: impl Fn(f32, usize) -> f32,
) {
    let (pixels, _) = pixels.as_chunks::<PIXEL_BYTES>();
    // Signed, since that conversion to float is one instruction everywhere.
    let value = |pixel: i32, shift: u32| ((pixel >> shift) & 0xff) as f32;
    for (((pixel, blue), green), red) in pixels.iter().zip(blue).zip(green).zip(red) {
        let pixel = i32::from_le_bytes(*pixel);
        *blue = map(value(pixel, 0), 0);
        *green = map(value(pixel, 8), 1);
        *red = map(value(pixel, 16), 2);
    }
}

/// How `frame` lies in the input, or an error when its picture was not scaled for that.
pub fn fit(frame: &Frame, input: Size, placement: Placement) -> Result<Letterbox, DetectError> {
    let letterbox = Letterbox::new(frame.meta.source_size, input, placement);
    if frame.picture.size == letterbox.inner {
        return Ok(letterbox);
    }
    Err(DetectError::PictureSize {
        source_id: frame.meta.source,
        seq: frame.meta.seq,
        found: frame.picture.size,
        expected: letterbox.inner,
        source_size: frame.meta.source_size,
        input,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(size: Size, color: ColorOrder, mean: [f32; 3], scale: [f32; 3]) -> InputSpec {
        InputSpec {
            name: "images".to_owned(),
            sizes_name: None,
            scales_name: None,
            size,
            color,
            mean,
            scale,
            placement: Placement::TopLeft,
            padding: 114,
        }
    }

    /// A picture whose every byte differs from its neighbors, padding bytes of the rows included.
    fn picture(size: Size, stride_extra: usize, seed: u32) -> Picture {
        let stride = size.width as usize * PIXEL_BYTES + stride_extra;
        let bytes: Vec<u8> = (0..stride * size.height as usize)
            .map(|i| ((i as u32).wrapping_add(seed).wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        Picture::new(size, stride, Box::new(bytes)).expect("the memory is large enough")
    }

    /// What the tensor should be, number by number.
    fn reference(spec: &InputSpec, picture: &Picture, letterbox: &Letterbox) -> Vec<f32> {
        let mut tensor = Vec::new();
        for channel in 0..CHANNELS {
            let byte = if spec.color == ColorOrder::Bgr {
                channel
            } else {
                2 - channel
            };
            for y in 0..spec.size.height {
                for x in 0..spec.size.width {
                    let inside = (letterbox.left..letterbox.left + letterbox.inner.width)
                        .contains(&x)
                        && (letterbox.top..letterbox.top + letterbox.inner.height).contains(&y);
                    let value = if inside {
                        picture.row(y - letterbox.top)
                            [(x - letterbox.left) as usize * PIXEL_BYTES + byte]
                    } else {
                        spec.padding
                    };
                    tensor.push((f32::from(value) - spec.mean[channel]) * spec.scale[channel]);
                }
            }
        }
        tensor
    }

    #[test]
    fn the_tensor_is_that_of_a_naive_reference() {
        let normalizations = [
            ([0.0; 3], [1.0; 3]),
            ([123.7, 116.3, 103.5], [0.017, 0.018, 0.016]),
        ];
        let sources = [(480, 360), (7, 13), (1, 1), (333, 31), (64, 96), (97, 1)];
        for color in [ColorOrder::Bgr, ColorOrder::Rgb] {
            for (mean, scale) in normalizations {
                for placement in [Placement::TopLeft, Placement::Center, Placement::Stretch] {
                    for (seed, (w, h)) in sources.into_iter().enumerate() {
                        let spec = spec(Size::new(96, 64), color, mean, scale);
                        let letterbox = Letterbox::new(Size::new(w, h), spec.size, placement);
                        let mut writer = TensorWriter::new(&spec, 1);
                        let mut tensor = vec![f32::NAN; writer.slot_len()];
                        // The second picture goes over the first without new padding.
                        for seed in [seed as u32, seed as u32 + 77] {
                            let picture =
                                picture(letterbox.inner, (seed % 3) as usize * 4 + 3, seed);
                            writer.write(0, &mut tensor, &picture, &letterbox);
                            let same = tensor == reference(&spec, &picture, &letterbox);
                            assert!(same, "{color:?} {mean:?} {placement:?} {w}×{h}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn padding_is_written_anew_when_the_letterbox_changes_and_per_slot() {
        let spec = spec(Size::new(64, 64), ColorOrder::Bgr, [0.0; 3], [1.0; 3]);
        let wide = Letterbox::new(Size::new(640, 360), spec.size, Placement::TopLeft);
        let tall = Letterbox::new(Size::new(360, 640), spec.size, Placement::TopLeft);
        let mut writer = TensorWriter::new(&spec, 2);
        let mut tensor = vec![f32::NAN; 2 * writer.slot_len()];
        for order in [[wide, tall], [tall, wide], [tall, tall]] {
            for (index, (slot, letterbox)) in
                tensor.chunks_exact_mut(3 * 64 * 64).zip(order).enumerate()
            {
                let picture = picture(letterbox.inner, 0, index as u32);
                writer.write(index, slot, &picture, &letterbox);
                assert!(
                    slot == reference(&spec, &picture, &letterbox),
                    "slot {index} of {order:?}"
                );
            }
        }
    }
}
