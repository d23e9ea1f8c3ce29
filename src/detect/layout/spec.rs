//! What `model.yaml` says of the output: which tensors, in which layout, with which parameters.
//!
//! Read and checked in [`model_keys`](crate::detect::model), turned into a [`Head`] once a first run of the network has
//! shown what the tensors really are. A new layout has a variant here and a row in the table of keys.

use super::darknet::Darknet;
use super::darknet_grids::{DarknetGrids, DarknetGridsParameters};
use super::yolov5::Yolov5;
use super::yolov8::Yolov8;
use super::yolox::Yolox;
use super::yolox_grids::YoloxGrids;
use super::{Head, Mismatch, Shape};
use crate::types::Size;

/// Most output tensors of a layout: three for each of five grids.
pub const MOST_TENSORS: usize = 15;

/// The output of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputSpec {
    /// Names of the tensors in the network, in the layout's order; at least one, at most [`MOST_TENSORS`].
    pub tensors: Vec<String>,
    /// How boxes are written in them.
    pub layout: OutputLayout,
}

/// How boxes are written in the output, with what cannot be learned from the tensors.
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
}

impl OutputLayout {
    /// The head for a network with this `input` and number of classes, whose tensors are `shapes` in the layout's order.
    pub fn head(
        &self,
        input: Size,
        classes: usize,
        shapes: &[Shape<'_>],
    ) -> Result<Box<dyn Head>, Mismatch> {
        Ok(match self {
            Self::Yolox => Box::new(Yolox::new(input, classes, shapes)?),
            Self::YoloxGrids => Box::new(YoloxGrids::new(input, classes, shapes)?),
            Self::Yolov5 => Box::new(Yolov5::new(input, classes, shapes)?),
            Self::Yolov8 => Box::new(Yolov8::new(input, classes, shapes)?),
            Self::Darknet => Box::new(Darknet::new(input, classes, shapes)?),
            Self::DarknetGrids(parameters) => {
                Box::new(DarknetGrids::new(parameters, input, classes, shapes)?)
            }
        })
    }

    /// What the sides of the input must be multiples of, or cells would be missing at the edge; 1 where the network
    /// itself says where its boxes are.
    #[must_use]
    pub const fn side_multiple(&self) -> u32 {
        match self {
            Self::Yolox | Self::YoloxGrids | Self::DarknetGrids(_) => 32,
            Self::Yolov5 | Self::Yolov8 | Self::Darknet => 1,
        }
    }
}
