//! Still images as a source: JPEG and PNG files, in order, without drops.
//!
//! Files are decoded here and scaled by the same elements as video, so that accuracy measured on images is that of the
//! daemon. [`start_image_source`] plays a list of files; a folder of them is a source like any other (`image_folder:` and a
//! folder). A frame's [`pts`](jetwatch_types::FrameMeta::pts) is the index of its file in the list, in seconds. EXIF
//! orientation is ignored, as in COCO's tools.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jetwatch_config::SourceConfig;

use super::{SessionEnd, Source, SourceContext, SourceError, SourceHandle, gst, supervisor};

/// Extensions of files that are read from a folder, in any case.
const EXTENSIONS: [&str; 3] = ["jpg", "jpeg", "png"];

/// Called for each file that cannot be read, with its index in the list and the reason. Runs on GStreamer's streaming thread.
pub type UnreadableHandler = Arc<dyn Fn(usize, &Path, &str) + Send + Sync>;

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

/// Plays `files` on its own thread, configured by `config` otherwise. Files that cannot be read are reported to
/// `on_unreadable` and skipped.
///
/// # Errors
/// The operating system refuses the thread.
pub fn start_image_source(
    config: &SourceConfig,
    files: Arc<[PathBuf]>,
    on_unreadable: UnreadableHandler,
    context: SourceContext,
) -> io::Result<SourceHandle> {
    let made = config.clone();
    supervisor::spawn(config, context, move || {
        Ok(Box::new(ImageFolderSource {
            config: made,
            files: Files::Listed(files),
            on_unreadable,
            late: gst::LateCalls::default(),
        }))
    })
}

impl ImageFolderSource {
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
            return Err(SourceError::Empty);
        }
        let unreadable = Arc::clone(&self.on_unreadable);
        gst::play_images(
            &self.config,
            files,
            unreadable,
            context,
            &self.late,
            first_frame,
        )
    }
}

/// The JPEG and PNG files directly in `folder`, sorted by name.
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
    files.sort();
    Ok(files)
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
        for name in ["b.JPG", "a.png", "10.jpeg", "c.txt", "d"] {
            fs::write(folder.path().join(name), "").expect("written");
        }
        let names: Vec<_> = list_images(folder.path())
            .expect("it is there")
            .iter()
            .map(|path| path.file_name().expect("a name").to_owned())
            .collect();
        assert_eq!(names, ["10.jpeg", "a.png", "b.JPG"]);
        let error = list_images(&folder.path().join("gone"))
            .expect_err("no folder")
            .to_string();
        assert!(error.contains("gone: No such file"), "{error}");
    }
}
