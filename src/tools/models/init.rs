// SPDX-License-Identifier: Apache-2.0
//! Creates a model folder for an ONNX file: the file, its external weights and a `model.yaml` with detected and assumed
//! properties.
//!
//! Called by `jetwatch model init`, which prints the result.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};

use jetwatch_config::OnnxProvider;
use jetwatch_detect::DetectError;
use jetwatch_detect::graph::{self, Diagnostic, GraphError, Network};
use jetwatch_detect::label_file;
use jetwatch_detect::layouts::ssd::SsdBackground;
use jetwatch_detect::layouts::{InferredLayout, LayoutKind, infer_layout, input_size};
use jetwatch_detect::model::{FILE_NAME, ModelSpec};
use jetwatch_detect::onnx::{OnnxModel, SessionSettings};
use jetwatch_detect::probe;
use jetwatch_files::Sha256Digest;
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
    /// File with the class names in the network's order, in a form that [`label_file`] reads.
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
    /// What was done with the network or was left out, one sentence each.
    pub notes: Vec<String>,
}

/// Sides that networks with an open input size are tried with, the most usual first.
const SIDES: [u32; 6] = [640, 416, 320, 512, 800, 1024];

/// Reads the file, drafts its description, and writes the folder; the description comes last and completes it. Where several
/// descriptions fit, `trial` decides.
///
/// # Errors
/// The file is not readable or no ONNX file, no layout fits, a file exists already, or writing fails. New files of a folder
/// that cannot be loaded are removed.
pub fn create_folder(options: &InitOptions<'_>, trial: Option<Trial<'_>>) -> Result<CreatedFolder> {
    let network = graph::read(options.file)?;
    check_weights(options.file, &network)?;
    let mut notes = Vec::new();
    let converted = convert(options.file, &network, &mut notes)?;
    let network = match &converted {
        Some((_, converted)) => converted,
        None => &network,
    };
    let bytes = converted.as_ref().map(|(bytes, _)| bytes.as_slice());
    let (network, size, is_run) = complete(options, network, bytes, &mut notes)?;
    let labels = options.labels.map(read_labels).transpose()?;
    let drafts = ModelYamlTemplate::candidates(
        &network,
        options.layout,
        size,
        labels.as_deref(),
        options.background,
    )
    .with_context(|| options.file.display().to_string())?;
    let folder = match options.folder {
        Some(folder) => folder.to_owned(),
        None => Path::new("models").join(stem(options.file)?),
    };
    let drafting = Drafting {
        options,
        network: &network,
        converted: bytes,
        folder: &folder,
        is_run,
    };
    let (draft, labels) = drafting.choose(&drafts, trial, &mut notes)?;
    Ok(CreatedFolder {
        inferred: draft.inferred().clone(),
        labels,
        diagnostics: lint(&network),
        folder,
        notes,
    })
}

/// How sure the network in a folder is of what it finds in a picture of the user.
pub type Trial<'a> = &'a dyn Fn(&Path) -> Result<f32>;

/// A folder that is being made.
struct Drafting<'a> {
    options: &'a InitOptions<'a>,
    network: &'a Network,
    converted: Option<&'a [u8]>,
    folder: &'a Path,
    /// Whether ONNX Runtime runs the network.
    is_run: bool,
}

/// A folder that the daemon would accept.
struct Written<'d> {
    draft: &'d ModelYamlTemplate,
    /// Those that did not exist before.
    files: Vec<PathBuf>,
    labels: Vec<String>,
}

