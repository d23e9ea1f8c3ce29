// SPDX-License-Identifier: Apache-2.0
//! One second of eight cameras of 4 Mbit/s: into their rings, and from there into a clip each. The time, as a share of a second,
//! is the share of one core that clips of all of them take.
//!
//!     make bench BENCH=media

use std::hint::black_box;
use std::io::Cursor;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use criterion::{Criterion, criterion_group, criterion_main};

use jetwatch_media::{ClipFile, RingLimits, SourceStream};
use jetwatch_types::{AccessUnit, Size, StreamFormat, VideoCodec};

const CAMERAS: u64 = 8;

/// Images per second, and bytes of one: 4 Mbit/s.
const FPS: u64 = 25;
const BYTES: usize = 20_000;

/// A sequence parameter set of 1280×720 and a picture parameter set.
const SETS: [u8; 37] = [
    0, 0, 0, 1, 0x67, 0x42, 0xc0, 0x1f, 0xd9, 0x00, 0x50, 0x05, 0xbb, 0x01, 0x10, 0x00, 0x00, 0x03,
    0x00, 0x10, 0x00, 0x00, 0x03, 0x03, 0xc0, 0xf1, 0x83, 0x24, 0, 0, 0, 1, 0x68, 0xcb, 0x83, 0xcb,
    0x20,
];

/// The access unit `index` as the source copies it.
fn unit(index: u64, slice: &[u8]) -> AccessUnit {
    let is_keyframe = index.is_multiple_of(2 * FPS);
    let kind = if is_keyframe { 0x65 } else { 0x41 };
    let sets = if is_keyframe { &SETS[..] } else { &[] };
    let time = Duration::from_millis(index * 1000 / FPS);
    AccessUnit {
        bytes: [sets, &[0, 0, 0, 1, kind], slice].concat().into(),
        pts: Some(time),
        dts: None,
        duration: None,
        captured_at: SystemTime::UNIX_EPOCH + time,
        is_keyframe,
    }
}

fn media(criterion: &mut Criterion) {
    // Bytes of an arithmetic coder: each value is as likely.
    let slice: Vec<u8> = (0..BYTES)
        .map(|at| (jetwatch_types::mix64(at as u64) & 0xff) as u8)
        .collect();
    let streams: Vec<_> = (0..CAMERAS)
        .map(|_| {
            let limits = RingLimits {
                bytes: 32 << 20,
                span: Duration::from_secs(5),
            };
            let stream = Arc::new(SourceStream::new("camera", limits));
            stream.start(StreamFormat {
                codec: VideoCodec::H264,
                size: Size::new(1280, 720),
            });
            stream
        })
        .collect();
    let mut next = 0;
    let mut push_second = || {
        for index in next..next + FPS {
            for stream in &streams {
                stream.push(unit(index, &slice));
                // The detector is late by two images.
                stream.set_needed(Some(Duration::from_millis(
                    index.saturating_sub(2) * 1000 / FPS,
                )));
            }
        }
        next += FPS;
    };
    for _ in 0..10 {
        push_second();
    }
    criterion.bench_function("rings of 8 cameras, 1 s", |bench| {
        bench.iter(&mut push_second);
    });
    let bytes: usize = streams.iter().map(|stream| stream.bytes()).sum();
    println!("{bytes} bytes in the rings of {CAMERAS} cameras");
    criterion.bench_function("clips of 8 cameras, 1 s", |bench| {
        bench.iter(|| {
            for stream in &streams {
                let mut cursor = stream.newest_keyframe().expect("units");
                let mut units = Vec::new();
                stream.read(&mut cursor, usize::MAX, &mut units);
                let file = Cursor::new(Vec::with_capacity(2 << 20));
                let mut clip = ClipFile::begin(file, &units[0]).expect("begun");
                // As many as come in a second, whatever the newest group of pictures has.
                for unit in units.iter().cycle().take(FPS as usize) {
                    clip.add(unit.clone()).expect("in memory");
                }
                black_box(clip.finish().expect("in memory"));
            }
        });
    });
}

criterion_group!(benches, media);
criterion_main!(benches);
