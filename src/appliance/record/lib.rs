// SPDX-License-Identifier: Apache-2.0
//! Annotated recording of images, without a GPU.
//!
//! [`Overlay`] draws the results of a frame on a [`Canvas`](jetwatch_pixels::Canvas). [`Snapshots`] keeps the best picture of each
//! track as a JPEG file, made by a [`PictureEncoder`]. [`Recording`] runs all of that on its own thread and passes the images to the
//! selected encoder.
//!
//! ```text
//!   track ── full image, tracks ──► queue ──► record: copy or tile, draw, encode ──► file
//!                                   └─► when full: frames of live sources are dropped and counted, readers of files wait
//! ```

mod encoders;
mod error;
mod jpeg_pipeline;
mod overlay;
mod picture_encoder;
mod recorder_thread;
mod recording;
mod snapshots;
mod tiles;
mod video_writer;

pub use encoders::{Container, Encoder, EncoderChoice};
pub use error::RenderError;
pub use overlay::{Overlay, Viewport};
pub use picture_encoder::{PictureEncoder, picture_element};
pub use recording::{Recording, RecordingEnd, RecordingReport};
pub use snapshots::{
    BestSoFar, EndingSnapshots, PictureObserver, SnapshotPicture, SnapshotReport, SnapshotSettings,
    Snapshots, picture_quality,
};
