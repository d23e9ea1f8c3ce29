// SPDX-License-Identifier: Apache-2.0
//! The synthetic scene: what a consumer may rely on about pixels, boxes and identities.

use std::collections::{BTreeMap, BTreeSet};

use jetwatch_config::{Pacing, SyntheticScene};
use jetwatch_traffic::scene::{Appearance, Scene};
use jetwatch_types::{GroundTruthBox, PIXEL_BYTES, Size, intersection_over_union};

const TARGET: Size = Size::new(208, 117);

fn parameters(seed: u64, objects: u32) -> SyntheticScene {
    SyntheticScene {
        seed,
        objects,
        width: 640,
        height: 360,
        fps: 30,
        frames: None,
        shake: 0,
        pacing: Pacing::Unlimited,
    }
}

fn drawn(scene: &mut Scene, frame: u64, target: Size) -> Vec<u8> {
    let stride = target.width as usize * PIXEL_BYTES;
    let mut pixels = vec![7; stride * target.height as usize];
    scene.draw(frame, target, &mut pixels, stride);
    pixels
}

#[test]
fn a_frame_depends_on_seed_and_number_only() {
    let mut walked = Scene::new(&parameters(3, 8));
    let mut truth = Vec::new();
    for frame in 0..100 {
        drawn(&mut walked, frame, TARGET);
        walked.truth_into(frame, &mut truth);
    }
    let mut jumped = Scene::new(&parameters(3, 8));
    assert_eq!(jumped.truth(100), walked.truth(100));
    let frame = drawn(&mut jumped, 100, TARGET);
    assert_eq!(frame, drawn(&mut walked, 100, TARGET));
    // Another size in between, and a later frame, have no effect.
    drawn(&mut jumped, 5000, Size::new(33, 71));
    assert_eq!(frame, drawn(&mut jumped, 100, TARGET));
    assert_ne!(frame, drawn(&mut jumped, 101, TARGET));
}

#[test]
fn appearance_varies_independently_of_traffic() {
    let look = Appearance::from_seed(4);
    let quiet = Appearance {
        noise: 0,
        ..look.clone()
    };
    let mut plain = Scene::with_appearance(&parameters(4, 6), quiet);
    let mut noisy = Scene::with_appearance(&parameters(4, 6), look.clone());
    assert_eq!(plain.truth(50), noisy.truth(50));
    let (a, b) = (drawn(&mut plain, 50, TARGET), drawn(&mut noisy, 50, TARGET));
    let largest = a
        .iter()
        .zip(&b)
        .map(|(a, b)| a.abs_diff(*b))
        .max()
        .unwrap_or(0);
    assert!(
        largest > 0 && largest <= look.noise + 1,
        "noise of {} changes pixels by up to {largest}",
        look.noise
    );
}

#[test]
fn boxes_stay_in_image_and_move_smoothly() {
    let (mut steps, mut smooth, mut cut) = (0, 0, 0);
    for seed in 1..=6 {
        let mut scene = Scene::new(&parameters(seed, 10));
        let mut before: Vec<GroundTruthBox> = scene.truth(0);
        let mut labels: BTreeMap<u32, &str> = BTreeMap::new();
        for frame in 1..600 {
            let now = scene.truth(frame);
            let ids: BTreeSet<u32> = now.iter().map(|truth| truth.id).collect();
            assert_eq!(
                ids.len(),
                now.len(),
                "seed {seed}, frame {frame}: an identity occurs twice"
            );
            for truth in &now {
                let [left, top, right, bottom] = truth.xyxy;
                assert!(
                    left >= 0.0
                        && top >= 0.0
                        && right <= 640.0
                        && bottom <= 360.0
                        && left < right
                        && top < bottom,
                    "{truth:?}"
                );
                assert!((0.0..=1.0).contains(&truth.visible), "{truth:?}");
                assert!(
                    ["person", "bicycle", "car", "motorcycle", "bus", "truck"]
                        .contains(&truth.label),
                    "{truth:?}"
                );
                // An identity keeps its class.
                assert_eq!(*labels.entry(truth.id).or_insert(truth.label), truth.label);
                if let Some(earlier) = before.iter().find(|earlier| earlier.id == truth.id) {
                    // At the image's edge a box can double from one frame to the next.
                    let [left, _, right, bottom] = earlier.xyxy;
                    if left <= 0.0 || right >= 640.0 || bottom >= 360.0 {
                        cut += 1;
                        continue;
                    }
                    steps += 1;
                    let overlap = intersection_over_union(&earlier.xyxy, &truth.xyxy);
                    smooth += u32::from(overlap >= 0.5);
                }
            }
            before = now;
        }
    }
    assert!(
        steps > 20_000 && cut < steps / 2,
        "{steps} steps, {cut} more at the edges"
    );
    assert!(
        f64::from(smooth) > 0.999 * f64::from(steps),
        "{smooth} of {steps} steps keep half of the box"
    );
}

