// SPDX-License-Identifier: Apache-2.0
//! Counters of a secondary network, for `stats` messages and the final report.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jetwatch_publish::SecondaryStats;

/// Written by the tracking stage and the workers of the network.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Most crops that one run takes.
    max_batch: usize,
    /// Most crops of a batch, by the configuration.
    batch_size: usize,
    objects: AtomicU64,
    small_objects: AtomicU64,
    frames: AtomicU64,
    crops: AtomicU64,
    batches: AtomicU64,
    dropped: AtomicU64,
    late: AtomicU64,
    without_pixels: AtomicU64,
    wait_us: AtomicU64,
    infer_us: AtomicU64,
}

/// A network's counters under its name.
pub(crate) type NamedCounters = (Arc<str>, Arc<Counters>);

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Counters {
    /// For a network that takes at most `max_batch` crops in one run, and batches of at most `batch_size`.
    pub(super) fn new(max_batch: usize, batch_size: usize) -> Self {
        Self {
            max_batch,
            batch_size,
            ..Self::default()
        }
    }

    /// A frame has this number of objects for the network, and of such that are too small for a crop.
    pub(crate) fn eligible(&self, objects: usize, small: usize) {
        add(&self.small_objects, small as u64);
        if objects > 0 {
            add(&self.objects, objects as u64);
            add(&self.frames, 1);
        }
    }

    /// A batch of crops was inferred in the time `infer`; `waited` is the sum of their waiting times.
    pub(crate) fn batch(&self, crops: usize, waited: Duration, infer: Duration) {
        add(&self.crops, crops as u64);
        add(&self.batches, 1);
        add(&self.wait_us, microseconds(waited));
        add(&self.infer_us, microseconds(infer));
    }

    /// A crop found the queue full.
    pub(super) fn dropped(&self) {
        add(&self.dropped, 1);
    }

    /// A result found its track gone.
    pub(super) fn late(&self) {
        add(&self.late, 1);
    }

    /// A frame had objects for the network, but no image.
    pub(crate) fn without_pixels(&self) {
        add(&self.without_pixels, 1);
    }

    /// The numbers so far.
    pub(crate) fn stats(&self, name: &str) -> SecondaryStats {
        let per = |sum: u64, count: u64| sum as f64 / count.max(1) as f64;
        let (crops, batches) = (get(&self.crops), get(&self.batches));
        let objects_per_frame = per(get(&self.objects), get(&self.frames));
        SecondaryStats {
            name: name.to_owned(),
            objects_per_frame,
            objects: get(&self.objects),
            small_objects: get(&self.small_objects),
            suggested_batch_size: (objects_per_frame.round() as usize)
                .clamp(1, self.max_batch.max(1)),
            batch_size: self.batch_size,
            crops,
            batches,
            mean_batch: per(crops, batches),
            dropped_crops: get(&self.dropped),
            late_results: get(&self.late),
            frames_without_pixels: get(&self.without_pixels),
            mean_wait_ms: per(get(&self.wait_us), crops) / 1e3,
            mean_infer_ms: per(get(&self.infer_us), batches) / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggested_batch_size_is_mean_crops_capped_by_network() {
        let counters = Counters::new(64, 4);
        // Without frames.
        assert_eq!(counters.stats("a").suggested_batch_size, 1);
        for objects in [0, 9, 0, 12, 0] {
            counters.eligible(objects, 2);
        }
        let stats = counters.stats("a");
        assert_eq!(
            (stats.objects_per_frame, stats.suggested_batch_size),
            (10.5, 11)
        );
        assert_eq!((stats.objects, stats.small_objects), (21, 10));
        let fixed = Counters::new(1, 1);
        fixed.eligible(10, 0);
        assert_eq!(fixed.stats("a").suggested_batch_size, 1);
    }

    #[test]
    fn times_are_means() {
        let counters = Counters::new(8, 8);
        counters.batch(3, Duration::from_millis(9), Duration::from_millis(4));
        counters.batch(1, Duration::from_millis(3), Duration::from_millis(2));
        let stats = counters.stats("a");
        assert_eq!((stats.crops, stats.batches, stats.mean_batch), (4, 2, 2.0));
        assert_eq!((stats.mean_wait_ms, stats.mean_infer_ms), (3.0, 3.0));
    }
}
