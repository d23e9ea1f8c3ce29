// SPDX-License-Identifier: Apache-2.0
//! `secondary`: networks that run on the crops of other networks' objects, in a tree and not in a circle.

use std::path::PathBuf;
use std::time::Duration;

use jetwatch_types::Size;

use super::detector::{PRECISION, model_folder};
use super::groups::KeptLabels;
use super::names::{self, NAME, is_name};
use super::redact::redact;
use super::schema::ValueType;
use super::section::Section;
use super::yaml::map::Map;

/// Maximum number of crops in one batch. Crops are small, and a frame of many sources has hundreds of objects.
pub const MAX_CROP_BATCH_SIZE: i64 = 256;

/// A network that runs on crops of tracked objects.
#[derive(Debug, Clone, PartialEq, Section)]
pub struct SecondaryConfig {
    /// Name of the network in attributes and statistics; unique, also when case is ignored.
    #[key(text = NAME, check = is_name)]
    pub name: String,
    /// Model folder or name, as for the detector: a classifier, a detector, or, for tracker.appearance, a network for embeddings.
    #[key(value = ValueType::Path, required, read = model_folder)]
    pub model: PathBuf,
    /// Which of the model's files to use. Default: as for the detector.
    #[key(text = PRECISION)]
    pub precision: Option<String>,
    /// Which objects it runs on. Default: all that are tracked.
    ///
    /// Index in the list of the network on whose findings it runs; `None`: it runs on tracked objects.
    #[key(name = "runs_on", value = ValueType::Map(OnKeys::KEYS), read = unresolved)]
    pub on: Option<usize>,
    /// Labels of the objects, of the primary detector or of that other network; empty: all.
    #[key(no_key, read = classes)]
    pub classes: Vec<String>,
    /// Maximum number of crops in one batch; statistics suggest the best one.
    #[key(range = 1..=MAX_CROP_BATCH_SIZE, unit = "crops", default = 1)]
    pub batch_size: usize,
    /// Maximum time that the first crop of a batch waits for others.
    #[key(name = "batch_timeout_ms", range = 0..=1000, default = 10)]
    pub batch_timeout: Duration,
    /// Networks of this kind that run in parallel.
    #[key(range = 1..=16, unit = "workers", default = 1)]
    pub workers: usize,
    /// Minimum size of an object's box; smaller objects are skipped.
    #[key(
        text = "WIDTHxHEIGHT in pixels of the source, each at least 1, such as 32x32",
        parse = parse_size,
        default = "16x16"
    )]
    pub min_object: Size,
    /// Frames until a track is inferred again, after vote_frames inferences, or its box has grown by half.
    #[key(range = 0..=1_000_000, unit = "frames", default = 30)]
    pub reinfer_interval: u32,
    /// Newest inferences of a track that vote on its attributes, by score; more than half must be there.
    #[key(range = 1..=100, unit = "frames", default = 5)]
    pub vote_frames: usize,
    /// Labels below this score do not count. Default: the model's own score_threshold.
    #[key(range = 0.0..=1.0)]
    pub threshold: Option<f32>,
}

/// The keys of `runs_on`.
#[derive(Section)]
struct OnKeys {
    /// Run on the findings of this network: the boxes of a detector, or the objects to which a classifier gives one of the classes. Default: on tracked objects.
    #[key(text = "the name of another secondary network")]
    secondary: Option<String>,
    /// Labels of the objects, or groups of the detector. Default: all.
    #[key(text = "a label of the detector or of that other network")]
    classes: Vec<String>,
}

/// Its value needs the names of all networks: [`resolve`] sets it.
fn unresolved(map: &Map<'_>) -> Option<Option<usize>> {
    OnKeys::from_map(&map.section("runs_on")?).map(|_| None)
}

fn classes(map: &Map<'_>) -> Option<Vec<String>> {
    OnKeys::from_map(&map.section("runs_on")?).map(|on| on.classes)
}

/// `WIDTHxHEIGHT`, each from 1 to 65535.
fn parse_size(text: &str) -> Option<Size> {
    let side = |text: &str| text.parse::<u16>().ok().filter(|side| *side > 0);
    let (width, height) = text.split_once('x')?;
    Some(Size::new(side(width)?.into(), side(height)?.into()))
}

