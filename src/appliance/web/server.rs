// SPDX-License-Identifier: Apache-2.0
//! Listens on a thread of its own, `web`, within limits: connections, bytes of a request, and time.
//!
//! Where all places are taken, the oldest connection that carries no stream makes room. A client that does not read for a while is
//! disconnected.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, rt};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::auth::{Users, UsersCache};
use super::http::{MAX_ENCODED, Peer, Service, WorkThreads, WriteTimeout, acceptor};
use super::{Backend, Hub, PictureBoard, WebError};
use jetwatch_config::WebConfig;
use jetwatch_telemetry::{self as telemetry, thread_names};

/// Most connections at a time.
const MAX_CONNECTIONS: usize = 192;

/// Time for TLS, and for the head of a request; also that of a connection between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest head of a request in bytes; as much is held of an answer that a client does not read.
const MAX_REQUEST_BYTES: usize = 16 * 1024;

/// Most headers of a request.
const MAX_HEADERS: usize = 64;

/// A client that takes no byte for this long is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);

/// Threads for work that may block, for encoded streams, and one for hashes of passwords.
const BLOCKING_THREADS: usize = WorkThreads::COUNT + MAX_ENCODED[0] + 1;

/// Pause after a connection could not be accepted, as without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Longest wait for the thread to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Offers the page until it is dropped.
#[derive(Debug)]
pub struct WebServer {
    address: SocketAddr,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
    ended: Receiver<()>,
}

impl WebServer {
    /// Starts to listen on `listen`; returns when clients can connect.
    ///
    /// # Errors
    /// The port is taken, the address is not this machine's or open to the network without users and TLS, or a file cannot be used.
    pub fn start(
        config: &WebConfig,
        listen: SocketAddr,
        hub: Arc<Hub>,
        pictures: Arc<PictureBoard>,
        backend: Arc<dyn Backend>,
    ) -> Result<Self, WebError> {
        check_open(config, listen)?;
        let users = config.users_file.as_deref().map(UsersCache::open);
        let users = users.transpose()?;
        let tls = config.tls.as_ref().map(acceptor).transpose()?;
        let (socket, address) = bind(listen)?;
        let thread_error = |cause| WebError::Thread {
            name: thread_names::WEB,
            cause,
        };
        let runtime = runtime().map_err(thread_error)?;
        let service = Arc::new(Service::new(config, users, hub, pictures, backend)?);
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let (end, ended) = bounded::<()>(1);
        let thread = std::thread::Builder::new()
            .name(thread_names::WEB.to_owned())
            .spawn(move || {
                telemetry::name_thread(thread_names::WEB);
                runtime.block_on(async {
                    tokio::select! {
                        () = serve(socket, tls, &service) => {}
                        () = stopped.notified() => {}
                    }
                });
                runtime.shutdown_background();
                drop(end);
            })
            .map_err(thread_error)?;
        let scheme = if config.tls.is_some() {
            "https"
        } else {
            "http"
        };
        let path = config.base_path.as_deref().unwrap_or_default();
        log::info!("the page is at {scheme}://{address}{path}/");
        Ok(Self {
            address,
            stop,
            thread: Some(thread),
            ended,
        })
    }

    /// The address, with the real port.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        // Kept where the thread does not wait for it yet.
        self.stop.notify_one();
        let Some(thread) = self.thread.take() else {
            return;
        };
        // The thread never sends: the channel disconnects when it ends.
        if self.ended.recv_timeout(STOP_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            log::warn!(thread = thread_names::WEB; "did not stop within {} s; abandoned", STOP_TIMEOUT.as_secs());
            return;
        }
        // A panic has already been logged by the panic hook.
        let _ = thread.join();
    }
}

