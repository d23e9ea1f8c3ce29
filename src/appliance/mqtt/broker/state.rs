// SPDX-License-Identifier: Apache-2.0
//! All sessions, and what packets do to them. No I/O; the time is given.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::message::Message;
use super::retained::Retained;
use super::session::{Connected, Queued, Session};
use super::subscriptions::{Subscriptions, Target};
use super::{Limits, Refusal};
use crate::topic::{is_valid_filter, is_valid_topic};
use crate::{
    Ack, Acks, ConnAck, Connect, Packet, Properties, Property, Protocol, Publish, QoS, Reason,
    ReasonCode, RetainHandling, Subscribe, Unsubscribe, Value, Will,
};

/// The state of the broker.
pub(super) struct State {
    limits: Limits,
    /// By client id. A session without a connection outlives it.
    sessions: HashMap<Arc<str>, Session>,
    subscriptions: Subscriptions,
    retained: Retained,
    /// Sessions with a connection.
    connected: usize,
    /// Of the newest connection.
    number: u64,
    is_stopping: bool,
    /// Empty between two messages; its memory is used again.
    targets: Vec<Target>,
}

/// A client that was let in.
pub(super) struct Accepted {
    pub client: Arc<str>,
    pub number: u64,
    pub answer: ConnAck,
    /// Largest packet that the client takes, in bytes.
    pub packet_bytes: usize,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The client has left, or is gone.
    Left { with_will: bool },
    /// The broker ends it.
    Error(ReasonCode),
}

