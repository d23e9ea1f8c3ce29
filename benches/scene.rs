// SPDX-License-Identifier: Apache-2.0
//! The synthetic scene, per frame: drawing at a network's inner size, and the ground truth.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use jetwatch_config::{Pacing, SyntheticScene};
use jetwatch_traffic::scene::Scene;
use jetwatch_types::{PIXEL_BYTES, Size};

fn scene(seed: u64, objects: u32) -> Scene {
    Scene::new(&SyntheticScene {
        seed,
        objects,
        width: 640,
        height: 360,
        fps: 30,
        frames: None,
        shake: 0,
        pacing: Pacing::Unlimited,
    })
}

fn draw(criterion: &mut Criterion) {
    let target = Size::new(416, 234);
    let stride = target.width as usize * PIXEL_BYTES;
    let mut pixels = vec![0; stride * target.height as usize];
    // One seed for each layout of the street: across, oblique, avenue. Frames are spread over half a minute.
    for (layout, seed) in [("across", 1), ("oblique", 2), ("avenue", 3)] {
        let mut scene = scene(seed, 8);
        let mut frame = 0;
        criterion.bench_function(&format!("draw 416x234, 8 objects, {layout}"), |bencher| {
            bencher.iter(|| {
                frame = (frame + 7) % 900;
                scene.draw(black_box(frame), target, &mut pixels, stride);
            });
        });
    }
}

fn truth(criterion: &mut Criterion) {
    for objects in [8, 50] {
        let mut scene = scene(1, objects);
        let mut boxes = Vec::new();
        let mut frame = 0;
        criterion.bench_function(&format!("truth 640x360, {objects} objects"), |bencher| {
            bencher.iter(|| {
                frame = (frame + 7) % 900;
                scene.truth_into(black_box(frame), &mut boxes);
            });
        });
    }
}

criterion_group!(benches, draw, truth);
criterion_main!(benches);
