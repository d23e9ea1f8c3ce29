// SPDX-License-Identifier: Apache-2.0
//! One connection of a client: bytes to packets and back, the time-outs, and how it ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use super::Shared;
use super::state::{Accepted, End};
use crate::{ConnAck, Connect, DecodeError, Packet, Protocol, Reason, ReasonCode, decode};

/// Bytes for one write; while more wait, nothing is read from the client.
const OUTPUT_BYTES: usize = 64 << 10;

/// Bytes for one read.
const INPUT_BYTES: usize = 8 << 10;

/// Longest time for the last packet and for the client to close.
const END_TIMEOUT: Duration = Duration::from_millis(300);

/// Serves a client until its connection ends.
pub(super) async fn serve(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
) {
    // Else small packets wait for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let (reader, writer): Halves = match tls {
        None => {
            let (reader, writer) = stream.into_split();
            (Box::new(reader), Box::new(writer))
        }
        Some(acceptor) => {
            let login_time = shared.broker.limits.login_time;
            match timeout(login_time, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let (reader, writer) = tokio::io::split(stream);
                    (Box::new(reader), Box::new(writer))
                }
                Ok(Err(error)) => return log::debug!("TLS with {peer} failed: {error}"),
                Err(_) => return log::debug!("TLS with {peer} failed: no handshake"),
            }
        }
    };
    let mut connection = Connection {
        reader,
        writer,
        input: BytesMut::new(),
        output: BytesMut::new(),
        protocol: Protocol::V311,
        needs_flush: false,
        packet_bytes: shared.broker.limits.packet_bytes,
    };
    connection.run(&shared, peer).await;
}

type Halves = (
    Box<dyn AsyncRead + Send + Unpin>,
    Box<dyn AsyncWrite + Send + Unpin>,
);

struct Connection {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    input: BytesMut,
    output: BytesMut,
    protocol: Protocol,
    /// Bytes were written that TLS may hold back.
    needs_flush: bool,
    /// Largest packet from the client.
    packet_bytes: usize,
}

impl Connection {
    async fn run(&mut self, shared: &Shared, peer: SocketAddr) {
        let login_time = shared.broker.limits.login_time;
        let Ok(Some(connect)) = timeout(login_time, self.connect()).await else {
            return;
        };
        let (client_id, keep_alive) = (connect.client_id.clone(), connect.keep_alive);
        let wake = Arc::new(Notify::new());
        let accepted = match &shared.broker.login {
            Some(login) if !login.admits(connect.user.as_deref(), connect.password.as_deref()) => {
                Err((ReasonCode::BAD_USER_NAME_OR_PASSWORD, None))
            }
            _ => {
                let mut state = shared.state.lock();
                state.connect(connect, Arc::clone(&wake), Instant::now())
            }
        };
        let accepted = match accepted {
            Ok(accepted) => accepted,
            Err((code, refusal)) => {
                if let Some(refusal) = refusal {
                    (shared.broker.on_refusal)(refusal, peer, &client_id);
                }
                log::debug!("refused client {client_id:?} of {peer}: {code}");
                return self.refuse(code).await;
            }
        };
        // The session has another expiry now.
        shared.timers.notify_one();
        let mut client = Client {
            wake,
            // One and a half of what the client has promised.
            silence: match keep_alive {
                0 => Duration::MAX,
                seconds => Duration::from_millis(u64::from(seconds) * 1500),
            },
            accepted,
        };
        let end = self.talk(shared, &mut client).await;
        let with_will = end != End::Left { with_will: false };
        let Accepted { client, number, .. } = client.accepted;
        log::debug!("client {client:?} of {peer} ended: {end:?}");
        shared
            .state
            .lock()
            .left(&client, number, with_will, Instant::now());
        shared.timers.notify_one();
        if let End::Error(code) = end
            && self.protocol == Protocol::V5
        {
            self.put(&Packet::Disconnect(Reason::new(code)));
        }
        self.close().await;
    }

    /// The first packet; `None`: the client is none of MQTT, or is gone.
    async fn connect(&mut self) -> Option<Connect> {
        loop {
            match decode(&mut self.input, self.protocol, self.packet_bytes) {
                Ok(Some(Packet::Connect(connect))) => {
                    self.protocol = connect.protocol;
                    return Some(*connect);
                }
                Ok(None) => {}
                Err(DecodeError::Level(_)) => {
                    self.refuse(ReasonCode::UNSUPPORTED_PROTOCOL_VERSION).await;
                    return None;
                }
                Ok(Some(_)) | Err(_) => return None,
            }
            self.read().await?;
        }
    }

