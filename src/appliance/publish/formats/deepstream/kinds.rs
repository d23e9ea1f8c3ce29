// SPDX-License-Identifier: Apache-2.0
//! Kinds of objects: which labels are vehicles, persons, faces and products, and what attributes they have.
//!
//! Attributes of secondary networks that have the name of a field of the kind, such as `color`, fill that field.

use std::collections::BTreeMap;

use super::body::KindBody;
use crate::formats::label_of;
use crate::wire::rounded;
use jetwatch_config::ObjectKinds;
use jetwatch_types::{Classes, Track};

/// A kind of objects that the schemas know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Vehicle,
    Person,
    Face,
    Product,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Vehicle, Self::Person, Self::Face, Self::Product];

    /// Its name in the minimal schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vehicle => "Vehicle",
            Self::Person => "Person",
            Self::Face => "Face",
            Self::Product => "Product",
        }
    }

    /// Its name in the full schema.
    fn key(self) -> &'static str {
        match self {
            Self::Vehicle => "vehicle",
            Self::Person => "person",
            Self::Face => "face",
            Self::Product => "product",
        }
    }

    /// Names of secondary networks that fill its fields, in the order of the minimal schema.
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Vehicle => &["type", "make", "model", "color", "license", "region"],
            Self::Person => &["gender", "age", "hair", "cap", "apparel"],
            Self::Face => &[
                "gender",
                "age",
                "hair",
                "cap",
                "glasses",
                "facialhair",
                "name",
                "eyecolor",
            ],
            Self::Product => &["brand", "type", "shape"],
        }
    }

    fn default_labels(self) -> &'static [&'static str] {
        match self {
            Self::Vehicle => &["vehicle", "car", "bus", "truck", "motorcycle"],
            Self::Person => &["person", "pedestrian"],
            Self::Face => &["face"],
            Self::Product => &["product"],
        }
    }
}

/// Fields of an object in the full schema; a label with one of these names has no field of its own.
const OBJECT_FIELDS: [&str; 9] = [
    "id",
    "speed",
    "direction",
    "orientation",
    "bbox",
    "location",
    "coordinate",
    "pose",
    "embedding",
];

/// The kind of each class.
#[derive(Debug)]
pub(super) struct Kinds(Vec<Option<Kind>>);

impl Kinds {
    pub fn new(config: &ObjectKinds, classes: &Classes) -> Self {
        let is_of = |kind: Kind, class: u16| {
            let given = match kind {
                Kind::Vehicle => &config.vehicle,
                Kind::Person => &config.person,
                Kind::Face => &config.face,
                Kind::Product => &config.product,
            };
            match given.is_empty() {
                true => kind
                    .default_labels()
                    .iter()
                    .any(|name| classes.includes(name, class)),
                false => given.iter().any(|name| classes.includes(name, class)),
            }
        };
        let count = u16::try_from(classes.labels().len()).unwrap_or(u16::MAX);
        let kind_of = |class| Kind::ALL.into_iter().find(|kind| is_of(*kind, class));
        Self((0..count).map(kind_of).collect())
    }

    /// The kind of a class; `None`: one that the schemas do not know.
    pub fn of(&self, class: u16) -> Option<Kind> {
        self.0.get(usize::from(class)).copied().flatten()
    }

    /// What is known of an object, under the name of its kind or its label.
    pub fn attributes<'a>(
        &self,
        track: &'a Track,
        classes: &'a Classes,
    ) -> BTreeMap<&'a str, KindBody<'a>> {
        let of = |name| attribute(track, name).unwrap_or_default();
        let age = || of("age").parse().unwrap_or(0);
        let label = label_of(classes, track.class);
        let confidence = rounded(track.score, 1e4);
        let Some(kind) = self.of(track.class) else {
            let other = (!OBJECT_FIELDS.contains(&label)).then_some((label, KindBody::Other {}));
            return other.into_iter().collect();
        };
        let body = match kind {
            Kind::Vehicle => KindBody::Vehicle {
                kind: attribute(track, "type").unwrap_or(label),
                make: of("make"),
                model: of("model"),
                color: of("color"),
                license_state: of("region"),
                license: of("license"),
                confidence,
            },
            Kind::Person => KindBody::Person {
                age: age(),
                gender: of("gender"),
                hair: of("hair"),
                cap: of("cap"),
                apparel: of("apparel"),
                confidence,
            },
            Kind::Face => KindBody::Face {
                age: age(),
                gender: of("gender"),
                hair: of("hair"),
                cap: of("cap"),
                glasses: of("glasses"),
                facialhair: of("facialhair"),
                name: of("name"),
                eyecolor: of("eyecolor"),
                confidence,
            },
            Kind::Product => KindBody::Product {
                brand: of("brand"),
                kind: attribute(track, "type").unwrap_or(label),
                shape: of("shape"),
            },
        };
        BTreeMap::from([(kind.key(), body)])
    }
}

/// The label that the secondary network `name` gave to the object.
pub(super) fn attribute<'a>(track: &'a Track, name: &str) -> Option<&'a str> {
    let found = track
        .attributes
        .iter()
        .find(|attribute| &*attribute.name == name);
    found.map(|attribute| &*attribute.label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_kinds_by_default_or_as_configured() {
        let labels = ["person", "car", "van", "dog"].map(str::to_owned);
        let classes = Classes::new(&labels, &[]);
        let kinds = |config: &ObjectKinds| {
            let kinds = Kinds::new(config, &classes);
            [0, 1, 2, 3, 9].map(|class| kinds.of(class))
        };
        let default = kinds(&ObjectKinds::default());
        let wanted = [Some(Kind::Person), Some(Kind::Vehicle), None, None, None];
        assert_eq!(default, wanted);
        let given = ObjectKinds {
            vehicle: vec!["van".to_owned()],
            product: vec!["dog".to_owned()],
            ..ObjectKinds::default()
        };
        let wanted = [
            Some(Kind::Person),
            None,
            Some(Kind::Vehicle),
            Some(Kind::Product),
            None,
        ];
        assert_eq!(kinds(&given), wanted);
    }
}