impl Drafting<'_> {
    /// Writes the folder by the most likely of `drafts` that the daemon would accept, or by the one with the best trial. Returns it
    /// with the labels of the folder.
    ///
    /// # Errors
    /// Why the most likely one is refused, where all are.
    fn choose<'d>(
        &self,
        drafts: &'d [ModelYamlTemplate],
        trial: Option<Trial<'_>>,
        notes: &mut Vec<String>,
    ) -> Result<(&'d ModelYamlTemplate, Vec<String>)> {
        let certainty = |draft: &ModelYamlTemplate| draft.inferred().found.certainty;
        let (mut accepted, mut first_error) = (Vec::new(), None);
        // The files of the newest accepted one are in the folder.
        let mut in_folder: Option<Written<'_>> = None;
        for draft in drafts {
            // Less likely ones count only until one is accepted.
            let is_less =
                |(best, _): &(&ModelYamlTemplate, f32)| certainty(draft) < certainty(best);
            if trial.is_none() && accepted.first().is_some_and(is_less) {
                break;
            }
            // Scores that are right as they are need no activation, however high that would make them.
            if (accepted.iter()).any(|(other, _)| draft.inferred().mends(other.inferred())) {
                continue;
            }
            if let Some(written) = in_folder.take() {
                remove(&written.files);
            }
            match self.write(draft) {
                Ok(written) => match trial.map_or(Ok(0.0), |trial| trial(self.folder)) {
                    Ok(sureness) => {
                        accepted.push((draft, sureness));
                        in_folder = Some(written);
                    }
                    Err(error) => {
                        remove(&written.files);
                        // Such as a class without a label. Other errors are the picture's.
                        if !error.chain().any(|cause| cause.is::<DetectError>()) {
                            return Err(error);
                        }
                        first_error.get_or_insert(error);
                    }
                },
                Err(error) => {
                    let is_mismatch = matches!(
                        error.downcast_ref::<DetectError>(),
                        Some(DetectError::Tensor { .. })
                    );
                    first_error.get_or_insert(error);
                    if !is_mismatch {
                        break;
                    }
                }
            }
        }
        let mut best = accepted.first().copied();
        for (draft, sureness) in &accepted {
            if best.is_some_and(|(_, most)| *sureness > most) {
                best = Some((*draft, *sureness));
            }
        }
        let Some((best, _)) = best else {
            return Err(first_error.expect("each is accepted or refused"));
        };
        for (draft, sureness) in &accepted {
            if std::ptr::eq(*draft, best) {
                continue;
            }
            let (found, network) = (draft.inferred(), draft.inferred().origin().0);
            let how = difference(best.inferred(), found);
            notes.push(match trial {
                None => format!(
                    "It may also be {} as {network} have it ({}): {how} then, or give --image with a picture to see what it finds.",
                    found.layout, found.found.reason
                ),
                Some(_) => format!(
                    "Tried too: {} as {network} have it; the scores of what it finds sum up to {sureness:.1}.",
                    found.layout
                ),
            });
        }
        let written = match in_folder {
            Some(written) if std::ptr::eq(written.draft, best) => written,
            other => {
                if let Some(written) = other {
                    remove(&written.files);
                }
                self.write(best)?
            }
        };
        Ok((best, written.labels))
    }

    /// Writes the folder and loads it as the daemon does.
    ///
    /// # Errors
    /// The folder cannot be written, or the daemon would refuse it; the new files are removed then.
    fn write<'d>(&self, draft: &'d ModelYamlTemplate) -> Result<Written<'d>> {
        let files = write_folder(
            self.options,
            self.network,
            self.converted,
            draft,
            self.folder,
        )?;
        let load = || -> Result<Vec<String>> {
            let spec = ModelSpec::load(self.folder)?;
            let labels = spec.labels.clone();
            if self.is_run {
                OnnxModel::load(spec, None, None, ONE_WORKER, 1)?;
            }
            Ok(labels)
        };
        let labels = load().inspect_err(|_| remove(&files))?;
        Ok(Written {
            draft,
            files,
            labels,
        })
    }
}

/// How the network is run for a trial.
const ONE_WORKER: SessionSettings = SessionSettings {
    threads: 1,
    batch_size: 1,
    provider: OnnxProvider::Cpu,
};

/// What to do for `other` instead of `best`.
fn difference(best: &InferredLayout, other: &InferredLayout) -> String {
    if best.layout != other.layout {
        return format!("give --layout {}", other.layout);
    }
    let classes = other.found.classes;
    if best.found.classes != classes {
        return format!("give --labels with {classes} names");
    }
    let is_other = |parameter: &&(&str, String)| !best.found.parameters.contains(*parameter);
    let parameters = other.found.parameters.iter().filter(is_other);
    let keys: Vec<String> = parameters
        .map(|(key, value)| format!("{key}: {value}"))
        .collect();
    match keys.is_empty() {
        true => "set input in model.yaml as the training had it".to_owned(),
        false => format!("set {} below output in model.yaml", keys.join(", ")),
    }
}

fn remove(paths: &[PathBuf]) {
    for path in paths {
        let _ = fs::remove_file(path);
    }
}

