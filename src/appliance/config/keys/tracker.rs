//! `tracker`: which one, and its settings. Where a default depends on the tracker, the loader knows it.

use super::super::form::{Fallback, Form, Key};

/// `tracker`.
pub const TRACKER: &[Key] = &[
    Key::or(
        "type",
        Form::Words(&["iou", "sort", "bytetrack"]),
        Fallback::Text("iou"),
        "Which tracker: iou compares with the last box; sort predicts boxes at constant velocity by a Kalman filter; bytetrack does that too and lets weak detections continue a track.",
    ),
    Key::new(
        "association",
        Form::Words(&["greedy", "optimal"]),
        "How detections and tracks are paired: best pair first, or the greatest total IOU. Default: greedy; sort and bytetrack: optimal.",
    ),
    Key::new(
        "min_iou",
        OVERLAP,
        "Least IOU of a pair; bytetrack takes the IOU times the score. Default: 0.3; bytetrack: 0.2.",
    ),
    Key::or(
        "probation_frames",
        Form::count(1, 1000, "frames"),
        Fallback::Integer(3),
        "Frames in which a new object must be matched before it is published.",
    ),
    Key::new(
        "max_lost_frames",
        Form::count(0, 100_000, "frames"),
        "Frames that a published track may go unseen before it ends. Default: 30; sort: 1.",
    ),
    Key::or(
        "reassociate_frames",
        Form::count(0, 100_000, "frames"),
        Fallback::Integer(0),
        "Frames more for which a lost track is kept: a new one that begins where it would have gone, by its motion and size, continues it under its id.",
    ),
    Key::or(
        "class_match",
        Form::Words(&["same", "any"]),
        Fallback::Text("same"),
        "Whether a detection of another class may continue a track.",
    ),
    Key::new(
        "min_new_track_score",
        Form::share(),
        "Detections below this score start no new track. Default: 0; bytetrack: 0.6.",
    ),
    Key::or(
        "min_score",
        Form::share(),
        Fallback::Number(0.1),
        "bytetrack only: detections below this score are left out. The detector's score_threshold should be no higher than this, or there is nothing weak to pair.",
    ),
    Key::or(
        "tentative_score",
        Form::share(),
        Fallback::Number(0.5),
        "bytetrack only: detections below this score are paired after the others, and only with tracks seen in the frame before.",
    ),
    Key::or(
        "tentative_min_iou",
        OVERLAP,
        Fallback::Number(0.5),
        "bytetrack only: least IOU of such a detection and a track.",
    ),
];

/// An IOU above 0 to 1.
const OVERLAP: Form = Form::Number {
    min: 0.0,
    min_accepted: false,
    max: 1.0,
};
