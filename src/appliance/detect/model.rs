// SPDX-License-Identifier: Apache-2.0
//! A model folder: inputs and outputs of its network, and the file of each precision.
//!
//! A folder holds a `model.yaml` and the files that it names. [`ModelSpec::load`] reads and checks the description only;
//! the network's file is read, and its hash compared, by [`ModelFile::read`]. Whether the network really has these
//! tensors is checked by the detector that opens it. Called by [`load`](super::load) and by `jetwatch check`.

use std::fs;
use std::path::{Path, PathBuf};

use super::external_data::{self, WeightsError, WeightsFile};
use super::label_file;
use super::layouts::OutputSpec;
use super::model_yaml::{self, ModelKeys};
use super::yaml_values::is_filled;
use jetwatch_config::{ConfigError, Document, KeySpec, Section, Words, append_lists};
use jetwatch_files::Sha256Digest;
use jetwatch_pixels::TensorFormat;
use jetwatch_types::{Placement, Size};

/// Name of the description in a model folder.
pub const FILE_NAME: &str = "model.yaml";

/// The contents of `model.yaml`.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpec {
    /// The folder, as configured.
    pub folder: PathBuf,
    /// Name of the model in logs and statistics.
    pub name: String,
    /// The input tensor.
    pub input: InputSpec,
    /// The output tensors.
    pub output: OutputSpec,
    /// Names of the classes in the network's order.
    pub labels: Vec<String>,
    /// Names of a class in other sets of labels, such as `car` for a class `vehicle`, and the
    /// [other name](jetwatch_types::renamed_label) of each label that has one.
    pub covers: Vec<(u16, String)>,
    /// Minimum score of detections unless configured otherwise, 0 to 1.
    pub score_threshold: f32,
    /// IoU above which the lower-scored of two boxes of one class is dropped, unless configured otherwise, 0 to 1.
    pub nms_iou: f32,
    /// Maximum number of detections in one frame.
    pub max_detections: usize,
    /// For secondary networks: what their crops show around the object, as a share of its width and height on each side, 0
    /// to 1, as the network was trained.
    pub crop_margin: f32,
    /// License of the files.
    pub license: License,
    /// Files of the network by precision, in the order of `model.yaml`; the first is the default. At least one.
    pub files: Vec<ModelFile>,
}

/// The input tensor: `[batch, 3, height, width]`.
#[derive(Debug, Clone, PartialEq)]
pub struct InputSpec {
    /// Name of the tensor in the network.
    pub name: String,
    /// Type of its elements.
    pub element: InputElement,
    /// Name of a second input that takes the size to which boxes refer, as 64-bit integers `[batch, 2]`: it is given this
    /// input's width and height.
    pub sizes_name: Option<String>,
    /// Name of a further input that takes the scale of the images, as 32-bit floats `[batch, 2]`: it is given ones, so that
    /// boxes come back in input pixels.
    pub scales_name: Option<String>,
    /// Width and height in pixels, each a multiple of what the output's layout asks for.
    pub size: Size,
    /// Order of the three planes.
    pub color: ColorOrder,
    /// Subtracted from each value (0 to 255), in the order of the planes. Zeros for bytes.
    pub mean: [f32; 3],
    /// Multiplied after that, in the order of the planes. Ones for bytes.
    pub scale: [f32; 3],
    /// Where the scaled image lies.
    pub placement: Placement,
    /// Value of the padding before mean and scale, 0 to 255.
    pub padding: u8,
}

impl InputSpec {
    /// What writes images into the tensor.
    pub fn format(&self) -> TensorFormat {
        TensorFormat {
            size: self.size,
            red_first: self.color == ColorOrder::Rgb,
            mean: self.mean,
            scale: self.scale,
            padding: self.padding,
        }
    }
}

/// Type of the elements of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum InputElement {
    /// 32-bit floats: pixels normalized by mean and scale.
    Float32,
    /// Unsigned bytes: pixels as they are, which the network normalizes itself.
    Uint8,
}

/// Order of the three planes of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum ColorOrder {
    /// Blue first.
    Bgr,
    /// Red first.
    Rgb,
}

/// Terms and origin of the model's files.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
pub struct License {
    /// SPDX identifier such as `Apache-2.0`.
    #[key(text = "an SPDX identifier such as Apache-2.0", check = is_filled)]
    pub spdx: String,
    /// Where the files come from.
    #[key(text = "where the files come from", check = is_filled)]
    pub source: String,
}

