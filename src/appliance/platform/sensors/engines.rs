// SPDX-License-Identifier: Apache-2.0
//! Engines (GPU, memory, VIC, NVDEC and others): clocks from devfreq or the clock tree, and loads where the kernel exposes them.
//!
//! JetPack 5 and 6 name the same engines differently (`17000000.gv11b`, `17000000.ga10b`, `17000000.gpu`), so they are
//! found by the name of their node. On Thor the GPU is a device of the PCI bus: its clocks are `gpu-gpc-0`, that of its processors, and
//! `gpu-nvd-0`, which NVDEC, NVENC and NVJPG share, and no file has its load. The memory's clock is `bwmgr` there. The clock tree and
//! the memory's counters are in debugfs, which only root may read.

use serde::Serialize;

use super::Reader;
use crate::Machine;

const DEVFREQ: &str = "/sys/class/devfreq";
const CLOCK_TREE: &str = "/sys/kernel/debug/clk";
const MEMORY_CLOCK: &str = "/sys/kernel/debug/bpmp/debug/clk/emc";
/// Memory bandwidth counters, by kernel version.
const MEMORY_ACTIVITY: [&str; 3] = [
    "/sys/kernel/debug/cactmon/mc_all",
    "/sys/kernel/debug/bpmp/debug/actmon/mc_all_avg_activity",
    "/sys/kernel/actmon_avg_activity/mc_all",
];
/// File of the GPU's load when its devfreq device has none.
const GPU_LOADS: [&str; 2] = [
    "/sys/devices/gpu.0/load",
    "/sys/devices/platform/gpu.0/load",
];

/// An engine: a processor other than a CPU, or the memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Engine {
    /// Kind of engine.
    pub kind: EngineKind,
    /// Its name in the kernel, such as `17000000.gv11b`.
    pub name: String,
    /// Load in percent.
    pub load_percent: Option<f32>,
    /// Current clock, in Hz.
    pub hz: Option<u64>,
    /// Minimum clock, in Hz.
    pub min_hz: Option<u64>,
    /// Maximum clock, in Hz.
    pub max_hz: Option<u64>,
    /// Maximum clock of the hardware, which a power mode may limit, in Hz.
    pub hardware_hz: Option<u64>,
}

jetwatch_types::named_enum! {
    /// Kinds of engines.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum EngineKind {
        /// Graphics and most of the inference.
        Gpu = "gpu",
        /// External memory.
        Emc = "emc",
        /// Video image compositor: scaling.
        Vic = "vic",
        /// Video decoder.
        Nvdec = "nvdec",
        /// Video encoder.
        Nvenc = "nvenc",
        /// JPEG encoder and decoder.
        Nvjpg = "nvjpg",
        /// Deep learning accelerator.
        Dla = "dla",
    }

    /// The name, in lower case.
    pub fn name;
}

/// Name patterns of device tree nodes, or of devices that have none; the first that fits counts.
const NODES: [(&str, EngineKind); 12] = [
    ("gv11b", EngineKind::Gpu),
    ("gp10b", EngineKind::Gpu),
    ("ga10b", EngineKind::Gpu),
    ("gpu-nvd", EngineKind::Nvdec),
    ("gpu", EngineKind::Gpu),
    ("bwmgr", EngineKind::Emc),
    ("vic", EngineKind::Vic),
    ("nvdec", EngineKind::Nvdec),
    ("nvenc", EngineKind::Nvenc),
    ("msenc", EngineKind::Nvenc),
    ("nvjpg", EngineKind::Nvjpg),
    ("nvdla", EngineKind::Dla),
];

/// Names in the clock tree, used where devfreq does not have the engine.
const CLOCKS: [(&str, EngineKind); 2] = [("vic", EngineKind::Vic), ("nvdec", EngineKind::Nvdec)];

impl EngineKind {
    fn from_node(node: &str) -> Option<Self> {
        NODES
            .iter()
            .find(|(name, _)| node.starts_with(name))
            .map(|(_, kind)| *kind)
    }
}

