// SPDX-License-Identifier: Apache-2.0
//! The motion of a camera, estimated from the pixels of its frames. Pure computation: no threads, no clock, no I/O.
//!
//! ```text
//!   frame ─► GrayReducer ─► GrayImage ─► pyramid ─┬─► coarse shift ─► Lucas-Kanade flow ─► robust fit ─► Similarity
//!            (any thread)   ≤ 160×120             │                        ▲
//!                                                 └─► corners of the frame before, outside of all objects
//! ```
//!
//! The inference workers reduce a frame, in any order, while its image is still there. The tracking stage estimates, in the order
//! of the frames of a source, and moves the boxes of its tracks before it associates them with detections.

mod coarse_shift;
mod corners;
mod estimator;
mod fit;
mod flow;
mod gray;
mod pyramid;
#[cfg(test)]
mod scenes;

pub use estimator::CameraMotion;
pub use gray::{GrayImage, GrayReducer, MAX_GRAY_SIZE};
