//! Tensors in words and in parts: what shapes are called in errors, and one picture's share of a whole batch. Pure.

use std::fmt;

use super::tensors::element_name;
use super::{ElementKind, Numbers, Shape};

impl ElementKind {
    /// What ONNX calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        element_name(self)
    }
}

impl fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.element.name(), self.axes)
    }
}

impl Numbers<'_> {
    /// How many there are.
    #[must_use]
    pub fn len(self) -> usize {
        match self {
            Self::F32(numbers) => numbers.len(),
            Self::I32(numbers) => numbers.len(),
            Self::I64(numbers) => numbers.len(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Those of picture `index` in the tensor of a run of `count` pictures. Panics when there are not that many.
    #[must_use]
    pub fn part(self, index: usize, count: usize) -> Self {
        let len = self.len() / count;
        let range = index * len..(index + 1) * len;
        match self {
            Self::F32(numbers) => Self::F32(&numbers[range]),
            Self::I32(numbers) => Self::I32(&numbers[range]),
            Self::I64(numbers) => Self::I64(&numbers[range]),
        }
    }

    /// The number at `index` in words, for errors. Panics when there is none.
    #[must_use]
    pub fn written(self, index: usize) -> String {
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
    fn shapes_are_told_as_onnx_tells_them() {
        let shape = |element, axes| Shape { element, axes }.to_string();
        assert_eq!(shape(ElementKind::F32, &[3549, 85]), "float32 [3549, 85]");
        assert_eq!(shape(ElementKind::I32, &[1]), "int32 [1]");
        assert_eq!(shape(ElementKind::I64, &[]), "int64 []");
    }

    #[test]
    fn a_batch_is_cut_into_equal_parts() {
        let floats = [0.0, 1.0, 2.5, 3.0];
        let Numbers::F32(part) = Numbers::F32(&floats).part(1, 2) else {
            panic!("the type stays")
        };
        assert_eq!(part, [2.5, 3.0]);
        let whole = [7_i64, 8, 9];
        let last = Numbers::I64(&whole).part(2, 3);
        assert_eq!((last.len(), last.written(0)), (1, "9".to_owned()));
        assert_eq!(Numbers::F32(&floats).part(1, 2).written(0), "2.5");
        assert!(Numbers::I32(&[]).part(3, 4).is_empty());
    }
}
