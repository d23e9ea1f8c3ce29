// SPDX-License-Identifier: Apache-2.0
//! Batches of frames of one pixel: order, drops, waits for more frames, and sources that are added and removed.

use std::sync::Arc;
use std::thread;

use super::queue::FILE_SLACK;
use super::*;
use jetwatch_types::Size;

const NO_WAIT: Duration = Duration::ZERO;

fn frame(source: u16, seq: u64) -> Frame {
    Frame::black(source, seq, Size::new(1, 1))
}

fn ids_and_order(batch: &[QueuedFrame]) -> Vec<(u16, u64, u64)> {
    batch
        .iter()
        .map(|item| (item.frame.meta.source.0, item.frame.meta.seq, item.order))
        .collect()
}

#[test]
fn live_queue_keeps_the_newest_and_counts_drops() {
    let batcher = Batcher::new(&[true], 4, None);
    for seq in 0..5 {
        assert_eq!(batcher.push(frame(0, seq)), Flow::Continue);
    }
    let mut batch = Vec::new();
    assert!(batcher.next_batch(4, NO_WAIT, &mut batch));
    assert_eq!(ids_and_order(&batch), [(0, 4, 0)]);
    assert_eq!(batcher.dropped(SourceId(0)), 4);
}

#[test]
fn file_source_blocks_and_loses_no_frame() {
    let batcher = Arc::new(Batcher::new(&[false], 1, None));
    let reader = thread::spawn({
        let batcher = Arc::clone(&batcher);
        move || {
            for seq in 0..500 {
                assert_eq!(batcher.push(frame(0, seq)), Flow::Continue);
            }
            batcher.close(SourceId(0));
        }
    });
    let mut received = Vec::new();
    let mut batch = Vec::new();
    while batcher.next_batch(3, NO_WAIT, &mut batch) {
        received.extend(batch.iter().map(|item| (item.order, item.frame.meta.seq)));
    }
    reader.join().expect("the reader does not panic");
    assert_eq!(received, (0..500).map(|n| (n, n)).collect::<Vec<_>>());
    assert_eq!(
        (batcher.dropped(SourceId(0)), batcher.drained(SourceId(0))),
        (0, Some(500))
    );
}

#[test]
fn batcher_is_round_robin_for_all_speeds() {
    let batcher = Batcher::new(&[false, false, true], 8, None);
    for seq in 0..6 {
        batcher.push(frame(0, seq));
    }
    batcher.push(frame(1, 0));
    batcher.push(frame(2, 0));
    let mut batch = Vec::new();
    assert!(batcher.next_batch(4, NO_WAIT, &mut batch));
    assert_eq!(
        ids_and_order(&batch),
        [(0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 1, 1)]
    );
}

#[test]
fn a_batch_waits_for_more_frames_but_not_longer_than_its_timeout() {
    let batcher = Arc::new(Batcher::new(&[true, true], 2, None));
    for source in [0, 1] {
        batcher.set_running(SourceId(source), true);
    }
    batcher.push(frame(0, 0));
    let late = thread::spawn({
        let batcher = Arc::clone(&batcher);
        move || batcher.push(frame(1, 0))
    });
    let mut batch = Vec::new();
    assert!(batcher.next_batch(2, Duration::from_secs(60), &mut batch));
    assert_eq!(batch.len(), 2, "the second frame came within the minute");
    late.join().expect("the source does not panic");
    batcher.push(frame(1, 1));
    assert!(batcher.next_batch(2, Duration::from_millis(5), &mut batch));
    // Without others after the timeout.
    assert_eq!(ids_and_order(&batch), [(1, 1, 1)]);
}

#[test]
fn the_frame_limit_is_exact() {
    let batcher = Batcher::new(&[false], 4, Some(3));
    for seq in 0..4 {
        batcher.push(frame(0, seq));
    }
    let mut batch = Vec::new();
    assert!(batcher.next_batch(4, NO_WAIT, &mut batch));
    assert_eq!(batch.len(), 3);
    assert!(!batcher.next_batch(4, NO_WAIT, &mut batch));
    assert_eq!(batcher.push(frame(0, 5)), Flow::Stop);
    assert_eq!(batcher.drained(SourceId(0)), Some(3));
}

