//! Writes a model folder for a network of Darknet: the converted ONNX file and its `model.yaml`.
//!
//! Called by `jetwatch model import`, which prints the result. Nothing in the description is a guess but the names of the classes,
//! where they are not given.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};

use jetwatch_detect::model::{FILE_NAME, ModelSpec};
use jetwatch_files::Sha256Digest;

use crate::atomic_write;
use crate::darknet::{self, ConvertedDarknet, DarknetError, Grid};
use crate::init::{read_labels, stem};
use crate::model_yaml_template::{LICENSE_COMMENT, one_line, quoted};

/// Layout of grids whose centers stay in their cells.
const YOLOV3: &str = "yolov3";

/// Layout of all other grids.
const YOLOV4: &str = "yolov4";

/// What to import.
#[derive(Debug, Clone, Copy)]
pub struct DarknetImport<'a> {
    /// The `.cfg` file.
    pub config: &'a Path,
    /// The `.weights` file.
    pub weights: &'a Path,
    /// File with the class names, one per line; `None`: `class 0` and so on.
    pub names: Option<&'a Path>,
    /// The model folder; `None`: `models/NAME`, after the `.cfg` file.
    pub folder: Option<&'a Path>,
    /// Replace existing files.
    pub force: bool,
}

/// An imported network, which can be loaded.
#[derive(Debug, Clone)]
pub struct ImportedFolder {
    /// The folder.
    pub folder: PathBuf,
    /// Output layout: `yolov3` or `yolov4`.
    pub layout: &'static str,
    /// Size of the input in pixels.
    pub size: jetwatch_types::Size,
    /// The grids.
    pub grids: Vec<Grid>,
    /// Class names as loaded from the folder.
    pub labels: Vec<String>,
}

/// Converts the network and writes the folder; the description comes last and completes it.
///
/// # Errors
/// A file is not readable, the network cannot be converted, the names are not as many as the classes, a file exists already, or
/// writing fails. New files of a folder that cannot be loaded are removed.
pub fn import_darknet(import: &DarknetImport<'_>) -> Result<ImportedFolder> {
    let config = fs::read(import.config)
        .with_context(|| format!("cannot read {}", import.config.display()))?;
    let config = String::from_utf8_lossy(&config);
    let weights = fs::read(import.weights)
        .with_context(|| format!("cannot read {}", import.weights.display()))?;
    let metadata = [("converted_from".to_owned(), "Darknet".to_owned())];
    let network = darknet::convert(&config, &weights, &metadata)
        .map_err(|error| with_path(import, &error))?;
    drop(weights);
    let labels = match import.names {
        Some(path) => {
            let labels = read_labels(path)?;
            if labels.len() != network.classes {
                bail!(
                    "{}: found {} names, expected {}, the classes of [yolo] in {}",
                    path.display(),
                    labels.len(),
                    network.classes,
                    import.config.display()
                );
            }
            labels
        }
        None => (0..network.classes)
            .map(|class| format!("class {class}"))
            .collect(),
    };
    let name = stem(import.config)?;
    let folder = match import.folder {
        Some(folder) => folder.to_owned(),
        None => Path::new("models").join(&name),
    };
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let file = format!("{name}.onnx");
    let targets = [folder.join(&file), folder.join(FILE_NAME)];
    if !import.force {
        atomic_write::reject_existing(&targets)?;
    }
    let new: Vec<&PathBuf> = targets.iter().filter(|path| !path.exists()).collect();
    let layout = layout(&network);
    let write = || {
        atomic_write::write(&targets[0], &network.onnx)?;
        let text = describe(import, &name, &file, &network, layout, &labels)?;
        atomic_write::write(&targets[1], text.as_bytes())?;
        Ok(ModelSpec::load(&folder)?)
    };
    let spec = write().inspect_err(|_: &anyhow::Error| {
        for path in &new {
            let _ = fs::remove_file(path);
        }
    })?;
    Ok(ImportedFolder {
        folder,
        layout,
        size: network.size,
        grids: network.grids,
        labels: spec.labels,
    })
}

