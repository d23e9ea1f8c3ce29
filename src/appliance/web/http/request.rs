// SPDX-License-Identifier: Apache-2.0
//! What a request says of its client: the address, the site that it believes to ask, and the site whose page made it. Headers of
//! proxies count only where the configuration trusts the proxy.

use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, ORIGIN};
use hyper::{Method, Request};

use jetwatch_config::{Network, WebConfig};
use jetwatch_http::{Peer, bearer_token, is_own_host};

/// A request without its body.
#[derive(Debug)]
pub(super) struct Head<'r> {
    pub(super) method: &'r Method,
    /// Without the base path; begins with `/`.
    pub(super) path: &'r str,
    pub(super) query: &'r str,
    pub(super) headers: &'r HeaderMap,
    /// Of the browser, as far as trusted proxies say so.
    pub(super) address: IpAddr,
    /// Whether the browser uses HTTPS.
    pub(super) is_https: bool,
}

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Its path is not below the base path; where it is the base path itself, a slash is missing.
    Path,
    Redirect,
    /// It asks for a site that is not this one: a name of an attacker may point to this address.
    Host,
    /// A page of another site made it.
    Origin,
}

impl<'r> Head<'r> {
    /// What `request` says.
    ///
    /// # Errors
    /// It asks for another site, or another site makes it.
    pub(super) fn read<B>(
        request: &'r Request<B>,
        peer: &Peer,
        config: &WebConfig,
    ) -> Result<Self, Refusal> {
        let headers = request.headers();
        let is_proxy = is_trusted(&config.trusted_proxies, peer.address);
        let path = below_base(request.uri().path(), config.base_path.as_deref())?;
        // Of several values, the last is by the proxy that is trusted.
        let header = |name: &str| {
            let value = headers.get_all(name).iter().next_back()?.to_str().ok()?;
            value.rsplit(',').next().map(str::trim)
        };
        if headers.get_all(HOST).iter().count() > 1 {
            return Err(Refusal::Host);
        }
        let host = match (is_proxy, header("x-forwarded-host")) {
            (true, Some(host)) => Some(host),
            _ => match request.uri().authority() {
                Some(authority) => Some(authority.as_str()),
                None => headers.get(HOST).and_then(|host| host.to_str().ok()),
            },
        };
        let host = host.filter(|host| is_own_host(host, &config.hosts));
        let host = host.ok_or(Refusal::Host)?;
        let is_https = match (is_proxy, header("x-forwarded-proto")) {
            (true, Some(scheme)) => scheme.eq_ignore_ascii_case("https"),
            _ => peer.is_tls,
        };
        let head = Self {
            method: request.method(),
            path,
            query: request.uri().query().unwrap_or_default(),
            headers,
            address: client_address(peer.address, headers, &config.trusted_proxies),
            is_https,
        };
        head.check_site(host)?;
        Ok(head)
    }

    /// Whether it may change something.
    pub(super) fn changes_state(&self) -> bool {
        !matches!(*self.method, Method::GET | Method::HEAD)
    }

    /// A page of another site may link here, and nothing else.
    fn check_site(&self, host: &str) -> Result<(), Refusal> {
        let text = |name: &str| {
            self.headers
                .get(name)
                .map(|value| value.to_str().unwrap_or("?"))
        };
        if let Some(site) = text("sec-fetch-site") {
            let is_link = text("sec-fetch-mode") == Some("navigate") && !self.changes_state();
            if !matches!(site, "same-origin" | "none") && !is_link {
                return Err(Refusal::Origin);
            }
        }
        let origin = self
            .headers
            .get(ORIGIN)
            .map(|value| value.to_str().unwrap_or("?"));
        match origin {
            Some(origin) => {
                let scheme = if self.is_https { "https" } else { "http" };
                let own = origin
                    .strip_prefix(scheme)
                    .and_then(|rest| rest.strip_prefix("://"));
                let is_same = own.is_some_and(|own| {
                    without_default_port(own, self.is_https)
                        .eq_ignore_ascii_case(without_default_port(host, self.is_https))
                });
                is_same.then_some(()).ok_or(Refusal::Origin)
            }
            // Browsers send it with all that changes something; a program shows by its token that it is none.
            None if self.changes_state() && self.bearer().is_none() => Err(Refusal::Origin),
            None => Ok(()),
        }
    }

    /// The token of its `Authorization` header.
    pub(super) fn bearer(&self) -> Option<&'r [u8]> {
        bearer_token(self.headers.get(AUTHORIZATION)?.as_bytes())
    }

    /// The value of a cookie.
    pub(super) fn cookie(&self, name: &str) -> Option<&'r str> {
        self.headers
            .get_all(COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }

    /// All values of a parameter of the query, decoded.
    pub(super) fn parameters(&self, name: &str) -> impl Iterator<Item = String> + use<'r> {
        let name = name.to_owned();
        self.query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .filter(move |(key, _)| *key == name)
            .filter_map(|(_, value)| decoded(value))
    }

    /// The first value of a parameter that is not empty.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        self.parameters(name).find(|value| !value.is_empty())
    }
}

