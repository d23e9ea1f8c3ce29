// SPDX-License-Identifier: Apache-2.0
//! Exports of detectors, built by recipe, through `model init` and one run: each is read right without further options, or
//! refused with the reason.
//!
//! A recipe builds a small graph with the tail that the exporter writes ([`heads`]) and puts the same objects into its numbers
//! ([`net`]). Needs `ORT_DYLIB_PATH`; without it the tests are skipped with a message.

mod dense;
mod finished;
mod heads;
mod net;
mod refused;

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use jetwatch_detect::graph;
use jetwatch_detect::layouts::{LAYOUTS, candidate_layouts};
use jetwatch_detect::load;
use jetwatch_detect::model::{ColorOrder, InputElement, InputSpec, ModelSpec};
use jetwatch_models::{
    CreatedFolder, InitOptions, ModelYamlTemplate, ModelYamlTemplateError, Origin, create_folder,
};
use jetwatch_telemetry::Recorder;
use jetwatch_types::{Detection, Placement, Size, intersection_over_union as iou};

use crate::support::onnx_runtime::{config, frame, gray_pixels};
use net::{Grids, Net, objects};

/// A file as an exporter writes it.
struct Export {
    /// Exporter, family, options.
    name: &'static str,
    net: Net,
    expected: Expected,
}

/// What becomes of a file.
#[derive(Clone, Copy)]
enum Expected {
    /// The objects are found, with this layout and, unless it is empty, this input.
    Reads(&'static str, &'static str),
    /// Its layout is this, of a network without boxes or one that ONNX Runtime cannot run.
    Drafts(&'static str),
    /// `model init` refuses it with these words.
    Refuses(&'static [&'static str]),
}

/// A test for each table, and all of them.
macro_rules! tables {
    ($($module:ident::$table:ident,)*) => {
        $(#[test]
        fn $table() {
            check($module::$table());
        })*

        fn all() -> Vec<Export> {
            [$($module::$table()),*].into_iter().flatten().collect()
        }
    };
}

tables! {
    dense::ultralytics_planes_are_read,
    dense::yolo_rows_and_maps_are_read,
    dense::boxes_with_scores_are_read,
    dense::maps_of_networks_without_anchors_are_read,
    finished::rows_behind_a_suppression_are_read,
    finished::four_tensors_with_a_count_are_read,
    finished::the_best_of_all_cells_are_read,
    finished::several_tensors_of_objects_are_read,
    finished::queries_are_read,
    refused::other_tasks_are_refused,
    refused::networks_without_boxes_are_refused,
    refused::what_cannot_give_scores_is_refused,
    refused::what_is_not_in_the_file_is_asked_for,
}

/// Each layout is guessed for some export, and each guess can be requested and loads.
#[test]
fn every_guess_loads_and_every_layout_is_guessed() {
    use ModelYamlTemplateError::{NoLabels, NoPlanes, OtherTask, Text};
    let mut guessed = HashSet::new();
    for Export { name, net, .. } in all() {
        let network = graph::summarize(Path::new("n.onnx"), &net.bytes(), |_| None).expect(name);
        for guess in candidate_layouts(&network, None) {
            guessed.insert(guess.layout);
            let draft = match ModelYamlTemplate::new(&network, Some(guess.layout), None, None) {
                Err(NoLabels { .. } | NoPlanes { .. } | OtherTask { .. } | Text { .. }) => continue,
                draft => draft.unwrap_or_else(|error| panic!("{name}: {error}")),
            };
            let text = draft.text(Origin {
                name: "net: one",
                file: "net #1.onnx",
                sha256: [0xaa; 32].into(),
                weights: &[],
                labels_file: None,
            });
            let no_file = |_: &Path| unreachable!("no other file is named");
            let spec = ModelSpec::from_text(Path::new("m"), &text, no_file)
                .unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
            assert_eq!(spec.labels, draft.labels(), "{name}");
            let tensors = draft.inferred().found.tensors.iter();
            let tensors: Vec<&String> = tensors.flat_map(|role| &role.names).collect();
            assert_eq!(spec.output.tensors.len(), tensors.len(), "{name}");
        }
    }
    let known: HashSet<&str> = LAYOUTS.iter().map(|layout| layout.name).collect();
    assert_eq!(guessed, known);
}

fn row(name: &'static str, net: Net, expected: Expected) -> Export {
    Export {
        name,
        net,
        expected,
    }
}

/// Every export becomes what is expected.
fn check(exports: Vec<Export>) {
    needs_onnx_runtime!();
    let count = exports.len();
    let outcome = |export: Export| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("network.onnx");
        let (grids, classes) = (export.net.grids, export.net.classes);
        fs::write(&file, export.net.bytes()).expect("written");
        let outcome = compare(&file, grids, classes, export.expected);
        Some(format!("{}: {}", export.name, outcome.err()?))
    };
    let failures: Vec<String> = exports.into_iter().filter_map(outcome).collect();
    let (bad, list) = (failures.len(), failures.join("\n"));
    assert!(failures.is_empty(), "{bad} of {count} exports:\n{list}");
}

