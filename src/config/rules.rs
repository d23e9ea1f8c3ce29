//! What is watched for in the picture of one source: zones, lines, directions, and objects that stand still.
//!
//! The words are those of Frigate and of DeepStream's nvdsanalytics: zone, loitering, inertia, stationary; overcrowding,
//! line crossing, direction.

use std::collections::BTreeSet;
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
}

/// A way that objects go.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectionRule {
    /// Its name.
    pub name: String,
    /// The way; where it begins does not matter.
    pub line: Line,
    /// Greatest angle between the way and where the object goes, 0 to 180.
    pub tolerance_degrees: f32,
    /// How far an object must have come before its way is looked at, above 0, in shares of the picture's sides.
    pub min_distance: f32,
}

/// When an object stands still.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StationaryRule {
    /// For how long its box must not have changed.
    pub after: Duration,
    /// A box has not changed while its IOU with the first one is at least this, above 0 to 1.
    pub min_iou: f32,
    /// Frames in a row in which it must have changed before the object moves again; at least 1.
    pub inertia_frames: u32,
}

impl SceneRules {
    /// The names that more than one rule has, when case is ignored: a name stands for one thing of a source.
    #[must_use]
    pub fn double_names(&self) -> Vec<&str> {
        let zones = self.zones.iter().map(|rule| &rule.name);
        let lines = self.lines.iter().map(|rule| &rule.name);
        let directions = self.directions.iter().map(|rule| &rule.name);
        let mut known = BTreeSet::new();
        zones
            .chain(lines)
            .chain(directions)
            .filter(|name| !known.insert(name.to_ascii_lowercase()))
            .map(String::as_str)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_one_rule() {
        let line = Line::new(&[[0.0, 0.0], [1.0, 0.0]]).expect("a line");
        let area = Area::new(vec![[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]).expect("an area");
        let zone = |name: &str| ZoneRule {
            name: name.to_owned(),
            area: area.clone(),
            inertia_frames: 3,
            loitering: None,
            object_threshold: None,
        };
        let rules = SceneRules {
            zones: vec![zone("yard"), zone("gate")],
            lines: vec![LineRule {
                name: "Gate".to_owned(),
                line,
                inertia_frames: 3,
            }],
            ..SceneRules::default()
        };
        assert_eq!(rules.double_names(), ["Gate"]);
        assert!(SceneRules::default().double_names().is_empty());
    }
}
