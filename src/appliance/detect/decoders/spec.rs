// SPDX-License-Identifier: Apache-2.0
//! The output as `model.yaml` describes it: tensors, layout, parameters.
//!
//! Read and checked in [`model_yaml`](crate::model), turned into an [`OutputDecoder`] after a first run of the network has
//! given the shapes of its outputs. A new layout needs a variant here and a row in the table of keys.

use super::classifier::{Classifier, ClassifierScores};
use super::darknet::Darknet;
use super::darknet_grids::{DarknetGrids, DarknetGridsParameters};
use super::detectnet_v2::{DetectNetParameters, DetectNetV2};
use super::detr::{Detr, DetrParameters};
use super::embedding::Embedding;
use super::fastestdet::FastestDet;
use super::fcos::{Fcos, FcosParameters};
use super::gfl::{Gfl, GflParameters};
use super::nms_plugin::{NmsPluginParameters, SuppressedBoxes};
use super::picodet_nms::PicoDetNms;
use super::ssd::{Ssd, SsdParameters};
use super::yolov5::Yolov5;
use super::yolov8::Yolov8;
use super::yolox::Yolox;
use super::yolox_grids::YoloxGrids;
use super::{Mismatch, OutputDecoder, TensorShape};
use jetwatch_types::Size;

/// Maximum number of output tensors of a layout: three for each of five grids.
pub const MAX_TENSORS: usize = 15;

/// The output of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputSpec {
    /// Names of the tensors in the network, in the layout's order; at least one, at most [`MAX_TENSORS`].
    pub tensors: Vec<String>,
    /// Layout of the boxes.
    pub layout: OutputLayout,
}

/// Layout of the boxes in the output, with the parameters that the tensors do not contain.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputLayout {
    /// See [`yolox`](super::yolox).
    Yolox,
    /// See [`yolox_grids`](super::yolox_grids).
    YoloxGrids,
    /// See [`yolov5`](super::yolov5).
    Yolov5,
    /// See [`yolov8`](super::yolov8).
    Yolov8,
    /// See [`darknet`](super::darknet).
    Darknet,
    /// See [`darknet_grids`](super::darknet_grids).
    DarknetGrids(DarknetGridsParameters),
    /// See [`fcos`](super::fcos).
    Fcos(FcosParameters),
    /// See [`detr`](super::detr).
    Detr(DetrParameters),
    /// See [`nms_plugin`](super::nms_plugin).
    NmsPlugin(NmsPluginParameters),
    /// See [`gfl`](super::gfl).
    Gfl(GflParameters),
    /// See [`picodet_nms`](super::picodet_nms).
    PicoDetNms,
    /// See [`detectnet_v2`](super::detectnet_v2).
    DetectNetV2(DetectNetParameters),
    /// See [`fastestdet`](super::fastestdet).
    FastestDet,
    /// See [`ssd`](super::ssd).
    Ssd(SsdParameters),
    /// See [`classifier`](super::classifier).
    Classifier(ClassifierScores),
    /// See [`embedding`](super::embedding).
    Embedding,
}

impl OutputLayout {
    /// The decoder for a network with this `input` and number of classes, whose tensors are `shapes` in the layout's order.
    pub fn create_decoder(
        &self,
        input: Size,
        classes: usize,
        shapes: &[TensorShape<'_>],
    ) -> Result<Box<dyn OutputDecoder>, Mismatch> {
        Ok(match self {
            Self::Yolox => Box::new(Yolox::new(input, classes, shapes)?),
            Self::YoloxGrids => Box::new(YoloxGrids::new(input, classes, shapes)?),
            Self::Yolov5 => Box::new(Yolov5::new(input, classes, shapes)?),
            Self::Yolov8 => Box::new(Yolov8::new(input, classes, shapes)?),
            Self::Darknet => Box::new(Darknet::new(input, classes, shapes)?),
            Self::DarknetGrids(parameters) => {
                Box::new(DarknetGrids::new(parameters, input, classes, shapes)?)
            }
            Self::Fcos(parameters) => Box::new(Fcos::new(parameters, input, classes, shapes)?),
            Self::Detr(parameters) => Box::new(Detr::new(parameters, input, classes, shapes)?),
            Self::NmsPlugin(parameters) => {
                Box::new(SuppressedBoxes::new(parameters, input, classes, shapes)?)
            }
            Self::Gfl(parameters) => Box::new(Gfl::new(parameters, input, classes, shapes)?),
            Self::PicoDetNms => Box::new(PicoDetNms::new(input, classes, shapes)?),
            Self::DetectNetV2(parameters) => {
                Box::new(DetectNetV2::new(parameters, input, classes, shapes)?)
            }
            Self::FastestDet => Box::new(FastestDet::new(input, classes, shapes)?),
            Self::Ssd(parameters) => Box::new(Ssd::new(parameters, input, classes, shapes)?),
            Self::Classifier(scores) => Box::new(Classifier::new(*scores, input, classes, shapes)?),
            Self::Embedding => Box::new(Embedding::new(shapes)?),
        })
    }

    /// The sides of the input must be multiples of this, or cells would be missing at the edge. 1 where the network
    /// itself gives the positions of its boxes.
    #[must_use]
    pub const fn side_multiple(&self) -> u32 {
        match self {
            Self::Yolox | Self::YoloxGrids | Self::DarknetGrids(_) => 32,
            Self::DetectNetV2(_) | Self::FastestDet => 16,
            Self::Yolov5
            | Self::Yolov8
            | Self::Darknet
            | Self::Fcos(_)
            | Self::Detr(_)
            | Self::NmsPlugin(_)
            | Self::Gfl(_)
            | Self::PicoDetNms
            | Self::Ssd(_)
            | Self::Classifier(_)
            | Self::Embedding => 1,
        }
    }

    /// Kind of scores of a classifier; `None` for layouts with boxes.
    #[must_use]
    pub const fn classifier(&self) -> Option<ClassifierScores> {
        match self {
            Self::Classifier(scores) => Some(*scores),
            _ => None,
        }
    }

    /// Whether the output is one vector for the whole image, and no label or box.
    #[must_use]
    pub const fn is_embedding(&self) -> bool {
        matches!(self, Self::Embedding)
    }

    /// Whether the output has one row per object, so that its length differs from image to image. Such a network
    /// takes one image at a time, and its tensor may be without a batch axis.
    #[must_use]
    pub const fn rows_vary(&self) -> bool {
        matches!(self, Self::PicoDetNms)
    }
}