/// Sets which network each one of `networks` runs on. `maps` are theirs, `detector` that of the detector; what does not hold
/// between them is recorded.
pub(super) fn resolve(networks: &mut [SecondaryConfig], maps: &[Map<'_>], detector: &Map<'_>) {
    check_repetitions(maps);
    let names: Vec<Option<String>> = maps.iter().map(|map| map.text("name")).collect();
    let parents: Vec<Option<Option<usize>>> = maps.iter().map(|map| parent(map, &names)).collect();
    check_circles(maps, &names, &parents);
    for (map, parent) in maps.iter().zip(&parents) {
        if *parent == Some(None) {
            check_labels(map, detector);
        }
    }
    // The lists differ in length only after a problem.
    for (network, parent) in networks.iter_mut().zip(parents) {
        network.on = parent.flatten();
    }
}

/// Records what does not hold between the networks and `tracker.appearance`.
pub(super) fn check_appearance(maps: &[Map<'_>], tracker: &Map<'_>) {
    let Some(wanted) = tracker.text("appearance") else {
        if tracker.boolean("output_embedding") == Some(true) && !tracker.has("appearance") {
            let hint = "name a secondary network in tracker.appearance";
            tracker.invalid(
                "output_embedding",
                "nothing computes embeddings",
                Some(hint),
            );
        }
        return;
    };
    let of_name = |map: &&Map<'_>| map.text("name").as_deref() == Some(&wanted);
    let Some(network) = maps.iter().find(of_name) else {
        let known: Vec<String> = maps.iter().filter_map(|map| map.text("name")).collect();
        let hint = match known.is_empty() {
            true => "add it to the list `secondary`".to_owned(),
            false => format!("known here: {}", known.join(", ")),
        };
        let what = "there is no secondary network of this name";
        tracker.invalid("appearance", what, Some(&hint));
        return;
    };
    let parent_of = |map: &Map<'_>| OnKeys::from_map(&map.section("runs_on")?)?.secondary;
    if parent_of(network).is_some() {
        let what = "tracker.appearance names this network, which runs before there are tracks";
        let hint = "remove `runs_on.secondary`";
        network.invalid("runs_on", what, Some(hint));
    }
    for map in maps {
        if parent_of(map).as_ref() == Some(&wanted) {
            let what =
                format!("`{wanted}` gives embeddings for tracker.appearance, and no objects");
            map.invalid(
                "runs_on",
                &what,
                Some("run on tracked objects or on another network"),
            );
        }
    }
}

fn check_repetitions(maps: &[Map<'_>]) {
    let names: Vec<Option<String>> = maps.iter().map(names::name_of).collect();
    for (index, map) in maps.iter().enumerate() {
        if names[index].is_some() && names[..index].contains(&names[index]) {
            map.invalid(
                "name",
                "another secondary network has this name",
                Some("names must differ in more than case"),
            );
        }
    }
}

/// Index of the network that this one runs on: `Some(None)` for the detector, `None` for a problem.
fn parent(map: &Map<'_>, names: &[Option<String>]) -> Option<Option<usize>> {
    let on = map.section("runs_on")?;
    let Some(wanted) = OnKeys::from_map(&on)?.secondary else {
        return Some(None);
    };
    let found = names
        .iter()
        .position(|name| name.as_deref() == Some(&wanted));
    if found.is_none() {
        let own = map.text("name");
        let mut known: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
        known.retain(|name| own.as_deref() != Some(name));
        known.sort_unstable();
        known.dedup();
        let hint = match known.is_empty() {
            true => "leave it out to run on the detector's objects".to_owned(),
            false => format!("known here: {}", known.join(", ")),
        };
        let what = "there is no secondary network of this name";
        on.invalid("secondary", what, Some(&hint));
        return None;
    }
    Some(found)
}

/// Records each network that runs on itself by way of others.
fn check_circles(maps: &[Map<'_>], names: &[Option<String>], parents: &[Option<Option<usize>>]) {
    let shown = |index: usize| names[index].as_deref().unwrap_or("?").to_owned();
    for (index, map) in maps.iter().enumerate() {
        let mut path = vec![shown(index)];
        let mut at = index;
        // A path longer than the list goes in a circle without this network, which its members report.
        while let Some(Some(next)) = parents[at]
            && path.len() <= maps.len()
        {
            path.push(shown(next));
            at = next;
            if at == index {
                let what = format!("it would wait for itself: {}", path.join(" on "));
                if let Some(on) = map.section("runs_on") {
                    on.invalid(
                        "secondary",
                        &what,
                        Some("let one of them run on tracked objects"),
                    );
                }
                break;
            }
        }
    }
}

/// Records labels that the detector finds but does not keep.
fn check_labels(map: &Map<'_>, detector: &Map<'_>) {
    let Some(kept) = KeptLabels::of(detector) else {
        return;
    };
    let Some(on) = map.section("runs_on") else {
        return;
    };
    let (Some(classes), Some(list)) = (on.texts("classes"), on.get("classes")) else {
        return;
    };
    for class in classes {
        if !kept.keeps(&class) {
            let what = format!("detector.classes does not keep `{}`", redact(&class));
            list.report(&what, None, Some("add it there".to_owned()));
        }
    }
}
