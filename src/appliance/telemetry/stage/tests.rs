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
        infer.cpu_ms > 0.0 && infer.cpu_ms <= infer.total_ms + 1.0,
        "{infer:?}"
    );
    assert_eq!(summary.stage(Stage::Track).count, 0);
    assert_eq!(summary.stages.len(), 7, "no GPU was used");

    drop(recorder.batch(Level::Detect, 4));
    recorder.record(Stage::GpuNetwork, 4, Duration::from_millis(3));
    let summary = recorder.summary();
    let gpu = summary.stages.last().expect("stages");
    assert_eq!((gpu.stage, gpu.count, gpu.items), (Stage::GpuNetwork, 1, 4));
    assert!((gpu.total_ms - 3.0).abs() < 1e-9 && gpu.cpu_ms == 0.0);
}

#[test]
fn spans_overlap_and_count_when_they_are_ended() {
    let recorder = Recorder::default();
    let first = recorder.span(Stage::VideoDecode, 0);
    let second = recorder.span(Stage::VideoDecode, 1);
    std::thread::scope(|scope| scope.spawn(|| recorder.end(first)).join()).expect("no panic");
    assert_eq!(recorder.summary().stage(Stage::VideoDecode).count, 1);
    drop(second);
    let summary = recorder.summary();
    assert_eq!(summary.stages[0].stage, Stage::VideoDecode);
    assert_eq!(summary.stages[0].count, 1, "a dropped span is not recorded");
    assert_eq!(summary.stages.len(), 8, "nothing was scaled");
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
