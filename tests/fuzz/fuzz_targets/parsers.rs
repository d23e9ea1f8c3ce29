// SPDX-License-Identifier: Apache-2.0
//! Fuzz target: every reader of text and files that come from outside.
//!
//! The first byte chooses the reader, the others are what it reads. Each may refuse them in words. What it accepts must be
//! what its documentation promises to its callers.

#![no_main]

use std::path::Path;

use jetwatch_config::{Config, Document};
use jetwatch_detect::graph::{self, Malformed};
use jetwatch_detect::layouts::ssd::anchors;
use jetwatch_detect::layouts::{MAX_TENSORS, candidate_layouts};
use jetwatch_detect::model::{ModelError, ModelSpec};
use jetwatch_eval::{MotDetection, TrackRow, coco, parse_detections, parse_truth, write_tracks};
use jetwatch_models::{ModelYamlTemplate, Origin, lint};
use jetwatch_types::TrackId;
use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Some((choice, bytes)) = bytes.split_first() else {
        return Corpus::Reject;
    };
    let text = std::str::from_utf8(bytes);
    match (choice, text) {
        (b'a', Ok(text)) => anchors(text),
        (b'c', Ok(text)) => configuration(text),
        (b'd', Ok(text)) => description(text),
        (b'j', _) => annotations(bytes),
        (b'm', Ok(text)) => challenge(text),
        (b'o', _) => {
            joined(bytes);
            network(bytes);
        }
        (b't', Ok(text)) => truth(text),
        (b'u', Ok(text)) => address(text),
        _ => return Corpus::Reject,
    }
    Corpus::Keep
});

/// A list of anchors.
fn anchors(text: &str) {
    match anchors::read(text) {
        Ok(anchors) => {
            for anchor in anchors {
                assert!(
                    anchor.iter().all(|number| number.abs() <= 10.0),
                    "{anchor:?}"
                );
                assert!(anchor[2] > 0.0 && anchor[3] > 0.0, "{anchor:?}");
            }
        }
        Err(bad) => assert!((1..=text.lines().count()).contains(&bad.line), "{bad:?}"),
    }
}

/// A configuration.
fn configuration(text: &str) {
    match Config::from_str("etc/jetwatch.yaml", text) {
        Ok(config) => {
            assert!(!config.sources.is_empty());
            for (place, source) in config.sources.iter().enumerate() {
                let before = &config.sources[..place];
                assert!(before.iter().all(|other| other.name != source.name));
            }
            assert!(!format!("{config:?}").is_empty());
        }
        Err(error) => {
            assert!(!error.problems().is_empty());
            // One line for each problem, whatever the file contains.
            let lines = error.to_string().lines().count();
            assert_eq!(lines, error.problems().len() + 1);
        }
    }
}

