// SPDX-License-Identifier: Apache-2.0
//! Infers the output layout of a network from its shapes, names, operators and metadata. Pure.
//!
//! An ONNX file does not define the meaning of its outputs, so every answer is a guess with a reason. Each layout recognizes its
//! own outputs; here are the views of the outputs that they share, and the order of the guesses.

use serde::Serialize;

use jetwatch_types::Size;

use super::{LAYOUTS, Layout, Preprocessing, find};
use crate::class_names;
use crate::graph::{Axis, Element, Network, Tensor};

/// Strides of most networks.
pub(super) const THREE: [u32; 3] = [8, 16, 32];
/// Strides of networks with one coarse grid more.
pub(super) const FOUR: [u32; 4] = [8, 16, 32, 64];
/// Strides of tiny networks.
pub(super) const TINY: [u32; 2] = [16, 32];
/// Strides of one more fine grid.
const FINE: [u32; 4] = [4, 8, 16, 32];
/// The strides of the heads that networks have, the most frequent first; the last are those for small objects only.
pub(super) const HEADS: [&[u32]; 6] = [&THREE, &FINE, &FOUR, &TINY, &[4, 8, 16], &[8, 16]];
/// Maximum number of rows that stand for objects; lists with a row for each cell or anchor are longer.
pub(super) const MAX_OBJECTS: u64 = 1000;

/// Operators of non-maximum suppression.
const SUPPRESSION: [&str; 7] = [
    "NonMaxSuppression",
    "GenerateDetection_TRT",
    "EfficientNMS_TRT",
    "BatchedNMS_TRT",
    "BatchedNMSDynamic_TRT",
    "NMS_TRT",
    "NMSDynamic_TRT",
];

/// Parts of the names of outputs that are not the boxes: of training, of a transformer's encoder, of features, and of masks.
const FURTHER: [&str; 6] = [
    "aux",
    "enc_topk",
    "hidden_state",
    "intermediate",
    "mask",
    "proto",
];

/// Parts of the names of scores.
const SCORES: [&str; 6] = ["score", "logit", "label", "class", "conf", "prob"];

/// How sure a guess is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// The shapes fit, something else speaks against it.
    Possible,
    /// The shapes fit, and networks of other layouts rarely have them.
    Likely,
    /// The shapes or an operator leave no doubt.
    Certain,
}

/// A layout that fits a network, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InferredLayout {
    /// Value of `output.layout`.
    pub layout: &'static str,
    /// How the outputs have it.
    #[serde(flatten)]
    pub found: Recognized,
    /// Name of a further input that takes the size of the images.
    pub sizes_name: Option<String>,
    /// Name of a further input that takes their scale.
    pub scales_name: Option<String>,
}

/// One way in which the outputs of a network have a layout.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recognized {
    /// How sure that is.
    pub certainty: Certainty,
    /// Evidence for it.
    pub reason: String,
    /// Number of classes; 0 where the outputs do not contain it.
    pub classes: usize,
    /// The outputs that hold the boxes.
    pub tensors: Vec<TensorRole>,
    /// Other keys of `output`, with their values as YAML.
    pub parameters: Vec<(&'static str, String)>,
    /// Networks and preprocessing, where they are not the layout's usual ones.
    #[serde(skip)]
    pub origin: Option<(&'static str, Preprocessing)>,
}

/// Outputs of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TensorRole {
    /// `name` for a single output, or the key below `output.tensors`.
    pub key: &'static str,
    /// Names of the outputs.
    pub names: Vec<String>,
    /// Whether each grid has one.
    pub is_list: bool,
}

/// The most likely layout.
pub fn infer_layout(network: &Network, size: Option<Size>) -> Option<InferredLayout> {
    candidate_layouts(network, size).into_iter().next()
}

/// Every layout that fits the network, the most likely first. A layout occurs several times where networks of several families have
/// it, with other preprocessing or other keys. `size` is the input size of a network with a dynamic one.
pub fn candidate_layouts(network: &Network, size: Option<Size>) -> Vec<InferredLayout> {
    let Some(outputs) = Outputs::new(network, size) else {
        return Vec::new();
    };
    let guess = |layout: &'static Layout, found| InferredLayout {
        layout: layout.name,
        found,
        sizes_name: outputs.extra_input(Element::INT64),
        scales_name: outputs.extra_input(Element::FLOAT),
    };
    let guesses = LAYOUTS.iter().flat_map(|layout| {
        let found = (layout.recognize)(&outputs).into_iter();
        found.map(|found| guess(layout, found))
    });
    let mut found: Vec<InferredLayout> = guesses.collect();
    found.sort_by_key(|guess| std::cmp::Reverse(guess.found.certainty));
    found
}

