// SPDX-License-Identifier: Apache-2.0
//! Clips and continuous recording in the pipeline: which tracks are recorded, and the thread that writes their files.
//!
//! The tracking stage decides with each frame ([`SourceClips`]), so that the events of a frame name the clip that holds it. The
//! thread `media` writes ([`ClipService`]). Between them is a bounded channel of commands, a few per clip; encoded images go
//! past both, from the source into the ring of its stream.

mod service;
mod source;
mod store;

pub(crate) use service::{ClipFactory, ClipService};
pub(crate) use source::SourceClips;
pub(crate) use store::repair;
