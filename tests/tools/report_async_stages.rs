// SPDX-License-Identifier: Apache-2.0
//! Advice of `jetwatch report` on stages beside the pipeline, the recording and secondary networks: captures that the
//! tests write, with numbers that were calculated manually.

use crate::support;
use crate::support::nsys_export;

use nsys_export::{Generation, PROCESS, slow_down, write_export};
use rusqlite::{Connection, params};
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

#[test]
fn capture_advice_covers_slow_rendering_and_waiting_batches() {
    let folder = tempfile::tempdir().expect("a folder");
    for generation in Generation::ALL {
        let file = folder.path().join(format!("{generation:?}.sqlite"));
        let db = write_export(&file, generation);
        add_async_ranges(&db);
        slow_down(&db);
        drop(db);
        let found = success(&report(&[], &[&file]));
        assert_has!(found =>
            "rendering takes longer than inference",
            "drawing a frame takes 120.0 ms, of which 70.0 ms wait for the encoder, and the network 90.0 ms; \
             the recording was busy for 51 % of the time",
            "omit --record, record fewer sources", "the secondary batch of light waits for objects",
            "a batch has 3.5 crops where 16 fit, waits 175.0 ms, and takes 10.0 ms; a batch_size of 4 would be full",
            "(keys: secondary[].batch_size, secondary[].batch_timeout_ms)");
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
