//! Which engines several detectors would take, before any of them runs: where they are to be compared, one that quietly ran on
//! another runtime for want of an engine would spoil it.

use std::collections::BTreeSet;

use super::DetectError;
use super::engines::{self, CacheMiss, EngineCache, EngineSpec, Gpu, Lookup};
use super::model::ModelSpec;
use jetwatch_config::DetectorConfig;

/// Engines of several detectors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineAvailability {
    /// How many of the detectors have theirs.
    pub found: usize,
    /// Those that are not there, each once.
    pub missing: Vec<CacheMiss>,
}

/// Looks for the TensorRT engine of each of these detectors, whatever their backend. Builds and loads none; those without a
/// model are left out.
///
/// # Errors
/// TensorRT or a GPU is missing ([`DetectError::is_absence`]) or cannot be used, or a model cannot be read or not be built as
/// it is configured.
pub fn check_engines(detectors: &[DetectorConfig]) -> Result<EngineAvailability, DetectError> {
    let mut availability = EngineAvailability::default();
    let mut files = BTreeSet::new();
    let mut opened = None;
    for config in detectors {
        let Some(folder) = &config.model else {
            continue;
        };
        let (device, library) = match &opened {
            Some(opened) => opened,
            None => {
                let device = engines::device()?;
                let library = engines::open_library(config.tensorrt.library.as_deref())?;
                opened.insert((device, library))
            }
        };
        let spec = ModelSpec::load(folder)?;
        let recipe = EngineSpec::new(config, &spec, library, Gpu::from_device(device))?;
        match EngineCache::new(&config.tensorrt.engines).find(&recipe)? {
            Lookup::Found(_) => availability.found += 1,
            Lookup::Miss(missing) => {
                if files.insert(recipe.file_name()) {
                    availability.missing.push(missing);
                }
            }
        }
    }
    Ok(availability)
}
