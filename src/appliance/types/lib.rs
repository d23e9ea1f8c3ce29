// SPDX-License-Identifier: Apache-2.0
//! Plain data types of the pipeline, and small computations on them that several crates share. No I/O, no threads; the only
//! dependency is the lock of the shared image memory.
//!
//! Boxes are `xyxy`, `f32`, in source pixels unless the name states otherwise: `[left, top, right, bottom]`, where the
//! right and bottom edges are exclusive (a box over a whole 640×480 image is `[0, 0, 640, 480]`).

mod access_unit;
mod analytics_event;
mod attribute;
mod audio;
mod backoff;
mod classes;
mod detection;
mod event;
mod frame;
mod frame_clock;
mod geometry;
mod image_budget;
mod media_clock;
mod named_enum;
mod pixel_pool;
mod quantile;
mod rate;
mod region;
mod rng;
mod similarity;
mod size;
mod source;
mod statistics;
mod track;

pub use access_unit::{AccessUnit, StreamFormat, VideoCodec};
pub use analytics_event::{AnalyticsEvent, AnalyticsEventKind, Crossings, Side, ZoneCount};
pub use attribute::{Attribute, Attributes};
pub use audio::{AudioFormat, AudioUnit};
pub use backoff::Backoff;
pub use classes::{Classes, LabelGroup, renamed_label};
pub use detection::{Detection, Xyxy, area, intersection_over_union};
pub use event::{EventKind, TrackEvent};
pub use frame::{Frame, FrameMeta, GroundTruthBox, Image, PIXEL_BYTES};
pub use frame_clock::FrameClock;
pub use geometry::{Letterbox, Placement};
pub use image_budget::{BudgetedImage, ImageBudget};
pub use media_clock::MediaClock;
pub use pixel_pool::{PixelPool, PooledPixels};
pub use quantile::quantile;
pub use rate::{Ranking, Rate, student_t_95};
pub use region::{Crop, Region};
pub use rng::{SplitMix64, hash64, mix64};
pub use similarity::Similarity;
pub use size::{PixelAspect, Size};
pub use source::{SourceId, SourceState};
pub use statistics::{mean, standard_deviation};
pub use track::{Track, TrackId, TrackState};
