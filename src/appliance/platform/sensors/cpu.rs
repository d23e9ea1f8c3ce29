// SPDX-License-Identifier: Apache-2.0
//! CPUs: busy time, from `/proc/stat`, and clocks, from cpufreq.

use serde::Serialize;

use super::Reader;

/// One CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// CPU number, from 0.
    pub number: u32,
    /// Whether it is online; power modes take some offline.
    pub is_online: bool,
    /// Busy and total time; `None` while the CPU is offline.
    pub ticks: Option<CpuTicks>,
    /// Current clock, in kHz.
    pub khz: Option<u64>,
    /// Minimum clock, in kHz.
    pub min_khz: Option<u64>,
    /// Maximum clock, in kHz.
    pub max_khz: Option<u64>,
}

/// Time since boot, in the kernel's ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CpuTicks {
    /// Busy time.
    pub busy: u64,
    /// Total time.
    pub total: u64,
    /// Of the busy time: that in which the hypervisor ran other virtual machines.
    pub stolen: u64,
}

impl CpuTicks {
    /// Load between two times, in percent; `None` when no time has passed, or the counters were reset.
    pub(super) fn load_since(self, earlier: Self) -> Option<f32> {
        let total = self.total.checked_sub(earlier.total)?;
        let busy = self.busy.checked_sub(earlier.busy)?;
        (total > 0 && busy <= total).then(|| (busy as f64 * 100.0 / total as f64) as f32)
    }
}

pub(super) fn read(reader: &mut Reader<'_>) -> Vec<Cpu> {
    let stat = reader.text("/proc/stat").unwrap_or_default();
    let ticks: Vec<(u32, CpuTicks)> = stat.lines().filter_map(parse_ticks).collect();
    let mut numbers: Vec<u32> = reader
        .names("/sys/devices/system/cpu")
        .iter()
        .filter_map(|name| name.strip_prefix("cpu")?.parse().ok())
        .collect();
    numbers.extend(ticks.iter().map(|(number, _)| *number));
    numbers.sort_unstable();
    numbers.dedup();
    let cpu = |number| {
        let folder = format!("/sys/devices/system/cpu/cpu{number}");
        let ticks = ticks.iter().find(|(found, _)| *found == number);
        // The first CPU often has no such file: it cannot be taken offline.
        let online: Option<u32> = reader.number(&format!("{folder}/online"));
        Cpu {
            number,
            is_online: online.map_or(ticks.is_some(), |online| online == 1),
            ticks: ticks.map(|(_, ticks)| *ticks),
            khz: reader.number(&format!("{folder}/cpufreq/scaling_cur_freq")),
            min_khz: reader.number(&format!("{folder}/cpufreq/scaling_min_freq")),
            max_khz: reader.number(&format!("{folder}/cpufreq/scaling_max_freq")),
        }
    };
    numbers.into_iter().map(cpu).collect()
}

/// Reads `cpu3 user nice system idle iowait irq softirq steal …`; guest time is included in user.
pub(crate) fn parse_ticks(line: &str) -> Option<(u32, CpuTicks)> {
    let mut fields = line.split_whitespace();
    let number = fields.next()?.strip_prefix("cpu")?.parse().ok()?;
    let times: Vec<u64> = fields
        .take(8)
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let total: u64 = times.iter().sum();
    let idle: u64 = times.iter().skip(3).take(2).sum();
    (times.len() >= 4).then_some((
        number,
        CpuTicks {
            busy: total - idle,
            total,
            stolen: times.get(7).copied().unwrap_or(0),
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read_per_cpu() {
        let (number, ticks) = parse_ticks("cpu3 100 5 20 800 50 3 2 7 0 0").expect("a CPU's line");
        assert_eq!(number, 3);
        assert_eq!((ticks.busy, ticks.total, ticks.stolen), (137, 987, 7));
        for line in [
            "cpu 100 5 20 800",
            "intr 1 2",
            "cpu0 1 2 3",
            "cpu0 a b c d",
            "",
        ] {
            assert_eq!(parse_ticks(line), None, "{line}");
        }
    }

    #[test]
    fn cpu_load_is_busy_share_between_samples() {
        let at = |busy, total| CpuTicks {
            busy,
            total,
            stolen: 0,
        };
        assert_eq!(at(150, 300).load_since(at(100, 100)), Some(25.0));
        assert_eq!(at(100, 100).load_since(at(100, 100)), None);
        assert_eq!(at(10, 20).load_since(at(100, 200)), None);
    }
}
