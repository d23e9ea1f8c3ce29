// SPDX-License-Identifier: Apache-2.0
//! One HTTP request: what it carries, how it is signed, and what its answer means.
//!
//! ```text
//! POST PATH
//! Content-Type: application/json
//! X-Jetwatch-Event: loitering
//! X-Jetwatch-Id: 0011223344556677-42          the same for each attempt
//! X-Jetwatch-Timestamp: 1769860800            seconds since 1970, of this attempt
//! X-Jetwatch-Signature: sha256=HEX            HMAC-SHA256 of ID "." TIMESTAMP "." BODY
//! ```

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use super::store::Entry;
use jetwatch_config::{SecretError, WebhookConfig};

/// Longest wait that an endpoint may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Most bytes of an answer that are read, so that its connection can be used again.
const ANSWER_BYTES: u64 = 64 << 10;

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The endpoint has the event.
    Accepted,
    /// The endpoint does not want it; trying again would not help.
    Refused {
        /// Status of the answer.
        status: u16,
    },
    /// Another attempt may succeed.
    Failed {
        /// Why this one did not.
        reason: String,
        /// The wait that the endpoint asks for.
        retry_after: Option<Duration>,
    },
}

impl Outcome {
    fn failed(reason: impl Into<String>) -> Self {
        Self::Failed {
            reason: reason.into(),
            retry_after: None,
        }
    }
}

/// Posts events to one address.
#[derive(Debug)]
pub(super) struct Requester {
    config: WebhookConfig,
    /// `None` until the certificate authorities could be read.
    agent: Option<Agent>,
}

impl Requester {
    pub fn new(config: &WebhookConfig) -> Self {
        Self {
            config: config.clone(),
            agent: None,
        }
    }

    /// Posts `entry` and waits for the answer, for at most `limit`.
    pub fn post(&mut self, entry: &Entry, limit: Duration) -> Outcome {
        let agent = match self.agent.take().map_or_else(|| agent(&self.config), Ok) {
            Ok(agent) => agent,
            Err(reason) => return Outcome::failed(reason),
        };
        let agent = self.agent.insert(agent);
        let id = format!("{:016x}-{}", entry.id, entry.seq);
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let timestamp = since.unwrap_or_default().as_secs().to_string();
        let mut request = agent
            .post(self.config.url.as_str())
            .config()
            .timeout_global(Some(limit))
            .build()
            .header("Content-Type", "application/json")
            .header("X-Jetwatch-Event", &entry.event)
            .header("X-Jetwatch-Id", &id)
            .header("X-Jetwatch-Timestamp", &timestamp);
        if let Some(secret) = self.config.secret() {
            match secret.read() {
                Ok(key) => {
                    let signature = signature(key.as_bytes(), &id, &timestamp, &entry.payload);
                    request = request.header("X-Jetwatch-Signature", signature);
                }
                Err(error) => return Outcome::failed(unreadable("secret_file", &error)),
            }
        }
        for header in &self.config.headers {
            match header.value.read() {
                Ok(value) => request = request.header(&header.name, value),
                Err(error) => return Outcome::failed(unreadable("value_file", &error)),
            }
        }
        match request.send(entry.payload.as_slice()) {
            Ok(response) => {
                let status = response.status().as_u16();
                let asked = response.headers().get("retry-after");
                let asked = asked.and_then(|value| value.to_str().ok()?.parse().ok());
                let body = response.into_body().into_with_config().limit(ANSWER_BYTES);
                // What it says does not matter.
                let _ = body.read_to_vec();
                outcome(status, asked.map(Duration::from_secs))
            }
            Err(error) => Outcome::failed(reason(&error)),
        }
    }
}

fn unreadable(key: &str, error: &SecretError) -> String {
    format!("{key}: cannot read {}: {}", error.from, error.reason)
}

