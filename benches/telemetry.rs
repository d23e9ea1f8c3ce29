// SPDX-License-Identifier: Apache-2.0
//! Cost of a range: on the timeline with no tool attached, in the histograms that are always on, and in a trace.
//!
//!     make bench BENCH=telemetry

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use jetwatch_telemetry::{Level, Recorder, Stage, Trace, thread_cpu_time};

fn ranges(criterion: &mut Criterion) {
    let recorder = Recorder::default();
    let mut group = criterion.benchmark_group("range");
    // Without a trace a batch is only on the timeline: this is NVTX with no tool attached.
    group.bench_function("timeline alone", |bencher| {
        bencher.iter(|| drop(black_box(recorder.batch(Level::Detect, black_box(1)))));
    });
    group.bench_function("histogram alone", |bencher| {
        let time = Duration::from_micros(1234);
        bencher.iter(|| recorder.record(Stage::Infer, black_box(1), black_box(time)));
    });
    group.bench_function("CPU clock of the thread, read once", |bencher| {
        bencher.iter(thread_cpu_time);
    });
    group.bench_function("all, as in the daemon", |bencher| {
        bencher.iter(|| drop(black_box(recorder.range(Stage::Infer, black_box(1)))));
    });
    let trace = Trace::default();
    let traced = Recorder::with_trace(Some(trace.clone()));
    group.bench_function("all, with a trace", |bencher| {
        let _whole = traced.batch(Level::Detect, 1);
        bencher.iter_custom(|rounds| {
            let started = std::time::Instant::now();
            for _ in 0..rounds {
                drop(black_box(traced.range(Stage::Infer, black_box(1))));
            }
            let took = started.elapsed();
            drop(trace.drain());
            took
        });
    });
    group.finish();
}

criterion_group!(benches, ranges);
criterion_main!(benches);
