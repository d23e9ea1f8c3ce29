//! Trust and identity for `mqtts://`: PEM files, or the system's certificate authorities. The broker's certificate is
//! always verified, with its host name; there is no switch to turn that off.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use mqtt5::transport::TlsConfig;

use crate::PublishError;
use jetwatch_config::MqttConfig;

/// TLS settings for one address of `host`. Files are read at each connect, so that a renewed certificate takes effect.
///
/// # Errors
/// A file cannot be read or holds no valid PEM, or no certificate authority is trusted.
pub(super) fn tls_config(
    config: &MqttConfig,
    host: &str,
    address: SocketAddr,
    limit: Duration,
) -> Result<TlsConfig, PublishError> {
    let mut tls = TlsConfig::new(address, host)
        .with_connect_timeout(limit)
        .with_system_roots(false);
    match &config.tls.ca_file {
        Some(path) => {
            let key = "publish.mqtt.tls.ca_file";
            let wanted = "the certificates of the authorities to trust";
            load(key, path, wanted, |pem| tls.load_ca_cert_pem_bytes(pem))?;
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            if found.certs.is_empty() {
                let reasons: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
                let reason = if reasons.is_empty() {
                    "none found".to_owned()
                } else {
                    reasons.join("; ")
                };
                return Err(PublishError::NoAuthorities { reason });
            }
            tls = tls.with_root_certs(found.certs);
            if tls.client_config().is_err() {
                // A certificate that cannot be parsed is skipped, instead of failing the whole list.
                let is_valid = |certificate| {
                    let tls = TlsConfig::new(address, host).with_system_roots(false);
                    tls.with_root_certs(vec![certificate])
                        .client_config()
                        .is_ok()
                };
                if let Some(certificates) = &mut tls.root_certs {
                    certificates.retain(|certificate| is_valid(certificate.clone()));
                }
            }
        }
    }
    if let Some(path) = &config.tls.cert_file {
        let wanted = "the client's certificate, then those that lead to its authority";
        load("publish.mqtt.tls.cert_file", path, wanted, |pem| {
            tls.load_client_cert_pem_bytes(pem)
        })?;
    }
    if let Some(path) = &config.tls.key_file {
        let wanted = "the client's private key";
        load("publish.mqtt.tls.key_file", path, wanted, |pem| {
            tls.load_client_key_pem_bytes(pem)
        })?;
    }
    Ok(tls)
}

/// Reads certificate and key of the embedded broker, so that an error names the file.
///
/// # Errors
/// A file cannot be read or holds no valid PEM.
pub(crate) fn check_server_files(cert_file: &Path, key_file: &Path) -> Result<(), PublishError> {
    let mut tls = TlsConfig::new(SocketAddr::from(([127, 0, 0, 1], 0)), "localhost");
    let wanted = "the broker's certificate, then those that lead to its authority";
    load("publish.mqtt.tls.cert_file", cert_file, wanted, |pem| {
        tls.load_client_cert_pem_bytes(pem)
    })?;
    let wanted = "the broker's private key";
    load("publish.mqtt.tls.key_file", key_file, wanted, |pem| {
        tls.load_client_key_pem_bytes(pem)
    })
}

fn load<E: ToString>(
    key: &'static str,
    path: &Path,
    wanted: &'static str,
    take: impl FnOnce(&[u8]) -> Result<(), E>,
) -> Result<(), PublishError> {
    let unusable = |reason: String| PublishError::Pem {
        key,
        path: path.to_owned(),
        reason,
        wanted,
    };
    let pem = fs::read(path).map_err(|error| unusable(error.to_string()))?;
    take(&pem).map_err(|error| unusable(error.to_string()))
}
