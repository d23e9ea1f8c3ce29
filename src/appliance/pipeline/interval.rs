//! Which frames of a source go through the network, and which skip it: by a fixed interval, or by one that follows the load.
//!
//! Sources of one interval take turns, so that the network has as much to do in every moment. The adaptive interval is one
//! for all live sources that ask for it: each then loses as little as the others. Pure but for the caller's clock; the
//! lanes ask it for every frame.

use std::time::{Duration, Instant};

use jetwatch_config::Interval;

/// How often the load is looked at.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// Share of the workers' time that may be used after the interval was changed: what is left absorbs uneven arrival.
const MAX_LOAD: f64 = 0.85;

/// Of the load that led to drops, what is tried again: waiting for company takes time, too, and frames come unevenly.
const BACKOFF_FACTOR: f64 = 0.9;

/// Looks without drops before the interval is lowered, at first and at most. It doubles when lowering led to drops.
const CALM_SAMPLES: u32 = 5;
const MAX_CALM_SAMPLES: u32 = 320;

/// Drops within so many looks after the interval was lowered come from that.
const TRIAL_SAMPLES: u32 = 10;

/// The beat of every source.
#[derive(Debug)]
pub(super) struct IntervalController {
    sources: Vec<SourceInterval>,
    adaptive: AdaptiveInterval,
    workers: usize,
    last_sample: Sample,
}

/// One source's.
#[derive(Debug)]
struct SourceInterval {
    interval: u32,
    is_adaptive: bool,
    /// The source is gone.
    is_removed: bool,
    /// Frames that still skip the network.
    skips_left: u32,
    skipped: u64,
}

impl SourceInterval {
    fn new(member: &SourceKind) -> Self {
        Self {
            interval: match member.interval {
                Interval::Frames(frames) => frames,
                Interval::Adaptive => 0,
            },
            is_adaptive: member.is_live && member.interval == Interval::Adaptive,
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

/// What was counted when the load was last looked at.
#[derive(Debug)]
struct Sample {
    at: Option<Instant>,
    offered: u64,
    others: u64,
    dropped: u64,
    busy_time: Duration,
    /// Frames that waited when the interval was raised: what is dropped of them says nothing about the new one.
    left_over: u64,
}

/// What a source is.
#[derive(Debug, Clone, Copy)]
pub(super) struct SourceKind {
    pub(super) interval: Interval,
    pub(super) is_live: bool,
}

/// Sums since the start, over all live sources; the time over all workers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Totals {
    /// Frames for the network, those that were dropped too, of the sources whose interval is adaptive.
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
    /// Sources that begin now. A file's frames wait for the network anyway, so that an adaptive interval is 0 for it.
    pub(super) fn new(members: &[SourceKind], max_interval: u32, workers: usize) -> Self {
        let mut cadence = Self {
            sources: members.iter().map(SourceInterval::new).collect(),
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
        cadence.stagger(|_| true);
        cadence
    }

    /// One more source, which takes its turn behind the others of its kind.
    pub(super) fn add_source(&mut self, kind: SourceKind) {
        let mut beat = SourceInterval::new(&kind);
        if beat.is_adaptive {
            beat.interval = self.adaptive.interval;
        }
        let alike = |other: &&SourceInterval| other.interval == beat.interval && !other.is_removed;
        let place = self.sources.iter().filter(alike).count();
        beat.skips_left = u32::try_from(place).unwrap_or(0) % (beat.interval + 1);
        self.sources.push(beat);
    }

    /// A source is gone: it takes no turns any more. What it did so far stays in the sums, which never fall.
    pub(super) fn remove_source(&mut self, source: usize) {
        self.sources[source].is_removed = true;
    }

    /// Whether the next frame of this source skips the network; counts it.
    pub(super) fn should_skip(&mut self, source: usize) -> bool {
        let beat = &mut self.sources[source];
        if beat.skips_left == 0 {
            beat.skips_left = beat.interval;
            return false;
        }
        beat.skips_left -= 1;
        beat.skipped += 1;
        true
    }

    /// Frames of this source that skip the network after each that does not.
    pub(super) fn interval(&self, source: usize) -> u32 {
        self.sources[source].interval
    }

    /// Frames of this source that have skipped it.
    pub(super) fn skipped(&self, source: usize) -> u64 {
        self.sources[source].skipped
    }

    /// Whether this source's interval follows the load, or did until it left.
    pub(super) fn is_adaptive(&self, source: usize) -> bool {
        self.sources[source].is_adaptive
    }

    /// Whether the load is to be looked at.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let since = self
            .last_sample
            .at
            .map(|at| now.saturating_duration_since(at));
        since.is_none_or(|since| since >= SAMPLE_INTERVAL)
            && self.sources.iter().any(SourceInterval::is_adaptive_now)
    }

    /// Looks at the load, and chooses the interval anew.
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
        let is_new = |beat: &SourceInterval| beat.is_adaptive_now() && beat.interval != chosen;
        if self.sources.iter().any(is_new) {
            log::info!(interval = chosen; "frames that skip the network after each that goes through it: {chosen}");
            for beat in self
                .sources
                .iter_mut()
                .filter(|beat| beat.is_adaptive_now())
            {
                beat.interval = chosen;
            }
            self.stagger(SourceInterval::is_adaptive_now);
        }
    }

    /// Spreads the turns of these sources over the interval.
    fn stagger(&mut self, concerned: impl Fn(&SourceInterval) -> bool) {
        let beats = self.sources.iter_mut().filter(|beat| concerned(beat));
        for (place, beat) in (0_u32..).zip(beats.filter(|beat| beat.interval > 0)) {
            beat.skips_left = place % (beat.interval + 1);
        }
    }
}

/// What one look shows.
#[derive(Debug, Clone, Copy)]
struct LoadSample {
    /// Frames for the network since the last look, those that were dropped too, of the sources whose interval this is.
    offered: u64,
    /// The same of the others, of which none skips the network for this.
    others: u64,
    /// Frames of both that were dropped.
    dropped: u64,
    /// Share of the workers' time in which they were busy.
    load: f64,
}

/// The interval that follows the load: up at once when frames were dropped, down when it has long been calm and the load
/// says that it will stay so.
#[derive(Debug)]
struct AdaptiveInterval {
    interval: u32,
    max: u32,
    /// Looks without drops in a row.
    calm_samples: u32,
    /// The load at the newest of them.
    loads: [f64; CALM_SAMPLES as usize],
    /// Looks without drops before the interval is lowered.
    required_calm_samples: u32,
    /// Looks since it was lowered.
    since_lowered: u32,
    /// The load that was expected of that.
    expected_load: f64,
    /// The load up to which it is lowered: less, once that has led to drops.
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
