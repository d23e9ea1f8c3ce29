// SPDX-License-Identifier: Apache-2.0
//! Which frames of a source go through the network, and which skip it: by a fixed interval, or by one that follows the load.
//!
//! Sources of one interval take turns, so that the load of the network is even. All live sources with an adaptive interval share
//! one: each then skips as few frames as the others. Pure: times are arguments. [`Batcher`](super::Batcher) asks for every frame.

use std::time::{Duration, Instant};

use jetwatch_config::Interval;

/// Interval at which the load is sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// Share of the workers' time that may be used after the interval was changed: what is left absorbs uneven arrival.
const MAX_LOAD: f64 = 0.85;

/// Share of a load that led to drops that is tried next: forming batches takes time, too, and frames arrive unevenly.
const BACKOFF_FACTOR: f64 = 0.9;

/// Samples without drops before the interval is lowered, at first and at most. The number doubles when lowering led to drops.
const CALM_SAMPLES: u32 = 5;
const MAX_CALM_SAMPLES: u32 = 320;

/// Drops within this many samples after the interval was lowered are attributed to that.
const TRIAL_SAMPLES: u32 = 10;

/// Decides for every source which frames skip the network.
#[derive(Debug)]
pub(super) struct IntervalController {
    sources: Vec<SourceInterval>,
    adaptive: AdaptiveInterval,
    workers: usize,
    last_sample: Sample,
}

/// The interval of one source.
#[derive(Debug)]
struct SourceInterval {
    interval: u32,
    is_adaptive: bool,
    /// The source was removed.
    is_removed: bool,
    /// Frames that still skip the network.
    skips_left: u32,
    skipped: u64,
}

impl SourceInterval {
    fn new(kind: &SourceKind) -> Self {
        Self {
            interval: match kind.interval {
                Interval::Frames(frames) => frames,
                Interval::Adaptive => 0,
            },
            is_adaptive: kind.is_live && kind.interval == Interval::Adaptive,
            is_removed: false,
            skips_left: 0,
            skipped: 0,
        }
    }

    /// Whether its interval follows the load now.
    fn is_adaptive_now(&self) -> bool {
        self.is_adaptive && !self.is_removed
    }
}

/// The totals at the last sample.
#[derive(Debug)]
struct Sample {
    at: Option<Instant>,
    offered: u64,
    others: u64,
    dropped: u64,
    busy_time: Duration,
    /// Frames that waited when the interval was raised: drops of them say nothing about the new one.
    left_over: u64,
}

/// What the interval of a source depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct SourceKind {
    pub(super) interval: Interval,
    pub(super) is_live: bool,
}

/// Sums since the start, over all live sources; the time over all workers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Totals {
    /// Frames for the network, dropped ones included, of the sources whose interval is adaptive.
    pub(super) offered: u64,
    /// The same of the others.
    pub(super) others: u64,
    /// Frames of both that were dropped.
    pub(super) dropped: u64,
    /// Frames that wait for it now.
    pub(super) waiting: u64,
    /// Time in which workers were busy, added up.
    pub(super) busy_time: Duration,
}

impl IntervalController {
    /// For sources that start now. An adaptive interval is 0 for a file, whose frames wait for the network.
    pub(super) fn new(kinds: &[SourceKind], max_interval: u32, workers: usize) -> Self {
        let mut controller = Self {
            sources: kinds.iter().map(SourceInterval::new).collect(),
            adaptive: AdaptiveInterval::new(max_interval),
            workers: workers.max(1),
            last_sample: Sample {
                at: None,
                offered: 0,
                others: 0,
                dropped: 0,
                busy_time: Duration::ZERO,
                left_over: 0,
            },
        };
        controller.stagger(|_| true);
        controller
    }

    /// Adds a source, which takes its turn behind the others with the same interval.
    pub(super) fn add_source(&mut self, kind: SourceKind) {
        let mut source = SourceInterval::new(&kind);
        if source.is_adaptive {
            source.interval = self.adaptive.interval;
        }
        let alike =
            |other: &&SourceInterval| other.interval == source.interval && !other.is_removed;
        let place = self.sources.iter().filter(alike).count();
        source.skips_left = u32::try_from(place).unwrap_or(0) % (source.interval + 1);
        self.sources.push(source);
    }

    /// Removes a source. Its totals remain, as totals never fall.
    pub(super) fn remove_source(&mut self, source: usize) {
        self.sources[source].is_removed = true;
    }

    /// Whether the next frame of this source skips the network; counts it.
    pub(super) fn should_skip(&mut self, source: usize) -> bool {
        let source = &mut self.sources[source];
        if source.skips_left == 0 {
            source.skips_left = source.interval;
            return false;
        }
        source.skips_left -= 1;
        source.skipped += 1;
        true
    }

    /// Frames of this source that skip the network after each that does not.
    pub(super) fn interval(&self, source: usize) -> u32 {
        self.sources[source].interval
    }

    /// Number of frames of this source that skipped the network.
    pub(super) fn skipped(&self, source: usize) -> u64 {
        self.sources[source].skipped
    }

    /// Whether the interval of this source follows the load, or did until it was removed.
    pub(super) fn is_adaptive(&self, source: usize) -> bool {
        self.sources[source].is_adaptive
    }

