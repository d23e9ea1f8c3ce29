// SPDX-License-Identifier: Apache-2.0
//! Tests of one log: damage of every kind, a disk that fails at every step, and sizes.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

use super::*;
use crate::Class;
use crate::disk::Operation;
use crate::folder::is_locked;

mod damage;

const OPTIONS: LogOptions = LogOptions {
    segment_bytes: 4096,
    max_bytes: 64 << 20,
    is_synced: true,
};

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn open(folder: &TempDir) -> (Log, Opened) {
    open_with(folder, OPTIONS)
}

fn open_with(folder: &TempDir, options: LogOptions) -> (Log, Opened) {
    Log::open(&folder.path().join("log"), options, Disk::default(), 7).expect("it opens")
}

/// For tests that open a log some thousand times: what a device needs is left out.
const UNSYNCED: LogOptions = LogOptions {
    is_synced: false,
    ..OPTIONS
};

fn class_of(seq: u64) -> Class {
    Class::ALL[(seq % 4) as usize]
}

fn payload(seq: u64) -> Vec<u8> {
    format!(
        "{{\"n\":{seq},\"pad\":\"{}\"}}",
        "x".repeat((seq % 50) as usize)
    )
    .into_bytes()
}

fn batch(seqs: impl IntoIterator<Item = u64>) -> Batch {
    let mut batch = Batch::new(7);
    for seq in seqs {
        batch.push(
            (seq, 1000 + seq),
            class_of(seq),
            seq % 3,
            "t/events",
            &payload(seq),
        );
    }
    batch
}

fn append(log: &mut Log, seqs: impl IntoIterator<Item = u64>) {
    log.append(&batch(seqs)).expect("appended");
}

/// The numbers of all unacknowledged records, whose contents are compared.
fn seqs(log: &mut Log) -> Vec<u64> {
    let mut after = log.acked();
    let mut seqs = Vec::new();
    loop {
        let (records, _) = log.read(after, 7, 1 << 20).expect("readable");
        let Some(last) = records.last() else {
            return seqs;
        };
        after = last.seq;
        for record in records {
            assert_eq!(record.payload, payload(record.seq));
            assert_eq!((record.class, record.id), (class_of(record.seq), 7));
            assert_eq!(
                (record.at_ms, record.track),
                (1000 + record.seq, record.seq % 3)
            );
            assert_eq!(record.topic, "t/events");
            seqs.push(record.seq);
        }
    }
}

/// Ends as a killed process does: nothing is written at the end, and the lock is free.
fn kill(log: Log) {
    let Log { folder, .. } = &log;
    let copy = folder.with_file_name("killed");
    copy_folder(folder, &copy);
    let folder = folder.clone();
    drop(log);
    fs::remove_dir_all(&folder).expect("removable");
    fs::rename(copy, folder).expect("a free name");
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a new folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("copied");
    }
}

fn files(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path().join("log")).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = names
        .map(|name| name.into_string().expect("text"))
        .filter(|name| name.contains(".seg"))
        .collect();
    names.sort();
    names
}

#[test]
fn records_come_back_in_order_after_a_stop_and_after_a_kill() {
    let folder = folder();
    for (killed, first) in [(true, 1), (false, 201), (true, 401)] {
        let (mut log, opened) = open(&folder);
        assert_eq!(opened, Opened::default());
        assert_eq!((log.next_seq(), log.id()), (first, 7));
        for seq in (first..first + 200).step_by(10) {
            append(&mut log, seq..seq + 10);
        }
        log.ack(first + 150);
        assert_eq!(
            seqs(&mut log),
            (first + 151..first + 200).collect::<Vec<_>>()
        );
        match killed {
            true => {
                log.save().expect("saved");
                kill(log);
            }
            false => drop(log),
        }
    }
    let (mut log, _) = open(&folder);
    assert_eq!(seqs(&mut log), (552..601).collect::<Vec<_>>());
    assert_eq!(log.status().last_seq, Some(600));
}

#[test]
fn an_acknowledged_log_is_empty_after_a_restart() {
    let folder = folder();
    let (mut log, _) = open(&folder);
    append(&mut log, 1..300);
    log.ack(299);
    log.trim().expect("trimmed");
    assert_eq!(files(&folder), Vec::<String>::new());
    kill(log);
    let (mut log, _) = open(&folder);
    assert_eq!(seqs(&mut log), Vec::<u64>::new());
    assert_eq!(log.next_seq(), 300, "numbers are not used again");
    append(&mut log, [300]);
    assert_eq!(seqs(&mut log), [300]);
}

