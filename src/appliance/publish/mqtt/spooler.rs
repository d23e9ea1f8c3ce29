// SPDX-License-Identifier: Apache-2.0
//! The thread `spool`: copies what the broker does not acknowledge to the device, gives the outbox what has no place in it, and
//! forgets what is done. All writing to a device is here; the pipeline's thread writes to tmpfs only.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::message::Message;
use super::outbox::LATE_AFTER_MS;
use super::shared::Shared;
use super::wall_clock::shifted;
use crate::wire::SpoolId;
use crate::{PublishError, SPOOL_CLASSES, SpoolStats};
use jetwatch_config::{Durability, MqttConfig, SpoolConfig};
use jetwatch_spool::{Batch, Dropped, FolderProblem, Folders, Spool, SpoolError, Stored};
use jetwatch_telemetry::{
    self as telemetry, BusyTime, Heartbeats, LogDedup, systemd, thread_names,
};

/// Longest time between two turns.
const MAX_INTERVAL: Duration = Duration::from_millis(250);

/// How often the cursor on the device is written while messages there are being sent.
const CURSOR_INTERVAL: Duration = Duration::from_secs(5);

/// How often messages that are too old are looked for.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(10);

/// Longest time for the last writing to the device; with the time of the sink less than the tracking stage has to end.
const END_TIMEOUT: Duration = Duration::from_secs(7);

/// Most messages that are read from the log at once.
const REFILL_MESSAGES: usize = 2500;

/// Where the spool of a client is.
#[must_use]
pub fn spool_folders(config: &MqttConfig) -> Folders {
    let spool = &config.spool;
    Folders {
        front: spool.runtime_path(&config.client_id),
        back: (spool.durability != Durability::Process)
            .then(|| spool.state_path(&config.client_id)),
        max_bytes: spool.max_bytes,
    }
}

/// Opens the spool, and logs what is wrong with it; `None`: messages wait in memory only.
pub(super) fn open(config: &MqttConfig) -> Option<Spool> {
    let folders = spool_folders(config);
    create_folders(config);
    let (spool, problems) = Spool::open(&folders);
    let is_wanted = config.spool.runtime_folder.is_some()
        || config.spool.state_folder.is_some()
        || systemd::is_managed();
    if spool.is_none() && !is_wanted && problems.iter().all(is_unavailable) {
        log::info!(
            "MQTT messages wait in memory only: there is no {}, which the package makes (publish.mqtt.spool)",
            folders.front.parent().unwrap_or(Path::new("/")).display()
        );
        return None;
    }
    for problem in &problems {
        report(problem, spool.is_some());
    }
    if let Some(spool) = &spool {
        let status = spool.status();
        let waiting = status.front.records + status.back.as_ref().map_or(0, |back| back.records);
        if waiting > 0 && spool.acked() + 1 < spool.next_seq() {
            log::info!(bytes = status.bytes(); "messages of an earlier run wait in the spool and are sent first");
        }
    }
    spool
}

/// Makes the folders that are named, and those of the package where it is installed, where they are not there yet.
pub(crate) fn create_folders(config: &MqttConfig) {
    let given = [&config.spool.runtime_folder, &config.spool.state_folder];
    let defaults = [
        &jetwatch_config::RUNTIME_FOLDER,
        &jetwatch_config::STATE_FOLDER,
    ];
    for (given, default) in given.into_iter().zip(defaults) {
        // Fails without the package; opening reports what matters.
        let _ = std::fs::create_dir(given.as_deref().unwrap_or(default));
    }
}

fn is_unavailable(problem: &FolderProblem) -> bool {
    match problem {
        FolderProblem::Front(error) | FolderProblem::Back(error) => error.is_unavailable(),
        FolderProblem::FrontOnDevice(_) | FolderProblem::Repaired(..) => true,
    }
}

