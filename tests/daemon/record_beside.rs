//! `jetwatch run --record OUT --beside OTHER`: two models on the same frames, read back from the recorded video.
//!
//! Needs `ORT_DYLIB_PATH`; without it the test of two networks is skipped with a message.

use std::fs;
use std::path::Path;

use jetwatch_pixels::Color;
use jetwatch_types::Size;
use serde_json::Value;

use crate::record::{RecordedImage, decode_recording};
use crate::support::daemon::{Setup, finish, json_lines, stderr};
use crate::support::onnx_runtime::library_is_missing;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/street-nano");

const SIZE: Size = Size::new(640, 360);

/// Frames of the scene, which waits for the detectors.
const FRAMES: usize = 40;

/// A copy of street-nano under another name.
fn variant(folder: &Path) {
    fs::create_dir(folder).expect("a folder");
    for file in fs::read_dir(MODEL).expect("our model") {
        let file = file.expect("a file").path();
        let name = file.file_name().expect("a name");
        fs::copy(&file, folder.join(name)).expect("copied");
    }
    let yaml = folder.join("model.yaml");
    let text = fs::read_to_string(&yaml).expect("it is there");
    let text = text.replace("name: street-nano", "name: variant");
    fs::write(&yaml, text).expect("written");
}

fn config(model: &str, keys: &str) -> String {
    let uri = format!(
        "synthetic://traffic?seed=3&objects=8&width={}&height={}&fps=10&frames={FRAMES}&realtime=false",
        SIZE.width, SIZE.height
    );
    format!(
        "device: test\nsources: [{{name: cam, uri: \"{uri}\"}}]\ndetector: {{backend: onnx, model: {model}{keys}}}\n\
         publish: {{mqtt: off, detections: true, json_lines: {{path: events.jsonl}}}}\n"
    )
}

/// Published active tracks of each frame, by its number.
fn tracks(path: &Path) -> Vec<(usize, Vec<Value>)> {
    let lines = json_lines(path);
    let frames = lines.iter().filter(|line| line["kind"] == "detections");
    frames
        .enumerate()
        .map(|(at, line)| {
            let tracks = line["tracks"].as_array().expect("a list").iter();
            let active = tracks.filter(|track| track["state"] == "active");
            (at, active.cloned().collect())
        })
        .collect()
}

/// Share of the points on the left edges of these boxes that have the color of their class, in the half that begins at column
/// `offset`; and number of points. A line is two pixels wide and shares its chroma with a column beside it.
fn share_on_edges(
    images: &[RecordedImage],
    offset: usize,
    frames: &[(usize, Vec<Value>)],
    is_wanted: impl Fn(&Value) -> bool,
) -> (f64, usize) {
    let (mut right, mut all) = (0, 0);
    for (at, tracks) in frames {
        for track in tracks.iter().filter(|track| is_wanted(track)) {
            let edge = |side: usize| track["box"][side].as_f64().expect("a number");
            let (left, top, bottom) = (edge(0), edge(1), edge(3));
            // Below the caption, and not at the border of the half.
            if left < 2.0 || bottom - top < 16.0 || top < 24.0 {
                continue;
            }
            let labels = ["person", "vehicle", "two-wheeler"];
            let class = labels.iter().position(|label| track["label"] == *label);
            let color = Color::for_class(class.expect("a known label") as u16);
            let wanted = [color.red, color.green, color.blue];
            let middle = ((top + bottom) / 2.0) as usize;
            let column = offset + left.round() as usize;
            for y in middle - 4..middle + 4 {
                let is_near = |x: usize| {
                    let pixel = images[*at].pixel(x, y);
                    let mut pairs = pixel.iter().zip(wanted);
                    pairs.all(|(found, wanted)| found.abs_diff(wanted) < 100)
                };
                all += 1;
                right += usize::from((column - 1..=column + 2).any(is_near));
            }
        }
    }
    (right as f64 / all.max(1) as f64, all)
}

