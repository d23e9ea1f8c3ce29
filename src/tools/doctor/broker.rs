// SPDX-License-Identifier: Apache-2.0
//! The broker: connection, login, and the round trip of a message; and the spool for messages that it has not acknowledged.

use std::time::Duration;

use super::check_report::CheckReport;
use super::context::DoctorContext;
use jetwatch_config::{Broker, MqttConfig};
use jetwatch_publish::{self as publish, PublishError, SpoolCheck};

/// Timeout of each step.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn run(context: &DoctorContext, report: &mut CheckReport) {
    const WHAT: &str = "broker";
    let Some(config) = context.config() else {
        report.unknown(WHAT, context.without_config());
        return;
    };
    let Some(mqtt) = &config.publish.mqtt else {
        report.ok(WHAT, "publish.mqtt is off");
        return;
    };
    match publish::check_spool(mqtt) {
        SpoolCheck::Ok(text) => report.ok("spool", &text),
        SpoolCheck::Unknown(text) => report.unknown("spool", &text),
        SpoolCheck::Failed(text) => report.failed("spool", &text),
    }
    let mut mqtt = mqtt.clone();
    let mut own = None;
    if let Broker::Embedded { listen } = mqtt.broker {
        // A running embedded broker is probed like any other; if none runs, its address must be free.
        match publish::EmbeddedBroker::start_for(&mqtt, listen) {
            Ok(broker) => {
                mqtt.broker = url(broker.local_addr());
                own = Some(broker);
            }
            Err(error) if context.daemons.is_empty() => {
                report.failed(WHAT, &error.to_string());
                return;
            }
            Err(_) => mqtt.broker = url(listen),
        }
    }
    for mqtt in mqtt.for_each_broker() {
        let device = &config.device;
        check_connection(context, WHAT, device, &mqtt, own.is_some(), report);
    }
    let states = mqtt.for_states();
    for states in states.iter().flat_map(MqttConfig::for_each_broker) {
        let what = "broker for states";
        check_connection(context, what, &config.device, &states, false, report);
    }
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

fn check_connection(
    context: &DoctorContext,
    what: &str,
    device: &str,
    mqtt: &MqttConfig,
    is_own: bool,
    report: &mut CheckReport,
) {
    let info = match publish::probe(mqtt, TIMEOUT) {
        Ok(info) => info,
        // Only root and the daemon may read the password file.
        Err(error) if error.is_units_alone() => {
            report.unknown(what, &error.to_string());
            return;
        }
        Err(error @ PublishError::Password { .. }) if !context.is_root => {
            context.unreadable(report, what, &error.to_string());
            return;
        }
        Err(error) => {
            report.failed(what, &error.to_string());
            return;
        }
    };
    let kind = match is_own {
        true => "embedded, its address is free: ",
        false => "",
    };
    report.ok(
        what,
        &format!(
            "{kind}{} speaks MQTT {} and accepts the connection after {:.0} ms",
            info.address,
            info.protocol,
            info.connect_time.as_secs_f64() * 1e3
        ),
    );
    match publish::round_trip(mqtt, device, TIMEOUT) {
        Ok(time) => report.ok(
            &format!("message to the {what} and back"),
            &format!("{:.1} ms", time.as_secs_f64() * 1e3),
        ),
        Err(error) => report.failed(
            &format!("message to the {what} and back"),
            &error.to_string(),
        ),
    }
}
