// SPDX-License-Identifier: Apache-2.0
//! Still images as a source: JPEG and PNG files, in order, without drops.
//!
//! Files are decoded here and scaled by the same elements as video, so that accuracy measured on images is that of the
//! daemon. [`start_image_source`](super::start_image_source) plays a list of files; a folder of them is a source like any other (`image_folder:` and a
//! folder). A frame's [`pts`](jetwatch_types::FrameMeta::pts) is the index of its file in the list, in seconds. Images of a folder are
//! turned upright by their EXIF orientation; those of a list are not, as in COCO's tools.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jetwatch_config::SourceConfig;

use super::image_file::{ImageFiles, UnreadableHandler};
use super::{SessionEnd, Source, SourceContext, SourceError, gst};

/// Extensions of files that are read from a folder, in any case.
const EXTENSIONS: [&str; 3] = ["jpg", "jpeg", "png"];

/// Files of one source.
pub(super) struct ImageFolderSource {
    config: SourceConfig,
    files: Files,
    on_unreadable: UnreadableHandler,
    late: gst::LateCalls,
}

enum Files {
    Listed(Arc<[PathBuf]>),
    Folder(PathBuf),
}

impl ImageFolderSource {
    /// These images. Files that cannot be read are reported to `on_unreadable`.
    pub(super) fn listed(
        config: SourceConfig,
        files: Arc<[PathBuf]>,
        on_unreadable: UnreadableHandler,
    ) -> Self {
        Self {
            config,
            files: Files::Listed(files),
            on_unreadable,
            late: gst::LateCalls::default(),
        }
    }

    /// The images of a folder, sorted by name. A file that cannot be read is logged as a warning.
    pub(super) fn from_folder(config: &SourceConfig, folder: &Path) -> Self {
        let name = config.name.clone();
        Self {
            config: config.clone(),
            files: Files::Folder(folder.to_owned()),
            on_unreadable: Arc::new(move |_, path, reason| {
                log::warn!(source = name.as_str(); "skipped {}: {reason}", path.display());
            }),
            late: gst::LateCalls::default(),
        }
    }
}

impl Source for ImageFolderSource {
    fn run_once(
        &mut self,
        context: &SourceContext,
        first_frame: &dyn Fn(),
    ) -> Result<SessionEnd, SourceError> {
        let files = match &self.files {
            Files::Listed(files) => Arc::clone(files),
            Files::Folder(folder) => list_images(folder)?.into(),
        };
        if files.is_empty() {
            return Err(match &self.files {
                Files::Listed(_) => SourceError::Empty,
                Files::Folder(folder) => SourceError::Unsupported {
                    uri: folder.display().to_string(),
                    reason: format!(
                        "it has no picture that is read (.{}); convert others with: ffmpeg -i PICTURE PICTURE.png",
                        EXTENSIONS.join(", .")
                    ),
                },
            });
        }
        let images = ImageFiles {
            files,
            on_unreadable: Arc::clone(&self.on_unreadable),
            is_turned: matches!(self.files, Files::Folder(_)),
        };
        gst::play_images(&self.config, images, context, &self.late, first_frame)
    }
}

/// The JPEG and PNG files directly in `folder`, sorted by name, and by number where names have one.
fn list_images(folder: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(|cause| SourceError::File {
        path: folder.to_owned(),
        cause,
        user: rustix::process::getuid().as_raw().to_string(),
    })?;
    let is_image = |path: &PathBuf| {
        let suffix = path.extension().and_then(|suffix| suffix.to_str());
        suffix.is_some_and(|suffix| {
            EXTENSIONS
                .iter()
                .any(|extension| suffix.eq_ignore_ascii_case(extension))
        })
    };
    let mut files: Vec<PathBuf> = entries
        .iter()
        .map(fs::DirEntry::path)
        .filter(is_image)
        .collect();
    files.sort_by_cached_key(|path| natural_order(path));
    Ok(files)
}

/// Parts of a file name, so that frame2 comes before frame10: numbers are compared by their digits without leading zeros, shorter
/// ones first, and names that differ in these alone as they are.
fn natural_order(path: &Path) -> (Vec<(usize, String)>, PathBuf) {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut parts: Vec<(usize, String)> = Vec::new();
    for part in name.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let end = part.len() - usize::from(!part.ends_with(|c: char| c.is_ascii_digit()));
        let end = (0..=end)
            .rev()
            .find(|at| part.is_char_boundary(*at))
            .unwrap_or(0);
        let (digits, rest) = part.split_at(end);
        let number = digits.trim_start_matches('0');
        if !digits.is_empty() {
            parts.push((number.len() + 1, number.to_owned()));
        }
        if !rest.is_empty() {
            parts.push((usize::MAX, rest.to_owned()));
        }
    }
    (parts, path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder")
    }

    #[test]
    fn a_folder_is_listed_by_name() {
        let folder = folder();
        for name in [
            "b2.jpg", "b.JPG", "a.png", "10.jpeg", "9.jpeg", "c.txt", "d", "f10.png", "f2.png",
            "f002.png", "ü3.png",
        ] {
            fs::write(folder.path().join(name), "").expect("written");
        }
        let names: Vec<_> = list_images(folder.path())
            .expect("it is there")
            .iter()
            .map(|path| path.file_name().expect("a name").to_owned())
            .collect();
        let wanted = "9.jpeg 10.jpeg a.png b.JPG b2.jpg f002.png f2.png f10.png ü3.png";
        assert_eq!(names, wanted.split(' ').collect::<Vec<_>>());
        let error = list_images(&folder.path().join("gone"))
            .expect_err("no folder")
            .to_string();
        assert!(error.contains("gone: No such file"), "{error}");
    }
}
