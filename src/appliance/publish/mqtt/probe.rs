// SPDX-License-Identifier: Apache-2.0
//! What a broker takes, found out before the daemon runs: one connection, or a rehearsal of what the daemon does.

use std::time::{Duration, Instant};

use bytes::Bytes;
use jetwatch_mqtt::{Packet, Protocol, Publish, QoS};
use tokio::time::{timeout, timeout_at};

use super::connect::{ClientIdentity, connect};
use super::connection::Connection;
use super::known::Known;
use super::{OFFLINE, runtime};
use crate::home_assistant::discovery_prefix;
use crate::reaction::{Feature, Reaction, reactions};
use crate::{PublishError, Topics};
use jetwatch_config::MqttConfig;
use jetwatch_types::Classes;

/// Longest wait for a message that the broker has acknowledged.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Result of a successful [`probe`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerInfo {
    /// Host and port.
    pub address: String,
    /// `5.0` or `3.1.1`.
    pub protocol: &'static str,
    /// The client id of this connection: not that of the daemon, which would be disconnected.
    pub client_id: String,
    /// Time until the login was accepted, including DNS and TLS.
    pub connect_time: Duration,
}

/// Connects, logs in and disconnects, each step within `limit`. Blocks for at most a few times `limit`; starts no thread
/// that outlives it.
///
/// # Errors
/// The step that failed, with the remedy.
pub fn probe(config: &MqttConfig, limit: Duration) -> Result<BrokerInfo, PublishError> {
    let runtime = runtime("mqtt-probe")?;
    let result = runtime.block_on(async {
        let (mut link, info) = open(config, None, &mut Known::single(), limit).await?;
        link.disconnect(limit).await;
        Ok(info)
    });
    // A blocked DNS lookup must not block the caller.
    runtime.shutdown_background();
    result
}

/// What the daemon will publish to this broker, and receive.
#[derive(Debug, Clone, Copy, Default)]
pub struct RehearsalOptions<'o> {
    /// Events are published.
    pub has_events: bool,
    /// States are published.
    pub has_states: bool,
    /// Discovery prefix of Home Assistant; `None`: nothing is announced.
    pub discovery: Option<&'o str>,
    /// Commands are subscribed to.
    pub has_commands: bool,
    /// Largest picture, in bytes; 0: none are published.
    pub picture_bytes: usize,
}

/// Result of a successful [`rehearse`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rehearsal {
    /// The connection.
    pub info: BrokerInfo,
    /// What the daemon goes on without, as texts.
    pub missing: Vec<String>,
    /// What the broker does not allow, with the topics, as texts.
    pub denied: Vec<String>,
}

/// As [`probe`], with the last will of the daemon; then publishes an empty retained message on a topic of its own, below that of `device`,
/// and subscribes to it and to the topics of commands. The last will is not published: that connection ends before anything else is tried.
///
/// With MQTT 5, a message of each kind follows, on a topic as that of a source that does not exist. It is of QoS 2 and never released, so that a
/// broker answers, and delivers nothing.
///
/// # Errors
/// As for [`probe`]. What the broker only denies is not an error.
pub fn rehearse(
    config: &MqttConfig,
    device: &str,
    options: RehearsalOptions<'_>,
    limit: Duration,
) -> Result<Rehearsal, PublishError> {
    let runtime = runtime("mqtt-probe")?;
    let result = runtime.block_on(rehearsal(config, device, options, limit));
    runtime.shutdown_background();
    result
}

