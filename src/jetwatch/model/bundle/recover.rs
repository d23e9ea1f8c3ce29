//! `jetwatch model recover`: ends switches that a power cut or a kill interrupted. `jetwatch-model-recover.service` runs it before the
//! daemon starts.

use std::path::Path;

use jetwatch_bundles::{BundleError, Store, recover};
use jetwatch_config::BUNDLES_FOLDER;
use jetwatch_telemetry as telemetry;

use super::RecoverArgs;
use crate::Exit;

/// Recovers, prints what was done. Nothing is done while another process switches: it restarts the daemon itself.
pub(crate) fn run(_args: &RecoverArgs) -> anyhow::Result<Exit> {
    telemetry::start_logging(log::LevelFilter::Warn);
    let folder = Path::new(BUNDLES_FOLDER);
    if !folder.exists() {
        println!("no bundle is installed");
        return Ok(Exit::Success);
    }
    let store = match Store::open(folder) {
        Ok(store) => store,
        Err(BundleError::Busy { .. }) => {
            println!("another `jetwatch model` works on {}", folder.display());
            return Ok(Exit::Success);
        }
        Err(error) => return Err(error.into()),
    };
    let mut count = 0;
    recover(&store, &mut |text| {
        println!("{text}");
        count += 1;
    })?;
    if count == 0 {
        println!("no switch was interrupted");
    }
    Ok(Exit::Success)
}
