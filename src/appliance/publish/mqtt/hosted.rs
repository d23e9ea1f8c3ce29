// SPDX-License-Identifier: Apache-2.0
//! The MQTT sink without a thread of its own: its client is a future on the runtime of the caller, so that one thread can be
//! many devices. For `tests/fleet/simulate`; the daemon uses [`MqttSink::start`].

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use jetwatch_mqtt::Protocol;
use tokio::sync::watch;
use tokio::time::sleep;

use super::backoff::JitteredBackoff;
use super::shared::Shared;
use super::spooler::{SpoolWorker, Spooler, spool_folders};
use super::worker::Worker;
use super::{Availability, ConnectionState, MqttSink, OFFLINE, Part};
use crate::PublishError;
use crate::wire::SpoolId;
use jetwatch_config::MqttConfig;
use jetwatch_spool::{FolderProblem, Spool};
use jetwatch_types::Classes;

/// A message of QoS 1 that is about to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentMessage {
    /// Its packet identifier.
    pub packet_id: u16,
    /// It has waited for more than 2 s.
    pub is_late: bool,
    /// Its `seq`, and when it was made, in milliseconds since 1970; `None`: it is not numbered.
    pub number: Option<(u64, u64)>,
}

/// Is notified of what happens to messages of QoS 1, by the thread that runs the client. Packet identifiers are used again once they
/// are acknowledged or refused, and on a new connection.
pub trait DeliveryObserver: Debug + Send + Sync {
    /// The broker has accepted the connection; nothing is on its way on it.
    fn connected(&self);

    /// A message is about to be written.
    fn sent(&self, message: SentMessage);

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
    /// Only these messages are published.
    pub part: Part,
    /// Numbered messages are written to the spool of the configuration before they are sent, and a later process goes on with its
    /// numbers and with what was not acknowledged.
    pub has_spool: bool,
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
    spool: Option<SpoolWorker>,
}

impl HostedClient {
    /// Runs until the sink is closed with [`MqttSink::finish_within`]. The runtime needs its drivers of I/O and time.
    pub async fn run(mut self) {
        let Some(mut spool) = self.spool.take() else {
            return self.publish().await;
        };
        tokio::select! {
            () = self.publish() => {}
            () = spool.run() => {}
        }
        spool.finish();
    }

    async fn publish(mut self) {
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
    /// A sink whose client is run by the caller. Without a spool, messages wait in memory only, and their numbering is a new one.
    ///
    /// # Errors
    /// The spool cannot be opened.
    pub fn hosted(
        config: &MqttConfig,
        device: &str,
        classes: &Classes,
        options: HostedOptions,
    ) -> Result<(Self, HostedClient, HostedLink), PublishError> {
        let spool = match options.has_spool {
            true => Some(open_spool(config)?),
            false => None,
        };
        let part = options.part;
        let (mut sink, worker) = Self::prepare(config, device, classes, spool.as_ref(), None, part);
        let spool = spool.map(|spool| {
            let shared = Arc::clone(&sink.shared);
            let (spooler, worker) = Spooler::hosted(spool, &config.spool, shared);
            sink.spooler = Some(spooler);
            worker
        });
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
            spool,
        };
        Ok((sink, client, HostedLink(link)))
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

/// The spool of this client, with all folders that its durability needs.
fn open_spool(config: &MqttConfig) -> Result<Spool, PublishError> {
    let folders = spool_folders(config);
    let (spool, problems) = Spool::open(&folders);
    let failed = |path, source| Err(PublishError::Spool { path, source });
    for problem in problems {
        match problem {
            FolderProblem::Front(error) => return failed(folders.front, error),
            FolderProblem::Back(error) => return failed(folders.back.unwrap_or_default(), error),
            FolderProblem::Repaired(..) | FolderProblem::FrontOnDevice(_) => {}
        }
    }
    Ok(spool.expect("a spool without a problem of its folders is open"))
}
