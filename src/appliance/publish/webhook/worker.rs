// SPDX-License-Identifier: Apache-2.0
//! The thread `webhook`: posts events in order, one at a time, and keeps the spool. All writing to a device is here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::request::{Outcome, Requester};
use super::store::{Entry, Shared};
use crate::mqtt::backoff::JitteredBackoff;
use jetwatch_config::{Durability, WebhookConfig};
use jetwatch_spool::{Dropped, Record, Spool, SpoolError};
use jetwatch_telemetry::{FailureLog, LogDedup};

/// Longest time between two turns of the spool.
const SPOOL_INTERVAL: Duration = Duration::from_secs(1);

/// How often events that are too old are looked for.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(10);

/// Most events that are taken at once.
const TAKEN_EVENTS: usize = 64;

/// Wait between attempts while the sink is being closed.
const CLOSING_PAUSE: Duration = Duration::from_millis(200);

/// What the thread owns.
pub(super) struct Worker {
    config: WebhookConfig,
    requester: Requester,
    spool: Option<Arc<Spool>>,
    shared: Arc<Shared>,
    /// Events that were taken and are not done, in order.
    taken: VecDeque<Entry>,
    /// Number of the last event that was taken.
    taken_to: u64,
    /// Number of the last event that is done with all before it.
    acked: u64,
    backoff: JitteredBackoff,
    failures: FailureLog,
    refusals: FailureLog,
    spool_failures: LogDedup,
    /// The last request failed.
    is_failing: bool,
    turned_at: Option<Instant>,
    expired_at: Instant,
}

impl Worker {
    /// `first_own` is the number of the first event of this process.
    pub fn new(
        config: &WebhookConfig,
        spool: Option<Arc<Spool>>,
        shared: Arc<Shared>,
        first_own: u64,
    ) -> Self {
        let acked = spool.as_ref().map_or(first_own - 1, |spool| spool.acked());
        Self {
            config: config.clone(),
            requester: Requester::new(config),
            spool,
            shared,
            taken: VecDeque::new(),
            taken_to: acked,
            acked,
            backoff: JitteredBackoff::default(),
            failures: FailureLog::default(),
            refusals: FailureLog::default(),
            spool_failures: LogDedup::default(),
            is_failing: false,
            turned_at: None,
            expired_at: Instant::now(),
        }
    }

    /// Runs until the sink is closed and its deadline has passed or nothing is left to do.
    pub fn run(mut self) {
        loop {
            self.turn_if_due();
            if self.taken.is_empty() {
                self.take();
            }
            let Some(entry) = self.taken.front() else {
                self.turn();
                if self.shared.closing().is_some() {
                    break;
                }
                let tick = match self.spool {
                    Some(_) => EXPIRY_INTERVAL,
                    None => Duration::from_secs(3600),
                };
                self.shared.wait(Instant::now() + tick, true);
                continue;
            };
            if self.shared.age(entry) > self.config.spool.max_age {
                self.done(false);
                self.warn_spool("events are dropped because they waited for longer than max_age");
                continue;
            }
            let closing = self.shared.closing();
            let left = closing.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            let limit = self.config.timeout.min(left.unwrap_or(Duration::MAX));
            let busy = self.shared.busy.clone();
            match busy.time(|| self.requester.post(entry, limit)) {
                Outcome::Accepted => self.accepted(),
                Outcome::Refused { status } => self.refused(status),
                Outcome::Failed {
                    reason,
                    retry_after,
                } => {
                    let wait = self.failed(&reason, retry_after);
                    match closing {
                        None => self.pause(wait),
                        // The next start tries again.
                        Some(_) if self.spool.is_some() => break,
                        Some(_) => std::thread::sleep(CLOSING_PAUSE.min(left.unwrap_or_default())),
                    }
                }
            }
        }
        self.finish();
    }

    /// Takes the next events from where they wait.
    fn take(&mut self) {
        let Some(spool) = &self.spool else {
            self.taken.extend(self.shared.take(TAKEN_EVENTS));
            return;
        };
        match spool.read(self.taken_to, TAKEN_EVENTS) {
            Ok((records, gap)) => {
                if let Some(gap) = gap {
                    let webhook = self.config.name.as_str();
                    log::warn!(webhook, from = gap.from, to = gap.to; "events in the spool are damaged and cannot be sent");
                }
                if let Some(last) = records.last() {
                    self.taken_to = last.seq;
                }
                self.taken.extend(records.into_iter().map(entry));
            }
            Err(error) => self.warn_spool(&format!("cannot read the spool: {error}")),
        }
    }

    /// The first event is done.
    fn done(&mut self, is_delivered: bool) {
        if let Some(entry) = self.taken.pop_front() {
            self.acked = entry.seq;
            self.shared.done(entry.seq, is_delivered);
        }
    }

