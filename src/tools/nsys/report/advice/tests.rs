// SPDX-License-Identifier: Apache-2.0
//! Each rule with a capture that triggers it, and one that almost does.

use super::*;
use crate::report::critical_path::InputKind;
use crate::report::metrics::{
    Limit, NetworkNotes, Rendering, RunNotes, SecondaryBatches, SourceNotes, UnitLoads,
};
use crate::report::on_demand::CoreWait;
use jetwatch_platform::{Occupancy, Program};
use jetwatch_telemetry::{Latency, LatencyPart, LatencyReport, OutputReport};

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
    (
        "messages_lost",
        |metrics| metrics.run = lossy("mqtt", 2294, 146),
        "because mqtt lost 2294 of 2440 messages; 146 waited at the end of the run, 500 at most; it was at work, or held by its receiver, for 50 %",
        |metrics| metrics.run = lossy("mqtt", 0, 100),
    ),
    ("lines_lost", |metrics| metrics.run = lossy("json-lines", 1, 0), "json-lines lost 1 of 2440", |metrics| metrics.run = lossy("mqtt", 1, 0)),
    (
        "webhook_events_lost",
        |metrics| metrics.run = lossy("webhook alarm", 0, 900),
        "webhook alarm falls behind: what it is given waits longer and longer",
        |metrics| metrics.run = lossy("webhook alarm", 0, 200),
    ),
    ("recorded_frames_lost", |metrics| metrics.run = lossy("record", 9, 0), "record lost 9", |metrics| metrics.run = lossy("record", 0, 0)),
    ("clip_images_lost", |metrics| metrics.run = lossy("media", 9, 0), "the disk is too slow", |metrics| metrics.run = lossy("media", 0, 0)),
    ("snapshots_left_out", |metrics| metrics.run = lossy("snapshot", 9, 0), "better pictures of tracks", |metrics| metrics.run = lossy("snapshot", 0, 0)),
    ("page_pictures_left_out", |metrics| metrics.run = lossy("web-pictures", 9, 0), "web.preview.max_fps", |metrics| metrics.run = lossy("web-pictures", 0, 0)),
    (
        "frames_dropped",
        |metrics| metrics.run = dropping(100),
        "newer frames replaced 100 of 1000 (10 %), most of them from gate (100)",
        |metrics| metrics.run = dropping(4),
    ),
    (
        "crops_dropped",
        |metrics| metrics.run.secondary = vec![network("color", 90.0, 10.0), network("light", 60.0, 40.0)],
        "crops for light are dropped: objects go without its result\n    because its queue was full for 40 of 100 crops",
        |metrics| metrics.run.secondary = vec![network("light", 100.0, 0.0)],
    ),
    (
        "cpu_taken",
        |metrics| metrics.run.occupancy = Some(occupancy(2, 1.0, 0.9)),
        "other programs took 45 % of 2 cores (rustc 0.90), this one 1.00 cores; 0.10 were idle; threads that could run waited for a core for 30 %",
        |metrics| metrics.run.occupancy = Some(occupancy(2, 1.0, 0.1)),
    ),
    (
        "cpu_quota",
        |metrics| metrics.run.occupancy = Some(quota(0.8)),
        "it allows 0.50 cores, and was used up in 80 % of its periods; this program used 0.50 cores of 2",
        |metrics| metrics.run.occupancy = Some(quota(0.01)),
    ),
    (
        "cores_restricted",
        |metrics| metrics.run.occupancy = Some(occupancy(1, 1.0, 0.0)),
        "1 of 2 cores are allowed by its affinity or its cpuset",
        |metrics| metrics.run.occupancy = Some(occupancy(1, 0.3, 0.0)),
    ),
    (
        "throttled",
        |metrics| metrics.run.throttled = vec!["too hot (gpu-throttle-alert)".to_owned()],
        "because too hot (gpu-throttle-alert)",
        |metrics| metrics.run.throttled.clear(),
    ),
    (
        "machine_waits",
        |metrics| metrics.run.occupancy = Some(Occupancy { memory_pressure: Some(0.3), ..occupancy(2, 0.5, 0.0) }),
        "programs of this machine wait for memory\n    because some of them waited for 30 %",
        |metrics| metrics.run.occupancy = Some(Occupancy { io_pressure: Some(0.3), ..occupancy(2, 0.5, 0.0) }),
    ),
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
        "batch_latency",
        |metrics| metrics.run = live(4, 120.0),
        "batches of 4 make frames of 1 live source wait\n    because from its arrival to its messages a frame takes 149.0 ms (median; 95 %: 160.0, maximum 200.0; medians of the parts: wait 120.0); a frame waits 120.0 ms",
        |metrics| metrics.run = live(1, 120.0),
    ),
    (
        "waits_for_sources",
        |metrics| (metrics.limit, metrics.shares[Stage::Batch as usize]) = (limit(Stage::Input, 0.9, 0.7), 0.7),
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
        |metrics| {
            metrics.foreign = 0.12;
            metrics.foreign_kernel = Some(("resize".to_owned(), "cam:src".to_owned()));
        },
        "12 % of the GPU's time went into kernels that no detector launched, most of it resize from cam:src",
        |metrics| metrics.foreign = 0.005,
    ),
    ("decode_limit", |metrics| metrics.shares[Stage::Decode as usize] = 0.5, "50 % of the detectors' time", |metrics| metrics.shares[Stage::Decode as usize] = 0.29),
    ("tensor_limit", |metrics| metrics.shares[Stage::Tensor as usize] = 0.4, "40 % of the detectors' time", |metrics| metrics.shares[Stage::Tensor as usize] = 0.29),
    (
        "too_few_detectors",
        |metrics| (metrics.gpu_busy, metrics.shares[Stage::Batch as usize], metrics.detectors) = (Some(0.5), 0.05, 1),
        "1 detectors, which waited for frames only 5 %",
        |metrics| (metrics.gpu_busy, metrics.shares[Stage::Batch as usize], metrics.detectors) = (Some(0.5), 0.05, 4),
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
        "network_on_dla",
        |metrics| {
            metrics.run.detector = "tensorrt, yolox in int8 (Orin, DLA 0)".to_owned();
            (metrics.gpu_busy, metrics.shares[Stage::Infer as usize]) = (Some(0.95), 0.9);
        },
        "90 % of the detectors' time went into infer, on tensorrt, yolox in int8 (Orin, DLA 0)",
        |metrics| metrics.shares[Stage::Infer as usize] = 0.9,
    ),
    (
        "network_on_cpu",
        |metrics| (metrics.gpu_busy, metrics.shares[Stage::Infer as usize]) = (None, 0.9),
        "90 % of the detectors' time went into infer",
        |metrics| metrics.shares[Stage::Infer as usize] = 0.9,
    ),
    (
        "scripted_detector",
        |metrics| {
            (metrics.gpu_busy, metrics.shares[Stage::Infer as usize]) = (None, 0.9);
            metrics.run.detector = "scripted, truth".to_owned();
        },
        "the scripted detector is the limit",
        |metrics| (metrics.gpu_busy, metrics.shares[Stage::Infer as usize]) = (None, 0.9),
    ),
    (
        "network_on_full_cpu",
        |metrics| {
            (metrics.gpu_busy, metrics.shares[Stage::Infer as usize]) = (None, 0.9);
            metrics.run.occupancy = Some(occupancy(2, 1.9, 0.0));
        },
        "of 2 allowed cores this program used 1.90, and others 0.00\n    run it on a GPU, use a smaller or INT8 model, or skip frames; more workers do not help",
        |metrics| {
            (metrics.gpu_busy, metrics.shares[Stage::Infer as usize]) = (None, 0.9);
            metrics.run.occupancy = Some(occupancy(2, 1.0, 0.0));
        },
    ),
    ("tracking_limit", |metrics| metrics.shares[Stage::Track as usize] = 0.9, "90 % of its time", |metrics| metrics.shares[Stage::Track as usize] = 0.79),
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
        |metrics| metrics.shares[Stage::Publish as usize] = 0.85,
        "85 % of the track thread's time",
        |metrics| (metrics.shares[Stage::Publish as usize], metrics.disk) = (0.85, 0.5),
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
    (
        "objects_without_crop",
        |metrics| {
            metrics.run.secondary = vec![without_crop(100, 900, 0), without_crop(900, 100, 0)];
        },
        "90 % of its objects were smaller than min_object (900 of 1000",
        |metrics| metrics.run.secondary = vec![without_crop(900, 100, 0)],
    ),
];

