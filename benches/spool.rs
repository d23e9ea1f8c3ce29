// SPDX-License-Identifier: Apache-2.0
//! What the spool costs, as JSON: bytes written to the device for each message, CPU time for each message, the time to open.
//!
//!     make bench BENCH=spool ARGS="FOLDER"
//!
//! FOLDER is on the device to be measured, alone there: bytes are those of the device's own counter, so with an ext4 image on a loop
//! device they include the file system's. Such an image of 256 MiB has blocks of 1 KiB, larger ones have 4 KiB. The front log and the one
//! that is opened are in /dev/shm.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jetwatch_spool::{Batch, Class, Disk, Folders, Log, LogOptions, Spool};
use rustix::fs::{major, minor};
use rustix::process::getpid;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

/// Messages of the measurement of bytes, in durable batches of 10.
const MESSAGES: u64 = 20_000;

fn main() {
    let folder = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let folder = PathBuf::from(folder.unwrap_or_else(|| "target/spool-bench".to_owned()));
    fs::create_dir_all(&folder).expect("a folder that can be written");
    let results = json!({
        "device_bytes": device_bytes(&folder),
        "always": always(&folder),
        "open_a_million": open_a_million(),
    });
    println!("{results:#}");
}

/// 0.94 KB with numbers as in events.
fn payload(seq: u64) -> Vec<u8> {
    let mut text =
        format!("{{\"version\":2,\"kind\":\"event\",\"source\":\"street\",\"seq\":{seq},");
    let mut state = seq.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    while text.len() < 930 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(&format!(
            "\"k{:03}\":{:.6},",
            state % 1000,
            (state % 1_000_003) as f64 / 1e6
        ));
    }
    text.push('}');
    text.into_bytes()
}

/// Bytes written to the device of `folder` so far, after a sync; `None` where it has no counter.
fn written(folder: &Path) -> Option<u64> {
    rustix::fs::sync();
    let device = fs::metadata(folder).ok()?.dev();
    let path = format!("/sys/dev/block/{}:{}/stat", major(device), minor(device));
    let text = fs::read_to_string(path).ok()?;
    let sectors: u64 = text.split_whitespace().nth(6)?.parse().ok()?;
    Some(sectors * 512)
}

fn device_bytes(folder: &Path) -> serde_json::Value {
    let options = LogOptions {
        segment_bytes: 1 << 20,
        max_bytes: 1 << 30,
        is_synced: true,
    };
    let place = folder.join("bytes");
    let (mut log, _) = Log::open(&place, options, Disk::default(), 1).expect("it opens");
    let start = written(folder);
    let mut batch = Batch::new(1);
    let begin = Instant::now();
    let mut bytes = 0;
    for first in (1..=MESSAGES).step_by(10) {
        batch.clear();
        for seq in first..first + 10 {
            let payload = payload(seq);
            bytes += payload.len();
            batch.push(
                (seq, seq),
                Class::Update,
                seq % 8,
                "jetwatch/gate/street/events",
                &payload,
            );
        }
        log.append(&batch).expect("appended");
        log.sync().expect("synced");
    }
    let seconds = begin.elapsed().as_secs_f64();
    let appended = written(folder);
    for acked in (0..=MESSAGES).step_by(20) {
        log.ack(acked);
        log.trim().expect("trimmed");
    }
    let drained = written(folder);
    let per_message =
        |from: Option<u64>, to: Option<u64>| Some((to? - from?) as f64 / MESSAGES as f64);
    let append = per_message(start, appended);
    let drain = per_message(appended, drained);
    drop(log);
    fs::remove_dir_all(&place).expect("removable");
    json!({
        "payload_bytes": bytes as f64 / MESSAGES as f64,
        "bytes_per_message": append,
        "draining_bytes_per_message": drain,
        "draining_share": drain.zip(append).map(|(drain, append)| drain / append),
        "durable_batches_per_s": MESSAGES as f64 / 10.0 / seconds,
    })
}

/// As with `durability: always` and a broker that is away: events of one frame at a time, a sync each second.
fn always(folder: &Path) -> serde_json::Value {
    let front = Path::new("/dev/shm").join(format!("spool-bench-{}", getpid().as_raw_nonzero()));
    let folders = Folders {
        front: front.clone(),
        back: Some(folder.join("always")),
        max_bytes: 4 << 30,
    };
    let (spool, _) = Spool::open(&folders);
    let spool = spool.expect("it opens");
    let payloads: Vec<Vec<u8>> = (0..1000).map(payload).collect();
    let (begin, cpu) = (Instant::now(), cpu_time());
    let mut batch = Batch::new(spool.id());
    let mut dropped = Vec::new();
    let (mut seq, mut persisted) = (0, Instant::now());
    while begin.elapsed() < Duration::from_secs(5) {
        batch.clear();
        for _ in 0..8 {
            seq += 1;
            let payload = &payloads[(seq % 1000) as usize];
            batch.push(
                (seq, seq),
                Class::Update,
                seq % 8,
                "jetwatch/gate/street/events",
                payload,
            );
        }
        let is_pressed = spool.write(&batch).expect("written").is_pressed;
        if is_pressed || persisted.elapsed() >= Duration::from_secs(1) {
            spool.persist(&mut dropped).expect("persisted");
            persisted = Instant::now();
        }
    }
    spool.persist(&mut dropped).expect("persisted");
    let (wall, cpu) = (begin.elapsed().as_secs_f64(), cpu_time() - cpu);
    drop(spool);
    fs::remove_dir_all(&front).expect("removable");
    fs::remove_dir_all(folder.join("always")).expect("removable");
    json!({
        "events": seq,
        "events_per_s": seq as f64 / wall,
        "cpu_us_per_event": cpu * 1e6 / seq as f64,
        "dropped": dropped.len(),
    })
}

fn open_a_million() -> serde_json::Value {
    let options = LogOptions {
        segment_bytes: 1 << 20,
        max_bytes: 4 << 30,
        is_synced: false,
    };
    let name = format!("spool-bench-million-{}", getpid().as_raw_nonzero());
    let place = Path::new("/dev/shm").join(name);
    let (mut log, _) = Log::open(&place, options, Disk::default(), 1).expect("it opens");
    let payloads: Vec<Vec<u8>> = (0..1000).map(payload).collect();
    let mut batch = Batch::new(1);
    for first in (1..=1_000_000_u64).step_by(1000) {
        batch.clear();
        for seq in first..first + 1000 {
            let payload = &payloads[(seq % 1000) as usize];
            batch.push(
                (seq, seq),
                Class::New,
                seq % 8,
                "jetwatch/gate/street/events",
                payload,
            );
        }
        log.append(&batch).expect("appended");
    }
    drop(log);
    let begin = Instant::now();
    let (mut log, _) = Log::open(&place, options, Disk::default(), 1).expect("it opens");
    let (records, _) = log.read(0, 100, 1 << 20).expect("readable");
    let seconds = begin.elapsed().as_secs_f64();
    assert_eq!((log.status().records, records.len()), (1_000_000, 100));
    drop(log);
    fs::remove_dir_all(&place).expect("removable");
    json!({ "seconds": seconds })
}

/// CPU time of this process, in seconds.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
