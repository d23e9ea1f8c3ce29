// SPDX-License-Identifier: Apache-2.0
//! Template of a `model.yaml` for an inspected network; guessed values are marked. Pure.

use std::collections::HashSet;
use std::fmt::Write as _;

use jetwatch_detect::class_names::{is_placeholder, number_placeholders, unused_names};
use jetwatch_detect::graph::{Axis, Element, Network, PixelRange};
use jetwatch_detect::layouts::ssd::{BACKGROUND_KEY, SsdBackground};
use jetwatch_detect::layouts::{
    self, InferredLayout, LayoutKind, candidate_layouts, image_input, input_size,
    names_from_metadata,
};
use jetwatch_detect::model::ColorOrder;
use jetwatch_files::Sha256Digest;
use jetwatch_types::{Placement, Size};

use crate::background::set_background;
use crate::model_yaml_template_error::ModelYamlTemplateError;

/// The comment above `license`.
const LICENSE_COMMENT: &str = "# The terms of the weights: an SPDX identifier, and where the file came from. NOASSERTION: not checked.";

/// The values of a `model.yaml`.
#[derive(Debug, Clone)]
pub struct ModelYamlTemplate {
    inferred: InferredLayout,
    /// Other matching layouts.
    others: Vec<&'static str>,
    is_forced: bool,
    /// Whether the caller knows the place of the background.
    is_background_given: bool,
    input: String,
    /// Whether the input takes bytes instead of floats.
    is_bytes: bool,
    /// What it takes, where the network itself normalizes the pixels.
    takes: Option<PixelRange>,
    size: Size,
    labels: Vec<String>,
    labels_from: String,
    license: Option<String>,
    precision: &'static str,
}

/// Origin and hashes of a file.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// Name of the model.
    pub name: &'a str,
    /// Name of the ONNX file in the model's folder.
    pub file: &'a str,
    /// SHA-256 of the file.
    pub sha256: Sha256Digest,
    /// Files next to it in which the network keeps weights, by the paths that it gives, with their SHA-256.
    pub weights: &'a [(String, Sha256Digest)],
    /// Name of a labels file in the folder, instead of the labels in the text.
    pub labels_file: Option<&'a str>,
}

impl ModelYamlTemplate {
    /// Creates the template for `network`; `layout` forces one, `size` is the input size of a network with a dynamic one,
    /// `labels` are the class names if they are known.
    ///
    /// # Errors
    /// No input takes images, its size is not known, no layout matches, or the labels do not match the classes.
    pub fn new(
        network: &Network,
        layout: Option<&str>,
        size: Option<Size>,
        labels: Option<Vec<String>>,
    ) -> Result<Self, ModelYamlTemplateError> {
        Ok(Self::candidates(network, layout, size, labels.as_deref(), None)?.remove(0))
    }

