//! Which frames of a source go through the network, and which skip it: by a fixed interval, or by one that follows the load.
//!
//! Sources of one interval take turns, so that the network has as much to do in every moment. The adaptive interval is one
//! for all live sources that ask for it: each then loses as little as the others. Pure but for the caller's clock; the
//! lanes ask it for every frame.

use std::time::{Duration, Instant};

use jetwatch_config::Interval;

/// How often the load is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Share of the workers' time that may be used after the interval was changed: what is left absorbs uneven arrival.
const HIGHEST_LOAD: f64 = 0.85;

/// Of the load that led to drops, what is tried again: waiting for company takes time, too, and frames come unevenly.
const LESS: f64 = 0.9;

/// Looks without drops before the interval is lowered, at first and at most. It doubles when lowering led to drops.
const PATIENCE: u32 = 5;
const MOST_PATIENCE: u32 = 320;

/// Drops within so many looks after the interval was lowered come from that.
const TRIAL: u32 = 10;

/// The beat of every source.
#[derive(Debug)]
pub(super) struct Cadence {
    beats: Vec<Beat>,
    adaptive: Adaptive,
    workers: usize,
    look: Look,
}

/// One source's.
#[derive(Debug)]
struct Beat {
    interval: u32,
    is_adaptive: bool,
    /// The source is gone.
    has_left: bool,
    /// Frames that still skip the network.
    wait: u32,
    carried: u64,
}

impl Beat {
    fn new(member: &Member) -> Self {
        Self {
            interval: match member.interval {
                Interval::Frames(frames) => frames,
                Interval::Adaptive => 0,
            },
            is_adaptive: member.is_live && member.interval == Interval::Adaptive,
            has_left: false,
            wait: 0,
            carried: 0,
        }
    }

    /// Whether its interval follows the load now.
    fn follows(&self) -> bool {
        self.is_adaptive && !self.has_left
    }
}

/// What was counted when the load was last looked at.
#[derive(Debug)]
struct Look {
    at: Option<Instant>,
    offered: u64,
    others: u64,
    dropped: u64,
    worked: Duration,
    /// Frames that waited when the interval was raised: what is dropped of them says nothing about the new one.
    left_over: u64,
}

/// What a source is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    pub(super) interval: Interval,
    pub(super) is_live: bool,
}

/// Sums since the start, over all live sources; the time over all workers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sums {
    /// Frames for the network, those that were dropped too, of the sources whose interval is adaptive.
    pub(super) offered: u64,
    /// The same of the others.
    pub(super) others: u64,
    /// Frames of both that were dropped.
    pub(super) dropped: u64,
    /// Frames that wait for it now.
    pub(super) waiting: u64,
    /// Time in which workers were busy, added up.
    pub(super) worked: Duration,
}

impl Cadence {
    /// Sources that begin now. A file's frames wait for the network anyway, so that an adaptive interval is 0 for it.
    pub(super) fn new(members: &[Member], max_interval: u32, workers: usize) -> Self {
        let mut cadence = Self {
            beats: members.iter().map(Beat::new).collect(),
            adaptive: Adaptive::new(max_interval),
            workers: workers.max(1),
            look: Look {
                at: None,
                offered: 0,
                others: 0,
                dropped: 0,
                worked: Duration::ZERO,
                left_over: 0,
            },
        };
        cadence.stagger(|_| true);
        cadence
    }

    /// One more source, which takes its turn behind the others of its kind.
    pub(super) fn join(&mut self, member: Member) {
        let mut beat = Beat::new(&member);
        if beat.is_adaptive {
            beat.interval = self.adaptive.interval;
        }
        let alike = |other: &&Beat| other.interval == beat.interval && !other.has_left;
        let place = self.beats.iter().filter(alike).count();
        beat.wait = u32::try_from(place).unwrap_or(0) % (beat.interval + 1);
        self.beats.push(beat);
    }

    /// A source is gone: it takes no turns any more. What it did so far stays in the sums, which never fall.
    pub(super) fn leave(&mut self, source: usize) {
        self.beats[source].has_left = true;
    }

    /// Whether the next frame of this source skips the network; counts it.
    pub(super) fn carries(&mut self, source: usize) -> bool {
        let beat = &mut self.beats[source];
        if beat.wait == 0 {
            beat.wait = beat.interval;
            return false;
        }
        beat.wait -= 1;
        beat.carried += 1;
        true
    }

    /// Frames of this source that skip the network after each that does not.
    pub(super) fn interval(&self, source: usize) -> u32 {
        self.beats[source].interval
    }

    /// Frames of this source that have skipped it.
    pub(super) fn carried(&self, source: usize) -> u64 {
        self.beats[source].carried
    }

    /// Whether this source's interval follows the load, or did until it left.
    pub(super) fn is_adaptive(&self, source: usize) -> bool {
        self.beats[source].is_adaptive
    }

