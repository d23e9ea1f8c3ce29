// SPDX-License-Identifier: Apache-2.0
//! Fuzz target: what the daemon reads back from its own files, and what a broker sends it.
//!
//! The first byte chooses the reader, the others are what it reads. Files of the spool carry checksums, past which no fuzzer gets:
//! they are set right here, except where the first byte of the input says that they stay as they are.

#![no_main]

use std::fs;
use std::path::{Path, PathBuf};

use bytes::BytesMut;
use jetwatch_mqtt::{Packet, Protocol, decode};
use jetwatch_publish::Command;
use jetwatch_spool::{Batch, Class, Disk, Log, LogOptions, SpoolError, read_folder};
use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Some((choice, bytes)) = bytes.split_first() else {
        return Corpus::Reject;
    };
    match choice {
        b'k' => command(bytes),
        b'q' => packets(bytes),
        b's' => spool(bytes),
        _ => return Corpus::Reject,
    }
    Corpus::Keep
});

/// The payload of a command.
fn command(bytes: &[u8]) {
    match Command::read(bytes) {
        Ok((_, command)) => {
            assert!(!command.name().is_empty() || !command.command_name().is_empty())
        }
        Err(reply) => {
            let error = reply.error.expect("a refusal has a reason");
            assert!(!error.is_empty() && error.len() < 4096, "{error}");
        }
    }
}

/// The bytes of a connection: packets of a broker or a client, by the protocol level in the first byte. What was read is written, and read
/// again as the same.
fn packets(bytes: &[u8]) {
    const MAX_PACKET_BYTES: usize = 1 << 20;
    let Some((level, bytes)) = bytes.split_first() else {
        return;
    };
    let protocol = match level % 2 {
        0 => Protocol::V5,
        _ => Protocol::V311,
    };
    let mut pending = BytesMut::from(bytes);
    loop {
        let packet = match decode(&mut pending, protocol, MAX_PACKET_BYTES) {
            Ok(Some(packet)) => packet,
            Ok(None) => return,
            Err(error) => return assert!(!error.to_string().is_empty()),
        };
        assert!(!format!("{packet:?}").is_empty());
        // A CONNECT names its own version.
        let protocol = match &packet {
            Packet::Connect(connect) => connect.protocol,
            _ => protocol,
        };
        let mut written = BytesMut::new();
        packet
            .encode(protocol, &mut written)
            .expect("what was read can be written");
        let again = decode(&mut written, protocol, 2 * MAX_PACKET_BYTES);
        let again = again.expect("it is a packet").expect("it is complete");
        assert_eq!(again.name(), packet.name());
        assert!(written.is_empty());
    }
}

/// A folder of the spool: flags, the file with the cursor, and two segments, the first two with their lengths in two bytes.
fn spool(bytes: &[u8]) {
    let Some((flags, bytes)) = bytes.split_first() else {
        return;
    };
    let keeps_checksums = flags % 2 == 1;
    let (mut cursor, bytes) = part(bytes);
    let (mut first, second) = part(bytes);
    let mut second = second.to_vec();
    if !keeps_checksums {
        seal_cursor(&mut cursor);
        seal_segment(&mut first, 1);
        seal_segment(&mut second, 5);
    }
    let folder = scratch().join("spool");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder is writable");
    let write = |name: &str, bytes: &[u8]| {
        fs::write(folder.join(name), bytes).expect("the folder is writable");
    };
    write("cursor", &cursor);
    write("00000000000000000001.seg", &first);
    if !second.is_empty() {
        write("00000000000000000005.seg", &second);
    }
    read_folder(&folder, |_| {}).expect("a folder with damaged files can be read");
    use_log(&folder);
}

/// Opens the log, reads it, appends to it, and finds that again.
fn use_log(folder: &Path) {
    let options = LogOptions {
        segment_bytes: 512,
        max_bytes: 1 << 20,
        is_synced: false,
    };
    let open =
        || Log::open(folder, options, Disk::default(), 77).expect("no damage prevents opening");
    let (mut log, _) = open();
    let mut last = log.acked();
    let (records, _) = log.read(last, 1000, 1 << 20).expect("it can be read");
    for record in records {
        assert!(record.seq > last, "{} after {last}", record.seq);
        last = record.seq;
    }
    let next = log.next_seq();
    assert!(
        log.last_seq()
            .is_none_or(|known| known < next || known == u64::MAX)
    );
    if next > u64::MAX / 2 {
        return;
    }
    let mut batch = Batch::new(log.id());
    batch.push((next, 1), Class::New, 3, "a/topic", b"{}");
    match log.append(&batch) {
        Ok(()) => {}
        Err(SpoolError::Full { .. }) => return,
        Err(error) => panic!("{error}"),
    }
    log.save().expect("the cursor is written");
    drop(log);
    let (mut log, _) = open();
    let (records, _) = log.read(next - 1, 10, 1 << 20).expect("it can be read");
    let found = records
        .first()
        .map(|record| (record.seq, record.topic.as_str()));
    assert_eq!(found, Some((next, "a/topic")));
}

/// A part with its length before it, and what is behind it.
fn part(bytes: &[u8]) -> (Vec<u8>, &[u8]) {
    let Some((length, bytes)) = bytes.split_first_chunk() else {
        return (Vec::new(), &[]);
    };
    let length = usize::from(u16::from_le_bytes(*length)).min(bytes.len());
    let (part, behind) = bytes.split_at(length);
    (part.to_vec(), behind)
}

/// Two slots of 104 bytes; in the file they are 4096 bytes apart.
fn seal_cursor(cursor: &mut Vec<u8>) {
    let mut file = vec![0; 8192];
    for (slot, bytes) in cursor.chunks_exact(104).take(2).enumerate() {
        let to = &mut file[4096 * slot..][..104];
        to.copy_from_slice(bytes);
        to[..12].copy_from_slice(b"JWCURSOR\x01\0\0\0");
        seal(to, 100, 0);
    }
    *cursor = file;
}

fn seal_segment(segment: &mut [u8], number: u64) {
    if segment.len() < 40 {
        return;
    }
    segment[..12].copy_from_slice(b"JWSPOOL\0\x01\0\0\0");
    segment[24..32].copy_from_slice(&number.to_le_bytes());
    seal(segment, 32, 0);
    let mut at = 40;
    while let Some(length) = segment.get(at..at + 4) {
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
        let Some(end) = (at + 8)
            .checked_add(length)
            .filter(|end| *end <= segment.len())
        else {
            return;
        };
        let sum = crc32fast::hash(&segment[at + 8..end]);
        segment[at + 4..at + 8].copy_from_slice(&sum.to_le_bytes());
        at = end;
    }
}

/// Writes the checksum of the bytes from `from` to `at` at `at`.
fn seal(bytes: &mut [u8], at: usize, from: usize) {
    let sum = crc32fast::hash(&bytes[from..at]);
    bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}

/// A folder of this process, in memory.
fn scratch() -> PathBuf {
    Path::new("/dev/shm").join(format!("jetwatch-fuzz-{}", std::process::id()))
}
