// SPDX-License-Identifier: Apache-2.0
//! External weights of an ONNX network: finds their files, checks their hashes and embeds them into the network.
//!
//! Exporters write external data for large networks, some for all. This module decides where the files may be; [`graph`]
//! reads how a network refers to them. Called when a [`ModelFile`] is read.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::graph::{self, ExternalTensor, Malformed};
use super::model::{FILE_NAME, ModelError, ModelFile};
use jetwatch_files::Sha256Digest;

/// Maximum size in bytes of a network that the runtimes read out of memory: one protobuf message.
const MAX_BYTES: u64 = (1 << 31) - 1;

/// Why the weights of a network cannot be embedded.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum WeightsError {
    #[error(
        "cannot read {}, in which {} keeps weights: {source}; put it there as it was exported, or export the network into one file",
        path.display(), network.display()
    )]
    Unreadable {
        path: PathBuf,
        network: PathBuf,
        source: io::Error,
    },
    #[error(
        "{} keeps weights in `{location}`, expected a path below its own folder without `..`: export the network again, or \
         into one file",
        network.display()
    )]
    Outside { network: PathBuf, location: String },
    #[error(
        "{} has {found} bytes, but {} keeps weights in it up to byte {needed}: it is cut off or belongs to another export; \
         fetch or export both again",
        path.display(), network.display()
    )]
    CutOff {
        path: PathBuf,
        network: PathBuf,
        /// Size in bytes.
        found: usize,
        /// Size in bytes that the network needs.
        needed: u64,
    },
    #[error(
        "{FILE_NAME} lists weights of {} in `{location}`, but the network names {}: write under `weights` what it names, \
         or leave that out",
        network.display(), list_names(named)
    )]
    NotNamed {
        network: PathBuf,
        location: String,
        named: Vec<String>,
    },
    #[error(
        "{} and its weights have {found} bytes, expected at most {MAX_BYTES}: a network of this size is not run here; \
         use a smaller one",
        network.display()
    )]
    TooLong { network: PathBuf, found: u64 },
}

/// Errors while weights are embedded.
enum EmbedError {
    /// In the network itself.
    Damage,
    Weights(WeightsError),
}

impl From<Malformed> for EmbedError {
    fn from(_: Malformed) -> Self {
        Self::Damage
    }
}

/// `network`, the bytes of `file`, with all of its weights embedded. Bytes that are not a network are returned unchanged.
pub(super) fn embed(file: &ModelFile, network: Vec<u8>) -> Result<Vec<u8>, ModelError> {
    let Ok(places) = graph::external_tensors(&network) else {
        return Ok(network);
    };
    let mut files = BTreeMap::new();
    let mut len = network.len() as u64;
    for place in &places {
        len = len.saturating_add(place.len);
        if !files.contains_key(place.location) {
            files.insert(place.location.to_owned(), read(file, place.location)?);
        }
    }
    let not_named = |weights: &&WeightsFile| !files.contains_key(&weights.location);
    if let Some(weights) = file.weights.iter().find(not_named) {
        return Err(WeightsError::NotNamed {
            network: file.path.clone(),
            location: weights.location.clone(),
            named: files.into_keys().collect(),
        }
        .into());
    }
    if len > MAX_BYTES && !files.is_empty() {
        let network = file.path.clone();
        return Err(WeightsError::TooLong {
            network,
            found: len,
        }
        .into());
    }
    let joined = graph::embed(&network, |place| bytes_at(file, &files, place));
    match joined {
        Ok(Some(joined)) => Ok(joined),
        Ok(None) | Err(EmbedError::Damage) => Ok(network),
        Err(EmbedError::Weights(error)) => Err(error.into()),
    }
}

/// A file of weights as listed in `model.yaml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightsFile {
    /// Its path in the network, relative to the folder of the network's file.
    pub location: String,
    /// SHA-256 of its bytes.
    pub sha256: Sha256Digest,
}

/// Whether `location` is a path below the folder that it starts in.
pub(super) fn is_inside(location: &str) -> bool {
    let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
    !location.is_empty() && Path::new(location).components().all(is_name)
}

/// The bytes of a file of weights. Checks the hash if `model.yaml` has one.
fn read(file: &ModelFile, location: &str) -> Result<Vec<u8>, ModelError> {
    if !is_inside(location) {
        let location = location.to_owned();
        return Err(WeightsError::Outside {
            network: file.path.clone(),
            location,
        }
        .into());
    }
    let path = file.path.with_file_name(location);
    let bytes = read_file(&path).map_err(|source| WeightsError::Unreadable {
        path: path.clone(),
        network: file.path.clone(),
        source,
    })?;
    match file.weights.iter().find(|known| known.location == location) {
        Some(known) => super::model::check_sha256(&path, known.sha256, &bytes)?,
        None => log::warn!(
            "{}: it cannot be verified: {FILE_NAME} gives no hash for it; add `weights: {{{location}: \
             HASH}}` to files.{}, where HASH is what `sha256sum` prints",
            path.display(),
            file.precision
        ),
    }
    Ok(bytes)
}

/// The bytes of a regular file. A pipe or a device is refused, because it may never end.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    fs::read(path)
}

fn bytes_at<'a>(
    file: &ModelFile,
    files: &'a BTreeMap<String, Vec<u8>>,
    tensor: ExternalTensor<'_>,
) -> Result<&'a [u8], EmbedError> {
    // The same network named the same files before.
    let bytes = files.get(tensor.location).ok_or(EmbedError::Damage)?;
    let needed = tensor.offset.saturating_add(tensor.len);
    let range = usize::try_from(tensor.offset)
        .ok()
        .zip(usize::try_from(needed).ok());
    let found = range.and_then(|(start, end)| bytes.get(start..end));
    found.ok_or_else(|| {
        EmbedError::Weights(WeightsError::CutOff {
            path: file.path.with_file_name(tensor.location),
            network: file.path.clone(),
            found: bytes.len(),
            needed,
        })
    })
}

fn list_names(named: &[String]) -> String {
    if named.is_empty() {
        return "no such file".to_owned();
    }
    let named: Vec<String> = named.iter().map(|name| format!("`{name}`")).collect();
    named.join(", ")
}
