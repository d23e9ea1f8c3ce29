//! Still pictures as a source: JPEG and PNG files, in order, none left out.
//!
//! Files are decoded here and scaled by the same elements as video, so that accuracy measured on pictures is that of the
//! daemon. [`start_images`] plays a list of files; a folder of them is a source like any other (`images:` and a folder).
//! A frame's [`pts`](crate::types::FrameMeta::pts) is the place of its file in the list, in seconds. Orientation in EXIF is
//! not looked at, as those who annotate with COCO's tools do not either.

use std::fs;
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{ImageError, ImageReader};

use crate::config::SourceConfig;
use crate::types::{PIXEL_BYTES, Size};

use super::{End, Source, SourceContext, SourceError, SourceHandle, gst, jpeg, supervisor};

/// Endings of file names that are taken from a folder, in any case.
const ENDINGS: [&str; 3] = ["jpg", "jpeg", "png"];

/// Hears of a file that cannot be shown: its place in the list, and why. Called on GStreamer's thread.
pub type Unreadable = Arc<dyn Fn(usize, &Path, &str) + Send + Sync>;

/// A decoded picture in `BGRx`, rows without padding.
pub(super) struct Bitmap {
    pub(super) size: Size,
    pub(super) pixels: Vec<u8>,
}

/// Files of one source.
pub(super) struct ImagesSource {
    config: SourceConfig,
    files: Files,
    unreadable: Unreadable,
}

enum Files {
    Listed(Arc<[PathBuf]>),
    Folder(PathBuf),
}

/// Plays `files` on a thread of its own, as `config` says otherwise. What cannot be read is told to `unreadable` and
/// passed over.
pub fn start_images(
    config: &SourceConfig,
    files: Arc<[PathBuf]>,
    unreadable: Unreadable,
    context: SourceContext,
) -> io::Result<SourceHandle> {
    let made = config.clone();
    supervisor::spawn(config, context, move || {
        Box::new(ImagesSource {
            config: made,
            files: Files::Listed(files),
            unreadable,
        })
    })
}

impl ImagesSource {
    /// The pictures of a folder, by name. A file that cannot be read is a warning.
    pub(super) fn of_folder(config: &SourceConfig, folder: &Path) -> Self {
        let name = config.name.clone();
        Self {
            config: config.clone(),
            files: Files::Folder(folder.to_owned()),
            unreadable: Arc::new(move |_, path, reason| {
                log::warn!(source = name.as_str(); "left out {}: {reason}", path.display());
            }),
        }
    }
}

impl Source for ImagesSource {
    fn run_once(
        &mut self,
        context: &SourceContext,
        first_frame: &dyn Fn(),
    ) -> Result<End, SourceError> {
        let files = match &self.files {
            Files::Listed(files) => Arc::clone(files),
            Files::Folder(folder) => list(folder)?.into(),
        };
        if files.is_empty() {
            return Err(SourceError::Empty);
        }
        let unreadable = Arc::clone(&self.unreadable);
        gst::play_pictures(&self.config, files, unreadable, context, first_frame)
    }
}

/// The JPEG and PNG files in `folder` itself, sorted by name.
fn list(folder: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(|cause| SourceError::File {
        path: folder.to_owned(),
        cause,
        user: rustix::process::getuid().as_raw().to_string(),
    })?;
    let is_picture = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| {
            ENDINGS
                .iter()
                .any(|known| ending.eq_ignore_ascii_case(known))
        })
    };
    let mut files: Vec<PathBuf> = entries
        .iter()
        .map(fs::DirEntry::path)
        .filter(is_picture)
        .collect();
    files.sort();
    Ok(files)
}