    /// As [`new`](Self::new), with a template for every layout that fits, the most likely first; at least one. `background`
    /// is the place of the background class of an SSD, if it is known.
    ///
    /// # Errors
    /// As for [`new`](Self::new), or the layout has no background class.
    pub fn candidates(
        network: &Network,
        layout: Option<&str>,
        size: Option<Size>,
        labels: Option<&[String]>,
        background: Option<SsdBackground>,
    ) -> Result<Vec<Self>, ModelYamlTemplateError> {
        if let Some(wanted) = layout.filter(|layout| layouts::find(layout).is_none()) {
            return Err(ModelYamlTemplateError::UnknownLayout {
                wanted: wanted.to_owned(),
            });
        }
        let is_other = |task: &&str| ["pose", "obb", "semantic", "depth"].contains(task);
        if let Some(task) = network.metadata_value("task").filter(is_other) {
            let task = task.to_owned();
            return Err(ModelYamlTemplateError::OtherTask { task });
        }
        let Some(input) = image_input(network) else {
            let found = joined(
                network
                    .inputs
                    .iter()
                    .map(|input| format!("`{}` {input}", input.name)),
            );
            return Err(ModelYamlTemplateError::NoInput { found });
        };
        let axes = input.axes.as_deref().unwrap_or(&[]);
        if let Some(Axis::Fixed(_)) = axes.get(1).filter(|planes| **planes != Axis::Fixed(3)) {
            return Err(ModelYamlTemplateError::NoPlanes {
                input: input.name.clone(),
                found: input.to_string(),
                is_last: axes.get(3) == Some(&Axis::Fixed(3)),
            });
        }
        let noted = input_size(network);
        let is_fixed = input
            .axes
            .as_ref()
            .is_some_and(|axes| axes[2..].iter().all(|axis| matches!(axis, Axis::Fixed(_))));
        if let (Some(wanted), Some(size), true) = (size, noted, is_fixed)
            && wanted != size
        {
            return Err(ModelYamlTemplateError::OtherSize { wanted, size });
        }
        if let Some(input) = layouts::others::text_input(network) {
            let input = input.to_owned();
            return Err(ModelYamlTemplateError::Text { input });
        }
        let Some(size) = size.or(noted) else {
            return Err(ModelYamlTemplateError::NoSize {
                input: input.name.clone(),
                found: input.to_string(),
            });
        };
        if layouts::others::has_angles(network, size) {
            let task = "obb".to_owned();
            return Err(ModelYamlTemplateError::OtherTask { task });
        }
        if let Some(output) = layouts::finished::only_indices(network) {
            let output = output.to_owned();
            return Err(ModelYamlTemplateError::OnlyIndices { output });
        }
        let all = candidate_layouts(network, Some(size));
        let is_wanted =
            |guess: &&InferredLayout| layout.is_none_or(|wanted| guess.layout == wanted);
        let likely: Vec<&InferredLayout> = all.iter().filter(is_wanted).collect();
        // What a run decides comes last: the first ones are as such networks usually are.
        let variants = likely.iter().flat_map(|guess| guess.variants());
        let fitting: Vec<InferredLayout> =
            likely.iter().copied().cloned().chain(variants).collect();
        let draft = |guess: &InferredLayout| -> Result<Self, ModelYamlTemplateError> {
            let mut guess = guess.clone();
            let known = labels
                .map(<[String]>::to_vec)
                .or_else(|| names_from_metadata(network));
            set_background(&mut guess, background, known.as_deref())?;
            let (labels, labels_from) = labels_of(network, &guess, labels.map(<[String]>::to_vec))?;
            guess.found.classes = labels.len();
            let others = all
                .iter()
                .map(|other| other.layout)
                .filter(|other| *other != guess.layout);
            let mut others: Vec<&'static str> = others.collect();
            others.dedup();
            Ok(Self {
                others,
                inferred: guess,
                is_forced: layout.is_some(),
                is_background_given: background.is_some(),
                input: input.name.clone(),
                is_bytes: input.element == Some(Element::UINT8),
                takes: input.takes,
                size,
                labels,
                labels_from,
                // Ultralytics notes `AGPL-3.0 License (ADDRESS)`.
                license: network
                    .metadata_value("license")
                    .and_then(|license| license.split_whitespace().next())
                    .map(str::to_owned),
                precision: precision(network),
            })
        };
        let (drafts, errors): (Vec<_>, Vec<_>) = fitting.iter().map(draft).partition(Result::is_ok);
        let drafts: Vec<Self> = drafts.into_iter().flatten().collect();
        let raw_boxes = layouts::ssd::raw_boxes(network, size);
        match (drafts.is_empty(), errors.into_iter().find_map(Result::err)) {
            (false, _) => Ok(drafts),
            (true, Some(error)) => Err(error),
            (true, None) if let Some(output) = raw_boxes => {
                Err(ModelYamlTemplateError::RawBoxes { output })
            }
            (true, None) => Err(ModelYamlTemplateError::NoLayout {
                outputs: joined(
                    network
                        .outputs
                        .iter()
                        .map(|output| format!("`{}` {output}", output.name)),
                ),
                size,
                wanted: layout.map(str::to_owned),
                reason: layouts::others::likely_reason(network, size),
            }),
        }
    }

    /// The layout and why.
    pub fn inferred(&self) -> &InferredLayout {
        &self.inferred
    }

    /// Class names in the network's order.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// The text of `model.yaml`.
    #[must_use]
    pub fn text(&self, origin: Origin<'_>) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text, origin);
        text
    }

