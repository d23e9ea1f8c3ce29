//! Detections to tracks. Pure: no threads, no clock, no I/O.
//!
//! One [`Tracker`] per source turns the detections of each frame into [`Track`](jetwatch_types::Track)s, and one
//! [`TrackEventGenerator`] after it turns the tracks of consecutive frames into the events that are published. Both are
//! plain functions of what they are given in order: the same frames give the same ids and the same events. The pipeline
//! calls them on one thread per pipeline; the crate `jetwatch-eval` does the same for a file of detections.
//!
//! The words are DeepStream's, with `Lost` for its shadow tracking:
//!
//! ```text
//!   detection without a track,                matched in
//!   score ≥ min_new_track_score               probation_frames frames                 not matched
//!  ───────────────────────────► Tentative ───────────────────────────► Active ◄───────────────────────► Lost
//!                                   │        (the id is given here)       │           matched again        │
//!                                   │ not matched                         │                                │ not matched in more than
//!                                   ▼                                     │ finish()                       │ max_lost_frames frames,
//!                               forgotten:                                │                                │ or finish()
//!                               no id, no report                          └─────────────► Ended ◄──────────┘
//!                                                                              reported once, then forgotten
//! ```
//!
//! Ids are given at confirmation, from 1, so that what subscribers see has no holes where a false detection lived for
//! two frames; until then a track carries [`UNCONFIRMED`]. An Active track with `max_lost_frames: 0` goes straight to Ended.

mod assignment;
mod events;
mod hungarian;
mod iou_index;
mod kalman;
mod reassociate;
mod sparse_assignment;
mod stages;
mod tracker;

pub use assignment::{Assigner, Candidate, Pairing};
pub use events::{ClassCount, TrackEventGenerator};
pub use hungarian::HungarianSolver;
pub use tracker::{Tracker, UNCONFIRMED};