/// Reads and decodes one file; the error is a reason in words.
pub(super) fn decode(path: &Path) -> Result<Bitmap, String> {
    let bytes = fs::read(path).map_err(|cause| cause.to_string())?;
    if bytes.is_empty() {
        return Err("the file is empty".to_owned());
    }
    if jpeg::is_jpeg(&bytes) && !jpeg::is_whole(&bytes) {
        return Err("the file is cut off: its end is missing".to_owned());
    }
    let reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(|cause| cause.to_string())?;
    if reader.format().is_none() {
        return Err("it is neither JPEG nor PNG".to_owned());
    }
    let picture = reader.decode().map_err(|cause| match cause {
        ImageError::Unsupported(unsupported) => format!("{unsupported}; JPEG and PNG are read"),
        cause => cause.to_string(),
    })?;
    let picture = picture.into_rgb8();
    let mut pixels = vec![255; picture.as_raw().len() / 3 * PIXEL_BYTES];
    let (to, _) = pixels.as_chunks_mut::<PIXEL_BYTES>();
    let (from, _) = picture.as_raw().as_chunks::<3>();
    for (to, [red, green, blue]) in to.iter_mut().zip(from) {
        *to = [*blue, *green, *red, 255];
    }
    Ok(Bitmap {
        size: Size::new(picture.width(), picture.height()),
        pixels,
    })
}

#[cfg(test)]
mod tests {
    use image::{GrayImage, Rgb, RgbImage, RgbaImage};

    use super::*;

    /// A picture of 5×3 with known colors: red at the left, then blue.
    fn picture() -> RgbImage {
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
        picture().save(&path).expect("written");
        let decoded = decode(&path).expect("it is a picture");
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
        let gray = decode(&path("gray.jpg")).expect("gray JPEG");
        assert!(gray.pixels[..3].iter().all(|value| value.abs_diff(77) <= 1));
        RgbaImage::from_pixel(2, 2, image::Rgba([1, 2, 3, 0]))
            .save(path("clear.png"))
            .expect("written");
        let clear = decode(&path("clear.png")).expect("PNG with alpha");
        assert_eq!(clear.pixels[..4], [3, 2, 1, 255]);
        image::ImageBuffer::from_pixel(2, 2, image::Luma([0x80ff_u16]))
            .save(path("deep.png"))
            .expect("written");
        let deep = decode(&path("deep.png")).expect("16 bits");
        assert!(deep.pixels[0].abs_diff(0x80) <= 1);
        // The name does not matter, the content does.
        fs::copy(path("clear.png"), path("clear.jpg")).expect("copied");
        assert_eq!(
            decode(&path("clear.jpg")).expect("a PNG still").pixels,
            clear.pixels
        );
    }

    #[test]
    fn what_is_no_picture_is_said_in_words() {
        let folder = folder();
        let path = |name: &str| folder.path().join(name);
        picture().save(path("whole.png")).expect("written");
        picture().save(path("whole.jpg")).expect("written");
        for kind in ["png", "jpg"] {
            let whole = fs::read(path(&format!("whole.{kind}"))).expect("written above");
            let half = path(&format!("half.{kind}"));
            fs::write(&half, &whole[..whole.len() / 2]).expect("written");
            assert!(decode(&half).is_err(), "half a {kind}");
        }
        fs::write(path("empty.jpg"), "").expect("written");
        fs::write(path("text.jpg"), "this is no picture").expect("written");
        fs::write(path("bitmap.png"), b"BM\x3a\0\0\0\0\0\0\0\x36\0\0\0").expect("written");
        for (name, wanted) in [
            ("empty.jpg", "the file is empty"),
            ("text.jpg", "neither JPEG nor PNG"),
            ("bitmap.png", "JPEG and PNG are read"),
            ("missing.jpg", "No such file"),
        ] {
            let reason = decode(&path(name)).err().expect(name);
            assert!(reason.contains(wanted), "{name}: {reason}");
        }
    }

    #[test]
    fn a_folder_is_listed_by_name() {
        let folder = folder();
        for name in ["b.JPG", "a.png", "10.jpeg", "c.txt", "d"] {
            fs::write(folder.path().join(name), "").expect("written");
        }
        let names: Vec<_> = list(folder.path())
            .expect("it is there")
            .iter()
            .map(|path| path.file_name().expect("a name").to_owned())
            .collect();
        assert_eq!(names, ["10.jpeg", "a.png", "b.JPG"]);
        let error = list(&folder.path().join("gone"))
            .expect_err("no folder")
            .to_string();
        assert!(error.contains("gone: No such file"), "{error}");
    }
}