/// Checks that the page can be offered as [`WebServer::start`] would offer it: one text for each part, or why it cannot be.
#[must_use]
pub fn check(config: &WebConfig) -> Vec<Result<String, WebError>> {
    let Some(listen) = config.listen else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    lines.push(check_open(config, listen).and_then(|()| {
        let (_, address) = bind(listen)?;
        Ok(format!("the page can be at {address}"))
    }));
    if let Some(path) = &config.users_file {
        lines.push(
            match UsersCache::open(path).and_then(|_| Users::load(path)) {
                Ok(users) => {
                    let (users, tokens) = (users.users().len(), users.tokens().len());
                    Ok(format!(
                        "{}: {users} users, {tokens} tokens",
                        path.display()
                    ))
                }
                Err(error) => Err(error.into()),
            },
        );
    }
    if let Some(tls) = &config.tls {
        lines.push(acceptor(tls).map(|_| "certificate and key of the page fit".to_owned()));
    }
    lines
}

fn check_open(config: &WebConfig, listen: SocketAddr) -> Result<(), WebError> {
    if listen.ip().is_loopback() {
        return Ok(());
    }
    for (missing, is_there) in [
        ("users_file", config.users_file.is_some()),
        ("tls", config.tls.is_some()),
    ] {
        if !is_there {
            let address = listen;
            return Err(WebError::OpenToNetwork { address, missing });
        }
    }
    Ok(())
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_name(thread_names::WEB_FILES)
        .build()
}

fn bind(listen: SocketAddr) -> Result<(TcpListener, SocketAddr), WebError> {
    let bound = TcpListener::bind(listen).and_then(|socket| {
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        Ok((socket, address))
    });
    bound.map_err(|cause| match cause.kind() {
        ErrorKind::AddrInUse => WebError::PortInUse { address: listen },
        _ => WebError::Listen {
            address: listen,
            cause,
        },
    })
}

/// An open connection.
struct Connection {
    task: AbortHandle,
    /// Whether it carries a stream now, for a client that may look.
    streams: Arc<AtomicBool>,
}

/// Accepts connections for ever.
async fn serve(socket: TcpListener, tls: Option<TlsAcceptor>, service: &Arc<Service>) {
    let socket = match tokio::net::TcpListener::from_std(socket) {
        Ok(socket) => socket,
        Err(error) => return log::error!("the page cannot be offered: {error}"),
    };
    let mut connections = JoinSet::new();
    let mut open: VecDeque<Connection> = VecDeque::with_capacity(MAX_CONNECTIONS);
    loop {
        tokio::select! {
            // Frees what has ended.
            Some(_) = connections.join_next() => {}
            accepted = socket.accept() => match accepted {
                Ok((stream, address)) => {
                    open.retain(|connection| !connection.task.is_finished());
                    if open.len() >= MAX_CONNECTIONS {
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
                    let answered = answer(stream, tls.clone(), Arc::clone(service), peer);
                    let task = connections.spawn(answered);
                    open.push_back(Connection { task, streams });
                }
                Err(error) => {
                    log::debug!("cannot accept a connection for the page: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

async fn answer(stream: TcpStream, tls: Option<TlsAcceptor>, service: Arc<Service>, peer: Peer) {
    // Pictures and events are to leave at once.
    let _ = stream.set_nodelay(true);
    let stream = WriteTimeout::new(stream, WRITE_TIMEOUT);
    match tls {
        None => answer_http(TokioIo::new(stream), &service, &peer).await,
        Some(acceptor) => match tokio::time::timeout(HEAD_TIMEOUT, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => answer_http(TokioIo::new(stream), &service, &peer).await,
            Ok(Err(error)) => log::debug!("TLS with a browser failed: {error}"),
            Err(_) => {}
        },
    }
}

async fn answer_http<I: rt::Read + rt::Write + Unpin>(
    stream: I,
    service: &Arc<Service>,
    peer: &Peer,
) {
    let respond = service_fn(|request: Request<Incoming>| {
        let (service, peer) = (Arc::clone(service), peer.clone());
        async move { Ok::<_, Infallible>(service.answer(request, &peer).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_REQUEST_BYTES)
        .serve_connection(stream, respond)
        .await;
    if let Err(error) = served {
        log::debug!("a request for the page failed: {error}");
    }
}
