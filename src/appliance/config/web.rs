// SPDX-License-Identifier: Apache-2.0
//! `web`: the page of the daemon, and who may open it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::metrics::{broker_addresses, require_beyond_loopback, share_port};
use super::mqtt_broker::parse_listen;
use super::schema::ValueType;
use super::section::Section;
use super::yaml::map::Map;
use super::{Config, Words};

/// Accepted form of the names in `hosts`.
const HOSTS: &str = "a host name without scheme and port, such as box.example";

/// Accepted form of `base_path`.
const BASE_PATH: &str =
    "a path such as /jetwatch: letters, digits, `-`, `_` and `/`, not at the end";

/// Accepted form of the items of `trusted_proxies`.
const NETWORKS: &str = "an address or a network, such as 127.0.0.1 or 192.0.2.0/24";

/// The page of the daemon: pictures, events, the device, zones.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(default, check = check_keys)]
pub struct WebConfig {
    /// Whether there is a page where listen is not given.
    #[key(default = true)]
    pub enabled: bool,
    /// Where the page is. Addresses other than loopback need users_file and tls. Default: the first free port of 127.0.0.1:8080 to 8089, with users; jetwatch page prints the address.
    #[key(
        text = "an address with a port, such as 127.0.0.1:8080 or [::]:8443",
        parse = parse_listen
    )]
    pub listen: Option<SocketAddr>,
    /// File of users and tokens, written by jetwatch user and read again when it changes. If it is missing, jetwatch page prints a link that makes the first user. With listen and without this key, everyone on this machine has the role without_users.
    pub users_file: Option<PathBuf>,
    /// Role of everyone on this machine without users_file.
    #[key(default = "viewer")]
    pub without_users: WebRole,
    /// Certificate and key, for HTTPS in place of HTTP. Default: HTTP, which loopback addresses alone may have.
    pub tls: Option<WebTlsConfig>,
    /// Further names by which browsers may ask for the page. Default: none.
    #[key(value = ValueType::Texts(HOSTS), read = hosts, default_with = |_| Vec::new())]
    pub hosts: Vec<String>,
    /// Path below which a proxy offers the page, if it keeps it. Default: none.
    #[key(text = BASE_PATH, check = is_base_path)]
    pub base_path: Option<String>,
    /// Proxies whose X-Forwarded headers are believed; need users_file. Default: none.
    #[key(value = ValueType::Texts(NETWORKS), read = networks, default_with = |_| Vec::new())]
    pub trusted_proxies: Vec<Network>,
    /// The pictures with boxes.
    pub preview: PreviewConfig,
    /// Where the daemon tries to have a page that the configuration does not name, `listen` first; empty: `listen` alone is meant.
    #[key(no_key, read = no_candidates)]
    pub candidates: Vec<SocketAddr>,
}

/// Ports of a page that the configuration does not name.
const DEFAULT_PORTS: Range<u16> = 8080..8090;

impl Config {
    /// Gives the daemon a page where the configuration names none and does not forbid it. Its users are in `state`.
    pub fn add_default_page(&mut self, state: &Path) {
        if self.web.listen.is_some() || !self.web.enabled {
            return;
        }
        let taken: Vec<SocketAddr> = broker_addresses(self).chain(self.metrics.listen).collect();
        let ports = DEFAULT_PORTS.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let is_free = |port: &SocketAddr| !taken.iter().any(|taken| share_port(*port, *taken));
        self.web.candidates = ports.filter(is_free).collect();
        self.web.listen = self.web.candidates.first().copied();
        self.web.users_file = Some(state.join("users"));
    }
}

fn no_candidates(_: &Map<'_>) -> Option<Vec<SocketAddr>> {
    Some(Vec::new())
}

/// What a user may do. Each role includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Words)]
pub enum WebRole {
    /// See everything.
    Viewer,
    /// Change zones and lines, reload, keep recordings.
    Operator,
    /// Download what describes the whole installation.
    Administrator,
}

impl WebRole {
    /// All, from the one that may do least.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Administrator];
}

/// The identity of the page.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
pub struct WebTlsConfig {
    /// PEM file of the certificate and its chain.
    pub cert_file: PathBuf,
    /// PEM file of the private key.
    pub key_file: PathBuf,
}

/// The pictures with boxes.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(default)]
pub struct PreviewConfig {
    /// Maximum rate of each source, for all viewers together.
    #[key(range = 1..=30, unit = "pictures", default = 5)]
    pub max_fps: u32,
    /// Maximum width.
    #[key(range = 160..=1920, unit = "pixels", default = 960)]
    pub max_width: u32,
    /// Quality of the JPEG images.
    #[key(range = 10..=95, unit = "percent", default = 70)]
    pub quality: u32,
}

/// Addresses with a common beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// Reads an address, or an address with the number of its first bits; `None` where it is neither.
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(all);
        (bits <= all).then_some(Self { address, bits })
    }

    /// Whether `address` is one of them. An IPv4 address in IPv6 form counts as the former.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let first = |value: u128, width: u32| value.checked_shr(width - self.bits).unwrap_or(0);
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                first(own.to_bits().into(), 32) == first(other.to_bits().into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                first(own.to_bits(), 128) == first(other.to_bits(), 128)
            }
            _ => false,
        }
    }
}

fn hosts(map: &Map<'_>) -> Option<Vec<String>> {
    read_list(map, "hosts", HOSTS, |text| {
        is_host(text).then(|| text.to_ascii_lowercase())
    })
}

