//! The embedded broker: an MQTT broker inside the process, for evaluation and for small sites without a broker.
//!
//! All state is in memory: retained values are lost when the process ends, and the sink sends them again at the next
//! start. Use an external broker (`publish.mqtt.broker: mqtt://…`) for many clients or for other publishers.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use mqtt5::broker::auth::{AuthProvider, AuthResult};
use mqtt5::broker::config::{StorageBackend, StorageConfig};
use mqtt5::broker::events::BrokerEventHandler;
use mqtt5::broker::{BrokerConfig, BrokerShutdownHandle, MqttBroker};
use mqtt5::packet::connect::ConnectPacket;
use mqtt5::protocol::v5::reason_codes::ReasonCode;

use super::PublishError;
use super::broker_sessions::{SESSION_EXPIRY, SessionLimit};
use super::error::read_password;
use super::mqtt::check_server_files;
use jetwatch_config::{Credentials, MqttConfig, TlsConfig};
use jetwatch_telemetry::{self as telemetry, thread_names};

/// Most clients at a time.
const MAX_CLIENTS: usize = 256;
/// Most retained topics.
const MAX_RETAINED: usize = 20_000;
/// Longest retained message; those of the daemon are shorter.
const MAX_RETAINED_BYTES: usize = 256 << 10;
/// Most subscriptions of one client.
const MAX_SUBSCRIPTIONS: usize = 1000;
/// Messages queued for one client that is slow or away before its oldest are dropped.
const CLIENT_QUEUE: usize = 10_000;
/// Most bytes of these messages. With the limit of sessions, all queues of clients that are away stay below 128 MiB.
const CLIENT_QUEUE_BYTES: usize = 4 << 20;
/// Interval at which expired sessions are removed.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(60);
/// Longest wait for the thread to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// A broker that listens until it is stopped or dropped.
pub struct EmbeddedBroker {
    address: SocketAddr,
    tls_address: Option<SocketAddr>,
    shutdown: BrokerShutdownHandle,
    thread: Option<JoinHandle<()>>,
    ended: Receiver<()>,
}

impl std::fmt::Debug for EmbeddedBroker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedBroker")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl EmbeddedBroker {
    /// Starts listening on `listen` (port 0: any free one, see [`local_addr`](Self::local_addr)) and returns when clients can connect.
    ///
    /// With `credentials`, only that user with that password may connect. Without, any client may, and therefore only a
    /// loopback address is accepted.
    ///
    /// # Errors
    /// The port is taken, the address is not this machine's, it is open to the network without a password, or the
    /// password cannot be read.
    pub fn start(
        listen: SocketAddr,
        credentials: Option<&Credentials>,
    ) -> Result<Self, PublishError> {
        Self::start_with_tls(listen, credentials, None)
    }

    /// As [`start`](Self::start) with credentials and TLS of `config`.
    ///
    /// # Errors
    /// As [`start_with_tls`](Self::start_with_tls).
    pub fn start_for(config: &MqttConfig, listen: SocketAddr) -> Result<Self, PublishError> {
        let TlsConfig {
            cert_file,
            key_file,
            ..
        } = config.tls.clone();
        let tls = match (config.listen_tls, cert_file, key_file) {
            (Some(listen), Some(cert_file), Some(key_file)) => Some(TlsListener {
                listen,
                cert_file,
                key_file,
            }),
            _ => None,
        };
        Self::start_with_tls(listen, config.credentials.as_ref(), tls)
    }

    /// As [`start`](Self::start), also with TLS 1.2 or 1.3 at a second address. The files are read once.
    ///
    /// # Errors
    /// As [`start`](Self::start) for each address; or a file of `tls` cannot be used.
    pub fn start_with_tls(
        listen: SocketAddr,
        credentials: Option<&Credentials>,
        tls: Option<TlsListener>,
    ) -> Result<Self, PublishError> {
        let addresses: Vec<SocketAddr> = std::iter::once(listen)
            .chain(tls.as_ref().map(|tls| tls.listen))
            .collect();
        if credentials.is_none()
            && let Some(&address) = addresses.iter().find(|address| !address.ip().is_loopback())
        {
            return Err(PublishError::OpenToNetwork { address });
        }
        if let Some(tls) = &tls {
            check_server_files(&tls.cert_file, &tls.key_file)?;
        }
        let login = match credentials {
            Some(credentials) => Some(Login {
                user: credentials.user.clone(),
                password: read_password(credentials)?,
            }),
            None => None,
        };
        for &address in &addresses {
            check_free(address)?;
        }
        let runtime = super::mqtt::runtime("broker")?;
        let (ready, started) = bounded(1);
        let (end, ended) = bounded::<()>(1);
        let thread = std::thread::Builder::new()
            .name(thread_names::BROKER.to_owned())
            .spawn(move || {
                telemetry::name_thread(thread_names::BROKER);
                runtime.block_on(serve(listen, tls, login, &ready));
                runtime.shutdown_background();
                drop(end);
            })
            .map_err(|source| PublishError::Thread {
                name: thread_names::BROKER,
                source,
            })?;
        let gone = || Err("its thread ended".to_owned());
        let (address, tls_address, shutdown) =
            started
                .recv()
                .unwrap_or_else(|_| gone())
                .map_err(|reason| PublishError::Listen {
                    address: listen,
                    reason,
                })?;
        match tls_address {
            Some(tls) => {
                log::info!(address:% = address, tls:% = tls; "embedded MQTT broker listens");
            }
            None => log::info!(address:% = address; "embedded MQTT broker listens"),
        }
        Ok(Self {
            address,
            tls_address,
            shutdown,
            thread: Some(thread),
            ended,
        })
    }

    /// The address that clients connect to, with the real port.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The address with TLS, with the real port.
    #[must_use]
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        self.tls_address
    }

    /// Closes all connections and frees the port. Blocks until that is done, for at most 3 s.
    pub fn stop(mut self) {
        self.shut_down();
    }

    fn shut_down(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        self.shutdown.shutdown();
        // The thread never sends: the channel disconnects when the thread ends.
        if self.ended.recv_timeout(STOP_TIMEOUT)
            == Err(crossbeam_channel::RecvTimeoutError::Timeout)
        {
            log::warn!(thread = "broker"; "did not stop within {} s; abandoned", STOP_TIMEOUT.as_secs());
            return;
        }
        // A panic has already been logged by the panic hook.
        let _ = thread.join();
    }
}

