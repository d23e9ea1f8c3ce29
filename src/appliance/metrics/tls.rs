// SPDX-License-Identifier: Apache-2.0
//! TLS 1.2 and 1.3 for the listener, with the certificate and key of the configuration. Both files are read once.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::MetricsError;
use jetwatch_config::MetricsTlsConfig;

/// What accepts TLS connections.
///
/// # Errors
/// A file cannot be read or holds no PEM of its kind, or the key is not that of the certificate.
pub(super) fn acceptor(config: &MetricsTlsConfig) -> Result<TlsAcceptor, MetricsError> {
    let chain = CertificateDer::pem_file_iter(&config.cert_file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable_chain(&config.cert_file, &error.to_string()))?;
    if chain.is_empty() {
        return Err(unusable_chain(&config.cert_file, "it has no certificate"));
    }
    let key = PrivateKeyDer::from_pem_file(&config.key_file)
        .map_err(|error| unusable_key(&config.key_file, &error.to_string()))?;
    let mut server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| unusable_key(&config.key_file, &error.to_string()))?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(server)))
}

fn unusable_chain(path: &Path, reason: &str) -> MetricsError {
    MetricsError::Pem {
        key: "cert_file",
        path: path.to_owned(),
        reason: reason.to_owned(),
        wanted: "the certificate of the listener, then those that lead to its authority",
    }
}

fn unusable_key(path: &Path, reason: &str) -> MetricsError {
    MetricsError::Pem {
        key: "key_file",
        path: path.to_owned(),
        reason: reason.to_owned(),
        wanted: "the private key of the certificate",
    }
}