    fn accepted(&mut self) {
        self.done(true);
        self.backoff.reset();
        if std::mem::take(&mut self.is_failing) {
            self.failures.reset();
            let (webhook, url) = (self.config.name.as_str(), self.config.url.origin());
            log::info!(webhook, url; "events are accepted again");
        }
    }

    fn refused(&mut self, status: u16) {
        self.done(false);
        let (webhook, url) = (self.config.name.as_str(), self.config.url.origin());
        let text = format!("status {status}");
        if let Some(repeats) = self.refusals.admit(&text, Instant::now()) {
            log::error!(
                webhook, url, repeats;
                "the webhook refuses an event with status {status}; it is dropped; check url, headers and secret_file of publish.webhooks"
            );
        }
    }

    /// Returns the wait before the next attempt.
    fn failed(&mut self, reason: &str, retry_after: Option<Duration>) -> Duration {
        self.is_failing = true;
        let wait = self.backoff.failed().max(retry_after.unwrap_or_default());
        if let Some(repeats) = self.failures.admit(reason, Instant::now()) {
            let (webhook, url) = (self.config.name.as_str(), self.config.url.origin());
            let queued = self.shared.counts().queued;
            let retry_s = wait.as_secs_f32();
            log::warn!(webhook, url, queued, repeats, retry_s; "cannot post an event: {reason}; trying again");
        }
        // What came during the request is on the device before the wait.
        self.turn();
        wait
    }

    /// Waits before the next attempt, and keeps the spool meanwhile.
    fn pause(&mut self, wait: Duration) {
        let until = Instant::now() + wait;
        while Instant::now() < until && self.shared.closing().is_none() {
            let next = (Instant::now() + SPOOL_INTERVAL).min(until);
            self.shared.wait(next, false);
            self.turn_if_due();
        }
    }

    fn turn_if_due(&mut self) {
        if self
            .turned_at
            .is_none_or(|at| at.elapsed() >= SPOOL_INTERVAL)
        {
            self.turn();
        }
    }

    /// One turn of the spool.
    fn turn(&mut self) {
        self.turned_at = Some(Instant::now());
        let Some(spool) = self.spool.clone() else {
            return;
        };
        let (clock, oldest) = self.shared.clock(self.acked, self.config.spool.max_age);
        spool.ack(self.acked);
        spool.keep_clock(clock);
        let mut dropped = Vec::new();
        let is_wanted = match self.config.spool.durability {
            Durability::Process => false,
            Durability::Outage => self.is_failing,
            Durability::Always => self.shared.counts().queued > 0 || self.is_failing,
        };
        if is_wanted || spool.is_pressed() {
            let persisted = spool.persist(&mut dropped);
            let is_stuck = persisted.is_err() || !spool.has_back();
            self.note(persisted, "write events to the device");
            if is_stuck {
                let shrunk = spool.shrink_front(&mut dropped);
                self.note(shrunk, "make room in the spool");
            }
        }
        if self.expired_at.elapsed() >= EXPIRY_INTERVAL {
            self.expired_at = Instant::now();
            let expired = spool.expire(oldest, &mut dropped);
            self.note(expired, "drop events that are too old");
        }
        let trimmed = spool.trim(true);
        self.note(trimmed, "remove events that are done from the spool");
        self.forget(&dropped);
    }

    /// Forgets what the spool has dropped to make room.
    fn forget(&mut self, dropped: &[Dropped]) {
        let lost = dropped.iter().flat_map(|gone| &gone.seqs).copied();
        let lost: Vec<u64> = lost.filter(|seq| *seq > self.acked).collect();
        if lost.is_empty() {
            return;
        }
        self.taken.retain(|entry| !lost.contains(&entry.seq));
        for seq in lost {
            self.shared.done(seq, false);
        }
        self.warn_spool("events are dropped, updates of tracks first, because the spool is full or they are too old (max_bytes, max_age)");
    }

    fn note(&mut self, result: Result<(), SpoolError>, action: &str) {
        if let Err(error) = result {
            self.warn_spool(&format!("cannot {action}: {error}"));
        }
    }

    fn warn_spool(&mut self, text: &str) {
        if let Some(repeats) = self.spool_failures.admit(text) {
            let webhook = self.config.name.as_str();
            log::warn!(webhook, repeats; "{text}; see publish.webhooks[].spool");
        }
    }

    /// What is left survives the end, and a power cut.
    fn finish(mut self) {
        self.is_failing = !self.taken.is_empty() || self.shared.counts().queued > 0;
        self.turn();
    }
}

fn entry(record: Record) -> Entry {
    Entry {
        id: record.id,
        seq: record.seq,
        at_ms: record.at_ms,
        event: record.topic,
        is_update: false,
        payload: record.payload,
    }
}
