// SPDX-License-Identifier: Apache-2.0
//! `rtsp://USER:PASSWORD@HOST:PORT/PATH`, and the same of HTTP.
//!
//! The address is cut apart by hand and not by a URL crate, because cameras compare paths byte by byte and a URL crate
//! normalizes them.

use std::net::Ipv6Addr;
use std::time::Duration;

use percent_encoding::percent_decode_str;

use super::{UriError, check_escapes};
use crate::{RtspTransport, Secret, SourceUri};

/// Reads what stands behind `scheme://`.
///
/// # Errors
/// The accepted form, with a hint.
pub(crate) fn parse(scheme: &str, rest: &str) -> Result<SourceUri, UriError> {
    let (location, user, password) = address(scheme, rest)?;
    Ok(match scheme.starts_with(['r', 'R']) {
        true => SourceUri::Rtsp {
            location,
            user,
            password,
            transport: RtspTransport::Tcp,
            latency: Duration::from_millis(200),
        },
        false => SourceUri::Http {
            location,
            user,
            password,
            poll: Duration::from_secs(1),
        },
    })
}

/// The address without credentials, and these.
type Address = (String, Option<String>, Option<Secret>);

fn address(scheme: &str, rest: &str) -> Result<Address, UriError> {
    let scheme = scheme.to_ascii_lowercase();
    let form = format!("{scheme}://USER:PASSWORD@HOST:PORT/PATH, where only HOST is needed");
    let form = form.as_str();
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (userinfo, host_port) = match authority.rsplit_once('@') {
        Some((userinfo, host_port)) => (Some(userinfo), host_port),
        None => (None, authority),
    };
    if path.contains(|c: char| c.is_whitespace()) {
        return Err(UriError::with_hint(form, "write a space as %20"));
    }
    if let Err(hint) = split_host_port(host_port) {
        // The usual cause: everything behind an unescaped slash in the password is taken for the path.
        let hint = match userinfo {
            None if path.contains('@') => {
                "in a user name or password write `/` as %2F, `?` as %3F, `#` as %23, `@` as %40"
                    .to_owned()
            }
            None if authority.contains(':') => format!("{hint}; behind a password comes `@`"),
            _ => hint,
        };
        return Err(UriError::with_hint(form, hint));
    }
    let (user, password) = match userinfo {
        None => (None, None),
        Some(userinfo) => {
            let (user, password) = userinfo.split_once(':').ok_or_else(|| {
                UriError::with_hint(form, "a user name needs a password: USER:PASSWORD@; nothing behind the colon for an empty one")
            })?;
            let user = decode(user).map_err(|hint| UriError::with_hint(form, hint))?;
            let password = decode(password).map_err(|hint| UriError::with_hint(form, hint))?;
            if user.is_empty() {
                return Err(UriError::with_hint(form, "the user name is empty"));
            }
            (Some(user), Some(Secret::Inline(password)))
        }
    };
    Ok((format!("{scheme}://{host_port}{path}"), user, password))
}

/// `udp://ADDRESS:PORT`, `srt://HOST:PORT` or `rtmp://HOST/PATH`, with what GStreamer's element of that scheme reads behind it.
///
/// # Errors
/// The accepted form, with a hint.
pub(crate) fn stream(scheme: &str, rest: &str) -> Result<SourceUri, UriError> {
    let scheme = scheme.to_ascii_lowercase();
    let form = format!(
        "{scheme}://HOST:PORT, as in {scheme}://{}",
        match scheme.as_str() {
            "udp" => "239.1.1.1:5000, or udp://0.0.0.0:5000 for this machine's own address",
            "srt" => "192.0.2.7:7001?mode=caller",
            _ => "192.0.2.7/live/stream",
        }
    );
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let host_port = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let is_listener = scheme == "srt" && host_port.starts_with(':');
    let has_port = match is_listener {
        true => Ok(true),
        false => split_host_port(host_port).map(|(_, port)| port.is_some()),
    };
    match has_port {
        Err(hint) => Err(UriError::with_hint(form, hint)),
        Ok(false) if scheme != "rtmp" && scheme != "rtmps" => {
            Err(UriError::with_hint(form, "the port is missing"))
        }
        Ok(_) if rest.contains(|c: char| c.is_whitespace()) => {
            Err(UriError::with_hint(form, "write a space as %20"))
        }
        Ok(_) => Ok(SourceUri::Stream(format!("{scheme}://{rest}"))),
    }
}