/// Fails where weights of the network are missing.
fn check_weights(file: &Path, network: &Network) -> Result<()> {
    let missing = network
        .external
        .iter()
        .find(|part| part.found_bytes.is_none());
    if let Some(part) = missing {
        bail!(
            "{} keeps {} weights in `{}`, which is not next to it: put that file there as it was exported, or export the network into \
             one file",
            file.display(),
            part.weights,
            part.location
        );
    }
    Ok(())
}

/// The file with usual inputs and outputs, and its summary; `None` where it has them already.
fn convert(
    file: &Path,
    network: &Network,
    notes: &mut Vec<String>,
) -> Result<Option<(Vec<u8>, Network)>> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let converted =
        graph::with_usual_ends(&bytes, network).map_err(|damage| GraphError::Damaged {
            path: file.to_owned(),
            damage,
            bytes: bytes.len(),
        })?;
    let Some(converted) = converted else {
        return Ok(None);
    };
    let length = |location: &str| {
        let found = network
            .external
            .iter()
            .find(|part| part.location == location);
        found.and_then(|part| part.found_bytes)
    };
    let summary = graph::summarize(file, &converted.bytes, length)?;
    let changes = converted
        .changes
        .into_iter()
        .map(|change| format!("Converted in the copy: {change}."));
    notes.extend(changes);
    Ok(Some((converted.bytes, summary)))
}

/// The network with the lengths of its axes as far as one run shows them, its input size, and whether ONNX Runtime runs it.
/// `bytes` are those of the converted file.
///
/// # Errors
/// ONNX Runtime refuses the network, and not because of operators of TensorRT.
fn complete(
    options: &InitOptions<'_>,
    network: &Network,
    bytes: Option<&[u8]>,
    notes: &mut Vec<String>,
) -> Result<(Network, Option<Size>, bool)> {
    let known = options.size.or_else(|| input_size(network));
    let sizes: Vec<Size> = match known {
        Some(size) => vec![size],
        None => SIDES.map(|side| Size::new(side, side)).to_vec(),
    };
    let mut first_error = None;
    for size in sizes {
        let mut complete = network.clone();
        match probe::probe(options.file, bytes, network, size) {
            Ok(found) => found.complete(&mut complete),
            Err(error @ DetectError::Load { .. }) if !graph::has_plugins(network) => {
                return Err(error.into());
            }
            Err(error) => {
                first_error.get_or_insert(error);
                continue;
            }
        }
        if known.is_some() {
            return Ok((complete, known, true));
        }
        // Of classifiers no size is usual.
        let guess = infer_layout(&complete, Some(size));
        if guess.is_some_and(|guess| guess.layout().kind == LayoutKind::Detector) {
            notes.push(format!(
                "The network takes images of any size: {size} is used. Give another with --size."
            ));
            return Ok((complete, Some(size), true));
        }
    }
    notes.extend(first_error.map(|error| match error.is_absence() {
        true => "ONNX Runtime was not found, so the network was not tried; `jetwatch check` does it on the device.".to_owned(),
        false => format!("The network was not tried: {error}"),
    }));
    Ok((network.clone(), options.size, false))
}

/// Writes the files and returns the paths of those that did not exist before.
fn write_folder(
    options: &InitOptions<'_>,
    network: &Network,
    converted: Option<&[u8]>,
    draft: &ModelYamlTemplate,
    folder: &Path,
) -> Result<Vec<PathBuf>> {
    let file_name = match (options.file.file_name(), converted) {
        (None, _) => bail!("the path does not end in a file name"),
        (Some(_), Some(_)) => format!("{}_converted.onnx", stem(options.file)?),
        (Some(name), None) => name
            .to_str()
            .context("the file's name is not UTF-8; rename it")?
            .to_owned(),
    };
    let file_name = file_name.as_str();
    let source_folder = options.file.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    // A file in the folder is not copied.
    let is_there = same(source_folder, folder);
    let description = folder.join(FILE_NAME);
    let mut targets = vec![description.clone()];
    let mut copies = Vec::new();
    if !is_there || converted.is_some() {
        copies.push((options.file.to_owned(), folder.join(file_name)));
    }
    if !is_there {
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
            Some((from, to)) => match converted {
                Some(bytes) => {
                    atomic_write::write(to, bytes)?;
                    Sha256Digest::of(bytes)
                }
                None => atomic_write::copy(from, to)?,
            },
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
    write().inspect_err(|_| remove(&written))?;
    Ok(written)
}

fn read_labels(path: &Path) -> Result<Vec<String>> {
    Ok(label_file::read(path)?.from_zero())
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
