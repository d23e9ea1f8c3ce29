//! FLOOR 2: networks to fetch from where their authors publish them.
//!
//! [`entries()`] are the manifests in `models/catalogue`, which the binary holds: where a file lies, how long it is, its
//! hash, and the `model.yaml` for it. [`download()`] fetches one file: resumed, verified, and whole or not at all under its
//! name. The project itself ships none of these files. Called by `jetwatch model list` and `jetwatch model fetch`.

mod download;
mod error;
mod manifest;
mod partial;
mod request;

pub use download::{Download, DownloadResult, Progress, RetryPolicy, download};
pub use error::FetchError;
pub use manifest::{Entry, entries};
