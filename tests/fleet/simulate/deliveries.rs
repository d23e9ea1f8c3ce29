// SPDX-License-Identifier: Apache-2.0
//! What the broker did with the messages: counts of all devices, and times until acknowledgements.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use jetwatch_publish::{DeliveryObserver, SentMessage};
use parking_lot::Mutex;

use super::logs::{AckLog, Acknowledged};

/// Longest time that is told apart, in microseconds: ten minutes.
const MAX_US: u64 = 600_000_000;

/// Significant digits of times.
const DIGITS: u8 = 3;

/// Counts of all devices.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Connections that the broker has accepted.
    pub connects: u64,
    /// Messages of QoS 1 that were acknowledged.
    pub acknowledged: u64,
    /// Messages that were sent more than 2 s late.
    pub late: u64,
    /// Refusals of messages that were sent again.
    pub refused_for_now: u64,
    /// Messages that were refused for good.
    pub refused: u64,
    /// Bytes of MQTT packets with messages, without TLS, TCP and IP.
    pub bytes: u64,
}

#[derive(Debug)]
struct Sums {
    counts: Counts,
    /// From the write to the acknowledgement, in microseconds.
    ack_us: Histogram<u64>,
}

/// Counts and times of all devices.
#[derive(Debug)]
pub(crate) struct Totals(Mutex<Sums>);

impl Default for Totals {
    fn default() -> Self {
        Self(Mutex::new(Sums {
            counts: Counts::default(),
            ack_us: Histogram::new_with_max(MAX_US, DIGITS).expect("the limits are valid"),
        }))
    }
}

impl Totals {
    pub fn counts(&self) -> Counts {
        self.0.lock().counts
    }

    /// Forgets all times so far: those while devices start are not those of a steady load.
    pub fn clear_times(&self) {
        self.0.lock().ack_us.reset();
    }

    /// Median, 99th percentile and maximum of the times until an acknowledgement, in ms; `None`: there was none.
    pub fn ack_ms(&self) -> Option<[f64; 3]> {
        let sums = self.0.lock();
        let ms = |us: u64| us as f64 / 1000.0;
        let times = &sums.ack_us;
        (!times.is_empty()).then(|| {
            [
                ms(times.value_at_quantile(0.5)),
                ms(times.value_at_quantile(0.99)),
                ms(times.max()),
            ]
        })
    }
}

/// What one device has on its way.
#[derive(Debug)]
pub(crate) struct Deliveries {
    totals: Arc<Totals>,
    log: Option<Arc<AckLog>>,
    /// Device and identity of its numbering.
    name: OnceLock<(String, String)>,
    in_flight: Mutex<Vec<(SentMessage, Instant)>>,
    was_connected: AtomicBool,
}

impl Deliveries {
    /// Acknowledged events go into `log`, once the device has its name.
    pub fn new(totals: Arc<Totals>, log: Option<Arc<AckLog>>) -> Self {
        Self {
            totals,
            log,
            name: OnceLock::new(),
            in_flight: Mutex::new(Vec::new()),
            was_connected: AtomicBool::new(false),
        }
    }

    /// Name of the device and identity of its numbering, for the log; before the first message.
    pub fn set_name(&self, device: &str, spool: &str) {
        let _ = self.name.set((device.to_owned(), spool.to_owned()));
    }

    fn log(&self, message: SentMessage, ack_ms: f64) {
        let Some(((log, (device, spool)), (seq, made_ms))) =
            self.log.as_ref().zip(self.name.get()).zip(message.number)
        else {
            return;
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ms = now.unwrap_or_default().as_millis();
        log.note(&Acknowledged {
            device,
            spool,
            seq,
            made_ms,
            acked_ms: u64::try_from(now_ms).unwrap_or(u64::MAX),
            ack_ms,
        });
    }

    /// Whether the broker has ever accepted the connection.
    pub fn was_connected(&self) -> bool {
        self.was_connected.load(Ordering::Relaxed)
    }

    /// Removes a message from those on their way; it, and when it was written.
    fn take(&self, packet_id: u16) -> Option<(SentMessage, Instant)> {
        let mut in_flight = self.in_flight.lock();
        let is_it = |(message, _): &(SentMessage, Instant)| message.packet_id == packet_id;
        let at = in_flight.iter().position(is_it)?;
        Some(in_flight.remove(at))
    }
}

impl DeliveryObserver for Deliveries {
    fn connected(&self) {
        self.in_flight.lock().clear();
        self.was_connected.store(true, Ordering::Relaxed);
        self.totals.0.lock().counts.connects += 1;
    }

    fn sent(&self, message: SentMessage) {
        self.in_flight.lock().push((message, Instant::now()));
        self.totals.0.lock().counts.late += u64::from(message.is_late);
    }

    fn written(&self, bytes: usize) {
        self.totals.0.lock().counts.bytes += bytes as u64;
    }

    fn acknowledged(&self, packet_id: u16) {
        let Some((message, sent_at)) = self.take(packet_id) else {
            return;
        };
        self.log(message, sent_at.elapsed().as_secs_f64() * 1000.0);
        let us = u64::try_from(sent_at.elapsed().as_micros()).unwrap_or(MAX_US);
        let mut sums = self.totals.0.lock();
        sums.counts.acknowledged += 1;
        sums.ack_us.saturating_record(us);
    }

    fn refused(&self, packet_id: u16, for_now: bool) {
        let _ = self.take(packet_id);
        let mut sums = self.totals.0.lock();
        match for_now {
            true => sums.counts.refused_for_now += 1,
            false => sums.counts.refused += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_counts_once_and_a_new_connection_forgets_what_was_on_its_way() {
        let totals = Arc::new(Totals::default());
        let deliveries = Deliveries::new(Arc::clone(&totals), None);
        let sent = |packet_id, is_late| {
            deliveries.sent(SentMessage {
                packet_id,
                is_late,
                number: None,
            });
        };
        deliveries.connected();
        sent(1, false);
        sent(2, true);
        deliveries.acknowledged(1);
        deliveries.acknowledged(1);
        deliveries.connected();
        deliveries.acknowledged(2);
        sent(1, false);
        deliveries.refused(1, true);
        let counts = totals.counts();
        assert_eq!((counts.connects, counts.acknowledged), (2, 1));
        assert_eq!(
            (counts.late, counts.refused_for_now, counts.refused),
            (1, 1, 0)
        );
        assert!(totals.ack_ms().is_some());
    }
}
