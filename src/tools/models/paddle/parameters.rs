//! Reads `model.pdiparams`: all weights one after the other, without their names, in the order of the sorted names. Pure.
//!
//! ```text
//! u32 version = 0   u64 levels   levels × (u64 bytes, bytes)   u32 version = 0   i32 length   TensorDesc   values
//! ```

use std::collections::BTreeMap;

use jetwatch_detect::graph::protobuf::Message;

use super::PaddleError;
use super::program::Program;

/// `VarType.Type` of the elements: number and bytes of each.
const ELEMENTS: [(i64, usize); 8] = [
    (0, 1),
    (1, 2),
    (2, 4),
    (3, 8),
    (4, 2),
    (FLOAT, 4),
    (6, 8),
    (20, 1),
];

/// `VarType.Type` of a float of 32 bits.
const FLOAT: i64 = 5;

/// A tensor of 32-bit floats.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Weight {
    /// Its axes.
    pub(super) axes: Vec<usize>,
    /// Its values in memory order.
    pub(super) values: Vec<f32>,
}

/// Reads the weights that `program` names. Tensors of other types than 32-bit floats are skipped: no supported operator uses them.
pub(super) fn read<'a>(
    bytes: &[u8],
    program: &Program<'a>,
) -> Result<BTreeMap<&'a str, Weight>, PaddleError> {
    let mut reader = Reader { bytes, at: 0 };
    let mut weights = BTreeMap::new();
    for name in &program.weights {
        if let Some(weight) = reader.tensor(name)? {
            weights.insert(*name, weight);
        }
    }
    if reader.at != bytes.len() {
        return Err(reader.error(format!(
            "found {} bytes after the last of {} weights",
            bytes.len() - reader.at,
            program.weights.len()
        )));
    }
    Ok(weights)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn tensor(&mut self, name: &str) -> Result<Option<Weight>, PaddleError> {
        self.version(name)?;
        let levels = self.length(8, name)?;
        for _ in 0..levels {
            let len = self.length(8, name)?;
            self.take(len, name)?;
        }
        self.version(name)?;
        let len = self.length(4, name)?;
        let start = self.at;
        let described = describe(self.take(len, name)?);
        let (element, axes) = described.ok_or_else(|| PaddleError::Parameters {
            what: format!("no type and shape of the weight `{name}`"),
            at: start,
        })?;
        let count = axes
            .iter()
            .try_fold(1_usize, |count, axis| count.checked_mul(*axis));
        let width = ELEMENTS.iter().find(|(number, _)| *number == element);
        let len = count.and_then(|count| count.checked_mul(width?.1));
        let len = len.ok_or_else(|| PaddleError::Parameters {
            what: format!("type {element} and shape {axes:?} of the weight `{name}`"),
            at: start,
        })?;
        let values = self.take(len, name)?;
        Ok((element == FLOAT).then(|| Weight {
            axes,
            values: values
                .as_chunks()
                .0
                .iter()
                .map(|value| f32::from_le_bytes(*value))
                .collect(),
        }))
    }

    fn version(&mut self, name: &str) -> Result<(), PaddleError> {
        match self.length(4, name)? {
            0 => Ok(()),
            found => Err(self.error(format!(
                "found version {found} of the weight `{name}`, expected 0"
            ))),
        }
    }

    /// A whole number of `width` bytes.
    fn length(&mut self, width: usize, name: &str) -> Result<usize, PaddleError> {
        let number = self.take(width, name)?;
        let number = number
            .iter()
            .rev()
            .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        usize::try_from(number).map_err(|_| self.error(format!("a length of {number} bytes")))
    }

    fn take(&mut self, len: usize, name: &str) -> Result<&'a [u8], PaddleError> {
        let end = self.at.checked_add(len);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| {
            self.error(format!(
                "found {} bytes, expected {len} more of the weight `{name}`",
                self.bytes.len() - self.at
            ))
        })?;
        self.at += len;
        Ok(taken)
    }

    fn error(&self, what: String) -> PaddleError {
        PaddleError::Parameters { what, at: self.at }
    }
}

/// Type and axes of a `TensorDesc`.
fn describe(bytes: &[u8]) -> Option<(i64, Vec<usize>)> {
    let (mut element, mut axes) = (None, Vec::new());
    for field in Message::new(bytes).fields() {
        let field = field.ok()?;
        match field.number {
            1 => element = field.number().ok(),
            2 => {
                let read = field.numbers(|axis| {
                    usize::try_from(axis)
                        .map(|axis| axes.push(axis))
                        .map_err(|_| field.malformed("a negative axis"))
                });
                read.ok()?;
            }
            _ => {}
        }
    }
    Some((element?, axes))
}
