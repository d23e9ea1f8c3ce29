// SPDX-License-Identifier: Apache-2.0
//! The page of the daemon: pictures with boxes, events as they happen, the machine, zones and lines, over HTTP/1.
//!
//! ```text
//! pipeline ──► Hub (messages), PictureBoard (newest picture of each source), Backend (configuration, reports)
//!                     └──────────────┴──────────────────────────┴──► WebServer on the thread `web` ──► browsers
//! ```
//!
//! The pipeline's glue hands in data through [`Hub`], [`PictureBoard`] and the trait [`Backend`]; this crate knows neither a source
//! nor a sink, and draws nothing. All work of a request is done on the threads of this crate. Every buffer between the pipeline
//! and a client has a limit: what a client is too slow for is left out.

mod auth;
mod backend;
mod error;
mod event_query;
mod http;
mod hub;
mod media;
mod pictures;
mod server;

pub use auth::{PageLink, Scope, TokenSummary, UserError, UserSummary, Users};
pub use backend::{
    Backend, CameraFinder, CameraJob, CameraMotion, CameraQuery, NewCamera, RuleEdit, RuleKeys,
    RuleOutcome, RulesRequest,
};
pub use error::WebError;
pub use http::{EndpointSummary, endpoints};
pub use hub::{Hub, StatsPoint, TrackStep};
pub use media::{
    LiveStream, LiveStreams, MediaContent, MediaLibrary, MediaPage, MediaPart, MediaQuery,
    MediaSort, MediaStream, ObjectLibrary, ObjectPage, ObjectQuery, OpenedStream,
};
pub use pictures::{CameraSlot, Look, Picture, PictureBoard};
pub use server::{WebServer, check};
