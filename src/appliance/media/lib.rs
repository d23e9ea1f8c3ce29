// SPDX-License-Identifier: Apache-2.0
//! Clips and live streams of a camera's own encoded video, without encoding anything again.
//!
//! A source gives its access units to a [`SourceStream`], which keeps the newest in a [ring](Ring). [`ClipMachine`] decides from
//! tracks and events which parts are kept as files, [`ClipFile`] writes one in fragmented [MP4](mp4), and [`LiveStream`] gives a
//! viewer the same fragments as they come. No GStreamer, no clock: it gets bytes with their times.

mod bit_reader;
mod blocks;
mod clip_file;
mod clips;
mod h264;
mod h265;
pub mod mp4;
mod nal;
mod parameter_sets;
mod recorder;
mod ring;
mod sound;
mod stream;
mod timeline;

pub use clip_file::{ClipFacts, ClipFile};
pub use clips::{ClipChange, ClipMachine, ClipTimes};
pub use parameter_sets::{ParameterSets, size_of};
pub use recorder::{
    ClipCommand, ClipLabel, ClipStore, Mark, POLL_INTERVAL, RETRY_INTERVAL, Recorded, Recorder,
    RecorderCounts, StoreError,
};
pub use ring::{Cursor, Ring, RingLimits, RingUnit};
pub use sound::SoundUnit;
pub use stream::{LiveSegment, LiveStream, MAX_LAG, Read, SourceStream, UnitNotice};
pub use timeline::{StreamTime, Timeline, UnitTime};
