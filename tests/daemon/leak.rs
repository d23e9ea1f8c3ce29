// SPDX-License-Identifier: Apache-2.0
//! Ten sources started and stopped forty times leak no thread, file descriptor or memory.

use crate::support;

use std::fs;
use std::time::{Duration, Instant};

use jetwatch_config::{Pacing, SourceUri, SyntheticScene};
use jetwatch_telemetry::process_usage;

use support::child::{is_child, run_child};
use support::clips;
use support::collector::{Collector, config};
use support::daemon::TEST_TIMEOUT;

/// Threads, file descriptors and resident KiB of this process.
fn footprint() -> (usize, usize, u64) {
    let count = |folder: &str| fs::read_dir(folder).expect("/proc is there").count();
    (
        count("/proc/self/task"),
        count("/proc/self/fd"),
        process_usage().rss_bytes / 1024,
    )
}

#[test]
fn ten_sources_restarted_forty_times_do_not_leak() {
    // Other tests of this process would be counted, too.
    let test = "ten_sources_restarted_forty_times_do_not_leak";
    if !is_child(test) {
        run_child(test, |_| ());
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let clip = clips::mp4(folder.path(), "a.mp4", 160, 120, 300);
    let configs: Vec<_> = (0..10)
        .map(|index| {
            let uri = match index % 3 {
                0 => SourceUri::File(clip.clone()),
                1 => SourceUri::Launch("videotestsrc is-live=true ! video/x-raw,width=160,height=120,framerate=100/1 ! identity".to_owned()),
                _ => SourceUri::Synthetic(SyntheticScene { seed: index, objects: 4, width: 160, height: 120, fps: 100, frames: None, shake: 0, pacing: Pacing::Realtime }),
            };
            let mut config = config(uri);
            config.name = format!("cam{index}");
            config
        })
        .collect();

    let round = || {
        let running: Vec<_> = configs
            .iter()
            .map(|config| Collector::start(config, 3))
            .collect();
        for collector in running {
            let (frames, result) = collector.join();
            result.expect("it was stopped after its frames");
            assert!(frames.len() >= 3, "{} frames", frames.len());
        }
    };
    // Plug-ins, caches and the allocator's arenas settle in the first rounds.
    for _ in 0..20 {
        round();
    }
    let (threads, descriptors, memory) = footprint();
    for _ in 20..40 {
        round();
    }
    // Threads of the last round may still be closing what they held.
    let deadline = Instant::now() + TEST_TIMEOUT;
    let settled = |(t, d, m): (usize, usize, u64)| {
        t < threads + 10 && d <= descriptors && m < memory + 8 * 1024
    };
    while !settled(footprint()) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    let (threads_after, descriptors_after, memory_after) = footprint();
    // GLib's pool keeps idle threads for a while, so their number comes and goes; a leak of one a round would be 20.
    assert!(
        threads_after < threads + 10,
        "threads: {threads} after 20 rounds, {threads_after} after 40"
    );
    assert!(
        descriptors_after <= descriptors,
        "file descriptors: {descriptors} after 20 rounds, {descriptors_after} after 40"
    );
    // 200 sources were opened in between; one leaked frame of each would be 47 MiB.
    assert!(
        memory_after < memory + 8 * 1024,
        "memory: {memory} KiB after 20 rounds, {memory_after} KiB after 40"
    );
}
