//! An open MQTT connection: bytes to packets and back, and the error text of its end. Independent of message contents.

use std::time::Duration;

use bytes::BytesMut;
use mqtt5::MqttError;
use mqtt5::packet::Packet;
use mqtt5::protocol::v5::reason_codes::ReasonCode;
use mqtt5::transport::packet_io::read_packet_from_stream;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::PublishError;

/// Largest packet accepted from a broker; a publisher receives only short replies, a subscriber whole messages.
pub(crate) const MAX_PACKET_BYTES: usize = 1 << 20;

/// Protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// 5.0: reports why it refuses a message, its receive maximum and its largest packet.
    V5,
    /// 3.1.1, for brokers that refuse 5.0 as unsupported.
    V311,
}

impl Protocol {
    /// The version as text.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V5 => "5.0",
            Self::V311 => "3.1.1",
        }
    }

    /// The protocol level on the wire.
    pub(crate) fn level(self) -> u8 {
        match self {
            Self::V5 => 5,
            Self::V311 => 4,
        }
    }
}

/// An open connection, accepted by the broker.
pub(crate) struct Connection {
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// Bytes that were read beyond the last packet.
    pub pending: BytesMut,
    pub protocol: Protocol,
    /// Keep-alive, as set by the broker.
    pub keep_alive: Duration,
    /// The broker's receive maximum, in unacknowledged messages.
    pub receive_maximum: usize,
    /// The broker's largest packet, in bytes.
    pub max_packet_bytes: usize,
    /// For error texts.
    pub address: String,
}

impl Connection {
    /// Reads one packet. Cancel-safe: no byte is lost.
    pub async fn read(&mut self) -> Result<Packet, PublishError> {
        let level = self.protocol.level();
        read_packet_from_stream(&mut self.reader, level, &mut self.pending, MAX_PACKET_BYTES)
            .await
            .map_err(|error| lost(&self.address, &error))
    }

    /// Writes whole packets, within `limit`.
    pub async fn write(&mut self, packets: &[u8], limit: Duration) -> Result<(), PublishError> {
        let write = async {
            self.writer.write_all(packets).await?;
            self.writer.flush().await
        };
        match timeout(limit, write).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(PublishError::Lost {
                address: self.address.clone(),
                reason: error.to_string(),
            }),
            Err(_) => Err(PublishError::Timeout {
                address: self.address.clone(),
                step: "taking data",
                waited: limit,
            }),
        }
    }
}

/// How a connection ended, as text.
pub(crate) fn lost(address: &str, error: &MqttError) -> PublishError {
    let reason = match error {
        MqttError::ClientClosed | MqttError::ConnectionClosedByPeer => {
            "the broker closed it".to_owned()
        }
        MqttError::Io(reason) => reason.clone(),
        error => format!("{error}; does an MQTT broker listen there?"),
    };
    PublishError::Lost {
        address: address.to_owned(),
        reason,
    }
}

/// MQTT's reason code as text: `ServerBusy` as `server busy (0x89)`.
pub(crate) fn reason_text(code: ReasonCode) -> String {
    let mut text = String::new();
    for c in format!("{code:?}").chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.push(c.to_ascii_lowercase());
    }
    format!("{text} (0x{:02x})", u8::from(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_codes_are_readable() {
        assert_eq!(reason_text(ReasonCode::ServerBusy), "server busy (0x89)");
        assert_eq!(
            reason_text(ReasonCode::NotAuthorized),
            "not authorized (0x87)"
        );
    }
}
