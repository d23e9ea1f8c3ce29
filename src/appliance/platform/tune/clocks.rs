// SPDX-License-Identifier: Apache-2.0
//! Clocks held at the maximum of the power mode, by jetson_clocks.
//!
//! The tool's output is not machine-readable. The state is read from the clocks themselves: they are held when the minimum of every
//! CPU and GPU is its maximum. jetson_clocks also exits with success after a partial failure.

use super::super::command::Tool;
use super::super::{PlatformError, PowerModes, SysRoot};

/// Held.
pub(super) const MAX: &str = "max";

/// Not held, or only some of them.
pub(super) const FREE: &str = "free";

/// Where jetson_clocks stores the earlier state.
pub(super) const STORE: &str = "/var/lib/jetwatch-setup/clocks.conf";

/// The same, while it is being written.
const FRESH_STORE: &str = "/var/lib/jetwatch-setup/clocks.conf.new";

/// The power mode of the store.
const MODE: &str = "/var/lib/jetwatch-setup/clocks.mode";

/// Where jetson_clocks records in its home whether the fan's daemon ran.
const FAN_STATE: &str = "/var/lib/jetwatch-setup/.jetsonclocks_fan.txt";

const CPUS: &str = "/sys/devices/system/cpu";
const DEVFREQ: &str = "/sys/class/devfreq";

/// Whether the memory's clock is held; readable only by root.
const MEMORY_CLOCK_LOCKED: &str = "/sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked";

/// Nodes of GPUs in the device tree, and the clock of Thor's GPU, which has no node. That of its video engines (`gpu-nvd-0`) is no GPU's.
const GPUS: [&str; 5] = ["gv11b", "gp10b", "ga10b", "gpu", "gpu-gpc-0"];

/// A clock with its limits.
struct Clock {
    name: String,
    low: u64,
    high: u64,
}

/// `max` or `free`.
///
/// # Errors
/// No clock has readable limits, or one cannot be read.
pub(super) fn current(root: &SysRoot) -> Result<String, PlatformError> {
    let clocks = clocks(root)?;
    if clocks.is_empty() {
        return Err(PlatformError::NoClocks);
    }
    // Only root can read the memory's clock; other users rely on the other clocks.
    let memory: Option<u32> = root.number(MEMORY_CLOCK_LOCKED).unwrap_or(None);
    let is_held = clocks.iter().all(|clock| clock.low >= clock.high) && memory != Some(0);
    Ok(if is_held { MAX } else { FREE }.to_owned())
}

/// Description of the clocks that are not held; empty when all are.
pub(super) fn detail(root: &SysRoot) -> String {
    let clocks = clocks(root).unwrap_or_default();
    let free: Vec<String> = clocks
        .iter()
        .filter(|clock| clock.low < clock.high)
        .map(|clock| format!("{} ranges from {} to {}", clock.name, clock.low, clock.high))
        .collect();
    let memory: Option<u32> = root.number(MEMORY_CLOCK_LOCKED).unwrap_or(None);
    match (free.is_empty(), memory) {
        (true, Some(0)) => " (the memory's clock is free)".to_owned(),
        (true, _) => String::new(),
        (false, _) => format!(" ({})", free.join(", ")),
    }
}

/// Stores the current clocks in [`STORE`], then holds them.
///
/// # Errors
/// jetson_clocks is missing or fails.
pub(super) fn hold(root: &SysRoot) -> Result<(), PlatformError> {
    let stored = root.text(STORE)?;
    // An existing store is valid while some clocks are still held, from an attempt that failed partially, and their
    // limits are those of the same power mode.
    let is_half_held = clocks(root)?.iter().any(|clock| clock.low >= clock.high);
    if !(stored.is_some() && is_half_held && !is_for_other_mode(root)) {
        let now = snapshot(root);
        // Nothing is held, so the store of the failed attempt is useless.
        if now.is_err() && stored.is_none() {
            remove_store(root)?;
        }
        let now = now?;
        let lines = match &stored {
            // The mode has its own limits; other held clocks, such as the memory's, are not changed by a new mode.
            Some(stored) => with_lower_limits(stored, &now),
            None => now,
        };
        root.replace(STORE, &lines)?;
        match PowerModes::current(root) {
            Ok(mode) => root.replace(MODE, &mode.to_string())?,
            Err(_) => root.remove(MODE)?,
        }
    }
    Tool::JETSON_CLOCKS.run(root, &[])?.done().map(|_| ())
}

/// The state that jetson_clocks stores, without the online state of CPUs: holding does not change it, and restoring it
/// would take CPUs offline that another power mode has brought online meanwhile.
fn snapshot(root: &SysRoot) -> Result<String, PlatformError> {
    let path = root.path(FRESH_STORE);
    // The tool would prompt before it overwrites the file.
    root.remove(FRESH_STORE)?;
    let output = Tool::JETSON_CLOCKS.run(root, &["--store", &path.to_string_lossy()])?;
    let text = root.text(FRESH_STORE)?;
    root.remove(FRESH_STORE)?;
    output.done()?;
    let Some(text) = text else {
        return Err(PlatformError::NoStoredClocks { path });
    };
    Ok(lines_where(&text, |file| !file.ends_with("/online")))
}

/// The store `stored` with the lower limits of `now`.
fn with_lower_limits(stored: &str, now: &str) -> String {
    lines_where(stored, |file| !is_limit(file)) + &lines_where(now, is_limit)
}

/// Whether a stored file is the minimum clock of a CPU or GPU, which a power mode sets.
fn is_limit(file: &str) -> bool {
    file.ends_with("/scaling_min_freq") || file.ends_with("/min_freq")
}

/// The lines `FILE:VALUE` of a store whose file is selected.
fn lines_where(store: &str, is_selected: impl Fn(&str) -> bool) -> String {
    let file = |line: &str| {
        line.rsplit_once(':')
            .is_some_and(|(file, _)| is_selected(file))
    };
    let lines = store.lines().filter(|line| file(line));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Whether the store belongs to another power mode than the current one. False when either is unknown.
fn is_for_other_mode(root: &SysRoot) -> bool {
    let stored: Option<u32> = root.number(MODE).ok().flatten();
    let now = PowerModes::current(root).ok();
    stored.zip(now).is_some_and(|(stored, now)| stored != now)
}

/// Restores the stored clocks, and removes the store.
///
/// # Errors
/// There is no store, or jetson_clocks fails.
pub(super) fn free(root: &SysRoot) -> Result<(), PlatformError> {
    let path = root.path(STORE);
    let Some(store) = root.text(STORE)? else {
        return Err(PlatformError::NoStoredClocks { path });
    };
    // A mode that was set meanwhile has its own limits.
    if is_for_other_mode(root) && current(root)? == FREE {
        root.replace(STORE, &lines_where(&store, |file| !is_limit(file)))?;
    }
    Tool::JETSON_CLOCKS
        .run(root, &["--restore", &path.to_string_lossy()])?
        .done()?;
    remove_store(root)
}

/// Removes the store and the tool's own files.
///
/// # Errors
/// A file cannot be removed.
pub(super) fn remove_store(root: &SysRoot) -> Result<(), PlatformError> {
    [STORE, FRESH_STORE, MODE, FAN_STATE]
        .into_iter()
        .try_for_each(|path| root.remove(path))
}

/// The clocks of online CPUs, and of GPUs.
fn clocks(root: &SysRoot) -> Result<Vec<Clock>, PlatformError> {
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
    root: &SysRoot,
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