    fn write(&self, text: &mut String, origin: Origin<'_>) -> std::fmt::Result {
        let layout = self.inferred.layout();
        let (networks, input) = self.inferred.origin();
        writeln!(
            text,
            "# Drafted by `jetwatch model init` from {}.",
            quoted(origin.file)
        )?;
        writeln!(
            text,
            "# Names, sizes and the hash were read from the file. Lines marked GUESS were not: an ONNX file does not"
        )?;
        let then = match layout.kind {
            LayoutKind::Embedding => "name it in `secondary` and in `tracker.appearance`",
            LayoutKind::Classifier => "name it in `secondary` and check its results",
            LayoutKind::Detector => "see `jetwatch eval` on images with boxes",
        };
        writeln!(
            text,
            "# contain them. Compare them with the training of the network, then {then}."
        )?;
        writeln!(text, "name: {}", quoted(origin.name))?;
        writeln!(text, "input:")?;
        writeln!(text, "  name: {}", quoted(&self.input))?;
        if let Some(sizes) = &self.inferred.sizes_name {
            writeln!(
                text,
                "  sizes_name: {}   # takes the width and height of the input",
                quoted(sizes)
            )?;
        }
        if let Some(scales) = &self.inferred.scales_name {
            writeln!(
                text,
                "  scales_name: {}   # takes the scale of the images",
                quoted(scales)
            )?;
        }
        writeln!(text, "  width: {}", self.size.width)?;
        writeln!(text, "  height: {}", self.size.height)?;
        let normalized = match self.takes {
            Some(PixelRange::Bytes) => Some(([0.0; 3], [1.0; 3])),
            Some(PixelRange::Unit) => Some(([0.0; 3], [1.0 / 255.0; 3])),
            None => None,
        };
        let guessed = if self.is_bytes || normalized.is_some() {
            "color"
        } else {
            "color, mean, scale"
        };
        writeln!(
            text,
            "  # GUESS: {guessed} and letterbox are usual for {}.",
            networks
        )?;
        let color = match input.color {
            ColorOrder::Bgr => "bgr",
            ColorOrder::Rgb => "rgb",
        };
        writeln!(text, "  color: {color}")?;
        if self.is_bytes {
            writeln!(
                text,
                "  type: uint8   # pixels as they are: the network normalizes them itself"
            )?;
        } else {
            if normalized.is_some() {
                writeln!(text, "  # The network subtracts and scales itself.")?;
            }
            let (mean, scale) = normalized.unwrap_or((input.mean, input.scale));
            writeln!(
                text,
                "  mean: {}    # subtracted from 0..255, in the order of the colors",
                three(mean)
            )?;
            writeln!(text, "  scale: {}   # multiplied after that", three(scale))?;
        }
        let placement = match input.placement {
            Placement::TopLeft => "top_left",
            Placement::Center => "center",
            Placement::Stretch => "stretch",
        };
        writeln!(
            text,
            "  letterbox: {{value: {}, placement: {placement}}}",
            input.padding
        )?;
        if self.is_forced {
            writeln!(
                text,
                "# The layout was requested; it fits: {}.",
                one_line(&self.inferred.found.reason)
            )?;
        } else {
            writeln!(text, "# GUESS: {}.", one_line(&self.inferred.found.reason))?;
        }
        if !self.others.is_empty() {
            writeln!(
                text,
                "# The shapes fit these layouts too: {}.",
                self.others.join(", ")
            )?;
        }
        writeln!(text, "output:")?;
        writeln!(text, "  layout: {}", self.inferred.layout)?;
        self.write_tensors(text)?;
        for (key, value) in &self.inferred.found.parameters {
            let is_given = self.is_background_given && *key == BACKGROUND_KEY;
            let mark = if is_given { "" } else { "   # GUESS" };
            writeln!(text, "  {key}: {value}{mark}")?;
        }
        if layout.kind != LayoutKind::Embedding {
            writeln!(text, "score_threshold: {}", layout.score_threshold)?;
        }
        if layout.needs_suppression {
            writeln!(text, "nms_iou: 0.45")?;
        }
        let license = self.license.as_deref().unwrap_or("NOASSERTION");
        writeln!(text, "{LICENSE_COMMENT}")?;
        writeln!(
            text,
            "license: {{spdx: {}, source: {}}}",
            quoted(license),
            quoted(&format!("local file {}", origin.file))
        )?;
        writeln!(text, "files:")?;
        let weights: Vec<String> = origin
            .weights
            .iter()
            .map(|(location, sha256)| format!("{}: {sha256}", quoted(location)))
            .collect();
        let weights = match weights.as_slice() {
            [] => String::new(),
            some => format!(", weights: {{{}}}", some.join(", ")),
        };
        writeln!(
            text,
            "  {}: {{file: {}, sha256: {}{weights}}}",
            self.precision,
            quoted(origin.file),
            origin.sha256
        )?;
        if layout.kind == LayoutKind::Embedding {
            return Ok(());
        }
        writeln!(text, "# {}", one_line(&self.labels_from))?;
        match origin.labels_file {
            Some(file) => writeln!(text, "labels_file: {}", quoted(file)),
            None => {
                let names: Vec<String> = self.labels.iter().map(|label| quoted(label)).collect();
                let lines: Vec<String> = names.chunks(8).map(|names| names.join(", ")).collect();
                // Indented: after a quoted name some readers refuse a bracket at the line's start.
                writeln!(text, "labels: [\n  {}\n  ]", lines.join(",\n  "))
            }
        }
    }

