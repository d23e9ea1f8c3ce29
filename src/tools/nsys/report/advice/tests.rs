// SPDX-License-Identifier: Apache-2.0
//! Rules that need a timeline, each with a capture that triggers it, and one that almost does. The others are tested by the pipelines of
//! `tests/tools/pipelines.rs`.

use super::*;
use crate::report::critical_path::InputKind;
use crate::report::metrics::{Limit, UnitLoads};
use crate::report::on_demand::CoreWait;

/// A capture that triggers no rule.
fn healthy() -> CaptureMetrics {
    CaptureMetrics {
        span_ns: 1_000_000_000,
        gpu_busy: Some(0.82),
        shares: Stage::ALL.map(|stage| match stage {
            Stage::Source => 0.4,
            Stage::Batch => 0.25,
            Stage::Infer => 0.5,
            Stage::Tensor | Stage::Decode => 0.1,
            Stage::Track | Stage::Publish => 0.2,
            _ => 0.0,
        }),
        detectors: 2,
        kernel_ns: 50_000.0,
        launching: 0.2,
        ..CaptureMetrics::default()
    }
}

/// A stage with these shares of its threads' time and of the critical path.
fn limit(stage: Stage, share: f64, path: f64) -> Option<Limit> {
    let path = Some(path);
    Some(Limit { stage, share, path })
}

fn nvdec(load: f64) -> UnitLoads {
    let (nvdec, vic) = (Some(load), None);
    UnitLoads { nvdec, vic }
}

/// Of two threads that were to infer for a second.
fn core_wait() -> Option<CoreWait> {
    Some(CoreWait {
        stage: Stage::Infer,
        thread: "detect-1".to_owned(),
        waited_ns: 120_000_000,
        share: 0.12,
        cores: 2,
        idle: 0.03,
        has_states: false,
    })
}

type Change = fn(&mut CaptureMetrics);

