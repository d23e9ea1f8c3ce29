// SPDX-License-Identifier: Apache-2.0
//! Tests of the JSON-lines sink with a disk that fails on command.

use std::io::Write;
use std::time::SystemTime;

use parking_lot::MutexGuard;

use super::*;
use crate::SourceState;

/// A disk with a limited capacity.
#[derive(Debug, Clone)]
struct Disk(Arc<Mutex<DiskState>>);

#[derive(Debug)]
struct DiskState {
    bytes: Vec<u8>,
    capacity: usize,
    can_truncate: bool,
    broken_pipe: bool,
}

impl Disk {
    fn new(capacity: usize) -> Self {
        Self(Arc::new(Mutex::new(DiskState {
            bytes: Vec::new(),
            capacity,
            can_truncate: true,
            broken_pipe: false,
        })))
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock()
    }

    fn text(&self) -> String {
        String::from_utf8(self.state().bytes.clone()).expect("JSON")
    }
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state();
        if state.broken_pipe {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let fits = bytes.len().min(state.capacity - state.bytes.len());
        if fits == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.bytes.extend_from_slice(&bytes[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for Disk {
    fn truncate_partial(&mut self, bytes: u64) -> io::Result<()> {
        let mut state = self.state();
        if !state.can_truncate {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let length = state.bytes.len() - usize::try_from(bytes).expect("small");
        state.bytes.truncate(length);
        Ok(())
    }
}

fn record(reason: &str) -> Publication<'_> {
    Publication::source_state(
        "cam",
        SourceState::Offline,
        Some(reason),
        SystemTime::UNIX_EPOCH,
    )
}

fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "{what} within 30 s");
        std::thread::yield_now();
    }
}

#[test]
fn partial_line_is_truncated_on_seekable_output() {
    let disk = Disk::new(10);
    let mut lines = LineWriter::new(disk.clone());
    let (whole, error) = lines
        .write(b"one\ntwo\nthree\n")
        .expect_err("14 bytes on a disk of 10");
    assert_eq!((whole, error.kind()), (2, io::ErrorKind::StorageFull));
    assert_eq!(disk.text(), "one\ntwo\n", "no half line");
    disk.state().capacity = 100;
    lines.write(b"four\n").expect("space again");
    assert_eq!(disk.text(), "one\ntwo\nfour\n");
}

#[test]
fn partial_line_is_terminated_on_non_seekable_output() {
    let disk = Disk::new(10);
    disk.state().can_truncate = false;
    let mut lines = LineWriter::new(disk.clone());
    assert_eq!(lines.write(b"one\ntwo\nthree\n").expect_err("full").0, 2);
    assert_eq!(lines.write(b"four\n").expect_err("still full").0, 0);
    disk.state().capacity = 100;
    lines.write(b"four\n").expect("space again");
    assert_eq!(disk.text(), "one\ntwo\nth\nfour\n");
}

fn start(disk: &Disk) -> JsonLinesSink {
    JsonLinesSink::start_with(
        disk.clone(),
        "test".to_owned(),
        "dev",
        &Classes::default(),
        None,
    )
    .expect("a thread")
}

/// Numbers of the reasons in the lines that are on the disk.
fn written(disk: &Disk) -> Vec<usize> {
    let reason = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).expect("a whole line");
        let reason = line["reason"].as_str().expect("a reason");
        reason.parse().expect("a number")
    };
    disk.text().lines().map(reason).collect()
}

#[test]
fn lines_wait_while_the_disk_is_full() {
    let disk = Disk::new(1_000);
    let mut sink = start(&disk);
    for number in 0..50 {
        sink.publish(&record(&number.to_string()));
    }
    eventually("the disk is full", || {
        let counts = sink.counts();
        counts.delivered > 0 && counts.queued > 0
    });
    assert_eq!(sink.counts().dropped, 0);
    disk.state().capacity = 100_000;
    eventually("all lines are on the disk", || sink.counts().queued == 0);
    let counts = Box::new(sink).close(Duration::from_secs(30));
    assert_eq!((counts.delivered, counts.dropped), (50, 0));
    assert_eq!(written(&disk), (0..50).collect::<Vec<_>>());
}

