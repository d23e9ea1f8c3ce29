// SPDX-License-Identifier: Apache-2.0
//! Appearance in the association: two walkers, a red and a blue one, meet and turn back, so that each is where the other was expected.
//! The whole pipeline with the real ONNX Runtime: a tiny network that the test writes gives the mean color of a crop as its embedding.
//!
//! Those that run a network need `ORT_DYLIB_PATH`; without it they are skipped with a message.

use crate::support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use jetwatch_config::Config;
use jetwatch_pipeline::{Options, Pipeline};
use jetwatch_source::{Flow, FullImage, SessionEnd, Source, SourceContext, SourceError};
use jetwatch_types::{
    Frame, FrameMeta, GroundTruthBox, Image, PIXEL_BYTES, PixelAspect, Size, TrackState, Xyxy,
};
use serde_json::Value;
use support::classifier::write_model;
use support::daemon::{Setup, exits, json_lines};
use support::onnx_file::onnx_graph::{FLOAT, Graph};

const SIZE: Size = Size::new(640, 180);
const FRAMES: u64 = 26;
const MEETING: u64 = 12;

/// Pixels per frame, and the distance at the meeting: the other one is nearer to where each is expected.
const SPEED: f32 = 16.0;
const DISTANCE: f32 = 20.0;

/// Width and height of a walker, and how much lower the second one is.
const WALKER: [f32; 2] = [80.0, 100.0];
const LOWER: f32 = 10.0;

/// Blue, green, red.
const COLORS: [[u8; 3]; 2] = [[30, 30, 220], [220, 30, 30]];

/// Where the walkers are in a frame.
fn walkers(index: u64) -> [Xyxy; 2] {
    let from_meeting = index.abs_diff(MEETING) as f32 * SPEED + DISTANCE / 2.0;
    [-1.0, 1.0].map(|side: f32| {
        let center = 320.0 + side * from_meeting;
        let top = if side < 0.0 { 30.0 } else { 30.0 + LOWER };
        [
            center - WALKER[0] / 2.0,
            top,
            center + WALKER[0] / 2.0,
            top + WALKER[1],
        ]
    })
}

/// A frame of this size. Where the walkers overlap, both are seen, in stripes.
fn image(index: u64, size: Size) -> Image {
    let stride = size.width as usize * PIXEL_BYTES;
    let mut bytes = vec![100; stride * size.height as usize];
    let scale = [
        SIZE.width as f32 / size.width as f32,
        SIZE.height as f32 / size.height as f32,
    ];
    for (y, row) in bytes.chunks_exact_mut(stride).enumerate() {
        for (x, pixel) in row.chunks_exact_mut(PIXEL_BYTES).enumerate() {
            let at = [(x as f32 + 0.5) * scale[0], (y as f32 + 0.5) * scale[1]];
            let inside = walkers(index).map(|[left, top, right, bottom]| {
                (left..right).contains(&at[0]) && (top..bottom).contains(&at[1])
            });
            let shown = match inside {
                [true, true] => Some(y / 2 % 2),
                [true, false] => Some(0),
                [false, true] => Some(1),
                [false, false] => None,
            };
            if let Some(walker) = shown {
                pixel[..3].copy_from_slice(&COLORS[walker]);
            }
        }
    }
    Image::new(size, stride, Box::new(bytes)).expect("whole rows")
}

/// The walkers as a source, as fast as frames are taken.
struct Walkers;

impl Source for Walkers {
    fn run_once(
        &mut self,
        context: &SourceContext,
        first_frame: &dyn Fn(),
    ) -> Result<SessionEnd, SourceError> {
        first_frame();
        for index in 0..FRAMES {
            let truth = walkers(index).into_iter().zip(1..);
            let frame = Frame {
                meta: FrameMeta {
                    source: context.id,
                    seq: context.counters.next_seq(),
                    pts: None,
                    captured_at: SystemTime::now(),
                    received_at: Instant::now(),
                    source_size: SIZE,
                },
                crop: None,
                pixels: PixelAspect::default(),
                image: image(
                    index,
                    context.output_size(SIZE, None, PixelAspect::default()),
                ),
                full_image: (context.full_image != FullImage::None).then(|| image(index, SIZE)),
                truth: truth
                    .map(|(xyxy, id)| GroundTruthBox {
                        id,
                        label: "person",
                        xyxy,
                        visible: 1.0,
                    })
                    .collect(),
            };
            if context.handler.frame(frame) == Flow::Stop {
                return Ok(SessionEnd::Stopped);
            }
        }
        Ok(SessionEnd::EndOfMedia)
    }
}

/// The mean color of a crop less that of the background: `[B, 3]`, or `[1, 3]` for one crop at a time.
fn mean_color(batch: Option<i64>) -> Vec<u8> {
    let mut graph = Graph::default();
    graph.mean("images", &[2, 3]);
    graph.node("Add", &["mean", "background"], "vector", &[]);
    graph.constant("background", FLOAT, &[3], &[-100.0; 3], f32::to_le_bytes);
    graph.input("images", FLOAT, &[batch, Some(3), Some(16), Some(16)]);
    graph.output("vector", FLOAT, &[batch, Some(3)]);
    graph.bytes()
}

const KEYS: &str = "input: {name: images, width: 16, height: 16, color: rgb, letterbox: {value: 0, placement: stretch}}\n\
     output: {layout: embedding, name: vector}\n";

fn configuration(folder: &Path, tracker: &str, secondary: &str) -> String {
    format!(
        "device: test
sources: [{{name: cam, uri: 'synthetic://traffic?realtime=false'}}]
detector: {{backend: scripted, workers: 2, batch_size: 2}}
tracker: {{type: sort, max_lost_frames: 10, probation_frames: 2{tracker}}}
{secondary}publish:
  mqtt: off
  json_lines: {{path: {}}}
",
        folder.join("events.jsonl").display()
    )
}

