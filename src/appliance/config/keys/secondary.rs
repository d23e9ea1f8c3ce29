//! Keys of `secondary` and of the section in it.

use super::super::MAX_BATCH_SIZE;
use super::super::form::{Fallback, Form, Key};

/// One of `secondary`.
pub const SECONDARY: &[Key] = &[
    Key::required(
        "name",
        Form::Text("letters, digits, `-` and `_`, at most 64"),
        "Name of the network in attributes and statistics; unique, also when case is ignored.",
    ),
    Key::required(
        "model",
        Form::Path,
        "Model folder with its model.yaml: a classifier (layout softmax, logits or sigmoid) or a detector.",
    ),
    Key::new(
        "precision",
        Form::Text("a precision of the model, such as fp32 or int8"),
        "Which of the model's files to use. Default: as for the detector.",
    ),
    Key::new(
        "on",
        Form::Map(ON),
        "Which objects it looks at. Default: all that are tracked.",
    ),
    Key::or(
        "batch_size",
        Form::count(1, MAX_BATCH_SIZE, "crops"),
        Fallback::Integer(1),
        "Most crops in one batch; statistics suggest the best one.",
    ),
    Key::or(
        "batch_timeout_ms",
        Form::milliseconds(0, 1000),
        Fallback::Integer(10),
        "Longest wait of a batch's first crop for company.",
    ),
    Key::or(
        "workers",
        Form::count(1, 16, "workers"),
        Fallback::Integer(1),
        "Networks of this kind that run side by side.",
    ),
    Key::or(
        "min_object",
        Form::Text("WIDTHxHEIGHT in pixels of the source, each at least 1, such as 32x32"),
        Fallback::Text("16x16"),
        "Objects whose box is narrower or lower are not looked at, as WIDTHxHEIGHT in pixels of the source.",
    ),
    Key::or(
        "reinfer_interval",
        Form::count(0, 1_000_000, "frames"),
        Fallback::Integer(30),
        "Frames until a track is looked at again, once it was looked at vote_frames times; a box that has grown by half is looked at earlier.",
    ),
    Key::or(
        "vote_frames",
        Form::count(1, 100, "frames"),
        Fallback::Integer(5),
        "Newest looks at a track that vote on its attributes, weighted by score; more than half of them must be there.",
    ),
    Key::new(
        "threshold",
        Form::share(),
        "Labels below this score do not count. Default: the model's own score_threshold.",
    ),
];

/// `secondary.on`.
pub const ON: &[Key] = &[
    Key::new(
        "secondary",
        Form::Text("the name of another secondary network"),
        "Look at what this other network found: at the boxes of a detector, or at the objects to which a classifier gives one of the classes. Default: at tracked objects.",
    ),
    Key::new(
        "classes",
        Form::Texts("a label of the detector or of that other network"),
        "Labels of the objects. Default: all.",
    ),
];
