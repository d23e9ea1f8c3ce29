// SPDX-License-Identifier: Apache-2.0
//! `states` of `publish.mqtt`: another broker for everything but events.

use super::credentials::LoginKeys;
use super::mqtt_broker::{self, Broker, URL_FORMS};
use super::publish::{self, Credentials, MqttConfig, TlsConfig};
use super::schema::ValueType;
use super::section::Section;
use super::spool::SpoolConfig;
use super::yaml::map::Map;

/// Another broker for states.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(check = check_tls)]
pub struct StatesConfig {
    /// Which broker.
    #[key(keys = UrlKeys, read = broker)]
    pub broker: Broker,
    /// Tried in turn where `broker` does not accept the connection.
    #[key(no_key, read = alternatives)]
    pub alternatives: Vec<Broker>,
    /// MQTT client id; unique at the broker. Default: that of publish.mqtt with -states behind it.
    #[key(
        text = "an MQTT client id: printable ASCII without spaces, at most 128",
        check = publish::is_client_id
    )]
    pub client_id: Option<String>,
    /// User and where the password comes from; not that of publish.mqtt.
    #[key(keys = LoginKeys, read = publish::login)]
    pub credentials: Option<Credentials>,
    /// mqtts://: trust and identity; not that of publish.mqtt. Default: the system's authorities, no client certificate.
    pub tls: TlsConfig,
}

/// The keys that make a [`Broker`] elsewhere.
#[derive(Section)]
struct UrlKeys {
    /// Address of the broker.
    #[key(text = URL_FORMS)]
    #[expect(dead_code, reason = "read together with `brokers`")]
    broker: Option<String>,
    /// In place of broker: several, such as the nodes of a cluster, tried in turn from the first.
    #[key(value = ValueType::Texts(URL_FORMS), read = mqtt_broker::texts)]
    #[expect(dead_code, reason = "read together with `broker`")]
    brokers: Option<Vec<String>>,
}

impl MqttConfig {
    /// The settings of the client for states, which has no spool; `None`: one client has everything.
    pub fn for_states(&self) -> Option<Self> {
        let states = self.states.as_ref()?;
        let client_id = states.client_id.clone();
        Some(Self {
            broker: states.broker.clone(),
            alternatives: states.alternatives.clone(),
            states: None,
            listen_tls: None,
            client_id: client_id.unwrap_or_else(|| format!("{}-states", self.client_id)),
            credentials: states.credentials.clone(),
            tls: states.tls.clone(),
            spool: SpoolConfig::default(),
            also: Vec::new(),
            ..self.clone()
        })
    }
}

/// All brokers of the section, at least one.
fn brokers(map: &Map<'_>) -> Option<Vec<Broker>> {
    if map.has("brokers") {
        return mqtt_broker::list(map);
    }
    if !map.has("broker") {
        map.missing("broker", URL_FORMS);
        return None;
    }
    mqtt_broker::url(map).map(|broker| vec![broker])
}

fn broker(map: &Map<'_>) -> Option<Broker> {
    if map.has("broker") && map.has("brokers") {
        let hint = "leave one of the two out";
        map.invalid("brokers", "given together with broker", Some(hint));
    }
    brokers(map)?.into_iter().next()
}

fn alternatives(map: &Map<'_>) -> Option<Vec<Broker>> {
    match map.has("brokers") {
        true => brokers(map).map(|brokers| brokers.into_iter().skip(1).collect()),
        false => Some(Vec::new()),
    }
}

fn check_tls(map: &Map<'_>) {
    let uses_tls = |broker: &Broker| matches!(broker, Broker::Url { tls: true, .. });
    if map.has("tls") && brokers(map).is_some_and(|brokers| !brokers.iter().any(uses_tls)) {
        map.invalid(
            "tls",
            "needs a broker with mqtts://",
            Some("write mqtts:// or leave tls out"),
        );
    }
}

/// Records a broker that would have both. `map` is that of `publish.mqtt`.
pub(super) fn check_places(map: &Map<'_>) {
    if !map.has("states") {
        return;
    }
    let Some(states) = map.section("states") else {
        return;
    };
    let mut own: Vec<Broker> = mqtt_broker::broker(map).into_iter().collect();
    own.extend(mqtt_broker::alternatives(map).unwrap_or_default());
    let both = brokers(&states).unwrap_or_default();
    if both.iter().any(|broker| own.contains(broker)) {
        map.invalid(
            "states",
            "names a broker that has the events, too",
            Some("leave states out: one broker has everything then"),
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::mistakes::loaded;
    use crate::{Broker, MqttConfig};

    fn load(mqtt: &str) -> MqttConfig {
        let config = loaded(&format!("device: box\npublish: {{mqtt: {{{mqtt}}}}}"));
        config.publish.mqtt.expect("MQTT is on")
    }

    fn url(host: &str, port: u16) -> Broker {
        Broker::Url {
            host: host.to_owned(),
            port,
            tls: port == 8883,
        }
    }

    #[test]
    fn states_have_settings_of_their_own() {
        assert_eq!(load("broker: 'mqtt://a'").for_states(), None);
        let mqtt = load(
            "brokers: ['mqtts://a', 'mqtts://b'], user: gate, password: p, tls: {ca_file: /ca}, prefix: site, \
             also: [{format: frigate}], states: {broker: 'mqtt://ha', user: s, password: q}",
        );
        let states = mqtt.for_states().expect("given");
        assert_eq!(states.broker, url("ha", 1883));
        assert_eq!(states.client_id, "jetwatch-box-states");
        assert_eq!(states.prefix, "site");
        assert_eq!(states.credentials.expect("given").user, "s");
        assert_eq!((states.tls.ca_file, states.also), (None, Vec::new()));
        assert_eq!((mqtt.broker, mqtt.also.len()), (url("a", 8883), 1));
        let mqtt = load(
            "broker: 'mqtt://a', states: {brokers: ['mqtts://b', 'mqtt://c'], client_id: x, tls: {ca_file: /ca}}",
        );
        let states = mqtt.for_states().expect("given");
        assert_eq!(states.broker, url("b", 8883));
        assert_eq!(states.alternatives, [url("c", 1883)]);
        assert_eq!(states.client_id, "x");
        assert_eq!(states.credentials, None);
    }
}
