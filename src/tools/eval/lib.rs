// SPDX-License-Identifier: Apache-2.0
//! Evaluation of detections and tracks: one implementation of each metric.
//!
//! **Detections.** [`coco::parse`] reads the bytes of an annotation file into a [`Truth`]; `classes` maps the labels of a model
//! to its categories; `covered` makes one of those that the model's `covers` gives to one label. [`Evaluation::new`] compares predictions with it by the protocol that COCO publishes, so that the values are
//! those of COCO's own program for the same detections: average precision over ten overlaps, by size, average recall, and each
//! class. Precision and recall at one score are added, which is how the daemon runs. `bootstrap` computes how much of a
//! figure, or of a difference between two networks, depends on the choice of images. Boxes here are `[left, top, width, height]` in
//! `f64`, as annotation files have them.
//!
//! ```text
//!   bytes ── coco ──► Truth ────────┐
//!                                   ├─ matching ──► ScoredMatches (one per class and size) ── average_precision ──► Accuracy
//!   Detection ──► Prediction ───────┘                      └───────── bootstrap ──► ConfidenceIntervals
//! ```
//!
//! `evaluator` runs the detectors on a list of images, and [`ModelEvaluator`] runs a whole evaluation for `jetwatch eval`.
//! [`agreement()`] compares two detectors with each other; [`Golden`] is a file with the detections of one of them in
//! [`golden_frames()`]. `jetwatch doctor` uses both.
//!
//! [`write_tensors`] writes images as input tensors of a network, and [`collect_frames`] writes frames of a source as images: both for
//! `models/quantize.py`.
//!
//! **Tracks.** [`parse_detections`] and [`parse_truth`] read MOTChallenge's text format; [`track_offline`] runs the daemon's tracker on
//! a file of detections. [`Metrics`] scores whole sequences with CLEAR MOT, IDF1 and HOTA, and [`ClearMotCounter`] counts CLEAR MOT frame
//! by frame. `jetwatch track` calls them.

mod agreement;
mod annotations;
mod average_precision;
mod bootstrap;
mod classes;
mod clear_mot;
pub mod coco;
mod covered;
mod error;
mod evaluation;
mod evaluator;
mod fields;
mod frame_collector;
mod golden;
mod golden_frames;
pub mod io;
mod matching;
mod metrics_table;
mod model_evaluator;
mod mot_format;
mod mot_metrics;
mod mot_sequence;
mod mot_truth;
mod offline;
mod report;
mod tensor_file;

pub use agreement::{Agreement, MatchCriteria, agreement};
pub use annotations::{Category, Image, Object, Prediction, Truth, Xywh};
pub use clear_mot::{ClearMot, ClearMotCounter, GroundTruthObject, Hypothesis};
pub use error::{AccuracyError, Problem};
pub use evaluation::{Accuracy, Evaluation};
pub use evaluator::{EvaluationRun, ImageList};
pub use frame_collector::{CollectOptions, collect_frames};
pub use golden::{Golden, GoldenImage, GoldenSet};
pub use golden_frames::{GOLDEN_SCORE, detections_of, golden_frames, image_hash};
pub use metrics_table::{metrics_json, metrics_table};
pub use model_evaluator::{EvalOptions, ModelEvaluator};
pub use mot_format::{MotDetection, TrackRow, parse_detections, write_tracks};
pub use mot_metrics::Metrics;
pub use mot_sequence::MotSequence;
pub use mot_truth::{TruthRow, parse_truth};
pub use offline::{TentativeFrames, track_offline, track_with_interval};
pub use report::Report;
pub use tensor_file::write_tensors;
