// SPDX-License-Identifier: Apache-2.0
//! The archive with many files: time and memory of its opening, with an intact index and without one, and the time of the queries that
//! the page and the retention make.
//!
//!     make bench BENCH=archive ARGS="100000 [FOLDER]"
//!
//! The files are made in FOLDER, or in the folder for temporary files, and removed: pictures of 512 bytes, a clip for each fourth.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jetwatch_archive::{Archive, Finish, Limits, MediaKind, NewItem, Query};

/// Files where no number is given.
const FILES: u64 = 10_000;

/// Distance of two files, so that 100,000 are those of 29 days.
const STEP: Duration = Duration::from_secs(25);

/// Runs of each query.
const RUNS: usize = 20;

/// Name of the index and what belongs to it.
const INDEX: [&str; 3] = ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"];

/// A line of this process's status, in KiB.
fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or_default()
}

/// Runs `work`; returns what it gives, its time, and how much more memory it took at its peak, in MiB.
fn measured<T>(work: impl FnOnce() -> T) -> (T, Duration, f64) {
    // The peak begins at what is there now.
    fs::write("/proc/self/clear_refs", "5").expect("a process may reset its own peak");
    let before = status("VmRSS:");
    let begun = Instant::now();
    let result = work();
    let took = begun.elapsed();
    let more = status("VmHWM:").saturating_sub(before);
    (result, took, more as f64 / 1024.0)
}

fn open(folder: &Path) -> Archive {
    let limits = Limits {
        max_age: Some(Duration::from_secs(400 * 86_400)),
        max_bytes_per_source: Some(1 << 40),
        ..Limits::default()
    };
    let ((archive, healed), took, memory) =
        measured(|| Archive::open(folder, limits).expect("the folder can be used"));
    println!(
        "opened in {:.2} s, {memory:.0} MiB at its peak: {healed}",
        took.as_secs_f64()
    );
    archive
}

fn time(what: &str, mut query: impl FnMut() -> usize) {
    let begun = Instant::now();
    let found = query();
    let first = begun.elapsed();
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let begun = Instant::now();
            query();
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{what}: first {:.2} ms, then {:.2} ms (median), {found} found",
        ms(first),
        ms(times[RUNS / 2])
    );
}

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|text| !text.starts_with('-'));
    let count: u64 = arguments
        .next()
        .map_or(FILES, |text| text.parse().expect("a number of files"));
    let folder = match arguments.next() {
        Some(path) => tempfile::tempdir_in(path),
        None => tempfile::tempdir(),
    }
    .expect("a temporary folder");
    let folder = folder.path();
    let newest = SystemTime::now();
    {
        let (archive, _) = Archive::open(folder, Limits::default()).expect("a new folder");
        let mut picture = vec![7; 512];
        picture[510..].copy_from_slice(&[0xff, 0xd9]);
        let begun = Instant::now();
        for number in 0..count {
            let from = newest - STEP * u32::try_from(count - number).expect("fewer than that");
            let kind = match number % 5 {
                0 => MediaKind::Clip,
                _ => MediaKind::Snapshot,
            };
            let source = ["gate", "yard", "door", "hall"][number as usize % 4];
            let label = ["person", "car", "dog"][number as usize % 3];
            let seconds = from
                .duration_since(UNIX_EPOCH)
                .expect("after 1970")
                .as_secs();
            let item = NewItem {
                label: Some(label.to_owned()),
                tracks: vec![format!("{seconds}.000000-{source}-{number}")],
                zones: vec!["parking".to_owned()],
                ..NewItem::new(kind, source, from)
            };
            let mut pending = archive.begin(item).expect("begun");
            pending.write_all(&picture).expect("written");
            let end = Finish::complete(from + Duration::from_secs(8));
            pending.finish(end).expect("finished");
        }
        println!(
            "{count} files written in {:.1} s",
            begun.elapsed().as_secs_f64()
        );
    }
    println!("with an intact index:");
    let archive = open(folder);
    queries(&archive, newest);
    drop(archive);
    for name in INDEX {
        let _ = fs::remove_file(folder.join(name));
    }
    println!("without an index:");
    let archive = open(folder);
    assert_eq!(archive.items(&Query::default()).expect("read").len(), 100);
    drop(archive);
    println!("again:");
    open(folder);
}

fn queries(archive: &Archive, newest: SystemTime) {
    let list = |query: &Query| archive.items(query).expect("read").len();
    // The page asks for pictures and clips, one after the other.
    let both = |query: &Query| {
        let of = |kind| {
            list(&Query {
                kind: Some(kind),
                ..query.clone()
            })
        };
        of(MediaKind::Snapshot) + of(MediaKind::Clip)
    };
    time("newest events", || both(&Query::default()));
    let named = |text: &str| Some(text.to_owned());
    time("newest events of a source and a label", || {
        both(&Query {
            source: named("gate"),
            label: named("dog"),
            ..Query::default()
        })
    });
    time("newest events of a zone that has none", || {
        both(&Query {
            zone: named("elsewhere"),
            ..Query::default()
        })
    });
    let newest_items = archive.items(&Query::default()).expect("read");
    let last = newest_items.last().map(|item| item.id.clone());
    time("the next page of events", || {
        both(&Query {
            before: last.clone(),
            ..Query::default()
        })
    });
    time("events of a track", || {
        let track = newest_items.last().and_then(|item| item.tracks.first());
        both(&Query {
            track: track.cloned(),
            ..Query::default()
        })
    });
    time("retention that deletes nothing", || {
        archive.enforce(newest).expect("it works").len()
    });
    time("what is kept", || {
        archive.usage(newest).expect("read").sources.len()
    });
}
