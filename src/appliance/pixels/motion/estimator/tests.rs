// SPDX-License-Identifier: Apache-2.0
//! Known motions of a camera, with noise, moving objects, and images without detail.

use super::*;
use crate::motion::scenes::View;
use jetwatch_types::Size;

/// Largest error of a corner of the image, in pixels of the source.
fn error(found: &Similarity, motion: &Similarity, size: Size) -> f64 {
    let (width, height) = (f64::from(size.width), f64::from(size.height));
    [[0.0, 0.0], [width, 0.0], [0.0, height], [width, height]]
        .map(|corner| {
            let (a, b) = (found.point(corner), motion.point(corner));
            (a[0] - b[0]).hypot(a[1] - b[1])
        })
        .into_iter()
        .fold(0.0, f64::max)
}

/// The estimate between two views with the boxes of the objects in each.
fn between(before: &View, after: &View) -> Option<Similarity> {
    let mut camera = CameraMotion::default();
    let boxes = |view: &View| {
        view.objects
            .iter()
            .map(|(xyxy, _)| *xyxy)
            .collect::<Vec<Xyxy>>()
    };
    assert_eq!(camera.estimate(&before.gray(), &boxes(before)), None);
    camera.set_objects(&boxes(before));
    camera.estimate(&after.gray(), &boxes(after))
}

fn motions() -> Vec<Similarity> {
    let center = [160.0, 90.0];
    vec![
        Similarity::shift(1.5, -0.75),
        Similarity::shift(9.0, 6.0),
        Similarity::shift(-41.0, 22.0),
        Similarity::about(center, 1.0, 0.03),
        Similarity::about(center, 1.0, -0.09),
        Similarity::about(center, 1.06, 0.0),
        Similarity::about(center, 0.93, 0.0),
        Similarity::about([20.0, 170.0], 1.03, 0.02).then(&Similarity::shift(-7.0, 5.0)),
    ]
}

#[test]
fn known_motions_are_measured_to_a_third_of_a_gray_pixel() {
    for motion in motions() {
        let still = View::of(Similarity::IDENTITY);
        let found = between(&still, &View::of(motion)).expect("the scene has detail");
        let error = error(&found, &motion, still.size);
        assert!(error < 0.7, "{motion:?}: {error} px, {found:?}");
    }
}

#[test]
fn noise_and_a_change_of_exposure_do_not_matter() {
    for motion in motions() {
        let mut before = View::of(Similarity::IDENTITY);
        let mut after = View::of(motion);
        before.noise = (12.0, 1);
        after.noise = (12.0, 2);
        after.exposure = (0.65, 45.0);
        let found = between(&before, &after).expect("the scene has detail");
        let error = error(&found, &motion, after.size);
        assert!(error < 1.2, "{motion:?}: {error} px, {found:?}");
    }
}

#[test]
fn a_still_camera_gives_exactly_no_motion() {
    let mut before = View::of(Similarity::IDENTITY);
    let mut after = View::of(Similarity::IDENTITY);
    before.noise = (4.0, 1);
    after.noise = (4.0, 2);
    assert_eq!(between(&before, &after), Some(Similarity::IDENTITY));
}

#[test]
fn objects_do_not_count_while_their_boxes_are_known() {
    let motion = Similarity::shift(6.0, -4.0);
    let mut before = View::of(Similarity::IDENTITY);
    let mut after = View::of(motion);
    // More than half of the image, and all of it moves as one.
    before.objects = vec![([60.0, 0.0, 250.0, 180.0], [0.0, 0.0])];
    after.objects = vec![([50.0, 0.0, 240.0, 180.0], [-10.0, 0.0])];
    let found = between(&before, &after).expect("the rest of the scene has detail");
    let with_boxes = error(&found, &motion, after.size);
    assert!(with_boxes < 1.0, "{with_boxes} px, {found:?}");
    let mut camera = CameraMotion::default();
    camera.estimate(&before.gray(), &[]);
    camera.set_objects(&[]);
    let without = camera.estimate(&after.gray(), &[]);
    let is_wrong = without.is_none_or(|found| error(&found, &motion, after.size) > 5.0);
    assert!(is_wrong, "the boxes make the difference: {without:?}");
}

