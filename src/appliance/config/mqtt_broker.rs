// SPDX-License-Identifier: Apache-2.0
//! `broker` and `listen` of `publish.mqtt`: which broker, and the keys that only one kind of it has.

use std::net::SocketAddr;

use super::Secret;
use super::credentials::credentials;
use super::redact::quoted;
use super::schema::ValueType;
use super::section::Section;
use super::uri::parse::split_host_port;
use super::yaml::map::Map;

/// Accepted form of `broker`.
const BROKER_FORMS: &str = "embedded, mqtt://HOST:PORT or mqtts://HOST:PORT";

/// Accepted form of the items of `brokers`.
pub(super) const URL_FORMS: &str = "mqtt://HOST:PORT or mqtts://HOST:PORT";

/// Most items of `brokers`.
const MAX_BROKERS: usize = 16;

/// Which broker.
#[derive(Debug, Clone, PartialEq)]
pub enum Broker {
    /// One inside the daemon, listening on this address. Default 127.0.0.1:1883.
    Embedded {
        /// Where it listens.
        listen: SocketAddr,
    },
    /// One elsewhere.
    Url {
        /// Host name or address.
        host: String,
        /// Port; 1883, or 8883 with TLS.
        port: u16,
        /// `mqtts://` instead of `mqtt://`.
        tls: bool,
    },
}

impl Broker {
    /// A broker elsewhere, from `mqtt://HOST:PORT` or `mqtts://HOST:PORT`.
    ///
    /// # Errors
    /// What was expected, with a hint where one helps.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse_broker(text).map_err(|hint| {
            let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
            format!("found \"{}\", expected {URL_FORMS}{hint}", quoted(text))
        })
    }
}

/// The keys that make a [`Broker`].
#[derive(Section)]
pub(super) struct BrokerKeys {
    /// embedded: inside the daemon. Ports: 1883, with TLS 8883.
    #[key(text = BROKER_FORMS, default = "embedded")]
    #[expect(dead_code, reason = "read alone, so that both keys are checked")]
    broker: String,
    /// In place of broker: several, such as the nodes of a cluster, tried in turn from the first.
    #[key(value = ValueType::Texts(URL_FORMS), read = texts)]
    #[expect(dead_code, reason = "read together with `broker`")]
    brokers: Option<Vec<String>>,
    /// Embedded broker only: where it listens. Addresses other than loopback need user and a password.
    #[key(
        text = "an address with a port, such as 127.0.0.1:1883 or [::]:1883",
        parse = parse_listen,
        default = "127.0.0.1:1883"
    )]
    listen: SocketAddr,
}

pub(super) fn parse_listen(text: &str) -> Option<SocketAddr> {
    text.parse().ok()
}

pub(super) fn texts(map: &Map<'_>) -> Option<Option<Vec<String>>> {
    map.optional("brokers", || map.texts("brokers"))
}

/// The brokers of `publish.mqtt` after the first.
pub(super) fn alternatives(map: &Map<'_>) -> Option<Vec<Broker>> {
    match map.has("brokers") {
        true => list(map).map(|brokers| brokers.into_iter().skip(1).collect()),
        false => Some(Vec::new()),
    }
}

/// The items of `brokers`, at least one.
pub(super) fn list(map: &Map<'_>) -> Option<Vec<Broker>> {
    // Reports what is no list of texts.
    map.texts("brokers")?;
    let node = map.get("brokers")?;
    let items = node.items(URL_FORMS)?;
    if items.is_empty() {
        return node.type_error(&map.expected("brokers"));
    }
    if items.len() > MAX_BROKERS {
        node.report(
            &format!(
                "{} brokers, at most {MAX_BROKERS} are accepted",
                items.len()
            ),
            None,
            None,
        );
        return None;
    }
    let mut brokers: Vec<Option<Broker>> = Vec::with_capacity(items.len());
    for item in items {
        let parsed = item
            .text(URL_FORMS)
            .and_then(|text| match parse_broker(text) {
                Ok(broker) => Some(broker),
                Err(hint) => {
                    item.reject(Some(URL_FORMS.to_owned()), hint);
                    None
                }
            });
        if parsed.is_some() && brokers.contains(&parsed) {
            item.report("the same broker is given twice", None, None);
        }
        brokers.push(parsed);
    }
    brokers.into_iter().collect()
}