fn report(problem: &FolderProblem, has_spool: bool) {
    match problem {
        FolderProblem::Front(error) if has_spool => {
            log::warn!("the spool has no folder on tmpfs: {error}");
        }
        FolderProblem::Front(error) => log::warn!(
            "MQTT messages wait in memory only, so a crash or a stop loses those that the broker has not acknowledged: {error}; see publish.mqtt.spool"
        ),
        FolderProblem::Back(error) => log::warn!(
            "a power cut loses MQTT messages that the broker has not acknowledged: {error}; see publish.mqtt.spool"
        ),
        FolderProblem::FrontOnDevice(path) => log::info!(
            "the spool's folder {} is not on tmpfs: each message is written to its device",
            path.display()
        ),
        FolderProblem::Repaired(path, opened) => log::warn!(
            torn_bytes = opened.torn_bytes, damaged_files = opened.damaged.len(), files_of_other_versions = opened.other_versions.len();
            "the spool in {} was damaged; what is whole in it is sent",
            path.display()
        ),
    }
}

/// What the pipeline's thread needs of the spool, and the thread.
#[derive(Debug)]
pub(super) struct Spooler {
    spool: Arc<Spool>,
    batch: Batch,
    failures: LogDedup,
    wake: Sender<()>,
    /// Of the thread.
    busy: BusyTime,
    /// `None`: the caller runs the worker.
    thread: Option<SpoolThread>,
}

#[derive(Debug)]
struct SpoolThread {
    /// Closed to end it.
    stop: Sender<()>,
    handle: JoinHandle<()>,
    ended: Receiver<()>,
}

impl Spooler {
    /// Without a thread: the caller runs the worker.
    pub fn hosted(spool: Spool, config: &SpoolConfig, shared: Arc<Shared>) -> (Self, SpoolWorker) {
        let spool = Arc::new(spool);
        let (wake, woken) = bounded(1);
        shared.set_spooler(wake.clone());
        shared
            .clock()
            .resume(spool.next_seq() - 1, spool.kept_clock());
        let now = Instant::now();
        let worker = SpoolWorker {
            spool: Arc::clone(&spool),
            config: config.clone(),
            shared,
            woken,
            failures: LogDedup::default(),
            persisted_at: now,
            saved_at: now,
            expired_at: now,
        };
        let spooler = Self {
            batch: Batch::new(spool.id()),
            spool,
            failures: LogDedup::default(),
            wake,
            busy: BusyTime::default(),
            thread: None,
        };
        (spooler, worker)
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(
        spool: Spool,
        config: &SpoolConfig,
        shared: Arc<Shared>,
        heartbeats: &Heartbeats,
    ) -> Result<Self, PublishError> {
        let (mut spooler, mut worker) = Self::hosted(spool, config, shared);
        let (stop, stopped) = bounded(0);
        let (end, ended) = bounded(1);
        let heartbeat = heartbeats.register(thread_names::SPOOL);
        let busy = spooler.busy.clone();
        let handle = std::thread::Builder::new()
            .name(thread_names::SPOOL.to_owned())
            .spawn(move || {
                telemetry::name_thread(thread_names::SPOOL);
                let interval = worker.config.sync.min(MAX_INTERVAL);
                let mut is_woken = true;
                while stopped.try_recv() != Err(crossbeam_channel::TryRecvError::Disconnected) {
                    heartbeat.busy();
                    busy.time(|| worker.turn(is_woken));
                    heartbeat.idle();
                    is_woken = match worker.woken.recv_timeout(interval) {
                        Ok(()) => true,
                        Err(RecvTimeoutError::Timeout) => false,
                        Err(RecvTimeoutError::Disconnected) => break,
                    };
                }
                worker.finish();
                drop(heartbeat);
                // The receiver is gone when this took too long.
                let _ = end.send(());
            })
            .map_err(|source| PublishError::Thread {
                name: thread_names::SPOOL,
                source,
            })?;
        spooler.thread = Some(SpoolThread {
            stop,
            handle,
            ended,
        });
        Ok(spooler)
    }

    /// Writes the numbered ones of `messages` so that they survive the process, and marks them.
    pub fn store(&mut self, messages: &mut [Message]) {
        self.batch.clear();
        for message in &*messages {
            if let Some(tag) = message.tag {
                let numbers = (tag.seq, tag.at_ms);
                let (topic, payload) = (&message.topic, &message.payload);
                self.batch
                    .push(numbers, tag.class, tag.track, topic, payload);
            }
        }
        if !self.batch.is_empty() && self.write() {
            let tags = messages.iter_mut().filter_map(|it| it.tag.as_mut());
            tags.for_each(|tag| tag.is_stored = true);
        }
    }

    /// Writes the batch to the log; returns whether it is there.
    fn write(&mut self) -> bool {
        match self.spool.write(&self.batch) {
            Ok(Stored {
                is_pressed,
                only_in_memory,
            }) => {
                if is_pressed {
                    let _ = self.wake.try_send(());
                }
                if let Some(error) = only_in_memory {
                    warn(&mut self.failures, "store messages in the spool", &error);
                    return true;
                }
                let repeats = self.failures.reset();
                if repeats > 0 {
                    log::info!(repeats; "the spool can be written again");
                }
                true
            }
            Err(error) => {
                let _ = self.wake.try_send(());
                warn(&mut self.failures, "store messages in the spool", &error);
                false
            }
        }
    }

    /// Statistics, with what the outbox knows.
    pub fn stats(
        &self,
        replay_rate: f64,
        dropped: [u64; SPOOL_CLASSES.len()],
        oldest: OldestMessage,
    ) -> SpoolStats {
        let status = self.spool.status();
        let logs = [Some(&status.front), status.back.as_ref()];
        let in_logs = logs.into_iter().flatten().filter_map(|log| log.oldest_ms);
        let oldest_ms = match oldest.at_ms {
            // Only the log knows.
            Some(0) => in_logs.min().map(|at| shifted(at, oldest.shift)),
            other => other,
        };
        SpoolStats {
            id: SpoolId(self.spool.id()).to_string(),
            runtime_bytes: status.front.bytes,
            state_bytes: status.back.as_ref().map(|back| back.bytes),
            oldest_age: oldest_ms.map(|at| Duration::from_millis(oldest.now_ms.saturating_sub(at))),
            replay_rate,
            dropped,
            busy: self.busy.total(),
        }
    }

    /// Ends the thread; what the broker has not acknowledged is on the device then, except with `durability: process`.
    pub fn end(self) {
        let Some(thread) = self.thread else {
            return;
        };
        drop(thread.stop);
        let _ = self.wake.try_send(());
        if thread.ended.recv_timeout(END_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            log::warn!(thread = thread_names::SPOOL; "did not stop within {} s; abandoned", END_TIMEOUT.as_secs());
            return;
        }
        let _ = thread.handle.join();
    }
}

/// What the outbox knows of the oldest message that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct OldestMessage {
    /// Now, in milliseconds since 1970.
    pub now_ms: u64,
    /// When it was made; 0 where only the log knows.
    pub at_ms: Option<u64>,
    /// What is to be added to the time that the log knows.
    pub shift: i64,
}