#[test]
fn stalled_for_counts_untaken_and_replaced_frames() {
    let batcher = Batcher::new(&[true], 1, None);
    assert_eq!(batcher.stalled_for(), None, "nothing waits");
    batcher.push(frame(0, 0));
    let first = batcher.state.lock().stalled_since;
    batcher.push(frame(0, 1));
    assert!(first.is_some() && batcher.state.lock().stalled_since == first);
    let mut batch = Vec::new();
    assert!(batcher.next_batch(1, NO_WAIT, &mut batch));
    assert_eq!(batcher.stalled_for(), None, "what waited was taken");
}

#[test]
fn closing_queue_releases_blocked_reader() {
    let batcher = Arc::new(Batcher::new(&[false], 1, None));
    for seq in 0..=FILE_SLACK as u64 {
        batcher.push(frame(0, seq));
    }
    let waiting = thread::spawn({
        let batcher = Arc::clone(&batcher);
        move || batcher.push(frame(0, 1))
    });
    batcher.close_all();
    assert_eq!(
        waiting.join().expect("the reader does not panic"),
        Flow::Stop
    );
}

/// Longer than any test may take: a batch that waits for it hangs.
const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

#[test]
fn batch_does_not_wait_for_offline_source() {
    let batcher = Batcher::new(&[true, true, true], 4, None);
    batcher.set_running(SourceId(0), true);
    batcher.set_running(SourceId(1), true);
    // The one is being opened again, the other never was there.
    batcher.set_running(SourceId(1), false);
    batcher.set_running(SourceId(0), false);
    batcher.push(frame(0, 0));
    let mut batch = Vec::new();
    assert!(batcher.next_batch(4, FOR_EVER, &mut batch));
    assert_eq!(ids_and_order(&batch), [(0, 0, 0)]);
}

#[test]
fn source_going_offline_releases_waiting_batch() {
    let batcher = Arc::new(Batcher::new(&[true, true], 2, None));
    batcher.set_running(SourceId(1), true);
    batcher.push(frame(0, 0));
    let worker = thread::spawn({
        let batcher = Arc::clone(&batcher);
        move || {
            let mut batch = Vec::new();
            assert!(batcher.next_batch(2, FOR_EVER, &mut batch));
            ids_and_order(&batch)
        }
    });
    // The frame is taken out of its queue before the batch waits.
    while batcher.stalled_for().is_some() {
        thread::yield_now();
    }
    batcher.set_running(SourceId(1), false);
    let received = worker.join().expect("the worker does not panic");
    assert_eq!(received, [(0, 0, 0)]);
}

#[test]
fn batch_waits_only_for_sources_with_due_frame() {
    let batcher = Batcher::new(&[true, true, false], 4, None);
    batcher.close(SourceId(2));
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let mut state = batcher.state.lock();
    for (index, period) in [(0, 40), (1, 1000)] {
        state.queues[index].running = true;
        state.queues[index].arrivals.observe(at(0));
        state.queues[index].arrivals.observe(at(period));
    }
    // At 1000 ms the slow one has just come; the quick one has stalled long ago.
    assert_eq!(state.wait_deadline(at(1001), at(1011)), None);
    state.queues[0].arrivals = ArrivalEstimator::default();
    for ms in [920, 960, 1000] {
        state.queues[0].arrivals.observe(at(ms));
    }
    // 15 ms are too short for the quick one, and 30 ms are not; no batch waits for the slow one.
    assert_eq!(state.wait_deadline(at(1001), at(1016)), None);
    assert_eq!(state.wait_deadline(at(1001), at(1031)), Some(at(1031)));
    // It is late, and at some time it is not waited for any more.
    assert_eq!(state.wait_deadline(at(1070), at(1100)), Some(at(1080)));
    assert_eq!(state.wait_deadline(at(1081), at(1100)), None);
}

