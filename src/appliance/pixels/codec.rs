// SPDX-License-Identifier: Apache-2.0
//! Image files in memory: JPEG and PNG decoded to `BGRx`, and encoded. The only user of the crates for both.
//!
//! It reads and writes no files.

use std::io::{self, Cursor};

use jetwatch_types::{PIXEL_BYTES, Size};
use jpeg_encoder::{
    Encoder, EncodingError, ImageBuffer, JpegColorType, SamplingFactor, rgb_to_ycbcr,
};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::jpeg_markers;

/// Quality of JPEG files, typical of cameras, artifacts included.
const QUALITY: u8 = 92;

/// Format of an image file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageFormat {
    /// JPEG at quality 92.
    Jpeg,
    /// PNG, lossless.
    Png,
}

/// Encodes RGB rows, `size.width * size.height * 3` bytes, as a file.
///
/// # Errors
/// `rgb` has another length, or the format cannot have that size (JPEG: 65,535 pixels a side).
pub fn encode_rgb(format: ImageFormat, size: Size, rgb: &[u8]) -> io::Result<Vec<u8>> {
    if rgb.len() != size.width as usize * size.height as usize * 3 {
        let what = format!("{} bytes for {size}, expected 3 per pixel", rgb.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    match format {
        ImageFormat::Jpeg => encode_rgb_jpeg(size, rgb),
        ImageFormat::Png => encode_rgb_png(size, rgb),
    }
}

fn encode_rgb_jpeg(size: Size, rgb: &[u8]) -> io::Result<Vec<u8>> {
    let Some(pixels) = Pixels::new(size, rgb, [0, 1, 2], 3) else {
        let what = format!("{size} is too large for JPEG, expected at most 65535 pixels a side");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    };
    pixels
        .encode(QUALITY, SamplingFactor::F_1_1)
        .map_err(io::Error::other)
}

/// Rows of pixels for the encoder of JPEG, without padding. Its code is compiled for each kind of pixels, so this one is for all of them.
struct Pixels<'a> {
    rows: &'a [u8],
    width: u16,
    height: u16,
    /// Where red, green and blue are among the bytes of a pixel.
    colors: [usize; 3],
    /// Bytes of a pixel; 1 is gray.
    bytes: usize,
}

impl<'a> Pixels<'a> {
    /// `None` for a size that JPEG does not have.
    fn new(size: Size, rows: &'a [u8], colors: [usize; 3], bytes: usize) -> Option<Self> {
        let (width, height) = (size.width.try_into().ok()?, size.height.try_into().ok()?);
        Some(Self {
            rows,
            width,
            height,
            colors,
            bytes,
        })
    }

    fn encode(self, quality: u8, sampling: SamplingFactor) -> Result<Vec<u8>, EncodingError> {
        let mut file = Vec::with_capacity(self.rows.len() / 16);
        let mut encoder = Encoder::new(&mut file, quality);
        encoder.set_sampling_factor(sampling);
        encoder.encode_image(self)?;
        file.shrink_to_fit();
        Ok(file)
    }
}

impl ImageBuffer for Pixels<'_> {
    fn get_jpeg_color_type(&self) -> JpegColorType {
        match self.bytes {
            1 => JpegColorType::Luma,
            _ => JpegColorType::Ycbcr,
        }
    }

    fn width(&self) -> u16 {
        self.width
    }

    fn height(&self) -> u16 {
        self.height
    }

    fn fill_buffers(&self, y: u16, buffers: &mut [Vec<u8>; 4]) {
        let row_bytes = usize::from(self.width) * self.bytes;
        let row = &self.rows[usize::from(y) * row_bytes..][..row_bytes];
        if self.bytes == 1 {
            return buffers[0].extend_from_slice(row);
        }
        let [luma, blue, red, _] = buffers;
        for pixel in row.chunks_exact(self.bytes) {
            let [r, g, b] = self.colors.map(|at| pixel[at]);
            let (y, cb, cr) = rgb_to_ycbcr(r, g, b);
            luma.push(y);
            blue.push(cb);
            red.push(cr);
        }
    }
}

