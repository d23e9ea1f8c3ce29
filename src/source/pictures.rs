//! Single pictures as files. The only place that knows the `image` crate.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use image::ImageError;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder};

use crate::types::Size;

/// Quality of JPEG files: what cameras write, artifacts included.
const QUALITY: u8 = 92;

/// How a picture is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// With loss, at a quality of 92.
    Jpeg,
    /// Without loss.
    Png,
}

/// Writes rows of red, green and blue, `size.width * size.height * 3` bytes, to a file, which is replaced.
///
/// # Errors
/// The file cannot be written; or `rgb` does not hold the picture.
pub fn write_rgb(path: &Path, format: Format, size: Size, rgb: &[u8]) -> Result<(), ImageError> {
    let mut file = BufWriter::new(File::create(path)?);
    let color = ExtendedColorType::Rgb8;
    match format {
        Format::Jpeg => JpegEncoder::new_with_quality(&mut file, QUALITY).write_image(
            rgb,
            size.width,
            size.height,
            color,
        )?,
        Format::Png => {
            PngEncoder::new_with_quality(&mut file, CompressionType::Fast, FilterType::Adaptive)
                .write_image(rgb, size.width, size.height, color)?
        }
    }
    // Dropping the writer would swallow the error of a full disk.
    file.flush()?;
    Ok(())
}