/// The network in one precision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFile {
    /// Name of the precision: `fp32`, `int8`, …
    pub precision: String,
    /// The file, below the model's folder.
    pub path: PathBuf,
    /// SHA-256 of its bytes.
    pub sha256: Sha256Digest,
    /// Files beside it in which the network keeps weights, as far as the description gives their hashes.
    pub weights: Vec<WeightsFile>,
}

/// Why a model folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum ModelError {
    #[error("cannot read {}: {source}{}", path.display(), hint(path))]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Invalid(ConfigError),
    #[error(transparent)]
    Weights(#[from] WeightsError),
    #[error("model {model} has no precision `{wanted}`; set detector.precision to {}", known.join(" or "))]
    UnknownPrecision {
        model: String,
        wanted: String,
        known: Vec<String>,
    },
    #[error(
        "{} has SHA-256 {found}, but {FILE_NAME} says {expected}: the file is damaged or was replaced; \
         fetch it again, or write the new hash into {FILE_NAME} if the change was meant",
        path.display()
    )]
    Hash {
        path: PathBuf,
        expected: Sha256Digest,
        found: Sha256Digest,
    },
}

/// What to do where there is no model folder.
fn hint(path: &Path) -> String {
    let folder = path.parent().filter(|_| path.ends_with(FILE_NAME));
    let Some(name) = folder.and_then(Path::file_name) else {
        return String::new();
    };
    format!(
        "; if `jetwatch model list` has {name}, fetch it: `jetwatch model fetch {name}`; detector.model must name a folder with a \
         {FILE_NAME}",
        name = name.display()
    )
}

impl From<ConfigError> for ModelError {
    /// An unreadable description is reported like any other file of the folder.
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::Unreadable { path, source } => Self::Unreadable { path, source },
            invalid @ ConfigError::Invalid { .. } => Self::Invalid(invalid),
        }
    }
}

impl ModelSpec {
    /// The keys of `model.yaml`.
    pub const KEYS: &'static [KeySpec] = ModelKeys::KEYS;

    /// The page of the book about the keys of `model.yaml`.
    #[must_use]
    pub fn reference_page() -> String {
        let mut page = "# Keys of model.yaml\n\n\
            This page is generated from the declarations in `src/appliance/detect/model_yaml`; do not edit it.\n\n\
            A model folder holds a `model.yaml` and the files that it names. `configs/model.schema.json` is its JSON Schema.\n\
            [Bring your own network](../models/own-network.md) explains the keys by example. Each layout has some of the keys\n\
            of `output` and `output.tensors`; the others are rejected. In parentheses is the value with its default. A range is of integers where it does not say `number`.\n"
            .to_owned();
        append_lists(Self::KEYS, &mut page);
        page
    }

    /// Reads `model.yaml` in `folder`, and the files of labels and anchors if it names some. All problems are reported at once.
    pub fn load(folder: &Path) -> Result<Self, ModelError> {
        let document = Document::read(&folder.join(FILE_NAME))?;
        Self::from_document(folder, document, |path| read_text(&folder.join(path)))
    }

    /// As [`load`](Self::load) without file access: `text` is the contents of the `model.yaml` in `folder`, and `read_text`
    /// returns the text of a file in it.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub fn from_text(
        folder: &Path,
        text: &str,
        read_text: impl FnMut(&Path) -> Result<String, ModelError>,
    ) -> Result<Self, ModelError> {
        let label = folder.join(FILE_NAME).display().to_string();
        Self::from_document(folder, Document::parse(&label, text)?, read_text)
    }

    fn from_document(
        folder: &Path,
        document: Document,
        mut read_text: impl FnMut(&Path) -> Result<String, ModelError>,
    ) -> Result<Self, ModelError> {
        let mut unreadable = None;
        let spec = model_yaml::read_spec(&document.root(), folder, &mut |path| {
            read_text(path)
                .map_err(|error| unreadable = Some(error))
                .ok()
        });
        // A file that cannot be read comes first: other problems may follow from it.
        if let Some(error) = unreadable {
            return Err(error);
        }
        Ok(document.finish(spec)?)
    }

    /// The class with the label or alias `name`.
    pub fn class_index(&self, name: &str) -> Option<u16> {
        let own = self.labels.iter().position(|label| label == name);
        // The labels, and with them the classes, are at most 10 000.
        own.map(|class| class as u16).or_else(|| {
            let covered = self.covers.iter().find(|(_, known)| known == name)?;
            Some(covered.0)
        })
    }

    /// The file of `precision`, or the default one.
    ///
    /// # Errors
    /// The model has no file of that precision.
    pub fn file(&self, precision: Option<&str>) -> Result<&ModelFile, ModelError> {
        let found = match precision {
            None => self.files.first(),
            Some(wanted) => self.files.iter().find(|file| file.precision == wanted),
        };
        found.ok_or_else(|| ModelError::UnknownPrecision {
            model: self.name.clone(),
            wanted: precision.unwrap_or("default").to_owned(),
            known: self
                .files
                .iter()
                .map(|file| file.precision.clone())
                .collect(),
        })
    }
}

