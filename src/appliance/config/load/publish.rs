//! `publish`: MQTT with its broker, trust and credentials, and JSON lines.

use std::net::SocketAddr;

use super::super::keys::BROKER_FORMS;
use super::super::map::Map;
use super::super::node::Value;
use super::super::parse_uri::split_host_port;
use super::super::{Broker, Credentials, JsonLinesConfig, MqttConfig, PublishConfig, TlsConfig};
use super::{credentials, form_of};

/// `publish`; `device` is `None` when its name has a problem, which is enough to give no value.
pub(super) fn publish(map: &Map<'_>, device: Option<&str>) -> Option<PublishConfig> {
    let update_interval = map.duration("update_interval_ms");
    let stats_interval = map.duration("stats_interval_s");
    let detections = map.boolean("detections");
    let mqtt = mqtt_or_off(map, device);
    let json_lines = match map.has("json_lines") {
        true => map
            .section("json_lines")
            .and_then(|map| json_lines(&map))
            .map(Some),
        false => Some(None),
    };
    Some(PublishConfig {
        mqtt: mqtt?,
        json_lines: json_lines?,
        update_interval: update_interval?,
        stats_interval: stats_interval?,
        detections: detections?,
    })
}

fn json_lines(map: &Map<'_>) -> Option<JsonLinesConfig> {
    let path = map.path("path")?;
    // The reader has put the folder of the file before it, so the text itself is asked.
    let is_stdout = matches!(map.get("path")?.value(), Value::Text("-"));
    Some(JsonLinesConfig {
        path: (!is_stdout).then_some(path),
    })
}

fn mqtt_or_off(map: &Map<'_>, device: Option<&str>) -> Option<Option<MqttConfig>> {
    if let Some(node) = map.get("mqtt") {
        match node.value() {
            Value::Text("off") => return Some(None),
            Value::Map(_) | Value::Null => {}
            Value::Boolean(false) => {
                node.refuse(
                    Some(form_of(map, "mqtt")),
                    Some("write mqtt: off".to_owned()),
                );
                return None;
            }
            _ => return node.expect(&form_of(map, "mqtt")),
        }
    }
    map.section("mqtt")
        .and_then(|map| mqtt(&map, device))
        .map(Some)
}

fn mqtt(map: &Map<'_>, device: Option<&str>) -> Option<MqttConfig> {
    let broker = broker(map);
    let prefix = checked_text(map, "prefix", |text| {
        text.chars().count() <= 128 && !text.contains(['/', '+', '#', '$', ' '])
    });
    let client_id = match map.has("client_id") {
        true => checked_text(map, "client_id", |text| {
            text.len() <= 128 && text.chars().all(|c| c.is_ascii_graphic())
        }),
        false => device.map(|device| format!("jetwatch-{device}")),
    };
    let (user, password) = credentials(map);
    let tls = map.section("tls").and_then(|map| tls(&map));
    if let Some(broker) = &broker {
        check_broker_keys(map, broker);
    }
    let keep_alive = map.duration("keep_alive_s");
    let queue_messages = map.integer("queue_messages");
    Some(MqttConfig {
        broker: broker?,
        prefix: prefix?,
        client_id: client_id?,
        credentials: user
            .zip(password)
            .map(|(user, password)| Credentials { user, password }),
        tls: tls?,
        keep_alive: keep_alive?,
        queue_messages: queue_messages?,
    })
}

fn checked_text(map: &Map<'_>, name: &str, accepts: impl Fn(&str) -> bool) -> Option<String> {
    let text = map.text(name)?;
    match accepts(&text) {
        true => Some(text),
        false => map.get(name)?.expect(&form_of(map, name)),
    }
}

fn broker(map: &Map<'_>) -> Option<Broker> {
    let text = map.text("broker");
    let listen = map
        .text("listen")
        .and_then(|text| match text.parse::<SocketAddr>() {
            Ok(listen) => Some(listen),
            Err(_) => map.get("listen")?.expect(&form_of(map, "listen")),
        });
    let text = text?;
    if text == "embedded" {
        return Some(Broker::Embedded { listen: listen? });
    }
    match parse_broker(&text) {
        Ok(broker) => Some(broker),
        Err(hint) => {
            map.get("broker")?
                .refuse(Some(BROKER_FORMS.to_owned()), hint);
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
        return Err(Some("nothing comes behind the port".to_owned()));
    }
    let (host, port) = split_host_port(rest).map_err(Some)?;
    Ok(Broker::Url {
        host,
        port: port.unwrap_or(default_port),
        tls,
    })
}

/// Keys that only one kind of broker has.
fn check_broker_keys(map: &Map<'_>, broker: &Broker) {
    match broker {
        Broker::Embedded { listen } => {
            if map.has("tls") {
                let hint = "leave it out, or write broker: mqtts://HOST";
                map.unfit("tls", "not for the embedded broker", Some(hint));
            }
            if !listen.ip().is_loopback() && !map.has("user") {
                let what =
                    format!("{listen} is open to the network, and the broker has no password");
                let hint = "add user and password_file, or listen on 127.0.0.1";
                map.unfit("listen", &what, Some(hint));
            }
        }
        Broker::Url { tls, .. } => {
            if map.has("listen") {
                map.unfit(
                    "listen",
                    "only for the embedded broker",
                    Some("leave it out, or write broker: embedded"),
                );
            }
            if map.has("tls") && !tls {
                map.unfit(
                    "tls",
                    "needs a broker with mqtts://",
                    Some("write mqtts:// or leave tls out"),
                );
            }
        }
    }
}

fn tls(map: &Map<'_>) -> Option<TlsConfig> {
    let tls = TlsConfig {
        ca_file: map.path("ca_file"),
        cert_file: map.path("cert_file"),
        key_file: map.path("key_file"),
    };
    for (given, other) in [("cert_file", "key_file"), ("key_file", "cert_file")] {
        if map.has(given) && !map.has(other) {
            map.unfit(given, &format!("given without {other}"), None);
        }
    }
    Some(tls)
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
            ("mqtt://a/topic", Some("nothing comes behind the port")),
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