impl InferredLayout {
    /// The layout.
    #[must_use]
    pub fn layout(&self) -> &'static Layout {
        find(self.layout).expect("guesses are made from the table")
    }

    /// The same with another unit of its boxes, other scores or another first class, which neither shapes nor names show, but a run
    /// of the network.
    #[must_use]
    pub fn variants(&self) -> Vec<Self> {
        let given = |key: &str| self.parameter(key);
        let units: &[&str] = match (self.layout().has_key("boxes_are"), given("boxes_are")) {
            (true, Some("normalized")) => &["normalized", "pixels"],
            (true, None | Some("pixels")) => &["pixels", "normalized"],
            _ => &[],
        };
        let activations: &[&str] = match given("activation") {
            Some("none") => &["none", "softmax", "sigmoid"],
            _ => &[],
        };
        let classes: &[&str] = match given("first_class") {
            Some("1") => &["1", "0"],
            Some(_) => &["0", "1"],
            None => &[],
        };
        let choices = [
            ("boxes_are", units),
            ("activation", activations),
            ("first_class", classes),
        ];
        let mut all = vec![self.clone()];
        for (key, values) in choices {
            let Some(others) = values.get(1..) else {
                continue;
            };
            for value in others {
                let with = |guess: &Self| guess.with_parameter(key, value);
                let more: Vec<Self> = all
                    .iter()
                    .filter(|guess| guess.is_without(key, others))
                    .map(with)
                    .collect();
                all.extend(more);
            }
        }
        all.remove(0);
        all
    }

    /// Whether this is `other` with another activation or first class of the same labels: needless where `other` is accepted.
    pub fn mends(&self, other: &Self) -> bool {
        let differs = |key: &&str| self.parameter(key) != other.parameter(key);
        self.layout == other.layout
            && self.found.tensors == other.found.tensors
            && self.found.classes == other.found.classes
            && ["activation", "first_class"].iter().any(differs)
    }

    fn parameter(&self, key: &str) -> Option<&str> {
        let mut parameters = self.found.parameters.iter();
        let found = parameters.find(|(known, _)| *known == key);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether `key` has none of `values`.
    fn is_without(&self, key: &str, values: &[&str]) -> bool {
        !(self.found.parameters.iter())
            .any(|(known, value)| *known == key && values.contains(&value.as_str()))
    }

    fn with_parameter(&self, key: &'static str, value: &str) -> Self {
        let mut other = self.clone();
        other.found.certainty = Certainty::Possible;
        let parameters = &mut other.found.parameters;
        parameters.retain(|(known, _)| *known != key);
        parameters.push((key, value.to_owned()));
        let why = format!("; {key} is {value} by a run on a made-up image");
        other.found.reason.push_str(&why);
        other
    }

    /// Networks that have it, and their preprocessing.
    pub fn origin(&self) -> (&'static str, Preprocessing) {
        let layout = self.layout();
        self.found.origin.unwrap_or((layout.networks, layout.input))
    }
}

impl Recognized {
    /// Without further keys.
    pub(super) fn new(
        certainty: Certainty,
        classes: u64,
        tensors: Vec<TensorRole>,
        reason: String,
    ) -> Self {
        Self {
            certainty,
            reason,
            classes: classes as usize,
            tensors,
            parameters: Vec::new(),
            origin: None,
        }
    }
}

/// The input that takes images: float or byte tensors of four axes.
pub fn image_input(network: &Network) -> Option<&Tensor> {
    let has_four = |tensor: &&Tensor| tensor.axes.as_ref().is_some_and(|axes| axes.len() == 4);
    network.inputs.iter().find(has_four)
}