/// What the thread owns.
#[derive(Debug)]
pub(super) struct SpoolWorker {
    spool: Arc<Spool>,
    config: SpoolConfig,
    shared: Arc<Shared>,
    woken: Receiver<()>,
    failures: LogDedup,
    persisted_at: Instant,
    saved_at: Instant,
    expired_at: Instant,
}

impl SpoolWorker {
    /// Turns without a thread of its own, on the runtime of the caller, until it is dropped; then [`finish`](Self::finish) is to be called.
    pub async fn run(&mut self) {
        let interval = self.config.sync.min(MAX_INTERVAL);
        loop {
            let is_woken = self.woken.try_recv().is_ok();
            self.turn(is_woken);
            tokio::time::sleep(interval).await;
        }
    }

    /// One turn; `is_woken`: there is work before the time.
    fn turn(&mut self, is_woken: bool) {
        let (view, now_ms) = {
            let mut outbox = self.shared.outbox();
            let now_ms = self.shared.now_ms(&mut outbox);
            (outbox.spool_view(), now_ms)
        };
        self.spool.ack(view.cursor - 1);
        self.keep_clock(view.cursor - 1);
        let mut dropped = Vec::new();
        let is_old = view
            .oldest_ms
            .is_some_and(|at| now_ms.saturating_sub(at) > LATE_AFTER_MS);
        let is_wanted = match self.config.durability {
            Durability::Process => false,
            Durability::Outage => is_old,
            Durability::Always => view.oldest_ms.is_some(),
        };
        let is_pressed = is_woken && self.spool.is_pressed();
        if (is_wanted && self.persisted_at.elapsed() >= self.config.sync) || is_pressed {
            self.persist(&mut dropped);
        }
        if self.expired_at.elapsed() >= EXPIRY_INTERVAL {
            self.expired_at = Instant::now();
            let before = self.shared.clock().older_than(now_ms, self.config.max_age);
            let expired = self.spool.expire(before, &mut dropped);
            self.note(expired, "drop messages that are too old");
        }
        let save_back = self.saved_at.elapsed() >= CURSOR_INTERVAL;
        if save_back {
            self.saved_at = Instant::now();
        }
        self.keep_gap();
        let trimmed = self.spool.trim(save_back);
        self.note(trimmed, "remove messages that are done from the spool");
        self.report(&dropped);
        self.refill();
    }

