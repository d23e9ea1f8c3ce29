// SPDX-License-Identifier: Apache-2.0
//! Why the page cannot be offered.

use std::io;
use std::net::SocketAddr;

use super::auth::UserError;
use jetwatch_http::PemFault;

/// Why the page cannot be offered.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum WebError {
    #[error(
        "web.listen: {address} is in use by another program; choose another port, or stop that program (`ss -ltnp` lists it)"
    )]
    PortInUse { address: SocketAddr },
    #[error("web.listen: cannot listen on {address}: {cause}; expected an address of this machine")]
    Listen {
        address: SocketAddr,
        cause: io::Error,
    },
    #[error(
        "web.listen: {address} is open to the network, which needs {missing}; listen on 127.0.0.1, or add it"
    )]
    OpenToNetwork {
        address: SocketAddr,
        missing: &'static str,
    },
    #[error(
        "web.tls.{}: cannot use {}: {}; expected {}",
        .0.key, .0.path.display(), .0.reason, .0.wanted("page")
    )]
    Pem(PemFault),
    #[error("web.users_file: {0}")]
    Users(#[from] UserError),
    #[error(
        "cannot start thread {name}: {cause}; check the limits on processes and memory (ulimit -u, TasksMax=)"
    )]
    Thread {
        name: &'static str,
        cause: io::Error,
    },
}
