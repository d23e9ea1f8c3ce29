//! FLOOR 2: detections against annotated pictures: how accurate a network is. Pure: no pixels, no networks, no files.
//!
//! [`coco::parse`] reads the bytes of an annotation file into a [`Truth`]; [`ClassMap`] says which label of a model means
//! which of its categories. [`Evaluation::new`] compares what was found with it by the protocol that COCO publishes, so that
//! the numbers are those of COCO's own program for the same detections: average precision over ten overlaps, by size,
//! average recall, and each class alone. Beside them stand precision and recall at one score, which is how the daemon runs.
//! [`bootstrap()`] says how much of a figure, or of a difference between two networks, is owed to the choice of pictures.
//!
//! ```text
//!   bytes ── coco ──► Truth ─┐
//!                            ├─ matching ──► Ranking (one a class and size) ── average ──► Accuracy
//!   Detection ──► Found ─────┘                           └──────────────────── bootstrap ──► Spread
//! ```
//!
//! `jetwatch eval` calls it. [`agreement()`] compares two detectors with each other, and [`Golden`] is what one of them found once,
//! as a file: `jetwatch doctor` asks both. Boxes here are `[left, top, width, height]` in `f64`, as annotation files have them.

mod agreement;
mod annotations;
mod average_precision;
mod bootstrap;
mod classes;
mod clear_mot;
pub mod coco;
mod error;
mod evaluation;
mod fields;
mod golden;
mod matching;

pub use agreement::{Agreement, ConfidentBoxes, MatchCriteria, agreement};
pub use annotations::{Category, Image, Object, Prediction, Truth, Xywh};
pub use bootstrap::{ConfidenceIntervals, Interval, bootstrap};
pub use classes::{ClassMap, MatchedBy};
pub use clear_mot::{ClearMot, ClearMotCounter, GroundTruthObject, Hypothesis};
pub use error::{AccuracyError, Problem};
pub use evaluation::{Accuracy, ClassAccuracy, Evaluation, OperatingPoint};
pub use golden::{Golden, GoldenError, GoldenImage, GoldenSet};
pub use matching::MAX_PREDICTIONS;
