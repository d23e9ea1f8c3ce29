// SPDX-License-Identifier: Apache-2.0
//! Where the double of an RTSP camera sends its stream.

use std::io::Write as _;
use std::net::{TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, Weak};

/// Where a stream is sent.
#[derive(Clone)]
pub(super) enum Output {
    /// A channel of the connection.
    Interleaved(Arc<Mutex<TcpStream>>, u8),
    /// While the client is connected.
    Udp(Arc<UdpSocket>, Weak<()>),
}

impl Output {
    /// Writes bytes that belong to no packet, where the stream is sent over the control connection.
    pub(super) fn write_stray(&self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Self::Interleaved(writer, _) => writer.lock().unwrap().write_all(bytes),
            Self::Udp(..) => Ok(()),
        }
    }

    /// Sends reports (RTCP) that end with a goodbye of an SSRC.
    pub(super) fn say_goodbye(&self, source: u32) -> std::io::Result<()> {
        let [receiver, goodbye] = [[0x80, 201, 0, 1], [0x81, 203, 0, 1]];
        let source = source.to_be_bytes();
        let report = [receiver, source, goodbye, source].concat();
        match self {
            Self::Interleaved(writer, channel) => {
                Self::Interleaved(Arc::clone(writer), channel + 1).write(&report)
            }
            Self::Udp(socket, _) => {
                let mut to = socket.peer_addr()?;
                to.set_port(to.port() + 1);
                socket.send_to(&report, to).map(drop)
            }
        }
    }

    pub(super) fn write(&self, packet: &[u8]) -> std::io::Result<()> {
        match self {
            Self::Interleaved(writer, channel) => {
                let length = u16::try_from(packet.len()).expect("packets are short");
                let mut framed = vec![b'$', *channel];
                framed.extend(length.to_be_bytes());
                framed.extend(packet);
                writer.lock().unwrap().write_all(&framed)
            }
            Self::Udp(socket, is_served) => {
                let gone = std::io::ErrorKind::NotConnected;
                is_served.upgrade().ok_or(gone)?;
                socket.send(packet).map(|_| ())
            }
        }
    }
}