#[test]
fn a_fast_source_does_not_starve_a_slow_one() {
    let batcher = Batcher::new(&[true, true, true], 2, None);
    let mut received = [0; 3];
    let mut batch = Vec::new();
    for round in 0..30 {
        // The first gives a frame with every batch, the others with every third.
        batcher.push(frame(0, round));
        if round % 3 == 0 {
            batcher.push(frame(1, round));
            batcher.push(frame(2, round));
        }
        assert!(batcher.next_batch(2, NO_WAIT, &mut batch));
        for item in &batch {
            received[item.frame.meta.source.index()] += 1;
        }
    }
    assert_eq!(&received[1..], [10, 10], "all frames of the slow ones");
    let lost: u64 = (0..3).map(|id| batcher.dropped(SourceId(id))).sum();
    assert!(received[0] >= 20 && lost <= 10, "{received:?}, {lost} lost");
    assert_eq!(
        batcher.dropped(SourceId(1)) + batcher.dropped(SourceId(2)),
        0
    );
}

#[test]
fn queues_are_added_and_removed_and_ids_are_not_reused() {
    let batcher = Batcher::new(&[], 1, None);
    batcher.hold_open(true);
    let first = batcher
        .add(false, Interval::Frames(0))
        .expect("there is room");
    batcher.hold_open(false);
    batcher.push(frame(first.0, 0));
    batcher.hold_open(true);
    batcher.close(first);
    let mut batch = Vec::new();
    assert!(batcher.next_batch(1, NO_WAIT, &mut batch));
    assert_eq!(batcher.drained(first), Some(1));
    batcher.remove(first);
    let second = batcher
        .add(true, Interval::Frames(0))
        .expect("there is room");
    assert_eq!((first, second), (SourceId(0), SourceId(1)));
    batcher.hold_open(false);
    assert_eq!(batcher.push(frame(0, 1)), Flow::Stop, "it has left");
    batcher.push(frame(1, 0));
    assert!(batcher.next_batch(1, NO_WAIT, &mut batch));
    assert_eq!(ids_and_order(&batch), [(1, 0, 0)]);
    batcher.close(second);
    // No source is left.
    assert!(!batcher.next_batch(1, NO_WAIT, &mut batch));
}

const SOURCE: SourceId = SourceId(0);

fn push_one(batcher: &Batcher, seq: u64) {
    batcher.push(Frame::black(0, seq, Size::new(1, 1)));
}

/// The numbers of the next frame: its own, and its place.
fn pop(batcher: &Batcher) -> (u64, u64) {
    let mut batch = Vec::new();
    batcher.next_batch(1, Duration::ZERO, &mut batch);
    (batch[0].frame.meta.seq, batch[0].order)
}

#[test]
fn queued_frames_precede_discontinuity() {
    let batcher = Batcher::new(&[false], 1, None);
    (0..2).for_each(|seq| push_one(&batcher, seq));
    assert_eq!(pop(&batcher), (0, 0));
    batcher.mark_discontinuity(SOURCE);
    push_one(&batcher, 2);
    batcher.mark_discontinuity(SOURCE);
    for given in [0, 1] {
        assert!(!batcher.passed_discontinuity(SOURCE, given));
    }
    assert!(batcher.passed_discontinuity(SOURCE, 2), "the first time");
    assert!(!batcher.passed_discontinuity(SOURCE, 2), "the second one");
    assert!(batcher.passed_discontinuity(SOURCE, 3));
    assert!(batcher.passed_discontinuity(SOURCE, 0), "it is here");
}

#[test]
fn replaced_frame_does_not_delay_discontinuity() {
    let batcher = Batcher::new(&[true], 1, None);
    push_one(&batcher, 0);
    assert_eq!(pop(&batcher), (0, 0));
    push_one(&batcher, 1);
    batcher.mark_discontinuity(SOURCE);
    push_one(&batcher, 2);
    // Frame 0 is under way.
    assert!(!batcher.passed_discontinuity(SOURCE, 0));
    assert!(batcher.passed_discontinuity(SOURCE, 1));
    assert_eq!(pop(&batcher), (2, 1), "of the time after");
}

#[test]
fn discarded_frame_does_not_delay_discontinuity() {
    let batcher = Batcher::new(&[false], 1, Some(1));
    (0..2).for_each(|seq| push_one(&batcher, seq));
    batcher.mark_discontinuity(SOURCE);
    assert_eq!(pop(&batcher), (0, 0));
    assert!(!batcher.passed_discontinuity(SOURCE, 0));
    assert!(batcher.passed_discontinuity(SOURCE, 1));
}

