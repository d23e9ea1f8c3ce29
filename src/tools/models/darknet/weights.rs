//! The bytes of a `.weights` file: a header, then the numbers of the layers one after the other. Pure.

use super::DarknetError;

/// Reads a file from its beginning to its end.
pub(super) struct WeightReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> WeightReader<'a> {
    /// Reads the header: three numbers of 32 bits for the version, and the number of images seen in training, which has 64 bits
    /// from version 0.2 on and 32 bits before.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, DarknetError> {
        let number = |index: usize| {
            let part = bytes.get(index * 4..index * 4 + 4)?;
            Some(i32::from_le_bytes(part.try_into().ok()?))
        };
        let too_short = || {
            DarknetError::Weights(format!(
                "found {} bytes, expected a file of Darknet, which begins with a header of 16 or 20 bytes",
                bytes.len()
            ))
        };
        let (major, minor) = number(0).zip(number(1)).ok_or_else(too_short)?;
        if !(0..1000).contains(&major) || !(0..1000).contains(&minor) {
            return Err(DarknetError::Weights(format!(
                "found version {major}.{minor} in its first 8 bytes, expected a .weights file of Darknet, such as version 0.2"
            )));
        }
        let at = if major * 10 + minor >= 2 { 20 } else { 16 };
        if bytes.len() < at {
            return Err(too_short());
        }
        Ok(Self { bytes, at })
    }

    /// The next `count` numbers; `layer` says whose they are.
    pub(super) fn take(
        &mut self,
        count: usize,
        layer: &dyn Fn() -> String,
    ) -> Result<Vec<f32>, DarknetError> {
        let end = count
            .checked_mul(4)
            .and_then(|len| self.at.checked_add(len));
        let part = end.and_then(|end| self.bytes.get(self.at..end));
        let Some(part) = part else {
            let missing = count as u128 * 4 - (self.bytes.len() - self.at) as u128;
            return Err(DarknetError::Weights(format!(
                "it ends after {} bytes, in {}: {missing} bytes are missing for {count} numbers; the file is cut off, or belongs to \
                 another .cfg",
                self.bytes.len(),
                layer()
            )));
        };
        let numbers: Vec<f32> = part
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect();
        if let Some(index) = numbers.iter().position(|number| !number.is_finite()) {
            return Err(DarknetError::Weights(format!(
                "found {} at byte {}, in {}, expected finite numbers; the file is damaged, or belongs to another .cfg",
                numbers[index],
                self.at + index * 4,
                layer()
            )));
        }
        self.at += part.len();
        Ok(numbers)
    }

    /// Fails where something is left.
    pub(super) fn finish(self) -> Result<(), DarknetError> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            left => Err(DarknetError::Weights(format!(
                "{left} bytes are left after the last layer, of {}; the file belongs to another .cfg",
                self.bytes.len()
            ))),
        }
    }
}
