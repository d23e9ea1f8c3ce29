//! Which TensorRT engines a set of detectors would use, checked before any of them runs. A comparison would be wrong if one
//! of them fell back to another runtime because its engine is missing.

use std::collections::BTreeSet;

use super::DetectError;
use super::engines::{self, CacheMiss, EngineCache, EngineSpec, Gpu, Lookup};
use super::model::ModelSpec;
use jetwatch_config::DetectorConfig;

/// Engines of several detectors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineAvailability {
    /// Number of detectors whose engine exists.
    pub found: usize,
    /// Missing engines, each once.
    pub missing: Vec<CacheMiss>,
}

/// Searches the TensorRT engine of each detector, whatever its backend. Builds and loads none. Detectors without a
/// model are skipped.
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
        let engine_spec = EngineSpec::new(config, &spec, library, Gpu::from_device(device))?;
        match EngineCache::new(&config.tensorrt.engines).find(&engine_spec)? {
            Lookup::Found(_) => availability.found += 1,
            Lookup::Miss(missing) => {
                if files.insert(engine_spec.file_name()) {
                    availability.missing.push(missing);
                }
            }
        }
    }
    Ok(availability)
}
