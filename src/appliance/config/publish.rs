// SPDX-License-Identifier: Apache-2.0
//! `publish`: where tracks and statistics go.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::credentials::{LoginKeys, credentials};
use super::mqtt_broker::{self, BrokerKeys};
use super::mqtt_states::{self, StatesConfig};
use super::schema::ValueType;
use super::section::Section;
use super::yaml::map::Map;
use super::yaml::node::Value;
use super::{
    Broker, Config, FormatConfig, Secret, SpoolConfig, WebhookConfig, names, other_formats, webhook,
};

/// Where tracks go. Several sinks may be on at once.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(check = webhook::check_names)]
pub struct PublishConfig {
    /// Minimum time between two updates of one track.
    #[key(name = "update_interval_ms", range = 0..=600_000, default = 500)]
    pub update_interval: Duration,
    /// A lower count, or a lost track, is published once it has lasted this long.
    #[key(name = "count_hold_ms", range = 0..=60_000, default = 500)]
    pub count_hold: Duration,
    /// Time between two messages with statistics.
    #[key(name = "stats_interval_s", range = 1..=86_400, default = 10)]
    pub stats_interval: Duration,
    /// Publish the tracks of every frame too, below SOURCE/detections.
    #[key(default = false)]
    pub detections: bool,
    /// MQTT, or off. Default: an embedded broker on 127.0.0.1:1883.
    #[key(value = ValueType::WordOrMap("off", MqttConfig::KEYS), read = mqtt)]
    pub mqtt: Option<MqttConfig>,
    /// One JSON object per line, into a file. Default: none.
    pub json_lines: Option<JsonLinesConfig>,
    /// Events as HTTP POST requests. Default: none.
    ///
    /// Names are unique.
    pub webhooks: Vec<WebhookConfig>,
}

/// `off` is none, and a map that is not given has its defaults.
fn mqtt(map: &Map<'_>) -> Option<Option<MqttConfig>> {
    if let Some(node) = map.get("mqtt") {
        match node.value() {
            Value::Text("off") => return Some(None),
            Value::Map(_) | Value::Null => {}
            Value::Boolean(false) => {
                node.reject(
                    Some(map.expected("mqtt")),
                    Some("write mqtt: off".to_owned()),
                );
                return None;
            }
            _ => return node.type_error(&map.expected("mqtt")),
        }
    }
    let mqtt = map.section("mqtt")?;
    MqttConfig::from_map(&mqtt).map(Some)
}

/// The MQTT client.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(check = mqtt_broker::check_keys, check = mqtt_states::check_places, check = other_formats::check_places)]
pub struct MqttConfig {
    /// Which broker.
    #[key(keys = BrokerKeys, read = mqtt_broker::broker)]
    pub broker: Broker,
    /// Tried in turn where `broker` does not accept the connection.
    #[key(no_key, read = mqtt_broker::alternatives)]
    pub alternatives: Vec<Broker>,
    /// Embedded broker only: where it also listens with TLS. Needs user, a password, and the broker's tls.cert_file and tls.key_file.
    #[key(
        text = "an address with a port, such as 0.0.0.0:8883",
        parse = mqtt_broker::parse_listen
    )]
    pub listen_tls: Option<SocketAddr>,
    /// Another broker for states, statistics, pictures, commands and Home Assistant. Default: none.
    pub states: Option<StatesConfig>,
    /// First level of every topic.
    #[key(
        text = "one topic level: no `/`, `+`, `#`, `$` or space",
        check = is_topic_level,
        default = "jetwatch"
    )]
    pub prefix: String,
    /// MQTT client id; unique at the broker. Default: jetwatch-DEVICE.
    #[key(
        text = "an MQTT client id: printable ASCII without spaces, at most 128",
        check = is_client_id,
        default_with = client_id
    )]
    pub client_id: String,
    /// User and where the password comes from.
    #[key(keys = LoginKeys, read = login)]
    pub credentials: Option<Credentials>,
    /// mqtts://: trust and identity; by default the system's authorities, no client certificate. listen_tls: certificate and key of the embedded broker.
    pub tls: TlsConfig,
    /// Version of MQTT. auto: 5.0, and 3.1.1 where the broker does not take it. Default: auto.
    #[key(value = VERSIONS, read = version)]
    pub protocol: Option<MqttVersion>,
    /// MQTT keep-alive.
    #[key(name = "keep_alive_s", range = 5..=3600, default = 15)]
    pub keep_alive: Duration,
    /// Messages in memory while the broker is away. With a spool, more wait there; else updates of tracks, then the oldest, are dropped and counted.
    #[key(range = 1..=1_000_000, unit = "messages", default = 10_000)]
    pub queue_messages: usize,
    /// Unacknowledged messages, kept outside of the process.
    pub spool: SpoolConfig,
    /// The same events in the shapes of other systems. Default: none.
    pub also: Vec<FormatConfig>,
}