/// A run of 10 s whose output lost some of 2440 messages, while others wait at its end.
fn lossy(name: &str, lost: u64, queued: u64) -> RunNotes {
    let output = OutputReport {
        name: name.to_owned(),
        items: "messages".to_owned(),
        accepted: 2440,
        delivered: 2440 - lost,
        lost,
        queued,
        max_queued: 500,
        busy_ms: 5_000.0,
    };
    RunNotes {
        duration_s: 10.0,
        outputs: vec![output],
        ..RunNotes::default()
    }
}

/// A run of one camera, of 1000 frames.
fn dropping(dropped: u64) -> RunNotes {
    let source = SourceNotes {
        name: "gate".to_owned(),
        live: true,
        detected: 1000 - dropped,
        dropped,
    };
    RunNotes {
        frames: 1000 - dropped,
        dropped,
        sources: vec![source],
        ..RunNotes::default()
    }
}

/// The same with batches, whose frames wait for `wait_ms`.
fn live(batch_size: u64, wait_ms: f64) -> RunNotes {
    let latency = |median_ms, p95_ms, max_ms| Latency {
        frames: 1000,
        mean_ms: median_ms,
        median_ms,
        p95_ms,
        max_ms,
    };
    RunNotes {
        batch_size,
        latency: Some(LatencyReport {
            whole: latency(149.0, 160.0, 200.0),
            parts: vec![LatencyPart {
                part: "wait".to_owned(),
                latency: latency(wait_ms, wait_ms, wait_ms),
            }],
        }),
        ..dropping(0)
    }
}

