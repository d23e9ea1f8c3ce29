// SPDX-License-Identifier: Apache-2.0
//! `zones`, `lines`, `directions` and `stationary` of a source: what is watched for in its images.
//!
//! The words are those of Frigate and of DeepStream's nvdsanalytics: zone, loitering, inertia, stationary; overcrowding,
//! line crossing, direction. What is recorded here: names that repeat, zones that overlap, labels that the detector drops.

use std::time::Duration;

use jetwatch_schedule::Schedule;
use jetwatch_types::Classes;

use super::geometry::{Polygon, Segment};
use super::groups::KeptLabels;
use super::names::{self, NAME, is_name};
use super::section::Section;
use super::yaml::map::Map;

/// Accepted form of coordinates.
const COORDINATES: &str = "pairs of numbers from 0 to 1, such as 0.1,0.2,0.9,0.2";

/// Name of the rule `stationary` in topics and commands, where other rules have names of their own.
pub const STATIONARY: &str = "stationary";

/// The rules of one source.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(default, check = check_rules)]
pub struct SceneRules {
    /// Areas of the image in which objects are counted. Default: none.
    pub zones: Vec<ZoneRule>,
    /// Lines in the image whose crossings are counted. Default: none.
    pub lines: Vec<LineRule>,
    /// Directions in which objects move. Default: none.
    pub directions: Vec<DirectionRule>,
    /// Reports when an object comes to rest, and when it moves again. Default: not reported.
    pub stationary: Option<StationaryRule>,
}

/// An area in which objects are counted.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(also = ZoneOptions)]
pub struct ZoneRule {
    /// Name of the rule in topics and messages; unique among the source's rules.
    #[key(text = NAME, check = is_name)]
    pub name: String,
    /// Corners in order around the zone: shares of the image's width and height, from the top left.
    #[key(name = "coordinates", text = COORDINATES, parse = Polygon::parse)]
    pub area: Polygon,
    /// Consecutive frames inside, or outside, before an object counts.
    #[key(range = 1..=1000, unit = "frames", default = 3)]
    pub inertia_frames: u32,
    /// An object that stays for this long loiters. Default: not reported.
    #[key(name = "loitering_time_s", range = 1..=86_400)]
    pub loitering: Option<Duration>,
    /// Number of objects from which on the zone is overcrowded. Default: not reported.
    #[key(range = 1..=10_000, unit = "objects")]
    pub object_threshold: Option<u32>,
    /// Labels or groups of the objects. Default: all.
    #[key(text = "a label")]
    pub objects: Vec<String>,
    /// When detection, or the rule, is active. Default: always.
    pub schedule: Option<Schedule>,
}

/// What only the check of a zone reads.
#[derive(Section)]
struct ZoneOptions {
    /// Whether the zone may overlap another one: an object there is counted in both.
    #[key(default = false)]
    allow_overlap: bool,
}

/// A line that objects cross.
#[derive(Debug, Clone, PartialEq, Section)]
pub struct LineRule {
    /// Name of the rule in topics and messages; unique among the source's rules.
    #[key(text = NAME, check = is_name)]
    pub name: String,
    /// Begin and end of the line.
    #[key(name = "coordinates", text = COORDINATES, parse = Segment::parse)]
    pub line: Segment,
    /// Consecutive frames on the other side before an object has crossed.
    #[key(range = 1..=1000, unit = "frames", default = 3)]
    pub inertia_frames: u32,
    /// Labels or groups of the objects. Default: all.
    #[key(text = "a label")]
    pub objects: Vec<String>,
    /// When detection, or the rule, is active. Default: always.
    pub schedule: Option<Schedule>,
}

/// A direction in which objects move.
#[derive(Debug, Clone, PartialEq, Section)]
pub struct DirectionRule {
    /// Name of the direction in messages; unique among the source's rules.
    #[key(text = NAME, check = is_name)]
    pub name: String,
    /// Two points; only where they lead matters. Of several directions that fit, the first is published.
    #[key(name = "coordinates", text = COORDINATES, parse = Segment::parse)]
    pub line: Segment,
    /// Maximum angle between the direction and an object's motion, in the image.
    ///
    /// In the image's pixels, not in shares of its sides.
    #[key(range = 0.0..=180.0, default = 45.0)]
    pub tolerance_degrees: f32,
    /// Distance in shares of the image that an object must have moved first.
    #[key(range = 0.0..=1.0, exclusive_min, default = 0.05)]
    pub min_distance: f32,
    /// When detection, or the rule, is active. Default: always.
    pub schedule: Option<Schedule>,
}

