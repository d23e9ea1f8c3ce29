// SPDX-License-Identifier: Apache-2.0
//! TensorRT engines: networks compiled for one GPU, and the cache that holds them.
//!
//! An [`EngineSpec`] holds everything that determines an engine: the network's file, precision, batch size, GPU, version of
//! TensorRT, and so on. Its hash is the key of the engine. An [`EngineCache`] finds the engine of a spec or states why it is
//! missing. [`find_or_build`] returns the plan, and builds it where the configuration allows it. A plan is valid only with
//! its manifest, which is written last. Called by the TensorRT detector, which runs the engines, and by `jetwatch engine`.
//!
//! ```text
//!   DetectorConfig + ModelSpec + Library + Gpu ──► EngineSpec ──► EngineCache::find ──► plan
//!                                                               └─ missing ──► build ──► store
//! ```

mod atomic_file;
mod build;
mod cache;
mod choose;
mod disk_space;
mod error;
mod layers;
mod library;
mod listing;
mod manifest;
mod memory;
mod miss;
mod plan_file;
mod spec;

pub use build::{BuildOptions, EngineState, build, can_cancel, find_or_build};
pub use cache::{EngineCache, Lookup, Stored};
pub use choose::{calibration_batch, check_precision};
pub use error::EngineError;
pub use layers::{LayerFacts, Layers};
pub use library::{device, inspect, open_library};
pub use listing::{Listed, ListedState};
pub use manifest::Manifest;
pub use miss::{CacheMiss, MissReason};
pub use plan_file::{PlanFile, PlanKind, inspect_file};
pub use spec::{CacheKeyFields, Calibration, EngineSpec, Gpu};

pub use jetwatch_nvidia::cuda::Device;
pub use jetwatch_nvidia::tensorrt::{CalibrationInput, Library};

use jetwatch_files::Sha256Digest;

/// SHA-256 of `bytes` as 64 lower-case hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    Sha256Digest::of(bytes).to_string()
}
