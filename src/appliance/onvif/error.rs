// SPDX-License-Identifier: Apache-2.0
//! Why a camera cannot be asked.

/// Why the camera at `address` gives no streams.
#[allow(missing_docs)] // The messages explain the variants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OnvifError {
    #[error(
        "`{address}` is not an address of a camera: expected a host, host:port or http://host/onvif/device_service"
    )]
    Address { address: String },
    #[error(
        "{address}: no answer: {reason}; is the address right, and is ONVIF switched on in the settings of the camera?"
    )]
    NoAnswer { address: String, reason: String },
    /// Its certificate, or the file of those to trust.
    #[error("{address}: {reason}")]
    Tls { address: String, reason: String },
    #[error(
        "{address}: the camera asks for user and password; cameras often have users of their own for ONVIF"
    )]
    NeedsLogin { address: String },
    #[error(
        "{address}: the camera refuses user or password; many cameras need a user that was added for ONVIF in their settings, and lock it \
         after a few attempts{skew}",
        skew = skew(*.skew_s)
    )]
    Refused {
        address: String,
        /// Seconds by which the camera's clock is ahead of this machine's.
        skew_s: i64,
    },
    #[error(
        "{address}: the camera reports no events (it has no service for them); leave `onvif` out"
    )]
    NoEvents { address: String },
    #[error("{address}: {request} is refused: {reason}")]
    Fault {
        address: String,
        request: &'static str,
        reason: String,
    },
    #[error("{address}: the answer to {request} is not one of ONVIF: {reason}")]
    Answer {
        address: String,
        request: &'static str,
        reason: String,
    },
}

/// Seconds that most cameras allow a clock to differ.
const USUAL_SKEW_S: i64 = 5;

fn skew(seconds: i64) -> String {
    if seconds.abs() <= USUAL_SKEW_S {
        return String::new();
    }
    let direction = if seconds > 0 { "ahead" } else { "behind" };
    format!(
        "; its clock is {} s {direction}, which was taken into account: set it by NTP",
        seconds.abs()
    )
}
