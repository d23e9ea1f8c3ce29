// SPDX-License-Identifier: Apache-2.0
//! HTTP/1 on a thread of its own, within limits: connections, bytes of a request, and time.
//!
//! A connection has one request and a short time. Where all places are taken, the oldest connection makes room: a request that is
//! being answered takes milliseconds, so that slow or silent clients cannot keep others out.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, rt};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::service::Service;
use super::token::Token;
use super::{MetricsError, WriteFigures, tls};
use jetwatch_config::MetricsConfig;
use jetwatch_telemetry::{self as telemetry, thread_names};

/// Most connections at a time.
const MAX_CONNECTIONS: usize = 32;

/// Time of a connection: TLS, request and answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest request, without a body, in bytes. The least that hyper accepts.
const MAX_REQUEST_BYTES: usize = 8192;

/// Most headers of a request.
const MAX_HEADERS: usize = 32;

/// Pause after a connection could not be accepted, as without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Longest wait for the thread to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Answers requests until it is dropped.
pub(super) struct Listener {
    address: SocketAddr,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
    ended: Receiver<()>,
}

impl Listener {
    /// Starts to listen on `listen`; returns when clients can connect.
    ///
    /// # Errors
    /// The port is taken, the address is not this machine's or open to the network without a token and TLS, or a file cannot be
    /// used.
    pub(super) fn start(
        config: &MetricsConfig,
        listen: SocketAddr,
        write: WriteFigures,
    ) -> Result<Self, MetricsError> {
        if !listen.ip().is_loopback() {
            for (missing, is_there) in [
                ("a token", config.token_file.is_some()),
                ("TLS", config.tls.is_some()),
            ] {
                if !is_there {
                    let address = listen;
                    return Err(MetricsError::OpenToNetwork { address, missing });
                }
            }
        }
        let token = config.token_file.as_deref().map(Token::open).transpose()?;
        let acceptor = config.tls.as_ref().map(tls::acceptor).transpose()?;
        let (socket, address) = bind(listen)?;
        let thread_error = |cause| MetricsError::Thread {
            name: thread_names::METRICS,
            cause,
        };
        let runtime = runtime().map_err(thread_error)?;
        let service = Arc::new(Service::new(token, write));
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let (end, ended) = bounded::<()>(1);
        let thread = std::thread::Builder::new()
            .name(thread_names::METRICS.to_owned())
            .spawn(move || {
                telemetry::name_thread(thread_names::METRICS);
                runtime.block_on(async {
                    tokio::select! {
                        () = serve(socket, acceptor, &service) => {}
                        () = stopped.notified() => {}
                    }
                });
                runtime.shutdown_background();
                drop(end);
            })
            .map_err(thread_error)?;
        log::info!(address:% = address, tls = config.tls.is_some(); "metrics can be read");
        Ok(Self {
            address,
            stop,
            thread: Some(thread),
            ended,
        })
    }

    /// The address, with the real port.
    pub(super) fn local_addr(&self) -> SocketAddr {
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
            log::warn!(thread = thread_names::METRICS; "did not stop within {} s; abandoned", STOP_TIMEOUT.as_secs());
            return;
        }
        // A panic has already been logged by the panic hook.
        let _ = thread.join();
    }
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
}

fn bind(listen: SocketAddr) -> Result<(TcpListener, SocketAddr), MetricsError> {
    let bound = TcpListener::bind(listen).and_then(|socket| {
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        Ok((socket, address))
    });
    bound.map_err(|cause| match cause.kind() {
        ErrorKind::AddrInUse => MetricsError::PortInUse { address: listen },
        _ => MetricsError::Listen {
            address: listen,
            cause,
        },
    })
}

/// Accepts connections for ever.
async fn serve(socket: TcpListener, acceptor: Option<TlsAcceptor>, service: &Arc<Service>) {
    let socket = match tokio::net::TcpListener::from_std(socket) {
        Ok(socket) => socket,
        Err(error) => return log::error!("metrics cannot be read: {error}"),
    };
    let mut connections = JoinSet::new();
    let mut open: VecDeque<AbortHandle> = VecDeque::with_capacity(MAX_CONNECTIONS);
    loop {
        tokio::select! {
            // Frees what has ended.
            Some(_) = connections.join_next() => {}
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) => {
                    open.retain(|connection| !connection.is_finished());
                    if open.len() == MAX_CONNECTIONS
                        && let Some(oldest) = open.pop_front()
                    {
                        oldest.abort();
                    }
                    let answered = answer(stream, acceptor.clone(), Arc::clone(service));
                    let connection = tokio::time::timeout(CONNECTION_TIMEOUT, answered);
                    open.push_back(connections.spawn(async move {
                        // A client that took too long is disconnected.
                        let _ = connection.await;
                    }));
                }
                Err(error) => {
                    log::debug!("cannot accept a connection for metrics: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

async fn answer(stream: TcpStream, acceptor: Option<TlsAcceptor>, service: Arc<Service>) {
    match acceptor {
        None => answer_http(TokioIo::new(stream), &service).await,
        Some(acceptor) => match acceptor.accept(stream).await {
            Ok(stream) => answer_http(TokioIo::new(stream), &service).await,
            Err(error) => log::debug!("TLS with a reader of metrics failed: {error}"),
        },
    }
}

async fn answer_http<I: rt::Read + rt::Write + Unpin>(stream: I, service: &Service) {
    let respond = service_fn(|request: Request<Incoming>| {
        std::future::ready(Ok::<_, Infallible>(service.answer(&request)))
    });
    let served = http1::Builder::new()
        .keep_alive(false)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_REQUEST_BYTES)
        .serve_connection(stream, respond)
        .await;
    if let Err(error) = served {
        log::debug!("a request for metrics failed: {error}");
    }
}
