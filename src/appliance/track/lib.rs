// SPDX-License-Identifier: Apache-2.0
//! Detections to tracks. Pure: no threads, no clock, no I/O.
//!
//! One [`Tracker`] per source turns the detections of each frame into [`Track`](jetwatch_types::Track)s, and one
//! [`TrackEventGenerator`] after it turns the tracks of consecutive frames into the events that are published. Both are
//! deterministic: the same frames give the same ids and the same events. The pipeline calls them on one thread; the crate
//! `jetwatch-eval` does the same for a file of detections.
//!
//! The terms are DeepStream's, with `Lost` for its shadow tracking:
//!
//! ```text
//!                                             matched in
//!   detection without a track,                probation_frames frames,
//!   score ≥ min_new_track_score               with enough evidence                    not matched
//!  ───────────────────────────► Tentative ───────────────────────────► Active ◄───────────────────────► Lost
//!                                   │        (assigns the id)             │           matched again        │
//!                                   │ not matched                         │                                │ not matched in more than
//!                                   ▼                                     │ finish()                       │ max_lost_frames frames,
//!                               removed:                                  │                                │ or finish()
//!                               no id, no report                          └─────────────► Ended ◄──────────┘
//!                                                                              reported once, then removed
//! ```
//!
//! What starts a track is more than what keeps it: a detection below `min_new_track_score` continues tracks and starts none.
//!
//! Ids are assigned at confirmation, from 1, so that published ids have no gaps for false detections that
//! last two frames; until then a track has [`UNCONFIRMED`]. With `max_lost_frames: 0` an Active track becomes Ended at once.

mod appearance;
mod assignment;
mod events;
mod evidence;
mod hungarian;
mod iou_index;
mod kalman;
mod observations;
mod reassociate;
mod sparse_assignment;
mod stages;
mod tracker;

pub use assignment::{Assigner, Candidate, Pairing};
pub use events::{ClassCount, TrackEventGenerator};
pub use hungarian::HungarianSolver;
pub use tracker::{Tracker, UNCONFIRMED};