fn encode_rgb_png(size: Size, rgb: &[u8]) -> io::Result<Vec<u8>> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, size.width, size.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(rgb)?;
    writer.finish()?;
    Ok(file)
}

/// Encodes a `BGRx` image, rows without padding, as a JPEG file of this quality, 1 to 100, with half the colors in both directions;
/// `None` for a size that JPEG does not have.
pub fn encode_bgrx_jpeg(size: Size, pixels: &[u8], quality: u8) -> Option<Vec<u8>> {
    let pixels = Pixels::new(size, pixels, [2, 1, 0], PIXEL_BYTES)?;
    pixels.encode(quality, SamplingFactor::F_2_2).ok()
}

/// A decoded image in `BGRx`, rows without padding.
pub struct BgrxImage {
    /// Width and height in pixels.
    pub size: Size,
    /// `size.width * size.height` pixels; the fourth byte of each is 255.
    pub pixels: Vec<u8>,
}

/// Decodes a JPEG or PNG file; its content decides which.
///
/// # Errors
/// The reason as text.
pub fn decode(file: Vec<u8>) -> Result<BgrxImage, String> {
    if file.is_empty() {
        return Err("the file is empty".to_owned());
    }
    if jpeg_markers::is_jpeg(&file) && !jpeg_markers::is_complete(&file) {
        return Err("the file is cut off: its end is missing".to_owned());
    }
    if jpeg_markers::is_jpeg(&file) {
        decode_jpeg(with_huffman_tables(file))
    } else if file.starts_with(PNG_SIGNATURE) {
        decode_png(file)
    } else {
        Err("the file is neither JPEG nor PNG".to_owned())
    }
}

/// The same image with the Huffman tables of the standard, where it has none: so do images of Motion JPEG. The encoder here takes those.
fn with_huffman_tables(mut jpeg: Vec<u8>) -> Vec<u8> {
    if let Some((tables, at)) = jpeg_markers::huffman_tables(&jpeg)
        && tables.is_empty()
        && let Ok(own) = encode_rgb(ImageFormat::Jpeg, Size::new(8, 8), &[0; 8 * 8 * 3])
        && let Some((tables, _)) = jpeg_markers::huffman_tables(&own)
    {
        jpeg.splice(at..at, tables);
    }
    jpeg
}

/// The first bytes of every PNG file.
const PNG_SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// The largest side of an image. A header that claims more is not believed: its memory would be reserved before the first pixel.
const MAX_SIDE: usize = 32_768;

fn decode_jpeg(bytes: Vec<u8>) -> Result<BgrxImage, String> {
    let options = DecoderOptions::default()
        .jpeg_set_out_colorspace(ColorSpace::RGB)
        .set_max_width(MAX_SIDE)
        .set_max_height(MAX_SIDE)
        .set_strict_mode(false);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    let rgb = decoder.decode().map_err(|cause| cause.to_string())?;
    let info = decoder.info().ok_or("the file has no image")?;
    let size = Size::new(u32::from(info.width), u32::from(info.height));
    let (pixels, _) = rgb.as_chunks::<3>();
    Ok(bgrx_image(size, pixels.iter().copied()))
}

fn decode_png(bytes: Vec<u8>) -> Result<BgrxImage, String> {
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(|cause| cause.to_string())?;
    let (width, height) = reader.info().size();
    if width.max(height) as usize > MAX_SIDE {
        return Err(format!(
            "the image has {width}×{height} pixels, expected at most {MAX_SIDE} a side"
        ));
    }
    let mut data = vec![
        0;
        reader
            .output_buffer_size()
            .ok_or("the image is too large")?
    ];
    let frame = reader
        .next_frame(&mut data)
        .map_err(|cause| cause.to_string())?;
    let size = Size::new(frame.width, frame.height);
    let data = &data[..frame.buffer_size()];
    Ok(match frame.color_type {
        png::ColorType::Grayscale => bgrx_image(size, data.iter().map(|gray| [*gray; 3])),
        png::ColorType::GrayscaleAlpha => {
            let (pixels, _) = data.as_chunks::<2>();
            bgrx_image(size, pixels.iter().map(|[gray, _]| [*gray; 3]))
        }
        png::ColorType::Rgba => {
            let (pixels, _) = data.as_chunks::<4>();
            bgrx_image(size, pixels.iter().map(|[r, g, b, _]| [*r, *g, *b]))
        }
        // A palette is expanded by the transformation.
        png::ColorType::Rgb | png::ColorType::Indexed => {
            let (pixels, _) = data.as_chunks::<3>();
            bgrx_image(size, pixels.iter().copied())
        }
    })
}

