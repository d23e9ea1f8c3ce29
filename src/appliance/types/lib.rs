//! FLOOR 0: plain data that travels the chain, and what is computed of it in several rooms. No I/O, no threads, no outside crate.
//!
//! Boxes are `xyxy`, `f32`, in source pixels unless the name says otherwise: `[left, top, right, bottom]`, where the
//! right and bottom edges are exclusive (a box over a whole 640×480 picture is `[0, 0, 640, 480]`).

mod attribute;
mod detection;
mod event;
mod fact;
mod frame;
mod geometry;
mod media_clock;
mod quantile;
mod region;
mod source;
mod track;

pub use attribute::{Attribute, Attributes};
pub use detection::{Detection, Xyxy, area, intersection_over_union};
pub use event::{EventKind, TrackEvent};
pub use fact::{AnalyticsEvent, AnalyticsEventKind, Crossings, Side, ZoneCount};
pub use frame::{Frame, FrameMeta, GroundTruthBox, Image, PIXEL_BYTES};
pub use geometry::{Letterbox, Placement, Size};
pub use media_clock::MediaClock;
pub use quantile::quantile;
pub use region::{Crop, Region};
pub use source::{SourceId, SourceState};
pub use track::{Track, TrackId, TrackState};