/// The address of a source, as on the command line.
fn address(text: &str) {
    match Config::for_source(text, Some("m")) {
        Ok(config) => assert_eq!(config.sources.len(), 1),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The description of a model. What stands behind the first zero byte is the text of every file that it names.
fn description(text: &str) {
    let (text, beside) = text.split_once('\0').unwrap_or((text, ""));
    let folder = Path::new("models/drawn");
    let read = |_: &Path| Ok(beside.to_owned());
    match ModelSpec::from_text(folder, text, read) {
        Ok(spec) => check_description(&spec, folder),
        Err(error) => {
            assert!(matches!(error, ModelError::Invalid(_)), "{error:?}");
            assert!(!error.to_string().is_empty());
        }
    }
}

fn check_description(spec: &ModelSpec, folder: &Path) {
    assert!((1..=10_000).contains(&spec.labels.len()));
    assert!((1..=10_000).contains(&spec.max_detections));
    for share in [spec.score_threshold, spec.nms_iou] {
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
    let numbers = spec.input.mean.iter().chain(&spec.input.scale);
    assert!(
        numbers.clone().all(|number| number.is_finite()),
        "{:?}",
        spec.input
    );
    let multiple = spec.output.layout.side_multiple();
    for side in [spec.input.size.width, spec.input.size.height] {
        assert!(
            (32..=4096).contains(&side) && side.is_multiple_of(multiple),
            "{:?}",
            spec.input
        );
    }
    assert!(
        (1..=MAX_TENSORS).contains(&spec.output.tensors.len()),
        "{:?}",
        spec.output
    );
    assert!(
        spec.covers
            .iter()
            .all(|(class, _)| usize::from(*class) < spec.labels.len())
    );
    assert!(spec.file(None).is_ok());
    for file in &spec.files {
        let below = file
            .path
            .strip_prefix(folder)
            .expect("it is below the folder");
        assert!(below.components().count() > 0, "{file:?}");
        assert_eq!(file.sha256.to_string().len(), 64);
    }
}

/// Annotations of pictures.
fn annotations(bytes: &[u8]) {
    match coco::parse(bytes) {
        Ok(truth) => {
            assert!(truth.images.is_sorted_by(|a, b| a.id < b.id));
            assert!(truth.categories.is_sorted_by(|a, b| a.id < b.id));
            for image in &truth.images {
                assert!(image.size.width > 0 && image.size.height > 0, "{image:?}");
                let path = Path::new("pictures").join(&image.file_name);
                assert!(path.starts_with("pictures"), "{image:?}");
            }
            for object in &truth.objects {
                assert!(object.image < truth.images.len(), "{object:?}");
                assert!(object.category < truth.categories.len(), "{object:?}");
                let numbers = [object.xywh[2], object.xywh[3], object.area];
                assert!(
                    numbers
                        .iter()
                        .all(|number| number.is_finite() && *number >= 0.0)
                );
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Detections in the form of the MOTChallenge.
fn challenge(text: &str) {
    match parse_detections(text) {
        Ok(found) => {
            assert!(found.is_sorted_by_key(|found| found.frame));
            let row = |found: &MotDetection| TrackRow {
                frame: found.frame,
                id: TrackId(1),
                xyxy: found.detection.xyxy,
                score: found.detection.score,
                class: found.detection.class,
            };
            for found in &found {
                let [left, top, right, bottom] = found.detection.xyxy;
                assert!(
                    found.frame > 0 && left <= right && top <= bottom,
                    "{found:?}"
                );
            }
            let rows: Vec<TrackRow> = found.iter().map(row).collect();
            assert_eq!(write_tracks(&rows).lines().count(), found.len());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Ground truth in the form of the MOTChallenge.
fn truth(text: &str) {
    match parse_truth(text) {
        Ok(rows) => assert!(rows.is_sorted_by_key(|row| row.frame)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// An ONNX file whose weights are put into it, out of other files that are all the same.
fn joined(bytes: &[u8]) {
    let Ok(places) = graph::external_tensors(bytes) else {
        return;
    };
    let beside = [7; 64];
    let is_all_there = places.iter().all(|place| place.len <= beside.len() as u64);
    let joined = graph::embed(bytes, |place| {
        let len = usize::try_from(place.len).unwrap_or(usize::MAX);
        beside.get(..len).ok_or(Malformed {
            at: 0,
            what: "too long",
        })
    });
    assert_eq!(joined.is_ok(), is_all_there);
    match joined {
        Ok(Some(joined)) => {
            assert!(!places.is_empty());
            assert_eq!(graph::external_tensors(&joined), Ok(Vec::new()));
        }
        Ok(None) => assert!(places.is_empty()),
        Err(_) => {}
    }
}

/// An ONNX file, what is found in it, and the descriptions that are drafted from it.
fn network(bytes: &[u8]) {
    let length = |location: &str| (location.len() % 2 == 0).then_some(1 << 20);
    let network = match graph::summarize(Path::new("drawn.onnx"), bytes, length) {
        Ok(network) => network,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    for finding in lint(&network) {
        assert!(!format!("{finding:?}").is_empty());
    }
    let origin = Origin {
        name: "drawn",
        file: "drawn.onnx",
        sha256: [0; 32].into(),
        weights: &[("a\\\"b.data".to_owned(), [0; 32].into())],
        labels_file: None,
    };
    for guess in candidate_layouts(&network, None) {
        assert!(!guess.found.reason.is_empty());
        match ModelYamlTemplate::new(&network, Some(guess.layout), None, None) {
            Ok(draft) => {
                let text = draft.text(origin);
                // Names out of the file are quoted, so that they can be wrong but never end the text that they stand in.
                if text.len() < 1 << 20 {
                    let document = Document::parse("model.yaml", &text);
                    assert!(document.is_ok(), "{document:?}\n{text}");
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
