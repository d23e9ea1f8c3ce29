//! The MQTT sink without a thread of its own: its client is a future on the runtime of the caller, so that one thread can be
//! many devices. For tools; the daemon uses [`MqttSink::start`].

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::backoff::JitteredBackoff;
use super::connection::Protocol;
use super::shared::Shared;
use super::worker::Worker;
use super::{Availability, ConnectionState, MqttSink, OFFLINE, Part};
use crate::wire::SpoolId;
use jetwatch_config::MqttConfig;
use jetwatch_types::Classes;

/// Is notified of what happens to messages of QoS 1, by the thread that runs the client. Packet identifiers are used again once they
/// are acknowledged or refused, and on a new connection.
pub trait DeliveryObserver: Debug + Send + Sync {
    /// The broker has accepted the connection; nothing is on its way on it.
    fn connected(&self);

    /// A message is about to be written; `is_late`: it has waited for more than 2 s.
    fn sent(&self, packet_id: u16, is_late: bool);

    /// This many bytes were written, with messages of QoS 0.
    fn written(&self, bytes: usize);

    /// The broker has taken a message.
    fn acknowledged(&self, packet_id: u16);

    /// The broker has refused a message; `for_now`: it is sent again.
    fn refused(&self, packet_id: u16, for_now: bool);
}

/// What only a client without a thread has.
#[derive(Debug)]
pub struct HostedOptions {
    /// Only this version of MQTT; `None`: what the broker understands.
    pub protocol: Option<Protocol>,
    /// Notified of each message.
    pub observer: Arc<dyn DeliveryObserver>,
}

/// The network of a client: it can be taken away.
#[derive(Debug)]
pub struct HostedLink(watch::Sender<bool>);

impl HostedLink {
    /// Closes the connection at once, without DISCONNECT, and keeps the client from connecting; or ends that.
    pub fn set_up(&self, is_up: bool) {
        self.0.send_replace(is_up);
    }
}

/// The client, to be run by the caller.
pub struct HostedClient {
    brokers: Vec<MqttConfig>,
    shared: Arc<Shared>,
    availability: Option<Availability>,
    protocol: Option<Protocol>,
    link: watch::Receiver<bool>,
}

impl HostedClient {
    /// Runs until the sink is closed with [`MqttSink::finish_within`]. The runtime needs its drivers of I/O and time.
    pub async fn run(mut self) {
        loop {
            let worker = Worker {
                brokers: self.brokers.clone(),
                shared: Arc::clone(&self.shared),
                availability: self.availability.clone(),
                retained_filters: Vec::new(),
                queue_key: "the queue of the simulated device",
                discovery: None,
                protocol: self.protocol,
            };
            tokio::select! {
                () = worker.run() => return,
                // An error: the link is gone, and stays as it is.
                Ok(_) = self.link.wait_for(|is_up| !is_up) => {}
            }
            self.shared.outbox().disconnected();
            *self.shared.connection_state() = ConnectionState::Failed {
                reason: "the network was taken away".to_owned(),
                refused: false,
            };
            // As a device whose attempts fail meanwhile.
            let mut backoff = JitteredBackoff::default();
            while !*self.link.borrow() {
                sleep(backoff.failed()).await;
            }
        }
    }
}

impl MqttSink {
    /// A sink whose client is run by the caller. Messages wait in memory only; their numbering is a new one.
    #[must_use]
    pub fn hosted(
        config: &MqttConfig,
        device: &str,
        classes: &Classes,
        options: HostedOptions,
    ) -> (Self, HostedClient, HostedLink) {
        let (sink, worker) = Self::prepare(config, device, classes, None, None, Part::Everything);
        sink.shared.set_observer(options.observer);
        let (link, watched) = watch::channel(true);
        let client = HostedClient {
            brokers: worker.brokers,
            shared: worker.shared,
            // An empty value at a clean end: it leaves nothing at the broker.
            availability: worker.availability.map(|known| Availability {
                offline: OFFLINE,
                stopped: "",
                ..known
            }),
            protocol: options.protocol,
            link: watched,
        };
        (sink, client, HostedLink(link))
    }

    /// Identity of the numbering, as in `spool` of messages, and the number of the next message.
    #[must_use]
    pub fn numbering(&self) -> Option<(String, u64)> {
        let (id, seq) = self.encoder.numbering()?;
        Some((SpoolId(id).to_string(), seq))
    }

    /// Clears all retained values of this sink at the broker.
    pub fn withdraw(&mut self) {
        let mut outbox = self.shared.outbox();
        outbox.retract_all_but(self.topics.status());
        drop(outbox);
        self.shared.wake.notify_one();
    }

    /// Lets the client end within `deadline`, once all is delivered; returns at once.
    pub fn finish_within(&mut self, deadline: Duration) {
        self.client.close(deadline);
    }
}
