//! Prints the counts, track events and analytics events of all devices:
//! `cargo run --example subscriber -- [mqtt://HOST:PORT]`.
//!
//! It uses a plain MQTT client and `serde_json`, nothing of jetwatch. It subscribes with QoS 1: after a reconnect the daemon
//! sends unacknowledged messages again, so a message may arrive twice.
//!
//! ```text
//! <prefix>/<device>/<source>/counts/<label>   an integer, retained: active tracks of this label
//! <prefix>/<device>/<source>/groups/<group>   the same for a group of labels, where the configuration has some
//! <prefix>/<device>/<source>/events           JSON: one step of a track (new, update, end)
//! <prefix>/<device>/<source>/analytics        JSON: zones, lines, directions, objects at rest
//! ```

use std::error::Error;
use std::time::Duration;

use mqtt5::types::Message;
use mqtt5::{ConnectOptions, MqttClient, QoS, SubscribeOptions};
use serde_json::Value;

const FILTERS: [&str; 4] = [
    "jetwatch/+/+/counts/+",
    "jetwatch/+/+/groups/+",
    "jetwatch/+/+/events",
    "jetwatch/+/+/analytics",
];

fn main() -> Result<(), Box<dyn Error>> {
    let broker = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "mqtt://127.0.0.1:1883".to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(subscribe(&broker))
}

/// Subscribes to all filters and prints messages until the process is killed.
async fn subscribe(broker: &str) -> Result<(), Box<dyn Error>> {
    let client_id = format!("jetwatch-subscriber-{}", std::process::id());
    let options = ConnectOptions::new(client_id)
        .with_keep_alive(Duration::from_secs(30))
        .with_automatic_reconnect(true);
    let client = MqttClient::with_options(options);
    client.connect(broker).await?;
    for filter in FILTERS {
        let options = SubscribeOptions {
            qos: QoS::AtLeastOnce,
            ..SubscribeOptions::default()
        };
        client
            .subscribe_with_options(filter, options, |message| print_message(&message))
            .await?;
    }
    println!("subscribed at {broker}");
    std::future::pending().await
}

/// One line for each message.
fn print_message(message: &Message) {
    let levels: Vec<&str> = message.topic.split('/').collect();
    match *levels.as_slice() {
        // An empty payload clears the retained value: the source was removed.
        [_, device, source, "counts" | "groups", label] => {
            let count = String::from_utf8_lossy(&message.payload);
            println!("{device} {source}: {label} = {count}");
        }
        [_, device, source, topic] => match serde_json::from_slice::<Value>(&message.payload) {
            Ok(body) if topic == "events" => println!(
                "{device} {source}: {} {} {}, box {}, score {}",
                body["type"],
                body["label"],
                body["id"],
                body["after"]["box"],
                body["after"]["score"]
            ),
            Ok(body) => println!(
                "{device} {source}: {} {} {}",
                body["type"], body["name"], body["label"]
            ),
            Err(error) => eprintln!("{}: not JSON: {error}", message.topic),
        },
        _ => eprintln!("unexpected topic {}", message.topic),
    }
}