#[test]
fn objects_come_and_go_in_the_configured_number() {
    for (seed, objects) in [(1, 8), (2, 8), (3, 20), (4, 20), (5, 50)] {
        let mut scene = Scene::new(&parameters(seed, objects));
        let (mut first, mut last) = (BTreeMap::new(), BTreeMap::new());
        let mut counts = 0;
        for frame in 0..600 {
            for truth in scene.truth(frame) {
                first.entry(truth.id).or_insert(frame);
                last.insert(truth.id, frame);
                // A rider counts with the two-wheeler: its identity follows.
                counts += u32::from(truth.id % 2 == 1);
            }
        }
        let mean = f64::from(counts) / 600.0;
        let wanted = f64::from(objects);
        assert!(
            (mean - wanted).abs() <= 0.25 * wanted + 1.0,
            "seed {seed}: {mean:.1} objects instead of {objects}"
        );
        let born = first.values().filter(|frame| **frame > 0).count();
        let gone = last.values().filter(|frame| **frame < 599).count();
        assert!(
            born >= 5 && gone >= 5,
            "seed {seed}: {born} came and {gone} went"
        );
        // Some stay for two seconds.
        assert!(first.iter().any(|(id, frame)| last[id] - frame > 60));
    }
}

#[test]
fn occluded_objects_have_lower_visibility() {
    let (mut hidden, mut free) = (0, 0);
    for seed in 1..=5 {
        let mut scene = Scene::new(&parameters(seed, 20));
        for frame in (0..600).step_by(15) {
            let truth = scene.truth(frame);
            for (i, object) in truth.iter().enumerate() {
                // Farthest first: only later ones can hide it.
                let covered = truth[i + 1..]
                    .iter()
                    .any(|nearer| intersection_over_union(&object.xyxy, &nearer.xyxy) > 0.0);
                hidden += u32::from(object.visible < 0.5);
                if !covered && object.visible > 0.97 {
                    free += 1;
                }
            }
            let nearest = truth.last().filter(|object| {
                object.xyxy[3] < 359.0 && object.xyxy[0] > 1.0 && object.xyxy[2] < 639.0
            });
            if let Some(nearest) = nearest {
                assert!(
                    nearest.visible > 0.3,
                    "seed {seed}, frame {frame}: only a prop can hide the nearest object: {nearest:?}"
                );
            }
        }
    }
    assert!(hidden > 50 && free > 200, "{hidden} hidden, {free} free");
}

#[test]
fn every_size_and_number_of_objects_is_drawn() {
    let sources = [
        (16, 16, 8),
        (641, 359, 8),
        (640, 360, 0),
        (640, 360, 200),
        (7680, 16, 3),
        (16, 4320, 3),
    ];
    for (width, height, objects) in sources {
        let mut scene = Scene::new(&SyntheticScene {
            width,
            height,
            ..parameters(9, objects)
        });
        for target in [
            Size::new(1, 1),
            Size::new(16, 16),
            Size::new(97, 61),
            Size::new(416, 234),
        ] {
            let stride = target.width as usize * PIXEL_BYTES + 12;
            let rows = target.height as usize;
            let mut pixels =
                vec![171; stride * (rows - 1) + target.width as usize * PIXEL_BYTES + 5];
            scene.draw(33, target, &mut pixels, stride);
            // Bytes behind the last row are left alone.
            assert!(pixels[pixels.len() - 5..].iter().all(|byte| *byte == 171));
            for (y, row) in pixels.chunks(stride).enumerate() {
                let (picture, gap) =
                    row.split_at((target.width as usize * PIXEL_BYTES).min(row.len()));
                // Bytes between rows are left alone.
                assert!(y == rows - 1 || gap.iter().all(|byte| *byte == 171));
                assert!(
                    picture
                        .chunks_exact(PIXEL_BYTES)
                        .all(|pixel| pixel[3] == 255),
                    "row {y} of {target} is drawn"
                );
            }
        }
        let truth = scene.truth(33);
        assert!(objects > 0 || truth.is_empty());
        assert!(
            objects < 200 || truth.len() > 120,
            "{} boxes of 200 objects",
            truth.len()
        );
    }
}

#[test]
fn an_empty_target_is_left_alone() {
    let mut scene = Scene::new(&parameters(1, 3));
    scene.draw(0, Size::new(0, 9), &mut [], 0);
    scene.draw(0, Size::new(9, 0), &mut [], 36);
}

#[test]
#[should_panic(expected = "cannot hold an image of 9×9")]
fn scene_rejects_too_small_buffer() {
    Scene::new(&parameters(1, 3)).draw(0, Size::new(9, 9), &mut [0; 9 * 9 * 4 - 1], 36);
}

#[test]
fn late_frames_have_same_precision_as_early_ones() {
    let mut scene = Scene::new(&parameters(2, 10));
    // A year at 30 frames per second.
    let frame = 30 * 3600 * 24 * 365;
    let (a, b) = (scene.truth(frame), scene.truth(frame + 1));
    assert!(a.len() >= 4, "{} boxes", a.len());
    let kept = a
        .iter()
        .filter(|a| {
            b.iter()
                .any(|b| a.id == b.id && intersection_over_union(&a.xyxy, &b.xyxy) > 0.5)
        })
        .count();
    assert!(kept + 2 >= a.len(), "{kept} of {} go on", a.len());
}
