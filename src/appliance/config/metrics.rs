// SPDX-License-Identifier: Apache-2.0
//! `metrics`: figures of the running daemon for Prometheus, and who may read them.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::mqtt_broker::parse_listen;
use super::section::Section;
use super::yaml::map::Map;
use super::{Broker, Config};

/// Figures for Prometheus. Off unless listen or text_file is given.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(default, check = check_keys)]
pub struct MetricsConfig {
    /// Where /metrics is answered. Addresses other than loopback need token_file and tls. Default: nowhere.
    #[key(
        text = "an address with a port, such as 127.0.0.1:9273 or [::]:9273",
        parse = parse_listen
    )]
    pub listen: Option<SocketAddr>,
    /// File whose first line is the bearer token, 16 characters or more. Default: they need none.
    pub token_file: Option<PathBuf>,
    /// Certificate and key, for HTTPS in place of HTTP. Default: HTTP, which loopback addresses alone may have.
    pub tls: Option<MetricsTlsConfig>,
    /// File for node_exporter's textfile collector, written every publish.stats_interval_s; its name ends in .prom. Default: none.
    pub text_file: Option<PathBuf>,
}

/// The identity of the listener.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
pub struct MetricsTlsConfig {
    /// PEM file of the certificate and its chain.
    pub cert_file: PathBuf,
    /// PEM file of the private key.
    pub key_file: PathBuf,
}

fn check_keys(map: &Map<'_>) {
    if map.has("text_file")
        && let Some(path) = map.path("text_file")
        && path.extension().is_none_or(|extension| extension != "prom")
        && let Some(node) = map.get("text_file")
    {
        let hint = "node_exporter reads no other files";
        node.reject(
            Some("a path that ends in .prom".to_owned()),
            Some(hint.to_owned()),
        );
    }
    if !map.has("listen") {
        for key in ["token_file", "tls"] {
            if map.has(key) {
                let hint = "add listen: 127.0.0.1:9273, or leave it out";
                map.invalid(key, "given without listen", Some(hint));
            }
        }
        return;
    }
    let needed = [
        (
            "token_file",
            "requests need no token",
            "add token_file, or listen on 127.0.0.1",
        ),
        (
            "tls",
            "the token would be sent in clear text",
            "add tls: {cert_file: …, key_file: …}, or listen on 127.0.0.1",
        ),
    ];
    require_beyond_loopback(map, needed);
}

/// Reports the keys of a listener that are missing where its address is open to the network: key, what happens without it, and what to do.
pub(super) fn require_beyond_loopback(map: &Map<'_>, needed: [(&str, &str, &str); 2]) {
    // Its reader reports what is no address.
    let Some(listen) = map.parsed("listen", parse_listen) else {
        return;
    };
    if listen.ip().is_loopback() {
        return;
    }
    for (key, what, hint) in needed {
        if !map.has(key) {
            let what = format!("{listen} is open to the network, and {what}");
            map.invalid("listen", &what, Some(hint));
        }
    }
}

/// Metrics and the embedded broker do not share a port. `config` is `None` after other problems.
pub(super) fn check_port(root: &Map<'_>, config: Option<&Config>) {
    let Some((config, listen)) = config.and_then(|config| Some((config, config.metrics.listen?)))
    else {
        return;
    };
    let taken = broker_addresses(config).find(|taken| share_port(listen, *taken));
    if let (Some(taken), Some(metrics)) = (taken, root.section("metrics")) {
        let what = format!("{listen} meets {taken}, where the embedded broker listens");
        metrics.invalid("listen", &what, Some("choose another port"));
    }
}

/// The addresses of the embedded broker, where there is one.
pub(super) fn broker_addresses(config: &Config) -> impl Iterator<Item = SocketAddr> {
    let mqtt = config.publish.mqtt.as_ref();
    let embedded = mqtt.and_then(|mqtt| match mqtt.broker {
        Broker::Embedded { listen } => Some((listen, mqtt.listen_tls)),
        _ => None,
    });
    let (plain, tls) = embedded.unzip();
    plain.into_iter().chain(tls.flatten())
}

/// Whether two listeners cannot exist at the same time.
pub(super) fn share_port(one: SocketAddr, other: SocketAddr) -> bool {
    let is_all = |address: SocketAddr| address.ip().is_unspecified();
    // Port 0: the system chooses a free one.
    one.port() != 0
        && one.port() == other.port()
        && (one.ip() == other.ip() || is_all(one) || is_all(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mistakes::loaded;

    fn load(metrics: &str) -> MetricsConfig {
        loaded(&format!("metrics: {{{metrics}}}")).metrics
    }

    #[test]
    fn loopback_needs_neither_token_nor_tls() {
        for listen in ["127.0.0.1:9273", "[::1]:9273", "127.0.0.53:0"] {
            let config = load(&format!("listen: '{listen}'"));
            assert_eq!(config.listen, listen.parse().ok());
        }
        let config = load("listen: '127.0.0.1:9273', token_file: /t");
        assert_eq!(config.token_file, Some("/t".into()));
        let tls = "tls: {cert_file: /c, key_file: /k}";
        load(&format!("listen: '127.0.0.1:9273', {tls}"));
        load(&format!("listen: '0.0.0.0:9273', token_file: /t, {tls}"));
        load("text_file: /run/metrics/jetwatch.prom");
    }
}
