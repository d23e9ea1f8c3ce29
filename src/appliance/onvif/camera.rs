// SPDX-License-Identifier: Apache-2.0
//! What one camera says of itself: its maker and model, and its streams with their addresses.

use std::cmp::Reverse;
use std::path::Path;

use roxmltree::Node;

use crate::connection::Connect;
use crate::soap::{Client, Request};
use crate::{Login, OnvifError, address, xml};

const DEVICE: &str = "http://www.onvif.org/ver10/device/wsdl";
/// The older service for media, whose streams are Motion JPEG, MPEG-4 and H.264, and the newer one.
const MEDIA: &str = "http://www.onvif.org/ver10/media/wsdl";
const MEDIA2: &str = "http://www.onvif.org/ver20/media/wsdl";
const EVENTS: &str = "http://www.onvif.org/ver10/events/wsdl";
const SCHEMA: &str = "http://www.onvif.org/ver10/schema";

/// A camera or a recorder.
#[derive(Debug, Clone, PartialEq)]
pub struct Camera {
    /// The address of its device service.
    pub address: String,
    /// Its maker; `None` where it does not say.
    pub manufacturer: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// Version of its program.
    pub firmware: Option<String>,
    /// Seconds by which its clock is ahead of this machine's; `None` where it does not say.
    pub clock_skew_s: Option<i64>,
    /// Whether it reports events.
    pub has_events: bool,
    /// Its streams, of each video input the largest first.
    pub streams: Vec<Stream>,
}

/// A stream of a camera.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// The camera's name for it.
    pub name: String,
    /// Its video input, of a recorder one of several.
    pub input: Option<String>,
    /// Its codec, as ONVIF names it: H264, H265, JPEG, MPV4-ES.
    pub codec: Option<String>,
    /// Width and height in pixels.
    pub size: Option<[u32; 2]>,
    /// Maximum number of frames per second.
    pub frame_rate: Option<f64>,
    /// Frames from one key frame to the next.
    pub key_frame_interval: Option<u32>,
    /// Whether it has sound.
    pub has_sound: bool,
    /// Its address, as it is reached from here; else why the camera gives none.
    pub uri: Result<String, String>,
}

impl Camera {
    /// Asks the camera whose device service is at `address` for its streams. Some requests, each with a time-out of 5 s. Over TLS, the
    /// certificates in `ca_file` are trusted; without it, those of the system.
    ///
    /// # Errors
    /// It does not answer, has a certificate that is not trusted, demands or refuses the login, or has no service for media.
    pub fn describe(
        address: &str,
        login: Option<&Login>,
        ca_file: Option<&Path>,
    ) -> Result<Self, OnvifError> {
        let connect = Connect {
            ca_file: ca_file.map(Path::to_owned),
            ..Connect::default()
        };
        let (client, clock_skew_s) = client(address, login, connect)?;
        let services = services(&client, address)?;
        let of_device = Request {
            name: "GetDeviceInformation",
            namespace: DEVICE,
            ..Request::default()
        };
        let said = match client.call(address, of_device) {
            Ok(said) => Some(said),
            Err(error @ (OnvifError::NeedsLogin { .. } | OnvifError::Refused { .. })) => {
                return Err(error);
            }
            // It is for people alone.
            Err(error) => {
                log::debug!("{error}");
                None
            }
        };
        let said = said.as_deref().and_then(|said| xml::parse(said).ok());
        let of_device = |name| Some(xml::text(said.as_ref()?.root(), &[name])?.to_owned());
        Ok(Self {
            manufacturer: of_device("Manufacturer"),
            model: of_device("Model"),
            firmware: of_device("FirmwareVersion"),
            clock_skew_s,
            has_events: services.events.is_some(),
            streams: streams(&client, &services)?,
            address: address.to_owned(),
        })
    }
}

