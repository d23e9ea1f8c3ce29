// SPDX-License-Identifier: Apache-2.0
//! Each rule with a capture that triggers it, and one that almost does.

use super::*;
use crate::report::critical_path::InputKind;
use crate::report::metrics::{Limit, Rendering, SecondaryBatches, StageShares, UnitLoads};
use crate::report::on_demand::CoreWait;

/// A capture that triggers no rule.
fn healthy() -> CaptureMetrics {
    CaptureMetrics {
        span_ns: 1_000_000_000,
        gpu_busy: Some(0.82),
        shares: StageShares::new(|stage| match stage {
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
    Some(Limit {
        stage,
        share,
        path: Some(path),
    })
}

type Change = fn(&mut CaptureMetrics);

/// For each rule a capture that triggers it, a part of its finding, and a similar capture that does not.
#[rustfmt::skip]
const CASES: &[(&str, Change, &str, Change)] = &[
    ("gpu_saturated", |metrics| metrics.gpu_busy = Some(0.95), "busy for 95 %", |metrics| metrics.gpu_busy = Some(0.89)),
    (
        "waits_for_core",
        |metrics| {
            metrics.limit = limit(Stage::Infer, 0.95, 0.9);
            metrics.core_wait = Some(core_wait());
        },
        "infer waits for a CPU core: thread detect-1 could run and did not\n    because it was off its core and in no call that waits, for 120.0 ms in infer; over all its threads this is 12 % of the stage's time; cores with recorded threads: 2, idle for 3 %",
        |metrics| {
            metrics.limit = limit(Stage::Track, 0.5, 0.4);
            metrics.core_wait = Some(core_wait());
        },
    ),
    (
        "waits_for_sources",
        |metrics| (metrics.limit, metrics.shares[Stage::Batch]) = (limit(Stage::Input, 0.9, 0.7), 0.7),
        "batcher waits for sources: the detectors could take more\n    because input took 90 % of its threads' time, and 70 % of the critical path; 70 % of the detectors'",
        |metrics| (metrics.limit, metrics.input) = (limit(Stage::Input, 0.9, 0.7), InputKind::File),
    ),
    (
        "reading_limit",
        |metrics| (metrics.limit, metrics.input) = (limit(Stage::Input, 0.9, 0.7), InputKind::File),
        "reading the files is the limit",
        |metrics| metrics.limit = limit(Stage::Input, 0.9, 0.7),
    ),
    (
        "video_decode_limit",
        |metrics| metrics.limit = limit(Stage::VideoDecode, 0.9, 0.7),
        "(keys: sources[].decoder, sources[].decoder_threads, sources[].uri)",
        |metrics| metrics.limit = limit(Stage::VideoDecode, 0.7, 0.4),
    ),
    (
        "hardware_decode_limit",
        |metrics| {
            metrics.limit = limit(Stage::VideoDecode, 0.0, 0.7);
            metrics.decodes_in_hardware = true;
            metrics.units = UnitLoads {
                nvdec: Some(0.96),
                vic: None,
            };
        },
        "because NVDEC was busy for 96 % of the time; video_decode is 70 % of the critical path",
        |metrics| {
            metrics.decodes_in_hardware = true;
            metrics.units = UnitLoads {
                nvdec: Some(0.5),
                vic: None,
            };
        },
    ),
    (
        "scale_limit",
        |metrics| metrics.limit = limit(Stage::Scale, 0.9, 0.7),
        "(keys: sources[].scaling, sources[].max_fps, sources[].interval, sources[].uri)",
        |metrics| metrics.limit = limit(Stage::Scale, 0.7, 0.4),
    ),
    (
        "sources_limit",
        |metrics| (metrics.limit, metrics.shares[Stage::Batch]) = (limit(Stage::Source, 0.95, 0.7), 0.6),
        "receiving images is the limit",
        |metrics| (metrics.limit, metrics.shares[Stage::Batch]) = (limit(Stage::Infer, 0.95, 0.7), 0.6),
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
        |metrics| {
            metrics.foreign = 0.12;
            metrics.foreign_kernel = Some(("resize".to_owned(), "cam:src".to_owned()));
        },
        "12 % of the GPU's time went into kernels that no detector launched, most of it resize from cam:src",
        |metrics| metrics.foreign = 0.005,
    ),
    ("decode_limit", |metrics| metrics.shares[Stage::Decode] = 0.5, "50 % of the detectors' time", |metrics| metrics.shares[Stage::Decode] = 0.29),
    ("tensor_limit", |metrics| metrics.shares[Stage::Tensor] = 0.4, "40 % of the detectors' time", |metrics| metrics.shares[Stage::Tensor] = 0.29),
    (
        "too_few_detectors",
        |metrics| (metrics.gpu_busy, metrics.shares[Stage::Batch], metrics.detectors) = (Some(0.5), 0.05, 1),
        "1 detectors, which waited for frames only 5 %",
        |metrics| (metrics.gpu_busy, metrics.shares[Stage::Batch], metrics.detectors) = (Some(0.5), 0.05, 4),
    ),
    (
        "launch_limit",
        |metrics| {
            (metrics.gpu_busy, metrics.kernel_ns, metrics.launching) = (Some(0.4), 3_000.0, 0.9)
        },
        "a kernel takes 3.0 µs, and 90 % of infer",
        |metrics| {
            (metrics.gpu_busy, metrics.kernel_ns, metrics.launching) = (Some(0.4), 30_000.0, 0.9)
        },
    ),
    (
        "network_on_cpu",
        |metrics| (metrics.gpu_busy, metrics.shares[Stage::Infer]) = (None, 0.9),
        "90 % of the detectors' time went into infer",
        |metrics| metrics.shares[Stage::Infer] = 0.9,
    ),
    ("tracking_limit", |metrics| metrics.shares[Stage::Track] = 0.9, "90 % of its time", |metrics| metrics.shares[Stage::Track] = 0.79),
    (
        "publishing_waits_for_disk",
        |metrics| {
            metrics.disk = 0.4;
            metrics.disk_thread = "json-lines".to_owned();
        },
        "thread json-lines was in calls that write for 40 %",
        |metrics| metrics.disk = 0.09,
    ),
    (
        "publishing_limit",
        |metrics| metrics.shares[Stage::Publish] = 0.85,
        "85 % of the track thread's time",
        |metrics| (metrics.shares[Stage::Publish], metrics.disk) = (0.85, 0.5),
    ),
    ("pageable_copies", |metrics| metrics.pageable = (12, 0.02), "12 copies, 2 %", |metrics| metrics.pageable = (12, 0.001)),
    (
        "synchronous_copies",
        |metrics| metrics.sync_copies = (3, 0.5),
        "3 synchronous copies, 50 %",
        |metrics| metrics.sync_copies = (3, 0.0),
    ),
    (
        "rendering_limit",
        |metrics| metrics.rendering = Some(rendering()),
        "drawing a frame takes 12.0 ms, of which 9.0 ms wait for the encoder, and the network 8.0 ms; the recording was busy for 60 %",
        |metrics| {
            metrics.rendering = Some(Rendering {
                infer_ns: 12_500_000.0,
                ..rendering()
            });
        },
    ),
    (
        "secondary_waits",
        |metrics| {
            let full = SecondaryBatches {
                name: "color".to_owned(),
                crops: 15.0,
                ..batches()
            };
            metrics.secondary = vec![full, batches()];
        },
        "the secondary batch of light waits for objects\n    because a batch has 3.2 crops where 16 fit, waits 10.0 ms, and takes 1.5 ms; a batch_size of 3 would be full",
        |metrics| {
            // Half full; and one whose network is slower, so that batches fill during inference.
            let half = SecondaryBatches {
                crops: 8.0,
                ..batches()
            };
            let slow = SecondaryBatches {
                work_ns: 11_000_000.0,
                ..batches()
            };
            metrics.secondary = vec![half, slow];
        },
    ),
];

/// Of two threads that were to infer for a second.
fn core_wait() -> CoreWait {
    CoreWait {
        stage: Stage::Infer,
        thread: "detect-1".to_owned(),
        waited_ns: 120_000_000,
        share: 0.12,
        cores: 2,
        idle: 0.03,
        has_states: false,
    }
}

/// 3 ms of drawing and 9 ms of waiting for a frame that takes the network 8 ms.
fn rendering() -> Rendering {
    Rendering {
        draw_ns: 3_000_000.0,
        encoder_ns: 9_000_000.0,
        infer_ns: 8_000_000.0,
        share: 0.6,
    }
}

fn batches() -> SecondaryBatches {
    SecondaryBatches {
        name: "light".to_owned(),
        crops: 3.2,
        batch_size: 16,
        wait_ns: 10_000_000.0,
        work_ns: 1_500_000.0,
        suggested: 3,
    }
}

#[test]
fn each_advice_rule_fires_only_with_cause() {
    assert_eq!(advise(&healthy()), []);
    let names: Vec<&str> = rules().map(|rule| rule.name).collect();
    assert_eq!(CASES.iter().map(|case| case.0).collect::<Vec<_>>(), names);
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
fn empty_capture_gives_no_advice() {
    assert_eq!(advise(&CaptureMetrics::default()), []);
}

#[test]
fn a_stage_below_its_limit_is_named_without_a_rule() {
    let metrics = CaptureMetrics {
        limit: limit(Stage::Infer, 0.72, 0.44),
        ..healthy()
    };
    let findings = advise(&metrics);
    assert_eq!(findings.len(), 1);
    assert_eq!(
        (findings[0].rule, findings[0].stage),
        ("nearest_limit", Some("infer"))
    );
    let text = findings[0].to_text();
    assert!(
        text.contains("infer is nearest to it")
            && text.contains("72 % of its threads' time, and 44 % of the critical path"),
        "{text}"
    );
}

#[test]
fn findings_about_the_limit_come_first() {
    let metrics = CaptureMetrics {
        limit: limit(Stage::Track, 0.95, 0.9),
        foreign: 0.12,
        ..healthy()
    };
    let rules: Vec<_> = advise(&metrics).iter().map(|found| found.rule).collect();
    assert_eq!(rules, ["tracking_limit", "scaling_on_gpu"]);
}
