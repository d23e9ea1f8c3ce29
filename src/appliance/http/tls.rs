// SPDX-License-Identifier: Apache-2.0
//! TLS 1.2 and 1.3 with a certificate and a key. Both files are read once.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Why a PEM file cannot be used.
#[derive(Debug)]
pub struct PemFault {
    /// The key of the configuration: `cert_file` or `key_file`.
    pub key: &'static str,
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

impl PemFault {
    fn new(key: &'static str, path: &Path, reason: impl Display) -> Self {
        Self {
            key,
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// What the file should hold, where `owner` shows the certificate.
    pub fn wanted(&self, owner: &str) -> String {
        match self.key {
            "key_file" => "the private key of the certificate".to_owned(),
            _ => format!("the certificate of the {owner}, then those that lead to its authority"),
        }
    }
}

/// What accepts TLS connections.
///
/// # Errors
/// A file cannot be read or holds no PEM of its kind, or the key is not that of the certificate.
pub fn acceptor(cert_file: &Path, key_file: &Path) -> Result<TlsAcceptor, PemFault> {
    let chain = CertificateDer::pem_file_iter(cert_file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| PemFault::new("cert_file", cert_file, error))?;
    if chain.is_empty() {
        return Err(PemFault::new(
            "cert_file",
            cert_file,
            "it has no certificate",
        ));
    }
    let key = PrivateKeyDer::from_pem_file(key_file)
        .map_err(|error| PemFault::new("key_file", key_file, error))?;
    let mut server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| PemFault::new("key_file", key_file, error))?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(server)))
}