/// A client of the camera, and how many seconds its clock is ahead of this machine's.
pub(crate) fn client(
    address: &str,
    login: Option<&Login>,
    connect: Connect,
) -> Result<(Client, Option<i64>), OnvifError> {
    let client = Client::new(address, login.cloned(), connect);
    let skew_s = clock_skew(&client, address)?;
    client.skew_s.set(skew_s.unwrap_or(0));
    Ok((client, skew_s))
}

/// How many seconds the camera's clock is ahead of this machine's; `None` where it does not say, or wants a login for this.
fn clock_skew(client: &Client, address: &str) -> Result<Option<i64>, OnvifError> {
    let request = Request {
        name: "GetSystemDateAndTime",
        namespace: DEVICE,
        // The login depends on the clock.
        is_open: true,
        ..Request::default()
    };
    let answer = match client.call(address, request) {
        Ok(answer) => answer,
        Err(error @ (OnvifError::NoAnswer { .. } | OnvifError::Tls { .. })) => return Err(error),
        // lumeohq/onvif-rs 65: cameras that want a login here.
        Err(_) => return Ok(None),
    };
    let said = xml::parse(&answer).ok().and_then(|document| {
        let utc = xml::first(document.root(), &["UTCDateTime"])?;
        let number = |path: &[&'static str]| xml::text(utc, path)?.parse::<i16>().ok();
        let small = |path: &[&'static str]| i8::try_from(number(path)?).ok();
        let date = jiff::civil::Date::new(number(&["Year"])?, small(&["Month"])?, small(&["Day"])?)
            .ok()?;
        let time = jiff::civil::Time::new(
            small(&["Hour"])?,
            small(&["Minute"])?,
            small(&["Second"])?,
            0,
        )
        .ok()?;
        date.to_datetime(time)
            .to_zoned(jiff::tz::TimeZone::UTC)
            .ok()
    });
    Ok(said.map(|said| said.timestamp().as_second() - jiff::Timestamp::now().as_second()))
}

/// Addresses of the services of a camera.
#[derive(Default)]
pub(crate) struct Services {
    /// The older and the newer service for media.
    media: Option<String>,
    media2: Option<String>,
    pub(crate) events: Option<String>,
}

pub(crate) fn services(client: &Client, address: &str) -> Result<Services, OnvifError> {
    let request = Request {
        name: "GetServices",
        namespace: DEVICE,
        body: "<IncludeCapability>false</IncludeCapability>",
        ..Request::default()
    };
    let reached = |given: &str| address::service(given, address);
    let services = match client.call(address, request) {
        Ok(answer) => answer,
        // Cameras older than this request.
        Err(OnvifError::Fault { .. } | OnvifError::Answer { .. }) => String::new(),
        Err(error) => return Err(error),
    };
    let of = |wanted: &str| {
        let document = xml::parse(&services).ok()?;
        xml::all(document.root(), "Service")
            .find(|service| xml::text(*service, &["Namespace"]) == Some(wanted))
            .and_then(|service| Some(reached(xml::text(service, &["XAddr"])?)))
    };
    let found = Services {
        media: of(MEDIA),
        media2: of(MEDIA2),
        events: of(EVENTS),
    };
    if found.media.is_some() || found.media2.is_some() {
        return Ok(found);
    }
    let request = Request {
        name: "GetCapabilities",
        namespace: DEVICE,
        body: "<Category>All</Category>",
        ..Request::default()
    };
    let answer = client.call(address, request)?;
    let document = xml::parse(&answer).ok();
    let of = |name| {
        let document = document.as_ref()?;
        xml::text(document.root(), &["Capabilities", name, "XAddr"]).map(reached)
    };
    Ok(Services {
        // Where even that is missing, the older service is mostly at the same address.
        media: Some(of("Media").unwrap_or_else(|| address.to_owned())),
        media2: None,
        events: of("Events"),
    })
}

/// Streams by the newer service, else by the older one: that names H.265 something else, or leaves such streams out.
fn streams(client: &Client, services: &Services) -> Result<Vec<Stream>, OnvifError> {
    let services = [
        (services.media2.as_deref(), MEDIA2, "<Type>All</Type>"),
        (services.media.as_deref(), MEDIA, ""),
    ];
    let mut last = Ok(Vec::new());
    for (url, namespace, body) in services {
        let Some(url) = url else {
            continue;
        };
        let request = Request {
            name: "GetProfiles",
            namespace,
            body,
            ..Request::default()
        };
        match client.call(url, request) {
            Ok(answer) => {
                let document = xml::parse(&answer).expect("it was parsed before");
                let profiles = xml::all(document.root(), "Profiles");
                let mut streams: Vec<Stream> = profiles
                    .filter_map(|profile| stream(client, url, namespace, profile))
                    .collect();
                if !streams.is_empty() {
                    let pixels = |stream: &Stream| {
                        stream
                            .size
                            .map_or(0, |[width, height]| u64::from(width) * u64::from(height))
                    };
                    streams.sort_by_cached_key(|stream| {
                        (stream.input.clone(), Reverse(pixels(stream)))
                    });
                    return Ok(streams);
                }
                last = Ok(Vec::new());
            }
            Err(error @ (OnvifError::NeedsLogin { .. } | OnvifError::Refused { .. })) => {
                return Err(error);
            }
            Err(error) => last = Err(error),
        }
    }
    last
}

/// The stream of a profile; `None` of one without video.
fn stream(
    client: &Client,
    url: &str,
    namespace: &'static str,
    profile: Node<'_, '_>,
) -> Option<Stream> {
    let token = profile.attribute("token")?;
    let encoder = xml::first(profile, &["VideoEncoderConfiguration"])
        .or(xml::first(profile, &["VideoEncoder"]))?;
    let number = |path: &[&'static str]| xml::text(encoder, path)?.parse().ok();
    let size = || {
        Some([
            number(&["Resolution", "Width"])?,
            number(&["Resolution", "Height"])?,
        ])
    };
    let interval = encoder
        .attribute("GovLength")
        .or(xml::text(encoder, &["GovLength"]));
    let sound = ["AudioEncoderConfiguration", "AudioEncoder"];
    Some(Stream {
        name: xml::text(profile, &["Name"]).unwrap_or(token).to_owned(),
        input: xml::text(profile, &["SourceToken"]).map(str::to_owned),
        codec: xml::text(encoder, &["Encoding"]).map(str::to_uppercase),
        size: size(),
        frame_rate: xml::text(encoder, &["FrameRateLimit"]).and_then(|rate| rate.parse().ok()),
        key_frame_interval: interval.and_then(|frames| frames.trim().parse().ok()),
        has_sound: sound
            .iter()
            .any(|name| xml::first(profile, &[name]).is_some()),
        uri: stream_uri(client, url, namespace, token),
    })
}

fn stream_uri(
    client: &Client,
    url: &str,
    namespace: &'static str,
    token: &str,
) -> Result<String, String> {
    let token = xml::escape(token);
    let body = match namespace {
        MEDIA2 => format!("<Protocol>RTSP</Protocol><ProfileToken>{token}</ProfileToken>"),
        _ => format!(
            "<StreamSetup><Stream xmlns=\"{SCHEMA}\">RTP-Unicast</Stream><Transport xmlns=\"{SCHEMA}\"><Protocol>RTSP</Protocol></Transport>\
             </StreamSetup><ProfileToken>{token}</ProfileToken>"
        ),
    };
    let request = Request {
        name: "GetStreamUri",
        namespace,
        body: &body,
        ..Request::default()
    };
    let answer = client
        .call(url, request)
        .map_err(|error| error.to_string())?;
    let document = xml::parse(&answer)?;
    let given = xml::text(document.root(), &["Uri"]).ok_or("the camera gives no address for it")?;
    Ok(address::stream(given, url, client.has_login()))
}