fn networks(folder: &Path) -> String {
    format!(
        "secondary: [{{name: reid, model: {}, batch_size: 4, workers: 2}}]\n",
        folder.join("reid").display()
    )
}

/// Runs the walkers. Returns the ids of the two tracks (left first) in each frame that has two active ones, and the events.
fn run(tracker: &str, has_network: bool) -> (Vec<[u64; 2]>, Vec<Value>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_model(&folder.path().join("reid"), &mean_color(None), KEYS);
    let secondary = match has_network {
        true => networks(folder.path()),
        false => String::new(),
    };
    let text = configuration(folder.path(), tracker, &secondary);
    let config = Config::from_str("test.yaml", &text).expect("a good file");
    let ids = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ids);
    let options = Options {
        synthetic: Some(Arc::new(|_, _| Box::new(Walkers))),
        frame_callback: Some(Box::new(move |_, _, tracks| {
            let mut active: Vec<_> = tracks
                .iter()
                .filter(|track| track.state == TrackState::Active)
                .collect();
            active.sort_by(|a, b| a.xyxy[0].total_cmp(&b.xyxy[0]));
            if let [left, right] = active[..] {
                seen.lock().unwrap().push([left.id.0, right.id.0]);
            }
        })),
        ..Options::default()
    };
    let outcome = Pipeline::start(&config, options).expect("it starts").wait();
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    let events = json_lines(&folder.path().join("events.jsonl"));
    let ids = std::mem::take(&mut *ids.lock().unwrap());
    (ids, events)
}

#[test]
fn appearance_keeps_the_ids_of_walkers_who_turn_back() {
    needs_onnx_runtime!();
    let (without, _) = run("", false);
    let (with, _) = run(", appearance: reid", true);
    for ids in [&without, &with] {
        let found = ids.len() as u64;
        assert_eq!(found, FRAMES - 1, "one frame of probation: {ids:?}");
    }
    let (first, last) = (without[0], without[without.len() - 1]);
    let found = [last[1], last[0]];
    assert_eq!(found, first, "by their motion they have passed each other");
    assert!(with.iter().all(|ids| *ids == with[0]), "{with:?}");
}

#[test]
fn events_carry_embeddings_where_they_are_requested() {
    needs_onnx_runtime!();
    let events = |tracker: &str| {
        let (_, lines) = run(tracker, true);
        let events = lines.into_iter().filter(|line| line["kind"] == "event");
        events.collect::<Vec<Value>>()
    };
    let plain = events(", appearance: reid");
    assert!(!plain.is_empty());
    assert!(plain.iter().all(|event| event.get("embedding").is_none()));
    let mut vectors: BTreeMap<u64, Vec<Vec<f64>>> = BTreeMap::new();
    for event in events(", appearance: reid, output_embedding: true") {
        let Some(embedding) = event.get("embedding") else {
            assert_eq!(event["type"], "update");
            continue;
        };
        assert_ne!(event["type"], "update");
        let vector = embedding["vector"].as_array().expect("a list");
        let vector: Vec<f64> = vector.iter().filter_map(Value::as_f64).collect();
        let length: f64 = vector.iter().map(|value| value * value).sum();
        assert!(
            vector.len() == 3 && (length - 1.0).abs() < 1e-5,
            "{vector:?}"
        );
        let id = event["track_id"].as_u64().expect("a number");
        vectors.entry(id).or_default().push(vector);
    }
    // Both tracks, in their first and last events; the vectors of one agree, those of both do not.
    let cosine = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    assert_eq!(vectors.len(), 2, "{vectors:?}");
    let vectors: Vec<_> = vectors.into_values().collect();
    for of_track in &vectors {
        assert_eq!(of_track.len(), 2, "{vectors:?}");
        assert!(cosine(&of_track[0], &of_track[1]) > 0.8, "{vectors:?}");
    }
    assert!(cosine(&vectors[0][0], &vectors[1][0]) < 0.1, "{vectors:?}");
}

/// The message of a start that is refused.
fn refused(tracker: &str, secondary: &str, prepare: impl FnOnce(&Setup)) -> String {
    let setup = Setup::new(&configuration(Path::new("."), tracker, secondary));
    prepare(&setup);
    let output = exits(78, &mut setup.command("run"));
    output.err
}

#[test]
fn networks_that_do_not_fit_are_refused_at_the_start() {
    needs_onnx_runtime!();
    let network = "secondary: [{name: reid, model: reid}]\n";
    let embedding = |setup: &Setup| write_model(&setup.path("reid"), &mean_color(None), KEYS);
    let text = refused("", network, embedding);
    assert_has!(text => "secondary[0] (reid): tiny gives embeddings and no labels");
    let text = refused(", appearance: reid", network, |setup| {
        let keys = KEYS.replace("layout: embedding", "layout: logits");
        write_model(
            &setup.path("reid"),
            &mean_color(None),
            &format!("{keys}labels: [a, b, c]\n"),
        );
    });
    assert_has!(text => "tracker.appearance: the secondary network `reid` (tiny) gives no embeddings");
    let text = refused(", appearance: reid", network, |setup| {
        write_model(
            &setup.path("reid"),
            &mean_color(None),
            &format!("{KEYS}labels: [a]\n"),
        );
    });
    assert_has!(text => "no labels: the network gives a vector");
    let text = refused(
        ", appearance: reid",
        "secondary: [{name: reid, model: reid, batch_size: 4}]\n",
        |setup| write_model(&setup.path("reid"), &mean_color(Some(1)), KEYS),
    );
    assert_has!(text => "takes one crop at a time");
}
