//! Reading and writing of single image files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use jetwatch_pixels::{BgrxImage, ImageFormat, decode, encode_rgb};
use jetwatch_types::Size;

/// Writes RGB rows, `size.width * size.height * 3` bytes, to a file. Overwrites an existing file.
///
/// # Errors
/// The file cannot be written, or [`encode_rgb`] fails.
pub fn write_rgb(path: &Path, format: ImageFormat, size: Size, rgb: &[u8]) -> io::Result<()> {
    fs::write(path, encode_rgb(format, size, rgb)?)
}

/// Reads and decodes one file.
///
/// # Errors
/// The reason as text.
pub(super) fn read(path: &Path) -> Result<BgrxImage, String> {
    decode(read_bounded(path)?)
}

/// The largest file that is read as an image: a video of the wrong name would fill the memory.
const MAX_FILE: u64 = 256 << 20;

/// Reads a regular file of at most [`MAX_FILE`] bytes; does not wait for the writer of a pipe.
fn read_bounded(path: &Path) -> Result<Vec<u8>, String> {
    let text = |cause: io::Error| cause.to_string();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|cause| text(cause.into()))?;
    let file = File::from(file);
    let metadata = file.metadata().map_err(text)?;
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if metadata.len() > MAX_FILE {
        return Err(format!(
            "the file has {} MiB, expected at most {} MiB",
            metadata.len() >> 20,
            MAX_FILE >> 20
        ));
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    file.take(MAX_FILE).read_to_end(&mut bytes).map_err(text)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use image::{GrayImage, Rgb, RgbImage, RgbaImage};
    use rustix::fs::FileType;

    use jetwatch_types::PIXEL_BYTES;

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
        File::create(path("huge.jpg"))
            .and_then(|file| file.set_len(MAX_FILE + 1))
            .expect("a sparse file");
        let pipe = path("pipe.jpg");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).expect("a pipe");
        for (name, expected) in [
            ("huge.jpg", "the file has 256 MiB"),
            ("pipe.jpg", "not a regular file"),
            ("empty.jpg", "the file is empty"),
            ("text.jpg", "neither JPEG nor PNG"),
            ("bitmap.png", "neither JPEG nor PNG"),
            ("missing.jpg", "No such file"),
        ] {
            let reason = read(&path(name)).err().expect(name);
            assert!(reason.contains(expected), "{name}: {reason}");
        }
    }
}
