//! Each rule with what makes it speak, and with what is nearly that.

use super::*;
use crate::report::evidence::{Rendering, SecondaryBatches};

/// A capture that no rule has anything to say about.
fn healthy() -> Evidence {
    Evidence {
        span_ns: 1_000_000_000,
        gpu_busy: Some(0.82),
        source: 0.4,
        batch: 0.25,
        tensor: 0.1,
        infer: 0.5,
        decode: 0.1,
        track: 0.2,
        publish: 0.2,
        detectors: 2,
        kernel_ns: 50_000.0,
        launching: 0.2,
        ..Evidence::default()
    }
}

type Change = fn(&mut Evidence);

/// For each rule what makes it speak, a piece of what it says, and what is nearly that and keeps it silent.
const CASES: &[(&str, Change, &str, Change)] = &[
    (
        "gpu_saturated",
        |seen| seen.gpu_busy = Some(0.95),
        "busy for 95 %",
        |seen| seen.gpu_busy = Some(0.89),
    ),
    (
        "waits_for_sources",
        |seen| (seen.gpu_busy, seen.batch) = (Some(0.62), 0.7),
        "GPU idle 38 %: batcher waits for sources",
        |seen| (seen.gpu_busy, seen.batch, seen.detectors) = (Some(0.62), 0.4, 3),
    ),
    (
        "sources_limit",
        |seen| (seen.source, seen.batch, seen.gpu_busy) = (0.95, 0.6, Some(0.3)),
        "GPU idle 70 %: CPU-bound in the sources",
        |seen| (seen.source, seen.batch) = (0.95, 0.1),
    ),
    (
        "scaling_on_gpu",
        |seen| {
            seen.foreign = 0.12;
            seen.foreign_kernel = Some(("resize".to_owned(), "cam:src".to_owned()));
        },
        "12 % of the GPU's time went into kernels that no detector launched, most of it resize from cam:src",
        |seen| seen.foreign = 0.005,
    ),
    (
        "decode_limit",
        |seen| seen.decode = 0.5,
        "50 % of the detectors' time",
        |seen| seen.decode = 0.29,
    ),
    (
        "tensor_limit",
        |seen| seen.tensor = 0.4,
        "40 % of the detectors' time",
        |seen| seen.tensor = 0.29,
    ),
    (
        "too_few_detectors",
        |seen| (seen.gpu_busy, seen.batch, seen.detectors) = (Some(0.5), 0.05, 1),
        "1 detectors, which waited for frames only 5 %",
        |seen| (seen.gpu_busy, seen.batch, seen.detectors) = (Some(0.5), 0.05, 4),
    ),
    (
        "launch_limit",
        |seen| (seen.gpu_busy, seen.kernel_ns, seen.launching) = (Some(0.4), 3_000.0, 0.9),
        "a kernel takes 3.0 µs, and 90 % of infer",
        |seen| (seen.gpu_busy, seen.kernel_ns, seen.launching) = (Some(0.4), 30_000.0, 0.9),
    ),
    (
        "network_on_cpu",
        |seen| (seen.gpu_busy, seen.infer) = (None, 0.9),
        "90 % of the detectors' time went into infer",
        |seen| seen.infer = 0.9,
    ),
    (
        "tracking_limit",
        |seen| seen.track = 0.9,
        "90 % of its time",
        |seen| seen.track = 0.79,
    ),
    (
        "publishing_waits_for_disk",
        |seen| {
            seen.disk = 0.4;
            seen.disk_thread = "json-lines".to_owned();
        },
        "thread json-lines was in calls that write for 40 %",
        |seen| seen.disk = 0.09,
    ),
    (
        "publishing_limit",
        |seen| seen.publish = 0.85,
        "85 % of the follower's time",
        |seen| (seen.publish, seen.disk) = (0.85, 0.5),
    ),
    (
        "pageable_copies",
        |seen| seen.pageable = (12, 0.02),
        "12 copies, 2 %",
        |seen| seen.pageable = (12, 0.001),
    ),
    (
        "synchronous_copies",
        |seen| seen.sync_copies = (3, 0.5),
        "3 synchronous copies, 50 %",
        |seen| seen.sync_copies = (3, 0.0),
    ),
    (
        "rendering_limit",
        |seen| seen.rendering = Some(rendering()),
        "drawing a frame takes 12.0 ms, of which 9.0 ms wait for the encoder, and the network 8.0 ms; the recording was at work for 60 %",
        |seen| {
            seen.rendering = Some(Rendering {
                infer_ns: 12_500_000.0,
                ..rendering()
            });
        },
    ),
    (
        "secondary_waits",
        |seen| {
            let full = SecondaryBatches {
                name: "color".to_owned(),
                crops: 15.0,
                ..batches()
            };
            seen.secondary = vec![full, batches()];
        },
        "the secondary batch of light waits for objects\n    because a batch has 3.2 crops where 16 fit, waits 10.0 ms, and takes 1.5 ms; a batch_size of 3 would be full",
        |seen| {
            // Half full; and one whose network is the slower half, so that batches fill while it works.
            let half = SecondaryBatches {
                crops: 8.0,
                ..batches()
            };
            let slow = SecondaryBatches {
                work_ns: 11_000_000.0,
                ..batches()
            };
            seen.secondary = vec![half, slow];
        },
    ),
];

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
fn each_rule_speaks_with_cause_and_is_silent_without() {
    assert_eq!(judge(&healthy()), []);
    let names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(CASES.iter().map(|case| case.0).collect::<Vec<_>>(), names);
    for (name, cause, words, no_cause) in CASES {
        let mut seen = healthy();
        cause(&mut seen);
        let findings = judge(&seen);
        let finding = findings.iter().find(|finding| finding.rule == *name);
        let said = finding
            .unwrap_or_else(|| panic!("{name} is silent"))
            .in_words();
        assert!(said.contains(words), "{name}: {said}");
        let mut seen = healthy();
        no_cause(&mut seen);
        assert!(
            judge(&seen).iter().all(|finding| finding.rule != *name),
            "{name} speaks"
        );
    }
}

#[test]
fn an_empty_capture_is_no_cause() {
    assert_eq!(judge(&Evidence::default()), []);
}