/// Width and height of the input, as far as the file contains them: in its shape, or in the exporter's metadata.
pub fn input_size(network: &Network) -> Option<Size> {
    let axes = image_input(network)?.axes.as_ref()?;
    let side = |axis: &Axis| match axis {
        Axis::Fixed(len) => u32::try_from(*len).ok(),
        Axis::Open(_) => None,
    };
    if let (Some(height), Some(width)) = (side(&axes[2]), side(&axes[3])) {
        return Some(Size::new(width, height));
    }
    let noted = network.metadata_value("imgsz")?;
    let sides: Vec<u32> = noted
        .trim_matches(['[', ']', '(', ')'])
        .split(',')
        .map_while(|side| side.trim().parse().ok())
        .collect();
    match sides.as_slice() {
        [side] => Some(Size::new(*side, *side)),
        [height, width] => Some(Size::new(*width, *height)),
        _ => None,
    }
}

/// Class names in the exporter's metadata.
pub fn names_from_metadata(network: &Network) -> Option<Vec<String>> {
    class_names::from_metadata(&network.metadata).map(|(_, names)| names)
}

/// The outputs of a network with what tells their meaning.
pub(super) struct Outputs<'a> {
    pub(super) network: &'a Network,
    pub(super) list: Vec<Output<'a>>,
    /// Outputs that are no boxes, and are not in the list.
    pub(super) further: Vec<Output<'a>>,
    /// Of the input.
    pub(super) size: Size,
    /// Of the classes, as the exporter noted them.
    pub(super) names: Option<Vec<String>>,
}

/// An output without its batch axis.
pub(super) struct Output<'a> {
    pub(super) tensor: &'a Tensor,
    pub(super) name: &'a str,
    pub(super) element: Element,
    /// `None` for dynamic ones.
    pub(super) axes: Vec<Option<u64>>,
    /// The operator that computes it.
    pub(super) made_by: Option<&'a str>,
}

/// The only output, or the last of several of one shape, `[rows, columns]`.
pub(super) struct Matrix<'a> {
    pub(super) output: &'a Output<'a>,
    pub(super) rows: u64,
    pub(super) columns: u64,
}

/// Boxes in one of two outputs, scores in the other.
pub(super) struct Pair<'a> {
    pub(super) boxes: &'a Output<'a>,
    pub(super) scores: &'a Output<'a>,
    /// `None` if it is dynamic.
    pub(super) rows: Option<u64>,
    /// Scores of a row.
    pub(super) columns: u64,
    /// Whether there is a box for each anchor of Darknet's grids, three in each cell.
    pub(super) has_three_per_cell: bool,
    /// Whether there is a box for each cell of a head.
    pub(super) is_dense: bool,
}

impl<'a> Outputs<'a> {
    pub(super) fn new(network: &'a Network, size: Option<Size>) -> Option<Self> {
        let list: Option<Vec<Output<'a>>> = network.outputs.iter().map(Output::new).collect();
        let (list, further) = without_further(list?);
        Some(Self {
            network,
            list,
            further,
            size: size.or_else(|| input_size(network))?,
            names: names_from_metadata(network),
        })
    }

