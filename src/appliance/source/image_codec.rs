//! Reading and writing of single image files. The only user of the `image` crate.

use std::fs::{self, File};
use std::io::{BufWriter, Cursor, Write};
use std::path::Path;

use image::ImageError;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder, ImageReader};

use super::jpeg;
use jetwatch_types::{PIXEL_BYTES, Size};

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

/// Writes RGB rows, `size.width * size.height * 3` bytes, to a file. Overwrites an existing file.
///
/// # Errors
/// The file cannot be written, or `rgb` has another length.
pub fn write_rgb(
    path: &Path,
    format: ImageFormat,
    size: Size,
    rgb: &[u8],
) -> Result<(), ImageError> {
    let mut file = BufWriter::new(File::create(path)?);
    let color = ExtendedColorType::Rgb8;
    match format {
        ImageFormat::Jpeg => JpegEncoder::new_with_quality(&mut file, QUALITY).write_image(
            rgb,
            size.width,
            size.height,
            color,
        )?,
        ImageFormat::Png => {
            PngEncoder::new_with_quality(&mut file, CompressionType::Fast, FilterType::Adaptive)
                .write_image(rgb, size.width, size.height, color)?
        }
    }
    // Dropping the writer would ignore the error of a full disk.
    file.flush()?;
    Ok(())
}

/// A decoded image in `BGRx`, rows without padding.
pub(super) struct BgrxImage {
    pub(super) size: Size,
    pub(super) pixels: Vec<u8>,
}

/// Reads and decodes one file.
///
/// # Errors
/// The reason as text.
pub(super) fn read(path: &Path) -> Result<BgrxImage, String> {
    let bytes = fs::read(path).map_err(|cause| cause.to_string())?;
    if bytes.is_empty() {
        return Err("the file is empty".to_owned());
    }
    if jpeg::is_jpeg(&bytes) && !jpeg::is_complete(&bytes) {
        return Err("the file is cut off: its end is missing".to_owned());
    }
    let reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(|cause| cause.to_string())?;
    if reader.format().is_none() {
        return Err("the file is neither JPEG nor PNG".to_owned());
    }
    let image = reader.decode().map_err(|cause| match cause {
        ImageError::Unsupported(unsupported) => format!("{unsupported}; JPEG and PNG are read"),
        cause => cause.to_string(),
    })?;
    let image = image.into_rgb8();
    let mut pixels = vec![255; image.as_raw().len() / 3 * PIXEL_BYTES];
    let (to, _) = pixels.as_chunks_mut::<PIXEL_BYTES>();
    let (from, _) = image.as_raw().as_chunks::<3>();
    for (to, [red, green, blue]) in to.iter_mut().zip(from) {
        *to = [*blue, *green, *red, 255];
    }
    Ok(BgrxImage {
        size: Size::new(image.width(), image.height()),
        pixels,
    })
}

#[cfg(test)]
mod tests {
    use image::{GrayImage, Rgb, RgbImage, RgbaImage};

    use super::*;

    /// An image of 5×3 pixels: red at the left, then blue.
    fn image() -> RgbImage {
        RgbImage::from_fn(5, 3, |x, _| {
            Rgb(if x == 0 { [200, 10, 20] } else { [0, 0, 250] })
        })
    }

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder")
    }

    #[test]
    fn pixels_are_bgrx_in_rows_without_padding() {
        let folder = folder();
        let path = folder.path().join("a.png");
        image().save(&path).expect("written");
        let decoded = read(&path).expect("a readable image");
        assert_eq!(decoded.size, Size::new(5, 3));
        assert_eq!(decoded.pixels.len(), 5 * 3 * PIXEL_BYTES);
        assert_eq!(decoded.pixels[..8], [20, 10, 200, 255, 250, 0, 0, 255]);
        assert_eq!(decoded.pixels[20..24], [20, 10, 200, 255]);
    }

    #[test]
    fn other_kinds_of_pixels_become_color_without_transparency() {
        let folder = folder();
        let path = |name: &str| folder.path().join(name);
        GrayImage::from_pixel(4, 4, image::Luma([77]))
            .save(path("gray.jpg"))
            .expect("written");
        let gray = read(&path("gray.jpg")).expect("gray JPEG");
        assert!(gray.pixels[..3].iter().all(|value| value.abs_diff(77) <= 1));
        RgbaImage::from_pixel(2, 2, image::Rgba([1, 2, 3, 0]))
            .save(path("clear.png"))
            .expect("written");
        let clear = read(&path("clear.png")).expect("PNG with alpha");
        assert_eq!(clear.pixels[..4], [3, 2, 1, 255]);
        image::ImageBuffer::from_pixel(2, 2, image::Luma([0x80ff_u16]))
            .save(path("deep.png"))
            .expect("written");
        let deep = read(&path("deep.png")).expect("16 bits");
        assert!(deep.pixels[0].abs_diff(0x80) <= 1);
        // The name does not matter, the content does.
        fs::copy(path("clear.png"), path("clear.jpg")).expect("copied");
        assert_eq!(
            read(&path("clear.jpg")).expect("a PNG still").pixels,
            clear.pixels
        );
    }

    #[test]
    fn unreadable_images_are_described() {
        let folder = folder();
        let path = |name: &str| folder.path().join(name);
        image().save(path("whole.png")).expect("written");
        image().save(path("whole.jpg")).expect("written");
        for kind in ["png", "jpg"] {
            let whole = fs::read(path(&format!("whole.{kind}"))).expect("written above");
            let half = path(&format!("half.{kind}"));
            fs::write(&half, &whole[..whole.len() / 2]).expect("written");
            assert!(read(&half).is_err(), "half a {kind}");
        }
        fs::write(path("empty.jpg"), "").expect("written");
        fs::write(path("text.jpg"), "not an image").expect("written");
        fs::write(path("bitmap.png"), b"BM\x3a\0\0\0\0\0\0\0\x36\0\0\0").expect("written");
        for (name, expected) in [
            ("empty.jpg", "the file is empty"),
            ("text.jpg", "neither JPEG nor PNG"),
            ("bitmap.png", "JPEG and PNG are read"),
            ("missing.jpg", "No such file"),
        ] {
            let reason = read(&path(name)).err().expect(name);
            assert!(reason.contains(expected), "{name}: {reason}");
        }
    }
}