#[test]
fn each_half_of_a_recording_shows_the_boxes_of_its_own_model() {
    if library_is_missing() {
        return;
    }
    // The second one sees people only.
    let second = Setup::new(&config("variant", ", precision: fp32, classes: [person]"));
    variant(&second.path("variant"));
    let output = finish(&mut second.command("run"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let people = tracks(&second.path("events.jsonl"));

    let first = Setup::new(&config(MODEL, ", precision: int8_cpu"));
    let video = first.path("both.mkv");
    let output = finish(
        first
            .command("run")
            .arg("--record")
            .arg(&video)
            .arg("--beside")
            .arg(&second.config),
    );
    let log = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{log}");
    let everything = tracks(&first.path("events.jsonl"));
    assert_has!(log => "frames/s of detector time: street-nano int8_cpu ", ", variant fp32 ");

    let (_, images) = decode_recording(&video);
    assert_eq!(images.len(), FRAMES, "no frame of the scene is left out");
    let width = SIZE.width as usize;
    let twice = Size::new(SIZE.width * 2, SIZE.height);
    assert!(images.iter().all(|image| image.size == twice));
    assert_eq!([everything.len(), people.len()], [FRAMES; 2]);

    let vehicle = |track: &Value| track["label"] == "vehicle";
    let (left, points) = share_on_edges(&images, 0, &everything, vehicle);
    assert!(left > 0.8 && points > 100, "{left:.2} of {points}");
    let (right, _) = share_on_edges(&images, width, &everything, vehicle);
    assert!(
        right < 0.3,
        "the second model draws no vehicles: {right:.2}"
    );
    let (right, points) = share_on_edges(&images, width, &people, |_| true);
    assert!(right > 0.8 && points > 100, "{right:.2} of {points}");

    // Both halves show the same frame: without boxes they are equal.
    for image in images.iter().step_by(5) {
        let above = (20..100).step_by(8);
        let points = above.flat_map(|y| (0..width).step_by(8).map(move |x| (x, y)));
        let differs = |(x, y): &(usize, usize)| {
            let (left, right) = (image.pixel(*x, *y), image.pixel(width + *x, *y));
            left.iter().zip(right).any(|(a, b)| a.abs_diff(b) > 40)
        };
        assert_eq!(points.filter(differs).count(), 0);
    }

    // Captions: white letters on black, in the corner of each half; different models, different letters.
    let caption = |offset: usize| -> Vec<bool> {
        let last = images.last().expect("images");
        let points = (0..9).flat_map(|y| (0..140).map(move |x| (offset + x, y)));
        points.map(|(x, y)| last.pixel(x, y)[1] > 128).collect()
    };
    let [left, right] = [0, width].map(caption);
    for letters in [&left, &right] {
        let lit = letters.iter().filter(|is| **is).count();
        assert!((100..700).contains(&lit), "{lit} bright points");
    }
    assert_ne!(left, right);
}

#[test]
fn beside_needs_a_recording_and_one_source() {
    let yaml = |sources: &str| {
        format!(
            "sources: [{sources}]\ndetector: {{backend: scripted}}\npublish: {{mqtt: off, json_lines: {{path: lines.jsonl}}}}\n"
        )
    };
    let one = "{name: a, uri: \"synthetic://traffic?frames=3\"}";
    let setup = Setup::new(&yaml(one));
    let other = setup.path("other.yaml");
    fs::write(
        &other,
        yaml(&format!("{one}, {}", one.replace("name: a", "name: b"))),
    )
    .expect("written");
    let output = finish(setup.command("run").arg("--beside").arg(&other));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert_has!(stderr(&output) => "--record <FILE>");
    let video = setup.path("out.mkv");
    let output = finish(
        setup
            .command("run")
            .arg("--record")
            .arg(&video)
            .arg("--beside")
            .arg(&other),
    );
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("--beside: found 2 sources in") && !video.exists(),
        "{}",
        stderr(&output)
    );
}
