// SPDX-License-Identifier: Apache-2.0
//! Values of headers that decide who may ask.

use std::net::{IpAddr, Ipv6Addr};

/// Whether a client that asks for `host`, with a port or without, means this server: it is `localhost`, an address or one of `names`.
/// Others can make names point anywhere, but not addresses.
pub fn is_own_host(host: &str, names: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        // An address of IPv6 has colons itself.
        Some((name, _)) if !name.contains(':') || name.ends_with(']') => name,
        _ => host,
    };
    if let Some(rest) = name.strip_prefix('[') {
        let address = rest.strip_suffix(']');
        return address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
    }
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok()
        || names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// The token of an `Authorization` header.
pub fn bearer_token(header: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = header.split_at_checked("Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_known_names_are_own_hosts() {
        let names = ["box.example".to_owned()];
        for (host, expected) in [
            ("localhost", true),
            ("LOCALHOST:9273", true),
            ("127.0.0.1", true),
            ("192.0.2.7:8080", true),
            ("[::1]", true),
            ("[::1]:9273", true),
            ("::1", true),
            ("Box.example:8080", true),
            ("evil.example:9273", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("box.example.evil.example", false),
            ("[::1", false),
            ("[x]", false),
            ("", false),
        ] {
            assert_eq!(is_own_host(host, &names), expected, "{host}");
        }
    }
}
