//! Tests of the two logs together: locks, and what a later process knows.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::*;
use crate::Class;

/// Longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(60);

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