/// A version of MQTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MqttVersion {
    /// 5.0.
    V5,
    /// 3.1.1.
    V311,
}

const VERSIONS: ValueType = ValueType::Other {
    form: "auto, 5 or 3.1.1",
    schema: r#"{"enum": ["auto", 5, "5", "3.1.1"]}"#,
};

fn version(map: &Map<'_>) -> Option<Option<MqttVersion>> {
    let Some(node) = map.get("protocol") else {
        return Some(None);
    };
    match node.value() {
        Value::Text("auto") => Some(None),
        Value::Integer(5) | Value::Text("5") => Some(Some(MqttVersion::V5)),
        Value::Number(5.0) => Some(Some(MqttVersion::V5)),
        Value::Text("3.1.1") => Some(Some(MqttVersion::V311)),
        _ => node.type_error(&map.expected("protocol")),
    }
}

impl MqttConfig {
    /// The settings for each broker alone, in the order in which they are tried.
    pub fn for_each_broker(&self) -> Vec<Self> {
        let brokers = std::iter::once(&self.broker).chain(&self.alternatives);
        brokers.map(|broker| self.only(broker.clone())).collect()
    }

    /// The settings for this broker alone.
    pub fn only(&self, broker: Broker) -> Self {
        Self {
            broker,
            alternatives: Vec::new(),
            ..self.clone()
        }
    }
}

fn is_topic_level(text: &str) -> bool {
    text.chars().count() <= 128 && !text.contains(['/', '+', '#', '$', ' '])
}

pub(super) fn is_client_id(text: &str) -> bool {
    text.len() <= 128 && text.chars().all(|c| c.is_ascii_graphic())
}

/// The client id of this device.
fn client_id(map: &Map<'_>) -> String {
    let device = map
        .root(Config::KEYS)
        .and_then(|root| root.optional("device", || root.text("device")))
        .flatten();
    format!("jetwatch-{}", device.unwrap_or_else(names::device))
}

/// User name and password source.
#[derive(Clone, PartialEq)]
pub struct Credentials {
    /// User name.
    pub user: String,
    /// Where the password is.
    pub password: Secret,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .field("password", &self.password)
            .finish()
    }
}

pub(super) fn login(map: &Map<'_>) -> Option<Option<Credentials>> {
    let (user, password) = credentials(map);
    let pair = user.zip(password);
    Some(pair.map(|(user, password)| Credentials { user, password }))
}

/// TLS of the MQTT client.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(default, check = check_identity)]
pub struct TlsConfig {
    /// PEM file of the certificate authorities to trust. Default: the system's.
    pub ca_file: Option<PathBuf>,
    /// PEM file of the certificate chain, of this client or of the embedded broker; needs key_file.
    pub cert_file: Option<PathBuf>,
    /// PEM file of the private key; needs cert_file.
    pub key_file: Option<PathBuf>,
}

fn check_identity(map: &Map<'_>) {
    for (given, other) in [("cert_file", "key_file"), ("key_file", "cert_file")] {
        if map.has(given) && !map.has(other) {
            map.invalid(given, &format!("given without {other}"), None);
        }
    }
}

/// The JSON-lines sink.
#[derive(Debug, Clone, PartialEq, Section)]
pub struct JsonLinesConfig {
    /// File to append to; `-`: standard output.
    #[key(value = ValueType::Path, required, read = json_lines_path)]
    pub path: Option<PathBuf>,
}

/// `None` for standard output.
fn json_lines_path(map: &Map<'_>) -> Option<Option<PathBuf>> {
    let path = map.path("path")?;
    // The reader has put the folder of the file before it, so the text itself is compared.
    let is_stdout = matches!(map.get("path")?.value(), Value::Text("-"));
    Some((!is_stdout).then_some(path))
}
