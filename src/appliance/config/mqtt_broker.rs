//! `broker` and `listen` of `publish.mqtt`: which broker, and the keys that only one kind of it has.

use std::net::SocketAddr;

use super::Secret;
use super::credentials::credentials;
use super::section::Section;
use super::uri::parse::split_host_port;
use super::yaml::map::Map;

/// Accepted form of `broker`.
const BROKER_FORMS: &str = "embedded, mqtt://HOST:PORT or mqtts://HOST:PORT";

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

/// The keys that make a [`Broker`].
#[derive(Section)]
pub(super) struct BrokerKeys {
    /// embedded: a broker inside the daemon; else the address of one elsewhere. Ports: 1883, with TLS 8883.
    #[key(text = BROKER_FORMS, default = "embedded")]
    #[expect(dead_code, reason = "read alone, so that both keys are checked")]
    broker: String,
    /// Embedded broker only: where it listens. Addresses that are open to the network need user and a password.
    #[key(
        text = "an address with a port, such as 127.0.0.1:1883 or [::]:1883",
        parse = parse_listen,
        default = "127.0.0.1:1883"
    )]
    listen: SocketAddr,
}

fn parse_listen(text: &str) -> Option<SocketAddr> {
    text.parse().ok()
}

/// The broker of `publish.mqtt`.
pub(super) fn broker(map: &Map<'_>) -> Option<Broker> {
    let keys = BrokerKeys::from_map(map);
    let text = map.text("broker")?;
    if text == "embedded" {
        return keys.map(|keys| Broker::Embedded {
            listen: keys.listen,
        });
    }
    match parse_broker(&text) {
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

/// Records keys of `publish.mqtt` that the kind of its broker does not have.
pub(super) fn check_keys(map: &Map<'_>) {
    match broker(map) {
        Some(Broker::Embedded { listen }) => {
            if map.has("tls") {
                let hint = "leave it out, or write broker: mqtts://HOST";
                map.invalid("tls", "not for the embedded broker", Some(hint));
            }
            if !listen.ip().is_loopback() && !map.has("user") {
                let what =
                    format!("{listen} is open to the network, and the broker has no password");
                let hint = "add user and password_file, or listen on 127.0.0.1";
                map.invalid("listen", &what, Some(hint));
            }
            let empty = Some(Secret::Inline(String::new()));
            if !listen.ip().is_loopback() && credentials(map).1 == empty {
                let what = format!("empty, and {listen} is open to the network");
                let hint = "write a password, or listen on 127.0.0.1";
                map.invalid("password", &what, Some(hint));
            }
        }
        Some(Broker::Url { tls, .. }) => {
            if map.has("listen") {
                map.invalid(
                    "listen",
                    "only for the embedded broker",
                    Some("leave it out, or write broker: embedded"),
                );
            }
            if map.has("tls") && !tls {
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
        for (text, hint) in [
            ("broker.local", None),
            ("http://a", None),
            ("tcp://a:1883", Some("write mqtt:// for tcp://")),
            (
                "mqtt://u:p@a",
                Some("credentials belong in the keys user and password_file"),
            ),
            ("mqtt://a/topic", Some("nothing comes after the port")),
            ("mqtt://", Some("the host is missing")),
            (
                "mqtt://a:0",
                Some("a port is a whole number from 1 to 65535"),
            ),
        ] {
            assert_eq!(parse_broker(text), Err(hint.map(str::to_owned)), "{text}");
        }
    }
}
