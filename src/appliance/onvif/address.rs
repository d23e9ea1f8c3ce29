// SPDX-License-Identifier: Apache-2.0
//! Addresses: of a camera as people write them, and those that a camera gives, which may be wrong from here.

use std::net::IpAddr;

use crate::OnvifError;

/// Path of the device service where a camera does not give another.
const DEVICE_PATH: &str = "/onvif/device_service";

/// The address of the device service for what a person typed: a host, `host:port`, or the whole address.
///
/// # Errors
/// It has another scheme, or no host.
pub fn device_service(typed: &str) -> Result<String, OnvifError> {
    let typed = typed.trim();
    let wrong = || OnvifError::Address {
        address: typed.to_owned(),
    };
    let with_scheme = match typed.split_once("://") {
        Some(("http" | "https", _)) => typed.to_owned(),
        Some(_) => return Err(wrong()),
        None if typed.parse::<std::net::Ipv6Addr>().is_ok() => format!("http://[{typed}]"),
        None => format!("http://{typed}"),
    };
    let parts = Parts::of(&with_scheme).ok_or_else(wrong)?;
    let is_host = |c: char| c.is_alphanumeric() || "-._:[]%".contains(c);
    if parts.host.is_empty() || !parts.host.chars().all(is_host) {
        return Err(wrong());
    }
    Ok(match parts.path {
        "" | "/" => format!("{}://{}{DEVICE_PATH}", parts.scheme, parts.authority),
        _ => with_scheme,
    })
}

/// `given`, an address of a service of the camera, as it is reached from here, where `asked` reaches the camera. A camera behind a router
/// gives its own address, and some give that of their loopback interface: the host is then that of `asked`, and so is the port, which
/// the router may have changed, unless the address is one that can only mean the camera itself. Names of hosts are kept. A camera that is
/// asked over TLS may give addresses without: it is asked on over TLS, and never gets a login without.
pub(crate) fn service(given: &str, asked: &str) -> String {
    let (Some(to), Some(by)) = (Parts::of(given), Parts::of(asked)) else {
        return given.to_owned();
    };
    if (by.scheme, to.scheme) == ("https", "http") {
        return at_host_of(given, asked);
    }
    if to.host == by.host || !is_address(to.host) {
        return given.to_owned();
    }
    let authority = match is_unreachable(to.host) {
        true => with_port(by.host, to.port),
        false => by.authority.to_owned(),
    };
    format!("{}://{authority}{}", to.scheme, to.path)
}

/// `given` with the host and the port of `asked`.
pub(crate) fn at_host_of(given: &str, asked: &str) -> String {
    match (Parts::of(given), Parts::of(asked)) {
        (Some(to), Some(by)) => format!("{}://{}{}", by.scheme, by.authority, to.path),
        _ => asked.to_owned(),
    }
}

/// `given`, the address of a stream, with the host of `asked`. Its port stays: it is that of another protocol. User and password within it
/// are left out where the caller has them.
pub(crate) fn stream(given: &str, asked: &str, has_login: bool) -> String {
    let (Some(to), Some(by)) = (Parts::of(given), Parts::of(asked)) else {
        return given.to_owned();
    };
    let is_right = to.host == by.host || !is_address(to.host);
    if is_right && !has_login {
        return given.to_owned();
    }
    let host = if is_right { to.host } else { by.host };
    format!("{}://{}{}", to.scheme, with_port(host, to.port), to.path)
}

/// Of the addresses that a camera announces, the best to reach it by from here, where its answer came from `sender`.
pub(crate) fn best_of(announced: &[&str], sender: IpAddr) -> Option<String> {
    let host = match sender {
        IpAddr::V4(sender) => sender.to_string(),
        IpAddr::V6(sender) => format!("[{sender}]"),
    };
    let of_sender = announced
        .iter()
        .find(|address| Parts::of(address).is_some_and(|parts| parts.host == host));
    if let Some(address) = of_sender {
        return Some((*address).to_owned());
    }
    // Of several networks, the camera is in that from which it answered.
    let parts = announced.iter().find_map(|address| Parts::of(address))?;
    let authority = with_port(&host, parts.port);
    Some(format!("{}://{authority}{}", parts.scheme, parts.path))
}

fn with_port(host: &str, port: Option<&str>) -> String {
    port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Whether the host is given by its address, so that it may be one of another network. A name was chosen by a person.
fn is_address(host: &str) -> bool {
    host == "localhost" || ip(host).is_some()
}

/// Whether no other machine can have this address.
fn is_unreachable(host: &str) -> bool {
    host == "localhost" || ip(host).is_some_and(|ip| ip.is_loopback() || ip.is_unspecified())
}

fn ip(host: &str) -> Option<IpAddr> {
    host.trim_matches(['[', ']']).parse().ok()
}

/// The host of an address, without port and brackets.
pub fn host(address: &str) -> &str {
    Parts::of(address).map_or(address, |parts| parts.host.trim_matches(['[', ']']))
}

/// An address in its parts, without user and password.
struct Parts<'a> {
    scheme: &'a str,
    /// Host and port.
    authority: &'a str,
    /// With the brackets of IPv6.
    host: &'a str,
    port: Option<&'a str>,
    /// With the query.
    path: &'a str,
}

