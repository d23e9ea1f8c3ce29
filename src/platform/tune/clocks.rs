//! Clocks held at the highest that the power mode allows, by jetson_clocks.
//!
//! The tool tells in words for people whether they are; here it is seen at the clocks themselves: they are held when no
//! processor and no GPU may go below its highest. jetson_clocks also ends well when it has failed half-way.

use super::super::tools::Tool;
use super::super::{PlatformError, Root};

/// Held.
pub(super) const MAX: &str = "max";

/// Not held, or not all of them.
pub(super) const FREE: &str = "free";

/// Where jetson_clocks keeps what was before.
pub(super) const STORE: &str = "/var/lib/jetwatch-setup/clocks.conf";

const CPUS: &str = "/sys/devices/system/cpu";
const DEVFREQ: &str = "/sys/class/devfreq";

/// Whether the memory's clock is held; root's alone.
const MEMORY_HELD: &str = "/sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked";

/// Nodes of GPUs in the device tree.
const GPUS: [&str; 4] = ["gv11b", "gp10b", "ga10b", "gpu"];

/// A clock with its limits.
struct Clock {
    name: String,
    low: u64,
    high: u64,
}

/// `max` or `free`.
///
/// # Errors
/// No clock tells its limits, or one cannot be read.
pub(super) fn real(root: &Root) -> Result<String, PlatformError> {
    let clocks = clocks(root)?;
    if clocks.is_empty() {
        return Err(PlatformError::NoClocks);
    }
    // Who is not root cannot see the memory's, and takes the others' word.
    let memory: Option<u32> = root.number(MEMORY_HELD).unwrap_or(None);
    let is_held = clocks.iter().all(|clock| clock.low >= clock.high) && memory != Some(0);
    Ok(if is_held { MAX } else { FREE }.to_owned())
}

/// Which clocks are held, and which are not.
pub(super) fn detail(root: &Root) -> String {
    let clocks = clocks(root).unwrap_or_default();
    let free: Vec<String> = clocks
        .iter()
        .filter(|clock| clock.low < clock.high)
        .map(|clock| format!("{} may go from {} to {}", clock.name, clock.low, clock.high))
        .collect();
    let memory: Option<u32> = root.number(MEMORY_HELD).unwrap_or(None);
    match (free.is_empty(), memory) {
        (true, Some(0)) => " (the memory's clock is free)".to_owned(),
        (true, _) => String::new(),
        (false, _) => format!(" ({})", free.join(", ")),
    }
}

/// Keeps the clocks as they are in [`STORE`], then holds them.
///
/// # Errors
/// jetson_clocks is missing or fails.
pub(super) fn hold(root: &Root) -> Result<(), PlatformError> {
    let store = root.path(STORE);
    // A store from before is the truth while some clocks are still held, from an attempt that failed half-way. With none held
    // it is of a power mode that is gone. The tool would ask before it writes over it.
    let is_half_held = clocks(root)?.iter().any(|clock| clock.low >= clock.high);
    if !(store.is_file() && is_half_held) {
        root.remove(STORE)?;
        Tool::JETSON_CLOCKS
            .run(root, &["--store", &store.to_string_lossy()])?
            .done()?;
        if !store.is_file() {
            return Err(PlatformError::NoStoredClocks { path: store });
        }
    }
    Tool::JETSON_CLOCKS.run(root, &[])?.done().map(|_| ())
}

/// Gives the clocks back as they were, and forgets how.
///
/// # Errors
/// It is not known how they were, or jetson_clocks fails.
pub(super) fn free(root: &Root) -> Result<(), PlatformError> {
    let store = root.path(STORE);
    if !store.is_file() {
        return Err(PlatformError::NoStoredClocks { path: store });
    }
    Tool::JETSON_CLOCKS
        .run(root, &["--restore", &store.to_string_lossy()])?
        .done()?;
    root.remove(STORE)
}

/// The clocks of processors that are on, and of GPUs.
fn clocks(root: &Root) -> Result<Vec<Clock>, PlatformError> {
    let mut clocks = Vec::new();
    for name in root.names(CPUS)? {
        let is_cpu = name
            .strip_prefix("cpu")
            .is_some_and(|number| number.parse::<u32>().is_ok());
        let is_off = is_cpu && root.number::<u32>(&format!("{CPUS}/{name}/online"))? == Some(0);
        if is_cpu && !is_off {
            let folder = format!("{CPUS}/{name}/cpufreq");
            clocks.extend(clock(
                root,
                &name,
                &folder,
                "scaling_min_freq",
                "scaling_max_freq",
            )?);
        }
    }
    for name in root.names(DEVFREQ)? {
        let folder = format!("{DEVFREQ}/{name}");
        let node = root
            .text(&format!("{folder}/device/of_node/name"))?
            .unwrap_or_else(|| name.rsplit('.').next().unwrap_or(&name).to_owned());
        if GPUS.contains(&node.as_str()) {
            clocks.extend(clock(root, &name, &folder, "min_freq", "max_freq")?);
        }
    }
    Ok(clocks)
}

fn clock(
    root: &Root,
    name: &str,
    folder: &str,
    low: &str,
    high: &str,
) -> Result<Option<Clock>, PlatformError> {
    let low = root.number(&format!("{folder}/{low}"))?;
    let high = root.number(&format!("{folder}/{high}"))?;
    Ok(low.zip(high).map(|(low, high)| Clock {
        name: name.to_owned(),
        low,
        high,
    }))
}
