//! Engines: what TensorRT builds of a network for one GPU, kept in a folder and found again.
//!
//! A [`Recipe`] holds all that decides an engine: the network's file, the numbers it computes in, batch, GPU, version of
//! TensorRT, and so on. Its hash is the engine's key. An [`EngineCache`] finds the engine of a recipe or says exactly why there is
//! none; [`obtain`] gives the plan, and builds it where the configuration lets it. A plan counts only with its manifest, which is written last.
//! What runs an engine is elsewhere. Called by the TensorRT detector and by `jetwatch engine`.
//!
//! ```text
//!   DetectorConfig + ModelSpec + Library + Gpu ──► Recipe ──► EngineCache::find ──► plan
//!                                                               └─ missing ──► build ──► store
//! ```

mod build;
mod cache;
mod choose;
mod error;
mod layers;
mod library;
mod listing;
mod manifest;
mod memory;
mod place;
mod plan_file;
mod reason;
mod recipe;
mod room;

pub use build::{EngineState, Order, build, can_cancel, obtain};
pub use cache::{EngineCache, Lookup, Stored};
pub use choose::calibration_batch;
pub use error::EngineError;
pub use layers::Layers;
pub use library::{device, inspect, open_library};
pub use listing::{Listed, ListedState};
pub use manifest::Manifest;
pub use plan_file::{PlanFile, PlanKind, look_into};
pub use reason::{Missing, Reason};
pub use recipe::{Calibration, Gpu, Ingredients, Recipe};

pub use jetwatch_nvidia::cuda::Device;
pub use jetwatch_nvidia::tensorrt::{CalibrationInput, Library};

use sha2::{Digest, Sha256};

use super::model::hexadecimal;

/// SHA-256 of `bytes` as 64 lower-case hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}
