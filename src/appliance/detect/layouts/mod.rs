// SPDX-License-Identifier: Apache-2.0
//! Output layouts: one file for each holds all that is known of it, one line in [`LAYOUTS`] makes it known.
//!
//! A layout's file has its names, its keys in `model.yaml`, how it is recognized in an ONNX file, the preprocessing of its
//! networks, and its decoder. Everything else works from the table: [`keys`] reads `output` of `model.yaml`,
//! [`recognize`] infers the layout of a network, and [`decode`](super::decode) runs the decoder. These know no layout by name.

pub mod classifier;
pub mod darknet;
pub mod detectnet_v2;
pub mod detr;
pub mod embedding;
pub mod fastestdet;
pub mod fcos;
pub mod finished;
pub mod gfl;
pub(crate) mod keys;
pub mod others;
mod recognize;
#[cfg(test)]
mod reference_tests;
pub mod ssd;
pub mod yolo_nas;
pub mod yolov5;
pub mod yolov5_raw;
pub mod yolov8;
pub mod yolov8_raw;
pub mod yolox;

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use jetwatch_config::{KeySpec, Map};
use jetwatch_types::Placement;

use self::keys::{FileReader, TensorForm};
pub use self::keys::{MAX_TENSORS, Tensors};
use self::recognize::Outputs;
pub use self::recognize::{
    Certainty, InferredLayout, Recognized, TensorRole, candidate_layouts, image_input,
    infer_layout, input_size, names_from_metadata,
};
use crate::decoders::{BoxedDecoder, Mismatch, NetworkShape};
use crate::model::ColorOrder;

/// Every layout, in the order in which help lists them and equally likely guesses are preferred.
pub const LAYOUTS: [&Layout; 20] = [
    &yolox::YOLOX,
    &yolov5::YOLOV5,
    &yolov8::YOLOV8,
    &yolo_nas::YOLO_NAS,
    &yolov5_raw::YOLOV5_RAW,
    &yolov8_raw::YOLOV8_RAW,
    &darknet::YOLOV3,
    &darknet::YOLOV4,
    &fcos::FCOS,
    &detr::DETR,
    &finished::FINISHED,
    &gfl::NANODET,
    &gfl::PICODET,
    &detectnet_v2::DETECTNET_V2,
    &fastestdet::FASTESTDET,
    &ssd::SSD,
    &classifier::SOFTMAX,
    &classifier::LOGITS,
    &classifier::SIGMOID,
    &embedding::EMBEDDING,
];

/// What a value of `output.layout` means.
#[derive(Debug)]
pub struct Layout {
    /// The value.
    pub name: &'static str,
    /// Networks that have it.
    pub networks: &'static str,
    /// Required outputs of one image, where `C` is the number of classes, for errors and help.
    pub needs: &'static str,
    /// What its networks find.
    pub kind: LayoutKind,
    /// Usual preprocessing.
    pub input: Preprocessing,
    /// Usual score threshold.
    pub score_threshold: f32,
    /// Whether boxes of one object overlap.
    pub needs_suppression: bool,
    /// The ways to name the tensors; of those with roles, the first whose first role is given is meant.
    tensors: &'static [TensorForm],
    /// Groups of keys besides the tensors.
    keys: &'static [&'static [KeySpec]],
    /// Reads these keys. Without tensors, whose errors are reported already, what depends on them is not checked.
    read: ReadParameters,
    /// The ways in which the outputs of a network have this layout, the most likely first.
    recognize: fn(&Outputs<'_>) -> Vec<Recognized>,
}

impl Layout {
    /// Whether `output` may have this key, besides the layout and its tensors.
    fn has_key(&self, name: &str) -> bool {
        self.keys
            .iter()
            .copied()
            .flatten()
            .any(|key| key.name == name)
    }
}

/// Reads the parameters in the map `output`, given its tensors and a reader of files in the model's folder.
type ReadParameters =
    fn(&Map<'_>, Option<&Tensors>, FileReader<'_>) -> Option<Arc<dyn OutputLayout>>;

/// What networks find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayoutKind {
    /// Boxes with labels.
    Detector,
    /// Labels of the whole image.
    Classifier,
    /// A vector of the whole image, without labels.
    Embedding,
}

/// The preprocessing of the authors' training. An ONNX file does not contain it, so it is always a guess.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Preprocessing {
    /// Order of the planes.
    pub color: ColorOrder,
    /// Subtracted from each value, 0 to 255, in the order of the planes.
    pub mean: [f32; 3],
    /// Factor after the subtraction.
    pub scale: [f32; 3],
    /// Position of the scaled image.
    pub placement: Placement,
    /// Value of the padding, 0 to 255.
    pub padding: u8,
}

