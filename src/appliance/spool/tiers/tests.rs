// SPDX-License-Identifier: Apache-2.0
//! Tests of the two logs together: locks, and what a later process knows.

use std::io;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::*;
use crate::{Class, Operation};

/// Longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(60);

fn open(folder: &Path, has_back: bool) -> Spool {
    let folders = Folders {
        front: folder.join("front"),
        back: has_back.then(|| folder.join("back")),
        max_bytes: 8 << 20,
    };
    Spool::open(&folders).0.expect("a writable folder")
}

fn write(spool: &Spool, seq: u64) -> Stored {
    let mut batch = Batch::new(spool.id());
    batch.push((seq, seq), Class::New, 1, "topic", b"payload");
    spool.write(&batch).expect("room in memory")
}

/// The front log's disk fills up, or has room again.
fn fill_front(spool: &Spool, is_full: bool) {
    spool.front.lock().disk = match is_full {
        true => Disk::failing(|operation| match operation {
            Operation::Write(_) | Operation::Create => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(usize::MAX),
        }),
        false => Disk::default(),
    };
}

/// All numbers that are not acknowledged.
fn waiting(spool: &Spool) -> Vec<u64> {
    let mut seqs = Vec::new();
    let mut after = spool.acked();
    loop {
        let (records, gap) = spool.read(after, 7).expect("readable");
        assert_eq!(gap, None);
        let Some(last) = records.last() else {
            return seqs;
        };
        after = last.seq;
        seqs.extend(records.iter().map(|record| record.seq));
    }
}

#[test]
fn messages_without_room_on_tmpfs_go_to_the_device() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let spool = open(folder.path(), true);
    (1..=20).for_each(|seq| assert!(write(&spool, seq).only_in_memory.is_none()));
    fill_front(&spool, true);
    (21..=60).for_each(|seq| assert!(write(&spool, seq).only_in_memory.is_some()));
    assert_eq!(waiting(&spool), (1..=60).collect::<Vec<u64>>());
    spool.ack(10);
    spool.persist(&mut Vec::new()).expect("a writable device");
    assert!(spool.overflow.lock().first().is_none());
    (61..=70).for_each(|seq| assert!(write(&spool, seq).only_in_memory.is_some()));
    spool.ack(30);
    spool.persist(&mut Vec::new()).expect("a writable device");
    drop(spool);
    let spool = open(folder.path(), true);
    assert_eq!(waiting(&spool), (31..=70).collect::<Vec<u64>>());
}

#[test]
fn messages_in_memory_come_before_newer_ones_when_tmpfs_has_room_again() {
    for has_back in [false, true] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let spool = open(folder.path(), has_back);
        (1..=5).for_each(|seq| drop(write(&spool, seq)));
        fill_front(&spool, true);
        (6..=9).for_each(|seq| drop(write(&spool, seq)));
        fill_front(&spool, false);
        assert!(write(&spool, 10).only_in_memory.is_none());
        assert!(spool.overflow.lock().first().is_none());
        drop(spool);
        let spool = open(folder.path(), has_back);
        assert_eq!(waiting(&spool), (1..=10).collect::<Vec<u64>>());
    }
}

#[test]
fn acknowledged_messages_leave_the_memory() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let spool = open(folder.path(), false);
    fill_front(&spool, true);
    (1..=9).for_each(|seq| drop(write(&spool, seq)));
    spool.ack(9);
    assert!(spool.overflow.lock().first().is_none());
    assert_eq!(waiting(&spool), Vec::<u64>::new());
}

#[test]
fn a_device_that_is_full_too_keeps_the_order() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let spool = open(folder.path(), true);
    fill_front(&spool, true);
    let back = spool.back.as_ref().expect("a back log");
    back.lock().disk = Disk::failing(|operation| match operation {
        Operation::Write(_) | Operation::Create => Err(io::ErrorKind::StorageFull.into()),
        _ => Ok(usize::MAX),
    });
    (1..=30).for_each(|seq| drop(write(&spool, seq)));
    assert!(spool.persist(&mut Vec::new()).is_err());
    assert_eq!(waiting(&spool), (1..=30).collect::<Vec<u64>>());
    back.lock().disk = Disk::default();
    spool.persist(&mut Vec::new()).expect("a writable device");
    assert_eq!(waiting(&spool), (1..=30).collect::<Vec<u64>>());
}

#[test]
fn statistics_while_messages_are_written_to_the_device_block_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folders = Folders {
        front: folder.path().join("front"),
        back: Some(folder.path().join("back")),
        max_bytes: 8 << 20,
    };
    let spool = Spool::open(&folders).0.expect("a writable folder");
    let (done, ended) = channel();
    thread::scope(|scope| {
        let (spool, writer_done) = (&spool, done.clone());
        scope.spawn(move || {
            for seq in 1..=100 {
                let mut batch = Batch::new(spool.id());
                batch.push((seq, seq), Class::Update, 1, "topic", b"payload");
                spool.write(&batch).expect("a writable folder");
                spool.persist(&mut Vec::new()).expect("a writable folder");
            }
            let _ = writer_done.send(());
        });
        scope.spawn(move || {
            for _ in 0..10_000 {
                let _ = spool.status();
            }
            let _ = done.send(());
        });
        for _ in 0..2 {
            if ended.recv_timeout(TIMEOUT).is_err() {
                // The threads would be waited for without end.
                eprintln!("statistics and writing wait for each other");
                std::process::abort();
            }
        }
    });
    assert_eq!(
        spool.status().back.and_then(|back| back.last_seq),
        Some(100)
    );
}

#[test]
fn steps_of_the_clock_are_known_to_the_next_process() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folders = Folders {
        front: folder.path().join("front"),
        back: Some(folder.path().join("back")),
        max_bytes: 8 << 20,
    };
    let shift = ClockShift { to: 2, ms: 1 << 40 };
    for (acked, kept) in [(1, shift), (2, ClockShift::default())] {
        let spool = Spool::open(&folders).0.expect("a writable folder");
        for seq in spool.next_seq()..=3 {
            let mut batch = Batch::new(spool.id());
            batch.push((seq, 1), Class::New, 1, "topic", b"payload");
            spool.write(&batch).expect("a writable folder");
        }
        spool.ack(acked);
        spool.keep_clock(shift);
        spool.trim(true).expect("a writable folder");
        drop(spool);
        let spool = Spool::open(&folders).0.expect("a writable folder");
        assert_eq!(spool.kept_clock(), kept, "{acked} acknowledged");
    }
}
