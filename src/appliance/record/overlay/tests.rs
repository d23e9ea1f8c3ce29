// SPDX-License-Identifier: Apache-2.0
//! Overlay of frames: drawn tracks, colors and positions.

use proptest::prelude::*;

use super::*;
use jetwatch_config::{LineRule, Polygon, Segment, ZoneRule};
use jetwatch_types::Attributes;

fn track(id: u64, state: TrackState, class: u16, xyxy: Xyxy) -> Track {
    Track {
        id: TrackId(id),
        state,
        class,
        score: 0.87,
        top_score: 0.9,
        xyxy,
        age_frames: 3,
        hits: 3,
        lost_frames: 0,
        attributes: Attributes::default(),
    }
}

fn labels() -> Vec<String> {
    ["person", "car"].map(str::to_owned).to_vec()
}

/// A gray image with tracks drawn over it, as rows of blue, green and red.
fn image(overlay: &mut Overlay, source: Size, drawn_size: Size, tracks: &[Track]) -> Vec<[u8; 4]> {
    let stride = drawn_size.width as usize * 4;
    let mut bytes = vec![60; stride * drawn_size.height as usize];
    let mut canvas = Canvas::bgrx(drawn_size, &mut bytes, stride).expect("its own size");
    overlay.draw(&mut canvas, Viewport { source, drawn_size }, tracks);
    bytes.as_chunks().0.to_vec()
}

fn color_of(class: u16) -> [u8; 4] {
    let Color { red, green, blue } = Color::for_class(class);
    [blue, green, red, 255]
}

#[test]
fn boxes_have_the_color_of_their_class_at_the_scale_of_the_canvas() {
    let mut overlay = Overlay::new(&labels());
    let source = Size::new(400, 200);
    let tracks = [
        track(1, TrackState::Active, 1, [100.0, 80.0, 200.0, 160.0]),
        track(2, TrackState::Tentative, 0, [300.0, 80.0, 380.0, 160.0]),
    ];
    for drawn_size in [source, Size::new(800, 400), Size::new(200, 100)] {
        let pixels = image(&mut overlay, source, drawn_size, &tracks);
        let at = |x: f32, y: f32| {
            let (x, y) = (x * drawn_size.width as f32, y * drawn_size.height as f32);
            pixels[y as usize * drawn_size.width as usize + x as usize]
        };
        // On the left edge, on the lower edge, in the middle, on a track that is not drawn.
        assert_eq!(at(0.2505, 0.6), color_of(1), "{drawn_size}");
        assert_eq!(at(0.4, 0.798), color_of(1), "{drawn_size}");
        assert_eq!(at(0.375, 0.6), [60; 4], "{drawn_size}");
        assert_eq!(at(0.7505, 0.6), [60; 4], "{drawn_size}");
        // The label above it has letters in black.
        let letters = pixels.iter().filter(|pixel| **pixel == [0, 0, 0, 255]);
        assert!(letters.count() > 50, "{drawn_size}");
    }
}

#[test]
fn a_lost_track_is_fainter_and_has_no_label() {
    let mut overlay = Overlay::new(&labels());
    let size = Size::new(300, 200);
    let xyxy = [100.0, 80.0, 200.0, 160.0];
    let edge = |overlay: &mut Overlay, state| {
        image(overlay, size, size, &[track(1, state, 0, xyxy)])[120 * 300 + 100]
    };
    let active = edge(&mut overlay, TrackState::Active);
    let lost = edge(&mut overlay, TrackState::Lost);
    assert_eq!(active, color_of(0));
    for (lost, active) in lost.iter().zip(active) {
        assert!(
            lost.abs_diff(60) < active.abs_diff(60),
            "{lost} and {active}"
        );
    }
    let letters = |overlay: &mut Overlay, state| {
        let pixels = image(overlay, size, size, &[track(1, state, 0, xyxy)]);
        let is_letter = |pixel: &&[u8; 4]| **pixel == [0, 0, 0, 255];
        pixels.iter().filter(is_letter).count()
    };
    assert!(letters(&mut overlay, TrackState::Active) > 50);
    assert_eq!(letters(&mut overlay, TrackState::Lost), 0);
}

#[test]
fn a_track_draws_its_trajectory_until_it_ends() {
    let mut overlay = Overlay::new(&labels());
    let size = Size::new(300, 200);
    let at = |x: f32| track(1, TrackState::Active, 0, [x, 100.0, x + 20.0, 150.0]);
    for step in 0..60 {
        image(&mut overlay, size, size, &[at(4.0 * step as f32)]);
    }
    let pixels = image(&mut overlay, size, size, &[at(240.0)]);
    // 32 frames of 4 pixels behind the bottom center at 250.
    assert_eq!(pixels[150 * 300 + 200], color_of(0));
    assert_eq!(pixels[150 * 300 + 130], color_of(0));
    assert_eq!(pixels[150 * 300 + 110], [60; 4], "longer ago than that");
    let pixels = image(&mut overlay, size, size, &[]);
    // No track, no trajectory.
    assert!(pixels.iter().all(|pixel| *pixel == [60; 4]));
}

#[test]
fn zones_and_lines_are_drawn_with_their_names() {
    let rules = SceneRules {
        zones: vec![ZoneRule {
            name: "yard".to_owned(),
            area: Polygon::new(vec![[0.5, 0.5], [0.9, 0.5], [0.9, 0.9]]).expect("an area"),
            objects: Vec::new(),
            inertia_frames: 3,
            loitering: None,
            object_threshold: None,
            schedule: None,
        }],
        lines: vec![LineRule {
            name: "gate".to_owned(),
            line: Segment::new(&[[0.1, 0.2], [0.1, 0.8]]).expect("a line"),
            objects: Vec::new(),
            inertia_frames: 3,
            schedule: None,
        }],
        ..SceneRules::default()
    };
    let mut overlay = Overlay::new(&labels()).with_rules(&rules);
    let size = Size::new(200, 100);
    let pixels = image(&mut overlay, size, size, &[]);
    let rule_color = [RULES.blue, RULES.green, RULES.red, 255];
    for (x, y) in [(20, 60), (150, 50), (180, 70), (140, 70)] {
        assert_eq!(pixels[y * 200 + x], rule_color, "{x},{y}");
    }
    assert_eq!(pixels[65 * 200 + 160], [60; 4], "a zone is not filled");
}

proptest! {
    #[test]
    fn overlay_accepts_any_track(
        boxes in prop::collection::vec([any::<f32>(), any::<f32>(), any::<f32>(), any::<f32>()], 0..5),
        (class, score) in (any::<u16>(), any::<f32>()),
        (width, height) in (1..60_u32, 1..60_u32),
    ) {
        let mut overlay = Overlay::new(&labels());
        let mut tracks = Vec::new();
        for (id, xyxy) in (1_u64..).zip(boxes) {
            tracks.push(Track { score, ..track(id, TrackState::Active, class, xyxy) });
        }
        for _ in 0..3 {
            let pixels = image(&mut overlay, Size::new(0, 7), Size::new(width, height), &tracks);
            prop_assert_eq!(pixels.len(), (width * height) as usize);
        }
    }
}