    /// Whether the next sample is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let since = self
            .last_sample
            .at
            .map(|at| now.saturating_duration_since(at));
        since.is_none_or(|since| since >= SAMPLE_INTERVAL)
            && self.sources.iter().any(SourceInterval::is_adaptive_now)
    }

    /// Samples the load and adapts the interval.
    pub(super) fn sample(&mut self, now: Instant, totals: Totals) {
        let before = std::mem::replace(
            &mut self.last_sample,
            Sample {
                at: Some(now),
                offered: totals.offered,
                others: totals.others,
                dropped: totals.dropped,
                busy_time: totals.busy_time,
                left_over: 0,
            },
        );
        let Some(at) = before.at else { return };
        let time = now.saturating_duration_since(at).as_secs_f64() * self.workers as f64;
        let worked = totals.busy_time.saturating_sub(before.busy_time);
        let dropped = totals.dropped - before.dropped;
        let had = self.adaptive.interval;
        let chosen = self.adaptive.step(LoadSample {
            offered: totals.offered - before.offered,
            others: totals.others - before.others,
            dropped: dropped.saturating_sub(before.left_over),
            load: worked.as_secs_f64() / time.max(f64::EPSILON),
        });
        if chosen > had {
            self.last_sample.left_over = totals.waiting;
        }
        let is_new =
            |source: &SourceInterval| source.is_adaptive_now() && source.interval != chosen;
        if self.sources.iter().any(is_new) {
            log::info!(interval = chosen; "adaptive interval: {chosen} frames skip inference after each frame with inference");
            for source in self
                .sources
                .iter_mut()
                .filter(|source| source.is_adaptive_now())
            {
                source.interval = chosen;
            }
            self.stagger(SourceInterval::is_adaptive_now);
        }
    }

    /// Spreads the turns of these sources over the interval.
    fn stagger(&mut self, concerned: impl Fn(&SourceInterval) -> bool) {
        let sources = self.sources.iter_mut().filter(|source| concerned(source));
        for (place, source) in (0_u32..).zip(sources.filter(|source| source.interval > 0)) {
            source.skips_left = place % (source.interval + 1);
        }
    }
}

/// The load between two samples.
#[derive(Debug, Clone, Copy)]
struct LoadSample {
    /// Frames for the network, dropped ones included, of the sources with the adaptive interval.
    offered: u64,
    /// The same of the other live sources, whose intervals are fixed.
    others: u64,
    /// Frames of both that were dropped.
    dropped: u64,
    /// Share of their time in which workers were busy.
    load: f64,
}

/// The interval that follows the load: raised at once when frames are dropped, lowered after a long time without drops when the
/// load leaves room for it.
#[derive(Debug)]
struct AdaptiveInterval {
    interval: u32,
    max: u32,
    /// Samples without drops in a row.
    calm_samples: u32,
    /// The load of the newest of them.
    loads: [f64; CALM_SAMPLES as usize],
    /// Samples without drops before the interval is lowered.
    required_calm_samples: u32,
    /// Samples since the interval was lowered.
    since_lowered: u32,
    /// The load that was expected from that.
    expected_load: f64,
    /// The load up to which the interval is lowered: less, once that has led to drops.
    max_load: f64,
}

impl AdaptiveInterval {
    fn new(max: u32) -> Self {
        Self {
            interval: 0,
            max,
            calm_samples: 0,
            loads: [0.0; CALM_SAMPLES as usize],
            required_calm_samples: CALM_SAMPLES,
            since_lowered: TRIAL_SAMPLES,
            expected_load: 0.0,
            max_load: MAX_LOAD,
        }
    }

    fn step(&mut self, sample: LoadSample) -> u32 {
        self.since_lowered = self.since_lowered.saturating_add(1);
        if sample.dropped > 0 {
            self.calm_samples = 0;
            if self.since_lowered <= TRIAL_SAMPLES {
                self.required_calm_samples = (self.required_calm_samples * 2).min(MAX_CALM_SAMPLES);
                self.max_load = BACKOFF_FACTOR * self.expected_load;
                self.since_lowered = TRIAL_SAMPLES;
            }
            // What a busy network took is all that it can do: so many turns must be left out that it has time to spare, or it
            // would drop again. One that is not busy dropped because frames came in a burst.
            let all = sample.offered + sample.others;
            let taken = all.saturating_sub(sample.dropped).max(1) as f64;
            let is_busy = sample.load > MAX_LOAD;
            let able = taken * if is_busy { MAX_LOAD } else { 1.0 };
            let turns = f64::from(self.interval + 1) * sample.offered.max(1) as f64;
            // What the others leave. A float becomes the nearest whole number that there is.
            let able = (able - sample.others as f64).max(f64::EPSILON);
            let needed = ((turns / able).ceil() as u32).saturating_sub(1);
            self.interval = needed.max(self.interval + 1).min(self.max);
            return self.interval;
        }
        self.calm_samples = self.calm_samples.saturating_add(1);
        self.loads[self.calm_samples as usize % self.loads.len()] = sample.load;
        if self.interval > 0 && self.calm_samples >= self.required_calm_samples {
            // By the busiest of them: one that happened to see little work would lead to drops.
            let busiest = self.loads.into_iter().fold(0.0, f64::max);
            let turns = f64::from(self.interval + 1);
            let own = sample.offered.max(1) as f64;
            let share = own / (own + sample.others as f64);
            let load =
                |interval: u32| busiest * (1.0 - share + share * turns / f64::from(interval + 1));
            let fits = |lower: &u32| load(*lower) <= self.max_load;
            if let Some(lower) = (0..self.interval).find(fits) {
                self.interval = lower;
                self.expected_load = load(lower);
                self.calm_samples = 0;
                self.since_lowered = 0;
            }
        }
        if self.calm_samples >= MAX_CALM_SAMPLES {
            self.required_calm_samples = CALM_SAMPLES;
            self.max_load = MAX_LOAD;
        }
        self.interval
    }
}

#[cfg(test)]
mod tests;
