//! Pictures that tests write and read back.

use std::path::Path;

use jetwatch_pixels::ImageFormat;
use jetwatch_source::image_file::write_rgb;
use jetwatch_types::Size;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;

/// The pixels of a JPEG file, red, green and blue.
pub struct Picture {
    pub size: Size,
    pub pixels: Vec<[u8; 3]>,
}

impl Picture {
    /// Decodes a JPEG file.
    pub fn from_jpeg(bytes: &[u8]) -> Self {
        let mut decoder = JpegDecoder::new(ZCursor::new(bytes));
        let samples = decoder.decode().expect("a JPEG file");
        let (width, height) = decoder.dimensions().expect("it is decoded");
        let (pixels, rest) = samples.as_chunks();
        assert!(rest.is_empty(), "three samples a pixel");
        Self {
            size: Size::new(width as u32, height as u32),
            pixels: pixels.to_vec(),
        }
    }

    /// The pixel at a column and a row.
    pub fn pixel(&self, x: u32, y: u32) -> [u8; 3] {
        self.pixels[(y * self.size.width + x) as usize]
    }
}

/// Writes a picture of one color; the name ends in `.png`, or it is a JPEG file.
pub fn write_flat(path: &Path, width: u32, height: u32, color: [u8; 3]) {
    let format = match path.extension().is_some_and(|kind| kind == "png") {
        true => ImageFormat::Png,
        false => ImageFormat::Jpeg,
    };
    let size = Size::new(width, height);
    let pixels = color.repeat((width * height) as usize);
    write_rgb(path, format, size, &pixels).expect("written");
}
