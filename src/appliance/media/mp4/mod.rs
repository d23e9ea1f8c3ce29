// SPDX-License-Identifier: Apache-2.0
//! Fragmented MP4 (ISO/IEC 14496-12) of one video stream and its sound: an init segment, then fragments that each say when they begin. Pure.
//!
//! A file that ends after any fragment can be played: there is no index that must be written first. The same segments are a
//! stream for a browser's Media Source Extensions. [`ClipFile`](crate::ClipFile) writes files of them.

mod boxes;
mod fragment;
mod init;
mod repair;
mod sound;

pub use fragment::{Fragments, random_access};
pub use init::{TIMESCALE, init_segment, set_duration};
pub use repair::{box_at, complete_length};
pub use sound::SoundFragments;
