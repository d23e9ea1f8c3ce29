// SPDX-License-Identifier: Apache-2.0
//! The stage that limits a pipeline waits for a CPU core: the verdict says so, on simulated timelines with context switches, with and
//! without states of threads. The command of a capture in `ncu_command`.

use std::path::Path;

use rusqlite::{Connection, params};
use serde_json::json;

use crate::report_limits::verdict;
use crate::support::nsys_export::{Generation, export_file};
use crate::support::pipeline_timeline::{Timing, write};
use crate::support::report::csv;

/// Exports have these columns of context switches, and these calls.
#[derive(Clone, Copy)]
struct Shape {
    /// nsys records the state in which a thread is taken off its core: from 2023 on.
    states: bool,
    /// The calls of the operating system's libraries were traced.
    calls: bool,
    /// The thread sleeps in a call while it is off its core.
    sleeps: bool,
}

/// A pipeline that its network limits, whose thread is off its core for a third of each `infer`.
fn timeline(path: &Path, shape: Shape) {
    let timing = Timing {
        infer: 15_000,
        length: 1_500_000,
        ..Timing::default()
    };
    write(path, &timing);
    let db = Connection::open(path).expect("the timeline");
    let state = if shape.states {
        ", threadState INTEGER"
    } else {
        ""
    };
    db.execute_batch(&format!(
        "CREATE TABLE SCHED_EVENTS (start INTEGER NOT NULL, cpu INTEGER NOT NULL, isSchedIn INTEGER NOT NULL, globalTid INTEGER{state});"
    ))
    .expect("a table");
    if shape.calls {
        db.execute_batch(
            "CREATE TABLE OSRT_API (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
                nameId INTEGER NOT NULL);
             INSERT INTO StringIds VALUES (900, 'futex');",
        )
        .expect("a table");
    }
    let mut ranges = db
        .prepare("SELECT start, end, globalTid FROM NVTX_EVENTS WHERE eventType = 59 AND text = 'infer' ORDER BY start")
        .expect("a query");
    let ranges: Vec<(i64, i64, i64)> = ranges
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .expect("rows")
        .map(|row| row.expect("a row"))
        .collect();
    db.execute_batch("BEGIN").expect("a transaction");
    // State 1: it was running. State 2: it began to sleep.
    let state = if shape.sleeps { 2 } else { 1 };
    let switch = |at: i64, is_in: i64, thread: i64| {
        let done = match shape.states {
            true => db.execute(
                "INSERT INTO SCHED_EVENTS VALUES (?1, 0, ?2, ?3, ?4)",
                params![at, is_in, thread, state],
            ),
            false => db.execute(
                "INSERT INTO SCHED_EVENTS VALUES (?1, 0, ?2, ?3)",
                params![at, is_in, thread],
            ),
        };
        done.expect("a row");
    };
    let mut is_first = true;
    for (start, end, thread) in ranges {
        let third = (end - start) / 3;
        if std::mem::take(&mut is_first) {
            switch(start - 1_000, 1, thread);
        }
        switch(start + third, 0, thread);
        if shape.sleeps && shape.calls {
            db.execute(
                "INSERT INTO OSRT_API VALUES (?1, ?2, 27, ?3, 900)",
                params![start + third - 100, start + 2 * third + 100, thread],
            )
            .expect("a call");
        }
        switch(start + 2 * third, 1, thread);
    }
    db.execute_batch("COMMIT").expect("written");
}

#[test]
fn verdict_names_the_wait_of_the_limiting_stage_for_a_core() {
    let folder = tempfile::tempdir().expect("a folder");
    let shape = |states, calls, sleeps| Shape {
        states,
        calls,
        sleeps,
    };
    let cases = [
        ("states", shape(true, false, false), true),
        ("states, asleep", shape(true, false, true), false),
        ("calls", shape(false, true, false), true),
        ("calls, asleep", shape(false, true, true), false),
        // It may have waited for anything.
        ("neither", shape(false, false, false), false),
    ];
    for (name, shape, waits) in cases {
        let path = folder.path().join(format!("{name}.sqlite"));
        timeline(&path, shape);
        let found = verdict(&path);
        assert_eq!(found["Limiting Stage"], "infer", "{name}: {found}");
        assert_eq!(found["Rule"] == "waits_for_core", waits, "{name}: {found}");
        if waits {
            let text = found["Finding"].as_str().expect("a text");
            let wanted = "infer waits for a CPU core: thread detect-0 could run and did not";
            assert_eq!(text, wanted);
            let evidence = found["Evidence"].as_str().expect("a text");
            assert_has!(evidence => "this is 33 % of the stage's time; cores with recorded threads: 1, idle for");
        }
    }
}

#[test]
fn ncu_command_has_the_command_of_the_capture() {
    let folder = tempfile::tempdir().expect("a folder");
    let command = |path: &Path| csv("ncu_command", path);
    let path = export_file(folder.path(), Generation::Year2023);
    assert!(command(&path).contains(" jetwatch run --config FILE\n"));
    let db = Connection::open(&path).expect("the export");
    db.execute(
        "INSERT INTO META_DATA_CAPTURE VALUES ('COMMAND', 'jetwatch run --config=gate.yaml --stats=stats.json')",
        [],
    )
    .expect("a row");
    drop(db);
    assert!(command(&path).contains(" jetwatch run --config=gate.yaml\n"));
    // What `jetwatch profile` notes comes first.
    let notes =
        json!({"profile": {"command": "jetwatch run --config 'my gate.yaml' --batch-size 4"}});
    std::fs::write(path.with_extension("stats.json"), notes.to_string()).expect("written");
    assert!(command(&path).contains(" jetwatch run --config 'my gate.yaml' --batch-size 4\n"));
}
