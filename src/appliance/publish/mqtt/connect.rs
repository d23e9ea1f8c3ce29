//! From a configuration to an open MQTT connection: address, TCP, TLS, CONNECT, CONNACK. Each step fails with its own
//! [`PublishError`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::BytesMut;
use mqtt5::packet::Packet;
use mqtt5::packet::connect::ConnectPacket;
use mqtt5::protocol::v5::reason_codes::ReasonCode;
use mqtt5::transport::packet_io::encode_packet_to_buffer;
use mqtt5::transport::{TcpConfig, TcpTransport, TlsTransport};
use mqtt5::{ConnectOptions, MqttError, QoS, Transport, WillMessage};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::connection::{Connection, MAX_PACKET_BYTES, Protocol, reason_text};
use super::tls::tls_config;
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
    let mut options = ConnectOptions::new(identity.client_id.clone())
        .with_clean_start(true)
        .with_keep_alive(link.keep_alive);
    if let Some((user, password)) = &login {
        options = options.with_credentials(user.clone(), password.as_bytes());
    }
    if let Some((topic, payload)) = &identity.will {
        let will = WillMessage::new(topic.clone(), payload.as_bytes())
            .with_qos(QoS::AtLeastOnce)
            .with_retain(true);
        options = options.with_will(will);
    }
    // A broker does not send what this client would end the connection for.
    options.protocol_options.properties.maximum_packet_size = u32::try_from(MAX_PACKET_BYTES).ok();
    let connect = match protocol {
        Protocol::V5 => ConnectPacket::new(options.protocol_options),
        Protocol::V311 => ConnectPacket::new_v311(options.protocol_options),
    };
    let mut buffer = BytesMut::new();
    encode_packet_to_buffer(&Packet::Connect(Box::new(connect)), &mut buffer).map_err(|error| {
        PublishError::Rejected {
            address: link.address.clone(),
            reason: error.to_string(),
        }
    })?;
    link.write(&buffer, limit).await?;
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
        let reason = format!("it answered CONNECT with {}", answer.packet_type_name());
        return Err(PublishError::Lost {
            address: link.address,
            reason,
        }
        .into());
    };
    let user = || {
        login
            .as_ref()
            .map_or_else(|| "(none)".to_owned(), |(user, _)| user.clone())
    };
    match answer.reason_code {
        ReasonCode::Success => {}
        ReasonCode::UnsupportedProtocolVersion => return Err(ConnectRefused::Protocol),
        ReasonCode::BadUsernameOrPassword => {
            return Err(PublishError::BadPassword { user: user() }.into());
        }
        // Brokers use this code both for a wrong password and for a user who may not connect; MQTT 3.1.1 has no finer one.
        ReasonCode::NotAuthorized | ReasonCode::Banned => {
            let client_id = identity.client_id.clone();
            return Err(PublishError::NotAuthorized {
                user: user(),
                client_id,
            }
            .into());
        }
        code => {
            return Err(PublishError::Rejected {
                address: link.address,
                reason: reason_text(code),
            }
            .into());
        }
    }
    if let Some(seconds) = answer.properties.get_server_keep_alive() {
        link.keep_alive = Duration::from_secs(u64::from(seconds.max(1)));
    }
    if let Some(maximum) = answer.receive_maximum() {
        link.receive_maximum = usize::from(maximum.max(1));
    }
    if let Some(bytes) = answer.maximum_packet_size() {
        link.max_packet_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
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
    let mut failure = None;
    for socket in addresses {
        let opened = if tls {
            let mut transport = TlsTransport::new(tls_config(config, &host, socket, limit)?);
            match transport.connect().await {
                Ok(()) => transport
                    .into_split()
                    .map(|(r, w)| -> IoHalves { (Box::new(r), Box::new(w)) }),
                Err(error) => Err(error),
            }
        } else {
            let mut transport =
                TcpTransport::new(TcpConfig::new(socket).with_connect_timeout(limit));
            match transport.connect().await {
                Ok(()) => transport
                    .into_split()
                    .map(|(r, w)| -> IoHalves { (Box::new(r), Box::new(w)) }),
                Err(error) => Err(error),
            }
        };
        match opened {
            Ok(halves) => return Ok(halves),
            Err(error) => failure = Some(not_opened(address, &host, limit, error)),
        }
    }
    Err(failure.unwrap_or_else(|| PublishError::Resolve {
        host,
        reason: "the list is empty".to_owned(),
    }))
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

fn not_opened(address: &str, host: &str, limit: Duration, error: MqttError) -> PublishError {
    let address = address.to_owned();
    match error {
        MqttError::Io(reason) => PublishError::Unreachable { address, reason },
        MqttError::Timeout => PublishError::Timeout {
            address,
            step: "connecting",
            waited: limit,
        },
        // TCP is connected: only TLS can fail from here on.
        MqttError::ConnectionError(reason) | MqttError::ProtocolError(reason) => {
            let reason = tls_reason(reason.trim_start_matches("TLS handshake failed: "));
            PublishError::Tls {
                address,
                host: host.to_owned(),
                reason,
            }
        }
        error => PublishError::Unreachable {
            address,
            reason: error.to_string(),
        },
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
