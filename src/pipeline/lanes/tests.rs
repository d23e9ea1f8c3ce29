//! Lanes with frames of one pixel: order, drops, company, and lanes that come and go.

use std::sync::Arc;
use std::thread;
use std::time::SystemTime;

use super::*;
use crate::types::{FrameMeta, Picture, Size};

const NO_WAIT: Duration = Duration::ZERO;

fn frame(source: u16, seq: u64) -> Frame {
    let size = Size::new(1, 1);
    let meta = FrameMeta {
        source: SourceId(source),
        seq,
        pts: None,
        captured_at: SystemTime::UNIX_EPOCH,
        entered_at: Instant::now(),
        source_size: size,
    };
    Frame {
        meta,
        picture: Picture::new(size, 4, Box::new([0; 4])).expect("four bytes are one pixel"),
        view: None,
        truth: Vec::new(),
    }
}

fn numbers(batch: &[Ticketed]) -> Vec<(u16, u64, u64)> {
    batch
        .iter()
        .map(|item| (item.frame.meta.source.0, item.frame.meta.seq, item.ticket))
        .collect()
}

#[test]
fn a_live_lane_keeps_the_newest_and_counts_the_rest() {
    let lanes = Lanes::new(&[true], 4, None);
    for seq in 0..5 {
        assert_eq!(lanes.offer(frame(0, seq)), Flow::Continue);
    }
    let mut batch = Vec::new();
    assert!(lanes.next_batch(4, NO_WAIT, &mut batch));
    assert_eq!(numbers(&batch), [(0, 4, 0)]);
    assert_eq!(lanes.dropped(SourceId(0)), 4);
}

#[test]
fn a_file_waits_and_loses_nothing() {
    let lanes = Arc::new(Lanes::new(&[false], 1, None));
    let reader = thread::spawn({
        let lanes = Arc::clone(&lanes);
        move || {
            for seq in 0..500 {
                assert_eq!(lanes.offer(frame(0, seq)), Flow::Continue);
            }
            lanes.close(SourceId(0));
        }
    });
    let mut seen = Vec::new();
    let mut batch = Vec::new();
    while lanes.next_batch(3, NO_WAIT, &mut batch) {
        seen.extend(batch.iter().map(|item| (item.ticket, item.frame.meta.seq)));
    }
    reader.join().expect("the reader does not panic");
    assert_eq!(seen, (0..500).map(|n| (n, n)).collect::<Vec<_>>());
    assert_eq!(
        (lanes.dropped(SourceId(0)), lanes.drained(SourceId(0))),
        (0, Some(500))
    );
}

#[test]
fn sources_take_turns_whatever_their_speed() {
    let lanes = Lanes::new(&[false, false, true], 8, None);
    for seq in 0..6 {
        lanes.offer(frame(0, seq));
    }
    lanes.offer(frame(1, 0));
    lanes.offer(frame(2, 0));
    let mut batch = Vec::new();
    assert!(lanes.next_batch(4, NO_WAIT, &mut batch));
    assert_eq!(
        numbers(&batch),
        [(0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 1, 1)]
    );
}

#[test]
fn a_batch_waits_for_company_but_not_longer_than_its_timeout() {
    let lanes = Arc::new(Lanes::new(&[true, true], 2, None));
    lanes.offer(frame(0, 0));
    let late = thread::spawn({
        let lanes = Arc::clone(&lanes);
        move || lanes.offer(frame(1, 0))
    });
    let mut batch = Vec::new();
    assert!(lanes.next_batch(2, Duration::from_secs(60), &mut batch));
    assert_eq!(batch.len(), 2, "the second frame came within the minute");
    late.join().expect("the source does not panic");
    lanes.offer(frame(1, 1));
    assert!(lanes.next_batch(2, Duration::from_millis(5), &mut batch));
    assert_eq!(numbers(&batch), [(1, 1, 1)], "alone when nobody comes");
}

#[test]
fn the_allowance_is_exact() {
    let lanes = Lanes::new(&[false], 4, Some(3));
    for seq in 0..4 {
        lanes.offer(frame(0, seq));
    }
    let mut batch = Vec::new();
    assert!(lanes.next_batch(4, NO_WAIT, &mut batch));
    assert_eq!(batch.len(), 3);
    assert!(!lanes.next_batch(4, NO_WAIT, &mut batch));
    assert_eq!(lanes.offer(frame(0, 5)), Flow::Stop);
    assert_eq!(lanes.drained(SourceId(0)), Some(3));
}

#[test]
fn frames_that_nobody_takes_are_noticed_whether_replaced_or_not() {
    let lanes = Lanes::new(&[true], 1, None);
    assert_eq!(lanes.untaken(), None, "nothing waits");
    lanes.offer(frame(0, 0));
    let first = lanes.lock().untaken_since;
    lanes.offer(frame(0, 1));
    assert!(first.is_some() && lanes.lock().untaken_since == first);
    let mut batch = Vec::new();
    assert!(lanes.next_batch(1, NO_WAIT, &mut batch));
    assert_eq!(lanes.untaken(), None, "what waited was taken");
}

#[test]
fn closing_frees_a_reader_that_waits() {
    let lanes = Arc::new(Lanes::new(&[false], 1, None));
    for seq in 0..=FILE_SLACK as u64 {
        lanes.offer(frame(0, seq));
    }
    let waiting = thread::spawn({
        let lanes = Arc::clone(&lanes);
        move || lanes.offer(frame(0, 1))
    });
    lanes.close_all();
    assert_eq!(
        waiting.join().expect("the reader does not panic"),
        Flow::Stop
    );
}
