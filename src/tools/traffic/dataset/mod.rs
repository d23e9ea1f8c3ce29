// SPDX-License-Identifier: Apache-2.0
//! Datasets of labeled images: `images/*.jpg` (or `.png`) and `annotations.json` in COCO's format.
//!
//! The same settings give the same files, whatever the number of threads. `jetwatch dataset` calls [`write`].

mod annotations;
mod generator;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use parking_lot::Mutex;

use jetwatch_pixels::ImageFormat;
use jetwatch_source::image_file;
use jetwatch_types::Size;

use annotations::{Categories, describe};
pub use generator::{DatasetGenerator, LabeledImage};

/// The labels of the scene's objects, in COCO's order.
pub const LABELS: [&str; 6] = ["person", "bicycle", "car", "motorcycle", "bus", "truck"];

/// Several labels that become one category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelMerge {
    /// Name of the category.
    pub name: String,
    /// Labels out of [`LABELS`].
    pub labels: Vec<&'static str>,
}

/// What to draw, and how to write it.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetSettings {
    /// Folder for the images and `annotations.json`; created when missing.
    pub folder: PathBuf,
    /// Number of scenes, at least 1.
    pub scenes: u64,
    /// The scenes and their images.
    pub generator: DatasetGenerator,
    /// Labels that share a category; all others have their own.
    pub merges: Vec<LabelMerge>,
    /// Objects with a smaller visible share, from 0 to 1, are written as `iscrowd`.
    pub min_visible: f32,
    /// So are objects with a shorter side, in pixels.
    pub min_side: f32,
    /// Format of the images.
    pub format: ImageFormat,
    /// Number of drawing threads, at least 1.
    pub threads: usize,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatasetSummary {
    /// Number of images.
    pub images: usize,
    /// Number of objects that are not ignored.
    pub objects: usize,
}

/// Why a dataset could not be written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum DatasetError {
    #[error("{} exists; expected a folder without it: choose another one with --out, or remove it", path.display())]
    Exists { path: PathBuf },
    #[error("--merge: `{label}` is given to `{first}` and to `{second}`; expected one of them")]
    MergedTwice {
        label: &'static str,
        first: String,
        second: String,
    },
    #[error("cannot create {}", path.display())]
    CreateFolder {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
}

/// Draws and writes all images, then the annotations, atomically. Calls `on_scene` with the number of finished scenes after
/// each of them, from several threads, but never from two at a time.
///
/// # Errors
/// The folder has annotations, a label is merged twice, or a file cannot be written.
pub fn write(
    settings: &DatasetSettings,
    on_scene: impl Fn(u64) + Sync,
) -> Result<DatasetSummary, DatasetError> {
    let categories = Categories::new(&settings.merges)?;
    let annotations = settings.folder.join("annotations.json");
    if annotations.exists() {
        return Err(DatasetError::Exists { path: annotations });
    }
    let folder = settings.folder.join("images");
    fs::create_dir_all(&folder).map_err(|cause| DatasetError::CreateFolder {
        path: folder.clone(),
        cause,
    })?;
    let set = settings.generator;
    let next = AtomicU64::new(0);
    let done = Mutex::new(BTreeMap::new());
    let draw = || -> Result<(), DatasetError> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= settings.scenes {
                return Ok(());
            }
            let mut images = Vec::new();
            set.draw(index, |image| -> Result<(), DatasetError> {
                let name = write_image(&folder, settings.format, set.size, &image)?;
                images.push((name, image.truth));
                Ok(())
            })?;
            let mut done = done.lock();
            done.insert(index, images);
            on_scene(done.len() as u64);
        }
    };
    thread::scope(|scope| -> Result<(), DatasetError> {
        let workers: Vec<_> = (0..settings.threads).map(|_| scope.spawn(draw)).collect();
        let results: Vec<Result<(), DatasetError>> = workers
            .into_iter()
            .map(|worker| worker.join().expect("a panic aborts the program"))
            .collect();
        // Return the first error; the others are most likely the same.
        results.into_iter().collect()
    })?;
    let labeled: Vec<_> = done.into_inner().into_values().flatten().collect();
    let images = labeled.len();
    let (document, objects) = describe(settings, &categories, labeled);
    jetwatch_files::write(&annotations, document.to_string().as_bytes()).map_err(|error| {
        DatasetError::Write {
            path: annotations,
            cause: error.source.into(),
        }
    })?;
    Ok(DatasetSummary { images, objects })
}

/// Writes one image and returns its file name.
fn write_image(
    folder: &Path,
    format: ImageFormat,
    size: Size,
    image: &LabeledImage,
) -> Result<String, DatasetError> {
    let extension = match format {
        ImageFormat::Jpeg => "jpg",
        ImageFormat::Png => "png",
    };
    let name = format!("{:08}_{:06}.{extension}", image.seed, image.frame);
    let path = folder.join(&name);
    match image_file::write_rgb(&path, format, size, &image.rgb) {
        Ok(()) => Ok(name),
        Err(cause) => Err(DatasetError::Write {
            path,
            cause: cause.into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_do_not_depend_on_the_number_of_threads() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let settings = |name: &str, threads| DatasetSettings {
            folder: folder.path().join(name),
            scenes: 5,
            generator: DatasetGenerator {
                first_seed: 40,
                images_per_scene: 2,
                size: Size::new(64, 48),
                objects: (3, 9),
            },
            merges: Vec::new(),
            min_visible: 0.25,
            min_side: 2.0,
            format: ImageFormat::Png,
            threads,
        };
        let calls = AtomicU64::new(0);
        let (one, three) = (settings("one", 1), settings("three", 3));
        let summary = write(&one, |_| {
            calls.fetch_add(1, Ordering::Relaxed);
        });
        let summary = summary.expect("written");
        assert_eq!((summary.images, calls.into_inner()), (10, 5));
        assert_eq!(write(&three, |_| {}).expect("written"), summary);
        let read = |settings: &DatasetSettings| {
            fs::read_to_string(settings.folder.join("annotations.json")).expect("written")
        };
        assert_eq!(read(&one), read(&three));
        let images = fs::read_dir(one.folder.join("images")).expect("a folder");
        assert_eq!(images.count(), summary.images);
        let error = write(&one, |_| {}).expect_err("it is there").to_string();
        assert!(error.contains("annotations.json exists"), "{error}");
    }
}
