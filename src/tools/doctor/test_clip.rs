//! A short generated H.264 video, and the images that every decoder must output for it, bit for bit.
//!
//! All macroblocks are `I_PCM` (ITU-T H.264, 7.3.5), which contain their samples uncompressed, so that no encoder is
//! needed and there is only one correct result. Pure; `video_selftest` decodes it.

use jetwatch_types::Size;

/// Width and height of a macroblock, in samples.
const BLOCK: u32 = 16;

/// A video of independently coded images.
pub(super) struct TestClip {
    /// Width and height, multiples of 16.
    pub(super) size: Size,
    /// One coded image each, with parameter sets and start codes (`byte-stream`, alignment `au`).
    pub(super) access_units: Vec<Vec<u8>>,
    /// The planes Y, U and V of each image, one after another, without padding.
    pub(super) images: Vec<Vec<u8>>,
}

impl TestClip {
    /// `count` images of `size`, whose sides are multiples of 16.
    #[must_use]
    pub(super) fn new(size: Size, count: usize) -> Self {
        let images: Vec<Vec<u8>> = (0..count).map(|index| draw(size, index)).collect();
        let units = images.iter().enumerate();
        Self {
            size,
            access_units: units
                .map(|(index, image)| access_unit(size, index, image))
                .collect(),
            images,
        }
    }
}

/// Smooth gradients that differ from image to image; all samples are within 16 to 235.
pub(super) fn draw(size: Size, index: usize) -> Vec<u8> {
    let (width, height) = (size.width as usize, size.height as usize);
    let shade = |x: usize, width: usize| 16 + (x * 219 / width.max(1)) as u8;
    let mut planes = Vec::with_capacity(width * height * 3 / 2);
    for y in 0..height {
        planes.extend((0..width).map(|x| shade((x + y + 8 * index) % (2 * width), 2 * width)));
    }
    for y in 0..height / 2 {
        planes.extend((0..width / 2).map(|_| shade(y, height / 2) / 2 + 64));
    }
    for _ in 0..height / 2 {
        planes.extend((0..width / 2).map(|x| shade(x, width / 2) / 2 + 64));
    }
    planes
}

fn access_unit(size: Size, index: usize, image: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(image.len() + image.len() / 32 + 64);
    unit(&mut bytes, 0x67, sequence(size));
    unit(&mut bytes, 0x68, parameters());
    unit(&mut bytes, 0x65, slice(size, index, image));
    bytes
}

/// Appends a NAL unit: start code, header, and the payload with emulation prevention bytes.
fn unit(bytes: &mut Vec<u8>, header: u8, payload: Vec<u8>) {
    bytes.extend([0, 0, 0, 1, header]);
    let mut zeros = 0;
    for byte in payload {
        if zeros >= 2 && byte <= 3 {
            bytes.push(3);
            zeros = 0;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        bytes.push(byte);
    }
}

/// Sequence parameter set (7.3.2.1): baseline profile, level 4, output in decoding order.
fn sequence(size: Size) -> Vec<u8> {
    let mut bits = BitWriter::default();
    bits.put(0x42, 8);
    bits.put(0xc0, 8);
    bits.put(40, 8);
    for number in [0, 0, 2, 1] {
        bits.golomb(number);
    }
    bits.put(0, 1);
    bits.golomb(size.width / BLOCK - 1);
    bits.golomb(size.height / BLOCK - 1);
    // Frames only, direct prediction of 8×8 blocks, no cropping, no VUI.
    bits.put(0b1100, 4);
    bits.finish()
}

/// Picture parameter set (7.3.2.2): CAVLC, one slice group, deblocking controlled by the slice header.
fn parameters() -> Vec<u8> {
    let mut bits = BitWriter::default();
    bits.golomb(0);
    bits.golomb(0);
    bits.put(0, 2);
    for _ in 0..3 {
        bits.golomb(0);
    }
    bits.put(0, 3);
    for _ in 0..3 {
        bits.golomb(0);
    }
    bits.put(0b100, 3);
    bits.finish()
}

/// A slice that is a whole image (7.3.3, 7.3.5).
fn slice(size: Size, index: usize, image: &[u8]) -> Vec<u8> {
    let mut bits = BitWriter::default();
    bits.golomb(0);
    // All slices of the image are I slices.
    bits.golomb(7);
    bits.golomb(0);
    bits.put(0, 4);
    // Two consecutive IDR images have different numbers here.
    bits.golomb((index % 2) as u32);
    bits.put(0, 2);
    bits.golomb(0);
    // No deblocking.
    bits.golomb(1);
    let (width, height) = (size.width as usize, size.height as usize);
    let (luma, chroma) = image.split_at(width * height);
    let (blue, red) = chroma.split_at(chroma.len() / 2);
    let side = BLOCK as usize;
    for y in (0..height).step_by(side) {
        for x in (0..width).step_by(side) {
            // I_PCM.
            bits.golomb(25);
            bits.align();
            bits.block(luma, width, x, y, side);
            bits.block(blue, width / 2, x / 2, y / 2, side / 2);
            bits.block(red, width / 2, x / 2, y / 2, side / 2);
        }
    }
    bits.finish()
}

/// Bit writer, most significant bit first.
#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    /// Free bits in the last byte.
    free: u32,
}

impl BitWriter {
    fn put(&mut self, value: u32, count: u32) {
        for bit in (0..count).rev() {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = 8;
            }
            self.free -= 1;
            if let Some(last) = self.bytes.last_mut() {
                *last |= ((value >> bit & 1) as u8) << self.free;
            }
        }
    }

    /// An unsigned Exp-Golomb code (9.1); a signed 0 has the same code.
    fn golomb(&mut self, value: u32) {
        let length = 32 - (value + 1).leading_zeros();
        self.put(0, length - 1);
        self.put(value + 1, length);
    }

    fn align(&mut self) {
        self.free = 0;
    }

    /// A square of samples; the writer is at a byte boundary.
    fn block(&mut self, plane: &[u8], stride: usize, x: usize, y: usize, side: usize) {
        for row in y..y + side {
            let start = row * stride + x;
            self.bytes.extend_from_slice(&plane[start..start + side]);
        }
    }

    /// The payload, terminated by a one bit and zeros.
    fn finish(mut self) -> Vec<u8> {
        self.put(1, 1);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_coded_as_the_standard_has_them() {
        let coded = |values: &[u32]| {
            let mut bits = BitWriter::default();
            values.iter().for_each(|value| bits.golomb(*value));
            bits.bytes
        };
        // 1 010 011 00, 100
        assert_eq!(coded(&[0, 1, 2, 3]), [0b1010_0110, 0b0100_0000]);
        // 25 is 000011010.
        assert_eq!(coded(&[25]), [0b0000_1101, 0]);
    }

    #[test]
    fn no_unit_contains_a_start_code() {
        let mut bytes = Vec::new();
        unit(&mut bytes, 0x65, vec![0, 0, 1, 0, 0, 0, 0, 0, 3, 7]);
        assert_eq!(
            bytes,
            [0, 0, 0, 1, 0x65, 0, 0, 3, 1, 0, 0, 3, 0, 0, 3, 0, 3, 7]
        );
    }

    #[test]
    fn images_are_smooth_and_differ() {
        let clip = TestClip::new(Size::new(64, 32), 2);
        assert_eq!(clip.images[0].len(), 64 * 32 * 3 / 2);
        assert_ne!(clip.images[0], clip.images[1]);
        assert!(
            clip.images
                .iter()
                .flatten()
                .all(|sample| (16..=235).contains(sample))
        );
    }
}
