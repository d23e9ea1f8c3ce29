// SPDX-License-Identifier: Apache-2.0
//! Trials of streams: copies of a source at the pace of a camera, and the largest number of them without drops.
//!
//! `search` decides which numbers are tried, `copies` makes the configuration of a trial, `trial` measures one in a process of
//! its own. `stream_series` runs the trials, asks the verdict what limits them, and writes the result.

mod copies;
pub(super) mod search;
pub(super) mod trial;

pub(super) use copies::copy_sources;
pub(super) use search::{StreamFit, StreamSearch};
pub(super) use trial::{TrialObserver, TrialResult};
