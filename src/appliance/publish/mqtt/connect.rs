// SPDX-License-Identifier: Apache-2.0
//! From a configuration to an open MQTT connection: address, TCP, TLS, CONNECT, CONNACK. Each step fails with its own
//! [`PublishError`].

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use jetwatch_mqtt::{
    Connect, Packet, Properties, Property, Protocol, QoS, ReasonCode, Value, Will,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::connection::{Connection, MAX_PACKET_BYTES};
use super::known::{Failure, Features, Known};
use super::tls::{client_config, untrusting_config};
use crate::error::{PublishError, read_password};
use crate::reaction::Feature;
use jetwatch_config::{Broker, MqttConfig, MqttVersion};

/// Longest wait for the answer to a TLS handshake on a plain address.
const TLS_TEST_TIMEOUT: Duration = Duration::from_secs(2);

const SPEAKS_TLS: &str = "TLS is spoken there; write mqtts:// in publish.mqtt.broker";

/// Client id and last will.
#[derive(Debug, Clone)]
pub(crate) struct ClientIdentity {
    /// MQTT client id.
    pub client_id: String,
    /// Topic and payload of the last will, retained with QoS 1.
    pub will: Option<(String, String)>,
    /// Only this version is tried; `None`: that of the configuration.
    pub protocol: Option<Protocol>,
}

impl ClientIdentity {
    /// Without a will.
    pub fn new(client_id: String) -> Self {
        Self {
            client_id,
            will: None,
            protocol: None,
        }
    }
}

/// Connects and logs in, each step within `limit`. Tries every address of the name, and without what the broker does not take: MQTT 5.0, the
/// last will or its flags; `known` remembers that.
pub(crate) async fn connect(
    config: &MqttConfig,
    identity: &ClientIdentity,
    known: &mut Known,
    limit: Duration,
) -> Result<Connection, PublishError> {
    let fixed = identity.protocol.or(match config.protocol {
        Some(MqttVersion::V5) => Some(Protocol::V5),
        Some(MqttVersion::V311) => Some(Protocol::V311),
        None => None,
    });
    let of_will = [Feature::Will, Feature::Retain, Feature::QoS1];
    let of_will = of_will.into_iter().filter(|_| identity.will.is_some());
    let of_version = [Feature::Version5].into_iter().filter(|_| fixed.is_none());
    let optional: Features = of_will.chain(of_version).collect();
    let attempt_without = |left_out: Features, last: Option<Failure>| {
        // A broker that has not answered for so long answers soon or not at all.
        let limit = match last {
            Some(Failure::Silent) => limit / 4,
            _ => limit,
        };
        let protocol = fixed.unwrap_or(match left_out.has(Feature::Version5) {
            true => Protocol::V311,
            false => Protocol::V5,
        });
        attempt(config, identity, left_out, protocol, limit)
    };
    let mut tried = vec![known.begin()];
    let mut first_error = None;
    let mut last = None;
    loop {
        let left_out = tried[tried.len() - 1];
        match attempt_without(left_out, last).await {
            Ok(link) => {
                // A broker that has said nothing may have been starting, and take everything by now.
                if matches!(last, Some(Failure::Closed | Failure::Silent))
                    && let Ok(link) = attempt_without(tried[0], last).await
                {
                    known.accepted(tried[0], None);
                    return Ok(link);
                }
                known.accepted(left_out, last);
                return Ok(link);
            }
            Err((error, failure)) => {
                last = Some(failure);
                let next = known.next(failure, &tried, optional);
                // The first one says most, as what is left out is not the cause of the others, except where a login is refused.
                let error = match first_error.take() {
                    Some(first) if !error.is_refusal() => first,
                    _ => error,
                };
                match next {
                    Some(next) => {
                        first_error = Some(error);
                        tried.push(next);
                    }
                    None => {
                        let is_closed = matches!(error, PublishError::Closed { .. });
                        if is_closed && known.is_thorough() && speaks_tls(config, limit).await {
                            let address = address_of(config);
                            let reason = SPEAKS_TLS;
                            return Err(PublishError::NotMqtt { address, reason });
                        }
                        return Err(with_version(error, fixed));
                    }
                }
            }
        }
    }
}

/// The error where no version is supported.
fn with_version(error: PublishError, fixed: Option<Protocol>) -> PublishError {
    match error {
        PublishError::Rejected { address, code, .. }
            if code == ReasonCode::UNSUPPORTED_PROTOCOL_VERSION =>
        {
            let reason = match fixed {
                Some(protocol) => format!("it does not support MQTT {}", protocol.name()),
                None => "it supports neither MQTT 5.0 nor 3.1.1".to_owned(),
            };
            PublishError::Rejected {
                address,
                code,
                reason,
            }
        }
        error => error,
    }
}

/// Whether a plain address answers a TLS handshake, even with a certificate that nobody trusts.
async fn speaks_tls(config: &MqttConfig, limit: Duration) -> bool {
    let limit = limit.min(TLS_TEST_TIMEOUT);
    let (host, port, tls) = endpoint(&config.broker);
    if tls {
        return false;
    }
    let connector = TlsConnector::from(untrusting_config());
    let address = address_of(config);
    let Ok(addresses) = resolve(&host, port, limit).await else {
        return false;
    };
    for socket in addresses {
        match open_at(socket, Some(&connector), &address, &host, limit).await {
            Ok(_) | Err(PublishError::Tls { .. }) => return true,
            Err(_) => {}
        }
    }
    false
}

/// As [`connect`] at each of `brokers`, of which `known` has one each, in turn from the one at `first` on, until one accepts; returns its index, too.
pub(crate) async fn connect_in_turn(
    brokers: &[MqttConfig],
    first: usize,
    identity: &ClientIdentity,
    known: &mut [Known],
    limit: Duration,
) -> Result<(Connection, usize), PublishError> {
    let mut errors = Vec::new();
    for number in 0..brokers.len() {
        let index = (first + number) % brokers.len();
        match connect(&brokers[index], identity, &mut known[index], limit).await {
            Ok(connection) => return Ok((connection, index)),
            Err(error) => errors.push(error),
        }
    }
    match errors.len() {
        1 => Err(errors.remove(0)),
        _ => Err(PublishError::NoneAccepts(errors)),
    }
}

/// Host and port as error texts show them.
pub(crate) fn address_of(config: &MqttConfig) -> String {
    let (host, port, _) = endpoint(&config.broker);
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// One connection in one form.
async fn attempt(
    config: &MqttConfig,
    identity: &ClientIdentity,
    left_out: Features,
    protocol: Protocol,
    limit: Duration,
) -> Result<Connection, (PublishError, Failure)> {
    let before = |error| (error, Failure::Other);
    let address = address_of(config);
    // The password first: a missing file is the same error whether or not the broker is up.
    let login = match &config.credentials {
        Some(credentials) => {
            let password = read_password(credentials).map_err(before)?;
            Some((credentials.user.clone(), password))
        }
        None => None,
    };
    let (reader, writer) = open(config, &address, limit).await.map_err(before)?;
    let mut link = Connection {
        reader,
        writer,
        pending: BytesMut::with_capacity(4096),
        protocol,
        aliases: HashMap::new(),
        keep_alive: config.keep_alive.max(Duration::from_secs(1)),
        receive_maximum: usize::from(u16::MAX),
        max_packet_bytes: usize::MAX,
        without: left_out,
        has_wildcards: true,
        has_qos2: true,
        client_id: identity.client_id.clone(),
        address,
    };
    let will = identity.will.as_ref().map(|(topic, payload)| Will {
        topic: topic.clone(),
        payload: Bytes::copy_from_slice(payload.as_bytes()),
        qos: match left_out.has(Feature::QoS1) {
            true => QoS::AtMostOnce,
            false => QoS::AtLeastOnce,
        },
        retain: !left_out.has(Feature::Retain),
        properties: Properties::default(),
    });
    let (user, password) = login.clone().unzip();
    // A broker does not send what this client would end the connection for.
    let properties = [(
        Property::MAXIMUM_PACKET_SIZE,
        Value::Number(MAX_PACKET_BYTES as u32),
    )];
    let connect = Packet::Connect(Box::new(Connect {
        protocol,
        clean_start: true,
        keep_alive: u16::try_from(link.keep_alive.as_secs()).unwrap_or(u16::MAX),
        client_id: identity.client_id.clone(),
        will: will.filter(|_| !left_out.has(Feature::Will)),
        user,
        password: password.map(|password| Bytes::from(password.into_bytes())),
        properties: properties.into_iter().collect(),
    }));
    let failed = |error| match error {
        error @ PublishError::Closed { .. } => (error, Failure::Closed),
        error => (client_certificate_error(config, error), Failure::Other),
    };
    link.send(&connect, limit).await.map_err(failed)?;
    let answer = match timeout(limit, link.read()).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => match not_mqtt(&link.pending) {
            Some(reason) => {
                let address = link.address;
                return Err(before(PublishError::NotMqtt { address, reason }));
            }
            None => return Err(failed(error)),
        },
        Err(_) => {
            let error = PublishError::Timeout {
                address: link.address,
                step: "logging in",
                waited: limit,
            };
            return Err((error, Failure::Silent));
        }
    };
    let (code, text) = match &answer {
        Packet::ConnAck(answer) if answer.code == ReasonCode::SUCCESS => {
            link.accept(&answer.properties);
            return Ok(link);
        }
        Packet::ConnAck(answer) => (answer.code, answer.explained()),
        // In place of CONNACK.
        Packet::Disconnect(reason) => (reason.code, reason.explained()),
        Packet::Auth(_) => {
            let text = "it wants enhanced authentication, which is not supported";
            (ReasonCode::BAD_AUTHENTICATION_METHOD, text.to_owned())
        }
        other => {
            let reason = format!("it answered CONNECT with {}", other.name());
            return Err(before(link.lost(reason)));
        }
    };
    let user = login.map_or_else(|| "(none)".to_owned(), |(user, _)| user);
    let error = match code {
        ReasonCode::BAD_USER_NAME_OR_PASSWORD => PublishError::BadPassword { user },
        // Brokers use this code both for a wrong password and for a user who may not connect; MQTT 3.1.1 has no finer one.
        ReasonCode::NOT_AUTHORIZED | ReasonCode::BANNED => PublishError::NotAuthorized {
            user,
            client_id: identity.client_id.clone(),
        },
        code => PublishError::Rejected {
            address: link.address,
            code,
            reason: text,
        },
    };
    Err((error, Failure::Refused(code)))
}

/// What answers with these bytes, and what to write.
fn not_mqtt(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        // An alert, or a handshake.
        [0x15 | 0x16, ..] => Some(SPEAKS_TLS),
        [b'H', b'T', b'T', b'P', ..] => {
            Some("a web server answers; write the port of MQTT, 1883 or with TLS 8883 as a rule")
        }
        _ => None,
    }
}

