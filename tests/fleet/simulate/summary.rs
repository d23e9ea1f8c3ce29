// SPDX-License-Identifier: Apache-2.0
//! What is printed at the end: rates, times until acknowledgements, and what was lost.

use std::fmt;

use serde::Serialize;

use super::deliveries::Totals;
use super::{Options, Outcome, Reading};

/// Result of a simulation. Rates, times and the CPU time are those of the measurement, between the start of the last device and the end; all
/// counts are of the whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Devices.
    pub boxes: usize,
    /// Devices whose connection the broker has never accepted.
    pub never_connected: usize,
    /// Length of the measurement, in seconds.
    pub measured_s: f64,
    /// Connections that the broker has accepted.
    pub connects: u64,
    /// Of those, all but the first of each device.
    pub reconnects: u64,
    /// Events and analytics events that were made.
    pub events: u64,
    /// The same in a second.
    pub events_per_s: f64,
    /// Messages of QoS 1 that the broker has acknowledged, with retained values.
    pub acknowledged: u64,
    /// The same in a second.
    pub acknowledged_per_s: f64,
    /// Bytes of MQTT packets with messages in a second, without TLS, TCP and IP.
    pub bytes_per_s: f64,
    /// Median time from the write of a message to its acknowledgement, in ms.
    pub ack_p50_ms: Option<f64>,
    /// The time that 99 of 100 acknowledgements took at most, in ms.
    pub ack_p99_ms: Option<f64>,
    /// The longest, in ms.
    pub ack_max_ms: Option<f64>,
    /// Messages that were sent more than 2 s late, with `late_ms`.
    pub late: u64,
    /// Refusals of messages that were sent again.
    pub refused_for_now: u64,
    /// Messages that were refused for good; they are lost.
    pub refused: u64,
    /// Messages that were refused for good, found no place in the queue, or were not acknowledged until the end. Without statistics.
    pub lost: u64,
    /// Messages that wait in the spools for the next run.
    pub waiting: u64,
    /// CPU time of this process, in percent of one core.
    pub cpu_percent: f64,
    /// Highest resident memory of this process, in bytes.
    pub peak_rss_bytes: u64,
}

impl Summary {
    /// Whether all devices were connected and nothing was lost.
    pub fn is_good(&self) -> bool {
        self.lost == 0 && self.never_connected == 0
    }
}

/// The summary of the counts between `before` and `after`, and of the end.
pub(crate) fn summarize(
    options: &Options,
    totals: &Totals,
    before: &Reading,
    after: &Reading,
    ack_ms: Option<[f64; 3]>,
    outcomes: &[Outcome],
    peak_rss_bytes: u64,
) -> Summary {
    let counts = totals.counts();
    let seconds = after.at.duration_since(before.at).as_secs_f64().max(1e-3);
    let per_s = |before: u64, after: u64| (after - before) as f64 / seconds;
    let never_connected = outcomes
        .iter()
        .filter(|outcome| outcome.never_connected)
        .count();
    let first_connects = (options.boxes - never_connected) as u64;
    let lost = outcomes.iter().map(|outcome| {
        let messages = outcome.messages;
        messages.dropped - messages.best_effort_dropped
    });
    Summary {
        boxes: options.boxes,
        never_connected,
        measured_s: seconds,
        connects: counts.connects,
        reconnects: counts.connects - first_connects,
        events: after.events,
        events_per_s: per_s(before.events, after.events),
        acknowledged: counts.acknowledged,
        acknowledged_per_s: per_s(before.counts.acknowledged, after.counts.acknowledged),
        bytes_per_s: per_s(before.counts.bytes, after.counts.bytes),
        ack_p50_ms: ack_ms.map(|[median, ..]| median),
        ack_p99_ms: ack_ms.map(|[_, p99, _]| p99),
        ack_max_ms: ack_ms.map(|[.., max]| max),
        late: counts.late,
        refused_for_now: counts.refused_for_now,
        refused: counts.refused,
        lost: lost.sum(),
        waiting: outcomes
            .iter()
            .map(|outcome| outcome.messages.spooled)
            .sum(),
        cpu_percent: (after.cpu - before.cpu).as_secs_f64() / seconds * 100.0,
        peak_rss_bytes,
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connected = self.boxes - self.never_connected;
        writeln!(
            f,
            "boxes         {connected} of {} connected; {} connects, {} of them again",
            self.boxes, self.connects, self.reconnects
        )?;
        writeln!(
            f,
            "events        {}, {:.1}/s over {:.0} s",
            self.events, self.events_per_s, self.measured_s
        )?;
        writeln!(
            f,
            "acknowledged  {} messages, {:.1}/s, {:.1} KB/s",
            self.acknowledged,
            self.acknowledged_per_s,
            self.bytes_per_s / 1000.0
        )?;
        match (self.ack_p50_ms, self.ack_p99_ms, self.ack_max_ms) {
            (Some(median), Some(p99), Some(max)) => writeln!(
                f,
                "after         {median:.1} ms (median), {p99:.1} ms (p99), {max:.1} ms (max)"
            )?,
            _ => writeln!(f, "after         no acknowledgement")?,
        }
        writeln!(f, "late          {} sent more than 2 s late", self.late)?;
        writeln!(
            f,
            "refused       {} for now and sent again, {} for good",
            self.refused_for_now, self.refused
        )?;
        writeln!(f, "lost          {}", self.lost)?;
        if self.waiting > 0 {
            writeln!(f, "waiting       {} in the spools", self.waiting)?;
        }
        write!(
            f,
            "this process  {:.0} % of a core, at most {:.0} MiB",
            self.cpu_percent,
            self.peak_rss_bytes as f64 / f64::from(1 << 20)
        )
    }
}
