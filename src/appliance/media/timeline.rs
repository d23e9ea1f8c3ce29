// SPDX-License-Identifier: Apache-2.0
//! Time of access units on one clock for each stream: complete, and increasing over restarts. Pure.
//!
//! Containers and parsers leave timestamps out, RTP has none for decoding, and a source that is reopened or repeated begins
//! again. Files and viewers need each unit at a time of its own, in the order of decoding.

use std::time::{Duration, SystemTime};

use jetwatch_types::AccessUnit;

/// Time on the clock of a stream, in nanoseconds. Its zero has no meaning.
pub type StreamTime = i64;

/// Assumed distance of units without timestamps and duration.
const STEP: StreamTime = 40_000_000;

/// The smallest distance between two decoding times: above one tick of a file's clock.
const MIN_STEP: StreamTime = 20_000;

/// A presentation time that is this much before the newest decoding time belongs to media that began again.
const MAX_REORDER: StreamTime = 2_000_000_000;

/// The same behind images without timestamps: what cameras keep between keyframes.
const MAX_GUESSED: StreamTime = 20_000_000_000;

/// Most images that a stream holds back for reordering (both codecs: 16).
const MAX_DELAY: usize = 16;

/// Presentation and decoding time of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitTime {
    /// When the image is shown.
    pub pts: StreamTime,
    /// When it is decoded; later than that of the unit before. It may be later than `pts`.
    pub dts: StreamTime,
    /// Whether it does not continue the unit before.
    pub is_restart: bool,
}

/// Gives the units of one stream their times.
#[derive(Debug, Default)]
pub struct Timeline {
    /// Added to timestamps of the source.
    offset: StreamTime,
    last: Option<Last>,
    must_restart: bool,
    /// The largest presentation times so far, one more than the stream is known to reorder; sorted. For streams without decoding
    /// times.
    newest: Vec<StreamTime>,
    /// From the clock of the stream to that of the machine.
    arrival: StreamTime,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    time: UnitTime,
    /// The largest presentation time so far.
    max_pts: StreamTime,
    step: StreamTime,
    captured_at: SystemTime,
    /// Without a timestamp.
    is_guessed: bool,
}

impl Timeline {
    /// The next unit does not continue the ones before.
    pub fn restart(&mut self) {
        self.must_restart = true;
    }

    /// What is added to timestamps of the source.
    pub const fn offset(&self) -> StreamTime {
        self.offset
    }

