// SPDX-License-Identifier: Apache-2.0
//! Ranges, spans and batches, and their counts.

use super::*;

#[test]
fn ranges_are_counted_with_their_items_and_time() {
    let recorder = Recorder::default();
    for _ in 0..3 {
        let _range = recorder.range(Stage::Infer, 4);
        let until = Instant::now() + Duration::from_millis(2);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }
    let summary = recorder.summary();
    let infer = summary.stage(Stage::Infer);
    assert_eq!((infer.count, infer.items), (3, 12));
    assert!(
        infer.mean_ms >= 2.0 && infer.p50_ms >= 1.9 && infer.max_ms >= infer.p50_ms,
        "{infer:?}"
    );
    assert!(
        infer
            .cpu_ms
            .is_some_and(|cpu| cpu > 0.0 && cpu <= infer.total_ms + 1.0),
        "{infer:?}"
    );
    assert_eq!(summary.stage(Stage::Track).count, 0);
    assert_eq!(summary.stages.len(), 7, "no GPU was used");

    drop(recorder.batch(Level::Detect, 4));
    recorder.record(Stage::GpuNetwork, 4, Duration::from_millis(3));
    let summary = recorder.summary();
    let gpu = summary.stages.last().expect("stages");
    assert_eq!((gpu.stage, gpu.count, gpu.items), (Stage::GpuNetwork, 1, 4));
    assert!((gpu.total_ms - 3.0).abs() < 1e-9 && gpu.cpu_ms.is_none());
}

#[test]
fn spans_overlap_and_are_neither_work_nor_cpu_time() {
    let recorder = Recorder::default();
    let first = recorder.span(Stage::VideoDecodeStay, 0);
    let second = recorder.span(Stage::VideoDecodeStay, 1);
    std::thread::scope(|scope| scope.spawn(|| recorder.end(first)).join()).expect("no panic");
    drop(second);
    let summary = recorder.summary();
    let stay = &summary.stages[0];
    assert_eq!((stay.stage, stay.count), (Stage::VideoDecodeStay, 1));
    assert_eq!((stay.cpu_ms, stay.busy_ms), (None, None));
    assert_eq!(summary.stages.len(), 8, "a dropped span is not recorded");
}

#[test]
fn a_section_counts_only_time_inside() {
    let recorder = Recorder::default();
    let whole = Instant::now();
    let mut section = Section::start(&recorder, Stage::VideoDecode, 7);
    section.pause();
    let outside = Instant::now();
    while outside.elapsed() < Duration::from_millis(20) {
        std::hint::spin_loop();
    }
    let outside = outside.elapsed();
    section.resume();
    let inside = Instant::now();
    while inside.elapsed() < Duration::from_millis(2) {
        std::hint::spin_loop();
    }
    section.end(&recorder);
    let inside_at_most = whole.elapsed().saturating_sub(outside).as_secs_f64() * 1e3;
    recorder.add_cpu(Stage::VideoDecode, Duration::from_millis(5));
    let summary = recorder.summary();
    let decode = summary.stage(Stage::VideoDecode);
    assert_eq!((decode.count, decode.items), (1, 1));
    assert!(decode.total_ms >= 2.0, "{decode:?}");
    assert!(decode.total_ms <= inside_at_most, "{decode:?}");
    assert_eq!(decode.busy_ms, Some(decode.total_ms));
    assert!(decode.cpu_ms.is_some_and(|cpu| cpu >= 5.0), "{decode:?}");
    let batch = summary.stage(Stage::Batch);
    assert_eq!((batch.cpu_ms, batch.busy_ms), (None, None), "a wait");
}

#[test]
fn earlier_work_is_a_part_of_a_range_and_not_of_its_thread() {
    let (recorder, before) = (Recorder::default(), thread_stage_cpu_time());
    let mut range = recorder.range(Stage::Source, 1);
    range.add_work(Duration::from_millis(5));
    drop(range);
    let own = (thread_stage_cpu_time() - before).as_secs_f64() * 1e3;
    let summary = recorder.summary();
    let source = summary.stage(Stage::Source);
    assert!(source.total_ms >= 5.0, "{source:?}");
    let cpu = source.cpu_ms.expect("it is known");
    assert!((cpu - own - 5.0).abs() < 1e-6, "{cpu}, {own}");
}

#[test]
fn trace_keeps_ranges_of_completed_batches() {
    let trace = Trace::default();
    let recorder = Recorder::with_trace(Some(trace.clone()));
    drop(recorder.range(Stage::Infer, 9));
    {
        let mut batch = recorder.batch(Level::Detect, 4);
        let mut wait = recorder.range(Stage::Batch, 4);
        wait.set_items(Some(3));
        drop(wait);
        batch.set_items(Some(3));
        recorder.record(Stage::GpuNetwork, 3, Duration::from_millis(2));
    }
    {
        let mut batch = recorder.batch(Level::Detect, 4);
        recorder.range(Stage::Batch, 4).set_items(None);
        batch.set_items(None);
    }
    let entries: Vec<_> = trace
        .drain()
        .iter()
        .map(|entry| (entry.level, entry.batch, entry.stage, entry.items))
        .collect();
    let detect = |stage| (Level::Detect, 0, stage, 3);
    let expected = [Some(Stage::Batch), Some(Stage::GpuNetwork), None].map(detect);
    assert_eq!(entries, expected);
    assert!(trace.drain().is_empty(), "drain removes the entries");
    assert_eq!(recorder.summary().stage(Stage::Batch).count, 1);
}

#[test]
fn a_time_counts_in_the_first_bucket_that_holds_it() {
    let recorder = Recorder::default();
    assert!(recorder.histograms().is_empty(), "no stage has run");
    for micros in [1, 100, 101, 1000, 3_000_000] {
        recorder.record(Stage::Infer, 1, Duration::from_micros(micros));
    }
    let histograms = recorder.histograms();
    let [infer] = histograms.as_slice() else {
        panic!("{histograms:?}");
    };
    let filled: Vec<(usize, u64)> = (0..)
        .zip(infer.counts)
        .filter(|(_, count)| *count > 0)
        .collect();
    let last = STAGE_BUCKETS.len();
    assert_eq!(filled, [(0, 2), (1, 1), (3, 1), (last, 1)]);
    assert_eq!((infer.stage, infer.count()), (Stage::Infer, 5));
    assert_eq!(infer.sum, Duration::from_micros(3_001_202));
    assert!(STAGE_BUCKETS.is_sorted());
    recorder.reset();
    assert!(recorder.histograms().is_empty());
}
