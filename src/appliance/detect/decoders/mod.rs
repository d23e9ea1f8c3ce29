//! Output layouts: how each family of networks writes its boxes. Pure; one file a family.
//!
//! A [`OutputDecoder`] is made once, from `model.yaml` and from the shapes that a first run of the network really gave, and then
//! decodes picture after picture: numbers in, [`Candidate`]s in input pixels out. It neither suppresses nor clips nor
//! knows the source's size; [`decode`](super::decode) does that for all of them.

mod activation;
mod argmax;
pub mod boxes;
mod candidates;
pub mod classifier;
pub mod darknet;
pub mod darknet_grids;
pub mod detectnet_v2;
pub mod detr;
pub mod fastestdet;
pub mod fcos;
#[cfg(test)]
mod fixture;
pub mod gfl;
mod grids;
pub mod nms_plugin;
pub mod picodet_nms;
mod rows;
mod shape;
pub mod spec;
pub mod ssd;
pub mod ssd_anchors;
mod tensors;
pub mod yolov5;
pub mod yolov8;
pub mod yolox;
pub mod yolox_grids;

use std::fmt::Debug;

use super::{Candidate, ClassFilter};

/// Scores are at most 1; 8-bit networks round a little beyond.
pub const MAX_SCORE: f32 = 1.05;

/// The numbers of one picture in one output tensor: the batch axis is taken off, the rest lies in memory order.
#[derive(Debug, Clone, Copy)]
pub enum TensorView<'a> {
    /// 32-bit floats, also for networks that are 16-bit or 8-bit inside.
    F32(&'a [f32]),
    /// 32-bit integers: counts and classes of TensorRT's NMS plug-ins.
    I32(&'a [i32]),
    /// 64-bit integers: classes of exports that end with a top-k.
    I64(&'a [i64]),
}

/// Type of the elements of an output tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DType {
    /// See [`TensorView::F32`].
    F32,
    /// See [`TensorView::I32`].
    I32,
    /// See [`TensorView::I64`].
    I64,
}

/// What the network says of one output tensor.
#[derive(Debug, Clone, Copy)]
pub struct TensorShape<'a> {
    /// Type of its elements.
    pub element: DType,
    /// Its axes without the batch axis.
    pub axes: &'a [usize],
}

/// Why a tensor does not fit the layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Which tensor, by its place in the layout's order.
    pub tensor: usize,
    /// Type and shape that the layout needs, in words such as `float32 [3549, 85]`.
    pub expected: String,
    /// What to look at in `model.yaml` or in the export.
    pub advice: String,
}

/// Place of a number in the output of one picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementIndex {
    /// Which tensor, by its place in the layout's order.
    pub tensor: usize,
    /// Which of its numbers.
    pub index: usize,
}

/// What one picture's output holds besides candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DecodeDiagnostics {
    /// Boxes that were looked at and hold a NaN, an infinity or a corner beyond all bounds. They are no candidates.
    pub non_finite: usize,
    /// The first such number.
    pub first_non_finite: Option<ElementIndex>,
    /// The first score above [`MAX_SCORE`] or below 0: a network that was exported without its sigmoid.
    pub first_beyond_one: Option<ElementIndex>,
    /// The first class number that the labels do not have.
    pub first_unknown_class: Option<ElementIndex>,
}

/// Decodes the output of one family of networks.
pub trait OutputDecoder: Debug + Send {
    /// Replaces `candidates` by the boxes whose score is at least `threshold` and whose class `filter` keeps, in the order
    /// of the output, as `xyxy` in input pixels, unclipped. `tensors` are those of one picture in the layout's order.
    ///
    /// What is below the threshold is looked at no further. Numbers that are no candidates for another reason are told in
    /// the result. Panics when the tensors do not have the shapes that the head was made for.
    fn decode(
        &self,
        tensors: &[TensorView<'_>],
        threshold: f32,
        filter: &ClassFilter,
        candidates: &mut Vec<Candidate>,
    ) -> DecodeDiagnostics;

    /// Whether boxes of one object may overlap, so that they need non-maximum suppression.
    fn needs_suppression(&self) -> bool {
        true
    }
}
