// SPDX-License-Identifier: Apache-2.0
//! HTTP/1 on a thread of its own, within limits: connections, bytes of a request, and time.
//!
//! Where all places are taken, the oldest connection that carries no stream makes room, so that slow or silent clients cannot keep
//! others out. A client that does not read for a while is disconnected.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::write_timeout::WriteTimeout;

/// Pause after a connection could not be accepted, as without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Maximum wait for the thread to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// What differs between listeners.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// What clients ask for, in log lines.
    pub subject: &'static str,
    /// Name of the thread.
    pub thread: &'static str,
    /// Called on the thread first, with its name.
    pub name_thread: fn(&str),
    /// Name and maximum number of the threads for work that may block.
    pub blocking_threads: (&'static str, usize),
    /// Maximum number of connections at a time.
    pub max_connections: usize,
    /// Maximum length of the head of a request in bytes, at least 8192; as much is held of an answer that a client does not read.
    pub max_head_bytes: usize,
    /// Maximum number of headers of a request.
    pub max_headers: usize,
    /// Time for TLS, and for the head of a request; also that of a connection between two requests.
    pub head_timeout: Duration,
    /// A client that takes no byte for this long is disconnected.
    pub write_timeout: Duration,
    /// Time of a connection, which has one request only; `None`: as many requests as the client sends, without a limit.
    pub connection_timeout: Option<Duration>,
}

/// The other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Whether the connection is encrypted.
    pub is_tls: bool,
    /// Whether the connection carries a stream now, for a client that may look. Set by who answers.
    pub streams: Arc<AtomicBool>,
}

/// What answers requests.
pub trait Service: Send + Sync + 'static {
    /// The body of an answer.
    type Body: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static;

    /// The answer to a request of `peer`.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<Self::Body>> + Send;
}

/// What `listen` lacks of `protections` (a name, and whether it is there), which an address that other machines reach needs.
pub fn missing_protection(
    listen: SocketAddr,
    protections: [(&'static str, bool); 2],
) -> Option<&'static str> {
    let mut missing = protections.into_iter().filter(|(_, is_there)| !is_there);
    let (name, _) = missing.next().filter(|_| !listen.ip().is_loopback())?;
    Some(name)
}

/// A bound socket.
#[derive(Debug)]
pub struct Socket {
    listener: TcpListener,
    /// Its address, with the real port.
    pub address: SocketAddr,
}

impl Socket {
    /// Binds `listen`; clients can connect from now on.
    ///
    /// # Errors
    /// The port is taken, or the address is not of this machine.
    pub fn bind(listen: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }
}

/// Answers requests until it is dropped.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    thread_name: &'static str,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
    ended: Receiver<()>,
}

impl Listener {
    /// Starts the thread, on which `service` answers.
    ///
    /// # Errors
    /// The operating system refuses the thread or an event queue.
    pub fn start(
        socket: Socket,
        settings: Settings,
        tls: Option<TlsAcceptor>,
        service: impl Service,
    ) -> io::Result<Self> {
        let (blocking_name, max_blocking) = settings.blocking_threads;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(max_blocking)
            .thread_name(blocking_name)
            .build()?;
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let (end, ended) = bounded::<()>(1);
        let Socket { listener, address } = socket;
        let thread = std::thread::Builder::new()
            .name(settings.thread.to_owned())
            .spawn(move || {
                (settings.name_thread)(settings.thread);
                runtime.block_on(async {
                    tokio::select! {
                        () = serve(listener, settings, tls, Arc::new(service)) => {}
                        () = stopped.notified() => {}
                    }
                });
                runtime.shutdown_background();
                drop(end);
            })?;
        Ok(Self {
            address,
            thread_name: settings.thread,
            stop,
            thread: Some(thread),
            ended,
        })
    }

    /// The address, with the real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Kept where the thread does not wait for it yet.
        self.stop.notify_one();
        let Some(thread) = self.thread.take() else {
            return;
        };
        // The thread never sends: the channel disconnects when it ends.
        if self.ended.recv_timeout(STOP_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            log::warn!(thread = self.thread_name; "did not stop within {} s; abandoned", STOP_TIMEOUT.as_secs());
            return;
        }
        // A panic has already been logged by the panic hook.
        let _ = thread.join();
    }
}

/// An open connection.
struct Connection {
    task: AbortHandle,
    streams: Arc<AtomicBool>,
}

/// Accepts connections for ever.
async fn serve(
    listener: TcpListener,
    settings: Settings,
    tls: Option<TlsAcceptor>,
    service: Arc<impl Service>,
) {
    let subject = settings.subject;
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return log::error!("{subject} cannot be served: {error}"),
    };
    let mut connections = JoinSet::new();
    let mut open: VecDeque<Connection> = VecDeque::with_capacity(settings.max_connections);
    loop {
        tokio::select! {
            // Frees what has ended.
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    open.retain(|connection| !connection.task.is_finished());
                    if open.len() >= settings.max_connections {
                        let idle = |connection: &Connection| !connection.streams.load(Ordering::Acquire);
                        let Some(oldest) = open.iter().position(idle) else {
                            // All are streams, which have a limit of their own below this one.
                            continue;
                        };
                        if let Some(connection) = open.remove(oldest) {
                            connection.task.abort();
                        }
                    }
                    let streams = Arc::new(AtomicBool::new(false));
                    let peer = Peer {
                        address: address.ip(),
                        is_tls: tls.is_some(),
                        streams: Arc::clone(&streams),
                    };
                    let served = serve_connection(stream, settings, tls.clone(), Arc::clone(&service), peer);
                    let limit = settings.connection_timeout.unwrap_or(Duration::MAX);
                    let task = connections.spawn(async move {
                        // A client that took too long is disconnected.
                        let _ = timeout(limit, served).await;
                    });
                    open.push_back(Connection { task, streams });
                }
                Err(error) => {
                    log::debug!("cannot accept a connection for {subject}: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

async fn serve_connection(
    stream: TcpStream,
    settings: Settings,
    tls: Option<TlsAcceptor>,
    service: Arc<impl Service>,
    peer: Peer,
) {
    // An answer is to leave at once.
    let _ = stream.set_nodelay(true);
    let stream = WriteTimeout::new(stream, settings.write_timeout);
    match tls {
        None => serve_http(stream, settings, service, peer).await,
        Some(acceptor) => match timeout(settings.head_timeout, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => serve_http(stream, settings, service, peer).await,
            Ok(Err(error)) => {
                log::debug!("TLS with a client of {} failed: {error}", settings.subject)
            }
            Err(_) => {}
        },
    }
}

async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    settings: Settings,
    service: Arc<impl Service>,
    peer: Peer,
) {
    let respond = service_fn(|request| {
        let answered = Arc::clone(&service).answer(request, peer.clone());
        async move { Ok::<_, Infallible>(answered.await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.head_timeout)
        .keep_alive(settings.connection_timeout.is_none())
        .max_headers(settings.max_headers)
        .max_buf_size(settings.max_head_bytes)
        .serve_connection(TokioIo::new(stream), respond)
        .await;
    if let Err(error) = served {
        log::debug!("a request for {} failed: {error}", settings.subject);
    }
}
