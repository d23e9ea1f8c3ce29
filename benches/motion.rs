// SPDX-License-Identifier: Apache-2.0
//! The motion of the camera: the reduction of a frame to a gray image, and the estimate between two of them.
//!
//! ```text
//! make bench BENCH=motion
//! ```

use std::hint::black_box;
use std::time::{Instant, SystemTime};

use criterion::{Criterion, criterion_group, criterion_main};
use jetwatch_config::{Pacing, SyntheticScene};
use jetwatch_pixels::motion::{CameraMotion, GrayImage, GrayReducer};
use jetwatch_traffic::scene::Scene;
use jetwatch_types::{Frame, FrameMeta, Image, PIXEL_BYTES, PixelAspect, Size, SourceId, Xyxy};

/// Sizes of images: a source of 640×360 as it is, and scaled for two networks.
const SIZES: [Size; 3] = [
    Size::new(640, 360),
    Size::new(416, 234),
    Size::new(640, 384),
];

const SOURCE: Size = Size::new(640, 360);

/// Frames of a camera that shakes, with the boxes in each.
fn frames(size: Size) -> Vec<(Frame, Vec<Xyxy>)> {
    let mut scene = Scene::new(&SyntheticScene {
        seed: 21,
        objects: 8,
        width: SOURCE.width,
        height: SOURCE.height,
        fps: 30,
        frames: None,
        shake: 20,
        pacing: Pacing::Unlimited,
    });
    let stride = size.width as usize * PIXEL_BYTES;
    (0..16)
        .map(|index| {
            let mut pixels = vec![0; stride * size.height as usize];
            scene.draw(index, size, &mut pixels, stride);
            let frame = Frame {
                meta: FrameMeta {
                    source: SourceId(0),
                    seq: index,
                    pts: None,
                    captured_at: SystemTime::UNIX_EPOCH,
                    received_at: Instant::now(),
                    source_size: SOURCE,
                },
                crop: None,
                pixels: PixelAspect::default(),
                image: Image::new(size, stride, Box::new(pixels)).expect("whole rows"),
                full_image: None,
                truth: Vec::new(),
            };
            let boxes = scene.truth(index).into_iter().map(|object| object.xyxy);
            (frame, boxes.collect())
        })
        .collect()
}

fn motion(criterion: &mut Criterion) {
    for size in SIZES {
        let frames = frames(size);
        let mut reducer = GrayReducer::default();
        criterion.bench_function(&format!("reduce_{size}"), |bencher| {
            bencher.iter(|| black_box(reducer.reduce(black_box(&frames[0].0))));
        });
        let images: Vec<(GrayImage, &[Xyxy])> = frames
            .iter()
            .filter_map(|(frame, boxes)| Some((reducer.reduce(frame)?, boxes.as_slice())))
            .collect();
        let mut camera = CameraMotion::default();
        let mut index = 0;
        let mut known = 0;
        criterion.bench_function(&format!("estimate_{size}"), |bencher| {
            bencher.iter(|| {
                let (image, boxes) = &images[index % images.len()];
                known += usize::from(camera.estimate(image, *boxes).is_some());
                camera.set_objects(*boxes);
                index += 1;
            });
        });
        assert!(known > index / 2, "{known} of {index} motions are known");
    }
}

criterion_group!(benches, motion);
criterion_main!(benches);
