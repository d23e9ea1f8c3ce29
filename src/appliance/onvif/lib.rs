// SPDX-License-Identifier: Apache-2.0
//! ONVIF cameras: [`discover`] finds them on the network, [`Camera::describe`] asks one for its streams. Not a source: what it returns
//! are addresses for the configuration. Called by `jetwatch discover`.
//!
//! Thin, on purpose: six requests of ONVIF's device and media services, whose answers are read by the names of their elements. Rejected:
//! code generated from ONVIF's WSDL files, tens of thousands of lines for these six, which refuses the answers of many cameras.

mod address;
mod camera;
mod discovery;
mod error;
mod soap;
mod xml;

pub use self::address::{device_service, host};
pub use self::camera::{Camera, Stream};
pub use self::discovery::{Found, PORT, discover, probe};
pub use self::error::OnvifError;
pub use jetwatch_source::digest::Login;
