// SPDX-License-Identifier: Apache-2.0
//! Why the page cannot be offered.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::auth::UserError;

/// Why the page cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The address is taken.
    #[error(
        "web.listen: {address} is in use by another program; choose another port, or stop that program (`ss -ltnp` lists it)"
    )]
    PortInUse {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be used.
    #[error("web.listen: cannot listen on {address}: {cause}; expected an address of this machine")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// An address that other machines reach, without what protects it.
    #[error(
        "web.listen: {address} is open to the network, which needs {missing}; listen on 127.0.0.1, or add it"
    )]
    OpenToNetwork {
        /// The address.
        address: SocketAddr,
        /// What is missing.
        missing: &'static str,
    },
    /// A PEM file cannot be used.
    #[error("web.tls.{key}: cannot use {}: {reason}; expected {wanted}", path.display())]
    Pem {
        /// The key.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// What it should hold.
        wanted: &'static str,
    },
    /// The file of the users cannot be used.
    #[error("web.users_file: {0}")]
    Users(#[from] UserError),
    /// The operating system refused a thread.
    #[error(
        "cannot start thread {name}: {cause}; check the limits on processes and memory (ulimit -u, TasksMax=)"
    )]
    Thread {
        /// Its name.
        name: &'static str,
        /// The error of the operating system.
        cause: io::Error,
    },
}