    /// The only output, if it is a matrix of floats whose rows and columns are fixed. None behind a suppression.
    pub(super) fn matrix(&self) -> Option<Matrix<'_>> {
        self.any_matrix()
            .filter(|matrix| !self.is_suppressed(matrix))
    }

    fn is_suppressed(&self, matrix: &Matrix<'_>) -> bool {
        self.has_operator(&["NonMaxSuppression"])
            || matrix.columns == 6
                && !matrix.output.joins_scores()
                && (matrix.rows <= MAX_OBJECTS || self.has_best_class())
    }

    /// Whether an operator of non-maximum suppression is in the network.
    pub(super) fn is_behind_suppression(&self) -> bool {
        self.has_operator(&SUPPRESSION)
    }

    /// Of several of one shape the last: YOLOv9 has those of its auxiliary branches before it.
    fn any_matrix(&self) -> Option<Matrix<'_>> {
        let (output, before) = self.list.split_last()?;
        if before.iter().any(|other| other.axes != output.axes) {
            return None;
        }
        let [Some(rows), Some(columns)] = *output.axes.as_slice() else {
            return None;
        };
        output.is_float().then_some(Matrix {
            output,
            rows,
            columns,
        })
    }

    /// Boxes `[rows, 4]` or `[rows, 1, 4]` in one of two outputs and scores `[rows, columns]` in the other.
    pub(super) fn pairs(&self) -> Vec<Pair<'_>> {
        self.pairs_by(|scores| match *scores {
            [rows, Some(columns)] => Some((rows, columns)),
            _ => None,
        })
    }

    /// As [`pairs`](Self::pairs), but with scores `[columns, rows]`.
    pub(super) fn pairs_in_planes(&self) -> Vec<Pair<'_>> {
        self.pairs_by(|scores| match *scores {
            [Some(columns), rows] => Some((rows, columns)),
            _ => None,
        })
    }

    /// `rows_and_columns` gives those of the scores from their axes.
    fn pairs_by(
        &self,
        rows_and_columns: impl Fn(&[Option<u64>]) -> Option<(Option<u64>, u64)>,
    ) -> Vec<Pair<'_>> {
        let [first, second] = self.list.as_slice() else {
            return Vec::new();
        };
        let pair = |(boxes, scores)| {
            let (boxes, scores): (&Output<'_>, &Output<'_>) = (boxes, scores);
            let (rows, columns) = rows_and_columns(&scores.axes)?;
            let is_single = matches!(boxes.axes.as_slice(), [_, Some(1), Some(4)]);
            // Some exporters leave the axis of the four numbers open.
            let is_named = matches!(boxes.axes.as_slice(), [_, None]) && boxes.name.contains("box");
            let is_fit = (boxes.is_boxes() || is_single || is_named) && boxes.axes[0] == rows;
            // A score tensor of four columns could be either; the names decide then, or which of both has corners.
            let is_named_score =
                |output: &Output<'_>| SCORES.iter().any(|part| output.name.contains(part));
            let is_corner = |output: &Output<'_>| output.tensor.has_corners == Some(true);
            let are_corners_in_scores =
                !is_named_score(scores) && is_corner(scores) && !is_corner(boxes);
            let is_swapped = columns == 4 && (is_named_score(boxes) || are_corners_in_scores);
            if !is_fit || !scores.is_float() || is_swapped {
                return None;
            }
            let three_each = |strides: &[u32]| rows == Some(3 * self.cells(strides));
            let has_three_per_cell = is_single || three_each(&TINY) || three_each(&THREE);
            Some(Pair {
                boxes,
                scores,
                rows,
                columns,
                has_three_per_cell,
                is_dense: rows.is_some_and(|rows| self.strides_with(rows, 1).is_some()),
            })
        };
        [(first, second), (second, first)]
            .into_iter()
            .filter_map(pair)
            .collect()
    }

    /// The only output, if it is one vector of floats for each image, perhaps with further axes of length 1.
    pub(super) fn vector(&self) -> Option<&Output<'a>> {
        let [output] = self.list.as_slice() else {
            return None;
        };
        let rest = output.axes.get(1..)?;
        // Rows of boxes behind a suppression have no batch axis, so that their columns look like classes.
        let is_vector = rest.iter().all(|axis| *axis == Some(1))
            && output.is_float()
            && !self.is_behind_suppression()
            && self.is_per_image();
        is_vector.then_some(output)
    }

    /// Whether the first axis of the output can be that of the images.
    fn is_per_image(&self) -> bool {
        let first = |axes: Option<&Vec<Axis>>| match axes.and_then(|axes| axes.first()) {
            Some(Axis::Fixed(len)) => Some(*len),
            _ => None,
        };
        let images = first(image_input(self.network).and_then(|input| input.axes.as_ref()));
        let outputs = &self.network.outputs;
        let rows = first(outputs.first().and_then(|output| output.axes.as_ref()));
        match (images, rows) {
            (Some(images), Some(rows)) => images == rows,
            _ => true,
        }
    }

    /// The outputs, if each is the map of one of `strides` and all have the same number of channels, with this number.
    pub(super) fn maps(&self, strides: &[u32]) -> Option<(u64, Vec<&Output<'a>>)> {
        match self.list.len() == strides.len() {
            true => self.maps_among(strides, None),
            false => None,
        }
    }

    /// The first maps of `strides` among the outputs, all with the same number of channels, which is `wanted` if given.
    pub(super) fn maps_among(
        &self,
        strides: &[u32],
        wanted: Option<u64>,
    ) -> Option<(u64, Vec<&Output<'a>>)> {
        let mut channels = wanted;
        let mut found = Vec::new();
        for stride in strides {
            let output = self.list.iter().find(|output| {
                self.channels_at(output, *stride)
                    .is_some_and(|len| channels.is_none_or(|channels| channels == len))
            })?;
            channels = output.axes[0];
            found.push(output);
        }
        Some((channels?, found))
    }

    /// Channels of `output` if it is a float map `[channels, height, width]` of the grid of `stride`.
    pub(super) fn channels_at(&self, output: &Output<'_>, stride: u32) -> Option<u64> {
        match *output.axes.as_slice() {
            [Some(channels), Some(height), Some(width)]
                if (width, height) == self.grid(stride) && output.is_float() =>
            {
                Some(channels)
            }
            _ => None,
        }
    }

    /// Whether the input is higher than those of detectors and classifiers: networks that tell persons or vehicles apart have
    /// inputs of 256×128, 128×64 or 160×60.
    pub(super) fn is_high(&self) -> bool {
        f64::from(self.size.height) >= 1.5 * f64::from(self.size.width)
    }

    /// Width and height of the grid of `stride`.
    pub(super) fn grid(&self, stride: u32) -> (u64, u64) {
        let side = |pixels: u32| u64::from(pixels.div_ceil(stride));
        (side(self.size.width), side(self.size.height))
    }

    /// Cells of the grids of `strides`.
    pub(super) fn cells(&self, strides: &[u32]) -> u64 {
        let cells = |stride: &u32| {
            let (width, height) = self.grid(*stride);
            width * height
        };
        strides.iter().map(cells).sum()
    }

    /// The first of [`HEADS`] whose grids together have `rows` for `each` per cell.
    pub(super) fn strides_with(&self, rows: u64, each: u64) -> Option<&'static [u32]> {
        let fits = |strides: &&'static [u32]| rows == each * self.cells(strides);
        HEADS.into_iter().find(fits)
    }

    /// Whether the activations inside are `x·σ(x)`, as in networks since YOLOv5, and not Darknet's.
    pub(super) fn has_silu(&self) -> bool {
        let of_darknet = ["LeakyRelu", "Mish", "Softplus", "Tanh"];
        self.has_operator(&["Sigmoid"]) && !self.has_operator(&of_darknet)
    }

    /// The family that LibreYOLO notes; empty without.
    pub(super) fn family(&self) -> &str {
        self.network
            .metadata_value("model_family")
            .unwrap_or_default()
    }

    /// Whether centers and sizes may be computed from distances to the sides: by a division, and by two subtractions, or one and
    /// the softmax of distributions. Images are normalized by one of each.
    pub(super) fn has_centers(&self) -> bool {
        let is_computed = self.network.count("Sub") > 1 || self.has_operator(&["Softmax"]);
        self.has_operator(&["Div"]) && is_computed
    }

    /// Whether boxes may be computed from distances to their sides, perhaps as distributions.
    pub(super) fn has_distances(&self) -> bool {
        self.has_operator(&["Softmax", "Sub"])
    }

    /// Coefficients that segmentation networks have behind the classes of a box, one for each of their prototypes
    /// `[count, height / 4, width / 4]`, and a phrase on them; 0 without.
    pub(super) fn mask_coefficients(&self) -> (u64, String) {
        let counts = self.further.iter();
        let count = counts
            .filter_map(|output| self.channels_at(output, 4))
            .next();
        let why = count.map(|count| {
            format!("; {count} numbers behind them are coefficients of masks, which are not used")
        });
        (count.unwrap_or(0), why.unwrap_or_default())
    }

    /// The key for them.
    pub(super) fn mask_parameter(&self) -> Vec<(&'static str, String)> {
        let (count, _) = self.mask_coefficients();
        let key = ("mask_coefficients", count.to_string());
        (count > 0).then_some(key).into_iter().collect()
    }

    /// A second input with two numbers per image: sizes are integers, scales are not.
    pub(super) fn extra_input(&self, element: Element) -> Option<String> {
        let is_pair = |axes: &Vec<Axis>| matches!(axes.as_slice(), [_, Axis::Fixed(2)]);
        let inputs = &self.network.inputs;
        let found = inputs.iter().find(|input| {
            input.element == Some(element) && input.axes.as_ref().is_some_and(is_pair)
        });
        found.map(|input| input.name.clone())
    }

    /// Whether one of these operators is in the network.
    pub(super) fn has_operator(&self, names: &[&str]) -> bool {
        let operators = &self.network.operators;
        let own = operators.iter().map(|operator| operator.name.as_str());
        let fused = self.network.fused.keys().map(String::as_str);
        own.chain(fused).any(|operator| names.contains(&operator))
    }

    /// Whether the name of a weight has this part.
    pub(super) fn has_weight(&self, part: &str) -> bool {
        let names = &self.network.weight_names;
        names.iter().any(|name| name.contains(part))
    }

    /// Whether the network is from PaddlePaddle: its producer, or the names of its tensors show it.
    pub(super) fn is_paddle(&self) -> bool {
        let is_numbered = |name: &str| name.contains(".tmp_") || name.starts_with("fetch_name_");
        let mut outputs = self.network.outputs.iter();
        self.network.producer.to_lowercase().contains("paddle")
            || outputs.any(|output| is_numbered(&output.name))
    }

    /// Number of class names that the exporter noted; 0 without.
    pub(super) fn noted_classes(&self) -> u64 {
        self.names.as_ref().map_or(0, |names| names.len() as u64)
    }

    /// `certainty`, or less where the noted class names are not as many.
    pub(super) fn limited(&self, certainty: Certainty, classes: u64) -> Certainty {
        match &self.names {
            Some(names) if names.len() as u64 != classes => Certainty::Possible,
            _ => certainty,
        }
    }

    /// A phrase on whether the number of class names is `classes`.
    pub(super) fn agrees(&self, classes: u64) -> &'static str {
        match &self.names {
            Some(names) if names.len() as u64 == classes => "; the noted class names are as many",
            Some(_) => "; but the noted class names are not as many",
            None => "",
        }
    }

    /// Whether the network gives all its boxes with the best class of each, as DeepStream-Yolo's scripts have it.
    pub(super) fn has_best_of_all(&self) -> bool {
        self.has_operator(&["ArgMax"]) && !self.is_behind_suppression()
    }

    /// Whether the network chooses the best class of each box.
    pub(super) fn has_best_class(&self) -> bool {
        self.has_operator(&["ArgMax", "TopK"])
    }
}