/// The first or only broker of `publish.mqtt`.
pub(super) fn broker(map: &Map<'_>) -> Option<Broker> {
    let keys = BrokerKeys::from_map(map);
    if map.has("brokers") {
        if map.has("broker") {
            let hint = "leave one of the two out";
            map.invalid("brokers", "given together with broker", Some(hint));
        }
        return list(map)?.into_iter().next();
    }
    let text = map.text("broker")?;
    if text == "embedded" {
        return keys.map(|keys| Broker::Embedded {
            listen: keys.listen,
        });
    }
    url(map)
}

/// `broker`, elsewhere.
pub(super) fn url(map: &Map<'_>) -> Option<Broker> {
    match parse_broker(&map.text("broker")?) {
        Ok(broker) => Some(broker),
        Err(hint) => {
            map.get("broker")?
                .reject(Some(map.expected("broker")), hint);
            None
        }
    }
}

/// `mqtt://HOST`, `mqtts://HOST:PORT`; fails with a hint where one helps.
fn parse_broker(text: &str) -> Result<Broker, Option<String>> {
    let (scheme, rest) = text.split_once("://").ok_or(None)?;
    let (tls, default_port) = match scheme.to_ascii_lowercase().as_str() {
        "mqtt" => (false, 1883),
        "mqtts" => (true, 8883),
        "tcp" => return Err(Some("write mqtt:// for tcp://".to_owned())),
        "ssl" | "tls" => return Err(Some("write mqtts:// for TLS".to_owned())),
        "ws" | "wss" => return Err(Some("WebSockets are not supported".to_owned())),
        _ => return Err(None),
    };
    if rest.contains('@') {
        return Err(Some(
            "credentials belong in the keys user and password_file".to_owned(),
        ));
    }
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(['/', '?', '#']) {
        return Err(Some("nothing comes after the port".to_owned()));
    }
    let (host, port) = split_host_port(rest).map_err(Some)?;
    Ok(Broker::Url {
        host,
        port: port.unwrap_or(default_port),
        tls,
    })
}

/// The embedded broker has a certificate where it listens with TLS, and only there.
fn check_server_tls(map: &Map<'_>, with_tls: bool) {
    let tls = map.has("tls").then(|| map.section("tls")).flatten();
    match &tls {
        Some(_) if !with_tls => {
            let hint = "leave it out, add listen_tls, or write broker: mqtts://HOST";
            map.invalid(
                "tls",
                "not for the embedded broker without listen_tls",
                Some(hint),
            );
        }
        Some(tls) if tls.has("ca_file") => {
            tls.invalid(
                "ca_file",
                "not for the embedded broker",
                Some("leave it out"),
            );
        }
        _ => {}
    }
    let has_certificate = tls.is_some_and(|tls| tls.has("cert_file"));
    if with_tls && !has_certificate {
        let hint = "add tls: {cert_file: …, key_file: …}, the broker's own";
        map.invalid("listen_tls", "needs a certificate", Some(hint));
    }
}

/// The embedded broker is not open to the network without a password.
fn check_open(map: &Map<'_>, key: &str, listen: SocketAddr) {
    if !map.has("user") {
        let what = format!("{listen} is open to the network, and the broker has no password");
        let hint = "add user and password_file, or listen on 127.0.0.1";
        map.invalid(key, &what, Some(hint));
    }
    if credentials(map).1 == Some(Secret::Inline(String::new())) {
        let what = format!("empty, and {listen} is open to the network");
        let hint = "write a password, or listen on 127.0.0.1";
        map.invalid("password", &what, Some(hint));
    }
}