impl State {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            sessions: HashMap::new(),
            subscriptions: Subscriptions::default(),
            retained: Retained::default(),
            connected: 0,
            number: 0,
            is_stopping: false,
            targets: Vec::new(),
        }
    }

    /// Lets a client in that has given the right password. A connection with the same client id ends.
    pub fn connect(
        &mut self,
        connect: Connect,
        wake: Arc<Notify>,
        now: Instant,
    ) -> Result<Accepted, (ReasonCode, Option<Refusal>)> {
        let refused = |code| Err((code, None));
        let is_v5 = connect.protocol == Protocol::V5;
        let number_of = |property| connect.properties.number(property);
        if self.is_stopping {
            return refused(ReasonCode::SERVER_SHUTTING_DOWN);
        }
        if connect
            .properties
            .text(Property::AUTHENTICATION_METHOD)
            .is_some()
        {
            return refused(ReasonCode::BAD_AUTHENTICATION_METHOD);
        }
        if let Some(will) = &connect.will {
            if !is_valid_topic(&will.topic) {
                return refused(ReasonCode::TOPIC_NAME_INVALID);
            }
            if will.retain && will.payload.len() > self.limits.retained_bytes {
                return refused(ReasonCode::QUOTA_EXCEEDED);
            }
        }
        let is_assigned = connect.client_id.is_empty();
        if is_assigned && !is_v5 && !connect.clean_start {
            return refused(ReasonCode::CLIENT_IDENTIFIER_NOT_VALID);
        }
        let client: Arc<str> = match is_assigned {
            true => self.new_client_id().into(),
            false => connect.client_id.as_str().into(),
        };
        let wanted = match is_v5 {
            true => number_of(Property::SESSION_EXPIRY_INTERVAL).unwrap_or(0),
            false if connect.clean_start => 0,
            false => u32::MAX,
        };
        let expiry = Duration::from_secs(wanted.into()).min(self.limits.session_expiry);
        let known = self.sessions.get(&client);
        let outlives = |session: &Session| !session.expiry.is_zero();
        if !expiry.is_zero()
            && !known.is_some_and(outlives)
            && self
                .sessions
                .values()
                .filter(|other| outlives(other))
                .count()
                >= self.limits.sessions
        {
            return Err((ReasonCode::QUOTA_EXCEEDED, Some(Refusal::TooManySessions)));
        }
        let is_connected = known.is_some_and(|session| session.connected.is_some());
        if !is_connected && self.connected >= self.limits.clients {
            return Err((ReasonCode::SERVER_BUSY, Some(Refusal::TooManyClients)));
        }

        if is_connected {
            self.take_over(&client, connect.clean_start, now);
        }
        if connect.clean_start {
            self.end_session(&client, now);
        }
        self.number += 1;
        self.connected += 1;
        let session_present = self.sessions.contains_key(&client);
        let session = self.sessions.entry(Arc::clone(&client));
        let session = session.or_insert_with(|| Session::new(connect.protocol));
        let connected = Connected {
            number: self.number,
            wake,
        };
        let most = number_of(Property::RECEIVE_MAXIMUM).map_or(usize::MAX, |most| most as usize);
        let window = most.clamp(1, self.limits.in_flight);
        session.connect(connect.protocol, connected, window);
        session.expiry = expiry;
        session.will = connect.will;
        let expiry_s = expiry.as_secs() as u32;
        let properties = [
            (
                Property::MAXIMUM_PACKET_SIZE,
                Value::Number(self.limits.packet_bytes as u32),
            ),
            (
                Property::SUBSCRIPTION_IDENTIFIER_AVAILABLE,
                Value::Number(0),
            ),
            (Property::SHARED_SUBSCRIPTION_AVAILABLE, Value::Number(0)),
        ];
        let assigned =
            is_assigned.then_some((Property::ASSIGNED_CLIENT_IDENTIFIER, Value::Text(&client)));
        let shortened = (expiry_s != wanted)
            .then_some((Property::SESSION_EXPIRY_INTERVAL, Value::Number(expiry_s)));
        let properties: Properties = properties
            .into_iter()
            .chain(assigned)
            .chain(shortened)
            .collect();
        let packet_bytes = number_of(Property::MAXIMUM_PACKET_SIZE);
        Ok(Accepted {
            answer: ConnAck {
                session_present,
                code: ReasonCode::SUCCESS,
                properties,
            },
            client,
            number: self.number,
            packet_bytes: packet_bytes.map_or(usize::MAX, |bytes| bytes as usize),
        })
    }

    /// Unlike those of other runs and of other programs.
    fn new_client_id(&self) -> String {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let nanos = since.map_or(0, |since| since.as_nanos() as u64);
        format!("auto-{nanos:016x}-{}", self.number)
    }

    /// Ends the connection of `client`, whose next one has come.
    fn take_over(&mut self, client: &Arc<str>, ends_session: bool, now: Instant) {
        let Some(session) = self.sessions.get_mut(client) else {
            return;
        };
        self.connected -= 1;
        if let Some(connected) = session.connected.take() {
            connected.wake.notify_one();
        }
        // A will with a delay is for a client that does not come back in time.
        let delayed = |will: &Will| delay(will) > 0 && !ends_session;
        if let Some(will) = session.will.take().filter(|will| !delayed(will)) {
            self.publish_will(&will, now);
        }
    }

    /// A packet of the connection `number` of `client`; returns the answer to it.
    pub fn packet(
        &mut self,
        client: &Arc<str>,
        number: u64,
        packet: Packet,
        now: Instant,
    ) -> Result<Option<Packet>, End> {
        let longest = self.limits.session_expiry;
        let session = self.session(client, number)?;
        Ok(match packet {
            Packet::Publish(publish) => self.publish(client, number, &publish, now)?,
            Packet::PubAck(ack) | Packet::PubComp(ack) => {
                session.complete(ack.id);
                None
            }
            Packet::PubRec(ack) if ack.code.is_error() => {
                session.complete(ack.id);
                None
            }
            Packet::PubRec(ack) => {
                let code = found(session.release(ack.id));
                Some(Packet::PubRel(Ack::new(ack.id, code)))
            }
            Packet::PubRel(ack) => {
                let code = found(session.received.remove(&ack.id));
                Some(Packet::PubComp(Ack::new(ack.id, code)))
            }
            Packet::Subscribe(subscribe) => self.subscribe(client, number, &subscribe, now)?,
            Packet::Unsubscribe(unsubscribe) => self.unsubscribe(client, &unsubscribe),
            Packet::PingReq => Some(Packet::PingResp),
            Packet::Disconnect(Reason { code, properties }) => {
                let expiry = properties.number(Property::SESSION_EXPIRY_INTERVAL);
                if let (false, Some(seconds)) = (session.expiry.is_zero(), expiry) {
                    session.expiry = Duration::from_secs(seconds.into()).min(longest);
                }
                let with_will = code != ReasonCode::SUCCESS;
                return Err(End::Left { with_will });
            }
            // A second CONNECT, and what only a broker sends.
            Packet::Connect(_)
            | Packet::ConnAck(_)
            | Packet::SubAck(_)
            | Packet::UnsubAck(_)
            | Packet::PingResp
            | Packet::Auth(_) => return Err(End::Error(ReasonCode::PROTOCOL_ERROR)),
        })
    }

    /// The next packet for the connection `number` of `client`.
    pub fn next(&mut self, client: &str, number: u64, now: Instant) -> Result<Option<Packet>, End> {
        let session = own_session(&mut self.sessions, self.is_stopping, client, number)?;
        Ok(session.next(&self.limits, now))
    }

    /// The client cannot take the message with this identifier.
    pub fn skip(&mut self, client: &str, number: u64, id: u16) {
        if let Ok(session) = self.session(client, number) {
            session.complete(id);
        }
    }

    /// The session, where its connection is `number`: else another one has taken over, or the broker ends.
    pub fn session(&mut self, client: &str, number: u64) -> Result<&mut Session, End> {
        own_session(&mut self.sessions, self.is_stopping, client, number)
    }

    fn publish(
        &mut self,
        client: &Arc<str>,
        number: u64,
        publish: &Publish,
        now: Instant,
    ) -> Result<Option<Packet>, End> {
        if publish.properties.number(Property::TOPIC_ALIAS).is_some() {
            return Err(End::Error(ReasonCode::TOPIC_ALIAS_INVALID));
        }
        if !is_valid_topic(&publish.topic) {
            return Err(End::Error(ReasonCode::TOPIC_NAME_INVALID));
        }
        let session = self.session(client, number)?;
        let is_v5 = session.protocol == Protocol::V5;
        let mut code = ReasonCode::SUCCESS;
        // One of QoS 2 that was sent again.
        let is_known = publish.qos == QoS::ExactlyOnce && session.received.contains(&publish.id);
        if !is_known {
            let message = Arc::new(Message::of(publish, now));
            let is_kept = !message.retain || self.retained.has_place(&message, &self.limits, now);
            if !is_kept && is_v5 {
                code = ReasonCode::QUOTA_EXCEEDED;
            } else {
                self.route(&message, Some(client), is_kept);
                if publish.qos == QoS::ExactlyOnce {
                    self.session(client, number)?.received.insert(publish.id);
                }
            }
        }
        let ack = Ack::new(publish.id, code);
        Ok(match publish.qos {
            QoS::AtMostOnce => None,
            QoS::AtLeastOnce => Some(Packet::PubAck(ack)),
            QoS::ExactlyOnce => Some(Packet::PubRec(ack)),
        })
    }

    /// To all subscribers, and to those to come where it is to be retained and `is_kept`.
    fn route(&mut self, message: &Arc<Message>, publisher: Option<&str>, is_kept: bool) {
        if message.retain && is_kept {
            self.retained.keep(message);
        }
        let mut targets = std::mem::take(&mut self.targets);
        self.subscriptions
            .find(&message.topic, publisher, &mut targets);
        for target in targets.drain(..) {
            if let Some(session) = self.sessions.get_mut(&target.client) {
                let queued = Queued {
                    message: Arc::clone(message),
                    qos: message.qos.min(target.qos),
                    retain: message.retain && target.retain_as_published,
                    is_for_subscription: false,
                };
                session.push(queued, &self.limits);
            }
        }
        self.targets = targets;
    }

    fn subscribe(
        &mut self,
        client: &Arc<str>,
        number: u64,
        subscribe: &Subscribe,
        now: Instant,
    ) -> Result<Option<Packet>, End> {
        let session = own_session(&mut self.sessions, self.is_stopping, client, number)?;
        let has_identifier = subscribe
            .properties
            .number(Property::SUBSCRIPTION_IDENTIFIER)
            .is_some();
        let mut codes = Vec::new();
        for (filter, options) in subscribe.filters.iter() {
            let is_new = !session.filters.contains(filter);
            let is_full = codes.len() >= self.limits.subscriptions
                || (is_new && session.filters.len() >= self.limits.subscriptions);
            codes.push(if filter.starts_with("$share/") {
                ReasonCode::SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
            } else if has_identifier {
                ReasonCode::SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED
            } else if !is_valid_filter(filter) {
                ReasonCode::TOPIC_FILTER_INVALID
            } else if is_full {
                ReasonCode::QUOTA_EXCEEDED
            } else {
                let filter: Arc<str> = filter.into();
                self.subscriptions.insert(&filter, client, options);
                let wants = match options.retain_handling {
                    RetainHandling::Send => true,
                    RetainHandling::SendIfNew => is_new,
                    RetainHandling::DoNotSend => false,
                };
                let retained = self.retained.matching(&filter, now);
                for message in retained.take_while(|_| wants) {
                    let queued = Queued {
                        message: Arc::clone(message),
                        qos: message.qos.min(options.qos),
                        retain: true,
                        is_for_subscription: true,
                    };
                    session.push(queued, &self.limits);
                }
                session.filters.insert(filter);
                ReasonCode(options.qos as u8)
            });
        }
        Ok(Some(Packet::SubAck(Acks::new(subscribe.id, codes))))
    }

    fn unsubscribe(&mut self, client: &Arc<str>, unsubscribe: &Unsubscribe) -> Option<Packet> {
        let session = self.sessions.get_mut(client)?;
        let codes = unsubscribe.filters.iter().map(|(filter, _)| {
            if !session.filters.remove(filter) {
                return ReasonCode::NO_SUBSCRIPTION_EXISTED;
            }
            self.subscriptions.remove(filter, client);
            ReasonCode::SUCCESS
        });
        Some(Packet::UnsubAck(Acks::new(unsubscribe.id, codes)))
    }

    /// The connection `number` of `client` has ended; nothing where another one has taken over.
    pub fn left(&mut self, client: &Arc<str>, number: u64, with_will: bool, now: Instant) {
        let Some(session) = self.sessions.get_mut(client) else {
            return;
        };
        if session.connected.as_ref().map(|own| own.number) != Some(number) {
            return;
        }
        self.connected -= 1;
        session.connected = None;
        session.ends_at = Some(now + session.expiry);
        match &session.will {
            Some(will) if with_will => {
                let delay = Duration::from_secs(delay(will).into());
                session.will_at = Some(now + delay.min(session.expiry));
            }
            _ => session.will = None,
        }
        self.advance(now);
    }

    /// Publishes wills and ends sessions that are due; returns when the next one is.
    pub fn advance(&mut self, now: Instant) -> Option<Instant> {
        loop {
            let due = |session: &Session| {
                [session.will_at, session.ends_at]
                    .into_iter()
                    .flatten()
                    .min()
            };
            let sessions = self.sessions.iter();
            let (at, client) = sessions
                .filter_map(|(client, session)| Some((due(session)?, client)))
                .min_by_key(|&(at, _)| at)?;
            if at > now {
                return Some(at);
            }
            let client = Arc::clone(client);
            let session = self.sessions.get_mut(&client)?;
            if session.will_at.take().is_some_and(|will_at| will_at <= now) {
                if let Some(will) = session.will.take() {
                    self.publish_will(&will, now);
                }
            } else {
                self.end_session(&client, now);
            }
        }
    }

    fn end_session(&mut self, client: &Arc<str>, now: Instant) {
        let Some(session) = self.sessions.remove(client) else {
            return;
        };
        for filter in &session.filters {
            self.subscriptions.remove(filter, client);
        }
        // Its delay ends with the session.
        if let Some(will) = session.will {
            self.publish_will(&will, now);
        }
    }

    fn publish_will(&mut self, will: &Will, now: Instant) {
        let message = Arc::new(Message::of_will(will, now));
        let is_kept = self.retained.has_place(&message, &self.limits, now);
        self.route(&message, None, is_kept);
    }

    /// All connections end, and no other one begins.
    pub fn stop(&mut self) {
        self.is_stopping = true;
        for session in self.sessions.values() {
            if let Some(connected) = &session.connected {
                connected.wake.notify_one();
            }
        }
    }
}

