// SPDX-License-Identifier: Apache-2.0
//! The newest access units of a stream, bounded by bytes and by time, cut at keyframes. Pure.
//!
//! Each group of pictures is kept whole or not at all, so that decoding can begin at the first unit. Readers have a [`Cursor`]
//! of their own, and the ring never waits for one: a reader that is overtaken continues at the first unit.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use jetwatch_types::AccessUnit;

use crate::blocks;
use crate::parameter_sets::ParameterSets;
use crate::timeline::{StreamTime, UnitTime};

/// Bytes of new units from which they are moved into a block of memory of their own, and the same at a keyframe.
const BLOCK_BYTES: usize = 256 << 10;
const MIN_BLOCK_BYTES: usize = 64 << 10;

/// Bounds of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingLimits {
    /// Encoded bytes at most.
    pub bytes: usize,
    /// Time that is kept before the image that is needed, where the bytes allow it; up to one group of pictures more.
    pub span: Duration,
}

/// An access unit with its place in the stream.
#[derive(Debug, Clone)]
pub struct RingUnit {
    /// Number in the stream, without gaps.
    pub number: u64,
    /// The access unit as it came.
    pub unit: AccessUnit,
    /// Its times on the clock of the stream.
    pub time: UnitTime,
    /// The parameter sets of the stream, at a keyframe.
    pub sets: Option<Arc<ParameterSets>>,
}

/// The place of a reader: the number of the unit that it reads next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor(u64);

/// The newest units of one stream.
#[derive(Debug)]
pub struct Ring {
    limits: RingLimits,
    units: VecDeque<RingUnit>,
    bytes: usize,
    /// From the image that is needed to the newest.
    lag: StreamTime,
    /// Number of the next unit.
    next: u64,
    /// Number of the first unit that is in no common block of memory, and the bytes from there on.
    loose: u64,
    loose_bytes: usize,
    /// Units that were dropped because their group of pictures alone was above the bytes.
    oversized: u64,
}

impl Ring {
    /// An empty ring.
    pub fn new(limits: RingLimits) -> Self {
        Self {
            limits,
            units: VecDeque::new(),
            bytes: 0,
            lag: 0,
            next: 0,
            loose: 0,
            loose_bytes: 0,
            oversized: 0,
        }
    }

    /// From the next unit on, [`RingLimits::span`] is kept before the image that is shown `lag` before the newest unit: that many
    /// are still on their way through the detector.
    pub(crate) fn set_lag(&mut self, lag: Duration) {
        self.lag = nanos(lag);
    }

    /// Adds a unit; one before the first keyframe, or after a group that was too large, is refused until the next keyframe.
    /// Returns whether it was taken.
    pub fn push(
        &mut self,
        unit: AccessUnit,
        time: UnitTime,
        sets: Option<Arc<ParameterSets>>,
    ) -> bool {
        if self.units.is_empty() && !unit.is_keyframe {
            return false;
        }
        if self.loose_bytes >= BLOCK_BYTES
            || (unit.is_keyframe && self.loose_bytes >= MIN_BLOCK_BYTES)
        {
            self.gather();
        }
        self.bytes += unit.bytes.len();
        self.loose_bytes += unit.bytes.len();
        self.units.push_back(RingUnit {
            number: self.next,
            sets: sets.filter(|_| unit.is_keyframe),
            unit,
            time,
        });
        self.next += 1;
        self.evict();
        true
    }

    /// Moves the units that have come since the last time into one block. Without memory for it, they stay where they are.
    fn gather(&mut self) {
        let place = self.place(self.loose);
        let loose: Vec<Bytes> = self
            .units
            .iter()
            .skip(place)
            .map(|unit| unit.unit.bytes.clone())
            .collect();
        if let Some(gathered) = blocks::gather(&loose) {
            for (unit, bytes) in self.units.iter_mut().skip(place).zip(gathered) {
                unit.unit.bytes = bytes;
            }
        }
        (self.loose, self.loose_bytes) = (self.next, 0);
    }

    /// Number of the first unit that is kept, or of the next one.
    fn first(&self) -> u64 {
        self.units.front().map_or(self.next, |unit| unit.number)
    }

    /// Units that are kept before the one with this number.
    fn place(&self, number: u64) -> usize {
        usize::try_from(number.saturating_sub(self.first())).unwrap_or(usize::MAX)
    }

    fn evict(&mut self) {
        let Some(newest) = self.units.back().map(|newest| newest.time.pts) else {
            return;
        };
        let kept = nanos(self.limits.span).saturating_add(self.lag);
        loop {
            let second = self
                .units
                .iter()
                .skip(1)
                .position(|unit| unit.unit.is_keyframe);
            let is_above = self.bytes > self.limits.bytes;
            let Some(length) = second.map(|place| place + 1) else {
                if is_above {
                    self.oversized += self.units.len() as u64;
                    self.units.clear();
                    self.bytes = 0;
                }
                return;
            };
            if !is_above && self.units[length].time.pts > newest.saturating_sub(kept) {
                return;
            }
            for unit in self.units.drain(..length) {
                self.bytes -= unit.unit.bytes.len();
            }
        }
    }