    /// The machine's time of an image that is shown at `pts`, by the arrival of the newest ones. A camera sends what it has kept at the
    /// begin, all at once, and the first image may wait for the second: their own arrival says less.
    pub fn arrival_of(&self, pts: StreamTime) -> SystemTime {
        let nanos = u64::try_from(pts.saturating_add(self.arrival)).unwrap_or_default();
        SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos)
    }

    /// The time of the next unit.
    pub fn next(&mut self, unit: &AccessUnit) -> UnitTime {
        let pts = unit.pts.or(unit.dts).map(nanos);
        let duration = unit.duration.map(nanos).filter(|step| *step > 0);
        let Some(last) = self.last else {
            self.offset = -pts.unwrap_or(0);
            return self.begin(unit, 0, true, duration);
        };
        let follows = last.max_pts + last.step;
        let mut shown = pts.map_or(follows, |pts| pts.saturating_add(self.offset));
        // GStreamer leaves them out where a camera sends what it has kept at once, and goes on with those of the arrival.
        if last.is_guessed && shown <= last.time.dts && shown >= last.time.dts - MAX_GUESSED {
            self.offset += follows - shown;
            shown = follows;
        }
        if self.must_restart || shown < last.time.dts - MAX_REORDER {
            let passed = unit.captured_at.duration_since(last.captured_at);
            let passed = nanos(passed.unwrap_or_default()).max(last.step);
            let begin = last.max_pts.max(last.time.dts) + passed;
            self.offset = begin - pts.unwrap_or(begin - self.offset);
            return self.begin(unit, begin, true, duration);
        }
        let given = unit.dts.filter(|_| unit.pts.is_some());
        let given = given.map(|dts| nanos(dts).saturating_add(self.offset));
        let dts = self.reorder(shown, last.max_pts);
        // One before the last unit is not a decoding time: some parsers and demuxers (MPEG-TS in GStreamer 1.16) copy the time of
        // presentation. So is the latter where images are known to be reordered.
        let is_copy = |given| given == shown && dts > last.time.dts && dts < shown;
        let dts = given
            .filter(|given| *given > last.time.dts && *given <= shown && !is_copy(*given))
            .unwrap_or(dts)
            .max(last.time.dts + MIN_STEP);
        let step = duration.unwrap_or(match shown > last.max_pts {
            true => (shown - last.max_pts).min(MAX_REORDER),
            false => last.step,
        });
        self.keep(
            unit,
            UnitTime {
                pts: shown,
                dts,
                is_restart: false,
            },
            last.max_pts.max(shown),
            step,
        )
    }

    fn begin(
        &mut self,
        unit: &AccessUnit,
        pts: StreamTime,
        is_restart: bool,
        duration: Option<StreamTime>,
    ) -> UnitTime {
        self.must_restart = false;
        let delay = self.newest.len().max(1);
        self.newest.clear();
        self.newest.resize(delay - 1, StreamTime::MIN);
        self.newest.push(pts);
        let given = unit.dts.filter(|_| unit.pts.is_some());
        let given = given.map(|dts| nanos(dts).saturating_add(self.offset));
        let earliest = self.last.map(|last| last.time.dts + MIN_STEP);
        let dts = given
            .filter(|given| *given <= pts && *given >= pts - MAX_REORDER)
            .unwrap_or(pts);
        let dts = earliest.map_or(dts, |earliest| dts.max(earliest));
        let time = UnitTime {
            pts,
            dts,
            is_restart,
        };
        self.keep(unit, time, pts, duration.unwrap_or(STEP))
    }

    fn keep(
        &mut self,
        unit: &AccessUnit,
        time: UnitTime,
        max_pts: StreamTime,
        step: StreamTime,
    ) -> UnitTime {
        let since_1970 = unit.captured_at.duration_since(SystemTime::UNIX_EPOCH);
        let late = nanos(since_1970.unwrap_or_default())
            .saturating_sub(time.dts)
            .saturating_sub(self.arrival);
        // One that is late alone changes little; the clock of the machine may have been set.
        self.arrival += match self.last {
            Some(last) if !time.is_restart && late < MAX_REORDER => {
                late.min((time.dts - last.time.dts) / 2)
            }
            _ => late,
        };
        self.last = Some(Last {
            time,
            max_pts,
            step: step.max(MIN_STEP),
            captured_at: unit.captured_at,
            is_guessed: unit.pts.or(unit.dts).is_none(),
        });
        time
    }

    /// The decoding time of a unit that is shown at `pts`: the presentation times in order, as late as the stream reorders.
    fn reorder(&mut self, pts: StreamTime, max_pts: StreamTime) -> StreamTime {
        if pts < max_pts {
            let later = self.newest.iter().filter(|newest| **newest > pts).count();
            // One that is shown after units that were decoded before it: the stream reorders at least that many.
            if later >= self.newest.len() && later < MAX_DELAY {
                self.newest.insert(0, StreamTime::MIN);
            }
        }
        if let Some(oldest) = self.newest.first_mut() {
            *oldest = pts;
        }
        self.newest.sort_unstable();
        self.newest.first().copied().unwrap_or(pts)
    }
}

