//! Verification of a detached signature while the signed bytes are copied: what is unpacked later is what was verified.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use jetwatch_files::{Sha256Digest, Sha256Hasher, for_each_chunk};
use minisign_verify::{Error, Signature, StreamVerifier};

use super::error::io;
use super::{BundleError, TrustedKeys};

/// Maximum size of a signature in bytes; minisign's own have about 300.
const MAX_SIGNATURE_BYTES: u64 = 4096;

/// A copy whose bytes were signed.
#[derive(Debug)]
pub(crate) struct Verified {
    /// SHA-256 of the bytes.
    pub(crate) sha256: Sha256Digest,
    /// File name of the key.
    pub(crate) key: String,
    /// The comment that the signature covers.
    pub(crate) comment: String,
}

/// Reads the signature at `path`.
///
/// # Errors
/// It cannot be read, or is no signature. Signatures of the old form, which are over the bytes instead of their hash, are refused.
pub(crate) fn read(path: &Path) -> Result<Signature, BundleError> {
    let file = File::open(path).map_err(io("read the signature", path))?;
    let mut text = String::new();
    let read = file.take(MAX_SIGNATURE_BYTES + 1).read_to_string(&mut text);
    read.map_err(io("read the signature", path))?;
    let not_verified = |problem: String| BundleError::Signature {
        path: path.to_owned(),
        problem,
    };
    if text.len() as u64 > MAX_SIGNATURE_BYTES {
        return Err(not_verified(
            "the file is too long for a signature of minisign".to_owned(),
        ));
    }
    Signature::decode(text.trim_end()).map_err(|error| {
        not_verified(format!(
            "the file is no signature, as `minisign -S` writes it: {error}"
        ))
    })
}

/// Copies `source` to `copy` and verifies it. `path` is the name of `source` in errors.
///
/// # Errors
/// A file cannot be read or written, it is longer than `max_bytes`, or no trusted key has signed these bytes.
pub(crate) fn copy_verified(
    path: &Path,
    source: &mut File,
    max_bytes: u64,
    signature: &Signature,
    keys: &TrustedKeys,
    copy: (&Path, &mut File),
) -> Result<Verified, BundleError> {
    let not_verified = |problem: String| BundleError::Signature {
        path: path.to_owned(),
        problem,
    };
    let mut verifiers: Vec<(&Path, StreamVerifier<'_>)> = Vec::new();
    for (file, key) in keys.iter() {
        match key.verify_stream(signature) {
            Ok(verifier) => verifiers.push((file, verifier)),
            Err(Error::UnexpectedKeyId) => {}
            Err(error) => {
                return Err(not_verified(format!(
                    "{error}; sign it with `minisign -S` of version 0.10 or newer"
                )));
            }
        }
    }
    if verifiers.is_empty() {
        return Err(not_verified(format!(
            "its signature is by another key than {}",
            keys.describe()
        )));
    }
    let mut hasher = Sha256Hasher::default();
    let mut bytes = 0;
    let (copy_path, copy) = copy;
    let mut written = Ok(());
    let mut limited = Read::take(source, max_bytes + 1);
    let read = for_each_chunk(&mut limited, |chunk| {
        bytes += chunk.len() as u64;
        hasher.update(chunk);
        verifiers
            .iter_mut()
            .for_each(|(_, verifier)| verifier.update(chunk));
        if written.is_ok() {
            written = copy.write_all(chunk);
        }
        Ok(())
    });
    read.map_err(io("read", path))?;
    written.map_err(io("write", copy_path))?;
    if bytes > max_bytes {
        return Err(not_verified(format!("it has more than {max_bytes} bytes")));
    }
    let by = verifiers
        .iter_mut()
        .find_map(|(file, verifier)| verifier.finalize().is_ok().then_some(*file));
    let Some(by) = by else {
        return Err(not_verified(format!(
            "the signature is not over these {bytes} bytes: they were changed, or the signature is that of another file"
        )));
    };
    let key = by.file_name().unwrap_or_default();
    Ok(Verified {
        sha256: hasher.finish(),
        key: key.to_string_lossy().into_owned(),
        comment: signature.trusted_comment().to_owned(),
    })
}
