// SPDX-License-Identifier: Apache-2.0
//! Trust and identity for `mqtts://`: PEM files, or the system's certificate authorities. The broker's certificate is
//! always verified, with its host name; there is no switch to turn that off.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::PublishError;
use jetwatch_config::MqttConfig;

/// Certificate and key of this client.
const CLIENT: [&str; 2] = [
    "the client's certificate, then those that lead to its authority",
    "the client's private key",
];

/// Those of the embedded broker.
const BROKER: [&str; 2] = [
    "the broker's certificate, then those that lead to its authority",
    "the broker's private key",
];

/// TLS 1.2 and 1.3 as a client. Files are read at each connect, so that a renewed certificate takes effect.
///
/// # Errors
/// A file cannot be read or holds no valid PEM, or no certificate authority is trusted.
pub(super) fn client_config(config: &MqttConfig) -> Result<Arc<ClientConfig>, PublishError> {
    let mut roots = RootCertStore::empty();
    match &config.tls.ca_file {
        Some(path) => {
            let pem = Pem {
                key: "publish.mqtt.tls.ca_file",
                path,
                wanted: "the certificates of the authorities to trust",
            };
            for certificate in pem.certificates()? {
                roots
                    .add(certificate)
                    .map_err(|error| pem.unusable(error))?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            // One that cannot be parsed is skipped, instead of failing the whole list.
            if roots.add_parsable_certificates(found.certs).0 == 0 {
                let reasons: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
                let reason = match reasons.is_empty() {
                    true => "none found".to_owned(),
                    false => reasons.join("; "),
                };
                return Err(PublishError::NoAuthorities { reason });
            }
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has the ciphers of both versions")
        .with_root_certificates(roots);
    let config = match (&config.tls.cert_file, &config.tls.key_file) {
        (Some(cert_file), Some(key_file)) => {
            let [cert, key] = identity(cert_file, key_file, CLIENT);
            builder
                .with_client_auth_cert(cert.certificates()?, key.private_key()?)
                .map_err(|error| key.unusable(error))?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

/// TLS that trusts no certificate: to find out whether TLS is spoken.
pub(super) fn untrusting_config() -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has the ciphers of both versions");
    let config = builder.with_root_certificates(RootCertStore::empty());
    Arc::new(config.with_no_client_auth())
}

/// TLS 1.2 and 1.3 of the embedded broker, with its certificate and key. Both files are read once.
///
/// # Errors
/// A file cannot be read or holds no valid PEM, or the key is not that of the certificate.
pub(crate) fn acceptor(cert_file: &Path, key_file: &Path) -> Result<TlsAcceptor, PublishError> {
    let [cert, key] = identity(cert_file, key_file, BROKER);
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has the ciphers of both versions")
        .with_no_client_auth()
        .with_single_cert(cert.certificates()?, key.private_key()?)
        .map_err(|error| key.unusable(error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// A file of the configuration.
struct Pem<'a> {
    key: &'static str,
    path: &'a Path,
    wanted: &'static str,
}

fn identity<'a>(
    cert: &'a Path,
    key: &'a Path,
    [chain, private]: [&'static str; 2],
) -> [Pem<'a>; 2] {
    let pem = |key, path, wanted| Pem { key, path, wanted };
    [
        pem("publish.mqtt.tls.cert_file", cert, chain),
        pem("publish.mqtt.tls.key_file", key, private),
    ]
}

impl Pem<'_> {
    /// At least one.
    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, PublishError> {
        let all = CertificateDer::pem_file_iter(self.path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| self.unusable(error))?;
        match all.is_empty() {
            true => Err(self.unusable("it has no certificate")),
            false => Ok(all),
        }
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>, PublishError> {
        PrivateKeyDer::from_pem_file(self.path).map_err(|error| self.unusable(error))
    }

    fn unusable(&self, reason: impl ToString) -> PublishError {
        PublishError::Pem {
            key: self.key,
            path: self.path.to_owned(),
            reason: reason.to_string(),
            wanted: self.wanted,
        }
    }
}
