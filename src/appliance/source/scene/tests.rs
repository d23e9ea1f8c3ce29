//! Tests of internals of the scene: single actors, without shadows, props and noise.

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
        pacing: Pacing::Unlimited,
    }
}

/// A color that nothing in the scene has.
const MAGENTA: [u8; 4] = [255, 0, 255, 255];

/// The box around the pixels that one actor changes on a plain ground by more than noise would, edges exclusive.
fn drawn_extent(scene: &mut Scene, actor: &SceneObject) -> Option<[f32; 4]> {
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
            appearance: &scene.look,
            pose: actor.pose,
        },
        actor,
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
            for actor in scene.objects.clone() {
                scene.census.clear();
                scene.census.begin();
                draw_object(
                    &mut Projector {
                        canvas: &mut scene.census,
                        camera: &scene.camera,
                        appearance: &scene.look,
                        pose: actor.pose,
                    },
                    &actor,
                );
                let entries = scene.census.finish().to_vec();
                let boxes = entries.iter().enumerate().filter_map(|(part, entry)| {
                    truth_box(&actor, part, entry, &scene.camera, scene.size)
                });
                let union = boxes.map(|truth| truth.xyxy).reduce(|a, b| {
                    [
                        a[0].min(b[0]),
                        a[1].min(b[1]),
                        a[2].max(b[2]),
                        a[3].max(b[3]),
                    ]
                });
                let drawn = drawn_extent(&mut scene, &actor);
                let Some(union) = union else {
                    assert!(
                        drawn.is_none_or(|d| d[2] - d[0] < 3.0 || d[3] - d[1] < 3.0),
                        "seed {seed}, frame {frame}: {actor:?} is drawn at {drawn:?} without a box"
                    );
                    continue;
                };
                let drawn = drawn.unwrap_or_else(|| {
                    panic!("seed {seed}, frame {frame}: nothing is drawn of {actor:?} in {union:?}")
                });
                // An edge that grazes the picture's side fades there over several pixels.
                let cut =
                    union[0] <= 0.0 || union[1] <= 0.0 || union[2] >= 640.0 || union[3] >= 360.0;
                let tolerance = if cut { 3.0 } else { 1.0 };
                for (wanted, found) in union.iter().zip(drawn) {
                    assert!(
                        (wanted - found).abs() <= tolerance,
                        "seed {seed}, frame {frame}: {:?} has the box {union:?} and is drawn at {drawn:?}",
                        actor.kind
                    );
                }
                if !kinds.contains(&actor.kind) {
                    kinds.push(actor.kind);
                }
            }
        }
    }
    assert_eq!(kinds.len(), 7, "every species was measured: {kinds:?}");
}

#[test]
fn boxes_fit_at_other_target_sizes_too() {
    let mut scene = Scene::new(&parameters(2, 12, 640, 360));
    scene.place_objects(77);
    let actors = scene.objects.clone();
    let truth = scene.truth(77);
    // The same scene drawn at another shape: boxes scale with it.
    scene.size = Size::new(300, 300);
    let (kx, ky) = (300.0 / 640.0, 300.0 / 360.0);
    let mut checked = 0;
    for actor in actors
        .iter()
        .filter(|actor| !matches!(actor.kind, ObjectKind::Bicycle | ObjectKind::Motorcycle))
    {
        let (Some(truth), Some(drawn)) = (
            truth.iter().find(|truth| truth.id == actor.id),
            drawn_extent(&mut scene, actor),
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
                actor.kind
            );
        }
        checked += 1;
    }
    assert!(checked > 3, "{checked} boxes were checked");
}
