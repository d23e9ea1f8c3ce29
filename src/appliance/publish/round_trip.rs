// SPDX-License-Identifier: Apache-2.0
//! A message to a broker and back, to test that it accepts and delivers publications. Called by `jetwatch doctor`.

use std::time::{Duration, Instant};

use bytes::Bytes;
use jetwatch_mqtt::{Packet, Publish, QoS};
use tokio::time::timeout;

use super::mqtt::connect::{ClientIdentity, connect};
use super::mqtt::connection::Connection;
use super::mqtt::known::Known;
use super::{PublishError, mqtt};
use jetwatch_config::MqttConfig;

/// Publishes one message, not retained, below `<prefix>/<device>/doctor` and waits for it as a subscriber. Returns the time
/// between the two, without the connection setup; each step ends within `limit`.
///
/// # Errors
/// As for [`probe`](super::probe); the subscription is refused; or the message does not come back.
pub fn round_trip(
    config: &MqttConfig,
    device: &str,
    limit: Duration,
) -> Result<Duration, PublishError> {
    let runtime = mqtt::runtime("mqtt-doctor")?;
    let id = std::process::id();
    let topic = format!("{}/{device}/doctor/{id}", config.prefix);
    let hello = ClientIdentity::new(format!("{}-doctor-{id}", config.client_id));
    let result = runtime.block_on(async {
        let mut link = connect(config, &hello, &mut Known::single(), limit).await?;
        link.subscribe_to_all(&[&topic], QoS::AtMostOnce, limit, drop)
            .await?;
        let started = Instant::now();
        publish(&mut link, &topic, limit).await?;
        let step = "giving back a message that it was sent; check that this user may publish and subscribe to it";
        let back = timeout(limit, link.wait_for(&topic)).await;
        back.map_err(|_| PublishError::Timeout {
            address: link.address.clone(),
            step,
            waited: limit,
        })??;
        let elapsed = started.elapsed();
        link.disconnect(limit).await;
        Ok(elapsed)
    });
    // A blocked DNS lookup must not block the caller.
    runtime.shutdown_background();
    result
}

async fn publish(link: &mut Connection, topic: &str, limit: Duration) -> Result<(), PublishError> {
    let packet = Packet::Publish(Publish {
        topic: topic.into(),
        payload: Bytes::from_static(b"jetwatch doctor"),
        qos: QoS::AtMostOnce,
        id: 0,
        retain: false,
        dup: false,
        properties: Default::default(),
    });
    link.send(&packet, limit).await
}
