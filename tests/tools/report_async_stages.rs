//! Advice of `jetwatch report` on stages beside the pipeline, the recording and secondary networks: captures and benchmarks
//! that the tests write, with numbers that were calculated manually.

use crate::support;
use crate::support::nsys_export;

use std::fs;

use nsys_export::{Generation, PROCESS, write_export};
use rusqlite::{Connection, params};
use serde_json::json;
use support::daemon::success;
use support::report::{csv, report};

const RECORD: i64 = PROCESS | 14;
const SECOND: i64 = PROCESS | 15;

/// Ranges in addition to those of the synthetic capture, whose network takes 90 for a frame: thread, text, begin, end, payload.
const ASYNC_RANGES: [(i64, &str, i64, i64, i64); 9] = [
    // Two frames: 50 for drawing one, 70 for the encoder.
    (RECORD, "encode", 230, 250, 0),
    (RECORD, "render", 250, 310, 0),
    (RECORD, "encode", 310, 430, 1),
    (RECORD, "render", 430, 470, 1),
    // Two batches of 3.5 crops, of which 16 would fit; 175 of waiting for one, 10 of work.
    (SECOND, "secondary_wait", 100, 262, 16),
    (SECOND, "secondary", 262, 272, 3),
    (SECOND, "secondary_wait", 272, 450, 16),
    (SECOND, "secondary", 450, 460, 4),
    (SECOND, "secondary_wait", 460, 470, 16),
];

/// Adds [`ASYNC_RANGES`] to a capture.
fn add_async_ranges(db: &Connection) {
    for (thread, name) in [(RECORD, "record"), (SECOND, "sgie-light-0")] {
        db.execute(
            "INSERT INTO NVTX_EVENTS (start, eventType, globalTid, text, domainId) VALUES (0, 39, ?1, ?2, 0)",
            params![thread, name],
        )
        .expect("a name");
    }
    for (thread, name, start, end, payload) in ASYNC_RANGES {
        db.execute(
            "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, text, domainId, uint64Value) VALUES (?1, ?2, 59, ?3, ?4, 1, ?5)",
            params![start, end, thread, name, payload],
        )
        .expect("a range");
    }
}

/// Makes milliseconds of a capture's nanoseconds.
fn slow_pipeline(db: &Connection) {
    for table in [
        "NVTX_EVENTS",
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "OSRT_API",
    ] {
        let change = format!("UPDATE {table} SET start = start * 1000000, end = end * 1000000");
        db.execute(&change, []).expect("changed");
    }
}

#[test]
fn capture_advice_covers_slow_rendering_and_waiting_batches() {
    let folder = tempfile::tempdir().expect("a folder");
    for generation in Generation::ALL {
        let file = folder.path().join(format!("{generation:?}.sqlite"));
        let db = write_export(&file, generation);
        add_async_ranges(&db);
        slow_pipeline(&db);
        drop(db);
        let found = success(&report(&[], &[&file]));
        for line in [
            "rendering takes longer than inference",
            "drawing a frame takes 120.0 ms, of which 70.0 ms wait for the encoder, and the network 90.0 ms; \
             the recording was busy for 51 % of the time",
            "omit --record, record fewer sources",
            "the secondary batch of light waits for objects",
            "a batch has 3.5 crops where 16 fit, waits 175.0 ms, and takes 10.0 ms; a batch_size of 4 would be full",
            "(keys: secondary[].batch_size, secondary[].batch_timeout_ms)",
        ] {
            assert!(found.contains(line), "{line} is not in\n{found}");
        }
    }
}

#[test]
fn async_stages_are_not_on_critical_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let [alone, beside] = ["alone.sqlite", "beside.sqlite"].map(|name| {
        let file = folder.path().join(name);
        let db = write_export(&file, Generation::Year2023);
        if name == "beside.sqlite" {
            add_async_ranges(&db);
        }
        drop(db);
        csv("stages", &file)
    });
    let added: Vec<&str> = beside
        .lines()
        .filter(|line| !alone.lines().any(|known| known == *line))
        .collect();
    let wanted = [
        "secondary_wait,1,3,350,74.5,116.7,None,0,350,track,0.0,0.0",
        "secondary,1,2,20,4.3,10.0,None,0,0,secondary_wait,0.0,0.0",
        "render,1,2,100,21.3,50.0,None,0,0,track,0.0,0.0",
        "encode,1,2,140,29.8,70.0,None,0,230,the encoder,0.0,0.0",
    ];
    assert_eq!(added, wanted, "{beside}");
    assert_eq!(beside.lines().count(), alone.lines().count() + wanted.len());
}

#[test]
fn benchmark_advice_equals_capture_advice() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("benchmark.json");
    let mut document = json!({
        "data": {}, "meta": {}, "mean_data": {"jetwatch": {"cpu_time": 5.5, "gpu_time": 0}},
        "run": {
            "duration_s": 1.0,
            "stages": [
                {"stage": "infer", "count": 100, "items": 100, "total_ms": 450.0},
                {"stage": "render", "count": 50, "items": 50, "total_ms": 100.0},
                {"stage": "encode", "count": 25, "items": 25, "total_ms": 300.0},
            ],
            "secondary": [{"name": "light", "batches": 30, "mean_batch": 2.0, "batch_size": 8, "suggested_batch_size": 3,
                           "mean_wait_ms": 9.5, "mean_infer_ms": 0.5}],
        },
    });
    fs::write(&file, document.to_string()).expect("written");
    let found = success(&report(&[], &[&file]));
    for line in [
        // 100 and 300 ms for 50 frames, and 450 ms for 100.
        "drawing a frame takes 8.0 ms, of which 6.0 ms wait for the encoder, and the network 4.5 ms; \
         the recording was busy for 40 % of the time",
        "a batch has 2.0 crops where 8 fit, waits 9.5 ms, and takes 0.5 ms; a batch_size of 3 would be full",
    ] {
        assert!(found.contains(line), "{line} is not in\n{found}");
    }
    // Fuller batches, and a network that takes longer than drawing.
    document["run"]["secondary"][0]["mean_batch"] = json!(4.0);
    document["run"]["stages"][0]["total_ms"] = json!(801.0);
    fs::write(&file, document.to_string()).expect("written");
    let found = success(&report(&[], &[&file]));
    assert!(found.contains("nothing stands out"), "{found}");
}