    async fn refuse(&mut self, code: ReasonCode) {
        let answer = ConnAck {
            code,
            ..ConnAck::default()
        };
        self.put(&Packet::ConnAck(answer));
        self.close().await;
    }

    /// From CONNACK to the end.
    async fn talk(&mut self, shared: &Shared, client: &mut Client) -> End {
        self.put(&Packet::ConnAck(client.accepted.answer.clone()));
        let mut last_read = Instant::now();
        loop {
            if let Err(end) = self.fill(shared, client) {
                return end;
            }
            let reads = self.output.len() < OUTPUT_BYTES;
            let deadline = last_read.checked_add(client.silence);
            let silence = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            let writes = self.needs_flush || self.output.has_remaining();
            let (writer, output) = (&mut self.writer, &mut self.output);
            let write = async {
                match output.has_remaining() {
                    true => Ok(writer.write_buf(output).await? > 0),
                    false => writer.flush().await.map(|()| false),
                }
            };
            self.input.reserve(INPUT_BYTES);
            tokio::select! {
                read = self.reader.read_buf(&mut self.input), if reads => {
                    if !matches!(read, Ok(bytes) if bytes > 0) {
                        return End::Left { with_will: true };
                    }
                    last_read = Instant::now();
                    if let Err(end) = self.packets(shared, &client.accepted, last_read) {
                        return end;
                    }
                }
                written = write, if writes => match written {
                    Ok(is_written) => self.needs_flush = is_written,
                    Err::<_, std::io::Error>(_) => return End::Left { with_will: true },
                },
                () = client.wake.notified() => {}
                () = silence => return End::Error(ReasonCode::KEEP_ALIVE_TIMEOUT),
            }
        }
    }

    /// Handles all packets that have arrived.
    fn packets(&mut self, shared: &Shared, accepted: &Accepted, now: Instant) -> Result<(), End> {
        loop {
            match decode(&mut self.input, self.protocol, self.packet_bytes) {
                Ok(None) => return Ok(()),
                Ok(Some(packet)) => {
                    let mut state = shared.state.lock();
                    let answer = state.packet(&accepted.client, accepted.number, packet, now)?;
                    drop(state);
                    if let Some(answer) = answer {
                        self.put(&answer);
                    }
                }
                Err(error) => {
                    log::debug!("client {:?}: {error}", accepted.client);
                    return Err(End::Error(match error {
                        DecodeError::TooLarge { .. } => ReasonCode::PACKET_TOO_LARGE,
                        DecodeError::Malformed { .. } | DecodeError::Level(_) => {
                            ReasonCode::MALFORMED_PACKET
                        }
                    }));
                }
            }
        }
    }

    /// Takes messages for the client, for one write.
    fn fill(&mut self, shared: &Shared, client: &Client) -> Result<(), End> {
        let Accepted {
            client,
            number,
            packet_bytes,
            ..
        } = &client.accepted;
        let now = Instant::now();
        let mut state = shared.state.lock();
        state.session(client, *number)?;
        while self.output.len() < OUTPUT_BYTES
            && let Some(packet) = state.next(client, *number, now)?
        {
            let before = self.output.len();
            self.put(&packet);
            if self.output.len() - before > *packet_bytes {
                self.output.truncate(before);
                if let Packet::Publish(publish) = packet {
                    state.skip(client, *number, publish.id);
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, packet: &Packet) {
        // Lengths are those of what was received, and identifiers are given.
        if let Err(error) = packet.encode(self.protocol, &mut self.output) {
            log::debug!("not sent to a client: {error}");
        }
    }

    /// Bytes that were read; `None`: the connection has ended.
    async fn read(&mut self) -> Option<usize> {
        self.input.reserve(INPUT_BYTES);
        let read = self.reader.read_buf(&mut self.input).await.ok();
        read.filter(|&bytes| bytes > 0)
    }

    /// Writes what waits, and closes. The rest of what the client has sent is read: else the operating system would drop what was written.
    async fn close(&mut self) {
        let end = async {
            self.writer.write_all(&self.output).await?;
            self.writer.shutdown().await?;
            let mut rest = [0; 4096];
            while self.reader.read(&mut rest).await? > 0 {}
            Ok::<_, std::io::Error>(())
        };
        // The client may be gone.
        let _ = timeout(END_TIMEOUT, end).await;
    }
}

/// A client that was let in.
struct Client {
    accepted: Accepted,
    wake: Arc<Notify>,
    /// Longest time without a packet.
    silence: Duration,
}
