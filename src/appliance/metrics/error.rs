// SPDX-License-Identifier: Apache-2.0
//! Why metrics cannot be offered, each with its evidence and a remedy.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use jetwatch_files::WriteError;

/// Why metrics cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// Another process listens there.
    #[error("metrics.listen: {address} is in use by another program; set it to a free port")]
    PortInUse {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error(
        "metrics.listen: cannot listen on {address}: {cause}; set it to an address of this machine, with a port from 1024 on"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The operating system's message.
        cause: io::Error,
    },
    /// The listener would be open to the network without a token or without TLS.
    #[error(
        "metrics.listen: refusing to open {address} to the network without {missing}; add it, or listen on 127.0.0.1"
    )]
    OpenToNetwork {
        /// The address.
        address: SocketAddr,
        /// What is missing: `a token` or `TLS`.
        missing: &'static str,
    },
    /// The token cannot be read.
    #[error(
        "metrics.token_file: cannot read {}: {reason}; its first line is the token, and this user must be able to read it",
        path.display()
    )]
    Token {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The token can be guessed, or cannot stand in a request.
    #[error(
        "metrics.token_file: the first line of {} is {fault}, expected 16 or more letters, digits or -._~+/=; make one: openssl rand -hex 32",
        path.display()
    )]
    WeakToken {
        /// The file.
        path: PathBuf,
        /// What is wrong with it; never the token.
        fault: &'static str,
    },
    /// A certificate or key file cannot be used.
    #[error("metrics.tls.{key}: cannot use {}: {reason}; expected a PEM file with {wanted}", path.display())]
    Pem {
        /// The key below `metrics.tls`.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// What it should hold.
        wanted: &'static str,
    },
    /// The text file cannot be written.
    #[error(
        "metrics.text_file: {cause}: {}; its folder must exist and be writable for this user",
        cause.source
    )]
    TextFile {
        /// The file, and the operating system's message.
        cause: WriteError,
    },
    /// The path of the text file is a folder.
    #[error("metrics.text_file: {} is a folder; name a file in it", path.display())]
    TextFolder {
        /// The path.
        path: PathBuf,
    },
    /// The operating system gave no thread or no event queue.
    #[error("cannot start thread '{name}': {cause}")]
    Thread {
        /// The thread.
        name: &'static str,
        /// The operating system's message.
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