fn bgrx_image(size: Size, rgb: impl ExactSizeIterator<Item = [u8; 3]>) -> BgrxImage {
    let mut pixels = vec![255; rgb.len() * PIXEL_BYTES];
    let (to, _) = pixels.as_chunks_mut::<PIXEL_BYTES>();
    for (to, [red, green, blue]) in to.iter_mut().zip(rgb) {
        *to = [blue, green, red, 255];
    }
    BgrxImage { size, pixels }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A PNG file of 2×2 equal pixels.
    fn png_of(color: png::ColorType, depth: png::BitDepth, pixel: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, 2, 2);
        encoder.set_color(color);
        encoder.set_depth(depth);
        let mut writer = encoder.write_header().expect("written");
        writer.write_image_data(&pixel.repeat(4)).expect("written");
        writer.finish().expect("written");
        file
    }

    /// An image of 5×3 pixels: red at the left, then blue.
    fn encoded(format: ImageFormat) -> Vec<u8> {
        let row = [&[200, 10, 20][..], &[0, 0, 250].repeat(4)].concat();
        encode_rgb(format, Size::new(5, 3), &row.repeat(3)).expect("a size of both formats")
    }

    #[test]
    fn pixels_are_bgrx_in_rows_without_padding() {
        let decoded = decode(encoded(ImageFormat::Png)).expect("a readable image");
        assert_eq!(decoded.size, Size::new(5, 3));
        assert_eq!(decoded.pixels.len(), 5 * 3 * PIXEL_BYTES);
        assert_eq!(decoded.pixels[..8], [20, 10, 200, 255, 250, 0, 0, 255]);
        assert_eq!(decoded.pixels[20..24], [20, 10, 200, 255]);
    }

    #[test]
    fn other_kinds_of_pixels_become_color_without_transparency() {
        let gray = Pixels::new(Size::new(4, 4), &[77; 16], [0; 3], 1).expect("a size of JPEG");
        let gray = gray
            .encode(QUALITY, SamplingFactor::F_1_1)
            .expect("written");
        let gray = decode(gray).expect("gray JPEG");
        assert!(gray.pixels[..3].iter().all(|value| value.abs_diff(77) <= 1));
        let (rgba, gray) = (png::ColorType::Rgba, png::ColorType::Grayscale);
        let clear = decode(png_of(rgba, png::BitDepth::Eight, &[1, 2, 3, 0])).expect("with alpha");
        assert_eq!(clear.pixels[..4], [3, 2, 1, 255]);
        let deep = decode(png_of(gray, png::BitDepth::Sixteen, &[0x80, 0xff])).expect("16 bits");
        assert!(deep.pixels[0].abs_diff(0x80) <= 1);
    }

    #[test]
    fn bytes_that_are_no_whole_image_are_described() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg] {
            let whole = encoded(format);
            let half = whole[..whole.len() / 2].to_vec();
            assert!(decode(half).is_err(), "half of {format:?}");
        }
        for (bytes, expected) in [
            (&b""[..], "the file is empty"),
            (b"not an image", "neither JPEG nor PNG"),
            (b"BM\x3a\0\0\0\0\0\0\0\x36\0\0\0", "neither JPEG nor PNG"),
        ] {
            let reason = decode(bytes.to_vec()).err().expect("no image");
            assert!(reason.contains(expected), "{reason}");
        }
    }
}
