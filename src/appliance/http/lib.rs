// SPDX-License-Identifier: Apache-2.0
//! The HTTP/1 listener of metrics and of the page: a socket, TLS, and a thread that answers requests within limits. It knows neither
//! paths nor users.

mod headers;
mod listener;
mod tls;
mod write_timeout;

pub use headers::{bearer_token, is_own_host};
pub use listener::{Listener, Peer, Service, Settings, Socket, missing_protection};
pub use tls::{PemFault, acceptor};
pub use tokio_rustls::TlsAcceptor;
