// SPDX-License-Identifier: Apache-2.0
//! Time per frame of each tracker: 100 tracks and 100 detections, and ten times as many.
//!
//! Two scenes in a 1920×1080 image, both with boxes that jitter by a few percent and 5 % of the detections missing:
//! `street`, where objects of many sizes move on their own and few overlap, and `crowd`, where people stand so close that
//! each box overlaps several others.
//!
//!     make bench BENCH=track

use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use jetwatch_config::{Association, TrackerConfig, TrackerKind};
use jetwatch_track::{TrackEventGenerator, Tracker};
use jetwatch_types::{Detection, FrameMeta, Size, SourceId, TrackState};

/// The scene runs forth and back, so that it can be repeated without a jump.
const FRAMES: usize = 240;

/// xorshift64*: the same scene on every machine.
struct Random(u64);

impl Random {
    /// A number from `low` to `high`.
    fn between(&mut self, low: f32, high: f32) -> f32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 40;
        low + (high - low) * bits as f32 / (1_u32 << 24) as f32
    }
}

struct Object {
    class: u16,
    center: [f32; 2],
    speed: [f32; 2],
    size: [f32; 2],
}

/// Arrangement of the objects in the image.
#[derive(Clone, Copy)]
enum Scene {
    Street,
    Crowd,
}

impl Scene {
    fn object(self, random: &mut Random) -> Object {
        match self {
            Self::Street => {
                let height = random.between(40.0, 200.0);
                Object {
                    class: random.between(0.0, 3.99) as u16,
                    center: [random.between(100.0, 1820.0), random.between(100.0, 980.0)],
                    speed: [random.between(-4.0, 4.0), random.between(-1.0, 1.0)],
                    size: [height * random.between(0.4, 1.6), height],
                }
            }
            Self::Crowd => Object {
                class: 0,
                center: [random.between(300.0, 1500.0), random.between(300.0, 780.0)],
                speed: [random.between(-2.0, 2.0), random.between(-0.5, 0.5)],
                size: [random.between(70.0, 90.0), random.between(180.0, 220.0)],
            },
        }
    }

    /// The detections of every frame, forth and back.
    fn frames(self, objects: usize) -> Vec<Vec<Detection>> {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let mut objects: Vec<Object> = (0..objects).map(|_| self.object(&mut random)).collect();
        let mut frames = Vec::with_capacity(2 * FRAMES);
        for _ in 0..FRAMES {
            let mut frame = Vec::with_capacity(objects.len());
            for object in &mut objects {
                object.center[0] += object.speed[0];
                object.center[1] += object.speed[1];
                // A false detection replaces a missed object, so that every frame has the same number.
                let (center, size) = if random.between(0.0, 1.0) < 0.05 {
                    (
                        [random.between(100.0, 1820.0), random.between(100.0, 980.0)],
                        [50.0, 50.0],
                    )
                } else {
                    (object.center, object.size)
                };
                let mut edge = |at: f32, side: f32| at + side * random.between(-0.03, 0.03);
                frame.push(Detection {
                    class: object.class,
                    score: edge(0.7, 1.0),
                    xyxy: [
                        edge(center[0] - size[0] / 2.0, size[0]),
                        edge(center[1] - size[1] / 2.0, size[1]),
                        edge(center[0] + size[0] / 2.0, size[0]),
                        edge(center[1] + size[1] / 2.0, size[1]),
                    ],
                });
            }
            // Detectors deliver the best score first, which mixes the objects.
            frame.sort_by(|a, b| b.score.total_cmp(&a.score));
            frames.push(frame);
        }
        frames.extend_from_within(..);
        frames[FRAMES..].reverse();
        frames
    }
}

const TRACKERS: [(&str, TrackerKind, Association); 5] = [
    ("iou greedy", TrackerKind::Iou, Association::Greedy),
    ("iou optimal", TrackerKind::Iou, Association::Optimal),
    ("sort", TrackerKind::Sort, Association::Optimal),
    ("bytetrack", TrackerKind::ByteTrack, Association::Optimal),
    ("ocsort", TrackerKind::OcSort, Association::Optimal),
];

/// With enough lost frames that all trackers have the same number of tracks.
fn config(kind: TrackerKind, association: Association) -> TrackerConfig {
    TrackerConfig {
        association,
        max_lost_frames: 30,
        min_new_track_score: 0.0,
        ..TrackerConfig::new(kind)
    }
}

fn update(criterion: &mut Criterion) {
    for objects in [100, 1000] {
        let mut group =
            criterion.benchmark_group(format!("update {objects} tracks with {objects} detections"));
        for (scene_name, scene) in [("street", Scene::Street), ("crowd", Scene::Crowd)] {
            let frames = scene.frames(objects);
            for (name, kind, association) in TRACKERS {
                let mut tracker = Tracker::new(&config(kind, association));
                for frame in &frames {
                    tracker.update(frame);
                }
                let tracks = tracker.update(&frames[0]);
                let active = tracks
                    .iter()
                    .filter(|track| track.state == TrackState::Active)
                    .count();
                println!(
                    "{scene_name}, {name}: {} tracks, {active} of them active",
                    tracks.len()
                );
                let mut next = frames.iter().cycle().skip(1);
                group.bench_function(format!("{scene_name}/{name}"), |bencher| {
                    bencher.iter_batched(
                        || next.next().map_or(&[][..], Vec::as_slice),
                        |frame| tracker.update(black_box(frame)).len(),
                        BatchSize::SmallInput,
                    );
                });
            }
        }
        group.finish();
    }
}

fn lifecycle(criterion: &mut Criterion) {
    let frames = Scene::Street.frames(100);
    let mut tracker = Tracker::new(&config(TrackerKind::Iou, Association::Greedy));
    let mut lifecycle = TrackEventGenerator::new(Duration::from_millis(500));
    let mut events = Vec::new();
    let mut meta = FrameMeta {
        source: SourceId(0),
        seq: 0,
        pts: None,
        captured_at: SystemTime::UNIX_EPOCH,
        received_at: Instant::now(),
        source_size: Size::new(1920, 1080),
    };
    let mut next = frames.iter().cycle();
    criterion.bench_function("update and life cycle, street/greedy", |bencher| {
        bencher.iter(|| {
            meta.captured_at += Duration::from_millis(33);
            events.clear();
            let tracks = tracker.update(next.next().map_or(&[][..], Vec::as_slice));
            lifecycle.step(&meta, tracks, &mut events);
            events.len()
        });
    });
}

criterion_group!(benches, update, lifecycle);
criterion_main!(benches);
