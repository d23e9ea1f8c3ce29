// SPDX-License-Identifier: Apache-2.0
//! When the clips of one source begin and end. Pure: tracks, motion and time in, changes out.
//!
//! A clip begins with the first track that qualifies or with motion, and all tracks that begin while it is open are in it. It ends some
//! time after the last of them. One that becomes too long is continued by another, without a gap.

use std::collections::BTreeSet;
use std::time::Duration;

use jetwatch_types::TrackId;

/// Lengths of clips.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClipTimes {
    /// Before the first track.
    pub pre_roll: Duration,
    /// After the end of the last track.
    pub post_roll: Duration,
    /// Longest clip; longer than the two others together.
    pub max: Duration,
}

/// What is to be done about the clip of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClipChange {
    /// A clip begins, [`ClipTimes::pre_roll`] before now.
    Opened,
    /// The clip ends, and another one continues it, at the next keyframe.
    Continued,
    /// The clip ends now.
    Closed,
}

/// The clip of one source.
#[derive(Debug)]
pub struct ClipMachine {
    times: ClipTimes,
    open: Option<Open>,
    /// Qualified tracks that have not ended.
    live: BTreeSet<TrackId>,
    /// The camera reports motion.
    in_motion: bool,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    /// Time of the first image that is meant.
    begun: Duration,
    /// Time at which the last track was seen.
    seen: Duration,
}

impl ClipMachine {
    /// Without a clip.
    pub const fn new(times: ClipTimes) -> Self {
        Self {
            times,
            open: None,
            live: BTreeSet::new(),
            in_motion: false,
        }
    }

    /// Whether a clip is open.
    pub const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// A track qualifies at `now`. Returns the beginning of a clip where none is open.
    pub fn track_qualified(&mut self, track: TrackId, now: Duration) -> Option<ClipChange> {
        self.live.insert(track);
        self.seen(now)
    }

    /// Whether there is motion at `now`. Returns the beginning of a clip where none is open.
    pub fn motion(&mut self, is_on: bool, now: Duration) -> Option<ClipChange> {
        let was_on = std::mem::replace(&mut self.in_motion, is_on);
        (was_on || is_on).then(|| self.seen(now)).flatten()
    }

    fn seen(&mut self, now: Duration) -> Option<ClipChange> {
        match &mut self.open {
            Some(open) => {
                open.seen = open.seen.max(now);
                None
            }
            None => {
                self.open = Some(Open {
                    begun: now.saturating_sub(self.times.pre_roll),
                    seen: now,
                });
                Some(ClipChange::Opened)
            }
        }
    }

    /// Whether `track` keeps the clip open.
    pub fn is_live(&self, track: TrackId) -> bool {
        self.live.contains(&track)
    }

    /// A track has ended; its object was last seen at `seen`. Others are ignored.
    pub fn track_ended(&mut self, track: TrackId, seen: Duration) {
        if self.live.remove(&track)
            && let Some(open) = &mut self.open
        {
            open.seen = open.seen.max(seen);
        }
    }

    /// The time has come to `now`.
    pub fn advance(&mut self, now: Duration) -> Option<ClipChange> {
        let open = self.open.as_mut()?;
        if self.live.is_empty() && !self.in_motion && now >= open.seen + self.times.post_roll {
            self.open = None;
            return Some(ClipChange::Closed);
        }
        if now >= open.begun + self.times.max {
            open.begun = now;
            return Some(ClipChange::Continued);
        }
        None
    }

    /// The source brings no more images: the clip ends, with all tracks.
    pub fn finish(&mut self) -> Option<ClipChange> {
        self.live.clear();
        self.in_motion = false;
        self.open.take().map(|_| ClipChange::Closed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIMES: ClipTimes = ClipTimes {
        pre_roll: Duration::from_secs(5),
        post_roll: Duration::from_secs(5),
        max: Duration::from_secs(60),
    };

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn clip_lasts_from_the_first_track_to_the_end_of_the_last() {
        let mut clips = ClipMachine::new(TIMES);
        assert_eq!(clips.advance(s(10)), None);
        assert_eq!(
            clips.track_qualified(TrackId(1), s(10)),
            Some(ClipChange::Opened)
        );
        // The same clip.
        assert_eq!(clips.track_qualified(TrackId(2), s(12)), None);
        clips.track_ended(TrackId(1), s(14));
        assert_eq!(clips.advance(s(25)), None, "one lives");
        clips.track_ended(TrackId(2), s(26));
        assert_eq!(clips.advance(s(30)), None);
        assert_eq!(clips.advance(s(31)), Some(ClipChange::Closed));
        assert!(!clips.is_open());
        assert_eq!(
            clips.track_qualified(TrackId(3), s(32)),
            Some(ClipChange::Opened)
        );
    }

    #[test]
    fn track_within_the_post_roll_extends_the_clip() {
        let mut clips = ClipMachine::new(TIMES);
        clips.track_qualified(TrackId(1), s(10));
        clips.track_ended(TrackId(1), s(12));
        assert_eq!(clips.advance(s(16)), None);
        assert_eq!(clips.track_qualified(TrackId(2), s(16)), None);
        clips.track_ended(TrackId(2), s(18));
        clips.track_ended(TrackId(9), s(60));
        assert_eq!(clips.advance(s(22)), None);
        assert_eq!(clips.advance(s(23)), Some(ClipChange::Closed));
    }

    #[test]
    fn long_clip_is_continued_by_another() {
        let mut clips = ClipMachine::new(TIMES);
        clips.track_qualified(TrackId(1), s(10));
        assert_eq!(clips.advance(s(64)), None);
        // With what was before.
        assert_eq!(clips.advance(s(65)), Some(ClipChange::Continued));
        assert_eq!(clips.advance(s(124)), None);
        assert_eq!(clips.advance(s(125)), Some(ClipChange::Continued));
        assert_eq!(clips.finish(), Some(ClipChange::Closed));
        assert_eq!(clips.finish(), None);
        assert!(!clips.is_live(TrackId(1)));
    }

    proptest! {
        #[test]
        fn each_track_is_in_a_clip_and_none_is_too_long(
            steps in prop::collection::vec((0..4_u8, 1..6_u64, 0..3000_u64), 1..200)
        ) {
            let mut clips = ClipMachine::new(TIMES);
            let (mut now, mut begun) = (s(100), None);
            for (what, track, step) in steps {
                now += Duration::from_millis(step);
                match clips.advance(now) {
                    Some(ClipChange::Closed) => {
                        prop_assert!(begun.take().is_some());
                        prop_assert!((1..6).all(|track| !clips.is_live(TrackId(track))));
                    }
                    Some(ClipChange::Continued) => begun = Some(now),
                    Some(ClipChange::Opened) => prop_assert!(false, "nothing qualified"),
                    None => {}
                }
                match what {
                    0 => clips.track_ended(TrackId(track), now),
                    1 => {
                        if clips.track_qualified(TrackId(track), now).is_some() {
                            prop_assert!(begun.is_none());
                            begun = Some(now - TIMES.pre_roll);
                        }
                        prop_assert!(begun.is_some() && clips.is_live(TrackId(track)));
                    }
                    _ => {}
                }
                prop_assert_eq!(begun.is_some(), clips.is_open());
                // One step late at most.
                prop_assert!(begun.is_none_or(|begun| now - begun < TIMES.max + s(3)));
            }
        }
    }
}