fn nanos(duration: Duration) -> StreamTime {
    StreamTime::try_from(duration.as_nanos()).unwrap_or(StreamTime::MAX / 4)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn unit(pts: Option<u64>, dts: Option<u64>, at_ms: u64) -> AccessUnit {
        AccessUnit {
            bytes: Bytes::new(),
            pts: pts.map(Duration::from_millis),
            dts: dts.map(Duration::from_millis),
            duration: None,
            captured_at: SystemTime::UNIX_EPOCH + Duration::from_millis(at_ms),
            is_keyframe: false,
        }
    }

    /// Presentation and decoding times in ms.
    fn times(timeline: &mut Timeline, units: &[(Option<u64>, Option<u64>)]) -> Vec<(i64, i64)> {
        let mut at = 0;
        let mut next = |(pts, dts): &(Option<u64>, Option<u64>)| {
            at += 40;
            let time = timeline.next(&unit(*pts, *dts, at));
            (time.pts / 1_000_000, time.dts / 1_000_000)
        };
        units.iter().map(&mut next).collect()
    }

    #[test]
    fn timestamps_of_a_container_are_kept() {
        let units = [(80, 0), (200, 40), (120, 80), (160, 120), (240, 200)];
        let units = units.map(|(pts, dts)| (Some(1000 + pts), Some(1000 + dts)));
        assert_eq!(
            times(&mut Timeline::default(), &units),
            [(0, -80), (120, -40), (40, 0), (80, 40), (160, 120)]
        );
    }

    /// What rtpjitterbuffer 1.22 gives.
    #[test]
    fn images_that_a_camera_sends_at_once_keep_their_distances() {
        let mut units: Vec<_> = [0, 60, 100, 110].map(|pts| (Some(pts), None)).into();
        units.extend([(None, None); 26]);
        units.extend([130, 196, 262].map(|pts| (Some(pts), None)));
        let times = times(&mut Timeline::default(), &units);
        let shown: Vec<i64> = times.iter().map(|(pts, _)| *pts).collect();
        assert!(times.iter().all(|(pts, dts)| pts == dts), "{times:?}");
        assert!(shown.is_sorted_by(|a, b| a < b), "{shown:?}");
        assert_eq!(shown[30..], [380, 446, 512]);
    }

    #[test]
    fn images_that_are_late_or_sent_at_once_have_their_own_time() {
        let arrival_of_first = |arrivals: &[u64]| {
            let mut timeline = Timeline::default();
            for (place, at) in (0..).zip(arrivals) {
                timeline.next(&unit(Some(40 * place), None, 10_000 + at));
            }
            let first = timeline
                .arrival_of(0)
                .duration_since(SystemTime::UNIX_EPOCH);
            first.expect("later").as_millis() - 10_000
        };
        let regular: Vec<u64> = (0..100).map(|place| 1000 + 40 * place).collect();
        assert_eq!(arrival_of_first(&regular), 1000);
        // What the camera kept comes with the 26th.
        let at_once: Vec<u64> = regular.iter().map(|at| *at.max(&2000)).collect();
        assert_eq!(arrival_of_first(&at_once), 1000);
        let first_is_early: Vec<u64> = std::iter::once(0).chain(regular.clone()).collect();
        assert_eq!(arrival_of_first(&first_is_early), 960);
        let mut last_is_late = regular;
        last_is_late[99] += 500;
        assert_eq!(arrival_of_first(&last_is_late), 1020);
        // The clock of the machine was set.
        last_is_late[99] += 3_600_000;
        assert_eq!(arrival_of_first(&last_is_late), 3_601_500);
    }

    #[test]
    fn times_of_presentation_that_stand_for_decoding_times_are_not_taken() {
        let shown = [0, 160, 80, 40, 120, 320, 240, 200, 280, 480, 400, 360, 440];
        let decoded = [-80, -40, 0, 40, 80, 120, 160, 200, 240, 280, 320, 360, 400];
        let units: Vec<_> = shown
            .into_iter()
            .zip(decoded)
            .map(|(pts, dts)| {
                let dts = if pts == 480 { pts } else { dts };
                (Some((1000 + pts) as u64), Some((1000 + dts) as u64))
            })
            .collect();
        let found = times(&mut Timeline::default(), &units);
        let expected: Vec<_> = shown.into_iter().zip(decoded).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn decoding_times_follow_the_order_of_presentation() {
        let shown = [0, 160, 80, 40, 120, 320, 240, 200, 280, 480, 400, 360, 440];
        let mut timeline = Timeline::default();
        let units = shown.map(|pts| (Some(pts), None));
        let found = times(&mut timeline, &units);
        let presented: Vec<_> = found.iter().map(|(pts, _)| *pts).collect();
        assert_eq!(presented, shown.map(|pts| pts as i64));
        // The first units show how much the stream reorders.
        let settled: Vec<_> = found[5..].iter().map(|(_, dts)| *dts).collect();
        assert_eq!(settled, [160, 160, 200, 240, 280, 320, 360, 400]);
    }

    #[test]
    fn a_stream_without_timestamps_has_even_steps() {
        let found = times(&mut Timeline::default(), &[(None, None); 4]);
        assert_eq!(found, [(0, 0), (40, 40), (80, 80), (120, 120)]);
    }

    #[test]
    fn media_that_begin_again_continue_the_clock() {
        let mut timeline = Timeline::default();
        times(&mut timeline, &[(Some(9000), None), (Some(9100), None)]);
        let again = timeline.next(&unit(Some(0), None, 300));
        assert!(again.is_restart);
        // 220 ms after the last unit by the wall clock.
        assert_eq!((again.pts, again.dts), (320_000_000, 320_000_000));
        let next = timeline.next(&unit(Some(40), None, 340));
        assert_eq!((next.pts / 1_000_000, next.is_restart), (360, false));
        timeline.restart();
        assert!(timeline.next(&unit(Some(80), None, 380)).is_restart);
    }

    proptest! {
        #[test]
        fn decoding_times_increase_whatever_comes(
            units in prop::collection::vec((prop::option::of(any::<u64>()), prop::option::of(any::<u64>()), 0..10_000_u64), 1..60)
        ) {
            let mut timeline = Timeline::default();
            let mut last = None;
            for (pts, dts, at) in units {
                let time = timeline.next(&unit(pts, dts, at));
                if let Some(last) = last {
                    prop_assert!(time.dts > last);
                }
                last = Some(time.dts);
            }
        }
    }
}
