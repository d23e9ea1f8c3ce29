// SPDX-License-Identifier: Apache-2.0
//! `onvif` of a source: what the camera reports of itself, beside its video.

use super::credentials::LoginKeys;
use super::publish::{self, Credentials};
use super::section::Section;
use super::yaml::map::Map;
use super::{SourceUri, Words};

/// Events that the camera reports by ONVIF.
#[derive(Debug, Clone, PartialEq, Section)]
pub struct OnvifConfig {
    /// Which events are followed.
    pub events: OnvifEvents,
    /// The camera's ONVIF; with https://, ca_file of the source holds for it. Default: port 80 of the host of `uri`.
    #[key(text = "a host, host:port or http://host/onvif/device_service", check = is_address)]
    pub address: Option<String>,
    /// Of a recorder: the token of the video input to follow, as `jetwatch discover --json` lists it. Default: all inputs.
    #[key(text = "the token of a video input")]
    pub input: Option<String>,
    /// User and where the password comes from. Default: those of the source.
    #[key(keys = LoginKeys, read = publish::login)]
    pub credentials: Option<Credentials>,
}

/// Events that are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum OnvifEvents {
    /// Whether the camera sees motion: published, and a trigger of clips by record.clips.trigger.
    Motion,
}

fn is_address(text: &str) -> bool {
    let rest = text
        .strip_prefix("http://")
        .or(text.strip_prefix("https://"));
    let rest = rest.unwrap_or(text);
    !rest.is_empty() && !rest.contains("://") && !rest.contains(['@', ' '])
}

/// An address is needed where the source has none.
pub(super) fn check(map: &Map<'_>, uri: &SourceUri) {
    let has_host = matches!(uri, SourceUri::Rtsp { .. } | SourceUri::Http { .. });
    if !has_host
        && map.has("onvif")
        && let Some(onvif) = map.section("onvif")
        && !onvif.has("address")
    {
        onvif.missing(
            "address",
            "the camera: a host or host:port, since uri names none",
        );
    }
}