type Received = Arc<Mutex<Vec<(u64, u64)>>>;

/// One source with inference on every third frame, and the order and number of each skipped frame.
fn skipping(live: bool, max_frames: Option<u64>) -> (Batcher, Received) {
    let received = Received::default();
    let receiver = Arc::clone(&received);
    let on_skipped: SkippedHandler =
        Box::new(move |order, (meta, _)| receiver.lock().push((order, meta.seq)));
    let batcher = Batcher::new(&[], 2, max_frames).with_intervals(5, 1, on_skipped);
    batcher.add(live, Interval::Frames(2)).expect("an id");
    (batcher, received)
}

/// The next frame, as a source delivers it.
fn deliver(batcher: &Batcher, seq: u64) -> Flow {
    let frame = Frame::black(0, seq, Size::new(1, 1));
    if batcher.should_skip(frame.meta.source) {
        batcher.push_skipped(frame.meta, None);
        return Flow::Continue;
    }
    batcher.push(frame)
}

fn taken(batcher: &Batcher, size: usize) -> Vec<(u64, u64)> {
    let mut batch: Vec<QueuedFrame> = Vec::new();
    batcher.next_batch(size, Duration::ZERO, &mut batch);
    let pair = |item: &QueuedFrame| (item.order, item.frame.meta.seq);
    batch.iter().map(pair).collect()
}

fn take_received(received: &Received) -> Vec<(u64, u64)> {
    std::mem::take(&mut *received.lock())
}

#[test]
fn skipped_frames_keep_their_order() {
    let (batcher, received) = skipping(false, None);
    (0..6).for_each(|seq| assert_eq!(deliver(&batcher, seq), Flow::Continue));
    assert_eq!(take_received(&received), [], "frame 0 still waits");
    assert_eq!(taken(&batcher, 1), [(0, 0)]);
    assert_eq!(take_received(&received), [(1, 1), (2, 2)]);
    assert_eq!(taken(&batcher, 1), [(3, 3)]);
    assert_eq!(take_received(&received), [(4, 4), (5, 5)]);
    (6..12).for_each(|seq| assert_eq!(deliver(&batcher, seq), Flow::Continue));
    assert_eq!(taken(&batcher, 2), [(6, 6), (9, 9)], "two of a batch");
    assert_eq!(
        take_received(&received),
        [(7, 7), (8, 8), (10, 10), (11, 11)]
    );
    assert_eq!(batcher.interval(SourceId(0)), (2, 8));
    batcher.close_all();
    assert_eq!(batcher.drained(SourceId(0)), Some(12));
}

#[test]
fn replaced_frame_releases_following_skipped_frames() {
    let (batcher, received) = skipping(true, None);
    (0..4).for_each(|seq| assert_eq!(deliver(&batcher, seq), Flow::Continue));
    // Frame 0 was dropped.
    assert_eq!(take_received(&received), [(0, 1), (1, 2)]);
    assert_eq!(batcher.dropped(SourceId(0)), 1);
    assert_eq!(taken(&batcher, 1), [(2, 3)]);
}

#[test]
fn skipped_frames_count_towards_frame_limit() {
    let (batcher, received) = skipping(false, Some(4));
    (0..6).for_each(|seq| {
        deliver(&batcher, seq);
    });
    assert_eq!(taken(&batcher, 2), [(0, 0), (3, 3)]);
    assert_eq!(take_received(&received), [(1, 1), (2, 2)]);
    assert_eq!(deliver(&batcher, 6), Flow::Stop);
    assert_eq!(batcher.drained(SourceId(0)), Some(4));
}

#[test]
fn removed_source_keeps_totals() {
    let batcher = Batcher::new(&[], 1, None).with_intervals(5, 1, Box::new(|_, _| {}));
    batcher.add(true, Interval::Adaptive).expect("an id");
    (0..4).for_each(|seq| assert_eq!(deliver(&batcher, seq), Flow::Continue));
    let counted = || {
        let totals = batcher.state.lock().totals();
        (totals.offered, totals.dropped, totals.waiting)
    };
    assert_eq!(counted(), (4, 3, 1));
    batcher.close(SourceId(0));
    batcher.remove(SourceId(0));
    assert_eq!(counted(), (4, 3, 0));
}
