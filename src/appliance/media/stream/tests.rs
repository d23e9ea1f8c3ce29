// SPDX-License-Identifier: Apache-2.0
//! Tests of a stream: what it keeps in memory.

use proptest::prelude::*;

use jetwatch_types::{Size, VideoCodec};

use super::*;

/// Parameter sets of 1280×720.
const SETS: [u8; 37] = [
    0, 0, 0, 1, 0x67, 0x42, 0xc0, 0x1f, 0xd9, 0x00, 0x50, 0x05, 0xbb, 0x01, 0x10, 0x00, 0x00, 0x03,
    0x00, 0x10, 0x00, 0x00, 0x03, 0x03, 0xc0, 0xf1, 0x83, 0x24, 0, 0, 0, 1, 0x68, 0xcb, 0x83, 0xcb,
    0x20,
];

fn stream(span: Duration) -> SourceStream {
    let stream = SourceStream::new(
        "camera",
        RingLimits {
            bytes: 1 << 30,
            span,
        },
    );
    stream.start(StreamFormat {
        codec: VideoCodec::H264,
        size: Size::new(1280, 720),
    });
    stream
}

/// An access unit of `bytes` bytes, more than those of the parameter sets.
fn unit(pts: Duration, bytes: usize, is_keyframe: bool) -> AccessUnit {
    let mut data = match is_keyframe {
        true => SETS.to_vec(),
        false => Vec::new(),
    };
    data.extend([0, 0, 0, 1, if is_keyframe { 0x65 } else { 0x41 }]);
    data.resize(bytes, 0x88);
    AccessUnit {
        bytes: data.into(),
        pts: Some(pts),
        dts: None,
        duration: None,
        captured_at: SystemTime::UNIX_EPOCH + pts,
        is_keyframe,
    }
}

#[test]
fn images_are_kept_for_a_detector_that_is_late_and_not_longer() {
    let second = Duration::from_secs(1);
    let stream = stream(5 * second);
    let push = |ms: u64| {
        let pts = Duration::from_millis(ms);
        stream.push(unit(pts, 1000, ms.is_multiple_of(1000)));
    };
    let bytes_after = |from: u64, to: u64| {
        (from..to).step_by(100).for_each(push);
        stream.bytes() / 1000
    };
    // Nothing is known of the detector.
    assert_eq!(bytes_after(0, 20_000), 80, "from 12.0 to 19.9 s");
    stream.set_needed(Some(Duration::from_millis(19_700)));
    assert_eq!(bytes_after(20_000, 20_100), 61, "from 14 to 20 s");
    // It stands still: 2 s at most.
    assert_eq!(bytes_after(20_100, 23_000), 80, "from 15 to 22.9 s");
    stream.set_needed(Some(Duration::from_millis(22_900)));
    assert_eq!(bytes_after(23_000, 23_100), 61);
    stream.request_clip();
    assert_eq!(bytes_after(23_100, 25_000), 80, "for the clip");
    stream.clip_begun();
    stream.set_needed(Some(Duration::from_millis(24_900)));
    assert_eq!(bytes_after(25_000, 25_100), 61);
    // The media begin again.
    stream.start(stream.format().expect("it has begun"));
    stream.set_needed(Some(Duration::from_secs(99)));
    assert_eq!(bytes_after(0, 100), 62);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The bound that the documentation states, over streams with all rates, distances of keyframes and delays of the detector.
    #[test]
    fn memory_is_the_time_before_a_clip_and_one_group_of_pictures(
        fps in prop::sample::select(vec![1_u64, 5, 12, 25, 30, 60]),
        group in 1..200_u64,
        span_ms in 0..8000_u64,
        behind in 0..80_u64,
        sizes in prop::collection::vec(100..3000_usize, 1..20),
        keyframe_factor in 1..12_usize,
        count in 1..900_u64,
    ) {
        let span = Duration::from_millis(span_ms);
        let stream = stream(span);
        let pts = |index: u64| Duration::from_millis(index * 1000 / fps);
        let size = |index: u64| {
            let size = sizes[index as usize % sizes.len()];
            if index.is_multiple_of(group) { size * keyframe_factor } else { size }
        };
        let mut lag = MAX_LAG;
        for index in 0..count {
            stream.push(unit(pts(index), size(index), index.is_multiple_of(group)));
            let needed = index.checked_sub(behind).map(pts);
            let kept = (span + lag).max(MAX_LAG);
            // All since the last keyframe that is shown at this time or before.
            let first = pts(index).checked_sub(kept).map_or(0, |from| {
                (0..=index / group).rev().map(|at| at * group).find(|at| pts(*at) <= from).unwrap_or(0)
            });
            let bound: usize = (first..=index).map(size).sum();
            prop_assert!(stream.bytes() <= bound, "{} of {} bytes", stream.bytes(), bound);
            // One keyframe is at the time before which a clip begins or earlier, as far as the stream goes back.
            if let Some(begin) = needed.filter(|needed| pts(index) - *needed <= MAX_LAG) {
                let begin = begin.saturating_sub(span).as_nanos() as i64;
                let cursor = stream.keyframe_before(begin).expect("units");
                let mut units = Vec::new();
                stream.read(&mut { cursor }, 1, &mut units);
                prop_assert!(units[0].time.pts <= begin);
            }
            stream.set_needed(needed);
            lag = match needed {
                Some(needed) => (pts(index + 1) - needed).min(MAX_LAG),
                None => MAX_LAG,
            };
        }
    }
}