/// 0 to 255 as they are.
const RAW: Preprocessing = Preprocessing {
    color: ColorOrder::Bgr,
    mean: [0.0; 3],
    scale: [1.0; 3],
    placement: Placement::Stretch,
    padding: 114,
};

/// Red first, 0 to 1.
const UNIT: Preprocessing = Preprocessing {
    color: ColorOrder::Rgb,
    scale: [0.003_921_569; 3],
    ..RAW
};

/// As [`UNIT`], and the image keeps its shape.
const CENTERED: Preprocessing = Preprocessing {
    placement: Placement::Center,
    ..UNIT
};

/// Red first, by ImageNet's mean and deviation.
const IMAGENET: Preprocessing = Preprocessing {
    mean: [123.675, 116.28, 103.53],
    scale: [0.017_124_8, 0.017_507, 0.017_429_2],
    ..UNIT
};

/// What most detectors have in common.
const DETECTOR: Layout = Layout {
    name: "",
    networks: "",
    needs: "",
    kind: LayoutKind::Detector,
    input: UNIT,
    score_threshold: 0.3,
    needs_suppression: true,
    tensors: &[TensorForm::Name],
    keys: &[],
    read: |_, _, _| None,
    recognize: |_| Vec::new(),
};

/// The layout with this name.
pub fn find(name: &str) -> Option<&'static Layout> {
    LAYOUTS.into_iter().find(|layout| layout.name == name)
}

/// A layout with the parameters that the tensors do not contain.
pub trait OutputLayout: Any + Debug + Send + Sync {
    /// The decoder for `network`.
    ///
    /// # Errors
    /// The first tensor that does not fit.
    fn create_decoder(&self, network: &NetworkShape<'_>) -> Result<BoxedDecoder, Mismatch>;

    /// The sides of the input must be multiples of this, or cells would be missing at the edge. 1 where the network
    /// itself gives the positions of its boxes.
    fn side_multiple(&self) -> u32 {
        1
    }

    /// What the network finds.
    fn kind(&self) -> LayoutKind {
        LayoutKind::Detector
    }

    /// Whether several labels of a classifier apply at once.
    fn allows_several(&self) -> bool {
        false
    }

    /// Number of the first class in outputs that hold numbers of classes.
    fn first_class(&self) -> u32 {
        0
    }

    /// Whether the output has one row per object, so that its length differs from image to image. Such a network
    /// takes one image at a time, and its tensors may be without a batch axis.
    fn rows_vary(&self) -> bool {
        false
    }
}

/// The output of a network.
#[derive(Debug, Clone)]
pub struct OutputSpec {
    /// Names of the tensors in the network, in the layout's order; at least one, at most [`MAX_TENSORS`].
    pub tensors: Vec<String>,
    /// Layout of the boxes.
    pub layout: Arc<dyn OutputLayout>,
}

impl OutputSpec {
    /// Whether the tensors have a batch axis, where the first of them has this number of axes.
    pub(crate) fn has_batch_axis(&self, axes_of_first: usize) -> bool {
        !self.layout.rows_vary() || axes_of_first != 2
    }

    /// The axes of each tensor of one image, where a run of `slots` images has these.
    ///
    /// # Errors
    /// Index of the tensor whose first axis is not `slots`.
    pub fn axes_of_image<'a>(
        &self,
        axes_of_run: &[&'a [usize]],
        slots: usize,
    ) -> Result<Vec<&'a [usize]>, usize> {
        let has_batch = self.has_batch_axis(axes_of_run.first().map_or(0, |axes| axes.len()));
        let of_image = |(tensor, axes): (usize, &&'a [usize])| match axes.split_first() {
            _ if !has_batch => Ok(*axes),
            Some((batch, axes)) if *batch == slots => Ok(axes),
            // A count of the only image.
            None if self.layout.rows_vary() => Ok(*axes),
            _ => Err(tensor),
        };
        axes_of_run.iter().enumerate().map(of_image).collect()
    }
}

/// Layouts are equal when all their parameters are, which their debug text contains.
impl PartialEq for OutputSpec {
    fn eq(&self, other: &Self) -> bool {
        self.tensors == other.tensors
            && format!("{:?}", self.layout) == format!("{:?}", other.layout)
    }
}