impl ModelFile {
    /// The bytes of the file with external weights embedded. Reads and hashes all of them.
    ///
    /// # Errors
    /// A file cannot be read or its hash differs from `model.yaml`, or external weights do not fit the network.
    pub fn read(&self) -> Result<Vec<u8>, ModelError> {
        let bytes = fs::read(&self.path).map_err(|source| ModelError::Unreadable {
            path: self.path.clone(),
            source,
        })?;
        check_sha256(&self.path, self.sha256, &bytes)?;
        external_data::embed(self, bytes)
    }

    /// Checks that the file and the files of its external weights exist and have the hashes in `model.yaml`.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn verify(&self) -> Result<(), ModelError> {
        self.read().map(drop)
    }
}

/// Whether `bytes`, those of the file at `path`, have the hash `expected`.
pub(super) fn check_sha256(
    path: &Path,
    expected: Sha256Digest,
    bytes: &[u8],
) -> Result<(), ModelError> {
    let found = Sha256Digest::of(bytes);
    if found == expected {
        return Ok(());
    }
    Err(ModelError::Hash {
        path: path.to_owned(),
        expected,
        found,
    })
}

fn read_text(path: &Path) -> Result<String, ModelError> {
    label_file::read_text(path).map_err(|source| ModelError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_yaml::tests::FULL;

    fn folder_with(text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join(FILE_NAME), text).expect("written");
        folder
    }

    #[test]
    fn model_folder_is_loaded_with_labels_file() {
        let folder = folder_with(&FULL.replace("labels: [person, car]", "labels_file: names"));
        let error = ModelSpec::load(folder.path())
            .expect_err("the labels file is missing")
            .to_string();
        assert!(
            error.starts_with("cannot read") && error.contains("names: No such file"),
            "{error}"
        );
        fs::write(folder.path().join("names"), "cat\ndog\n").expect("written");
        let spec = ModelSpec::load(folder.path()).expect("all is there");
        assert_eq!(spec.labels, ["cat", "dog"]);
    }

    #[test]
    fn a_folder_without_model_yaml_reports_what_is_expected() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let error = ModelSpec::load(folder.path())
            .expect_err("it is empty")
            .to_string();
        assert!(
            error.ends_with("detector.model must name a folder with a model.yaml"),
            "{error}"
        );
    }

    #[test]
    fn precisions_are_selected_by_name_with_first_as_default() {
        let folder = folder_with(FULL);
        let spec = ModelSpec::load(folder.path()).expect("it is right");
        assert_eq!(spec.file(None).expect("the first").precision, "int8");
        assert_eq!(
            spec.file(Some("fp32")).expect("it is there").precision,
            "fp32"
        );
        let error = spec
            .file(Some("fp16"))
            .expect_err("there is none")
            .to_string();
        let wanted = "model tiny has no precision `fp16`; set detector.precision to int8 or fp32";
        assert_eq!(error, wanted);
    }

    #[test]
    fn model_file_with_wrong_hash_is_rejected() {
        // The well-known digest of `abc`.
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let folder = folder_with(&FULL.replace(&"b".repeat(64), digest));
        let spec = ModelSpec::load(folder.path()).expect("it is right");
        let file = spec.file(Some("fp32")).expect("it is there");
        let error = file.verify().expect_err("the file is missing").to_string();
        assert!(error.contains("sub/tiny.onnx: No such file"), "{error}");

        fs::create_dir(folder.path().join("sub")).expect("made");
        fs::write(&file.path, "abc").expect("written");
        assert_eq!(file.read().expect("the hash is right"), b"abc");
        fs::write(&file.path, "abd").expect("written");
        let error = file.verify().expect_err("it was changed").to_string();
        assert!(
            error.contains(digest) && error.contains("fetch it again"),
            "{error}"
        );
    }
}
