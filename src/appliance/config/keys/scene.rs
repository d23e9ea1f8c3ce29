//! `zones`, `lines`, `directions` and `stationary` of a source: what is watched for in its picture.
//!
//! Frigate's and nvdsanalytics' words where they have one: zone, coordinates, inertia, loitering time, object threshold.

use super::super::form::{Fallback, Form, Key};

/// What a rule's name may be: it is a level of a topic.
const NAME: Form = Form::Text("letters, digits, `-` and `_`, at most 64");

/// Points of the picture.
const COORDINATES: Form = Form::Text("pairs of numbers from 0 to 1, such as 0.1,0.2,0.9,0.2");

/// How long a change must be seen.
const INERTIA: Key = Key::or(
    "inertia_frames",
    Form::count(1, 1000, "frames"),
    Fallback::Integer(3),
    "Frames in a row in which a change must be seen before it counts.",
);

/// Which objects a rule is about.
const OBJECTS: Key = Key::new(
    "objects",
    Form::Texts("a label"),
    "Labels of the objects that it is about. Default: all.",
);

/// One of `zones`.
pub const ZONE: &[Key] = &[
    Key::required(
        "name",
        NAME,
        "Its name in topics and messages; unique among the source's rules.",
    ),
    Key::required(
        "coordinates",
        COORDINATES,
        "Its corners in their order around it: pairs of shares of the picture's width and height, from the top left.",
    ),
    INERTIA,
    Key::new(
        "loitering_time_s",
        Form::seconds(1, 86_400),
        "Who stays for this long loiters. Default: nobody does.",
    ),
    Key::new(
        "object_threshold",
        Form::count(1, 10_000, "objects"),
        "As many objects as this are a crowd. Default: none are.",
    ),
    OBJECTS,
    Key::or(
        "allow_overlap",
        Form::Boolean,
        Fallback::Boolean(false),
        "Whether it may share a part of the picture with another zone: an object there is counted in both.",
    ),
];

/// One of `lines`.
pub const LINE: &[Key] = &[
    Key::required(
        "name",
        NAME,
        "Its name in topics and messages; unique among the source's rules.",
    ),
    Key::required(
        "coordinates",
        COORDINATES,
        "Where it begins and where it ends. Crossings are told as to the left or right of who goes along it.",
    ),
    INERTIA,
    OBJECTS,
];

/// One of `directions`.
pub const DIRECTION: &[Key] = &[
    Key::required(
        "name",
        NAME,
        "Its name in messages; unique among the source's rules.",
    ),
    Key::required(
        "coordinates",
        COORDINATES,
        "Two points of the way; only where it leads matters. Of several that fit, the first is told.",
    ),
    Key::or(
        "tolerance_degrees",
        Form::Number {
            min: 0.0,
            min_accepted: true,
            max: 180.0,
        },
        Fallback::Number(45.0),
        "Greatest angle between it and the way of an object, as both are seen in the picture.",
    ),
    Key::or(
        "min_distance",
        Form::Number {
            min: 0.0,
            min_accepted: false,
            max: 1.0,
        },
        Fallback::Number(0.05),
        "How far an object must have come before its way is looked at, in shares of the picture.",
    ),
];

/// `stationary`.
pub const STATIONARY: &[Key] = &[
    Key::or(
        "threshold_s",
        Form::seconds(1, 86_400),
        Fallback::Integer(10),
        "An object that has not moved for this long is at rest.",
    ),
    Key::or(
        "min_iou",
        Form::Number {
            min: 0.0,
            min_accepted: false,
            max: 1.0,
        },
        Fallback::Number(0.8),
        "An object has not moved while its box overlaps the first one by this IOU.",
    ),
    INERTIA,
    OBJECTS,
];
