//! One connection to a broker and back, for `jetwatch check`.

use std::time::{Duration, Instant};

use super::connect::{ClientIdentity, connect};
use super::runtime;
use crate::PublishError;
use jetwatch_config::MqttConfig;

/// Result of a successful [`probe`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerInfo {
    /// Host and port.
    pub address: String,
    /// `5.0` or `3.1.1`.
    pub protocol: &'static str,
    /// Time until the login was accepted, including DNS and TLS.
    pub connect_time: Duration,
}

/// Connects, logs in and disconnects, each step within `limit`. Blocks for at most a few times `limit`; starts no thread
/// that outlives it.
///
/// # Errors
/// The step that failed, with the remedy.
pub fn probe(config: &MqttConfig, limit: Duration) -> Result<BrokerInfo, PublishError> {
    let runtime = runtime("mqtt-probe")?;
    // An own client id: with the daemon's, the broker would disconnect a running daemon.
    let client_id = format!("{}-check-{}", config.client_id, std::process::id());
    let started = Instant::now();
    let result = runtime.block_on(async {
        let mut link = connect(
            config,
            &ClientIdentity {
                client_id,
                will: None,
                protocol: None,
            },
            limit,
        )
        .await?;
        let connect_time = started.elapsed();
        link.disconnect(limit).await;
        Ok(BrokerInfo {
            protocol: link.protocol.name(),
            address: link.address,
            connect_time,
        })
    });
    // A blocked DNS lookup must not block the caller.
    runtime.shutdown_background();
    result
}
