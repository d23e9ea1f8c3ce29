// SPDX-License-Identifier: Apache-2.0
//! Reading and writing of single image files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use jetwatch_pixels::{BgrxImage, ImageFormat, decode, encode_rgb, exif};
use jetwatch_types::Size;

/// Called for each file that cannot be read, with its index in the list and the reason. Runs on GStreamer's streaming thread.
pub type UnreadableHandler = Arc<dyn Fn(usize, &Path, &str) + Send + Sync>;

/// Files of one source.
pub(super) struct ImageFiles {
    pub files: Arc<[PathBuf]>,
    pub on_unreadable: UnreadableHandler,
    /// Images are turned upright by their EXIF orientation.
    pub is_turned: bool,
}

/// Writes RGB rows, `size.width * size.height * 3` bytes, to a file. Overwrites an existing file.
///
/// # Errors
/// The file cannot be written, or [`encode_rgb`] fails.
pub fn write_rgb(path: &Path, format: ImageFormat, size: Size, rgb: &[u8]) -> io::Result<()> {
    fs::write(path, encode_rgb(format, size, rgb)?)
}

/// Reads and decodes one file, and turns it upright by its EXIF orientation where `is_turned`.
///
/// # Errors
/// The reason as text.
pub(super) fn read(path: &Path, is_turned: bool) -> Result<BgrxImage, String> {
    let bytes = read_bounded(path)?;
    let orientation = match is_turned {
        true => exif::orientation(&bytes),
        false => 1,
    };
    Ok(exif::upright(decode(bytes)?, orientation))
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
    use rustix::fs::FileType;

    use super::*;

    #[test]
    fn written_image_is_read_whatever_its_name() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.jpg");
        let size = Size::new(2, 1);
        write_rgb(&path, ImageFormat::Png, size, &[200, 10, 20, 0, 0, 250]).expect("written");
        let image = read(&path, true).expect("the content decides, not the name");
        assert_eq!(image.size, size);
        assert_eq!(image.pixels, [20, 10, 200, 255, 250, 0, 0, 255]);
    }

    #[test]
    fn unreadable_images_are_described() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("text.jpg"), "not an image").expect("written");
        File::create(path("huge.jpg"))
            .and_then(|file| file.set_len(MAX_FILE + 1))
            .expect("a sparse file");
        let pipe = path("pipe.jpg");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).expect("a pipe");
        for (name, expected) in [
            ("huge.jpg", "the file has 256 MiB"),
            ("pipe.jpg", "not a regular file"),
            ("text.jpg", "neither JPEG nor PNG"),
            ("missing.jpg", "No such file"),
        ] {
            let reason = read(&path(name), true).err().expect(name);
            assert!(reason.contains(expected), "{name}: {reason}");
        }
    }
}
