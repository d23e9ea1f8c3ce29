// SPDX-License-Identifier: Apache-2.0
//! Why metrics cannot be offered, each with its evidence and a remedy.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use jetwatch_files::WriteError;
use jetwatch_http::PemFault;

/// Why metrics cannot be offered.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum MetricsError {
    #[error("metrics.listen: {address} is in use by another program; set it to a free port")]
    PortInUse { address: SocketAddr },
    #[error(
        "metrics.listen: cannot listen on {address}: {cause}; set it to an address of this machine, with a port from 1024 on"
    )]
    Listen {
        address: SocketAddr,
        cause: io::Error,
    },
    #[error(
        "metrics.listen: refusing to open {address} to the network without {missing}; add it, or listen on 127.0.0.1"
    )]
    OpenToNetwork {
        address: SocketAddr,
        missing: &'static str,
    },
    #[error(
        "metrics.token_file: cannot read {}: {reason}; its first line is the token, and this user must be able to read it",
        path.display()
    )]
    Token { path: PathBuf, reason: String },
    #[error(
        "metrics.token_file: the first line of {} is {fault}, expected 16 or more letters, digits or -._~+/=; make one: openssl rand -hex 32",
        path.display()
    )]
    WeakToken {
        path: PathBuf,
        /// What is wrong with it; never the token.
        fault: &'static str,
    },
    #[error(
        "metrics.tls.{}: cannot use {}: {}; expected a PEM file with {}",
        .0.key, .0.path.display(), .0.reason, .0.wanted("listener")
    )]
    Pem(PemFault),
    #[error(
        "metrics.text_file: {cause}: {}; its folder must exist and be writable for this user",
        cause.source
    )]
    TextFile { cause: WriteError },
    #[error("metrics.text_file: {} is a folder; name a file in it", path.display())]
    TextFolder { path: PathBuf },
    #[error("cannot start thread '{name}': {cause}")]
    Thread {
        name: &'static str,
        cause: io::Error,
    },
}

impl MetricsError {
    /// Whether the token is visible only to the systemd unit (`LoadCredential=`), so that a missing one is not an error here.
    #[must_use]
    pub fn is_units_alone(&self) -> bool {
        matches!(self, Self::Token { path, .. } if path.starts_with("/run/credentials"))
    }
}
