// SPDX-License-Identifier: Apache-2.0
//! The webhook sink: chosen events as HTTP POST requests, one each, from a thread named `webhook`.
//!
//! Events are in a spool from the moment they are published until they are accepted, so that neither an endpoint that is away
//! nor the end of the process loses them; without its folders they wait in memory. They are posted in order: one that is not
//! accepted is tried again, and the others wait behind it. What the endpoint refuses is dropped and counted.

mod filter;
mod request;
mod store;
mod worker;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};

use self::filter::{Filter, Item};
pub use self::request::check_webhook;
pub use self::store::webhook_folders;
use self::store::{Entry, Shared, open};
use self::worker::Worker;
use super::{Encoder, Publication, PublishError, Sink, SinkCounts, Timestamp};
use jetwatch_config::{Durability, WebhookConfig};
use jetwatch_spool::{Batch, Class, Spool};
use jetwatch_telemetry::{self as telemetry, LogDedup, thread_names};
use jetwatch_types::Classes;

/// Part of the closing deadline reserved for what waits to be written to the device.
const WRITE_RESERVE: Duration = Duration::from_secs(1);

/// The sink that posts events.
pub struct WebhookSink {
    config: WebhookConfig,
    filter: Filter,
    encoder: Encoder,
    shared: Arc<Shared>,
    /// `None`: events wait in memory.
    spool: Option<Arc<Spool>>,
    /// Identity of the numbering, and the number of the next event.
    numbering: (u64, u64),
    batch: Batch,
    failures: LogDedup,
    thread: Option<JoinHandle<()>>,
    ended: Receiver<()>,
}

impl WebhookSink {
    /// Opens the spool, starts the thread, and returns at once.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        config: &WebhookConfig,
        device: &str,
        classes: &Classes,
    ) -> Result<Self, PublishError> {
        let spool = open(config).map(Arc::new);
        let numbering = spool.as_ref().map_or_else(
            || (jetwatch_spool::random_id(), 1),
            |spool| (spool.id(), spool.next_seq()),
        );
        let shared = Arc::new(Shared::new(numbering.1, spool.as_deref()));
        let worker = Worker::new(config, spool.clone(), Arc::clone(&shared), numbering.1);
        let (end, ended) = bounded(1);
        let thread = std::thread::Builder::new()
            .name(thread_names::WEBHOOK.to_owned())
            .spawn(move || {
                telemetry::name_thread(thread_names::WEBHOOK);
                worker.run();
                // The receiver is gone when this took too long.
                let _ = end.send(());
            })
            .map_err(|source| PublishError::Thread {
                name: thread_names::WEBHOOK,
                source,
            })?;
        Ok(Self {
            config: config.clone(),
            filter: Filter::new(config, classes),
            encoder: Encoder::new(device, classes),
            shared,
            spool,
            batch: Batch::new(numbering.0),
            numbering,
            failures: LogDedup::default(),
            thread: Some(thread),
            ended,
        })
    }

    /// Encodes one chosen event.
    fn encode(&mut self, record: &Publication<'_>, item: &Item) -> Entry {
        let (id, seq) = self.numbering;
        self.numbering.1 += 1;
        self.encoder.number_from(id, seq);
        let mut payload = Vec::new();
        self.encoder.encode(record, Timestamp::now(), |json| {
            payload.extend_from_slice(json);
        });
        Entry {
            id,
            seq,
            at_ms: self.shared.stamp(seq),
            event: item.event.word().to_owned(),
            is_update: item.class == Class::Update,
            payload,
        }
    }

    /// Stores `entries` in the spool, or in memory without one.
    fn store(&mut self, entries: Vec<(Entry, Class, u64)>) {
        let count = entries.len() as u64;
        let Some(spool) = &self.spool else {
            let dropped = self
                .shared
                .push(entries.into_iter().map(|(entry, ..)| entry));
            if dropped > 0 {
                let text = "too many events wait";
                self.warn(text);
            }
            return;
        };
        self.batch.clear();
        for (entry, class, track) in &entries {
            let numbers = (entry.seq, entry.at_ms);
            self.batch
                .push(numbers, *class, *track, &entry.event, &entry.payload);
        }
        // Counted before: the thread may be faster.
        self.shared.accept(count);
        match spool.write(&self.batch) {
            Ok(stored) => {
                if let Some(error) = stored.only_in_memory
                    && let Some(repeats) = self.failures.admit(&error.to_string())
                {
                    let webhook = self.config.name.as_str();
                    log::warn!(webhook, repeats; "events wait in memory: {error}");
                }
            }
            Err(error) => {
                self.shared.refuse(count);
                self.warn(&error.to_string());
            }
        }
    }

    fn warn(&mut self, reason: &str) {
        if let Some(repeats) = self.failures.admit(reason) {
            let webhook = self.config.name.as_str();
            log::warn!(webhook, repeats; "events are dropped: {reason}; see publish.webhooks[].spool");
        }
    }

    fn shut_down(&mut self, deadline: Duration) {
        let reserve = WRITE_RESERVE.min(deadline / 4);
        self.shared.close_by(Instant::now() + (deadline - reserve));
        let Some(thread) = self.thread.take() else {
            return;
        };
        let is_late = self.ended.recv_timeout(deadline - reserve) == Err(RecvTimeoutError::Timeout);
        let webhook = self.config.name.as_str();
        if !is_late {
            let _ = thread.join();
        } else if let Some(spool) = &self.spool {
            log::info!(webhook; "a request was under way at the stop; the next start sends its event again");
            if self.config.spool.durability != Durability::Process
                && let Err(error) = spool.persist(&mut Vec::new())
            {
                log::warn!(webhook; "a power cut loses the events that wait: {error}");
            }
        }
        let left = self.shared.counts().queued;
        if left > 0 && self.spool.is_some() {
            log::info!(webhook, events = left; "events wait in the spool; the next start sends them");
        } else if left > 0 {
            self.shared.abandon();
            log::warn!(webhook, events = left; "events were not accepted before the deadline and are lost");
        }
    }
}

