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
}

/// CPU time of the calling thread.
#[must_use]
pub fn thread_cpu_time() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

/// Usage so far. Memory is 0 where `/proc` is not readable.
#[must_use]
pub fn process_usage() -> ProcessUsage {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    ProcessUsage {
        cpu: clock(ClockId::ProcessCPUTime),
        rss_bytes: kib("VmRSS:").unwrap_or(0) * 1024,
        peak_rss_bytes: kib("VmHWM:").unwrap_or(0) * 1024,
    }
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    // CPU clocks start at zero and have fewer than 1e9 nanoseconds: both parts are non-negative.
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
    }
}