type IoHalves = (
    Box<dyn AsyncRead + Send + Unpin>,
    Box<dyn AsyncWrite + Send + Unpin>,
);

/// Opens TCP, and TLS on top of it, at the first address that accepts.
async fn open(
    config: &MqttConfig,
    address: &str,
    limit: Duration,
) -> Result<IoHalves, PublishError> {
    let (host, port, tls) = endpoint(&config.broker);
    let addresses = resolve(&host, port, limit).await?;
    let connector = match tls {
        true => Some(TlsConnector::from(client_config(config)?)),
        false => None,
    };
    let mut failure = PublishError::Resolve {
        host: host.clone(),
        reason: "the list is empty".to_owned(),
    };
    for socket in addresses {
        match open_at(socket, connector.as_ref(), address, &host, limit).await {
            Ok(halves) => return Ok(halves),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

async fn open_at(
    socket: SocketAddr,
    connector: Option<&TlsConnector>,
    address: &str,
    host: &str,
    limit: Duration,
) -> Result<IoHalves, PublishError> {
    let timed_out = |_| PublishError::Timeout {
        address: address.to_owned(),
        step: "connecting",
        waited: limit,
    };
    let unreachable = |error: std::io::Error| PublishError::Unreachable {
        address: address.to_owned(),
        reason: error.to_string(),
    };
    let connecting = timeout(limit, TcpStream::connect(socket)).await;
    let stream = connecting.map_err(timed_out)?.map_err(unreachable)?;
    // Else a small packet waits for the acknowledgement of the one before.
    stream.set_nodelay(true).map_err(unreachable)?;
    let Some(connector) = connector else {
        let (reader, writer) = stream.into_split();
        return Ok((Box::new(reader), Box::new(writer)));
    };
    let failed = |reason: String| PublishError::Tls {
        address: address.to_owned(),
        host: host.to_owned(),
        reason: tls_reason(&reason),
    };
    let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(error.to_string()))?;
    let handshake = timeout(limit, connector.connect(name, stream)).await;
    let stream = handshake.map_err(timed_out)?.map_err(|error| {
        use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
        let text = error.to_string();
        // A server without TLS answers with something else, or not at all.
        match matches!(error.kind(), ConnectionReset | UnexpectedEof) || text.contains("corrupt") {
            true => PublishError::NoTls {
                address: address.to_owned(),
                reason: text,
            },
            false => failed(text),
        }
    })?;
    let (reader, writer) = tokio::io::split(stream);
    Ok((Box::new(reader), Box::new(writer)))
}

async fn resolve(host: &str, port: u16, limit: Duration) -> Result<Vec<SocketAddr>, PublishError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    match timeout(limit, tokio::net::lookup_host((host, port))).await {
        Ok(Ok(addresses)) => Ok(addresses.collect()),
        Ok(Err(error)) => Err(PublishError::Resolve {
            host: host.to_owned(),
            reason: error.to_string(),
        }),
        Err(_) => {
            let reason = format!("no answer within {} s", limit.as_secs_f32());
            Err(PublishError::Resolve {
                host: host.to_owned(),
                reason,
            })
        }
    }
}

/// Host, port, and whether to use TLS. A broker that listens on all addresses is reached over loopback.
fn endpoint(broker: &Broker) -> (String, u16, bool) {
    match broker {
        Broker::Embedded { listen } => {
            let host = match listen.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
                IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
                ip => ip,
            };
            (host.to_string(), listen.port(), false)
        }
        Broker::Url { host, port, tls } => (host.trim_matches(['[', ']']).to_owned(), *port, *tls),
    }
}