    fn persist(&mut self, dropped: &mut Vec<Dropped>) {
        self.persisted_at = Instant::now();
        let persisted = self.spool.persist(dropped);
        let is_stuck = persisted.is_err() || !self.spool.has_back();
        self.note(persisted, "write messages to the device");
        if is_stuck {
            let shrunk = self.spool.shrink_front(dropped);
            self.note(shrunk, "make room in the spool");
        }
    }

    /// Takes messages that were in the log only into the outbox, as far as it has room.
    fn refill(&mut self) {
        loop {
            let (view, room) = {
                let outbox = self.shared.outbox();
                (outbox.spool_view(), outbox.room().min(REFILL_MESSAGES))
            };
            if !view.needs_refill || room == 0 {
                return;
            }
            let (mut records, gap) = match self.spool.read(view.loaded_to, room) {
                Ok(read) => read,
                Err(error) => {
                    warn(&mut self.failures, "read the spool", &error);
                    return;
                }
            };
            let mut outbox = self.shared.outbox();
            if let Some(gap) = gap {
                outbox.add_gap(gap);
            }
            let clock = self.shared.clock();
            for record in &mut records {
                record.at_ms = shifted(record.at_ms, clock.shift(record.seq));
            }
            drop(clock);
            outbox.refill(&view, records);
            let is_connected = outbox.is_connected();
            drop(outbox);
            if is_connected {
                self.shared.wake.notify_one();
            }
        }
    }

    /// Tells the outbox what the log has dropped.
    fn report(&mut self, dropped: &[Dropped]) {
        if dropped.is_empty() {
            return;
        }
        let mut outbox = self.shared.outbox();
        for gone in dropped {
            outbox.drop_stored(gone);
        }
        drop(outbox);
        let messages: usize = dropped.iter().map(|gone| gone.seqs.len()).sum();
        let reason = dropped[0].reason;
        if let Some(repeats) = self.failures.admit(&format!("{reason:?}")) {
            log::warn!(
                messages, repeats;
                "messages in the spool are dropped ({reason:?}): updates of tracks first, then the oldest, until the broker takes messages \
                 again (publish.mqtt.spool.max_bytes, max_age)"
            );
        }
    }

    /// Keeps steps of the clock for a later process, but those that are before all messages behind `acked`.
    fn keep_clock(&self, acked: u64) {
        let kept = {
            let mut clock = self.shared.clock();
            clock.forget(acked);
            clock.kept()
        };
        self.spool.keep_clock(kept);
    }

    fn keep_gap(&self) {
        self.spool.keep_gap(self.shared.outbox().last_gap());
    }

    fn note(&mut self, result: Result<(), SpoolError>, action: &str) {
        if let Err(error) = result {
            warn(&mut self.failures, action, &error);
        }
    }

    /// The last turn: what is left survives a power cut.
    pub fn finish(&mut self) {
        let view = self.shared.outbox().spool_view();
        self.spool.ack(view.cursor - 1);
        let mut dropped = Vec::new();
        if self.config.durability != Durability::Process {
            self.persist(&mut dropped);
        }
        self.report(&dropped);
        self.keep_gap();
        let trimmed = self.spool.trim(true);
        self.note(trimmed, "remove messages that are done from the spool");
    }
}

/// Logs a failure once; repeats are counted.
fn warn(failures: &mut LogDedup, action: &str, error: &SpoolError) {
    let text = format!("cannot {action}: {error}");
    if let Some(repeats) = failures.admit(&text) {
        log::warn!(repeats; "{text}; messages wait in memory meanwhile");
    }
}
