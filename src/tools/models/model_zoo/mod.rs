// SPDX-License-Identifier: Apache-2.0
//! Downloads networks from where their authors publish them.
//!
//! [`entries()`] are the manifests in `models/catalogue`, embedded in the binary: address, length and
//! hash of a file, and its `model.yaml`. [`download()`] fetches one file: resumed, verified, and complete or absent under its
//! name. The repository holds none of these files. Called by `jetwatch model list` and `jetwatch model fetch`.

mod download;
mod error;
mod manifest;
mod partial;
mod request;

pub use download::{Download, DownloadResult, Progress, RetryPolicy, download};
pub use error::FetchError;
pub use manifest::{Entry, entries};
