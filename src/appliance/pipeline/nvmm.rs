//! Whether a Jetson's pictures stay in NVMM up to the detector, or are copied; and the log's word about it.

use std::sync::Arc;

use jetwatch_detect::DetectorFactory;
use jetwatch_platform::Machine;
use jetwatch_source::NvmmReader;

/// What sources hand pictures on with, without a copy; `None` where they are copied.
pub(super) fn nvmm_reader(
    prepared: &DetectorFactory,
    machine: &Machine,
) -> Option<Arc<NvmmReader>> {
    // Elsewhere there are none, which is no news.
    let release = machine.release?;
    match prepared.surfaces(Some(release.major)) {
        Ok(Some(surfaces)) => {
            log::info!("pictures scaled by the VIC stay in NVMM, where the GPU reads them");
            Some(surfaces)
        }
        Ok(None) => None,
        Err(error) => {
            log::warn!("pictures are copied out of NVMM: {error}");
            None
        }
    }
}