    /// Bytes of the units.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Units dropped because their group of pictures alone was above the limit of bytes.
    pub(crate) const fn oversized(&self) -> u64 {
        self.oversized
    }

    /// The newest unit.
    pub fn newest(&self) -> Option<&RingUnit> {
        self.units.back()
    }

    /// The units, in the order of decoding; the first is a keyframe.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &RingUnit> {
        self.units.iter()
    }

    /// The place of the last keyframe that is shown at or before `time`, or of the first unit where all are later. `None`: the
    /// ring is empty.
    #[must_use]
    pub fn keyframe_before(&self, time: StreamTime) -> Option<Cursor> {
        let mut keyframes = self.units.iter().rev().filter(|unit| unit.unit.is_keyframe);
        let found = keyframes.find(|unit| unit.time.pts <= time);
        found.or(self.units.front()).map(|unit| Cursor(unit.number))
    }

    /// The place of the newest keyframe.
    pub fn newest_keyframe(&self) -> Option<Cursor> {
        self.keyframe_before(StreamTime::MAX)
    }

    /// The place after the newest unit.
    #[must_use]
    pub const fn end(&self) -> Cursor {
        Cursor(self.next)
    }

    /// The time of the image with the timestamp `pts` of the source, or of the newest that had come at `at` where no unit has it.
    #[must_use]
    pub fn time_of(&self, pts: Option<Duration>, at: SystemTime) -> Option<StreamTime> {
        let of_pts = pts.and_then(|pts| {
            let mut units = self.units.iter().rev();
            units.find(|unit| unit.unit.pts == Some(pts))
        });
        let found = of_pts.or_else(|| {
            let mut units = self.units.iter().rev();
            units.find(|unit| unit.unit.captured_at <= at)
        });
        found.or(self.units.front()).map(|unit| unit.time.pts)
    }

    /// Appends at most `max` units from the place of `cursor` to `out`, and moves it behind them. Returns the number of units
    /// that the reader has lost, because it was overtaken: then the first one that it gets is a keyframe.
    pub fn read(&self, cursor: &mut Cursor, max: usize, out: &mut Vec<RingUnit>) -> u64 {
        let first = self.first();
        let lost = first.saturating_sub(cursor.0);
        cursor.0 = cursor.0.max(first);
        let place = self.place(cursor.0);
        let before = out.len();
        out.extend(self.units.iter().skip(place).take(max).cloned());
        cursor.0 += (out.len() - before) as u64;
        lost
    }
}

