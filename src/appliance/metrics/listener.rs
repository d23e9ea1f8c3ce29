// SPDX-License-Identifier: Apache-2.0
//! Metrics over HTTP. A connection has one request and a short time: one that is being answered takes milliseconds.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use super::service::Service;
use super::token::Token;
use super::{MetricsError, WriteFigures};
use jetwatch_config::MetricsConfig;
use jetwatch_http::{Listener, Settings, Socket, acceptor, missing_protection};
use jetwatch_telemetry::{name_thread, thread_names};

/// Time of a connection: TLS, request and answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

const SETTINGS: Settings = Settings {
    subject: "metrics",
    thread: thread_names::METRICS,
    name_thread,
    // No work blocks.
    blocking_threads: (thread_names::METRICS, 1),
    max_connections: 32,
    max_head_bytes: 8192,
    max_headers: 32,
    head_timeout: CONNECTION_TIMEOUT,
    write_timeout: CONNECTION_TIMEOUT,
    connection_timeout: Some(CONNECTION_TIMEOUT),
};

/// Starts to listen on `listen`; returns when clients can connect.
///
/// # Errors
/// The port is taken, the address is not this machine's or open to the network without a token and TLS, or a file cannot be used.
pub(super) fn listen(
    config: &MetricsConfig,
    listen: SocketAddr,
    write: WriteFigures,
) -> Result<Listener, MetricsError> {
    let address = listen;
    let protections = [
        ("a token", config.token_file.is_some()),
        ("TLS", config.tls.is_some()),
    ];
    if let Some(missing) = missing_protection(listen, protections) {
        return Err(MetricsError::OpenToNetwork { address, missing });
    }
    let token = config.token_file.as_deref().map(Token::open).transpose()?;
    let acceptor = config
        .tls
        .as_ref()
        .map(|tls| acceptor(&tls.cert_file, &tls.key_file).map_err(MetricsError::Pem))
        .transpose()?;
    let socket = Socket::bind(listen).map_err(|cause| match cause.kind() {
        ErrorKind::AddrInUse => MetricsError::PortInUse { address },
        _ => MetricsError::Listen { address, cause },
    })?;
    let service = Service::new(token, write);
    let listener = Listener::start(socket, SETTINGS, acceptor, service).map_err(|cause| {
        MetricsError::Thread {
            name: thread_names::METRICS,
            cause,
        }
    })?;
    log::info!(address:% = listener.local_addr(), tls = config.tls.is_some(); "metrics can be read");
    Ok(listener)
}
