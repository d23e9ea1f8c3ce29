// SPDX-License-Identifier: Apache-2.0
//! Errors of publishing, each with its evidence and a remedy.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use jetwatch_config::{Credentials, SecretError};
use jetwatch_mqtt::ReasonCode;
use jetwatch_telemetry::FailureLog;

use super::reaction::{Reaction, reactions};

/// Why something could not be published or a broker could not be reached.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum PublishError {
    #[error(
        "no address for MQTT broker '{host}': {reason}; check the host in publish.mqtt.broker and the DNS settings of this machine"
    )]
    Resolve { host: String, reason: String },
    #[error(
        "cannot connect to MQTT broker {address}: {reason}; check that the broker runs, that host and port in publish.mqtt.broker are right, and that no firewall blocks the connection"
    )]
    Unreachable { address: String, reason: String },
    #[error("none of the {} brokers of publish.mqtt.brokers accepts the connection: {}", .0.len(), texts(.0))]
    NoneAccepts(Vec<PublishError>),
    #[error(
        "MQTT broker {address} did not respond within {} s while {step}; check the network, and that the port is the broker's (1883 plain, 8883 TLS as a rule)",
        waited.as_secs_f32()
    )]
    Timeout {
        address: String,
        step: &'static str,
        waited: Duration,
    },
    #[error(
        "TLS with MQTT broker {address} failed: {reason}; check publish.mqtt.tls.ca_file (which authority signed the broker's certificate), that the certificate names '{host}', and the clock of this machine"
    )]
    Tls {
        address: String,
        host: String,
        reason: String,
    },
    #[error(
        "TLS with MQTT broker {address} failed: {reason}; it seems to speak no TLS on this port: write mqtt:// in publish.mqtt.broker, or the port with TLS, 8883 as a rule"
    )]
    NoTls { address: String, reason: String },
    #[error("{key}: cannot use {}: {reason}; expected a PEM file with {wanted}", path.display())]
    Pem {
        key: &'static str,
        path: PathBuf,
        reason: String,
        wanted: &'static str,
    },
    #[error(
        "no certificate authority is installed on this machine ({reason}); install the package ca-certificates or set publish.mqtt.tls.ca_file"
    )]
    NoAuthorities { reason: String },
    #[error("password of MQTT user '{user}': {cause}")]
    Password { user: String, cause: SecretError },
    #[error(
        "broker refused user '{user}': bad user name or password; check publish.mqtt.user and publish.mqtt.password, password_file or password_env"
    )]
    BadPassword { user: String },
    #[error(
        "broker refused user '{user}': not authorized, which some brokers also report for a bad password; check publish.mqtt.user, its password, and what the broker allows this user and client id '{client_id}' to do"
    )]
    NotAuthorized { user: String, client_id: String },
    #[error("MQTT broker {address} refused the connection: {reason}; see the broker's log")]
    Rejected {
        address: String,
        code: ReasonCode,
        reason: String,
    },
    #[error("connection with MQTT broker {address} lost: the broker ended it: {reason}")]
    Disconnected {
        address: String,
        code: ReasonCode,
        reason: String,
    },
    #[error("connection with MQTT broker {address} lost: {reason}")]
    Closed { address: String, reason: String },
    #[error("MQTT broker {address} has not acknowledged a message within {} s, and answers otherwise", waited.as_secs())]
    Unanswered { address: String, waited: Duration },
    #[error("{address} is not an MQTT port: {reason}")]
    NotMqtt {
        address: String,
        reason: &'static str,
    },
    #[error(
        "another client took over the MQTT client id '{client_id}'; give each daemon its own `device`, and its own publish.mqtt.client_id where that is set"
    )]
    TakenOver { client_id: String },
    #[error("connection with MQTT broker {address} lost: {reason}")]
    Lost { address: String, reason: String },
    #[error(
        "MQTT broker {address} refused the subscription to '{filter}'; check what it allows this user to read"
    )]
    SubscriptionRefused { address: String, filter: String },
    #[error(
        "cannot start the embedded broker: {address} is in use by another program, perhaps a broker; set publish.mqtt.listen to a free port, or publish.mqtt.broker: mqtt://{address} to use what runs there"
    )]
    PortInUse { address: SocketAddr },
    #[error(
        "cannot start the embedded broker on {address}: {reason}; set publish.mqtt.listen to an address of this machine"
    )]
    Listen { address: SocketAddr, reason: String },
    #[error(
        "refusing to open the embedded broker to the network on {address} without a password; set publish.mqtt.user and publish.mqtt.password_file (clients must then use them), or listen on 127.0.0.1"
    )]
    OpenToNetwork { address: SocketAddr },
    #[error(
        "cannot open {} for JSON lines: {source}; the folder must exist and be writable for this user",
        path.display()
    )]
    OpenLines { path: PathBuf, source: io::Error },
    #[error(
        "cannot write JSON lines to {}: nothing reads this named pipe; start its reader first, or set publish.json_lines.path to a file",
        path.display()
    )]
    NoReader { path: PathBuf },
    #[error(
        "cannot write JSON lines to {}: it exists and its first line is no JSON object; set publish.json_lines.path to a new file",
        path.display()
    )]
    NoJsonLines { path: PathBuf },
    #[error("messages cannot be kept in {}: {source}", path.display())]
    Spool {
        path: PathBuf,
        source: jetwatch_spool::SpoolError,
    },
    #[error("cannot start thread '{name}': {source}")]
    Thread {
        name: &'static str,
        source: io::Error,
    },
}

impl PublishError {
    /// Whether the password is visible only to the systemd unit (`LoadCredential=`), so that a missing one is not an error here.
    #[must_use]
    pub fn is_units_alone(&self) -> bool {
        matches!(self, Self::Password { cause, .. } if cause.from.starts_with("/run/credentials/"))
    }

    /// Whether only a change of the configuration or of the broker can help, so that frequent retries are useless and may lock the user out.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::BadPassword { .. }
            | Self::NotAuthorized { .. }
            | Self::Password { .. }
            | Self::Pem { .. }
            | Self::NotMqtt { .. }
            | Self::TakenOver { .. } => true,
            // What can be left out was left out.
            Self::Rejected { code, .. } => reactions(*code).connect != Reaction::Later,
            Self::Disconnected { code, .. } => reactions(*code).disconnect == Reaction::Stop,
            Self::NoneAccepts(errors) => errors.iter().all(Self::is_refusal),
            _ => false,
        }
    }
}

impl PublishError {
    /// Whether the broker may have ended an established connection because of what it got.
    pub(crate) fn is_end_by_broker(&self) -> bool {
        matches!(
            self,
            Self::Lost { .. }
                | Self::Closed { .. }
                | Self::Disconnected { .. }
                | Self::Unanswered { .. }
        )
    }

    /// What is the same in errors that repeat, for the log: not what a broker says in its own words.
    pub(crate) fn kind(&self) -> String {
        match self {
            Self::Rejected { code, .. } => format!("refused: {code}"),
            Self::Disconnected { code, .. } => format!("ended: {code}"),
            Self::NoneAccepts(errors) => errors.iter().map(Self::kind).collect(),
            other => FailureLog::kind_of(&other.to_string()),
        }
    }
}

fn texts(errors: &[PublishError]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

/// Reads the password of the MQTT user. Called at each connect, so that it can be rotated without a restart.
///
/// # Errors
/// The file or the environment variable cannot be read.
pub(super) fn read_password(credentials: &Credentials) -> Result<String, PublishError> {
    credentials
        .password
        .read()
        .map_err(|cause| PublishError::Password {
            user: credentials.user.clone(),
            cause,
        })
}