fn networks(map: &Map<'_>) -> Option<Vec<Network>> {
    read_list(map, "trusted_proxies", NETWORKS, Network::parse)
}

/// The texts of `key`, each converted by `parse`; none where it is not given.
pub(super) fn read_list<T>(
    map: &Map<'_>,
    key: &'static str,
    form: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<Vec<T>> {
    if !map.has(key) {
        return Some(Vec::new());
    }
    // Reports what is no list of different texts.
    map.texts(key)?;
    let mut read: Vec<Option<T>> = Vec::new();
    for item in map.get(key)?.items(form)? {
        read.push(item.text(form).and_then(|text| {
            let parsed = parse(text);
            if parsed.is_none() {
                item.reject(Some(form.to_owned()), None);
            }
            parsed
        }));
    }
    read.into_iter().collect()
}

fn is_host(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    !text.is_empty() && text.len() <= 253 && text.chars().all(is_part)
}

fn is_base_path(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '/');
    text.len() > 1
        && text.len() <= 128
        && text.starts_with('/')
        && !text.ends_with('/')
        && !text.contains("//")
        && text.chars().all(is_part)
}

fn check_keys(map: &Map<'_>) {
    if !map.has("listen") {
        for key in ["users_file", "tls", "hosts", "base_path", "trusted_proxies"] {
            if map.has(key) {
                let hint = "add listen: 127.0.0.1:8080, or leave it out";
                map.invalid(key, "given without listen", Some(hint));
            }
        }
        return;
    }
    let needed = [
        (
            "users_file",
            "everyone there could watch",
            "add users_file and make users with jetwatch user add, or listen on 127.0.0.1",
        ),
        (
            "tls",
            "passwords would be sent in clear text",
            "add tls: {cert_file: …, key_file: …}, or listen on 127.0.0.1",
        ),
    ];
    require_beyond_loopback(map, needed);
    if map.has("trusted_proxies") && !map.has("users_file") {
        let what = "given without users_file: through a proxy, everyone would have the role of without_users";
        let hint = "add users_file and make users with jetwatch user add";
        map.invalid("trusted_proxies", what, Some(hint));
    }
}

/// The page does not share a port with metrics or the embedded broker. `config` is `None` after other problems.
pub(super) fn check_port(root: &Map<'_>, config: Option<&Config>) {
    let Some((config, listen)) = config.and_then(|config| Some((config, config.web.listen?)))
    else {
        return;
    };
    let brokers = broker_addresses(config).map(|taken| (taken, "the embedded broker listens"));
    let metrics = config.metrics.listen.into_iter();
    let metrics = metrics.map(|taken| (taken, "metrics are read"));
    let taken = brokers
        .chain(metrics)
        .find(|(taken, _)| share_port(listen, *taken));
    if let (Some((taken, what)), Some(web)) = (taken, root.section("web")) {
        let what = format!("{listen} meets {taken}, where {what}");
        web.invalid("listen", &what, Some("choose another port"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mistakes::loaded;

    fn load(web: &str) -> WebConfig {
        loaded(&format!("web: {{{web}}}")).web
    }

    #[test]
    fn daemon_has_a_page_on_loopback_unless_it_is_forbidden() {
        let with_page = |text: &str| {
            let mut config = loaded(text);
            config.add_default_page(Path::new("/state"));
            config.web
        };
        let address = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let page = with_page("");
        assert_eq!(page.listen, Some(address(8080)));
        assert_eq!(page.candidates.len(), 10);
        assert_eq!(page.users_file, Some("/state/users".into()));
        let page = with_page("metrics: {listen: '127.0.0.1:8080'}");
        assert_eq!(
            (page.listen, page.candidates.len()),
            (Some(address(8081)), 9)
        );
        let page = with_page("web: {enabled: false}");
        assert_eq!((page.listen, page.candidates.len()), (None, 0));
        let page = with_page("web: {listen: '127.0.0.1:9000'}");
        assert_eq!((page.listen, page.users_file), (Some(address(9000)), None));
    }

    #[test]
    fn file_alone_has_no_page() {
        let config = load("");
        assert_eq!(config, WebConfig::default());
        assert_eq!(
            (config.listen, config.without_users),
            (None, WebRole::Viewer)
        );
        assert_eq!((config.preview.max_fps, config.preview.max_width), (5, 960));
    }

    #[test]
    fn complete_settings_are_read() {
        let tls = "tls: {cert_file: /c, key_file: /k}";
        let config = load(&format!(
            "listen: '0.0.0.0:8443', users_file: /u, {tls}, hosts: [box.example], base_path: /jet/watch, trusted_proxies: [127.0.0.1, '2001:db8::/32']"
        ));
        assert_eq!(config.base_path.as_deref(), Some("/jet/watch"));
        let contains = |index: usize, address: &str| {
            config.trusted_proxies[index].contains(address.parse().expect("an address"))
        };
        assert!(contains(0, "127.0.0.1") && contains(0, "::ffff:127.0.0.1"));
        assert!(!contains(0, "127.0.0.2") && !contains(0, "::1"));
        assert!(contains(1, "2001:db8:1::9") && !contains(1, "2001:db9::1"));
        load("listen: '127.0.0.1:8080', without_users: administrator");
        let all = load("listen: '127.0.0.1:8080', trusted_proxies: ['0.0.0.0/0'], users_file: /u");
        assert!(all.trusted_proxies[0].contains("198.51.100.7".parse().expect("an address")));
    }
}