pub(super) fn read(reader: &mut Reader<'_>, machine: &Machine) -> Vec<Engine> {
    let mut engines: Vec<Engine> = reader
        .names(DEVFREQ)
        .iter()
        .filter_map(|name| devfreq(reader, name))
        .collect();
    if machine.is_jetson() {
        if !engines.iter().any(|engine| engine.kind == EngineKind::Emc) {
            engines.extend(memory(reader));
        }
        for (name, kind) in CLOCKS {
            if !engines.iter().any(|engine| engine.kind == kind) {
                engines.extend(clock(reader, name, kind));
            }
        }
    }
    engines
}

fn devfreq(reader: &mut Reader<'_>, name: &str) -> Option<Engine> {
    let folder = format!("{DEVFREQ}/{name}");
    let node = reader
        .text(&format!("{folder}/device/of_node/name"))
        .unwrap_or_else(|| name.rsplit('.').next().unwrap_or(name).to_owned());
    let kind = EngineKind::from_node(&node)?;
    let mut load = reader.number(&format!("{folder}/device/load"));
    if kind == EngineKind::Gpu {
        for path in GPU_LOADS {
            load = load.or_else(|| reader.number(path));
        }
    }
    Some(Engine {
        kind,
        name: name.to_owned(),
        // The kernel's unit is 0.1 percent.
        load_percent: load.map(|load: u32| load as f32 / 10.0),
        hz: reader.number(&format!("{folder}/cur_freq")),
        min_hz: reader.number(&format!("{folder}/min_freq")),
        max_hz: reader.number(&format!("{folder}/max_freq")),
        hardware_hz: reader
            .text(&format!("{folder}/available_frequencies"))
            .and_then(|list| {
                list.split_whitespace()
                    .filter_map(|hz| hz.parse().ok())
                    .max()
            }),
    })
}

fn memory(reader: &mut Reader<'_>) -> Option<Engine> {
    let hz: u64 = reader.number(&format!("{MEMORY_CLOCK}/rate"))?;
    let activity = MEMORY_ACTIVITY
        .iter()
        .find_map(|path| reader.number::<u64>(path));
    // The unit is undocumented; widely used tools divide by the clock in kHz and report percent. A value that
    // cannot be a percentage is omitted.
    let load_percent = activity
        .filter(|_| hz >= 1000)
        .map(|activity| (activity as f64 / (hz / 1000) as f64) as f32)
        .filter(|percent| *percent <= 100.0);
    Some(Engine {
        kind: EngineKind::Emc,
        name: "emc".to_owned(),
        load_percent,
        hz: Some(hz),
        min_hz: reader.number(&format!("{MEMORY_CLOCK}/min_rate")),
        max_hz: reader.number(&format!("{MEMORY_CLOCK}/max_rate")),
        hardware_hz: None,
    })
}

fn clock(reader: &mut Reader<'_>, name: &str, kind: EngineKind) -> Option<Engine> {
    let hz = reader.number(&format!("{CLOCK_TREE}/{name}/clk_rate"))?;
    Some(Engine {
        kind,
        name: name.to_owned(),
        load_percent: None,
        hz: Some(hz),
        min_hz: None,
        max_hz: None,
        hardware_hz: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_identified_by_device_tree_node() {
        for (node, kind) in [
            ("gv11b", Some(EngineKind::Gpu)),
            ("gpu", Some(EngineKind::Gpu)),
            ("gpu-gpc-0", Some(EngineKind::Gpu)),
            ("gpu-nvd-0", Some(EngineKind::Nvdec)),
            ("vic", Some(EngineKind::Vic)),
            ("nvdec1", Some(EngineKind::Nvdec)),
            ("nvdla0", Some(EngineKind::Dla)),
            ("pva", None),
            ("", None),
        ] {
            assert_eq!(EngineKind::from_node(node), kind, "{node}");
        }
    }
}
