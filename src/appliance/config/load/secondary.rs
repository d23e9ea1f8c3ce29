//! `secondary`, whose networks may stand on each other but not in a circle.

use super::super::map::Map;
use super::super::{Node, SecondaryConfig};
use super::MAX_NAME_CHARS;
use jetwatch_types::Size;

/// The networks of `map`, none when it names none. `of_detector` are the labels to which the detector is limited, if it is.
pub(super) fn secondary(map: &Map<'_>, of_detector: &[String]) -> Option<Vec<SecondaryConfig>> {
    if !map.has("secondary") {
        return Some(Vec::new());
    }
    let maps = map.sections("secondary")?;
    let names: Vec<Option<String>> = maps.iter().map(name).collect();
    refuse_repetitions(&maps, &names);
    let parents: Vec<Option<Option<usize>>> = maps.iter().map(|map| parent(map, &names)).collect();
    refuse_circles(&maps, &names, &parents);
    let networks: Vec<Option<SecondaryConfig>> = maps
        .iter()
        .zip(names)
        .zip(parents)
        .map(|((map, name), parent)| network(map, name, parent, of_detector))
        .collect();
    // Ends as `None` when one of them has a problem, after all were read.
    networks.into_iter().collect()
}

fn name(map: &Map<'_>) -> Option<String> {
    let name = map.text("name")?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.chars().count() > MAX_NAME_CHARS || !name.chars().all(is_plain) {
        return map.get("name")?.expect(&super::form_of(map, "name"));
    }
    Some(name)
}

fn refuse_repetitions(maps: &[Map<'_>], names: &[Option<String>]) {
    let lower = |name: &Option<String>| name.as_ref().map(|name| name.to_ascii_lowercase());
    for (index, map) in maps.iter().enumerate() {
        let own = lower(&names[index]);
        if own.is_some() && names[..index].iter().any(|earlier| lower(earlier) == own) {
            map.unfit(
                "name",
                "another secondary network has this name",
                Some("names must differ in more than case"),
            );
        }
    }
}

/// Place of the network that this one stands on: `Some(None)` for the detector, `None` for a problem.
fn parent(map: &Map<'_>, names: &[Option<String>]) -> Option<Option<usize>> {
    let on = map.section("on")?;
    if !on.has("secondary") {
        return Some(None);
    }
    let wanted = on.text("secondary")?;
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
            true => "leave it out to look at what the detector finds".to_owned(),
            false => format!("known here: {}", known.join(", ")),
        };
        let what = "there is no secondary network of this name";
        on.unfit("secondary", what, Some(&hint));
        return None;
    }
    Some(found)
}

/// Records each network that stands on itself by way of others.
fn refuse_circles(maps: &[Map<'_>], names: &[Option<String>], parents: &[Option<Option<usize>>]) {
    let shown = |index: usize| names[index].as_deref().unwrap_or("?").to_owned();
    for (index, map) in maps.iter().enumerate() {
        let mut way = vec![shown(index)];
        let mut at = index;
        // A way longer than the list goes in a circle that does not hold this network, which is told of its members.
        while let Some(Some(next)) = parents[at]
            && way.len() <= maps.len()
        {
            way.push(shown(next));
            at = next;
            if at == index {
                let what = format!("it would wait for itself: {}", way.join(" on "));
                if let Some(on) = map.section("on") {
                    on.unfit(
                        "secondary",
                        &what,
                        Some("let one of them look at tracked objects"),
                    );
                }
                break;
            }
        }
    }
}

fn network(
    map: &Map<'_>,
    name: Option<String>,
    parent: Option<Option<usize>>,
    of_detector: &[String],
) -> Option<SecondaryConfig> {
    let model = map.path("model");
    let precision = map.text("precision");
    let on = map.section("on")?;
    let classes = on.texts("classes");
    if parent == Some(None)
        && let (Some(classes), Some(list)) = (&classes, on.get("classes"))
    {
        refuse_filtered(&list, classes, of_detector);
    }
    let batch_size = map.integer("batch_size");
    let batch_timeout = map.duration("batch_timeout_ms");
    let workers = map.integer("workers");
    let min_object = min_object(map);
    let reinfer_interval = map.integer("reinfer_interval");
    let vote_frames = map.integer("vote_frames");
    let threshold = map.number("threshold");
    Some(SecondaryConfig {
        name: name?,
        model: model?,
        precision,
        on: parent?,
        classes: classes?,
        batch_size: batch_size?,
        batch_timeout: batch_timeout?,
        workers: workers?,
        min_object: min_object?,
        reinfer_interval: reinfer_interval?,
        vote_frames: vote_frames?,
        threshold,
    })
}

/// Records labels that the detector finds but does not keep.
fn refuse_filtered(list: &Node<'_>, classes: &[String], of_detector: &[String]) {
    if of_detector.is_empty() {
        return;
    }
    for class in classes {
        if !of_detector.contains(class) {
            let what = format!(
                "detector.classes does not keep `{}`",
                super::super::mask_secrets(class)
            );
            list.report(&what, None, Some("add it there".to_owned()));
        }
    }
}

/// `WIDTHxHEIGHT`, each from 1 to 65535.
fn min_object(map: &Map<'_>) -> Option<Size> {
    let text = map.text("min_object")?;
    let side = |text: &str| text.parse::<u16>().ok().filter(|side| *side > 0);
    let sides = text.split_once('x');
    match sides.map(|(width, height)| (side(width), side(height))) {
        Some((Some(width), Some(height))) => Some(Size::new(width.into(), height.into())),
        _ => map
            .get("min_object")?
            .expect(&super::form_of(map, "min_object")),
    }
}
