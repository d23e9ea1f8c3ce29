//! From a configuration to an open MQTT connection: address, TCP, TLS, CONNECT, CONNACK. Each step fails with its own
//! [`PublishError`].

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
use super::tls::client_config;
use crate::error::{PublishError, read_password};
use jetwatch_config::{Broker, MqttConfig};

/// Client id and last will.
#[derive(Debug, Clone)]
pub(crate) struct ClientIdentity {
    /// MQTT client id.
    pub client_id: String,
    /// Topic and payload of the last will, retained with QoS 1.
    pub will: Option<(String, String)>,
    /// Only this version is tried; `None`: 5.0, and 3.1.1 where that is not understood.
    pub protocol: Option<Protocol>,
}

/// Connects and logs in, each step within `limit`. Tries every address of the name, and MQTT 3.1.1 where 5.0 is not understood.
pub(crate) async fn connect(
    config: &MqttConfig,
    identity: &ClientIdentity,
    limit: Duration,
) -> Result<Connection, PublishError> {
    let protocols = match &identity.protocol {
        Some(protocol) => std::slice::from_ref(protocol),
        None => &[Protocol::V5, Protocol::V311],
    };
    for &protocol in protocols {
        match connect_as(config, identity, limit, protocol).await {
            Err(ConnectRefused::Protocol) => {}
            Err(ConnectRefused::Error(error)) => return Err(error),
            Ok(link) => return Ok(link),
        }
    }
    let reason = match identity.protocol {
        Some(protocol) => format!("it does not support MQTT {}", protocol.name()),
        None => "it supports neither MQTT 5.0 nor 3.1.1".to_owned(),
    };
    Err(PublishError::Rejected {
        address: address_of(config),
        reason,
    })
}

/// As [`connect`] at each of `brokers`, in turn from the one at `first` on, until one accepts; returns its index, too.
pub(crate) async fn connect_in_turn(
    brokers: &[MqttConfig],
    first: usize,
    identity: &ClientIdentity,
    limit: Duration,
) -> Result<(Connection, usize), PublishError> {
    let mut errors = Vec::new();
    for number in 0..brokers.len() {
        let index = (first + number) % brokers.len();
        match connect(&brokers[index], identity, limit).await {
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

enum ConnectRefused {
    Protocol,
    Error(PublishError),
}

impl From<PublishError> for ConnectRefused {
    fn from(error: PublishError) -> Self {
        Self::Error(error)
    }
}

async fn connect_as(
    config: &MqttConfig,
    identity: &ClientIdentity,
    limit: Duration,
    protocol: Protocol,
) -> Result<Connection, ConnectRefused> {
    let address = address_of(config);
    // The password first: a missing file is the same error whether or not the broker is up.
    let login = match &config.credentials {
        Some(credentials) => Some((credentials.user.clone(), read_password(credentials)?)),
        None => None,
    };
    let (reader, writer) = open(config, &address, limit).await?;
    let mut link = Connection {
        reader,
        writer,
        pending: BytesMut::with_capacity(4096),
        protocol,
        keep_alive: config.keep_alive.max(Duration::from_secs(1)),
        receive_maximum: usize::from(u16::MAX),
        max_packet_bytes: usize::MAX,
        address,
    };
    let will = identity.will.as_ref().map(|(topic, payload)| Will {
        topic: topic.clone(),
        payload: Bytes::copy_from_slice(payload.as_bytes()),
        qos: QoS::AtLeastOnce,
        retain: true,
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
        will,
        user,
        password: password.map(|password| Bytes::from(password.into_bytes())),
        properties: properties.into_iter().collect(),
    }));
    link.send(&connect, limit).await?;
    let answer = match timeout(limit, link.read()).await {
        Ok(answer) => answer.map_err(|error| client_certificate_error(config, error))?,
        Err(_) => {
            let step = "logging in";
            return Err(PublishError::Timeout {
                address: link.address,
                step,
                waited: limit,
            }
            .into());
        }
    };
    let Packet::ConnAck(answer) = answer else {
        let reason = format!("it answered CONNECT with {}", answer.name());
        return Err(link.lost(reason).into());
    };
    let user = || {
        login
            .as_ref()
            .map_or_else(|| "(none)".to_owned(), |(user, _)| user.clone())
    };
    match answer.code {
        ReasonCode::SUCCESS => {}
        ReasonCode::UNSUPPORTED_PROTOCOL_VERSION => return Err(ConnectRefused::Protocol),
        ReasonCode::BAD_USER_NAME_OR_PASSWORD => {
            return Err(PublishError::BadPassword { user: user() }.into());
        }
        // Brokers use this code both for a wrong password and for a user who may not connect; MQTT 3.1.1 has no finer one.
        ReasonCode::NOT_AUTHORIZED | ReasonCode::BANNED => {
            let client_id = identity.client_id.clone();
            return Err(PublishError::NotAuthorized {
                user: user(),
                client_id,
            }
            .into());
        }
        _ => {
            return Err(PublishError::Rejected {
                address: link.address,
                reason: answer.explained(),
            }
            .into());
        }
    }
    let number = |property| answer.properties.number(property);
    if let Some(seconds) = number(Property::SERVER_KEEP_ALIVE) {
        link.keep_alive = Duration::from_secs(u64::from(seconds.max(1)));
    }
    if let Some(maximum) = number(Property::RECEIVE_MAXIMUM) {
        link.receive_maximum = maximum.max(1) as usize;
    }
    if let Some(bytes) = number(Property::MAXIMUM_PACKET_SIZE) {
        link.max_packet_bytes = bytes as usize;
    }
    Ok(link)
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
    let stream = handshake
        .map_err(timed_out)?
        .map_err(|error| failed(error.to_string()))?;
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
            assert_eq!(
                endpoint(&Broker::Embedded { listen }),
                (host.to_owned(), 1883, false)
            );
        }
        let url = Broker::Url {
            host: "[::1]".to_owned(),
            port: 8883,
            tls: true,
        };
        assert_eq!(endpoint(&url), ("::1".to_owned(), 8883, true));
    }
}
