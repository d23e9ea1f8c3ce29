// SPDX-License-Identifier: Apache-2.0
//! How many streams fit: copies of a source at the pace of a camera, and the largest number of them without drops.
//!
//! `search` decides which numbers are tried, `copies` makes the configuration of a trial, `trial` measures one in a process of
//! its own, `load` says which part was nearest its limit, `series` runs the trials and writes the result.

mod copies;
mod load;
mod search;
mod series;
mod text;
mod trial;

pub(crate) use copies::copy_sources;
pub use load::{Limit, PartLoad, find_limit};
pub use search::{StreamFit, StreamSearch, Trials};
pub(crate) use series::run_streams;
pub(crate) use trial::{TrialObserver, TrialResult};