#[test]
fn a_minority_of_unknown_objects_is_outvoted() {
    let motion = Similarity::about([160.0, 90.0], 1.02, 0.01).then(&Similarity::shift(4.0, 3.0));
    let before = View::of(Similarity::IDENTITY);
    let mut after = View::of(motion);
    after.objects = vec![
        ([10.0, 20.0, 120.0, 120.0], [-9.0, 0.0]),
        ([200.0, 80.0, 300.0, 170.0], [7.0, 7.0]),
    ];
    let mut first = before;
    first.objects = vec![
        ([19.0, 20.0, 129.0, 120.0], [0.0, 0.0]),
        ([193.0, 73.0, 293.0, 163.0], [0.0, 0.0]),
    ];
    let mut camera = CameraMotion::default();
    camera.estimate(&first.gray(), &[]);
    camera.set_objects(&[]);
    let found = camera
        .estimate(&after.gray(), &[])
        .expect("the rest has detail");
    let error = error(&found, &motion, after.size);
    assert!(error < 1.0, "{error} px, {found:?}");
}

#[test]
fn bars_of_the_video_do_not_hold_the_camera_still() {
    let motion = Similarity::shift(5.0, 2.0);
    let mut before = View::of(Similarity::IDENTITY);
    let mut after = View::of(motion);
    before.bars = 0.2;
    after.bars = 0.2;
    let found = between(&before, &after).expect("the scene has detail");
    let error = error(&found, &motion, after.size);
    assert!(error < 1.0, "{error} px, {found:?}");
}

#[test]
fn nothing_is_known_at_a_cut_in_fog_and_after_a_reset() {
    let here = View::of(Similarity::IDENTITY);
    let elsewhere = View::of(Similarity::shift(10_000.0, 7_000.0));
    assert_eq!(between(&here, &elsewhere), None, "a cut");
    let mut fog = View::of(Similarity::IDENTITY);
    fog.exposure = (0.0, 128.0);
    fog.noise = (3.0, 1);
    assert_eq!(between(&fog, &fog), None, "no detail");
    assert_eq!(between(&here, &fog), None);
    let mut covered = View::of(Similarity::IDENTITY);
    covered.objects = vec![([0.0, 0.0, 320.0, 180.0], [0.0, 0.0])];
    assert_eq!(between(&covered, &here), None, "an object covers all");
    let mut camera = CameraMotion::default();
    camera.estimate(&here.gray(), &[]);
    camera.set_objects(&[]);
    camera.reset();
    assert_eq!(camera.estimate(&here.gray(), &[]), None, "after a reset");
    camera.set_objects(&[]);
    assert!(camera.estimate(&here.gray(), &[]).is_some());
    let mut larger = View::of(Similarity::IDENTITY);
    larger.size = Size::new(400, 180);
    camera.set_objects(&[]);
    assert_eq!(camera.estimate(&larger.gray(), &[]), None, "another size");
}

#[test]
fn motion_is_in_pixels_of_the_source_whatever_the_image() {
    // The network's image is stretched: half of the width of the source, and a third of the height.
    let motion = Similarity::about([320.0, 270.0], 1.04, 0.0).then(&Similarity::shift(12.0, 18.0));
    let gray = |motion: Similarity| {
        let mut view = View::of(motion);
        view.size = Size::new(640, 540);
        let whole = view.frame();
        let mut frame = jetwatch_types::Frame::black(0, 0, Size::new(320, 180));
        frame.meta.source_size = view.size;
        let mut bytes = Vec::new();
        for y in 0..180 {
            for x in 0..320 {
                let mut sum = 0;
                for dy in 0..3 {
                    let row = whole.image.row(3 * y + dy);
                    sum += u32::from(row[8 * x as usize]) + u32::from(row[8 * x as usize + 4]);
                }
                bytes.extend([(sum / 6) as u8; 4]);
            }
        }
        frame.image = jetwatch_types::Image::new(Size::new(320, 180), 1280, Box::new(bytes))
            .expect("whole rows");
        crate::motion::GrayReducer::default()
            .reduce(&frame)
            .expect("large enough")
    };
    let mut camera = CameraMotion::default();
    camera.estimate(&gray(Similarity::IDENTITY), &[]);
    camera.set_objects(&[]);
    let found = camera
        .estimate(&gray(motion), &[])
        .expect("the scene has detail");
    let error = error(&found, &motion, Size::new(640, 540));
    assert!(error < 2.5, "{error} px, {found:?}");
}

#[test]
fn estimates_do_not_depend_on_earlier_frames() {
    let (one, other) = (
        View::of(Similarity::IDENTITY),
        View::of(Similarity::about([50.0, 50.0], 1.02, 0.03)),
    );
    let direct = between(&one, &other);
    let mut camera = CameraMotion::default();
    for view in [&View::of(Similarity::shift(900.0, 3.0)), &one, &one] {
        camera.estimate(&view.gray(), &[]);
        camera.set_objects(&[]);
    }
    assert_eq!(camera.estimate(&other.gray(), &[]), direct);
}