/// For each rule a capture that triggers it, a part of its finding, and a similar capture that does not.
#[rustfmt::skip]
const CASES: &[(&str, Change, &str, Change)] = &[
    (
        "waits_for_core",
        |metrics| (metrics.limit, metrics.core_wait) = (limit(Stage::Infer, 0.95, 0.9), core_wait()),
        "infer waits for a CPU core: thread detect-1 could run and did not\n    because it was off its core and in no call that waits, for 120.0 ms in infer; over all its threads this is 12 % of the stage's time; cores with recorded threads: 2, idle for 3 %",
        |metrics| (metrics.limit, metrics.core_wait) = (limit(Stage::Track, 0.5, 0.4), core_wait()),
    ),
    (
        "waits_for_sources",
        |metrics| (metrics.limit, metrics.shares[Stage::Batch as usize]) = (limit(Stage::Input, 0.9, 0.7), 0.7),
        "because input took 90 % of its threads' time, and 70 % of the critical path; 70 % of the detectors'",
        |metrics| (metrics.limit, metrics.input) = (limit(Stage::Input, 0.9, 0.7), InputKind::File),
    ),
    (
        "hardware_decode_limit",
        |metrics| {
            (metrics.limit, metrics.decodes_in_hardware, metrics.units) = (limit(Stage::VideoDecode, 0.0, 0.7), true, nvdec(0.96));
        },
        "because NVDEC was busy for 96 % of the time; video_decode is 70 % of the critical path",
        |metrics| (metrics.decodes_in_hardware, metrics.units) = (true, nvdec(0.5)),
    ),
    (
        "scale_limit",
        |metrics| metrics.limit = limit(Stage::Scale, 0.9, 0.7),
        "(keys: sources[].scaling, sources[].max_fps, sources[].interval, sources[].uri)",
        |metrics| metrics.limit = limit(Stage::Scale, 0.7, 0.4),
    ),
    (
        "sources_limit",
        |metrics| (metrics.limit, metrics.shares[Stage::Batch as usize]) = (limit(Stage::Source, 0.95, 0.7), 0.6),
        "receiving images is the limit",
        |metrics| (metrics.limit, metrics.shares[Stage::Batch as usize]) = (limit(Stage::Infer, 0.95, 0.7), 0.6),
    ),
    (
        "batch_wait_limit",
        |metrics| metrics.limit = limit(Stage::Batch, 0.7, 0.6),
        "(keys: detector.batch_timeout_ms, detector.batch_size)",
        |metrics| metrics.limit = limit(Stage::Batch, 0.7, 0.4),
    ),
    (
        "secondary_limit",
        |metrics| metrics.limit = limit(Stage::Secondary, 0.95, 0.9),
        "secondary networks are the limit",
        |metrics| metrics.limit = limit(Stage::Secondary, 0.5, 0.4),
    ),
    (
        "scaling_on_gpu",
        |metrics| (metrics.foreign, metrics.foreign_kernel) = (0.12, Some(("resize".to_owned(), "cam:src".to_owned()))),
        "12 % of the GPU's time went into kernels that no detector launched, most of it resize from cam:src",
        |metrics| metrics.foreign = 0.005,
    ),
    (
        "too_few_detectors",
        |metrics| (metrics.gpu_busy, metrics.shares[Stage::Batch as usize], metrics.detectors) = (Some(0.5), 0.05, 1),
        "1 detectors, which waited for frames only 5 %",
        |metrics| (metrics.gpu_busy, metrics.shares[Stage::Batch as usize], metrics.detectors) = (Some(0.5), 0.05, 4),
    ),
    (
        "launch_limit",
        |metrics| (metrics.gpu_busy, metrics.kernel_ns, metrics.launching) = (Some(0.4), 3_000.0, 0.9),
        "a kernel takes 3.0 µs, and 90 % of infer",
        |metrics| (metrics.gpu_busy, metrics.kernel_ns, metrics.launching) = (Some(0.4), 30_000.0, 0.9),
    ),
    (
        "publishing_waits_for_disk",
        |metrics| (metrics.disk, metrics.disk_thread) = (0.4, "json-lines".to_owned()),
        "thread json-lines was in calls that write for 40 %",
        |metrics| metrics.disk = 0.09,
    ),
    (
        "publishing_limit",
        |metrics| metrics.shares[Stage::Publish as usize] = 0.85,
        "85 % of the track thread's time",
        |metrics| (metrics.shares[Stage::Publish as usize], metrics.disk) = (0.85, 0.5),
    ),
    ("pageable_copies", |metrics| metrics.pageable = (12, 0.02), "12 copies, 2 %", |metrics| metrics.pageable = (12, 0.001)),
    ("synchronous_copies", |metrics| metrics.sync_copies = (3, 0.5), "3 synchronous copies, 50 %", |metrics| metrics.sync_copies = (3, 0.0)),
];

#[test]
fn each_advice_rule_fires_only_with_cause() {
    assert_eq!(advise(&healthy()), []);
    assert_eq!(advise(&CaptureMetrics::default()), []);
    for (name, cause, words, no_cause) in CASES {
        let mut metrics = healthy();
        cause(&mut metrics);
        let findings = advise(&metrics);
        let finding = findings.iter().find(|finding| finding.rule == *name);
        let output = finding
            .unwrap_or_else(|| panic!("{name} found nothing"))
            .to_text();
        assert!(output.contains(words), "{name}: {output}");
        let mut metrics = healthy();
        no_cause(&mut metrics);
        assert!(
            advise(&metrics).iter().all(|finding| finding.rule != *name),
            "{name} speaks"
        );
    }
}

#[test]
fn each_rule_has_a_test() {
    let pipelines = include_str!("../../../../../tests/tools/pipelines.rs");
    let is_tested = |name: &str| {
        let has_case = CASES.iter().any(|case| case.0 == name);
        has_case || pipelines.contains(&format!("\"{name}\""))
    };
    let untested: Vec<&str> = rules()
        .map(|rule| rule.name)
        .filter(|name| !is_tested(name))
        .collect();
    assert_eq!(untested, [""; 0]);
}

#[test]
fn the_limit_comes_before_what_stands_beside_it() {
    let metrics = CaptureMetrics {
        limit: limit(Stage::Track, 0.95, 0.9),
        foreign: 0.12,
        ..healthy()
    };
    let rules: Vec<_> = advise(&metrics).iter().map(|found| found.rule).collect();
    assert_eq!(rules, ["tracking_limit", "scaling_on_gpu"]);
}
