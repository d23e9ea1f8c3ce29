// SPDX-License-Identifier: Apache-2.0
//! Shapes in TensorRT's layout: 32-bit axes in generation 8, 64-bit axes since.

use super::version::Generation;

/// Maximum number of axes of a tensor.
pub(super) const MAX_DIMS: usize = 8;

/// `Dims` of generation 8.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Dims32 {
    count: i32,
    axes: [i32; MAX_DIMS],
}

/// `Dims` of generations 10 and 11.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Dims64 {
    count: i32,
    axes: [i64; MAX_DIMS],
}

/// A shape in either layout, to be passed by pointer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Dims {
    Narrow(Dims32),
    Wide(Dims64),
}

impl Dims {
    /// `axes`, at most 8 of them, in the layout of `generation`; open ones are -1. `None` for more axes or too large ones.
    pub(super) fn new(generation: Generation, axes: &[i64]) -> Option<Self> {
        if axes.len() > MAX_DIMS {
            return None;
        }
        let count = axes.len() as i32;
        if generation == Generation::Eight {
            let mut narrow = Dims32 {
                count,
                ..Dims32::default()
            };
            for (to, from) in narrow.axes.iter_mut().zip(axes) {
                *to = i32::try_from(*from).ok()?;
            }
            return Some(Self::Narrow(narrow));
        }
        let mut wide = Dims64 {
            count,
            ..Dims64::default()
        };
        wide.axes[..axes.len()].copy_from_slice(axes);
        Some(Self::Wide(wide))
    }
}

impl Dims32 {
    pub(super) fn equals(&self, axes: &[i64]) -> bool {
        self.count as usize == axes.len()
            && self
                .axes
                .iter()
                .zip(axes)
                .all(|(own, other)| i64::from(*own) == *other)
    }

    /// The axes; `None` for an invalid shape, which TensorRT marks with a count of -1.
    pub(super) fn axes(&self) -> Option<Vec<i64>> {
        let count = usize::try_from(self.count).ok()?;
        Some(
            self.axes
                .get(..count)?
                .iter()
                .copied()
                .map(i64::from)
                .collect(),
        )
    }
}

impl Dims64 {
    pub(super) fn equals(&self, axes: &[i64]) -> bool {
        self.count as usize == axes.len()
            && self.axes.iter().zip(axes).all(|(own, other)| own == other)
    }

    /// The axes; `None` for an invalid shape.
    pub(super) fn axes(&self) -> Option<Vec<i64>> {
        let count = usize::try_from(self.count).ok()?;
        Some(self.axes.get(..count)?.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_have_the_layout_of_their_generation() {
        assert_eq!(size_of::<Dims32>(), 36);
        assert_eq!(size_of::<Dims64>(), 72);
        let Some(Dims::Narrow(narrow)) = Dims::new(Generation::Eight, &[-1, 3, 384]) else {
            panic!("generation 8 has narrow axes");
        };
        assert_eq!(narrow.axes(), Some(vec![-1, 3, 384]));
        assert!(
            narrow.equals(&[-1, 3, 384])
                && !narrow.equals(&[-1, 3])
                && !narrow.equals(&[-1, 3, 640])
        );
        let Some(Dims::Wide(wide)) = Dims::new(Generation::Ten, &[4, 1 << 40]) else {
            panic!("generation 10 has wide axes");
        };
        assert_eq!(wide.axes(), Some(vec![4, 1 << 40]));
        assert!(
            wide.equals(&[4, 1 << 40]) && !wide.equals(&[4, 1 << 40, 1]) && !wide.equals(&[4, 1])
        );
        assert!(Dims::new(Generation::Eight, &[1 << 40]).is_none());
        assert!(Dims::new(Generation::Eleven, &[1; 9]).is_none());
        let none = Dims32 {
            count: -1,
            ..Dims32::default()
        };
        assert_eq!(none.axes(), None);
        assert!(!none.equals(&[]));
    }
}