/// The error with the path of the file that it is about.
fn with_path(import: &DarknetImport<'_>, error: &DarknetError) -> anyhow::Error {
    match error {
        DarknetError::Config { line, reason } => {
            anyhow!("{}:{line}: {reason}", import.config.display())
        }
        DarknetError::Weights(reason) => anyhow!("{}: {reason}", import.weights.display()),
    }
}

/// The layouts decode alike, but for the factor of centers beyond their cells, which YOLOv3 has not.
fn layout(network: &ConvertedDarknet) -> &'static str {
    match network.grids.iter().all(|grid| grid.scale_x_y == 1.0) {
        true => YOLOV3,
        false => YOLOV4,
    }
}

/// The text of the `model.yaml`.
fn describe(
    import: &DarknetImport<'_>,
    name: &str,
    file: &str,
    network: &ConvertedDarknet,
    layout: &str,
    labels: &[String],
) -> Result<String> {
    let sha256 = Sha256Digest::of(&network.onnx);
    let file_name = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    let sources = format!(
        "{} and {}",
        file_name(import.config),
        file_name(import.weights)
    );
    let list = |items: Vec<String>| items.join(", ");
    let grids = network.grids.iter();
    let names = list(grids.clone().map(|grid| grid.name.clone()).collect());
    let anchors = grids.clone().map(|grid| {
        let sides = grid.anchors.iter().flatten();
        format!("[{}]", list(sides.map(ToString::to_string).collect()))
    });
    let anchors = list(anchors.collect());
    let factors = list(grids.map(|grid| grid.scale_x_y.to_string()).collect());
    let (placement, why) = match network.letter_box {
        true => ("center", "letter_box=1 in the .cfg file"),
        false => (
            "stretch",
            "without letter_box=1 in the .cfg file; center keeps the shape of images",
        ),
    };
    let mut text = String::new();
    writeln!(text, "# Converted by jetwatch from {}.", one_line(&sources))?;
    writeln!(text, "name: {}", quoted(name))?;
    writeln!(text, "input:")?;
    writeln!(text, "  name: {}", darknet::INPUT)?;
    writeln!(text, "  width: {}", network.size.width)?;
    writeln!(text, "  height: {}", network.size.height)?;
    writeln!(text, "  color: rgb")?;
    writeln!(text, "  scale: 0.00392156862745098   # 0..255 becomes 0..1")?;
    writeln!(
        text,
        "  letterbox: {{value: 127, placement: {placement}}}   # {why}"
    )?;
    writeln!(text, "output:")?;
    writeln!(text, "  layout: {layout}")?;
    writeln!(text, "  tensors: {{grids: [{names}]}}")?;
    writeln!(text, "  anchors: [{anchors}]")?;
    if layout == YOLOV4 {
        writeln!(text, "  scale_x_y: [{factors}]")?;
    }
    writeln!(text, "score_threshold: 0.25")?;
    writeln!(text, "nms_iou: 0.45")?;
    writeln!(text, "{LICENSE_COMMENT}")?;
    writeln!(
        text,
        "license: {{spdx: NOASSERTION, source: {}}}",
        quoted(&format!("local files {sources}"))
    )?;
    writeln!(text, "files:")?;
    writeln!(text, "  fp32: {{file: {}, sha256: {sha256}}}", quoted(file))?;
    if import.names.is_none() {
        writeln!(text, "# GUESS: neither file has the names of the classes.")?;
    }
    let labels: Vec<String> = labels.iter().map(|label| quoted(label)).collect();
    let lines: Vec<String> = labels.chunks(8).map(|names| names.join(", ")).collect();
    writeln!(text, "labels: [\n  {}\n  ]", lines.join(",\n  "))?;
    Ok(text)
}