fn network(name: &str, crops: f64, dropped_crops: f64) -> NetworkNotes {
    NetworkNotes {
        name: name.to_owned(),
        crops,
        dropped_crops,
        ..NetworkNotes::default()
    }
}

/// A network with objects, such that are too small, and frames without pixels.
fn without_crop(objects: u64, small_objects: u64, frames_without_pixels: u64) -> NetworkNotes {
    NetworkNotes {
        objects,
        small_objects,
        frames_without_pixels,
        ..network("plate", 10.0, 0.0)
    }
}

/// Of a machine of two cores.
fn occupancy(allowed_cores: usize, own_cores: f64, foreign_cores: f64) -> Occupancy {
    Occupancy {
        seconds: 10.0,
        cores: 2,
        allowed_cores,
        own_cores,
        foreign_cores,
        core_wait: Some(0.3),
        programs: vec![Program {
            name: "rustc".to_owned(),
            cores: foreign_cores,
        }],
        ..Occupancy::default()
    }
}

fn quota(throttled: f64) -> Occupancy {
    Occupancy {
        quota_cores: Some(0.5),
        quota_throttled: Some(throttled),
        ..occupancy(2, 0.5, 0.0)
    }
}

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
fn losses_come_first_then_the_machine_then_the_limit() {
    let mut metrics = CaptureMetrics {
        limit: limit(Stage::Track, 0.95, 0.9),
        foreign: 0.12,
        ..healthy()
    };
    let rules = |metrics: &CaptureMetrics| -> Vec<_> {
        advise(metrics).iter().map(|found| found.rule).collect()
    };
    assert_eq!(rules(&metrics), ["tracking_limit", "scaling_on_gpu"]);
    metrics.run = lossy("mqtt", 2, 0);
    metrics.run.occupancy = Some(occupancy(2, 1.0, 0.9));
    let wanted = [
        "messages_lost",
        "cpu_taken",
        "tracking_limit",
        "scaling_on_gpu",
    ];
    assert_eq!(rules(&metrics), wanted);
}

#[test]
fn nothing_is_praised_while_messages_are_lost() {
    let metrics = CaptureMetrics {
        limit: limit(Stage::Input, 0.9, 0.7),
        run: lossy("mqtt", 2, 0),
        ..healthy()
    };
    let findings = advise(&metrics);
    let rules: Vec<_> = findings.iter().map(|found| found.rule).collect();
    assert_eq!(rules, ["messages_lost"], "{findings:?}");
}