    fn write_tensors(&self, text: &mut String) -> std::fmt::Result {
        if let [role] = self.inferred.found.tensors.as_slice()
            && role.key == "name"
        {
            return writeln!(text, "  name: {}", quoted(&role.names[0]));
        }
        writeln!(text, "  tensors:")?;
        for role in &self.inferred.found.tensors {
            let names: Vec<String> = role.names.iter().map(|name| quoted(name)).collect();
            if role.is_list {
                writeln!(text, "    {}: [{}]", role.key, names.join(", "))?;
            } else {
                writeln!(text, "    {}: {}", role.key, names[0])?;
            }
        }
        Ok(())
    }
}

/// The key below `files`: the precision of most of the network.
fn precision(network: &Network) -> &'static str {
    let quantized = &network.quantization;
    if quantized.quantized_layers + quantized.integer_nodes > 0 {
        "int8"
    } else if network.half_weights > 0 {
        "fp16"
    } else {
        "fp32"
    }
}

/// The labels, and a sentence that states where they come from.
fn labels_of(
    network: &Network,
    guess: &InferredLayout,
    given: Option<Vec<String>>,
) -> Result<(Vec<String>, String), ModelYamlTemplateError> {
    let is_given = given.is_some();
    if guess.layout().kind == LayoutKind::Embedding {
        if is_given {
            return Err(ModelYamlTemplateError::LabelsOfEmbedding);
        }
        return Ok((Vec::new(), String::new()));
    }
    let classes = guess.found.classes;
    let fitting = |labels: &Vec<String>| classes == 0 || labels.len() == classes;
    // Names in another number than the classes belong to another network.
    let noted = names_from_metadata(network)
        .map(|names| without_background(names, guess))
        .filter(fitting);
    if let Some(mut labels) = given
        .map(|names| without_background(names, guess))
        .or(noted)
    {
        if !fitting(&labels) {
            return Err(ModelYamlTemplateError::LabelCount {
                labels: labels.len(),
                classes,
                layout: guess.layout,
                reason: guess.found.reason.clone(),
            });
        }
        number_placeholders(&mut labels, 0);
        let mut seen = HashSet::new();
        if let Some(label) = labels.iter().find(|label| !seen.insert(label.trim())) {
            return Err(ModelYamlTemplateError::SameLabel {
                label: label.clone(),
            });
        }
        let from = if is_given {
            "Labels as given."
        } else {
            "Labels from the exporter's metadata in the file."
        };
        return Ok((labels, from.to_owned()));
    }
    if classes == 0 {
        return Err(ModelYamlTemplateError::NoLabels {
            layout: guess.layout,
        });
    }
    let labels = (0..classes).map(|class| format!("class_{class}")).collect();
    let replace = "replace these with the names, in the order of the network's classes.";
    let from = match unused_names(network, classes) {
        Some(unused) => format!("GUESS: {unused}; {replace}"),
        None => format!("The file has no class names: {replace}"),
    };
    Ok((labels, from))
}

/// `labels` without the background, where it is the first or the last and the network has no class for it.
fn without_background(mut labels: Vec<String>, guess: &InferredLayout) -> Vec<String> {
    let counts_from_1 = guess
        .found
        .parameters
        .iter()
        .any(|(key, value)| (*key, value.as_str()) == ("first_class", "1"));
    let is_one_more = match guess.found.classes {
        0 => counts_from_1,
        classes => labels.len() == classes + 1,
    };
    let is_none = |label: Option<&String>| label.is_some_and(|label| is_placeholder(label));
    if is_one_more && is_none(labels.first()) {
        labels.remove(0);
    } else if is_one_more && is_none(labels.last()) {
        labels.pop();
    }
    labels
}

fn joined(tensors: impl Iterator<Item = String>) -> String {
    let tensors: Vec<String> = tensors.collect();
    if tensors.is_empty() {
        "none".to_owned()
    } else {
        tensors.join(", ")
    }
}

/// A text as YAML: JSON's quoted form is YAML's too, and nothing in it can end the line.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./ ".contains(c);
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(is_plain)
        && !text.ends_with(' ')
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
        );
    if is_word {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}

/// A reason as part of a comment: names in it come from the file. A byte order mark may stand between quotes only.
fn one_line(text: &str) -> String {
    let breaks = |c: char| c.is_control() || c == '\u{feff}';
    text.replace(breaks, " ")
}

fn three(values: [f32; 3]) -> String {
    if values[0] == values[1] && values[1] == values[2] {
        return values[0].to_string();
    }
    format!("[{}, {}, {}]", values[0], values[1], values[2])
}