async fn rehearsal(
    config: &MqttConfig,
    device: &str,
    options: RehearsalOptions<'_>,
    limit: Duration,
) -> Result<Rehearsal, PublishError> {
    let topics = Topics::new(&config.prefix, device, &Classes::default());
    let mut known = Known::single();
    let will = (topics.status().as_ref().to_owned(), OFFLINE.to_owned());
    let (mut link, info) = open(config, Some(will), &mut known, limit).await?;
    let max_packet_bytes = link.max_packet_bytes;
    let mut missing: Vec<String> = link
        .without
        .iter()
        .map(|feature| match feature {
            Feature::Will => format!("{} ({})", feature.missing(), topics.status()),
            feature => feature.missing().to_owned(),
        })
        .collect();
    if !link.has_wildcards {
        missing.push(
            "it has no subscriptions with wildcards: switches by topic do not work, and values of an earlier run stay"
                .to_owned(),
        );
    }
    if max_packet_bytes < options.picture_bytes {
        missing.push(format!(
            "it takes packets of {max_packet_bytes} bytes at most: pictures are made smaller, and messages that are larger are dropped"
        ));
    }
    link.disconnect(limit).await;
    let mut denied = Vec::new();
    let own = format!("{}/{device}/check/{}", config.prefix, std::process::id());
    let (mut link, _) = open(config, None, &mut known, limit).await?;
    let is_subscribed = subscribes(&mut link, &[&own], limit, &mut denied).await;
    if options.has_commands && is_subscribed.is_some() {
        let set_filters = topics.set_filters();
        let filters =
            std::iter::once(topics.command()).chain(set_filters.iter().map(String::as_str));
        let filters: Vec<&str> = filters.collect();
        subscribes(&mut link, &filters, limit, &mut denied).await;
    }
    if is_subscribed.is_none() {
        // The broker has ended the connection on that.
        link = open(config, None, &mut known, limit).await?.0;
    }
    let qos = match link.without.has(Feature::QoS1) {
        false => QoS::AtLeastOnce,
        true => QoS::AtMostOnce,
    };
    let mut own_denied = None;
    match publish(&mut link, &own, (qos, 1), limit).await {
        Err(reason) => {
            own_denied = Some(format!(
                "it does not let this user publish to {own}: {reason}; allow {}/{device}/#",
                config.prefix
            ));
            // The broker may have ended the connection on that.
            link = open(config, None, &mut known, limit).await?.0;
        }
        Ok(false) if is_subscribed == Some(true) && !comes_back(&mut link, &own).await => {
            denied.push(format!(
                "it has acknowledged a message to {own} and does not deliver it: this user may not receive it, or, which MQTT 3.1.1 does \
                 not say, not publish it; allow both for {}/{device}/#",
                config.prefix
            ));
        }
        Ok(_) => {}
    }
    let kinds = match link.protocol == Protocol::V5 && link.has_qos2 {
        true => kinds(device, options, &topics),
        false => Vec::new(),
    };
    let mut refused = Vec::new();
    for (what, topic) in &kinds {
        let tried = (QoS::ExactlyOnce, 1);
        if let Err(reason) = publish(&mut link, topic, tried, limit).await {
            refused.push(format!("{what} ({topic}: {reason})"));
        }
        // A message that is not released counts until the connection ends.
        link.disconnect(limit).await;
        link = open(config, None, &mut known, limit).await?.0;
    }
    if refused.len() == kinds.len() {
        denied.extend(own_denied);
    } else if !refused.is_empty() {
        let discovery = options
            .discovery
            .map(|prefix| format!(" and {prefix}/device/#"));
        denied.push(format!(
            "it does not let this user publish {}: these will be missing; allow {}/{device}/#{}",
            refused.join(", "),
            config.prefix,
            discovery.unwrap_or_default()
        ));
    }
    link.disconnect(limit).await;
    Ok(Rehearsal {
        info,
        missing,
        denied,
    })
}