fn below_base<'p>(path: &'p str, base: Option<&str>) -> Result<&'p str, Refusal> {
    let Some(base) = base else { return Ok(path) };
    match path.strip_prefix(base) {
        Some("") => Err(Refusal::Redirect),
        Some(rest) if rest.starts_with('/') => Ok(rest),
        _ => Err(Refusal::Path),
    }
}

fn is_trusted(proxies: &[Network], address: IpAddr) -> bool {
    proxies.iter().any(|network| network.contains(address))
}

/// The last address that no trusted proxy has: those before it may be made up. What is not an address ends the search.
fn client_address(peer: IpAddr, headers: &HeaderMap, proxies: &[Network]) -> IpAddr {
    if !is_trusted(proxies, peer) {
        return peer;
    }
    let values = headers.get_all("x-forwarded-for").iter().rev();
    let mut addresses = values
        .flat_map(|value| value.to_str().unwrap_or("?").rsplit(','))
        .map_while(|text| address(text.trim()));
    let outer = addresses.find(|address| !is_trusted(proxies, *address));
    outer.unwrap_or(peer)
}

/// An address, which some proxies write with a port, or in brackets.
fn address(text: &str) -> Option<IpAddr> {
    let with_port = || Some(text.parse::<std::net::SocketAddr>().ok()?.ip());
    let inner = text.trim_start_matches('[').trim_end_matches(']');
    inner.parse().ok().or_else(with_port)
}

fn without_default_port(host: &str, is_https: bool) -> &str {
    let port = if is_https { ":443" } else { ":80" };
    host.strip_suffix(port).unwrap_or(host)
}