impl<'a> Parts<'a> {
    fn of(address: &'a str) -> Option<Self> {
        let (scheme, rest) = address.trim().split_once("://")?;
        let (authority, path) = rest
            .find(['/', '?'])
            .map_or((rest, ""), |at| rest.split_at(at));
        let authority = authority
            .rsplit_once('@')
            .map_or(authority, |(_, host)| host);
        let is_port = |port: &str| !port.is_empty() && port.chars().all(|c| c.is_ascii_digit());
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if is_port(port) && (!host.contains(':') || host.ends_with(']')) => {
                (host, Some(port))
            }
            _ => (authority, None),
        };
        (!host.is_empty()).then_some(Self {
            scheme,
            authority,
            host,
            port,
            path,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type_becomes_the_address_of_the_device_service() {
        #[rustfmt::skip]
        let cases = [
            ("192.168.1.20", "http://192.168.1.20/onvif/device_service"),
            ("gate.local:8000 ", "http://gate.local:8000/onvif/device_service"),
            ("http://gate/", "http://gate/onvif/device_service"),
            ("https://gate/device", "https://gate/device"),
            ("fd00::5", "http://[fd00::5]/onvif/device_service"),
        ];
        for (typed, address) in cases {
            assert_eq!(device_service(typed).as_deref(), Ok(address));
        }
        for wrong in ["rtsp://gate/1", "", "http://", "a b", "user@"] {
            let error = device_service(wrong).expect_err(wrong);
            assert!(error.to_string().contains("host:port"), "{error}");
        }
    }

    /// agsh/onvif 41 and 170, frigate 18352 (the camera's own address behind a router), Xiaomi-Dafang-Hacks 1752 (its loopback address).
    #[test]
    fn addresses_that_a_camera_gives_are_reached_from_here() {
        #[rustfmt::skip]
        let cases = [
            ("http://10.0.0.5/media", "http://10.0.0.5/device", "http://10.0.0.5/media", "http://10.0.0.5/media"),
            ("http://192.168.0.10:80/m", "http://8.8.8.8:8001/d", "http://8.8.8.8:8001/m", "http://8.8.8.8:80/m"),
            ("http://127.0.0.1:8080/m", "http://10.0.0.5/d", "http://10.0.0.5:8080/m", "http://10.0.0.5:8080/m"),
            ("rtsp://0.0.0.0:554/1?a=b&c", "http://[fd00::5]:80/d", "rtsp://[fd00::5]:554/1?a=b&c", "rtsp://[fd00::5]:554/1?a=b&c"),
            ("rtsp://192.168.0.10/1", "http://cam:8000/d", "rtsp://cam:8000/1", "rtsp://cam/1"),
            ("rtsp://media.example/1", "http://10.0.0.5/d", "rtsp://media.example/1", "rtsp://media.example/1"),
        ];
        for given in ["http://10.0.0.5/m", "http://10.0.0.9:80/m", "http://cam/m"] {
            let reached = super::service(given, "https://10.0.0.5:8443/d");
            assert_eq!(reached, "https://10.0.0.5:8443/m");
        }
        for (given, asked, service, stream) in cases {
            assert_eq!(super::service(given, asked), service);
            assert_eq!(super::stream(given, asked, false), stream);
            assert_eq!(super::stream(given, asked, true), stream);
        }
    }

    /// home-assistant/core 41815: user and password twice.
    #[test]
    fn user_and_password_within_the_address_of_a_stream_are_left_out_beside_a_login() {
        let given = "rtsp://admin:a@b@10.0.0.5:554/1";
        let asked = "http://10.0.0.5/d";
        assert_eq!(stream(given, asked, true), "rtsp://10.0.0.5:554/1");
        assert_eq!(stream(given, asked, false), given);
    }

    #[test]
    fn the_address_in_the_network_of_the_answer_is_taken() {
        let sender = IpAddr::from([192, 168, 1, 20]);
        #[rustfmt::skip]
        let cases = [
            (&["http://[fe80::1]/d", "http://169.254.3.4/d", "http://192.168.1.20/d"][..], Some("http://192.168.1.20/d")),
            (&["http://10.0.0.9:8080/d"], Some("http://192.168.1.20:8080/d")),
            (&["http://127.0.0.1/d"], Some("http://192.168.1.20/d")),
            (&["nothing"], None),
        ];
        for (announced, best) in cases {
            assert_eq!(best_of(announced, sender).as_deref(), best);
        }
    }
}