impl Matrix<'_> {
    /// The guess that it has boxes of this number of classes; `why` becomes part of the reason. None without a class.
    pub(super) fn recognized(
        &self,
        outputs: &Outputs<'_>,
        certainty: Certainty,
        classes: Option<u64>,
        why: &str,
    ) -> Option<Recognized> {
        let classes = classes.filter(|classes| *classes > 0)?;
        let last = match outputs.list.len() {
            1 => "",
            _ => ", the last of its shape",
        };
        let reason = format!(
            "output {}{last}: {why}{}",
            self.output.shape(),
            outputs.agrees(classes)
        );
        let tensors = vec![single("name", self.output)];
        let certainty = outputs.limited(certainty, classes);
        Some(Recognized::new(certainty, classes, tensors, reason))
    }
}

impl Pair<'_> {
    /// Whether the scores of a box add up to 1, so that one is of the background.
    pub(super) fn has_softmax(&self) -> bool {
        self.scores.made_by == Some("Softmax")
    }

    /// The guess that the scores are those of `classes`; `why` becomes part of the reason.
    pub(super) fn recognized(
        &self,
        outputs: &Outputs<'_>,
        certainty: Certainty,
        classes: u64,
        why: &str,
    ) -> Recognized {
        let reason = format!(
            "boxes {} and scores {}: {why}{}",
            self.boxes.shape(),
            self.scores.shape(),
            outputs.agrees(classes)
        );
        let tensors = vec![single("boxes", self.boxes), single("scores", self.scores)];
        let certainty = outputs.limited(certainty, classes);
        Recognized::new(certainty, classes, tensors, reason)
    }
}