/// When an object is at rest.
#[derive(Debug, Clone, PartialEq, Section)]
pub struct StationaryRule {
    /// An object that has not moved for this long is at rest.
    #[key(name = "threshold_s", range = 1..=86_400, default = 10)]
    pub after: Duration,
    /// An object has not moved while its box overlaps the first one by this IOU.
    #[key(range = 0.0..=1.0, exclusive_min, default = 0.8)]
    pub min_iou: f32,
    /// Consecutive frames of motion before an object is no longer at rest.
    #[key(range = 1..=1000, unit = "frames", default = 3)]
    pub inertia_frames: u32,
    /// Labels or groups of the objects. Default: all.
    #[key(text = "a label")]
    pub objects: Vec<String>,
    /// When detection, or the rule, is active. Default: always.
    pub schedule: Option<Schedule>,
}

/// Maximum of the zones, of the lines and of the directions of a source. Each zone is compared with each other one.
const MAX_RULES: usize = 100;

/// Records too many rules; others are not compared then.
fn check_rules(map: &Map<'_>) {
    let too_many = ["zones", "lines", "directions"]
        .into_iter()
        .find_map(|name| {
            let count = map.list(name)?.len();
            (count > MAX_RULES).then_some((name, count))
        });
    if let Some((name, count)) = too_many {
        let what = format!("{count} {name}, expected at most {MAX_RULES} of a source");
        map.invalid(name, &what, Some("leave some out, or join neighbors"));
        return;
    }
    check_names(map);
    check_overlaps(map);
}

/// Records names that an earlier rule of the source has: a name stands for one thing.
fn check_names(map: &Map<'_>) {
    let mut known: Vec<String> = Vec::new();
    let has_stationary = map.has(STATIONARY);
    for map in ["zones", "lines", "directions"]
        .into_iter()
        .filter_map(|name| map.list(name))
        .flatten()
    {
        let Some(name) = names::name_of(&map) else {
            continue;
        };
        if known.contains(&name) {
            let what = format!(
                "`{name}` is the name of an earlier zone, line or direction of this source (case is ignored)"
            );
            map.invalid("name", &what, Some("choose another name"));
        }
        if has_stationary && name == STATIONARY {
            let what = "`stationary` is another rule of this source (case is ignored)";
            map.invalid("name", what, Some("choose another name"));
        }
        known.push(name);
    }
}

/// Records zones that share a part of the image, unless one of them allows it.
fn check_overlaps(map: &Map<'_>) {
    let maps = map.list("zones").unwrap_or_default();
    let zone = |map: &Map<'_>| {
        Some((
            ZoneRule::from_map(map)?,
            ZoneOptions::from_map(map)?.allow_overlap,
        ))
    };
    let zones: Vec<_> = maps.iter().map(zone).collect();
    for (index, later) in zones.iter().enumerate() {
        let Some((later, later_allows)) = later else {
            continue;
        };
        let overlapped = zones[..index]
            .iter()
            .flatten()
            .find(|(earlier, is_allowed)| {
                !is_allowed && !later_allows && later.area.overlaps(&earlier.area)
            });
        if let Some((earlier, _)) = overlapped {
            let what = format!(
                "it overlaps the zone `{}`, so that an object there is counted in both",
                earlier.name
            );
            let hint = "move one of them, or write allow_overlap: true where that is meant";
            maps[index].invalid("coordinates", &what, Some(hint));
        }
    }
}

