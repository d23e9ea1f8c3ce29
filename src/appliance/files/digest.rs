// SPDX-License-Identifier: Apache-2.0
//! SHA-256 digests: of model files, engines, calibrations, images and configurations.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// A SHA-256 digest. As text, and in JSON: 64 hexadecimal digits, written in lower case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256Digest([u8; 32]);

/// A text that is no SHA-256 digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected 64 hexadecimal digits")]
pub struct NoDigest;

/// Digests what is given in pieces.
#[derive(Debug, Clone, Default)]
pub struct Sha256Hasher(Sha256);

impl Sha256Hasher {
    /// Appends `bytes`.
    pub fn update(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.update(bytes);
    }

    /// The digest of all bytes.
    #[must_use]
    pub fn finish(self) -> Sha256Digest {
        Sha256Digest(self.0.finalize().into())
    }
}

impl Sha256Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of the rest of `reader`.
    ///
    /// # Errors
    /// The reader fails.
    pub fn of_reader(reader: &mut impl Read) -> io::Result<Self> {
        let mut hasher = Sha256Hasher::default();
        for_each_chunk(reader, |chunk| {
            hasher.update(chunk);
            Ok(())
        })?;
        Ok(hasher.finish())
    }

    /// The digest of the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        Self::of_reader(&mut File::open(path)?)
    }
}

/// Reads `reader` to its end in chunks of at most 64 KiB.
///
/// # Errors
/// The reader or `consume` fails.
pub fn for_each_chunk(
    reader: &mut impl Read,
    mut consume: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(()),
            len => consume(&buffer[..len])?,
        }
    }
}

impl From<[u8; 32]> for Sha256Digest {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl From<Sha256Digest> for [u8; 32] {
    fn from(digest: Sha256Digest) -> Self {
        digest.0
    }
}

impl fmt::Display for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Sha256Digest {
    type Err = NoDigest;

    /// Accepts digits of both cases.
    fn from_str(text: &str) -> Result<Self, NoDigest> {
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
            return Err(NoDigest);
        };
        let pairs: &[[u8; 2]; 32] = pairs.try_into().map_err(|_| NoDigest)?;
        let value = |digit: u8| char::from(digit).to_digit(16);
        let mut bytes = [0; 32];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            let (Some(high), Some(low)) = (value(*high), value(*low)) else {
                return Err(NoDigest);
            };
            // Two digits of base 16 fit a byte.
            *byte = (high << 4 | low) as u8;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Sha256Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sha256Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|error| D::Error::custom(format_args!("found the SHA-256 {text:?}, {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of no bytes, as `sha256sum /dev/null` prints it.
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn text_is_64_lower_case_digits_and_is_parsed_in_both_cases() {
        let digest = Sha256Digest::of(b"");
        assert_eq!(digest.to_string(), EMPTY);
        assert_eq!(EMPTY.parse(), Ok(digest));
        assert_eq!(EMPTY.to_uppercase().parse(), Ok(digest));
        let json = format!("\"{EMPTY}\"");
        assert_eq!(serde_json::to_string(&digest).expect("JSON"), json);
        let read: Sha256Digest = serde_json::from_str(&json).expect("a digest");
        assert_eq!(read, digest);
    }

    #[test]
    fn other_texts_are_no_digests() {
        let long = format!("{EMPTY}00");
        let sign = format!("+{}", &EMPTY[1..]);
        let wide = "é".repeat(32);
        for text in ["", &EMPTY[1..], &EMPTY[2..], &long, &sign, &wide] {
            assert_eq!(text.parse::<Sha256Digest>(), Err(NoDigest), "{text}");
        }
        let error = serde_json::from_str::<Sha256Digest>("\"12\"").expect_err("too short");
        assert!(
            error.to_string().contains("64 hexadecimal digits"),
            "{error}"
        );
    }

    #[test]
    fn pieces_give_the_digest_of_the_whole() {
        let bytes = vec![7; 100_000];
        let mut hasher = Sha256Hasher::default();
        hasher.update(&bytes[..1]);
        hasher.update(&bytes[1..]);
        assert_eq!(hasher.finish(), Sha256Digest::of(&bytes));
        let read = Sha256Digest::of_reader(&mut bytes.as_slice()).expect("readable");
        assert_eq!(read, Sha256Digest::of(&bytes));
    }
}
