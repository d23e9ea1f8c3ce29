//! Which frames of a source go through the network, and which skip it: by a fixed interval, or by one that follows the load.
//!
//! Sources of one interval take turns, so that the network has as much to do in every moment. The adaptive interval is one
//! for all live sources that ask for it: each then loses as little as the others. Pure but for the caller's clock; the
//! lanes ask it for every frame.

use std::time::{Duration, Instant};

use crate::config::Interval;

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

/// Sums since the start, over the sources whose interval is adaptive; the time over all workers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sums {
    /// Frames for the network, those that were dropped too.
    pub(super) offered: u64,
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
    /// Frames for the network since the last look, those that were dropped too.
    offered: u64,
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
            let taken = seen.offered.saturating_sub(seen.dropped).max(1) as f64;
            let is_busy = seen.load > HIGHEST_LOAD;
            let able = taken * if is_busy { HIGHEST_LOAD } else { 1.0 };
            let turns = f64::from(self.interval + 1) * seen.offered.max(1) as f64;
            // A float becomes the nearest whole number that there is.
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
            let load = |interval: u32| busiest * turns / f64::from(interval + 1);
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
mod tests {
    use super::*;

    fn fixed(intervals: &[u32]) -> Cadence {
        let members: Vec<_> = intervals
            .iter()
            .map(|&frames| Member {
                interval: Interval::Frames(frames),
                is_live: true,
            })
            .collect();
        Cadence::new(&members, 5, 1)
    }

    #[test]
    fn every_so_manieth_frame_goes_through_the_network_and_sources_take_turns() {
        let mut cadence = fixed(&[3, 3, 3, 3, 0]);
        for _ in 0..10 {
            let through: Vec<Vec<usize>> = (0..4)
                .map(|_| (0..5).filter(|&source| !cadence.carries(source)).collect())
                .collect();
            assert_eq!(through, [[0, 4], [1, 4], [2, 4], [3, 4]]);
        }
        assert_eq!((cadence.carried(0), cadence.carried(4)), (30, 0));
    }

    #[test]
    fn who_joins_takes_a_turn_of_its_own_and_who_leaves_gives_it_up() {
        let mut cadence = fixed(&[2, 2]);
        let member = Member {
            interval: Interval::Frames(2),
            is_live: true,
        };
        cadence.join(member);
        let through: Vec<Vec<usize>> = (0..3)
            .map(|_| (0..3).filter(|&source| !cadence.carries(source)).collect())
            .collect();
        assert_eq!(through, [[0], [1], [2]]);
        cadence.join(Member {
            interval: Interval::Adaptive,
            ..member
        });
        assert!(cadence.is_due(Instant::now()));
        cadence.leave(3);
        assert!(!cadence.is_due(Instant::now()), "nobody adapts any more");
    }

    #[test]
    fn frames_that_waited_when_the_interval_was_raised_do_not_raise_it_again() {
        let member = Member {
            interval: Interval::Adaptive,
            is_live: true,
        };
        let mut cadence = Cadence::new(&[member; 4], 8, 1);
        let (start, mut sums) = (
            Instant::now(),
            Sums {
                offered: 0,
                dropped: 0,
                waiting: 0,
                worked: Duration::ZERO,
            },
        );
        let mut chosen = Vec::new();
        // In the second second, the last four frames of the first are dropped; in the fourth, four that came meanwhile.
        for (second, (offered, dropped)) in
            (0..).zip([(0, 0), (100, 50), (33, 4), (33, 0), (33, 4)])
        {
            sums.offered += offered;
            sums.dropped += dropped;
            sums.waiting = 4;
            sums.worked += Duration::from_millis(20 * (offered - dropped));
            cadence.look(start + second * LOOK, sums);
            chosen.push(cadence.interval(3));
        }
        assert_eq!(chosen, [0, 2, 2, 2, 3]);
    }