fn init(file: &Path, folder: &Path) -> anyhow::Result<CreatedFolder> {
    let options = InitOptions {
        file,
        folder: Some(folder),
        layout: None,
        labels: None,
        background: None,
        size: None,
        force: false,
    };
    create_folder(&options, None)
}

/// Only the number of labels shows whether the last score of DETR is that of no object.
#[test]
fn a_reading_with_other_labels_is_noted() {
    needs_onnx_runtime!();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("network.onnx");
    let name = "DETR by transformers, 3 classes without names";
    let mut exports = finished::queries_are_read().into_iter();
    let export = exports.find(|export| export.name == name).expect("a row");
    fs::write(&file, export.net.bytes()).expect("written");
    let created = init(&file, &folder.path().join("model")).expect("it is read");
    let [note] = created.notes.as_slice() else {
        panic!("{:?}", created.notes);
    };
    let wanted = [
        "may also be detr",
        "sigmoid is missing",
        "give --labels with 4 names",
    ];
    assert_eq!(has_words(note, &wanted), Ok(()));
}

/// # Errors
/// What came out instead.
fn compare(file: &Path, grids: Grids, classes: usize, expected: Expected) -> Result<(), String> {
    let folder = file.with_file_name("model");
    let created = init(file, &folder);
    match (expected, created) {
        (Expected::Refuses(words), Err(error)) => has_words(&format!("{error:#}"), words),
        (_, Err(error)) => Err(format!("refused: {error:#}")),
        (Expected::Refuses(words), Ok(created)) => {
            let found = detect(&folder, grids);
            let found = found.map(|found| found.len());
            Err(format!("{}, {found:?}, not {words:?}", read(&created)))
        }
        (Expected::Drafts(layout), Ok(created)) => is_layout(&created, layout),
        (Expected::Reads(layout, input), Ok(created)) => {
            is_layout(&created, layout)?;
            let spec = ModelSpec::load(&folder).expect("it was loaded before");
            let found = described(&spec.input);
            if !input.is_empty() && input != found {
                return Err(format!("the input is {found}"));
            }
            let found = detect(&folder, grids)?;
            let is_found = |wanted: &net::Object| {
                found.iter().any(|found| {
                    usize::from(found.class) == wanted.class
                        && (found.score - wanted.score).abs() < 0.02
                        && iou(&found.xyxy.map(|edge| edge / 2.0), &wanted.xyxy) > 0.9
                })
            };
            let wanted = objects(classes);
            match found.len() == wanted.len() && wanted.iter().all(is_found) {
                true => Ok(()),
                false => Err(format!("{}: {:?}", read(&created), shown(&found))),
            }
        }
    }
}

fn read(created: &CreatedFolder) -> String {
    let found = &created.inferred.found;
    format!(
        "read as {} {:?} ({}), {} labels",
        created.inferred.layout,
        found.parameters,
        found.reason,
        created.labels.len()
    )
}

fn is_layout(created: &CreatedFolder, layout: &str) -> Result<(), String> {
    match created.inferred.layout == layout {
        true => Ok(()),
        false => Err(format!("{}, not as {layout}", read(created))),
    }
}

fn has_words(text: &str, words: &[&str]) -> Result<(), String> {
    match words.iter().find(|word| !text.contains(*word)) {
        None => Ok(()),
        Some(word) => Err(format!("no word of `{word}` in: {text}")),
    }
}

/// Detections in a gray image of twice the input size.
fn detect(folder: &Path, grids: Grids) -> Result<Vec<Detection>, String> {
    let size = Size::new(grids.width as u32, grids.height as u32);
    let source = Size::new(2 * size.width, 2 * size.height);
    let image = frame(0, 0, source, size, gray_pixels(size, 99));
    let mut results = Vec::new();
    load(&config(folder), &Recorder::default())
        .and_then(|prepared| prepared.create(0)?.detect(&[image], &mut results))
        .map_err(|error| format!("the detector refuses it: {error}"))?;
    Ok(results.remove(0))
}

fn shown(found: &[Detection]) -> Vec<String> {
    let show = |found: &Detection| {
        let xyxy = found.xyxy.map(|edge| edge / 2.0);
        format!("{} {:.2} {xyxy:.0?}", found.class, found.score)
    };
    found.iter().take(5).map(show).collect()
}

/// Order of the colors, range of the first, and place of the image.
fn described(input: &InputSpec) -> String {
    let color = match input.color {
        ColorOrder::Bgr => "bgr",
        ColorOrder::Rgb => "rgb",
    };
    let of = |value: f32| ((value - input.mean[0]) * input.scale[0] * 10.0).round() / 10.0;
    let range = match input.element {
        InputElement::Uint8 => "bytes".to_owned(),
        InputElement::Float32 => format!("{}..{}", of(0.0), of(255.0)),
    };
    let placement = match input.placement {
        Placement::TopLeft => "top_left",
        Placement::Center => "center",
        Placement::Stretch => "stretch",
    };
    format!("{color} {range} {placement}")
}