#[test]
fn a_full_disk_at_every_write_loses_nothing_that_was_accepted() {
    for allowed in 0..60 {
        for part in [0, 1, 17, 60] {
            let folder = folder();
            let writes = Arc::new(AtomicUsize::new(0));
            let own = Arc::clone(&writes);
            let disk = Disk::failing(move |operation| match operation {
                Operation::Write(_) if own.fetch_add(1, Ordering::Relaxed) == allowed => Ok(part),
                _ => Ok(usize::MAX),
            });
            let place = folder.path().join("log");
            let Ok((mut log, _)) = Log::open(&place, UNSYNCED, disk, 7) else {
                continue;
            };
            let mut accepted = Vec::new();
            for seq in 1..=150 {
                match log.append(&batch([seq])) {
                    Ok(()) => accepted.push(seq),
                    Err(error) => assert!(error.is_full(), "{error}"),
                }
            }
            assert!(
                accepted.len() >= 148,
                "{allowed} {part}: {}",
                accepted.len()
            );
            assert_eq!(seqs(&mut log), accepted, "{allowed} {part}");
            kill(log);
            let (mut log, opened) = open_with(&folder, UNSYNCED);
            assert_eq!(seqs(&mut log), accepted, "{allowed} {part}");
            assert_eq!(opened.damaged, Vec::<PathBuf>::new());
        }
    }
}