    /// Whether the load is to be looked at.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let since = self.look.at.map(|at| now.saturating_duration_since(at));
        since.is_none_or(|since| since >= LOOK) && self.beats.iter().any(Beat::follows)
    }

    /// Looks at the load, and chooses the interval anew.
    pub(super) fn look(&mut self, now: Instant, sums: Sums) {
        let before = std::mem::replace(
            &mut self.look,
            Look {
                at: Some(now),
                offered: sums.offered,
                others: sums.others,
                dropped: sums.dropped,
                worked: sums.worked,
                left_over: 0,
            },
        );
        let Some(at) = before.at else { return };
        let time = now.saturating_duration_since(at).as_secs_f64() * self.workers as f64;
        let worked = sums.worked.saturating_sub(before.worked);
        let dropped = sums.dropped - before.dropped;
        let had = self.adaptive.interval;
        let chosen = self.adaptive.step(Seen {
            offered: sums.offered - before.offered,
            others: sums.others - before.others,
            dropped: dropped.saturating_sub(before.left_over),
            load: worked.as_secs_f64() / time.max(f64::EPSILON),
        });
        if chosen > had {
            self.look.left_over = sums.waiting;
        }
        let is_new = |beat: &Beat| beat.follows() && beat.interval != chosen;
        if self.beats.iter().any(is_new) {
            log::info!(interval = chosen; "frames that skip the network after each that goes through it: {chosen}");
            for beat in self.beats.iter_mut().filter(|beat| beat.follows()) {
                beat.interval = chosen;
            }
            self.stagger(Beat::follows);
        }
    }

    /// Spreads the turns of these sources over the interval.
    fn stagger(&mut self, concerned: impl Fn(&Beat) -> bool) {
        let beats = self.beats.iter_mut().filter(|beat| concerned(beat));
        for (place, beat) in (0_u32..).zip(beats.filter(|beat| beat.interval > 0)) {
            beat.wait = place % (beat.interval + 1);
        }
    }
}

/// What one look shows.
#[derive(Debug, Clone, Copy)]
struct Seen {
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
struct Adaptive {
    interval: u32,
    max: u32,
    /// Looks without drops in a row.
    calm: u32,
    /// The load at the newest of them.
    loads: [f64; PATIENCE as usize],
    /// Looks without drops before the interval is lowered.
    patience: u32,
    /// Looks since it was lowered.
    since_lowered: u32,
    /// The load that was expected of that.
    tried_load: f64,
    /// The load up to which it is lowered: less, once that has led to drops.
    highest_load: f64,
}

impl Adaptive {
    fn new(max: u32) -> Self {
        Self {
            interval: 0,
            max,
            calm: 0,
            loads: [0.0; PATIENCE as usize],
            patience: PATIENCE,
            since_lowered: TRIAL,
            tried_load: 0.0,
            highest_load: HIGHEST_LOAD,
        }
    }

    fn step(&mut self, seen: Seen) -> u32 {
        self.since_lowered = self.since_lowered.saturating_add(1);
        if seen.dropped > 0 {
            self.calm = 0;
            if self.since_lowered <= TRIAL {
                self.patience = (self.patience * 2).min(MOST_PATIENCE);
                self.highest_load = LESS * self.tried_load;
                self.since_lowered = TRIAL;
            }
            // What a busy network took is all that it can do: so many turns must be left out that it has time to spare, or it
            // would drop again. One that is not busy dropped because frames came in a burst.
            let all = seen.offered + seen.others;
            let taken = all.saturating_sub(seen.dropped).max(1) as f64;
            let is_busy = seen.load > HIGHEST_LOAD;
            let able = taken * if is_busy { HIGHEST_LOAD } else { 1.0 };
            let turns = f64::from(self.interval + 1) * seen.offered.max(1) as f64;
            // What the others leave. A float becomes the nearest whole number that there is.
            let able = (able - seen.others as f64).max(f64::EPSILON);
            let needed = ((turns / able).ceil() as u32).saturating_sub(1);
            self.interval = needed.max(self.interval + 1).min(self.max);
            return self.interval;
        }
        self.calm = self.calm.saturating_add(1);
        self.loads[self.calm as usize % self.loads.len()] = seen.load;
        if self.interval > 0 && self.calm >= self.patience {
            // By the busiest of them: one that happened to see little work would lead to drops.
            let busiest = self.loads.into_iter().fold(0.0, f64::max);
            let turns = f64::from(self.interval + 1);
            let own = seen.offered.max(1) as f64;
            let share = own / (own + seen.others as f64);
            let load =
                |interval: u32| busiest * (1.0 - share + share * turns / f64::from(interval + 1));
            let fits = |lower: &u32| load(*lower) <= self.highest_load;
            if let Some(lower) = (0..self.interval).find(fits) {
                self.interval = lower;
                self.tried_load = load(lower);
                self.calm = 0;
                self.since_lowered = 0;
            }
        }
        if self.calm >= MOST_PATIENCE {
            self.patience = PATIENCE;
            self.highest_load = HIGHEST_LOAD;
        }
        self.interval
    }
}

#[cfg(test)]
mod tests;