/// Records rules about objects that the detector is configured to drop: they would never be true.
pub(super) fn check_objects(sources: &[Map<'_>], detector: &Map<'_>) {
    let Some(kept) = KeptLabels::of(detector) else {
        return;
    };
    let check = |map: &Map<'_>| {
        for label in map.texts("objects").into_iter().flatten() {
            if !kept.keeps(&label) {
                let what = format!("`{label}` is not among detector.classes");
                let hint = "add it there, or leave it out here";
                map.invalid("objects", &what, Some(hint));
            }
        }
    };
    for source in sources {
        for map in ["zones", "lines"]
            .into_iter()
            .filter_map(|name| source.list(name))
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

impl SceneRules {
    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
            && self.lines.is_empty()
            && self.directions.is_empty()
            && self.stationary.is_none()
    }

    /// The names of all rules: zones, lines, directions, and `stationary` where there is that rule.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let zones = self.zones.iter().map(|rule| rule.name.as_str());
        let lines = self.lines.iter().map(|rule| rule.name.as_str());
        let directions = self.directions.iter().map(|rule| rule.name.as_str());
        let stationary = self.stationary.iter().map(|_| STATIONARY);
        zones.chain(lines).chain(directions).chain(stationary)
    }

    /// The schedules of all rules, in the order of [`names`](Self::names).
    pub fn schedules(&self) -> impl Iterator<Item = Option<&Schedule>> {
        let zones = self.zones.iter().map(|rule| &rule.schedule);
        let lines = self.lines.iter().map(|rule| &rule.schedule);
        let directions = self.directions.iter().map(|rule| &rule.schedule);
        let stationary = self.stationary.iter().map(|rule| &rule.schedule);
        let all = zones.chain(lines).chain(directions).chain(stationary);
        all.map(Option::as_ref)
    }

    /// Removes the schedules of all rules.
    pub(super) fn clear_schedules(&mut self) {
        let zones = self.zones.iter_mut().map(|rule| &mut rule.schedule);
        let lines = self.lines.iter_mut().map(|rule| &mut rule.schedule);
        let directions = self.directions.iter_mut().map(|rule| &mut rule.schedule);
        let stationary = self.stationary.iter_mut().map(|rule| &mut rule.schedule);
        let all = zones.chain(lines).chain(directions).chain(stationary);
        all.for_each(|schedule| *schedule = None);
    }

    /// Objects of the rules that are neither labels of a network nor groups, each with its key path below the source:
    /// `zones[1].objects`. The labels are known only once the model is.
    pub fn unknown_objects(&self, classes: &Classes) -> Vec<(String, &str)> {
        let zones = self.zones.iter().map(|rule| &rule.objects);
        let lines = self.lines.iter().map(|rule| &rule.objects);
        let keys = zones.enumerate().map(|rule| ("zones", rule));
        let keys = keys.chain(lines.enumerate().map(|rule| ("lines", rule)));
        let listed = keys.flat_map(|(key, (index, objects))| {
            let path = move |label| (format!("{key}[{index}].objects"), label);
            objects.iter().map(path)
        });
        let stationary = self.stationary.iter().flat_map(|rule| &rule.objects);
        let single = stationary.map(|label| ("stationary.objects".to_owned(), label));
        listed
            .chain(single)
            .filter(|(_, label)| !classes.contains(label))
            .map(|(path, label)| (path, label.as_str()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_a_source_are_limited() {
        let zones = |count: usize| {
            let zones: Vec<_> = (0..count)
                .map(|n| format!("{{name: z{n}, coordinates: '0,0,1,0,0,1'}}"))
                .collect();
            let text = format!(
                "sources: [{{name: a, uri: /v.mp4, zones: [{}]}}]\ndetector: {{model: /m}}\n",
                zones.join(", ")
            );
            let error = crate::Config::from_str("f.yaml", &text).expect_err("a problem");
            error.to_string()
        };
        // One problem for each zone, however many it overlaps.
        assert_eq!(zones(100).matches("it overlaps the zone").count(), 99);
        let many = zones(101);
        assert!(many.contains("101 zones, expected at most 100"), "{many}");
        assert!(!many.contains("overlaps"), "{many}");
    }

    #[test]
    fn unknown_rule_labels_are_reported_with_keys() {
        let line = Segment::new(&[[0.0, 0.0], [1.0, 0.0]]).expect("a line");
        let rules = SceneRules {
            lines: vec![LineRule {
                name: "gate".to_owned(),
                line,
                inertia_frames: 3,
                objects: vec!["person".to_owned(), "persons".to_owned()],
                schedule: None,
            }],
            stationary: Some(StationaryRule {
                after: Duration::from_secs(5),
                min_iou: 0.8,
                inertia_frames: 3,
                objects: vec!["ship".to_owned()],
                schedule: None,
            }),
            ..SceneRules::default()
        };
        let classes = Classes::new(&["person".to_owned(), "car".to_owned()], &[]);
        let wanted = [
            ("lines[0].objects".to_owned(), "persons"),
            ("stationary.objects".to_owned(), "ship"),
        ];
        assert_eq!(rules.unknown_objects(&classes), wanted);
        assert!(!rules.is_empty() && SceneRules::default().is_empty());
    }
}