/// Apart from the other fields of the state.
fn own_session<'a>(
    sessions: &'a mut HashMap<Arc<str>, Session>,
    is_stopping: bool,
    client: &str,
    number: u64,
) -> Result<&'a mut Session, End> {
    if is_stopping {
        return Err(End::Error(ReasonCode::SERVER_SHUTTING_DOWN));
    }
    let is_own = |session: &&mut Session| {
        let own = session.connected.as_ref().map(|own| own.number);
        own == Some(number)
    };
    let session = sessions.get_mut(client).filter(is_own);
    session.ok_or(End::Error(ReasonCode::SESSION_TAKEN_OVER))
}

fn found(is_found: bool) -> ReasonCode {
    match is_found {
        true => ReasonCode::SUCCESS,
        false => ReasonCode::PACKET_IDENTIFIER_NOT_FOUND,
    }
}

/// Seconds between the end of a connection and its will.
fn delay(will: &Will) -> u32 {
    let delay = will.properties.number(Property::WILL_DELAY_INTERVAL);
    delay.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{Filters, SubscribeOptions};

    /// A session that stays for `expiry_s`.
    fn connect(state: &mut State, client_id: &str, expiry_s: u32, now: Instant) -> Accepted {
        let number = |property, value| (property, Value::Number(value));
        let will = Will {
            topic: "will".to_owned(),
            payload: Bytes::new(),
            qos: QoS::AtMostOnce,
            retain: false,
            properties: [number(Property::WILL_DELAY_INTERVAL, 60)]
                .into_iter()
                .collect(),
        };
        let connect = Connect {
            protocol: Protocol::V5,
            clean_start: false,
            keep_alive: 0,
            client_id: client_id.to_owned(),
            will: Some(will),
            user: None,
            password: None,
            properties: [number(Property::SESSION_EXPIRY_INTERVAL, expiry_s)]
                .into_iter()
                .collect(),
        };
        let accepted = state.connect(connect, Arc::default(), now);
        accepted.unwrap_or_else(|(code, _)| panic!("{code}"))
    }

    fn subscribe(state: &mut State, client: &Accepted, filter: &str, now: Instant) {
        let filters = Filters::new([(filter, SubscribeOptions::new(QoS::AtLeastOnce))]);
        let subscribe = Packet::Subscribe(Subscribe {
            id: 1,
            filters: filters.expect("short"),
            properties: Properties::default(),
        });
        state
            .packet(&client.client, client.number, subscribe, now)
            .expect("it is connected");
    }

    fn next(state: &mut State, client: &Accepted, now: Instant) -> Option<Publish> {
        match state.next(&client.client, client.number, now) {
            Ok(Some(Packet::Publish(publish))) => Some(publish),
            Ok(None) => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn sessions_and_wills_are_due_in_their_order() {
        let (mut state, start) = (State::new(Limits::default()), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let watcher = connect(&mut state, "watcher", 0, start);
        subscribe(&mut state, &watcher, "will", start);
        for (id, expiry_s) in [("long", u32::MAX), ("short", 10)] {
            let client = connect(&mut state, id, expiry_s, start);
            let told = client
                .answer
                .properties
                .number(Property::SESSION_EXPIRY_INTERVAL);
            assert_eq!(told, (expiry_s > 3600).then_some(3600), "{id}");
            state.left(&client.client, client.number, true, start);
        }
        // A will comes after its delay, or with the end of its session.
        for (seconds, due) in [
            (9, Some(10)),
            (10, Some(60)),
            (60, Some(3600)),
            (3600, None),
        ] {
            assert_eq!(state.advance(at(seconds)), due.map(at), "{seconds}");
            let is_will = matches!(seconds, 10 | 60);
            assert_eq!(next(&mut state, &watcher, at(seconds)).is_some(), is_will);
        }
        assert!(
            !connect(&mut state, "long", 1, at(3600))
                .answer
                .session_present
        );
        assert_eq!(state.sessions.len(), 2);
    }

    #[test]
    fn messages_that_have_expired_are_not_sent() {
        let (mut state, start) = (State::new(Limits::default()), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let client = connect(&mut state, "c", 600, start);
        subscribe(&mut state, &client, "a", start);
        for (payload, expiry_s) in [("short", 10), ("long", 100)] {
            let expiry = (Property::MESSAGE_EXPIRY_INTERVAL, Value::Number(expiry_s));
            let publish = Packet::Publish(Publish {
                topic: "a".into(),
                payload: Bytes::from_static(payload.as_bytes()),
                qos: QoS::AtLeastOnce,
                id: 1,
                retain: true,
                dup: false,
                properties: [expiry].into_iter().collect(),
            });
            let answer = state.packet(&client.client, client.number, publish, start);
            assert!(matches!(answer, Ok(Some(Packet::PubAck(_)))), "{answer:?}");
        }
        let left = next(&mut state, &client, at(40)).map(|publish| {
            assert_eq!(&publish.payload[..], b"long");
            publish.properties.number(Property::MESSAGE_EXPIRY_INTERVAL)
        });
        assert_eq!(left, Some(Some(60)));
        assert_eq!(next(&mut state, &client, at(40)), None);
        for (seconds, is_there) in [(99, true), (100, false)] {
            subscribe(&mut state, &client, "a", at(seconds));
            let found = next(&mut state, &client, at(seconds)).is_some();
            assert_eq!(found, is_there, "{seconds}");
        }
    }
}
