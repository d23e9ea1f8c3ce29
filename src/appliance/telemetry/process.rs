// SPDX-License-Identifier: Apache-2.0
//! Resource usage of this process: CPU time and memory, from the kernel.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time and memory of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessUsage {
    /// User and system time of all threads, including ended ones.
    pub cpu: Duration,
    /// Resident memory now, in bytes.
    pub rss_bytes: u64,
    /// Highest resident memory so far, in bytes.
    pub peak_rss_bytes: u64,
    /// Threads now.
    pub threads: u64,
}

/// CPU time of the calling thread.
pub fn thread_cpu_time() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

/// Usage so far. Memory and threads are 0 where `/proc` is not readable.
pub fn process_usage() -> ProcessUsage {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let number = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    ProcessUsage {
        cpu: clock(ClockId::ProcessCPUTime),
        rss_bytes: number("VmRSS:").unwrap_or(0) * 1024,
        peak_rss_bytes: number("VmHWM:").unwrap_or(0) * 1024,
        threads: number("Threads:").unwrap_or(0),
    }
}

/// File descriptors that this process has open; `None` where `/proc` is not readable.
pub fn open_fds() -> Option<u64> {
    let entries = fs::read_dir("/proc/self/fd").ok()?;
    // One of them reads the folder.
    (entries.count() as u64).checked_sub(1)
}

/// Time since the start of the machine, with the time that it was suspended. The same in all processes, and never set.
pub fn boot_time() -> Duration {
    clock(ClockId::Boottime)
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    // These clocks start at zero and have fewer than 1e9 nanoseconds: both parts are non-negative.
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_from_the_kernel() {
        let usage = process_usage();
        assert!(
            usage.rss_bytes > 1 << 20 && usage.peak_rss_bytes >= usage.rss_bytes,
            "{usage:?}"
        );
        assert!(usage.cpu >= thread_cpu_time());
        assert!(usage.threads >= 1, "{usage:?}");
        let _file = fs::File::open("/proc/self/status").expect("readable");
        assert!(open_fds() >= Some(4), "standard streams and the file");
    }
}
