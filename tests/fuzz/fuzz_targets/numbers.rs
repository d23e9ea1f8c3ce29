// SPDX-License-Identifier: Apache-2.0
//! The numbers of a tensor as the bytes of the fuzzer draw them: few bytes make many numbers.
//!
//! It knows no layout. Called by [`drawn`](super::drawn), and by the target `layouts` for shares.

use jetwatch_detect::decoders::{DType, TensorShape, TensorView};
use libfuzzer_sys::arbitrary::{Error, Result, Unstructured};

use DType::{F32, I32, I64};

/// Most numbers of a tensor.
const MAX_NUMBERS: usize = 1 << 16;

/// Greatest of the whole numbers that are not special: about as many as a tensor has rows.
const MAX_WHOLE: i64 = 150;

/// TensorView at which something changes: limits of scores, of exponentials, of the type.
const SPECIAL: [f32; 24] = [
    0.0,
    -0.0,
    1.0,
    0.5,
    0.3,
    -0.05,
    1.05,
    -0.06,
    1.06,
    0.999_999_94,
    2.0,
    -1.0,
    16.5,
    -30.0,
    88.7,
    89.0,
    -104.0,
    1e-40,
    f32::MIN_POSITIVE,
    f32::MAX,
    f32::MIN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
];

/// One output tensor, without its batch axis.
#[derive(Debug)]
pub struct Tensor {
    element: DType,
    axes: Vec<usize>,
    floats: Vec<f32>,
    narrow: Vec<i32>,
    wide: Vec<i64>,
}

impl Tensor {
    /// With these axes. Whole numbers are mostly below `classes`. Fails when it would be too large.
    pub fn new(
        bytes: &mut Unstructured<'_>,
        element: DType,
        axes: Vec<usize>,
        classes: usize,
    ) -> Result<Self> {
        let len: usize = axes.iter().product();
        if len > MAX_NUMBERS {
            return Err(Error::IncorrectFormat);
        }
        let mut tensor = Self {
            element,
            axes,
            floats: Vec::new(),
            narrow: Vec::new(),
            wide: Vec::new(),
        };
        match element {
            F32 => tensor.floats = floats(bytes, len)?,
            I32 | I64 => {
                tensor.wide = whole(bytes, len, classes)?;
                // Cutting bits off gives limits of this type too.
                tensor.narrow = tensor.wide.iter().map(|number| *number as i32).collect();
            }
        }
        Ok(tensor)
    }

    pub fn shape(&self) -> TensorShape<'_> {
        TensorShape {
            element: self.element,
            axes: &self.axes,
        }
    }

    pub fn numbers(&self) -> TensorView<'_> {
        match self.element {
            F32 => TensorView::F32(&self.floats),
            I32 => TensorView::I32(&self.narrow),
            I64 => TensorView::I64(&self.wide),
        }
    }
}

/// A share, such as a threshold: its limits and what lies near them as often as anything between.
pub fn share(bytes: &mut Unstructured<'_>) -> Result<f32> {
    let usual = [0.3, 0.0, 1.0, f32::MIN_POSITIVE, 1e-40, 0.999_999_94, 0.5];
    match bytes.int_in_range(0..=usual.len())? {
        place if place < usual.len() => Ok(usual[place]),
        _ => Ok(f32::from(bytes.arbitrary::<u16>()?) / f32::from(u16::MAX)),
    }
}

/// Few bytes make many numbers: one for all, some again and again, or some spread over a range; then a few are replaced.
fn floats(bytes: &mut Unstructured<'_>, len: usize) -> Result<Vec<f32>> {
    let ranges = [
        [0.0, 1.0],
        [0.0, 100.0],
        [-10.0, 10.0],
        [0.2, 0.4],
        [-1e4, 1e4],
    ];
    let kind = bytes.int_in_range(0..=ranges.len())?;
    let mut numbers: Vec<f32> = if let Some([low, high]) = ranges.get(kind) {
        let mut state: u32 = bytes.arbitrary()?;
        (0..len)
            .map(|_| {
                // The linear congruential generator of "Numerical Recipes": any spread will do.
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                low + (high - low) * (state >> 8) as f32 / (1 << 24) as f32
            })
            .collect()
    } else {
        let count = bytes.int_in_range(1..=8)?;
        let few = (0..count)
            .map(|_| float(bytes))
            .collect::<Result<Vec<_>>>()?;
        few.iter().copied().cycle().take(len).collect()
    };
    replace(bytes, &mut numbers, float)?;
    Ok(numbers)
}

fn float(bytes: &mut Unstructured<'_>) -> Result<f32> {
    let place = bytes.int_in_range(0..=SPECIAL.len())?;
    match SPECIAL.get(place) {
        Some(special) => Ok(*special),
        None => Ok(f32::from_bits(bytes.arbitrary()?)),
    }
}

/// Mostly classes and counts.
fn whole(bytes: &mut Unstructured<'_>, len: usize, classes: usize) -> Result<Vec<i64>> {
    let modulus = bytes.int_in_range(1..=classes + 1)?;
    let first = bytes.int_in_range(0..=classes)?;
    let mut numbers = (0..len)
        .map(|place| ((first + place) % modulus) as i64)
        .collect::<Vec<_>>();
    replace(bytes, &mut numbers, |bytes| {
        let usual = [
            0,
            -1,
            1,
            classes as i64,
            i64::MAX,
            i64::MIN,
            i64::from(i32::MAX),
            1 << 32,
        ];
        match bytes.int_in_range(0..=usual.len() + 1)? {
            place if place < usual.len() => Ok(usual[place]),
            place if place == usual.len() => bytes.int_in_range(0..=MAX_WHOLE),
            _ => bytes.arbitrary(),
        }
    })?;
    Ok(numbers)
}

/// Replaces a few of `numbers` by what `draw` gives.
fn replace<T>(
    bytes: &mut Unstructured<'_>,
    numbers: &mut [T],
    draw: impl Fn(&mut Unstructured<'_>) -> Result<T>,
) -> Result<()> {
    if numbers.is_empty() {
        return Ok(());
    }
    for _ in 0..bytes.int_in_range(0..=8)? {
        let place = bytes.choose_index(numbers.len())?;
        numbers[place] = draw(bytes)?;
    }
    Ok(())
}
