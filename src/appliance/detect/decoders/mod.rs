// SPDX-License-Identifier: Apache-2.0
//! What the decoders of all [layouts](super::layouts) have in common. Pure.
//!
//! An [`OutputDecoder`] is created once, from `model.yaml` and the shapes of the outputs of a first run, and then
//! decodes each image: tensors in, [`Candidate`]s in input pixels out. It neither suppresses nor clips nor
//! maps to source pixels; [`decode`](super::decode) does that for all layouts.

pub(crate) mod activation;
pub mod boxes;
pub(crate) mod candidates;
pub(crate) mod dense;
pub(crate) mod distances;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod grids;
pub(crate) mod objects;
mod shape;
pub(crate) mod tensors;

use std::fmt::Debug;

pub use jetwatch_pixels::argmax::MAX_SCORE;

use self::candidates::CandidateCollector;
use super::{Candidate, ClassFilter};
use jetwatch_types::Size;

/// A decoder of any layout.
pub type BoxedDecoder = Box<dyn OutputDecoder>;

/// The elements of one image in one output tensor, in memory order, without the batch axis.
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

/// Type and shape of one output tensor.
#[derive(Debug, Clone, Copy)]
pub struct TensorShape<'a> {
    /// Type of its elements.
    pub element: DType,
    /// Its axes without the batch axis.
    pub axes: &'a [usize],
}

/// The input of a network, the number of its classes, and its output tensors in the layout's order.
#[derive(Debug, Clone, Copy)]
pub struct NetworkShape<'a> {
    /// Size of the input in pixels.
    pub input: Size,
    /// Number of labels.
    pub classes: usize,
    /// Output tensors of one image.
    pub shapes: &'a [TensorShape<'a>],
}

impl<'a> NetworkShape<'a> {
    /// See the fields.
    pub fn new(input: Size, classes: usize, shapes: &'a [TensorShape<'a>]) -> Self {
        Self {
            input,
            classes,
            shapes,
        }
    }

    /// Input, classes and tensors.
    pub fn parts(&self) -> (Size, usize, &'a [TensorShape<'a>]) {
        (self.input, self.classes, self.shapes)
    }
}

/// Why a tensor does not fit the layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Index of the tensor in the layout's order.
    pub tensor: usize,
    /// Type and shape that the layout needs, as text such as `float32 [3549, 85]`.
    pub expected: String,
    /// What to check in `model.yaml` or in the export.
    pub advice: String,
}

/// Position of an element in the output of one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementIndex {
    /// Index of the tensor in the layout's order.
    pub tensor: usize,
    /// Index of the element in that tensor.
    pub index: usize,
}

/// Invalid values in the output of one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DecodeDiagnostics {
    /// Number of decoded boxes with a NaN, an infinity or an overflowing corner. They are no candidates.
    pub non_finite: usize,
    /// The first such number.
    pub first_non_finite: Option<ElementIndex>,
    /// The first score above [`MAX_SCORE`] or below 0, as of a network that was exported without its sigmoid.
    pub first_beyond_one: Option<ElementIndex>,
    /// The first class index without a label.
    pub first_unknown_class: Option<ElementIndex>,
    /// The first tensor, in the layout's order, with another number of rows than the first one. Nothing was decoded.
    pub other_rows: Option<usize>,
}

/// Decodes the output of one family of networks.
pub trait OutputDecoder: Debug + Send {
    /// Replaces `candidates` by the boxes whose score is at least `threshold` and whose class `filter` keeps, in the order
    /// of the output, as `xyxy` in input pixels, unclipped. `tensors` are those of one image in the layout's order.
    ///
    /// Boxes below the threshold are skipped. Invalid values of the others are reported in the result.
    ///
    /// # Panics
    /// The tensors do not have the shapes that the decoder was created for.
    fn decode(
        &self,
        tensors: &[TensorView<'_>],
        threshold: f32,
        filter: &ClassFilter,
        candidates: &mut Vec<Candidate>,
    ) -> DecodeDiagnostics {
        let mut collector = CandidateCollector::new(threshold, filter, candidates);
        self.collect(tensors, &mut collector);
        collector.decoded
    }

    /// Gives each box of an image to `collector`, as [`decode`](Self::decode) describes.
    ///
    /// # Panics
    /// As [`decode`](Self::decode).
    fn collect(&self, tensors: &[TensorView<'_>], collector: &mut CandidateCollector<'_>);

    /// Whether boxes of one object may overlap, so that they need non-maximum suppression.
    fn needs_suppression(&self) -> bool {
        true
    }

    /// The vector of the image, where the layout is [`embedding`](super::layouts::embedding).
    fn embedding<'t>(&self, _tensors: &[TensorView<'t>]) -> Option<&'t [f32]> {
        None
    }
}
