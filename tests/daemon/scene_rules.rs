// SPDX-License-Identifier: Apache-2.0
//! Analytics from the configuration to the messages: the real binary on a scene with ground truth.
//!
//! Its counts are compared with those that this file computes from the ground truth.

use crate::support;

use std::collections::BTreeMap;

use jetwatch_config::{Pacing, SyntheticScene};
use jetwatch_traffic::scene::Scene;
use serde_json::Value;
use support::daemon::{Setup, exits, of_kind};

const FRAMES: u64 = 600;
const INERTIA: usize = 3;

/// The middle third of the image, and a line down its middle.
const ZONE: (f32, f32) = (0.3, 0.7);
const LINE: f32 = 0.5;

fn config(seed: u64) -> String {
    format!(
        "device: test
sources:
  - name: cam
    uri: synthetic://traffic?seed={seed}&objects=5&width=320&height=180&fps=30&frames={FRAMES}&realtime=false
    zones:
      - name: middle
        coordinates: 0.3,0,0.7,0,0.7,1,0.3,1
        inertia_frames: {INERTIA}
        object_threshold: 2
    lines:
      - name: gate
        coordinates: 0.5,0,0.5,1
        inertia_frames: {INERTIA}
detector:
  backend: scripted
tracker:
  probation_frames: 1
publish:
  mqtt: off
  json_lines: {{path: events.jsonl}}
"
    )
}

/// Number of events by kind and label.
type Counts = BTreeMap<(String, String), u64>;

/// A boolean that changes after enough consecutive frames.
#[derive(Default)]
struct Debounced {
    holds: bool,
    opposed: usize,
}

impl Debounced {
    fn observe(&mut self, now: bool) -> Option<bool> {
        self.opposed = if now == self.holds {
            0
        } else {
            self.opposed + 1
        };
        (self.opposed == INERTIA).then(|| {
            (self.holds, self.opposed) = (now, 0);
            now
        })
    }
}

/// Label and trajectory of each object.
fn trajectories(seed: u64) -> BTreeMap<u32, (String, Vec<f32>)> {
    let mut scene = Scene::new(&SyntheticScene {
        seed,
        objects: 5,
        width: 320,
        height: 180,
        fps: 30,
        frames: Some(FRAMES),
        shake: 0,
        pacing: Pacing::Unlimited,
    });
    let mut ways: BTreeMap<u32, (String, Vec<f32>)> = BTreeMap::new();
    for frame in 0..FRAMES {
        for object in scene.truth(frame) {
            let x = (object.xyxy[0] + object.xyxy[2]) / 2.0 / 320.0;
            let way = ways.entry(object.id);
            way.or_insert_with(|| (object.label.to_owned(), Vec::new()))
                .1
                .push(x);
        }
    }
    ways
}

/// The expected events, computed from the ground truth: the trajectory of each object.
fn truth(seed: u64) -> Counts {
    let mut counts = Counts::new();
    for (label, way) in trajectories(seed).values() {
        let mut count = |what: &str| {
            *counts.entry((what.to_owned(), label.clone())).or_default() += 1;
        };
        let mut inside = Debounced::default();
        // The line goes down, so that its left is the image's right.
        let mut on_left = Debounced {
            holds: way[0] > LINE,
            opposed: 0,
        };
        for &x in way {
            match inside.observe(ZONE.0 < x && x < ZONE.1) {
                Some(true) => count("zone_entered"),
                Some(false) => count("zone_left"),
                None => {}
            }
            match on_left.observe(x > LINE) {
                Some(true) => count("left"),
                Some(false) => count("right"),
                None => {}
            }
        }
        if inside.holds {
            count("zone_left");
        }
    }
    counts
}

