//! The broker: reached, logged in, and a message there and back.

use std::time::Duration;

use super::subject::Subject;
use crate::lines::Lines;
use jetwatch_config::{Broker, MqttConfig};
use jetwatch_publish::{self as publish, PublishError};

/// Longest that each step may take.
const LIMIT: Duration = Duration::from_secs(5);

pub(super) fn examine(subject: &Subject, lines: &mut Lines) {
    const WHAT: &str = "broker";
    let Some(config) = subject.config() else {
        lines.unknown(WHAT, subject.without_config());
        return;
    };
    let Some(mqtt) = &config.publish.mqtt else {
        lines.ok(WHAT, "publish.mqtt is off");
        return;
    };
    let mut mqtt = mqtt.clone();
    let mut own = None;
    if let Broker::Embedded { listen } = mqtt.broker {
        // One that runs is asked as any other; where none does, the address must be free for one.
        match publish::EmbeddedBroker::start(listen, mqtt.credentials.as_ref()) {
            Ok(broker) => {
                mqtt.broker = url(broker.local_addr());
                own = Some(broker);
            }
            Err(error) if subject.daemons.is_empty() => {
                lines.wrong(WHAT, &error.to_string());
                return;
            }
            Err(_) => mqtt.broker = url(listen),
        }
    }
    reach(subject, config.device.as_str(), &mqtt, own.is_some(), lines);
    if let Some(broker) = own {
        broker.stop();
    }
}

fn url(listen: std::net::SocketAddr) -> Broker {
    let ip = match listen.ip() {
        ip if !ip.is_unspecified() => ip,
        std::net::IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
        std::net::IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
    };
    Broker::Url {
        host: ip.to_string(),
        port: listen.port(),
        tls: false,
    }
}

fn reach(subject: &Subject, device: &str, mqtt: &MqttConfig, is_own: bool, lines: &mut Lines) {
    let info = match publish::probe(mqtt, LIMIT) {
        Ok(info) => info,
        // The file of a password is for root and the daemon alone.
        Err(error) if error.is_units_alone() => {
            lines.unknown("broker", &error.to_string());
            return;
        }
        Err(error @ PublishError::Password { .. }) if !subject.is_root => {
            subject.unreadable(lines, "broker", &error.to_string());
            return;
        }
        Err(error) => {
            lines.wrong("broker", &error.to_string());
            return;
        }
    };
    let kind = match is_own {
        true => "embedded, its address is free: ",
        false => "",
    };
    lines.ok(
        "broker",
        &format!(
            "{kind}{} speaks MQTT {} and accepts us after {:.0} ms",
            info.address,
            info.protocol,
            info.connect_time.as_secs_f64() * 1e3
        ),
    );
    match publish::round_trip(mqtt, device, LIMIT) {
        Ok(time) => lines.ok(
            "message to the broker and back",
            &format!("{:.1} ms", time.as_secs_f64() * 1e3),
        ),
        Err(error) => lines.wrong("message to the broker and back", &error.to_string()),
    }
}