/// `HOST` or `HOST:PORT` of any URL; an IPv6 address stands in brackets, which the host given back no longer has.
///
/// # Errors
/// A hint: what to write instead.
pub(crate) fn split_host_port(text: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = if let Some(bracketed) = text.strip_prefix('[') {
        let (host, port) = bracketed.split_once(']').ok_or("a bracket is not closed")?;
        host.parse::<Ipv6Addr>()
            .map_err(|_| "between brackets stands an IPv6 address")?;
        match port.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if port.is_empty() => (host, None),
            None => return Err("behind the bracket comes a colon and the port".to_owned()),
        }
    } else {
        match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err("an IPv6 address stands in brackets".to_owned());
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    if host.is_empty() {
        return Err("the host is missing".to_owned());
    }
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    if !text.starts_with('[') && !host.chars().all(is_name) {
        return Err("a host name has letters, digits, `.`, `-` and `_`".to_owned());
    }
    let port = match port {
        None => None,
        Some(port) => match port.parse::<u16>() {
            // `+80` would parse as a number.
            Ok(number) if number > 0 && port.bytes().all(|b| b.is_ascii_digit()) => Some(number),
            _ => return Err("a port is a whole number from 1 to 65535".to_owned()),
        },
    };
    Ok((host.to_owned(), port))
}

fn decode(text: &str) -> Result<String, String> {
    check_escapes(text)?;
    let decoded = percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| "the decoded text is not UTF-8")?;
    if decoded.chars().any(char::is_control) {
        return Err("control characters are not accepted".to_owned());
    }
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{parsed, refused};
    use super::*;

    fn rtsp_of(location: &str, credentials: Option<(&str, &str)>) -> SourceUri {
        SourceUri::Rtsp {
            location: location.to_owned(),
            user: credentials.map(|(user, _)| user.to_owned()),
            password: credentials.map(|(_, password)| Secret::Inline(password.to_owned())),
            transport: RtspTransport::Tcp,
            latency: Duration::from_millis(200),
        }
    }

    #[test]
    fn rtsp_uri_keeps_path_and_hides_credentials() {
        #[rustfmt::skip]
        let cases = [
            ("rtsp://cam", rtsp_of("rtsp://cam", None)),
            ("RTSPS://cam:322/a//b/../c?x=1&y=%20#z", rtsp_of("rtsps://cam:322/a//b/../c?x=1&y=%20#z", None)),
            ("rtsp://admin:a%2Fb%40c@cam/1", rtsp_of("rtsp://cam/1", Some(("admin", "a/b@c")))),
            ("rtsp://admin:a@b@[fe80::1]:554/1", rtsp_of("rtsp://[fe80::1]:554/1", Some(("admin", "a@b")))),
            ("rtsp://%C3%BC:@cam", rtsp_of("rtsp://cam", Some(("ü", "")))),
            ("rtsp://a:b:c@cam", rtsp_of("rtsp://cam", Some(("a", "b:c")))),
        ];
        for (text, wanted) in cases {
            assert_eq!(parsed(text), wanted, "{text}");
        }
        #[rustfmt::skip]
        let cases = [
            ("rtsp://", "the host is missing"),
            ("rtsp://:554/1", "the host is missing"),
            ("rtsp://cam:port/1", "a port is a whole number from 1 to 65535"),
            ("rtsp://cam:+80", "a port is"),
            ("rtsp://cam:0", "a port is"),
            ("rtsp://admin:hunter", "65535; behind a password comes `@`"),
            ("rtsp://cam:65536", "a port is"),
            ("rtsp://fe80::1/1", "an IPv6 address stands in brackets"),
            ("rtsp://[fe80::1", "a bracket is not closed"),
            ("rtsp://[cam]", "between brackets stands an IPv6 address"),
            ("rtsp://[::1]554", "behind the bracket"),
            ("rtsp://ca m/1", "a host name has"),
            ("rtsp://cam/a b", "write a space as %20"),
            ("rtsp://admin@cam", "a user name needs a password"),
            ("rtsp://:b@cam", "the user name is empty"),
            ("rtsp://admin:hunter/2@cam/1", "write `/` as %2F"),
            ("rtsp://admin:100%@cam/1", "write `%` as %25"),
            ("rtsp://admin:%FF@cam", "not UTF-8"),
            ("rtsp://admin:%0a@cam", "control characters"),
        ];
        for (text, wanted) in cases {
            let found = refused(text);
            assert!(found.contains(wanted), "{text} gave {found}");
            assert!(!found.contains("hunter"), "{found}");
        }
    }
}
