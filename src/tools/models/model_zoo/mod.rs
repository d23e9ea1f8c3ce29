//! Downloads networks from where their authors publish them.
//!
//! [`entries()`] are the manifests in `models/catalogue`, embedded in the binary: address, length and
//! hash of a file, and its `model.yaml`. [`download()`] fetches one file: resumed, verified, and complete or absent under its
//! name. [`fetch_and_convert`] takes a network out of a wheel of PyPI. The repository holds none of these files. Called by `jetwatch model list` and `jetwatch model fetch`.

mod download;
mod error;
mod index;
mod manifest;
mod partial;
mod registry;
mod request;
mod wheel;

pub use download::{Download, DownloadResult, Progress, RetryPolicy, download};
pub use error::FetchError;
pub use index::index_url;
pub use manifest::{Entry, Measured, entries, parse_manifest};
pub use registry::{
    OutputVariable, RegistryDownload, RegistryPackage, cache_folder, fetch_and_convert,
};
pub use wheel::WheelError;
