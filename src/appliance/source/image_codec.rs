//! Reading and writing of single image files. The only user of the crates for JPEG and PNG.

use std::fs::File;
use std::io::{self, BufWriter, Cursor, Read, Write};
use std::path::Path;

use jpeg_encoder::{ColorType, Encoder, EncodingError};
use rustix::fs::{Mode, OFlags};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

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
/// The file cannot be written, `rgb` has another length, or the format cannot have that size (JPEG: 65,535 pixels a side).
pub fn write_rgb(path: &Path, format: ImageFormat, size: Size, rgb: &[u8]) -> io::Result<()> {
    if rgb.len() != size.width as usize * size.height as usize * 3 {
        let what = format!("{} bytes for {size}, expected 3 per pixel", rgb.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let mut file = BufWriter::new(File::create(path)?);
    match format {
        ImageFormat::Jpeg => write_jpeg(&mut file, size, rgb)?,
        ImageFormat::Png => write_png(&mut file, size, rgb)?,
    }
    // Dropping the writer would ignore the error of a full disk.
    file.flush()
}

fn write_jpeg(file: impl Write, size: Size, rgb: &[u8]) -> io::Result<()> {
    let side = |value: u32| {
        u16::try_from(value).map_err(|_| {
            let what =
                format!("{size} is too large for JPEG, expected at most 65535 pixels a side");
            io::Error::new(io::ErrorKind::InvalidInput, what)
        })
    };
    Encoder::new(file, QUALITY)
        .encode(rgb, side(size.width)?, side(size.height)?, ColorType::Rgb)
        .map_err(|cause| match cause {
            EncodingError::IoError(cause) => cause,
            cause => io::Error::other(cause),
        })
}

fn write_png(file: impl Write, size: Size, rgb: &[u8]) -> io::Result<()> {
    let mut encoder = png::Encoder::new(file, size.width, size.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(rgb)?;
    Ok(writer.finish()?)
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
    let bytes = read_bounded(path)?;
    if bytes.is_empty() {
        return Err("the file is empty".to_owned());
    }
    if jpeg::is_jpeg(&bytes) && !jpeg::is_complete(&bytes) {
        return Err("the file is cut off: its end is missing".to_owned());
    }
    if jpeg::is_jpeg(&bytes) {
        decode_jpeg(bytes)
    } else if bytes.starts_with(PNG_SIGNATURE) {
        decode_png(bytes)
    } else {
        Err("the file is neither JPEG nor PNG".to_owned())
    }
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
    use std::fs;

    use rustix::fs::FileType;

    use super::*;

    /// An image of 5×3 pixels: red at the left, then blue.
    fn write_image(path: &Path, format: ImageFormat) {
        let row = [&[200, 10, 20][..], &[0, 0, 250].repeat(4)].concat();
        write_rgb(path, format, Size::new(5, 3), &row.repeat(3)).expect("written");
    }

    /// A PNG file of 2×2 equal pixels.
    fn write_png_of(path: &Path, color: png::ColorType, depth: png::BitDepth, pixel: &[u8]) {
        let mut encoder = png::Encoder::new(File::create(path).expect("created"), 2, 2);
        encoder.set_color(color);
        encoder.set_depth(depth);
        let mut writer = encoder.write_header().expect("written");
        writer.write_image_data(&pixel.repeat(4)).expect("written");
    }

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder")
    }

    #[test]
    fn pixels_are_bgrx_in_rows_without_padding() {
        let folder = folder();
        let path = folder.path().join("a.png");
        write_image(&path, ImageFormat::Png);
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
        Encoder::new_file(path("gray.jpg"), QUALITY)
            .expect("created")
            .encode(&[77; 16], 4, 4, ColorType::Luma)
            .expect("written");
        let gray = read(&path("gray.jpg")).expect("gray JPEG");
        assert!(gray.pixels[..3].iter().all(|value| value.abs_diff(77) <= 1));
        let (rgba, gray) = (png::ColorType::Rgba, png::ColorType::Grayscale);
        write_png_of(
            &path("clear.png"),
            rgba,
            png::BitDepth::Eight,
            &[1, 2, 3, 0],
        );
        let clear = read(&path("clear.png")).expect("PNG with alpha");
        assert_eq!(clear.pixels[..4], [3, 2, 1, 255]);
        write_png_of(
            &path("deep.png"),
            gray,
            png::BitDepth::Sixteen,
            &[0x80, 0xff],
        );
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
        write_image(&path("whole.png"), ImageFormat::Png);
        write_image(&path("whole.jpg"), ImageFormat::Jpeg);
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