fn nanos(duration: Duration) -> StreamTime {
    StreamTime::try_from(duration.as_nanos()).unwrap_or(StreamTime::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::timeline::Timeline;

    fn unit(index: u64, bytes: usize, is_keyframe: bool) -> AccessUnit {
        AccessUnit {
            bytes: vec![0; bytes].into(),
            pts: Some(Duration::from_millis(40 * index)),
            dts: None,
            duration: None,
            captured_at: SystemTime::UNIX_EPOCH + Duration::from_millis(40 * index),
            is_keyframe,
        }
    }

    /// A ring with `count` units of `bytes` bytes, each `distance`-th a keyframe.
    fn filled(limits: RingLimits, count: u64, bytes: usize, distance: u64) -> Ring {
        let (mut ring, mut timeline) = (Ring::new(limits), Timeline::default());
        for index in 0..count {
            let unit = unit(index, bytes, index % distance == 0);
            let time = timeline.next(&unit);
            ring.push(unit, time, None);
        }
        ring
    }

    fn numbers(ring: &Ring) -> Vec<u64> {
        ring.iter().map(|unit| unit.number).collect()
    }

    #[test]
    fn whole_groups_beyond_the_span_are_dropped() {
        let limits = RingLimits {
            bytes: 1_000_000,
            span: Duration::from_secs(1),
        };
        // 25 units are one second: the group that begins before it stays.
        let ring = filled(limits, 100, 100, 10);
        assert_eq!(numbers(&ring), (70..100).collect::<Vec<_>>());
        let ring = filled(limits, 100, 100, 60);
        // A second is over.
        assert_eq!(numbers(&ring), (60..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_group_above_the_bytes_is_dropped_and_counted() {
        let limits = RingLimits {
            bytes: 1000,
            span: Duration::from_secs(60),
        };
        let ring = filled(limits, 30, 100, 20);
        assert_eq!(numbers(&ring), (11..21).collect::<Vec<_>>());
        assert_eq!(ring.oversized(), 11);
        assert_eq!(
            ring.iter().next().map(|u| u.unit.pts),
            Some(Some(Duration::from_millis(800)))
        );
    }

    #[test]
    fn readers_begin_at_a_keyframe_and_count_what_they_lose() {
        let limits = RingLimits {
            bytes: 2000,
            span: Duration::from_secs(60),
        };
        let mut ring = filled(limits, 20, 100, 5);
        let ms = |ms: i64| ms * 1_000_000;
        let mut cursor = ring.keyframe_before(ms(330)).expect("units");
        let mut out = Vec::new();
        assert_eq!(ring.read(&mut cursor, 2, &mut out), 0);
        let read: Vec<_> = out.iter().map(|unit| unit.number).collect();
        assert_eq!(read, [5, 6]);
        let mut timeline = Timeline::default();
        for index in 20..26 {
            let unit = unit(index, 100, index % 5 == 0);
            let time = timeline.next(&unit);
            ring.push(unit, time, None);
        }
        out.clear();
        assert_eq!(ring.read(&mut cursor, usize::MAX, &mut out), 3);
        assert!(out[0].unit.is_keyframe && out[0].number == 10);
        assert_eq!(ring.read(&mut cursor, usize::MAX, &mut out), 0);
        assert_eq!(cursor, ring.end());
        // The first.
        assert_eq!(ring.keyframe_before(StreamTime::MIN), Some(Cursor(10)));
    }

    #[test]
    fn images_are_found_by_timestamp_and_by_arrival() {
        let limits = RingLimits {
            bytes: 100_000,
            span: Duration::from_secs(60),
        };
        let ring = filled(limits, 20, 100, 5);
        let at = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        let pts = |ms| Some(Duration::from_millis(ms));
        assert_eq!(ring.time_of(pts(400), at(9999)), Some(400_000_000));
        assert_eq!(ring.time_of(pts(401), at(250)), Some(240_000_000));
        assert_eq!(ring.time_of(None, at(0)), Some(0));
    }

    #[test]
    fn units_are_gathered_in_blocks_and_stay_the_same() {
        let limits = RingLimits {
            bytes: 10_000_000,
            span: Duration::from_secs(2),
        };
        let (mut ring, mut timeline) = (Ring::new(limits), Timeline::default());
        let mut cursor = ring.end();
        let mut read = Vec::new();
        for index in 0..120_u64 {
            let mut unit = unit(index, 0, index % 12 == 0);
            unit.bytes = vec![index as u8; 20_000 + index as usize].into();
            let time = timeline.next(&unit);
            ring.push(unit, time, None);
            if index % 5 == 0 {
                ring.read(&mut cursor, usize::MAX, &mut read);
            }
        }
        read.extend(ring.iter().cloned());
        for unit in &read {
            let expected = vec![unit.number as u8; 20_000 + unit.number as usize];
            assert_eq!(unit.unit.bytes, expected);
        }
        // Groups of 240 KB; the last one is not complete.
        let kept: Vec<_> = ring.iter().collect();
        let follows = |pair: &[&RingUnit]| {
            pair[0].unit.bytes.as_ptr_range().end == pair[1].unit.bytes.as_ptr()
        };
        let (complete, last) = kept.split_at(kept.len() - 12);
        assert!(last[0].unit.is_keyframe);
        for group in complete.chunks(12) {
            assert!(group[0].unit.is_keyframe && group.windows(2).all(follows));
        }
    }

    proptest! {
        #[test]
        fn a_ring_keeps_its_bounds_and_its_order(
            units in prop::collection::vec((1..400_usize, prop::bool::weighted(0.15), prop::bool::weighted(0.02)), 1..300),
            bytes in 300..4000_usize,
            span_ms in 0..4000_u64,
        ) {
            let span = Duration::from_millis(span_ms);
            let (mut ring, mut timeline) = (Ring::new(RingLimits { bytes, span }), Timeline::default());
            let mut cursor = ring.end();
            for (index, (size, is_keyframe, restarts)) in (0..).zip(units) {
                if restarts {
                    timeline.restart();
                }
                let unit = unit(index, size, is_keyframe);
                let time = timeline.next(&unit);
                ring.push(unit, time, None);
                let kept: Vec<_> = ring.iter().collect();
                prop_assert!(kept.first().is_none_or(|first| first.unit.is_keyframe));
                prop_assert!(ring.bytes() <= bytes);
                prop_assert_eq!(ring.bytes(), kept.iter().map(|unit| unit.unit.bytes.len()).sum::<usize>());
                prop_assert!(kept.windows(2).all(|pair| pair[0].number + 1 == pair[1].number && pair[0].time.dts < pair[1].time.dts));
                if let (Some(second), Some(newest)) = (kept.iter().skip(1).find(|unit| unit.unit.is_keyframe), kept.last()) {
                    prop_assert!(newest.time.pts - second.time.pts < span.as_nanos() as i64);
                }
                if index % 7 == 0 {
                    let mut out = Vec::new();
                    let lost = ring.read(&mut cursor, 20, &mut out);
                    prop_assert!(lost == 0 || out.first().is_none_or(|first| first.unit.is_keyframe));
                }
            }
        }
    }
}
