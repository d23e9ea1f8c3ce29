// SPDX-License-Identifier: Apache-2.0
//! Tests of internals of the scene: single objects, without shadows, props and noise.

use super::*;
use jetwatch_config::Pacing;

fn parameters(seed: u64, objects: u32, width: u32, height: u32) -> SyntheticScene {
    SyntheticScene {
        seed,
        objects,
        width,
        height,
        fps: 30,
        frames: None,
        shake: 0,
        pacing: Pacing::Unlimited,
    }
}

/// A color that nothing in the scene has.
const MAGENTA: [u8; 4] = [255, 0, 255, 255];

/// The box around the pixels that one object changes on a plain background by more than 5 levels, edges exclusive.
fn drawn_extent(scene: &mut Scene, object: &SceneObject) -> Option<[f32; 4]> {
    let (columns, rows) = (scene.size.width as usize, scene.size.height as usize);
    let mut pixels: Vec<u8> = MAGENTA.repeat(columns * rows);
    let aspect = scene.camera.aspect;
    let mut raster = Raster::new(
        &mut pixels,
        columns * PIXEL_BYTES,
        scene.size,
        aspect,
        &mut scene.scratch,
    );
    draw_object(
        &mut Projector {
            canvas: &mut raster,
            camera: &scene.camera,
            appearance: &scene.appearance,
            pose: object.pose,
        },
        object,
    );
    let changed = pixels
        .chunks_exact(PIXEL_BYTES)
        .enumerate()
        .filter(|(_, pixel)| pixel.iter().zip(MAGENTA).any(|(a, b)| a.abs_diff(b) > 5));
    changed.fold(None, |extent: Option<[f32; 4]>, (index, _)| {
        let (x, y) = ((index % columns) as f32, (index / columns) as f32);
        let [left, top, right, bottom] = extent.unwrap_or([x, y, x + 1.0, y + 1.0]);
        Some([
            left.min(x),
            top.min(y),
            right.max(x + 1.0),
            bottom.max(y + 1.0),
        ])
    })
}

#[test]
fn boxes_are_the_drawn_extent_within_a_pixel() {
    let mut kinds = Vec::new();
    for seed in 1..=12 {
        let mut scene = Scene::new(&parameters(seed, 24, 640, 360));
        for frame in (0..900).step_by(180) {
            scene.place_objects(frame);
            for object in scene.objects.clone() {
                scene.visibility.clear();
                scene.visibility.begin();
                draw_object(
                    &mut Projector {
                        canvas: &mut scene.visibility,
                        camera: &scene.camera,
                        appearance: &scene.appearance,
                        pose: object.pose,
                    },
                    &object,
                );
                let entries = scene.visibility.finish().to_vec();
                let boxes = entries.iter().enumerate().filter_map(|(part, entry)| {
                    truth_box(&object, part, entry, &scene.camera, scene.size)
                });
                let union = boxes.map(|truth| truth.xyxy).reduce(|a, b| {
                    [
                        a[0].min(b[0]),
                        a[1].min(b[1]),
                        a[2].max(b[2]),
                        a[3].max(b[3]),
                    ]
                });
                let drawn = drawn_extent(&mut scene, &object);
                let Some(union) = union else {
                    assert!(
                        drawn.is_none_or(|d| d[2] - d[0] < 3.0 || d[3] - d[1] < 3.0),
                        "seed {seed}, frame {frame}: {object:?} is drawn at {drawn:?} without a box"
                    );
                    continue;
                };
                let drawn = drawn.unwrap_or_else(|| {
                    panic!(
                        "seed {seed}, frame {frame}: nothing is drawn of {object:?} in {union:?}"
                    )
                });
                // An edge close to the border of the image fades there over several pixels.
                let cut =
                    union[0] <= 0.0 || union[1] <= 0.0 || union[2] >= 640.0 || union[3] >= 360.0;
                let tolerance = if cut { 3.0 } else { 1.0 };
                for (wanted, found) in union.iter().zip(drawn) {
                    assert!(
                        (wanted - found).abs() <= tolerance,
                        "seed {seed}, frame {frame}: {:?} has the box {union:?} and is drawn at {drawn:?}",
                        object.kind
                    );
                }
                if !kinds.contains(&object.kind) {
                    kinds.push(object.kind);
                }
            }
        }
    }
    assert_eq!(kinds.len(), 7, "every kind was measured: {kinds:?}");
}

#[test]
fn boxes_fit_at_other_target_sizes_too() {
    let mut scene = Scene::new(&parameters(2, 12, 640, 360));
    scene.place_objects(77);
    let objects = scene.objects.clone();
    let truth = scene.truth(77);
    // The same scene drawn with another aspect ratio: boxes scale with it.
    scene.size = Size::new(300, 300);
    let (kx, ky) = (300.0 / 640.0, 300.0 / 360.0);
    let mut checked = 0;
    for object in objects
        .iter()
        .filter(|object| !matches!(object.kind, ObjectKind::Bicycle | ObjectKind::Motorcycle))
    {
        let (Some(truth), Some(drawn)) = (
            truth.iter().find(|truth| truth.id == object.id),
            drawn_extent(&mut scene, object),
        ) else {
            continue;
        };
        let scaled = [
            truth.xyxy[0] * kx,
            truth.xyxy[1] * ky,
            truth.xyxy[2] * kx,
            truth.xyxy[3] * ky,
        ];
        for (wanted, found) in scaled.iter().zip(drawn) {
            assert!(
                (wanted - found).abs() <= 1.0,
                "{:?}: {scaled:?} and {drawn:?}",
                object.kind
            );
        }
        checked += 1;
    }
    assert!(checked > 3, "{checked} boxes were checked");
}
