//! What is watched for in the picture of one source: zones, lines, directions, and objects that stand still.
//!
//! The words are those of Frigate and of DeepStream's nvdsanalytics: zone, loitering, inertia, stationary; overcrowding,
//! line crossing, direction.

use std::time::Duration;

use super::shape::{Area, Line};

/// The rules of one source.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SceneRules {
    /// Areas in which objects are counted.
    pub zones: Vec<ZoneRule>,
    /// Lines that objects cross.
    pub lines: Vec<LineRule>,
    /// Ways that objects go.
    pub directions: Vec<DirectionRule>,
    /// When an object stands still; `None`: not asked for.
    pub stationary: Option<StationaryRule>,
}

/// An area in which objects are counted.
#[derive(Debug, Clone, PartialEq)]
pub struct ZoneRule {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub area: Area,
    /// Frames in a row in which an object must be seen inside, or outside, before that counts; at least 1.
    pub inertia_frames: u32,
    /// Who stays for this long loiters; `None`: nobody does.
    pub loitering: Option<Duration>,
    /// As many objects as this are too many; `None`: none are.
    pub object_threshold: Option<u32>,
    /// Labels of the objects that it is about; empty: all.
    pub objects: Vec<String>,
}

/// A line that objects cross.
#[derive(Debug, Clone, PartialEq)]
pub struct LineRule {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub line: Line,
    /// Frames in a row in which an object must be seen on the other side before it has crossed; at least 1.
    pub inertia_frames: u32,
    /// Labels of the objects that it is about; empty: all.
    pub objects: Vec<String>,
}

/// A way that objects go.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectionRule {
    /// Its name.
    pub name: String,
    /// The way; where it begins does not matter.
    pub line: Line,
    /// Greatest angle between the way and where the object goes, 0 to 180, as both are seen in the picture: in its pixels, not
    /// in shares of its sides.
    pub tolerance_degrees: f32,
    /// How far an object must have come before its way is looked at, above 0, in shares of the picture's sides.
    pub min_distance: f32,
}

/// When an object stands still.
#[derive(Debug, Clone, PartialEq)]
pub struct StationaryRule {
    /// For how long its box must not have changed.
    pub after: Duration,
    /// A box has not changed while its IOU with the first one is at least this, above 0 to 1.
    pub min_iou: f32,
    /// Frames in a row in which it must have changed before the object moves again; at least 1.
    pub inertia_frames: u32,
    /// Labels of the objects that it is about; empty: all.
    pub objects: Vec<String>,
}

impl SceneRules {
    /// Whether nothing is watched for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
            && self.lines.is_empty()
            && self.directions.is_empty()
            && self.stationary.is_none()
    }

    /// What the rules call for that is not among a network's labels, each with its key path below the source:
    /// `zones[1].objects`. Which labels there are is known only once the model is.
    #[must_use]
    pub fn unknown_objects(&self, labels: &[String]) -> Vec<(String, &str)> {
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
            .filter(|(_, label)| !labels.contains(label))
            .map(|(path, label)| (path, label.as_str()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_rule_labels_are_reported_with_keys() {
        let line = Line::new(&[[0.0, 0.0], [1.0, 0.0]]).expect("a line");
        let rules = SceneRules {
            lines: vec![LineRule {
                name: "gate".to_owned(),
                line,
                inertia_frames: 3,
                objects: vec!["person".to_owned(), "persons".to_owned()],
            }],
            stationary: Some(StationaryRule {
                after: Duration::from_secs(5),
                min_iou: 0.8,
                inertia_frames: 3,
                objects: vec!["ship".to_owned()],
            }),
            ..SceneRules::default()
        };
        let labels = ["person".to_owned(), "car".to_owned()];
        let wanted = [
            ("lines[0].objects".to_owned(), "persons"),
            ("stationary.objects".to_owned(), "ship"),
        ];
        assert_eq!(rules.unknown_objects(&labels), wanted);
        assert!(!rules.is_empty() && SceneRules::default().is_empty());
    }
}