impl<'a> Output<'a> {
    fn new(tensor: &'a Tensor) -> Option<Self> {
        let axes = tensor.axes.as_ref()?;
        Some(Self {
            tensor,
            name: &tensor.name,
            element: tensor.element?,
            axes: axes
                .iter()
                .skip(1)
                .map(|axis| match axis {
                    Axis::Fixed(len) => Some(*len),
                    Axis::Open(_) => None,
                })
                .collect(),
            made_by: tensor.made_by.as_deref(),
        })
    }

    pub(super) fn is_float(&self) -> bool {
        matches!(self.element, Element::FLOAT | Element::FLOAT16)
    }

    /// Whether it is `[rows, 4]`.
    pub(super) fn is_boxes(&self) -> bool {
        self.is_float() && matches!(self.axes.as_slice(), [_, Some(4)])
    }

    /// Whether it joins boxes and scores, with nothing between them.
    pub(super) fn joins_scores(&self) -> bool {
        matches!(&self.tensor.joined[..], [_, scores] if scores == "Sigmoid")
    }

    /// Channels of the convolutions that it joins; empty where it joins none.
    pub(super) fn joined_channels(&self) -> Vec<u64> {
        let joined = &self.tensor.convolutions;
        let channels = joined.iter().filter(|_| joined.len() > 1);
        channels.map(|joined| joined.channels).collect()
    }