/// The TLS library's message, or what it means where that is not to be guessed.
fn tls_reason(reason: &str) -> String {
    match reason.contains("CaUsedAsEndEntity") {
        true => "the broker presents the certificate of an authority (CA:TRUE), as `openssl req -x509` makes it, in place of one for a \
                 server; sign one for the broker with it, or make it with basicConstraints CA:FALSE and use the new file on both sides"
            .to_owned(),
        false => reason.to_owned(),
    }
}

/// With TLS 1.3 a broker that requires a client certificate reports its absence only after the handshake.
fn client_certificate_error(config: &MqttConfig, error: PublishError) -> PublishError {
    match (error, endpoint(&config.broker)) {
        (PublishError::Lost { address, reason }, (host, _, true)) if reason.contains("alert") => {
            PublishError::Tls {
                address,
                host,
                reason,
            }
        }
        (error, _) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcard_broker_address_connects_over_loopback() {
        let cases = [
            ("0.0.0.0:1883", "127.0.0.1"),
            ("[::]:1883", "::1"),
            ("192.168.1.2:1883", "192.168.1.2"),
        ];
        for (listen, host) in cases {
            let listen = listen.parse().expect("an address");
            let found = endpoint(&Broker::Embedded { listen });
            assert_eq!(found, (host.to_owned(), 1883, false));
        }
        let url = Broker::Url {
            host: "[::1]".to_owned(),
            port: 8883,
            tls: true,
        };
        assert_eq!(endpoint(&url), ("::1".to_owned(), 8883, true));
    }
}
