// SPDX-License-Identifier: Apache-2.0
//! Decides whether the images of a Jetson stay in NVMM up to the detector or are copied, and logs it.

use std::sync::Arc;

use jetwatch_config::{CameraMotionModel, Config};
use jetwatch_detect::DetectorFactory;
use jetwatch_platform::Machine;
use jetwatch_source::NvmmReader;

/// Reads images in NVMM in place; `None` where images are copied.
pub(super) fn nvmm_reader(
    config: &Config,
    prepared: &DetectorFactory,
    machine: &Machine,
) -> Option<Arc<NvmmReader>> {
    // Other machines have no NVMM, which needs no log line.
    let release = machine.release?;
    if config.tracker.camera_motion != CameraMotionModel::Off {
        log::info!("images are copied out of NVMM: tracker.camera_motion reads them on the CPU");
        return None;
    }
    match prepared.surfaces(Some(release.major)) {
        Ok(Some(surfaces)) => {
            log::info!("images scaled by the VIC stay in NVMM, where the GPU reads them");
            Some(surfaces)
        }
        Ok(None) => None,
        Err(error) => {
            log::warn!("images are copied out of NVMM: {error}");
            None
        }
    }
}