/// Records keys of `publish.mqtt` that the kind of its broker does not have.
pub(super) fn check_keys(map: &Map<'_>) {
    let others = alternatives(map).unwrap_or_default();
    let other_uses_tls = others
        .iter()
        .any(|broker| matches!(broker, Broker::Url { tls: true, .. }));
    match broker(map) {
        Some(Broker::Embedded { listen }) => {
            let with_tls = map.get("listen_tls").is_some();
            check_server_tls(map, with_tls);
            let tls = with_tls.then(|| map.parsed("listen_tls", parse_listen));
            for (key, listen) in [("listen", Some(listen)), ("listen_tls", tls.flatten())] {
                if let Some(listen) = listen.filter(|listen| !listen.ip().is_loopback()) {
                    check_open(map, key, listen);
                }
            }
        }
        Some(Broker::Url { tls, .. }) => {
            for key in ["listen", "listen_tls"] {
                if map.has(key) {
                    let hint = "leave it out, or write broker: embedded";
                    map.invalid(key, "only for the embedded broker", Some(hint));
                }
            }
            if map.has("tls") && !tls && !other_uses_tls {
                map.invalid(
                    "tls",
                    "needs a broker with mqtts://",
                    Some("write mqtts:// or leave tls out"),
                );
            }
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mistakes::loaded;

    #[test]
    fn brokers() {
        let url = |host: &str, port, tls| {
            Ok(Broker::Url {
                host: host.to_owned(),
                port,
                tls,
            })
        };
        for (text, wanted) in [
            ("mqtt://broker.local", url("broker.local", 1883, false)),
            ("mqtts://10.0.0.7/", url("10.0.0.7", 8883, true)),
            ("MQTTS://[::1]:8884", url("::1", 8884, true)),
        ] {
            assert_eq!(parse_broker(text), wanted, "{text}");
        }
        #[rustfmt::skip]
        let cases = [
            ("broker.local", None),
            ("http://a", None),
            ("tcp://a:1883", Some("write mqtt:// for tcp://")),
            ("mqtt://u:p@a", Some("credentials belong in the keys user and password_file")),
            ("mqtt://a/topic", Some("nothing comes after the port")),
            ("mqtt://", Some("the host is missing")),
            ("mqtt://a:0", Some("a port is a whole number from 1 to 65535")),
        ];
        for (text, hint) in cases {
            assert_eq!(parse_broker(text), Err(hint.map(str::to_owned)), "{text}");
        }
    }

    fn load(mqtt: &str) -> (Broker, Vec<Broker>) {
        let config = loaded(&format!("publish: {{mqtt: {{{mqtt}}}}}"));
        let mqtt = config.publish.mqtt.expect("MQTT is on");
        (mqtt.broker, mqtt.alternatives)
    }

    #[test]
    fn a_list_of_brokers_is_read_in_its_order() {
        let url = |host: &str, port| Broker::Url {
            host: host.to_owned(),
            port,
            tls: port == 8883,
        };
        let listed = "brokers: ['mqtts://a', 'mqtt://b', 'mqtt://b:1884'], tls: {ca_file: /ca}";
        let wanted = (url("a", 8883), vec![url("b", 1883), url("b", 1884)]);
        assert_eq!(load(listed), wanted);
        let wanted = (url("a", 1883), Vec::new());
        assert_eq!(load("brokers: ['mqtt://a']"), wanted);
    }

    #[test]
    fn the_embedded_broker_listens_with_tls_given_a_certificate_and_a_password() {
        let tls = "tls: {cert_file: /c, key_file: /k}";
        let login = "user: u, password: p";
        load(&format!("listen_tls: '0.0.0.0:8883', {tls}, {login}"));
        // Open to this machine only.
        load(&format!("listen_tls: '127.0.0.1:8883', {tls}"));
    }
}