/// A value of a query; `None` where it is malformed.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::super::test_peer;
    use super::*;

    fn config(yaml: &str) -> WebConfig {
        let text = format!(
            "sources: [{{name: a, uri: /v.mp4}}]\ndetector: {{model: /m}}\nweb: {{listen: '127.0.0.1:8080', {yaml}}}\n"
        );
        let config = jetwatch_config::Config::from_str("f.yaml", &text);
        config.unwrap_or_else(|error| panic!("{error}")).web
    }

    fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request")
    }

    fn refusal(method: &str, headers: &[(&str, &str)], config: &WebConfig) -> Option<Refusal> {
        Head::read(&request(method, "/", headers), &test_peer(), config).err()
    }

    #[test]
    fn names_of_others_are_refused() {
        let config = config("hosts: [box.example]");
        for host in [
            "localhost",
            "localhost:8080",
            "LOCALHOST",
            "127.0.0.1:8080",
            "[::1]:8080",
            "192.0.2.7",
            "box.example:8080",
        ] {
            assert_eq!(refusal("GET", &[("host", host)], &config), None, "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "box.example.evil.example",
            "127.0.0.1.evil.example",
            "[::1",
            "[x]",
            "",
        ] {
            let found = refusal("GET", &[("host", host)], &config);
            assert_eq!(found, Some(Refusal::Host), "{host}");
        }
        assert_eq!(refusal("GET", &[], &config), Some(Refusal::Host));
        // No proxy is trusted.
        let headers = [("host", "evil.example"), ("x-forwarded-host", "localhost")];
        assert_eq!(refusal("GET", &headers, &config), Some(Refusal::Host));
    }

    #[test]
    fn other_sites_may_only_link_here() {
        let config = config("");
        let host = ("host", "127.0.0.1:8080");
        let own = ("origin", "http://127.0.0.1:8080");
        #[rustfmt::skip]
        let cases = [
            ("GET", vec![], None),
            ("GET", vec![("sec-fetch-site", "cross-site")], Some(Refusal::Origin)),
            ("GET", vec![("sec-fetch-site", "same-site")], Some(Refusal::Origin)),
            ("GET", vec![("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], None),
            ("GET", vec![("sec-fetch-site", "none")], None),
            ("POST", vec![], Some(Refusal::Origin)),
            ("POST", vec![own], None),
            ("POST", vec![own, ("sec-fetch-site", "same-origin")], None),
            ("POST", vec![own, ("sec-fetch-site", "cross-site")], Some(Refusal::Origin)),
            ("POST", vec![own, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], Some(Refusal::Origin)),
            ("POST", vec![("origin", "https://127.0.0.1:8080")], Some(Refusal::Origin)),
            ("POST", vec![("origin", "http://127.0.0.1:8081")], Some(Refusal::Origin)),
            ("POST", vec![("origin", "null")], Some(Refusal::Origin)),
            ("POST", vec![("authorization", "Bearer x")], None),
            ("GET", vec![("origin", "http://evil.example")], Some(Refusal::Origin)),
        ];
        for (method, headers, wanted) in cases {
            let mut all = headers.clone();
            all.push(host);
            assert_eq!(
                refusal(method, &all, &config),
                wanted,
                "{method} {headers:?}"
            );
        }
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        let forwarded = [
            ("host", "127.0.0.1"),
            ("x-forwarded-for", "198.51.100.1, 192.0.2.9, 127.0.0.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "box.example"),
        ];
        let request = request("GET", "/", &forwarded);
        let plain = config("");
        let head = Head::read(&request, &test_peer(), &plain).expect("allowed");
        assert_eq!((head.address, head.is_https), (test_peer().address, false));
        let trusting = config("trusted_proxies: [127.0.0.1], hosts: [box.example], users_file: /u");
        let head = Head::read(&request, &test_peer(), &trusting).expect("allowed");
        assert_eq!(head.address, IpAddr::from([192, 0, 2, 9]));
        assert!(head.is_https);
    }

    #[test]
    fn client_is_the_last_address_that_no_trusted_proxy_has() {
        let trusting = config("trusted_proxies: [127.0.0.1, '10.0.0.0/8'], users_file: /u");
        for (values, expected) in [
            (&["203.0.113.9"][..], "203.0.113.9"),
            // What a client has made up comes first, where the proxy appends.
            (&["made-up, 203.0.113.1, 203.0.113.9"], "203.0.113.9"),
            (&["203.0.113.1", "203.0.113.9, 10.1.2.3"], "203.0.113.9"),
            (&["203.0.113.1, made-up, 10.1.2.3"], "127.0.0.1"),
            (&["203.0.113.9:4711"], "203.0.113.9"),
            (&["[2001:db8::9]:4711, 10.1.2.3"], "2001:db8::9"),
            (&["\"[2001:db8::9]\""], "127.0.0.1"),
            (&["10.1.2.3"], "127.0.0.1"),
            (&[""], "127.0.0.1"),
            (&[], "127.0.0.1"),
        ] {
            let headers: Vec<_> = values
                .iter()
                .map(|value| ("x-forwarded-for", *value))
                .chain([("host", "127.0.0.1")])
                .collect();
            let request = request("GET", "/", &headers);
            let head = Head::read(&request, &test_peer(), &trusting).expect("allowed");
            assert_eq!(head.address.to_string(), expected, "{values:?}");
        }
    }

    #[test]
    fn headers_of_several_values_count_once() {
        let trusting = config("trusted_proxies: [127.0.0.1], users_file: /u, hosts: [box.example]");
        let read = |headers: &[(&str, &str)]| {
            let request = request("GET", "/", headers);
            Head::read(&request, &test_peer(), &trusting).map(|head| head.is_https)
        };
        let host = ("host", "127.0.0.1");
        let proto = |value| ("x-forwarded-proto", value);
        assert_eq!(read(&[host, proto("https, http")]), Ok(false));
        assert_eq!(read(&[host, proto("http"), proto("https")]), Ok(true));
        let named = ("x-forwarded-host", "evil.example, box.example");
        assert!(read(&[host, named]).is_ok());
        assert_eq!(read(&[host, host]), Err(Refusal::Host));
    }

    #[test]
    fn base_path_is_removed() {
        let config = config("base_path: /jet");
        let host = [("host", "localhost")];
        for (path, wanted) in [
            ("/jet/", Ok("/")),
            ("/jet/api/events?x=1", Ok("/api/events")),
            ("/jet", Err(Refusal::Redirect)),
            ("/jetty/", Err(Refusal::Path)),
            ("/", Err(Refusal::Path)),
        ] {
            let request = request("GET", path, &host);
            let found = Head::read(&request, &test_peer(), &config).map(|head| head.path);
            assert_eq!(found, wanted, "{path}");
        }
    }

    #[test]
    fn parameters_are_decoded() {
        let config = config("");
        let headers = [
            ("host", "localhost"),
            ("cookie", "a=1; b=2"),
            ("cookie", "c=3"),
        ];
        let request = request(
            "GET",
            "/?label=traffic%20light&x=a+b&bad=%zz&label=%C3%BC&e=",
            &headers,
        );
        let head = Head::read(&request, &test_peer(), &config).expect("allowed");
        let labels: Vec<String> = head.parameters("label").collect();
        assert_eq!(labels, ["traffic light", "ü"]);
        assert_eq!(head.parameter("x").as_deref(), Some("a b"));
        assert_eq!(head.parameter("bad"), None);
        assert_eq!(head.parameter("e"), None);
        assert_eq!(
            (head.cookie("b"), head.cookie("c"), head.cookie("d")),
            (Some("2"), Some("3"), None)
        );
    }
}
