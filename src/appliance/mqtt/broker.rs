// SPDX-License-Identifier: Apache-2.0
//! A broker inside the process. All of its state is in memory. It is one future: the caller runs it on a runtime of one thread, as
//! `jetwatch-publish` does.
//!
//! Shared subscriptions, subscription identifiers and topic aliases are not offered, as CONNACK says. Every other part of MQTT 5.0 and
//! 3.1.1 is: clients of both at the same time.
//!
//! ```text
//! Broker::run ──► connection (a task each): bytes, time-outs ──► State: sessions, wills ──► Session: one client's queues
//!  (accepts, timers)                                              ├► Subscriptions: filters to clients
//!                                                                 └► Retained: topics to messages
//! ```

mod connection;
mod message;
mod retained;
mod session;
mod state;
mod subscriptions;

use std::future::Future;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use self::state::State;

/// Longest wait for clients that are told that the broker ends.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);

/// Connections beyond [`Limits::clients`] that may be open for as long as it takes to refuse them.
const SPARE_CONNECTIONS: usize = 64;

/// Pause where no connection can be accepted, as without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// What clients may use.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Clients at a time.
    pub clients: usize,
    /// Sessions that outlive their connection, of clients that are away or not. A program that connects with another client id every time
    /// leaves one behind every time.
    pub sessions: usize,
    /// How long a session outlives its connection.
    pub session_expiry: Duration,
    /// Retained topics.
    pub retained: usize,
    /// Payload of a retained message, in bytes.
    pub retained_bytes: usize,
    /// Memory of all retained messages, in bytes.
    pub all_retained_bytes: usize,
    /// Subscriptions of one client.
    pub subscriptions: usize,
    /// Messages queued for one client that is slow or away, before its oldest are dropped.
    pub queue: usize,
    /// Bytes of these messages.
    pub queue_bytes: usize,
    /// A packet, in bytes.
    pub packet_bytes: usize,
    /// Messages on their way to a client without its acknowledgement.
    pub in_flight: usize,
    /// Time to log in, and for the TLS handshake.
    pub login_time: Duration,
}

impl Default for Limits {
    /// All queues of clients that are away stay below 128 MiB.
    fn default() -> Self {
        Self {
            clients: 256,
            sessions: 32,
            session_expiry: Duration::from_secs(3600),
            retained: 20_000,
            retained_bytes: 256 << 10,
            all_retained_bytes: 64 << 20,
            subscriptions: 1000,
            queue: 10_000,
            queue_bytes: 4 << 20,
            packet_bytes: 1 << 20,
            in_flight: 256,
            login_time: Duration::from_secs(10),
        }
    }
}

/// The only user.
#[derive(Clone)]
pub struct Login {
    /// User name.
    pub user: String,
    /// Password.
    pub password: String,
}

impl Login {
    /// In constant time.
    fn admits(&self, user: Option<&str>, password: Option<&[u8]>) -> bool {
        use sha2::{Digest, Sha256};
        // Digests have equal lengths, and the position of their first difference cannot be controlled by the client.
        let is_equal = |given: &[u8], wanted: &str| Sha256::digest(given) == Sha256::digest(wanted);
        is_equal(user.unwrap_or_default().as_bytes(), &self.user)
            & is_equal(password.unwrap_or_default(), &self.password)
    }
}

/// Where clients connect.
pub struct Listener {
    /// A bound address.
    pub socket: StdListener,
    /// With TLS.
    pub tls: Option<TlsAcceptor>,
}

/// Why a client was not let in, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// [`Limits::clients`].
    TooManyClients,
    /// [`Limits::sessions`].
    TooManySessions,
}

/// Called with the address and the client id of a client that was refused.
pub type OnRefusal = Box<dyn Fn(Refusal, SocketAddr, &str) + Send + Sync>;

/// A broker that is not running yet.
pub struct Broker {
    /// What clients may use.
    pub limits: Limits,
    /// `None`: any client may connect.
    pub login: Option<Login>,
    /// For the log.
    pub on_refusal: OnRefusal,
}

/// What the connections share.
struct Shared {
    state: Mutex<State>,
    /// Notified when something is due at another time.
    timers: Notify,
    broker: Broker,
}

impl Broker {
    /// Serves clients until `stop` resolves; then closes the listeners at once, tells all clients, and returns.
    pub async fn run(self, listeners: Vec<Listener>, stop: impl Future<Output = ()>) {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(self.limits.clone())),
            timers: Notify::new(),
            broker: self,
        });
        let mut connections = JoinSet::new();
        tokio::select! {
            () = accept(&shared, listeners, &mut connections) => {}
            () = stop => {}
        }
        shared.state.lock().stop();
        // Those that are late end with the set.
        let all = async { while connections.join_next().await.is_some() {} };
        let _ = timeout(STOP_TIMEOUT, all).await;
    }
}

/// Accepts connections, and publishes what is due.
async fn accept(shared: &Arc<Shared>, listeners: Vec<Listener>, connections: &mut JoinSet<()>) {
    let most = shared.broker.limits.clients + SPARE_CONNECTIONS;
    let (sender, mut accepted) = tokio::sync::mpsc::channel(1);
    // Aborted with this future, which frees the ports.
    let mut accepting = JoinSet::new();
    for listener in listeners {
        accepting.spawn(listen(listener, sender.clone()));
    }
    loop {
        let due = shared.state.lock().advance(Instant::now());
        let timer = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some((stream, peer, tls)) = accepted.recv() => {
                // A connection that is closed at once costs least.
                if connections.len() < most {
                    connections.spawn(connection::serve(Arc::clone(shared), stream, peer, tls));
                }
            }
            Some(_) = connections.join_next() => {}
            () = shared.timers.notified() => {}
            () = timer => {}
        }
    }
}

type Accepted = (TcpStream, SocketAddr, Option<TlsAcceptor>);

async fn listen(listener: Listener, sender: tokio::sync::mpsc::Sender<Accepted>) {
    let Listener { socket, tls } = listener;
    let socket = match socket
        .set_nonblocking(true)
        .and_then(|()| TcpListener::from_std(socket))
    {
        Ok(socket) => socket,
        Err(error) => return log::error!("the embedded MQTT broker cannot listen: {error}"),
    };
    let mut has_failed = false;
    loop {
        match socket.accept().await {
            Ok((stream, peer)) => {
                has_failed = false;
                if sender.send((stream, peer, tls.clone())).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut has_failed, true) {
                    log::warn!("the embedded MQTT broker cannot accept a client: {error}");
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