/// Durations of the visits to the zone by the ground truth, in milliseconds, in order.
fn visit_durations(seed: u64) -> Vec<u64> {
    let mut stays = Vec::new();
    for (_, way) in trajectories(seed).values() {
        let mut inside = Debounced::default();
        let (mut first, mut last) = (None, 0);
        for (index, &x) in way.iter().enumerate() {
            let is_in = ZONE.0 < x && x < ZONE.1;
            if is_in {
                first.get_or_insert(index);
                last = index;
            }
            let change = inside.observe(is_in);
            if change == Some(false) {
                stays.push((first, last));
            }
            if !is_in && !inside.holds {
                first = None;
            }
        }
        if inside.holds {
            stays.push((first, last));
        }
    }
    let ms = |(first, last): (Option<usize>, usize)| {
        let frames = last - first.expect("it began");
        frames as u64 * 1000 / 30
    };
    let mut stays: Vec<u64> = stays.into_iter().map(ms).collect();
    stays.sort_unstable();
    stays
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[test]
fn counts_and_analytics_events_match_ground_truth() {
    // A scene in which no person is hidden so long that the tracker creates a new track.
    let seed = 3;
    let setup = Setup::new(&config(seed));
    exits(0, &mut setup.command("run"));
    let lines = setup.lines();

    let facts = of_kind(&lines, "analytics");
    let mut published = Counts::new();
    for fact in &facts {
        let what = match text(&fact["type"]).as_str() {
            "line_crossed" => text(&fact["to"]),
            "overcrowding" | "overcrowding_over" => continue,
            other => other.to_owned(),
        };
        *published.entry((what, text(&fact["label"]))).or_default() += 1;
    }
    let wanted = truth(seed);
    assert_eq!(published, wanted, "seed {seed}");
    assert!(
        wanted.values().sum::<u64>() > 10,
        "little happens: {wanted:?}"
    );

    // The last message of the line is the sum of its events.
    let gate = *of_kind(&lines, "line")
        .last()
        .expect("the line is published");
    for crossings in gate["crossings"].as_array().expect("a list") {
        let label = text(&crossings["label"]);
        for (key, side) in [("to_left", "left"), ("to_right", "right")] {
            let wanted = wanted.get(&(side.to_owned(), label.clone()));
            let published = crossings[key].as_u64().expect("a number");
            assert_eq!(published, *wanted.unwrap_or(&0), "{label} to the {side}");
        }
    }

    // Zones are published as empty at the start and at the end.
    let zones = of_kind(&lines, "zone");
    let ends = [zones.first(), zones.last()].map(|zone| &zone.expect("published")["count"]);
    assert_eq!(ends, [0, 0], "{zones:?}");
    let crowds: Vec<_> = facts
        .iter()
        .filter(|fact| fact["type"] == "overcrowding")
        .collect();
    assert!(crowds.iter().all(|fact| fact["count"].as_u64() >= Some(2)));
}

#[test]
fn dwell_times_of_fast_files_use_media_time() {
    let seed = 3;
    let yaml = config(seed).replace("object_threshold: 2", "loitering_time_s: 2");
    let setup = Setup::new(&yaml);
    exits(0, &mut setup.command("run"));
    let lines = setup.lines();
    let published = |kind: &str| {
        let facts = of_kind(&lines, "analytics").into_iter();
        let facts = facts.filter(|fact| fact["type"] == kind);
        let mut published: Vec<_> = facts
            .map(|fact| fact["duration_ms"].as_u64().expect("a time"))
            .collect();
        published.sort_unstable();
        published
    };
    let wanted = visit_durations(seed);
    // Rounded down, from frame times that are.
    let near = |(published, wanted): (&u64, &u64)| published.abs_diff(*wanted) <= 1;
    let left = published("zone_left");
    assert_eq!(left.len(), wanted.len());
    assert!(left.iter().zip(&wanted).all(near), "{left:?}, {wanted:?}");
    let long = wanted.iter().filter(|stay| **stay >= 2000).count();
    assert!(long > 0, "no person stays: {wanted:?}");
    assert_eq!(published("loitering").len(), long);
}

#[test]
fn analytics_events_lie_between_track_start_and_end() {
    let setup = Setup::new(&config(3));
    exits(0, &mut setup.command("run"));
    let lines = setup.lines();
    let mut open: BTreeMap<String, bool> = BTreeMap::new();
    let mut facts = 0;
    for line in &lines {
        let id = text(&line["id"]);
        match (text(&line["kind"]).as_str(), text(&line["type"]).as_str()) {
            ("event", "new") => assert!(open.insert(id, true).is_none()),
            ("event", "end") => assert_eq!(open.insert(id, false), Some(true)),
            ("analytics", kind) if !id.is_empty() => {
                assert_eq!(open.get(&id), Some(&true), "{kind} of {id}");
                facts += 1;
            }
            _ => {}
        }
    }
    assert!(facts > 10 && open.values().all(|is_open| !is_open));
}
