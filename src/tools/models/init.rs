// SPDX-License-Identifier: Apache-2.0
//! Creates a model folder for an ONNX file: the file, its external weights and a `model.yaml` with detected and assumed
//! properties.
//!
//! Called by `jetwatch model init`, which prints the result.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};

use jetwatch_detect::graph::{self, Diagnostic, Network};
use jetwatch_detect::layouts::InferredLayout;
use jetwatch_detect::layouts::ssd::SsdBackground;
use jetwatch_detect::model::{FILE_NAME, ModelSpec};
use jetwatch_types::Size;

use crate::atomic_write;
use crate::lint::lint;
use crate::model_yaml_template::{ModelYamlTemplate, Origin};

/// What to create.
#[derive(Debug, Clone, Copy)]
pub struct InitOptions<'a> {
    /// The ONNX file.
    pub file: &'a Path,
    /// The model folder; `None`: `models/NAME`, after the file. The file is copied into it unless it is in it already.
    pub folder: Option<&'a Path>,
    /// Output layout instead of the most likely one.
    pub layout: Option<&'a str>,
    /// File with the class names, one per line, in the network's order.
    pub labels: Option<&'a Path>,
    /// Place of the background class of an SSD, where it is known.
    pub background: Option<SsdBackground>,
    /// Input size in pixels, where the network has a dynamic one.
    pub size: Option<Size>,
    /// Replace existing files.
    pub force: bool,
}

/// A created model folder, which can be loaded.
#[derive(Debug, Clone)]
pub struct CreatedFolder {
    /// The folder.
    pub folder: PathBuf,
    /// The layout in the description, and why.
    pub inferred: InferredLayout,
    /// Class names as loaded from the folder.
    pub labels: Vec<String>,
    /// Problems with the runtimes, the most severe first.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads the file, drafts its description, and writes the folder; the description comes last and completes it.
///
/// # Errors
/// The file is not readable or no ONNX file, no layout fits, a file exists already, or writing fails. New files of a folder
/// that cannot be loaded are removed.
pub fn create_folder(options: &InitOptions<'_>) -> Result<CreatedFolder> {
    let network = graph::read(options.file)?;
    let labels = options.labels.map(read_labels).transpose()?;
    let draft = ModelYamlTemplate::with_background(
        &network,
        options.layout,
        options.size,
        labels,
        options.background,
    )
    .with_context(|| options.file.display().to_string())?;
    let folder = match options.folder {
        Some(folder) => folder.to_owned(),
        None => Path::new("models").join(stem(options.file)?),
    };
    let written = write_folder(options, &network, &draft, &folder)?;
    let spec = ModelSpec::load(&folder).inspect_err(|_| {
        // Remove the new files when the daemon would reject the description.
        for path in &written {
            let _ = fs::remove_file(path);
        }
    })?;
    Ok(CreatedFolder {
        folder,
        inferred: draft.inferred().clone(),
        labels: spec.labels,
        diagnostics: lint(&network),
    })
}

/// Writes the files and returns the paths of those that did not exist before.
fn write_folder(
    options: &InitOptions<'_>,
    network: &Network,
    draft: &ModelYamlTemplate,
    folder: &Path,
) -> Result<Vec<PathBuf>> {
    let file_name = options
        .file
        .file_name()
        .context("the path does not end in a file name")?;
    let file_name = file_name
        .to_str()
        .context("the file's name is not UTF-8; rename it")?;
    let source_folder = options.file.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    // A file in the folder is not copied.
    let is_there = same(source_folder, folder);
    let description = folder.join(FILE_NAME);
    let mut targets = vec![description.clone()];
    let mut copies = Vec::new();
    if !is_there {
        copies.push((options.file.to_owned(), folder.join(file_name)));
        for file in &network.external {
            copies.push((
                source_folder.join(&file.location),
                folder.join(relative_path(&file.location)?),
            ));
        }
        targets.extend(copies.iter().map(|(_, to)| to.clone()));
    }
    if !options.force {
        atomic_write::reject_existing(&targets)?;
    }
    let written: Vec<PathBuf> = targets.into_iter().filter(|path| !path.exists()).collect();
    let write = || {
        let mut weights = Vec::new();
        for (place, file) in network.external.iter().enumerate() {
            let sha256 = match copies.get(1 + place) {
                Some((from, to)) => {
                    if let Some(parent) = to.parent() {
                        fs::create_dir_all(parent)
                            .with_context(|| format!("cannot create {}", parent.display()))?;
                    }
                    atomic_write::copy(from, to)?
                }
                None => atomic_write::hash(&source_folder.join(relative_path(&file.location)?))?,
            };
            weights.push((file.location.clone(), sha256));
        }
        let sha256 = match copies.first() {
            Some((from, to)) => atomic_write::copy(from, to)?,
            None => atomic_write::hash(options.file)?,
        };
        let name = stem(options.file)?;
        let origin = Origin {
            name: &name,
            file: file_name,
            sha256,
            weights: &weights,
            labels_file: None,
        };
        atomic_write::write(&description, draft.text(origin).as_bytes())
    };
    write().inspect_err(|_| {
        for path in &written {
            let _ = fs::remove_file(path);
        }
    })?;
    Ok(written)
}

fn read_labels(path: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the labels in {}", path.display()))?;
    let labels: Vec<String> = text
        .lines()
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect();
    if labels.is_empty() {
        bail!("{}: found no label, expected one per line", path.display());
    }
    Ok(labels)
}

fn stem(path: &Path) -> Result<String> {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    stem.map(str::to_owned).with_context(|| {
        format!(
            "{}: the name of the file is not UTF-8; rename it",
            path.display()
        )
    })
}

/// The path of an external file as the network states it; it must lie below the folder of the network.
fn relative_path(location: &str) -> Result<&Path> {
    let path = Path::new(location);
    if path
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
        && !location.is_empty()
    {
        return Ok(path);
    }
    bail!(
        "the network has weights in `{location}`, expected a path below its own folder: save it again"
    )
}

fn same(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        fs::canonicalize(path).ok()
    };
    real(a).is_some() && real(a) == real(b)
}