impl Sink for WebhookSink {
    fn name(&self) -> String {
        format!("{} {}", thread_names::WEBHOOK, self.config.name)
    }

    fn publish(&mut self, record: &Publication<'_>) {
        let chosen = self.filter.choose(record);
        if chosen.is_empty() {
            return;
        }
        let mut entries = Vec::with_capacity(chosen.len());
        for item in &chosen {
            // Each alone: only the chosen ones have numbers.
            let entry = match record {
                Publication::Events {
                    source,
                    frame,
                    events,
                    recording,
                    snapshots,
                } => {
                    let events = std::slice::from_ref(&events[item.index]);
                    let snapshots = snapshots
                        .get(item.index)
                        .map_or(&[][..], std::slice::from_ref);
                    let one = Publication::Events {
                        source,
                        frame,
                        events,
                        recording: *recording,
                        snapshots,
                    };
                    self.encode(&one, item)
                }
                Publication::Analytics {
                    source,
                    rules,
                    frame,
                    events,
                    recording,
                } => {
                    let events = std::slice::from_ref(&events[item.index]);
                    let one = Publication::Analytics {
                        source,
                        rules,
                        frame,
                        events,
                        recording: *recording,
                    };
                    self.encode(&one, item)
                }
                other => self.encode(other, item),
            };
            entries.push((entry, item.class, item.track));
        }
        self.store(entries);
        self.shared.wake();
    }

    fn counts(&self) -> SinkCounts {
        let counts = self.shared.counts();
        SinkCounts {
            spooled: if self.spool.is_some() {
                counts.queued
            } else {
                0
            },
            ..counts
        }
    }

    fn close(mut self: Box<Self>, deadline: Duration) -> SinkCounts {
        self.shut_down(deadline);
        self.counts()
    }
}

impl Drop for WebhookSink {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.shut_down(Duration::ZERO);
        }
    }
}