#[test]
fn draining_needs_no_space() {
    let folder = folder();
    let is_full = Arc::new(AtomicUsize::new(0));
    let own = Arc::clone(&is_full);
    // On a full disk, blocks that are there can be written: those of the cursor.
    let disk = Disk::failing(move |operation| match operation {
        Operation::Create if own.load(Ordering::Relaxed) == 1 => {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        _ => Ok(usize::MAX),
    });
    let place = folder.path().join("log");
    let (mut log, _) = Log::open(&place, OPTIONS, disk, 7).expect("it opens");
    append(&mut log, 1..=100);
    append(&mut log, 101..=200);
    is_full.store(1, Ordering::Relaxed);
    let cursor_blocks = || {
        use std::os::unix::fs::MetadataExt;
        let metadata = fs::metadata(place.join(cursor::NAME)).expect("the cursor");
        (metadata.len(), metadata.blocks())
    };
    let before = cursor_blocks();
    assert!(before.1 >= 16, "{before:?}: the slots have blocks");
    for acked in [50, 100, 150, 200] {
        log.ack(acked);
        log.save().expect("saved");
        log.trim().expect("trimmed");
    }
    assert_eq!(cursor_blocks(), before);
    assert_eq!(files(&folder), Vec::<String>::new());
}

#[test]
fn cursor_is_synced_before_a_segment_is_removed_and_the_folder_after_it() {
    let folder = folder();
    let operations = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let own = Arc::clone(&operations);
    let disk = Disk::failing(move |operation| {
        own.lock().push(operation);
        Ok(usize::MAX)
    });
    let place = folder.path().join("log");
    let (mut log, _) = Log::open(&place, OPTIONS, disk, 7).expect("it opens");
    append(&mut log, 1..=10);
    operations.lock().clear();
    log.ack(10);
    log.trim().expect("trimmed");
    let expected = [
        Operation::Write(104),
        Operation::Sync,
        Operation::Remove,
        Operation::SyncFolder,
    ];
    assert_eq!(*operations.lock(), expected);
    operations.lock().clear();
    append(&mut log, 11..=12);
    log.sync().expect("synced");
    let operations = operations.lock();
    assert_eq!(operations[0], Operation::Create);
    assert_eq!(operations[2], Operation::SyncFolder);
    assert_eq!(operations.last(), Some(&Operation::Sync));
}

#[test]
fn full_log_drops_dispensable_records_first_and_then_the_oldest() {
    let folder = folder();
    let options = LogOptions {
        max_bytes: 24 << 10,
        ..OPTIONS
    };
    let place = folder.path().join("log");
    let (mut log, _) = Log::open(&place, options, Disk::default(), 7).expect("it opens");
    let (mut gone, mut seq) = (Vec::new(), 0);
    let mut updates_were_left = true;
    while gone.len() < 300 {
        seq += 1;
        while let Err(error) = log.append(&batch([seq])) {
            assert!(matches!(error, SpoolError::Full { .. }), "{error}");
            let dropped = log.shrink().expect("shrunk").expect("something is dropped");
            let gap = dropped.gap();
            assert_eq!((gap.from, gap.reason), (dropped.seqs[0], GapReason::Full));
            assert_eq!(gap.updates + gap.others, dropped.seqs.len() as u64);
            let has_updates = dropped
                .seqs
                .iter()
                .all(|&seq| class_of(seq) == Class::Update);
            if updates_were_left && !has_updates {
                let left = seqs(&mut log);
                assert!(
                    !left.iter().any(|&seq| class_of(seq) == Class::Update),
                    "{left:?}"
                );
                updates_were_left = false;
            }
            gone.extend(dropped.seqs);
        }
    }
    assert!(!updates_were_left);
    let mut all = [gone, seqs(&mut log)].concat();
    all.sort_unstable();
    assert_eq!(all, (1..=seq).collect::<Vec<_>>());
    let left = seqs(&mut log);
    drop(log);
    let (mut log, _) = Log::open(&place, options, Disk::default(), 7).expect("it opens");
    assert_eq!(seqs(&mut log), left);
}

#[test]
fn reading_goes_on_behind_a_segment_that_was_written_again() {
    let folder = folder();
    let (mut log, _) = open_with(&folder, UNSYNCED);
    for seq in 1..=200 {
        append(&mut log, [seq]);
    }
    let (first, _) = log.read(0, 20, 1 << 20).expect("readable");
    let after = first.last().expect("some").seq;
    let dropped = log.shrink().expect("shrunk").expect("updates are dropped");
    let (rest, gap) = log.read(after, 1000, 1 << 20).expect("readable");
    assert_eq!(gap, None);
    let rest: Vec<u64> = rest.iter().map(|record| record.seq).collect();
    let is_there = |seq: &u64| !dropped.seqs.contains(seq);
    assert_eq!(rest, (after + 1..=200).filter(is_there).collect::<Vec<_>>());
}

#[test]
fn old_segments_expire() {
    let folder = folder();
    let (mut log, _) = open(&folder);
    for seq in 1..=150 {
        append(&mut log, [seq]);
    }
    log.ack(3);
    let mut gone = Vec::new();
    while let Some(dropped) = log.expire(|_| 1100).expect("readable") {
        assert_eq!(dropped.reason, GapReason::Expired);
        gone.extend(dropped.seqs);
    }
    let left = seqs(&mut log);
    assert_eq!([gone, left.clone()].concat(), (4..=150).collect::<Vec<_>>());
    assert!((2..100).contains(&left[0]), "{}", left[0]);
}

#[test]
fn a_second_process_is_kept_out() {
    let folder = folder();
    let (log, _) = open(&folder);
    let place = folder.path().join("log");
    let second = Log::open(&place, OPTIONS, Disk::default(), 8);
    assert!(matches!(second, Err(SpoolError::Locked { .. })));
    assert!(is_locked(&place));
    drop(log);
    assert!(!is_locked(&place));
    open(&folder);
}

#[test]
fn a_million_records_are_opened_without_reading_them_all() {
    let folder = folder();
    let options = LogOptions {
        segment_bytes: 1 << 20,
        max_bytes: 1 << 30,
        is_synced: false,
    };
    let place = folder.path().join("log");
    let (mut log, _) = Log::open(&place, options, Disk::default(), 7).expect("it opens");
    let mut batch = Batch::new(7);
    for first in (1..=1_000_000_u64).step_by(5000) {
        batch.clear();
        for seq in first..first + 5000 {
            batch.push((seq, seq), Class::New, 0, "t", b"{}");
        }
        log.append(&batch).expect("appended");
    }
    drop(log);
    let (mut log, _) = Log::open(&place, options, Disk::default(), 7).expect("it opens");
    assert_eq!(log.status().records, 1_000_000);
    let (records, _) = log.read(999_990, 100, 1 << 20).expect("readable");
    assert_eq!(records.len(), 10);
}