/// The kinds of messages that the daemon publishes, each with a topic that is only tried.
fn kinds(
    device: &str,
    options: RehearsalOptions<'_>,
    topics: &Topics,
) -> Vec<(&'static str, String)> {
    let own = format!("check-{}", std::process::id());
    let of_source = |levels| topics.of_source(&own, levels);
    let discovery = options
        .discovery
        .map(|prefix| discovery_prefix(prefix, device));
    let has_pictures = options.has_events && options.picture_bytes > 0;
    let kinds = [
        (options.has_events, "events", of_source("events")),
        (
            options.has_events,
            "analytics events",
            of_source("analytics"),
        ),
        (has_pictures, "pictures", of_source("snapshots/check")),
        (
            options.has_states,
            "the state of the device",
            topics.status().to_string(),
        ),
        (options.has_states, "states of sources", of_source("status")),
        (options.has_states, "counts", of_source("counts/check")),
        (
            options.has_commands,
            "replies to commands",
            topics.of_device("command/reply"),
        ),
        (
            discovery.is_some(),
            "entities of Home Assistant",
            format!("{}{own}/config", discovery.unwrap_or_default()),
        ),
    ];
    let published = kinds.into_iter().filter(|(is_published, ..)| *is_published);
    published.map(|(_, what, topic)| (what, topic)).collect()
}

async fn open(
    config: &MqttConfig,
    will: Option<(String, String)>,
    known: &mut Known,
    limit: Duration,
) -> Result<(Connection, BrokerInfo), PublishError> {
    // An own client id: with the daemon's, the broker would disconnect a running daemon.
    let identity = ClientIdentity {
        will,
        ..ClientIdentity::new(format!("{}-check-{}", config.client_id, std::process::id()))
    };
    let started = Instant::now();
    let link = connect(config, &identity, known, limit).await?;
    let info = BrokerInfo {
        protocol: link.protocol.name(),
        address: link.address.clone(),
        client_id: link.client_id.clone(),
        connect_time: started.elapsed(),
    };
    Ok((link, info))
}

/// Whether the broker allows `filters`; `None`: the connection has ended.
async fn subscribes(
    link: &mut Connection,
    filters: &[&str],
    limit: Duration,
    denied: &mut Vec<String>,
) -> Option<bool> {
    let (refused, is_open) = match link
        .subscribe_to_all(filters, QoS::AtLeastOnce, limit, drop)
        .await
    {
        Ok(refused) => (refused.join(", "), true),
        Err(PublishError::SubscriptionRefused { .. }) => (filters.join(", "), true),
        Err(error) => (format!("{}: {error}", filters.join(", ")), false),
    };
    let is_allowed = refused.is_empty();
    if !is_allowed {
        denied.push(format!("it does not let this user subscribe to {refused}"));
    }
    is_open.then_some(is_allowed)
}

/// Publishes an empty message and waits for the acknowledgement; returns whether the message has come back before it.
async fn publish(
    link: &mut Connection,
    topic: &str,
    (qos, id): (QoS, u16),
    limit: Duration,
) -> Result<bool, String> {
    let is_acknowledged = qos != QoS::AtMostOnce;
    let packet = Packet::Publish(Publish {
        topic: topic.into(),
        payload: Bytes::new(),
        qos,
        id: if is_acknowledged { id } else { 0 },
        retain: qos != QoS::ExactlyOnce && !link.without.has(Feature::Retain),
        dup: false,
        properties: Default::default(),
    });
    let text = |error: PublishError| error.to_string();
    link.send(&packet, limit).await.map_err(text)?;
    // Also without acknowledgements, its answer proves that the broker has read the message.
    link.send(&Packet::PingReq, limit).await.map_err(text)?;
    let latest = tokio::time::Instant::now() + limit;
    let mut is_back = false;
    loop {
        match timeout_at(latest, link.read()).await {
            Ok(Ok(Packet::PubAck(ack) | Packet::PubRec(ack))) => {
                return match reactions(ack.code).message {
                    Reaction::Nothing => Ok(is_back),
                    _ => Err(ack.explained()),
                };
            }
            Ok(Ok(Packet::PingResp)) if !is_acknowledged => return Ok(is_back),
            Ok(Ok(Packet::Publish(publish))) => is_back |= *publish.topic == *topic,
            Ok(Ok(Packet::Disconnect(reason))) => return Err(reason.explained()),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err(format!("no acknowledgement within {} s", limit.as_secs())),
        }
    }
}

async fn comes_back(link: &mut Connection, topic: &str) -> bool {
    let back = timeout(DELIVERY_TIMEOUT, link.wait_for(topic)).await;
    matches!(back, Ok(Ok(())))
}