/// Reads the files that requests need: the secret, the values of headers, and the certificate authorities. Nothing is sent.
///
/// # Errors
/// What cannot be read.
pub fn check_webhook(config: &WebhookConfig) -> Result<(), String> {
    if let Some(secret) = config.secret() {
        secret
            .read()
            .map_err(|error| unreadable("secret_file", &error))?;
    }
    for header in &config.headers {
        header
            .value
            .read()
            .map_err(|error| unreadable("value_file", &error))?;
    }
    agent(config).map(drop)
}

/// What a status means.
fn outcome(status: u16, retry_after: Option<Duration>) -> Outcome {
    let retry_after = retry_after.map(|wait| wait.min(MAX_RETRY_AFTER));
    let failed = |reason| Outcome::Failed {
        reason,
        retry_after,
    };
    match status {
        200..=299 => Outcome::Accepted,
        300..=399 => failed(format!(
            "status {status}: redirects are not followed; set publish.webhooks[].url to the new address"
        )),
        408 | 425 | 429 => failed(format!("status {status}")),
        400..=499 => Outcome::Refused { status },
        _ => failed(format!("status {status}")),
    }
}

/// Why there was no answer, without the address.
fn reason(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "no answer in time (publish.webhooks[].timeout_s)".to_owned(),
        ureq::Error::HostNotFound => "the host has no address".to_owned(),
        error => error.to_string(),
    }
}

/// The value of the header with the signature.
fn signature(key: &[u8], id: &str, timestamp: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
        mac.update(part);
    }
    let digits: String = mac
        .finalize()
        .into_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256={digits}")
}

/// A client that follows no redirects, with the certificate authorities of the configuration.
fn agent(config: &WebhookConfig) -> Result<Agent, String> {
    let builder = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .https_only(config.url.is_https())
        .user_agent(concat!("jetwatch/", env!("CARGO_PKG_VERSION")))
        .max_idle_connections_per_host(1);
    let roots = match (&config.ca_file, config.url.is_https()) {
        (Some(path), _) => from_file(path)?,
        (None, true) => of_the_system(),
        (None, false) => return Ok(builder.build().into()),
    };
    let tls = TlsConfig::builder().root_certs(roots).build();
    Ok(builder.tls_config(tls).build().into())
}

fn from_file(path: &Path) -> Result<RootCerts, String> {
    let unusable = |reason: &str| format!("ca_file: cannot use {}: {reason}", path.display());
    let pem = std::fs::read(path).map_err(|error| unusable(&error.to_string()))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) =
            item.map_err(|error| unusable(&error.to_string()))?
        {
            certificates.push(certificate);
        }
    }
    match certificates.is_empty() {
        true => Err(unusable("it has no certificate; expected a PEM file")),
        false => Ok(RootCerts::from(certificates)),
    }
}

/// The authorities of the system; the client's own list where there are none.
fn of_the_system() -> RootCerts {
    let found = rustls_native_certs::load_native_certs();
    let certificates = found.certs.iter();
    let certificates: Vec<Certificate<'static>> = certificates
        .map(|certificate| Certificate::from_der(certificate).to_owned())
        .collect();
    match certificates.is_empty() {
        true => RootCerts::WebPki,
        false => RootCerts::from(certificates),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_is_the_hmac_of_id_timestamp_and_body() {
        // `printf '0a-7.1769860800.{}' | openssl dgst -sha256 -hmac key`
        assert_eq!(
            signature(b"key", "0a-7", "1769860800", b"{}"),
            "sha256=fea977d59bafb5206b4cee26fb3d678fa674865238da7768fa4b5f39abd1a440"
        );
    }

    #[test]
    fn statuses_say_whether_to_try_again() {
        for status in [200, 201, 204] {
            assert_eq!(outcome(status, None), Outcome::Accepted);
        }
        for status in [400, 401, 404, 410, 422] {
            assert_eq!(outcome(status, None), Outcome::Refused { status });
        }
        for status in [301, 408, 425, 429, 500, 503, 999] {
            let wait = Duration::from_secs(9999);
            let Outcome::Failed { retry_after, .. } = outcome(status, Some(wait)) else {
                panic!("{status}");
            };
            assert_eq!(retry_after, Some(MAX_RETRY_AFTER));
        }
    }
}