#[test]
fn full_disk_keeps_the_newest_lines_up_to_a_bound() {
    let disk = Disk::new(0);
    let mut sink = start(&disk);
    let all = QUEUE_LINES + 300;
    for number in 0..all {
        sink.publish(&record(&number.to_string()));
    }
    eventually("the oldest lines are given up", || {
        let counts = sink.counts();
        counts.dropped >= 300 && counts.queued <= QUEUE_LINES as u64
    });
    disk.state().capacity = usize::MAX;
    eventually("the others are on the disk", || sink.counts().queued == 0);
    let counts = Box::new(sink).close(Duration::from_secs(30));
    let numbers = written(&disk);
    assert_eq!(counts.dropped as usize, all - numbers.len());
    assert_eq!(counts.accepted, counts.delivered + counts.dropped);
    assert!(
        counts.dropped < 900,
        "{counts:?}: about one write more than needed"
    );
    assert_eq!(numbers, (all - numbers.len()..all).collect::<Vec<_>>());
}

#[test]
fn moved_and_removed_files_are_created_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("events.jsonl");
    let moved = folder.path().join("events.jsonl.1");
    let config = JsonLinesConfig {
        path: Some(path.clone()),
    };
    let mut sink = JsonLinesSink::start(&config, "dev", &[]).expect("opens");
    let mut number = 0;
    let mut publish_until = |sink: &mut JsonLinesSink, what: &str, done: &dyn Fn() -> bool| {
        eventually(what, || {
            sink.publish(&record(&number.to_string()));
            number += 1;
            std::thread::sleep(Duration::from_millis(20));
            done()
        });
    };
    publish_until(&mut sink, "lines", &|| path.is_file());
    std::fs::rename(&path, &moved).expect("can be moved");
    publish_until(&mut sink, "a new file after the move", &|| path.is_file());
    std::fs::remove_file(&path).expect("can be removed");
    publish_until(&mut sink, "a new file after the removal", &|| {
        path.is_file()
    });
    let counts = Box::new(sink).close(Duration::from_secs(30));
    assert_eq!((counts.delivered, counts.dropped), (number as u64, 0));
    let text = std::fs::read_to_string(&moved).expect("readable");
    assert!(text.contains("\"reason\":\"0\"") && text.ends_with('\n'));
    assert!(!std::fs::read_to_string(&path).expect("readable").is_empty());
}

#[test]
fn a_closed_reader_is_reported_and_the_rest_dropped() {
    let disk = Disk::new(100_000);
    disk.state().broken_pipe = true;
    let mut sink = start(&disk);
    sink.publish(&record("x"));
    eventually("the closed pipe is detected", || sink.is_closed_by_reader());
    sink.publish(&record("y"));
    let counts = Box::new(sink).close(Duration::from_secs(30));
    assert_eq!((counts.accepted, counts.dropped, counts.queued), (2, 2, 0));
}

#[test]
fn existing_file_is_appended_after_terminating_partial_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("events.jsonl");
    std::fs::write(&path, "{\"half\":").expect("writable");
    let config = JsonLinesConfig {
        path: Some(path.clone()),
    };
    for reason in ["first", "second"] {
        let mut sink = JsonLinesSink::start(&config, "dev", &[]).expect("opens");
        sink.publish(&record(reason));
        assert_eq!(Box::new(sink).close(Duration::from_secs(30)).delivered, 1);
    }
    let text = std::fs::read_to_string(&path).expect("readable");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, "{\"half\":"), "{text}");
    for (line, reason) in lines[1..].iter().zip(["first", "second"]) {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let found = (value["kind"].as_str(), value["reason"].as_str());
        assert_eq!(found, (Some("source"), Some(reason)));
    }
}

#[test]
fn a_missing_folder_is_an_error_that_names_the_file() {
    let config = JsonLinesConfig {
        path: Some("/nonexistent/folder/events.jsonl".into()),
    };
    let error = JsonLinesSink::start(&config, "dev", &[])
        .expect_err("no such folder")
        .to_string();
    assert!(
        error.contains("/nonexistent/folder/events.jsonl") && error.contains("folder must exist"),
        "{error}"
    );
}

#[test]
fn hanging_disk_is_stall_and_idle_writer_is_not() {
    let disk = Disk::new(100_000);
    let heartbeats = Heartbeats::default();
    let heartbeat = Some(heartbeats.register("json-lines"));
    let mut sink = JsonLinesSink::start_with(
        disk.clone(),
        "test".to_owned(),
        "dev",
        &Classes::default(),
        heartbeat,
    )
    .expect("a thread");
    let stuck = || {
        heartbeats
            .stalled(Duration::from_millis(20))
            .map(|(name, _)| name)
    };
    // While this is held, the disk does not respond.
    let blocked = disk.state();
    sink.publish(&record("waits for the disk"));
    eventually("the thread is stuck", || {
        stuck().as_deref() == Some("json-lines")
    });
    drop(blocked);
    eventually("it goes on", || sink.counts().delivered == 1);
    eventually("it waits", || stuck().is_none());
    Box::new(sink).close(Duration::from_secs(30));
}