    /// The shape as text, for a reason.
    pub(super) fn shape(&self) -> String {
        let axes: Vec<String> = self
            .axes
            .iter()
            .map(|axis| axis.map_or_else(|| "?".to_owned(), |len| len.to_string()))
            .collect();
        format!("[{}]", axes.join(", "))
    }
}

/// Divides the outputs into those that may be boxes and those that are not: by name; maps beside a matrix, which are masks or a head
/// before its decoding; sums of the scores, which some exports have beside them; and what a transformer has behind its boxes.
fn without_further(list: Vec<Output<'_>>) -> (Vec<Output<'_>>, Vec<Output<'_>>) {
    let has_matrix = list.iter().any(|output| output.axes.len() == 2);
    let has_channels = |output: &Output<'_>| matches!(output.axes.as_slice(), [Some(channels), _, _] if *channels > 1);
    let has_maps = list.iter().any(has_channels);
    let is_further = |output: &Output<'_>| {
        let is_single = matches!(output.axes.as_slice(), [_, Some(1), Some(4)]);
        let is_map = output.axes.len() > 2 && !is_single;
        let is_sum = matches!(output.axes.as_slice(), [Some(1), _, _])
            && matches!(output.made_by, Some("Clip" | "ReduceSum"));
        FURTHER.iter().any(|part| output.name.contains(part))
            || has_matrix && is_map
            || has_maps && is_sum
    };
    if list.iter().all(is_further) {
        return (list, Vec::new());
    }
    let (mut list, mut further): (Vec<_>, Vec<_>) =
        list.into_iter().partition(|output| !is_further(output));
    if begins_with_queries(&list) {
        further.extend(list.drain(2..));
    }
    (list, further)
}

/// Narrowest features of a query.
const MIN_FEATURES: u64 = 32;

/// Whether the list begins with logits and boxes of queries and goes on with features of them, as do the outputs of a network of
/// transformers that is exported without a choice among them.
fn begins_with_queries(list: &[Output<'_>]) -> bool {
    let [logits, boxes, rest @ ..] = list else {
        return false;
    };
    let is_feature = |output: &Output<'_>| matches!(output.axes.as_slice(), [_, Some(width)] if output.is_float() && *width >= MIN_FEATURES);
    let [Some(rows), Some(_)] = *logits.axes.as_slice() else {
        return false;
    };
    let is_short = rows <= MAX_OBJECTS && boxes.axes.first() == Some(&Some(rows));
    is_short && logits.is_float() && boxes.is_boxes() && rest.iter().any(is_feature)
}

/// One output of a kind.
pub(super) fn single(key: &'static str, output: &Output<'_>) -> TensorRole {
    TensorRole {
        is_list: false,
        ..per_grid(key, &[output])
    }
}

/// One output of a kind for each grid.
pub(super) fn per_grid(key: &'static str, outputs: &[&Output<'_>]) -> TensorRole {
    TensorRole {
        key,
        names: outputs
            .iter()
            .map(|output| output.name.to_owned())
            .collect(),
        is_list: true,
    }
}

#[cfg(test)]
pub(super) mod tests;
