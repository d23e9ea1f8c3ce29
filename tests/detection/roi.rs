// SPDX-License-Identifier: Apache-2.0
//! Region of interest: the crop before scaling, and boxes in coordinates of the whole image.

use crate::support;

use jetwatch_config::{Config, SourceConfig, SourceUri};
use jetwatch_pixels::Canvas;
use jetwatch_record::{Overlay, Viewport};
use jetwatch_source::StepKind;
use jetwatch_types::{Region, Size};
use serde_json::Value;
use support::collector::{Collector, INPUT, config};
use support::daemon::{Setup, exits};

const FRAMES: usize = 60;

/// The region of all these tests, in pixels of 640×360.
const PART: [f64; 4] = [160.0, 90.0, 480.0, 270.0];

/// Boxes of each frame of a drawn scene, by the names of their classes.
fn boxes(keys: &str) -> Vec<Vec<(String, [f64; 4])>> {
    let setup = Setup::new(&format!(
        "device: test
sources:
  - name: cam
    uri: synthetic://traffic?seed=5&objects=12&width=640&height=360&fps=30&frames={FRAMES}&realtime=false
{keys}detector:
  backend: scripted
tracker: {{type: iou, probation_frames: 1}}
publish:
  mqtt: off
  detections: true
  json_lines: {{path: events.jsonl}}
"
    ));
    exits(0, &mut setup.command("run"));
    let of_frame = |frame: &Value| {
        let tracks = frame["tracks"].as_array().expect("a list").iter();
        let seen = tracks.filter(|track| track["state"] == "active");
        let found = seen.map(|track| {
            let edge = |index: usize| track["box"][index].as_f64().expect("a number");
            let label = track["label"].as_str().expect("a name").to_owned();
            (label, std::array::from_fn(edge))
        });
        found.collect()
    };
    setup.lines_of("detections").iter().map(of_frame).collect()
}

#[test]
fn roi_boxes_are_in_full_image_coordinates() {
    let whole = boxes("");
    let part = boxes("    roi: 0.25,0.25,0.5,0.5\n");
    assert_eq!((whole.len(), part.len()), (FRAMES, FRAMES));
    let [left, top, right, bottom] = PART;
    let mut agreed = 0;
    for (whole, part) in whole.iter().zip(&part) {
        for (label, found) in part {
            let is_inside = found[0] >= left - 0.01
                && found[1] >= top - 0.01
                && found[2] <= right + 0.01
                && found[3] <= bottom + 0.01;
            assert!(is_inside, "{label} at {found:?} is outside of the part");
        }
        let inside = whole.iter().filter(|(_, found)| {
            found[0] > left && found[1] > top && found[2] < right && found[3] < bottom
        });
        for (label, wanted) in inside {
            let is_same = |found: &[f64; 4]| {
                let pairs = found.iter().zip(wanted);
                pairs.into_iter().all(|(a, b)| (a - b).abs() <= 1.0)
            };
            let found = part
                .iter()
                .any(|(other, found)| other == label && is_same(found));
            assert!(found, "{label} at {wanted:?} is not in {part:?}");
            agreed += 1;
        }
    }
    assert!(agreed > FRAMES, "{agreed} boxes were inside");
}

/// The brightness of the network's images of a region of color bars, and the processing plan.
fn color_bars(roi: Option<Region>) -> (Size, Size, f32, Vec<(StepKind, String)>) {
    let elements = "videotestsrc num-buffers=10 pattern=smpte75 ! video/x-raw,format=I420,width=700,height=300,framerate=30/1 ! identity";
    let source = SourceConfig {
        roi,
        ..config(SourceUri::Launch(elements.to_owned()))
    };
    let collector = Collector::start(&source, 5);
    let plans = std::sync::Arc::clone(&collector.plans);
    let (seen, result) = collector.join();
    result.expect("it runs");
    let plan = plans.lock().expect("whole").last().cloned();
    let steps = plan.expect("a plan").steps.into_iter();
    let steps = steps.map(|step| (step.kind, step.detail)).collect();
    (seen[0].meta.source_size, seen[0].image, seen[0].mean, steps)
}

