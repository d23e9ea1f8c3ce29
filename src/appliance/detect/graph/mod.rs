// SPDX-License-Identifier: Apache-2.0
//! Summaries of ONNX files without ONNX Runtime.
//!
//! [`read`](read()) summarizes a file as a [`Network`]: tensors, operators, quantization, files next to it. [`check()`] compares
//! it with the runtimes that jetwatch uses; [`embed()`] puts weights into a network that keeps them in other files;
//! [`with_batch()`] sets its number of images. All but the reading of the file is pure. Called when a model's file is read, and when a runtime refuses a network, to explain why;
//! the crate `jetwatch-models` infers output layouts from a summary.

mod batch;
mod compatibility;
mod convert;
mod external_data;
mod onnx_proto;
mod producer;
mod protobuf;
mod quantization;
mod summary;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub use batch::{has_open_batch, with_batch};
pub use compatibility::{Diagnostic, Severity, check, has_plugins, incompatibility};
pub use convert::{Converted, with_usual_ends};
pub use external_data::{ExternalTensor, embed, external_tensors};
pub use protobuf::Malformed;
pub use quantization::Quantization;
pub use summary::{
    Axis, Convolution, Element, ExternalFile, Network, Operator, Opset, PixelRange, Tensor,
};

/// Protobuf messages have at most 2 GiB; what is larger has its weights in files next to it.
const MAX_BYTES: u64 = 1 << 31;

/// Why a file cannot be summed up.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum GraphError {
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "{}: found {bytes} bytes, expected at most {MAX_BYTES}: ONNX files are protobuf messages, which cannot be longer; \
         save the network with external weights",
        path.display()
    )]
    TooLong { path: PathBuf, bytes: u64 },
    #[error(
        "{}: {} at byte {} of {bytes}: the file is cut off, damaged or not in ONNX's format; fetch or export it again",
        path.display(), damage.what, damage.at
    )]
    Damaged {
        path: PathBuf,
        damage: Malformed,
        bytes: usize,
    },
    #[error(
        "{}: found no network in its {bytes} bytes, expected an ONNX file{}; export the network to ONNX", path.display(), kind
    )]
    NoNetwork {
        path: PathBuf,
        bytes: usize,
        /// What it seems to be, as ` (this is …)`; may be empty.
        kind: &'static str,
    },
}

/// Sums up the file at `path`. Files next to it that hold weights are looked for but not read.
pub fn read(path: &Path) -> Result<Network, GraphError> {
    let bytes = read_bytes(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    summarize(path, &bytes, |location| {
        fs::metadata(folder.join(location))
            .ok()
            .filter(fs::Metadata::is_file)
            .map(|metadata| metadata.len())
    })
}

/// Sums up `bytes`, the file at `path`; `length` gives the length of a file next to it, if it is there.
pub fn summarize(
    path: &Path,
    bytes: &[u8],
    length: impl Fn(&str) -> Option<u64>,
) -> Result<Network, GraphError> {
    if let Some(kind) = foreign(bytes) {
        return Err(no_network(path, bytes, kind));
    }
    let damaged = |damage| GraphError::Damaged {
        path: path.to_owned(),
        damage,
        bytes: bytes.len(),
    };
    let model = onnx_proto::model(bytes).map_err(damaged)?;
    let Some(graph) = &model.graph else {
        return Err(no_network(path, bytes, ""));
    };
    Ok(summary::summarize(bytes.len(), &model, graph, length))
}

fn no_network(path: &Path, bytes: &[u8], kind: &'static str) -> GraphError {
    GraphError::NoNetwork {
        path: path.to_owned(),
        bytes: bytes.len(),
        kind,
    }
}

/// Files of other programs that people take for ONNX, by how they begin.
fn foreign(bytes: &[u8]) -> Option<&'static str> {
    let kinds: [(&[u8], &str); 6] = [
        (
            b"PK\x03\x04",
            " (this is a ZIP archive, perhaps of PyTorch)",
        ),
        (
            b"\x80\x02",
            " (this is a Python pickle, perhaps of PyTorch)",
        ),
        (
            b"version https://git-lfs",
            " (this is a Git LFS pointer: the file itself was not fetched)",
        ),
        (b"ptrt", " (this is a TensorRT engine)"),
        (b"<", " (this is a web page or XML)"),
        (b"\x89HDF", " (this is a Keras file)"),
    ];
    let is_ort = bytes.get(4..8) == Some(b"ORTM");
    let is_tflite = bytes.get(4..8) == Some(b"TFL3");
    kinds
        .iter()
        .find(|(start, _)| bytes.starts_with(start))
        .map(|(_, kind)| *kind)
        .or(is_ort.then_some(" (this is in ONNX Runtime's own format)"))
        .or(is_tflite.then_some(" (this is a TensorFlow Lite file)"))
        .or(bytes.is_empty().then_some(" (it is empty)"))
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, GraphError> {
    let unreadable = |source| GraphError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.len() > MAX_BYTES {
        return Err(GraphError::TooLong {
            path: path.to_owned(),
            bytes: metadata.len(),
        });
    }
    if !metadata.is_file() {
        // A pipe or a device may never end.
        return Err(unreadable(io::Error::other("it is not a file")));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    Ok(bytes)
}
