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
pub enum PublishError {
    /// The host name has no address.
    #[error(
        "no address for MQTT broker '{host}': {reason}; check the host in publish.mqtt.broker and the DNS settings of this machine"
    )]
    Resolve {
        /// The name as configured.
        host: String,
        /// The resolver's message.
        reason: String,
    },
    /// No TCP connection.
    #[error(
        "cannot connect to MQTT broker {address}: {reason}; check that the broker runs, that host and port in publish.mqtt.broker are right, and that no firewall blocks the connection"
    )]
    Unreachable {
        /// Host and port.
        address: String,
        /// The operating system's message.
        reason: String,
    },
    /// None of several brokers accepts the connection.
    #[error("none of the {} brokers of publish.mqtt.brokers accepts the connection: {}", .0.len(), texts(.0))]
    NoneAccepts(Vec<PublishError>),
    /// No answer in time.
    #[error(
        "MQTT broker {address} did not respond within {} s while {step}; check the network, and that the port is the broker's (1883 plain, 8883 TLS as a rule)",
        waited.as_secs_f32()
    )]
    Timeout {
        /// Host and port.
        address: String,
        /// The step that timed out.
        step: &'static str,
        /// The timeout.
        waited: Duration,
    },
    /// The TLS handshake failed.
    #[error(
        "TLS with MQTT broker {address} failed: {reason}; check publish.mqtt.tls.ca_file (which authority signed the broker's certificate), that the certificate names '{host}', and the clock of this machine"
    )]
    Tls {
        /// Host and port.
        address: String,
        /// The name that the certificate must have.
        host: String,
        /// The TLS library's message.
        reason: String,
    },
    /// TLS was not answered with TLS.
    #[error(
        "TLS with MQTT broker {address} failed: {reason}; it seems to speak no TLS on this port: write mqtt:// in publish.mqtt.broker, or the port with TLS, 8883 as a rule"
    )]
    NoTls {
        /// Host and port.
        address: String,
        /// The TLS library's message.
        reason: String,
    },
    /// A certificate or key file cannot be used.
    #[error("{key}: cannot use {}: {reason}; expected a PEM file with {wanted}", path.display())]
    Pem {
        /// Key path in the configuration.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// What it should hold.
        wanted: &'static str,
    },
    /// No certificate authority is installed on this machine.
    #[error(
        "no certificate authority is installed on this machine ({reason}); install the package ca-certificates or set publish.mqtt.tls.ca_file"
    )]
    NoAuthorities {
        /// What was found instead.
        reason: String,
    },
    /// The password cannot be read.
    #[error("password of MQTT user '{user}': {cause}")]
    Password {
        /// The user.
        user: String,
        /// Source of the password, what failed, and the remedy.
        cause: SecretError,
    },
    /// Wrong user name or password.
    #[error(
        "broker refused user '{user}': bad user name or password; check publish.mqtt.user and publish.mqtt.password, password_file or password_env"
    )]
    BadPassword {
        /// The user, or `(none)`.
        user: String,
    },
    /// The broker rejected the user as not authorized.
    #[error(
        "broker refused user '{user}': not authorized, which some brokers also report for a bad password; check publish.mqtt.user, its password, and what the broker allows this user and client id '{client_id}' to do"
    )]
    NotAuthorized {
        /// The user, or `(none)`.
        user: String,
        /// The MQTT client id.
        client_id: String,
    },
    /// The broker refused the connection for another reason.
    #[error("MQTT broker {address} refused the connection: {reason}; see the broker's log")]
    Rejected {
        /// Host and port.
        address: String,
        /// MQTT's reason.
        code: ReasonCode,
        /// The same as text, with what the broker says about it.
        reason: String,
    },
    /// The broker has ended an established connection, and says why.
    #[error("connection with MQTT broker {address} lost: the broker ended it: {reason}")]
    Disconnected {
        /// Host and port.
        address: String,
        /// MQTT's reason.
        code: ReasonCode,
        /// The same as text, with what the broker says about it.
        reason: String,
    },
    /// The broker has closed the connection, and says nothing.
    #[error("connection with MQTT broker {address} lost: {reason}")]
    Closed {
        /// Host and port.
        address: String,
        /// What was seen.
        reason: String,
    },
    /// A message is not answered, though others are.
    #[error("MQTT broker {address} has not acknowledged a message within {} s, and answers otherwise", waited.as_secs())]
    Unanswered {
        /// Host and port.
        address: String,
        /// Time since it was first in the row.
        waited: Duration,
    },
    /// Not MQTT, but something else that is known.
    #[error("{address} is not an MQTT port: {reason}")]
    NotMqtt {
        /// Host and port.
        address: String,
        /// What it is, and what to write.
        reason: &'static str,
    },
    /// Another client took the session over.
    #[error(
        "another client took over the MQTT client id '{client_id}'; give each daemon its own `device`, and its own publish.mqtt.client_id where that is set"
    )]
    TakenOver {
        /// The id that two clients share.
        client_id: String,
    },
    /// What came back is not MQTT, or an established connection ended.
    #[error("connection with MQTT broker {address} lost: {reason}")]
    Lost {
        /// Host and port.
        address: String,
        /// What was seen.
        reason: String,
    },
    /// A subscription was refused.
    #[error(
        "MQTT broker {address} refused the subscription to '{filter}'; check what it allows this user to read"
    )]
    SubscriptionRefused {
        /// Host and port.
        address: String,
        /// The topic filter.
        filter: String,
    },
    /// Another process listens there.
    #[error(
        "cannot start the embedded broker: {address} is in use by another program, perhaps a broker; set publish.mqtt.listen to a free port, or publish.mqtt.broker: mqtt://{address} to use what runs there"
    )]
    PortInUse {
        /// The address.
        address: SocketAddr,
    },
    /// The embedded broker cannot listen.
    #[error(
        "cannot start the embedded broker on {address}: {reason}; set publish.mqtt.listen to an address of this machine"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The operating system's message.
        reason: String,
    },
    /// The embedded broker would be open to the network.
    #[error(
        "refusing to open the embedded broker to the network on {address} without a password; set publish.mqtt.user and publish.mqtt.password_file (clients must then use them), or listen on 127.0.0.1"
    )]
    OpenToNetwork {
        /// The address.
        address: SocketAddr,
    },
    /// A JSON-lines file cannot be opened.
    #[error(
        "cannot open {} for JSON lines: {source}; the folder must exist and be writable for this user",
        path.display()
    )]
    OpenLines {
        /// The file.
        path: PathBuf,
        /// The operating system's message.
        source: io::Error,
    },
    /// A named pipe has no reader at its other end.
    #[error(
        "cannot write JSON lines to {}: nothing reads this named pipe; start its reader first, or set publish.json_lines.path to a file",
        path.display()
    )]
    NoReader {
        /// The pipe.
        path: PathBuf,
    },
    /// The file has other contents.
    #[error(
        "cannot write JSON lines to {}: it exists and its first line is no JSON object; set publish.json_lines.path to a new file",
        path.display()
    )]
    NoJsonLines {
        /// The file.
        path: PathBuf,
    },
    /// The folder of a spool that was asked for cannot be used.
    #[error("messages cannot be kept in {}: {source}", path.display())]
    Spool {
        /// The folder.
        path: PathBuf,
        /// What failed.
        source: jetwatch_spool::SpoolError,
    },
    /// The operating system gave no thread or no event queue.
    #[error("cannot start thread '{name}': {source}")]
    Thread {
        /// The thread.
        name: &'static str,
        /// The operating system's message.
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