#[test]
fn gstreamer_crops_roi_before_scaling() {
    let part = |left: f32| {
        Some(Region {
            left,
            top: 0.0,
            width: 0.125,
            height: 0.5,
        })
    };
    // Seven bars, the first of them gray, the last blue: three colors to one.
    let (source, picture, gray, steps) = color_bars(part(0.0));
    assert_eq!(source, Size::new(700, 300), "boxes refer to all of it");
    // 88×150 pixels, as large as fits into the input.
    assert_eq!(picture, Size::new(244, INPUT.height));
    assert!((180.0..200.0).contains(&gray), "{gray}");
    let (_, _, blue, _) = color_bars(part(0.875));
    assert!((55.0..75.0).contains(&blue), "{blue}");
    let cut = steps.iter().find(|(work, _)| *work == StepKind::Crop);
    let found = cut.map(|(_, detail)| detail.as_str());
    assert_eq!(found, Some("700×300 I420 to 88×150 I420"), "{steps:?}");
    let all = Region {
        left: 0.0,
        top: 0.0,
        width: 1.0,
        height: 1.0,
    };
    for roi in [None, Some(all)] {
        let (_, picture, _, steps) = color_bars(roi);
        assert_eq!(picture.width, INPUT.width);
        assert!(
            steps.iter().all(|(work, _)| *work != StepKind::Crop),
            "{steps:?}"
        );
    }
}

#[test]
fn roi_mistakes_are_reported_with_key() {
    let text = "sources:\n  - name: a\n    uri: synthetic://traffic\n    roi: 0.5,0,0.6,1\ndetector:\n  backend: scripted\n";
    let error = Config::from_str("f.yaml", text).expect_err("a mistake");
    assert_has!(error.to_string() => "f.yaml:4: sources[0].roi: left and width are 1.1");
}

#[test]
fn roi_border_is_drawn_on_full_images() {
    let (size, stride) = (Size::new(640, 360), 640 * 4);
    let mut pixels = vec![0; stride * 360];
    let roi = Region {
        left: 0.25,
        top: 0.25,
        width: 0.5,
        height: 0.5,
    };
    let mut canvas = Canvas::bgrx(size, &mut pixels, stride).expect("large enough");
    let viewport = Viewport {
        source: size,
        drawn_size: size,
    };
    Overlay::new(&[])
        .with_roi(Some(roi))
        .draw(&mut canvas, viewport, &[]);
    let is_drawn = |x: usize, y: usize| pixels[y * stride + x * 4..][..3] != [0, 0, 0];
    let near = |x: usize, y: usize| {
        let mut around = (y - 2..=y + 2).flat_map(|y| (x - 2..=x + 2).map(move |x| (x, y)));
        around.any(|(x, y)| is_drawn(x, y))
    };
    for (x, y) in [
        (160, 180),
        (480, 180),
        (320, 90),
        (320, 270),
        (160, 90),
        (480, 270),
    ] {
        assert!(near(x, y), "the border is not at {x},{y}");
    }
    for (x, y) in [(320, 180), (80, 180), (320, 40), (600, 300)] {
        assert!(!near(x, y), "something is at {x},{y}");
    }
}

#[test]
fn source_with_roi_is_recorded_at_full_size() {
    let setup = Setup::new(
        "device: test
sources:
  - name: cam
    uri: synthetic://traffic?seed=5&objects=0&width=640&height=360&fps=30&frames=40
    roi: 0.25,0.25,0.5,0.5
detector:
  backend: scripted
publish:
  mqtt: off
",
    );
    let mut command = setup.command("run");
    command.arg("--record").arg(setup.path("out.mp4"));
    exits(0, command.arg("--stats").arg(setup.path("stats.json")));
    let stats = setup.json("stats.json");
    // A full image with a crop would be dropped.
    assert!(stats["recording"]["frames"].as_u64() > Some(0), "{stats}");
}