    #[test]
    fn files_do_not_adapt() {
        let member = |is_live| Member {
            interval: Interval::Adaptive,
            is_live,
        };
        let cadence = Cadence::new(&[member(true), member(false)], 5, 1);
        assert!(cadence.is_adaptive(0) && !cadence.is_adaptive(1));
        assert!(cadence.is_due(Instant::now()));
        assert!(!Cadence::new(&[member(false)], 5, 1).is_due(Instant::now()));
    }

    /// What an [`Adaptive`] chooses second by second when `wanted` frames a second come and the network can do `able`.
    fn follow(adaptive: &mut Adaptive, wanted: u64, able: u64, seconds: usize) -> Vec<u32> {
        let mut chosen = Vec::new();
        for _ in 0..seconds {
            let offered = wanted / u64::from(adaptive.interval + 1);
            let dropped = offered.saturating_sub(able);
            let load = (offered as f64 / able as f64).min(1.0);
            chosen.push(adaptive.step(Seen {
                offered,
                dropped,
                load,
            }));
        }
        chosen
    }

    #[test]
    fn drops_raise_the_interval_at_once_to_what_is_needed() {
        let mut adaptive = Adaptive::new(8);
        assert_eq!(follow(&mut adaptive, 100, 30, 4), [3, 3, 3, 3]);
        // Half of the frames would take all of its time.
        let mut adaptive = Adaptive::new(8);
        assert_eq!(follow(&mut adaptive, 100, 50, 4), [2, 2, 2, 2]);
        let mut adaptive = Adaptive::new(2);
        assert_eq!(
            follow(&mut adaptive, 100, 10, 3),
            [2, 2, 2],
            "the most allowed"
        );
    }

    #[test]
    fn calm_lowers_it_to_the_smallest_that_fits() {
        let mut adaptive = Adaptive::new(8);
        follow(&mut adaptive, 100, 30, 2);
        let chosen = follow(&mut adaptive, 50, 30, 12);
        assert_eq!(chosen.last(), Some(&1), "{chosen:?}");
        assert_eq!(chosen[0], 3, "not at once: {chosen:?}");
        let chosen = follow(&mut adaptive, 20, 30, 12);
        assert_eq!(chosen.last(), Some(&0), "{chosen:?}");
    }

    #[test]
    fn one_look_that_saw_little_work_does_not_lower_it() {
        let mut adaptive = Adaptive::new(8);
        follow(&mut adaptive, 100, 30, 1);
        let mut look = |load| {
            adaptive.step(Seen {
                offered: 25,
                dropped: 0,
                load,
            })
        };
        // At an interval of 2 it would be four thirds of that.
        let uneven = [0.68, 0.61, 0.6, 0.65, 0.62].repeat(4);
        let chosen: Vec<u32> = uneven.into_iter().map(&mut look).collect();
        assert_eq!(chosen, [3; 20]);
        let chosen: Vec<u32> = [0.62; 5].into_iter().map(look).collect();
        assert_eq!(chosen.last(), Some(&2), "{chosen:?}");
    }

    #[test]
    fn lowering_that_led_to_drops_is_not_tried_again_before_the_load_is_less() {
        // The load promises that a lower interval fits, and it never does: bursts.
        let mut adaptive = Adaptive::new(8);
        let mut tries = Vec::new();
        let mut look = |second: u32, load: f64| {
            let before = adaptive.interval;
            let seen = Seen {
                offered: 10,
                dropped: u64::from(before == 0),
                load,
            };
            if adaptive.step(seen) < before {
                tries.push(second);
            }
        };
        (0..300).for_each(|second| look(second, 0.3));
        (300..400).for_each(|second| look(second, 0.25));
        // After a long calm it is tried again: times change.
        (400..900).for_each(|second| look(second, 0.24));
        let [first, again, late] = tries.as_slice() else {
            panic!("{tries:?}");
        };
        assert!(*first < 10, "{tries:?}");
        assert!((300..320).contains(again), "{tries:?}");
        assert!(*late > again + MOST_PATIENCE, "{tries:?}");
    }
}
