//! `metrics`: figures of the running daemon for Prometheus, and who may read them.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::mqtt_broker::parse_listen;
use super::section::Section;
use super::yaml::map::Map;
use super::{Broker, Config};

/// Figures of the running daemon for Prometheus. Off unless listen or text_file is given.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(default, check = check_keys)]
pub struct MetricsConfig {
    /// Where requests for /metrics are answered. Addresses that are open to the network need token_file and tls. Default: nowhere.
    #[key(
        text = "an address with a port, such as 127.0.0.1:9273 or [::]:9273",
        parse = parse_listen
    )]
    pub listen: Option<SocketAddr>,
    /// File whose first line is the bearer token of requests for /metrics, 16 characters or more; read at every request. Default: they need none.
    pub token_file: Option<PathBuf>,
    /// Certificate and key, for HTTPS in place of HTTP. Default: HTTP, which loopback addresses alone may have.
    pub tls: Option<MetricsTlsConfig>,
    /// File for the textfile collector of node_exporter, written every publish.stats_interval_s; its name ends in .prom. Default: none.
    pub text_file: Option<PathBuf>,
}

/// The identity of the listener.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
pub struct MetricsTlsConfig {
    /// PEM file of its certificate, then those that lead to its authority.
    pub cert_file: PathBuf,
    /// PEM file of its key.
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

    fn load(metrics: &str) -> Result<MetricsConfig, String> {
        let text = format!(
            "sources: [{{name: a, uri: /v.mp4}}]\ndetector: {{model: /m}}\nmetrics: {{{metrics}}}\n"
        );
        let config = Config::from_str("f.yaml", &text).map_err(|error| error.to_string())?;
        Ok(config.metrics)
    }

    #[test]
    fn metrics_are_off_by_default() {
        assert_eq!(load(""), Ok(MetricsConfig::default()));
        let config = MetricsConfig::default();
        assert_eq!((config.listen, config.text_file), (None, None));
    }

    #[test]
    fn loopback_needs_neither_token_nor_tls() {
        for listen in ["127.0.0.1:9273", "[::1]:9273", "127.0.0.53:0"] {
            let config = load(&format!("listen: '{listen}'")).expect(listen);
            assert_eq!(config.listen, listen.parse().ok());
        }
        let config = load("listen: '127.0.0.1:9273', token_file: /t").expect("a token is allowed");
        assert_eq!(config.token_file, Some("/t".into()));
        let tls = "tls: {cert_file: /c, key_file: /k}";
        load(&format!("listen: '127.0.0.1:9273', {tls}")).expect("so is TLS");
        load(&format!("listen: '0.0.0.0:9273', token_file: /t, {tls}")).expect("complete");
        load("text_file: /run/metrics/jetwatch.prom").expect("without a listener");
    }

    #[test]
    fn mistakes_are_reported_with_their_remedy() {
        let tls = "tls: {cert_file: /c, key_file: /k}";
        for (metrics, wanted, lines) in [
            (
                "listen: '0.0.0.0:9273'".to_owned(),
                "requests need no token",
                2,
            ),
            (
                "listen: '[::]:9273', token_file: /t".to_owned(),
                "would be sent in clear text",
                1,
            ),
            (
                format!("listen: '192.0.2.7:9273', {tls}"),
                "add token_file, or listen on 127.0.0.1",
                1,
            ),
            (
                "listen: '127.0.0.1:1', tls: {cert_file: /c}".to_owned(),
                "tls.key_file: missing",
                1,
            ),
            ("token_file: /t".to_owned(), "given without listen", 1),
            (tls.to_owned(), "given without listen", 1),
            ("listen: 9273".to_owned(), "an address with a port", 1),
            (
                "listen: 'localhost:9273'".to_owned(),
                "such as 127.0.0.1:9273",
                1,
            ),
            (
                "text_file: /a.txt".to_owned(),
                "a path that ends in .prom",
                1,
            ),
            (
                "listen: '127.0.0.1:1883'".to_owned(),
                "where the embedded broker listens",
                1,
            ),
            ("port: 9273".to_owned(), "unknown key", 1),
        ] {
            let error = load(&metrics).expect_err(&metrics);
            assert!(error.contains(wanted), "{metrics}: {error}");
            assert_eq!(
                error.matches("f.yaml:").count(),
                lines,
                "{metrics}: {error}"
            );
        }
    }
}
