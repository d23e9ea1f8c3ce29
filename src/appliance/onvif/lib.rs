// SPDX-License-Identifier: Apache-2.0
//! ONVIF cameras: [`discover`] finds them on the network, [`Camera::describe`] asks one for its streams, and a [`Subscription`] brings
//! its events. Not a source: the streams are addresses for the configuration. Called by `jetwatch discover` and by the pipeline.
//!
//! Thin, on purpose: ten requests of ONVIF's services, whose answers are read by the names of their elements. Rejected: code generated
//! from ONVIF's WSDL files, tens of thousands of lines for these ten, which refuses the answers of many cameras.

mod address;
mod camera;
mod connection;
mod discovery;
mod error;
mod events;
mod motion;
mod soap;
mod xml;

pub use self::address::{device_service, host};
pub use self::camera::{Camera, Stream};
pub use self::connection::Interrupt;
pub use self::discovery::{Found, PORT, discover, probe};
pub use self::error::OnvifError;
pub use self::events::Subscription;
pub use self::motion::{Motion, MotionState};
pub use jetwatch_source::digest::Login;