impl Drop for EmbeddedBroker {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// Where the broker listens with TLS, with its certificate chain and key as PEM files.
#[derive(Debug, Clone)]
pub struct TlsListener {
    /// The address.
    pub listen: SocketAddr,
    /// The broker's certificate, then those that lead to its authority.
    pub cert_file: PathBuf,
    /// The broker's private key.
    pub key_file: PathBuf,
}

/// The broker crate reports a failed bind as text only: bound here first, so that the error can name the cause.
fn check_free(address: SocketAddr) -> Result<(), PublishError> {
    match std::net::TcpListener::bind(address) {
        Ok(free) => {
            drop(free);
            Ok(())
        }
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            Err(PublishError::PortInUse { address })
        }
        Err(error) => Err(PublishError::Listen {
            address,
            reason: error.to_string(),
        }),
    }
}

/// The address, the one with TLS, and what ends the broker.
type Started = Result<(SocketAddr, Option<SocketAddr>, BrokerShutdownHandle), String>;

async fn serve(
    listen: SocketAddr,
    tls: Option<TlsListener>,
    login: Option<Login>,
    ready: &crossbeam_channel::Sender<Started>,
) {
    let storage = StorageConfig::new()
        .with_backend(StorageBackend::Memory)
        .with_cleanup_interval(CLEANUP_INTERVAL)
        .with_max_queued_messages_per_client(CLIENT_QUEUE)
        .with_max_queued_bytes_per_client(CLIENT_QUEUE_BYTES);
    let sessions = Arc::new(SessionLimit::default());
    let mut config = BrokerConfig::new()
        .with_bind_address(listen)
        .with_max_clients(MAX_CLIENTS)
        .with_session_expiry(SESSION_EXPIRY)
        .with_event_handler(Arc::clone(&sessions) as Arc<dyn BrokerEventHandler>)
        .with_max_retained_messages(MAX_RETAINED)
        .with_max_packet_size(super::mqtt::connection::MAX_PACKET_BYTES);
    config.storage_config = storage;
    config.sys_topics_enabled = false;
    config.max_subscriptions_per_client = MAX_SUBSCRIPTIONS;
    config.max_retained_message_size = MAX_RETAINED_BYTES;
    config.tls_config = tls.map(|tls| {
        mqtt5::broker::config::TlsConfig::new(tls.cert_file, tls.key_file)
            .with_bind_address(tls.listen)
    });
    let mut broker = match MqttBroker::with_config(config).await {
        Ok(broker) => broker.with_auth_provider(Arc::new(Gate { login, sessions })),
        Err(error) => return drop(ready.send(Err(error.to_string()))),
    };
    let Some(address) = broker.local_addr() else {
        return drop(ready.send(Err("no listener".to_owned())));
    };
    let tls_address = broker.tls_local_addr();
    let shutdown = broker.shutdown_handle();
    let mut accepting = broker.ready_receiver();
    let report_ready = async {
        // An error means that the broker ended before it was ready; the other branch reports that.
        if accepting.wait_for(|&ready| ready).await.is_ok() {
            let _ = ready.send(Ok((address, tls_address, shutdown)));
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        result = broker.run() => {
            if let Err(error) = result {
                // `try_send` fails when the start was already reported: the log is then the only output.
                if ready.try_send(Err(error.to_string())).is_err() {
                    log::error!("the embedded MQTT broker ended: {error}");
                }
            }
        }
        () = report_ready => {}
    }
}

/// The only user.
struct Login {
    user: String,
    password: String,
}

impl Login {
    fn admits(&self, connect: &ConnectPacket) -> bool {
        let user = connect.username.as_deref().unwrap_or_default();
        let password = connect.password.as_deref().unwrap_or_default();
        constant_time_eq(user.as_bytes(), self.user.as_bytes())
            & constant_time_eq(password, self.password.as_bytes())
    }
}

/// Decides which clients may connect.
struct Gate {
    /// `None`: any client, which the loopback address limits to this machine.
    login: Option<Login>,
    sessions: Arc<SessionLimit>,
}

type AuthFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl AuthProvider for Gate {
    fn authenticate<'a>(
        &'a self,
        connect: &'a ConnectPacket,
        client: SocketAddr,
    ) -> AuthFuture<'a, mqtt5::Result<AuthResult>> {
        let result = if self
            .login
            .as_ref()
            .is_some_and(|login| !login.admits(connect))
        {
            AuthResult::fail(ReasonCode::BadUsernameOrPassword)
        } else if !self.sessions.admits(connect) {
            log::warn!(
                client:%, id = connect.client_id.as_str();
                "refused a client of the embedded broker: too many sessions of clients that are away; \
                 connect with one client id, or with a clean session"
            );
            AuthResult::fail(ReasonCode::QuotaExceeded)
        } else {
            match (&self.login, connect.username.as_deref()) {
                (Some(_), Some(user)) => AuthResult::success_with_user(user),
                _ => AuthResult::success(),
            }
        };
        Box::pin(async move { Ok(result) })
    }

    fn authorize_publish<'a>(
        &'a self,
        _client: &str,
        _user: Option<&'a str>,
        _topic: &'a str,
    ) -> AuthFuture<'a, bool> {
        Box::pin(async { true })
    }

    fn authorize_subscribe<'a>(
        &'a self,
        _client: &str,
        _user: Option<&'a str>,
        _filter: &'a str,
    ) -> AuthFuture<'a, bool> {
        Box::pin(async { true })
    }
}

/// Compares two secrets in constant time.
fn constant_time_eq(given: &[u8], wanted: &[u8]) -> bool {
    use sha2::{Digest, Sha256};
    // Digests have equal lengths, and the position of their first difference cannot be controlled by the client.
    Sha256::digest(given) == Sha256::digest(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_broker_without_password_is_rejected() {
        let listen: SocketAddr = "0.0.0.0:0".parse().expect("an address");
        let error = EmbeddedBroker::start(listen, None).expect_err("open to every client");
        assert!(
            matches!(error, PublishError::OpenToNetwork { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("publish.mqtt.user"), "{error}");
    }

    #[test]
    fn a_port_in_use_is_reported_and_free_again_after_the_stop() {
        let first = EmbeddedBroker::start("127.0.0.1:0".parse().expect("an address"), None)
            .expect("a free port");
        let taken = first.local_addr();
        let error = EmbeddedBroker::start(taken, None).expect_err("in use");
        assert!(
            matches!(error, PublishError::PortInUse { address } if address == taken),
            "{error}"
        );
        assert!(error.to_string().contains("publish.mqtt.listen"), "{error}");
        first.stop();
        EmbeddedBroker::start(taken, None)
            .expect("the port is free again")
            .stop();
    }
}
