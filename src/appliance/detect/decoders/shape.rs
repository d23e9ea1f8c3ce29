// SPDX-License-Identifier: Apache-2.0
//! Shapes as text for errors, and views of one image in the tensors of a batch. Pure.

use std::fmt;
use std::ops::Range;

use super::tensors::element_name;
use super::{DType, TensorShape, TensorView};

impl DType {
    /// Its name in ONNX.
    #[must_use]
    pub fn name(self) -> &'static str {
        element_name(self)
    }
}

impl fmt::Display for TensorShape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.element.name(), self.axes)
    }
}

impl TensorView<'_> {
    /// Number of elements.
    #[must_use]
    pub fn len(self) -> usize {
        match self {
            Self::F32(numbers) => numbers.len(),
            Self::I32(numbers) => numbers.len(),
            Self::I64(numbers) => numbers.len(),
        }
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The elements of image `index` in the tensor of a run of `count` images. Panics when there are fewer images.
    #[must_use]
    pub fn part(self, index: usize, count: usize) -> Self {
        let len = self.len() / count;
        self.slice(index * len..(index + 1) * len)
    }

    /// The elements in `range`. Panics when there are fewer.
    pub(crate) fn slice(self, range: Range<usize>) -> Self {
        match self {
            Self::F32(numbers) => Self::F32(&numbers[range]),
            Self::I32(numbers) => Self::I32(&numbers[range]),
            Self::I64(numbers) => Self::I64(&numbers[range]),
        }
    }

    /// The element at `index` as text, for errors. Panics when there is none.
    #[must_use]
    pub fn format_value(self, index: usize) -> String {
        match self {
            Self::F32(numbers) => numbers[index].to_string(),
            Self::I32(numbers) => numbers[index].to_string(),
            Self::I64(numbers) => numbers[index].to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_formatted_as_in_onnx() {
        let shape = |element, axes| TensorShape { element, axes }.to_string();
        assert_eq!(shape(DType::F32, &[3549, 85]), "float32 [3549, 85]");
        assert_eq!(shape(DType::I32, &[1]), "int32 [1]");
        assert_eq!(shape(DType::I64, &[]), "int64 []");
    }

    #[test]
    fn batch_is_split_into_equal_parts() {
        let floats = [0.0, 1.0, 2.5, 3.0];
        let TensorView::F32(part) = TensorView::F32(&floats).part(1, 2) else {
            panic!("the type stays")
        };
        assert_eq!(part, [2.5, 3.0]);
        let whole = [7_i64, 8, 9];
        let last = TensorView::I64(&whole).part(2, 3);
        assert_eq!((last.len(), last.format_value(0)), (1, "9".to_owned()));
        assert_eq!(TensorView::F32(&floats).part(1, 2).format_value(0), "2.5");
        assert!(TensorView::I32(&[]).part(3, 4).is_empty());
    }
}
