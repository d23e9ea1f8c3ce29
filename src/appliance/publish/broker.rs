// SPDX-License-Identifier: Apache-2.0
//! The embedded broker: an MQTT broker inside the process, for evaluation and for small sites without a broker.
//!
//! All state is in memory: retained values are lost when the process ends, and the sink sends them again at the next
//! start. Use an external broker (`publish.mqtt.broker: mqtt://…`) for many clients or for other publishers.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use jetwatch_mqtt::{Broker, Limits, Listener, Login, Refusal};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::PublishError;
use super::error::read_password;
use super::mqtt::acceptor;
use jetwatch_config::{Credentials, MqttConfig, TlsConfig};
use jetwatch_telemetry::{self as telemetry, LogRateLimit, thread_names};

/// Longest wait for the thread to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Clients that are refused are logged once in this time.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// A broker that listens until it is stopped or dropped.
pub struct EmbeddedBroker {
    address: SocketAddr,
    tls_address: Option<SocketAddr>,
    /// Dropped to stop it.
    stop: Option<oneshot::Sender<()>>,
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
        let all = std::iter::once(listen).chain(tls.as_ref().map(|tls| tls.listen));
        if credentials.is_none()
            && let Some(address) = all.clone().find(|address| !address.ip().is_loopback())
        {
            return Err(PublishError::OpenToNetwork { address });
        }
        let login = match credentials {
            Some(credentials) => Some(Login {
                user: credentials.user.clone(),
                password: read_password(credentials)?,
            }),
            None => None,
        };
        let mut listeners = vec![bind(listen)?];
        if let Some(tls) = &tls {
            listeners.push(Listener {
                tls: Some(acceptor(&tls.cert_file, &tls.key_file)?),
                ..bind(tls.listen)?
            });
        }
        let mut bound = listeners
            .iter()
            .map(|listener| listener.socket.local_addr().ok());
        let address = bound.next().flatten().unwrap_or(listen);
        let tls_address = bound.next().flatten();
        let broker = Broker {
            limits: Limits::default(),
            login,
            on_refusal: refusal_log(),
        };
        let runtime = super::mqtt::runtime("broker")?;
        let (stop, stopped) = oneshot::channel::<()>();
        let (end, ended) = bounded::<()>(1);
        let thread = std::thread::Builder::new()
            .name(thread_names::BROKER.to_owned())
            .spawn(move || {
                telemetry::name_thread(thread_names::BROKER);
                // An error: the handle was dropped, which stops it, too.
                runtime.block_on(broker.run(listeners, async { drop(stopped.await) }));
                runtime.shutdown_background();
                drop(end);
            })
            .map_err(|source| PublishError::Thread {
                name: thread_names::BROKER,
                source,
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
            stop: Some(stop),
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
        self.stop = None;
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

fn bind(address: SocketAddr) -> Result<Listener, PublishError> {
    match TcpListener::bind(address) {
        Ok(socket) => Ok(Listener { socket, tls: None }),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            Err(PublishError::PortInUse { address })
        }
        Err(error) => Err(PublishError::Listen {
            address,
            reason: error.to_string(),
        }),
    }
}

/// Logs clients that are refused, each reason once a minute: such a client tries again without end.
fn refusal_log() -> jetwatch_mqtt::OnRefusal {
    let logged = Mutex::new(LogRateLimit::new(LOG_INTERVAL, 2));
    Box::new(move |refusal, client, id| {
        let Some(repeats) = logged.lock().admit(refusal, Instant::now()) else {
            return;
        };
        let why = match refusal {
            Refusal::TooManyClients => "too many clients at a time",
            Refusal::TooManySessions => {
                "too many sessions of clients that are away; connect with one client id, or with a clean session"
            }
        };
        log::warn!(client:%, id, repeats; "refused a client of the embedded broker: {why}");
    })
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
