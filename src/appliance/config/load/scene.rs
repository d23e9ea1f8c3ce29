//! `zones`, `lines`, `directions` and `stationary` of a source: shapes that are some, names that differ, zones that are
//! apart.

use super::super::map::Map;
use super::super::{
    Area, DirectionRule, Line, LineRule, Point, SceneRules, ShapeError, StationaryRule, ZoneRule,
    parse_points,
};
use super::{MAX_NAME_CHARS, form_of};

/// What is watched for in the picture of the source `map`.
pub(super) fn rules(map: &Map<'_>) -> Option<SceneRules> {
    let lists = ["zones", "lines", "directions"].map(|name| list(map, name));
    for maps in lists.iter().flatten() {
        for map in maps {
            check_name(map);
        }
    }
    check_names(lists.iter().flatten().flatten());
    let [zone_maps, line_maps, direction_maps] = lists;
    // Each is read in any case, so that all problems are told.
    let zones = zone_maps.map(|maps| zones(&maps));
    let lines = line_maps.map(|maps| maps.iter().map(line).collect::<Vec<_>>());
    let directions = direction_maps.map(|maps| maps.iter().map(direction).collect::<Vec<_>>());
    let stationary = match map.has("stationary") {
        true => map
            .section("stationary")
            .and_then(|map| stationary(&map))
            .map(Some),
        false => Some(None),
    };
    Some(SceneRules {
        zones: zones?.into_iter().collect::<Option<_>>()?,
        lines: lines?.into_iter().collect::<Option<_>>()?,
        directions: directions?.into_iter().collect::<Option<_>>()?,
        stationary: stationary?,
    })
}

/// Records rules about objects that the detector is told to leave out: they would never be true.
pub(super) fn check_objects(sources: &[Map<'_>], detector: &Map<'_>) {
    if !detector.has("classes") {
        return;
    }
    let Some(kept) = detector.texts("classes").filter(|kept| !kept.is_empty()) else {
        return;
    };
    let check = |map: &Map<'_>| {
        for label in map.texts("objects").into_iter().flatten() {
            if !kept.contains(&label) {
                let what = format!("`{label}` is not among detector.classes");
                let hint = "add it there, or leave it out here";
                map.unfit("objects", &what, Some(hint));
            }
        }
    };
    for source in sources {
        for map in ["zones", "lines"]
            .into_iter()
            .filter_map(|name| list(source, name))
            .flatten()
        {
            check(&map);
        }
        if source.has("stationary")
            && let Some(map) = source.section("stationary")
        {
            check(&map);
        }
    }
}

/// The maps of a list that may be left out.
fn list<'d>(map: &Map<'d>, name: &str) -> Option<Vec<Map<'d>>> {
    match map.has(name) {
        true => map.sections(name),
        false => Some(Vec::new()),
    }
}

/// The name of a rule, if it is one.
fn name(map: &Map<'_>) -> Option<String> {
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    map.text("name")
        .filter(|name| name.len() <= MAX_NAME_CHARS && name.chars().all(is_name_char))
}

/// Records a name that is none.
fn check_name(map: &Map<'_>) {
    if map.text("name").is_some()
        && name(map).is_none()
        && let Some(node) = map.get("name")
    {
        node.expect::<()>(&form_of(map, "name"));
    }
}

/// Records names that an earlier rule of the source has: a name stands for one thing.
fn check_names<'a, 'd: 'a>(maps: impl Iterator<Item = &'a Map<'d>>) {
    let mut known: Vec<String> = Vec::new();
    for map in maps.filter(|map| map.has("name")) {
        let Some(name) = name(map).map(|name| name.to_ascii_lowercase()) else {
            continue;
        };
        if known.contains(&name) {
            let what = format!(
                "`{name}` is the name of an earlier zone, line or direction of this source (case is ignored)"
            );
            map.unfit("name", &what, Some("choose another name"));
        }
        known.push(name);
    }
}

/// The zones in their order; `None` for each that has a problem.
fn zones(maps: &[Map<'_>]) -> Vec<Option<ZoneRule>> {
    let read: Vec<_> = maps.iter().map(zone).collect();
    for (index, later) in read.iter().enumerate() {
        let Some((rule, allow_overlap)) = later else {
            continue;
        };
        for (earlier, earlier_allows) in read[..index].iter().flatten() {
            let is_allowed = *allow_overlap || *earlier_allows;
            if !is_allowed && rule.area.overlaps(&earlier.area) {
                let what = format!(
                    "it overlaps the zone `{}`, so that an object there is counted in both",
                    earlier.name
                );
                let hint = "move one of them, or write allow_overlap: true where that is meant";
                maps[index].unfit("coordinates", &what, Some(hint));
            }
        }
    }
    read.into_iter()
        .map(|zone| zone.map(|(rule, _)| rule))
        .collect()
}

/// A zone, and whether it may share a part of the picture with another.
fn zone(map: &Map<'_>) -> Option<(ZoneRule, bool)> {
    let area = shape(map, Area::new);
    let inertia_frames = map.integer("inertia_frames");
    let loitering = optional(map, "loitering_time_s", |name| map.duration(name));
    let object_threshold = optional(map, "object_threshold", |name| map.integer(name));
    let objects = map.texts("objects");
    let allow_overlap = map.boolean("allow_overlap");
    let rule = ZoneRule {
        name: name(map)?,
        area: area?,
        inertia_frames: inertia_frames?,
        loitering: loitering?,
        object_threshold: object_threshold?,
        objects: objects?,
    };
    Some((rule, allow_overlap?))
}

fn line(map: &Map<'_>) -> Option<LineRule> {
    let line = shape(map, |points| Line::new(&points));
    let inertia_frames = map.integer("inertia_frames");
    let objects = map.texts("objects");
    Some(LineRule {
        name: name(map)?,
        line: line?,
        inertia_frames: inertia_frames?,
        objects: objects?,
    })
}

fn direction(map: &Map<'_>) -> Option<DirectionRule> {
    let line = shape(map, |points| Line::new(&points));
    let tolerance_degrees = map.number("tolerance_degrees");
    let min_distance = map.number("min_distance");
    Some(DirectionRule {
        name: name(map)?,
        line: line?,
        tolerance_degrees: tolerance_degrees?,
        min_distance: min_distance?,
    })
}

fn stationary(map: &Map<'_>) -> Option<StationaryRule> {
    let after = map.duration("threshold_s");
    let min_iou = map.number("min_iou");
    let inertia_frames = map.integer("inertia_frames");
    let objects = map.texts("objects");
    Some(StationaryRule {
        after: after?,
        min_iou: min_iou?,
        inertia_frames: inertia_frames?,
        objects: objects?,
    })
}

/// The shape that `coordinates` describe; what is wrong with them stands in the shape's own words.
fn shape<T>(map: &Map<'_>, make: impl Fn(Vec<Point>) -> Result<T, ShapeError>) -> Option<T> {
    let text = map.text("coordinates")?;
    match parse_points(&text).and_then(make) {
        Ok(shape) => Some(shape),
        Err(error) => {
            map.unfit("coordinates", &error.to_string(), None);
            None
        }
    }
}

/// `Some(None)` for a key without a default that was left out.
fn optional<T>(
    map: &Map<'_>,
    name: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Option<Option<T>> {
    match map.has(name) {
        true => read(name).map(Some),
        false => Some(None),
    }
}
