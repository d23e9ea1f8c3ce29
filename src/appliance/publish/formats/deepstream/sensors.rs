// SPDX-License-Identifier: Apache-2.0
//! The sensor and the place of each source.

use std::collections::HashMap;

use super::body::{PartBody, PlaceBody, SensorBody};
use super::kinds::Kind;
use jetwatch_config::SensorConfig;

/// Sensors by the names of their sources.
#[derive(Debug)]
pub(super) struct Sensors {
    configured: HashMap<String, Sensor>,
    /// Of sources that the configuration says nothing about.
    named: HashMap<String, Sensor>,
}

/// One sensor.
#[derive(Debug)]
pub(super) struct Sensor(SensorConfig);

impl Sensors {
    pub fn new(config: &[SensorConfig]) -> Self {
        let of = |config: &SensorConfig| (config.source.clone(), Sensor(config.clone()));
        Self {
            configured: config.iter().map(of).collect(),
            named: HashMap::new(),
        }
    }

    pub fn add(&mut self, source: &str) {
        self.of(source);
    }

    pub fn remove(&mut self, source: &str) {
        self.named.remove(source);
    }

    /// The sensor of a source.
    pub fn of(&mut self, source: &str) -> &Sensor {
        if let Some(sensor) = self.configured.get(source) {
            return sensor;
        }
        let named = || Sensor(SensorConfig::named(source));
        self.named.entry(source.to_owned()).or_insert_with(named)
    }
}

impl Sensor {
    pub fn id(&self) -> &str {
        self.0.id.as_deref().unwrap_or(&self.0.source)
    }

    pub fn sensor(&self) -> SensorBody<'_> {
        SensorBody {
            id: self.id(),
            kind: &self.0.kind,
            description: self.0.description.as_deref().unwrap_or_default(),
            location: self.0.location.into(),
            coordinate: self.0.coordinate.into(),
        }
    }

    /// The place, with the part of it that DeepStream has for an event of type `step` of an object.
    pub fn place(&self, kind: Option<Kind>, step: &str) -> PlaceBody<'_> {
        let place = &self.0.place;
        let source = self.0.source.as_str();
        let id = place.part_id.as_deref().unwrap_or_default();
        let name = place.part_name.as_deref().unwrap_or_default();
        let level = place.level.as_deref().unwrap_or_default();
        let coordinate = place.coordinate.into();
        let is_passage = ["entry", "exit"].contains(&step);
        let part = match is_passage && kind != Some(Kind::Vehicle) {
            true => PartBody::Entrance {
                name,
                lane: id,
                level,
                coordinate,
            },
            false => PartBody::Aisle {
                id,
                name,
                level,
                coordinate,
            },
        };
        PlaceBody {
            id: place.id.as_deref().unwrap_or(source),
            name: place.name.as_deref().unwrap_or(source),
            kind: place.kind.as_deref().unwrap_or_default(),
            location: place.location.into(),
            part,
        }
    }
}
