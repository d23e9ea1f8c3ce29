// SPDX-License-Identifier: Apache-2.0
//! The sinks of a run, and what they publish as it comes, whatever the frames: control messages and statistics.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use jetwatch_archive::Item;
use jetwatch_platform::throttling::ThrottleEvent;
use jetwatch_publish::{Publication, ReloadStatus, Reply, Sink, SinkCounts};
use jetwatch_record::SnapshotPicture;
use jetwatch_telemetry::update_status::UpdateStatus;
use jetwatch_telemetry::{OutputReport, thread_names};

use crate::outputs::close_all;
use crate::stats::StatsCollector;

/// Longest time for sinks to deliver what they hold when the pipeline ends.
pub const SINK_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Control messages that may wait.
const CONTROL_DEPTH: usize = 64;

/// Interval at which the end of a thread is checked whose last messages are published.
const END_INTERVAL: Duration = Duration::from_millis(5);

/// What sinks count.
const MESSAGES: &str = "messages";

/// What is published as it comes, whatever the frames.
pub(crate) enum ControlMessage {
    /// The machine has begun or ended to throttle.
    Throttling(ThrottleEvent),
    /// The configuration was read again.
    Reload(Box<ReloadStatus>),
    /// The updater of the package has written its state.
    Update(Box<UpdateStatus>),
    /// A command was executed or refused.
    CommandReply(Reply),
    /// A file of the archive has changed its state.
    Media(Box<Item>),
    /// A picture of a track.
    Snapshot(SnapshotPicture),
}

/// The channel of the control messages.
pub(crate) fn control_channel() -> (Sender<ControlMessage>, Receiver<ControlMessage>) {
    bounded(CONTROL_DEPTH)
}

/// Publishes to all sinks.
pub(crate) struct Publisher {
    pub(crate) sinks: Vec<Box<dyn Sink>>,
    /// Whether all sinks get the tracks of each frame.
    pub(crate) every_frame: bool,
    pub(crate) stats: Arc<StatsCollector>,
    /// The most messages that waited for each sink, as far as was looked.
    pub(crate) max_queued: Vec<u64>,
}

impl Publisher {
    pub(super) fn publish(&mut self, publication: &Publication<'_>) {
        for sink in &mut self.sinks {
            sink.publish(publication);
        }
    }

    /// Publishes a publication of type `Frame`, where that is configured, and to the sinks that need it.
    pub(super) fn publish_frame(&mut self, publication: &Publication<'_>) {
        for sink in &mut self.sinks {
            if self.every_frame || sink.needs_frames() {
                sink.publish(publication);
            }
        }
    }

    pub(super) fn publish_control(&mut self, message: ControlMessage) {
        let at = SystemTime::now();
        match &message {
            ControlMessage::Throttling(change) => {
                self.publish(&Publication::Throttling { change, at });
            }
            ControlMessage::Reload(status) => self.publish(&Publication::Reload(status)),
            ControlMessage::Update(status) => self.publish(&Publication::Update(status)),
            ControlMessage::CommandReply(reply) => self.publish(&Publication::Reply { reply, at }),
            ControlMessage::Media(item) => self.publish(&Publication::Media { item, at }),
            ControlMessage::Snapshot(picture) => {
                // For the track, and as the newest of its label.
                for track in [Some(picture.track), None] {
                    self.publish(&Publication::Snapshot {
                        source: &picture.source,
                        label: &picture.label,
                        track,
                        jpeg: &picture.jpeg,
                    });
                }
            }
        }
    }

    /// Publishes control messages until `has_ended`, for `timeout` at most; returns whether it has.
    pub(super) fn publish_until(
        &mut self,
        control: &Receiver<ControlMessage>,
        timeout: Duration,
        has_ended: impl Fn() -> bool,
    ) -> bool {
        let until = Instant::now() + timeout;
        loop {
            let is_last = has_ended();
            match control.recv_timeout(END_INTERVAL) {
                Ok(message) => {
                    self.publish_control(message);
                    continue;
                }
                // No other sender is left; the thread may still write.
                Err(RecvTimeoutError::Disconnected) if !is_last => {
                    std::thread::sleep(END_INTERVAL);
                }
                Err(_) => {}
            }
            if is_last || Instant::now() >= until {
                return is_last;
            }
        }
    }

    pub(super) fn publish_stats(&mut self) {
        let messages = self.counts();
        let mut stats = self.stats.stats(messages.into_iter().sum());
        stats.spool = self.sinks.iter_mut().find_map(|sink| sink.spool_stats());
        self.publish(&Publication::Stats(&stats));
    }

    /// The largest message that all sinks take, in bytes.
    pub(super) fn max_payload_bytes(&self) -> usize {
        let limits = self.sinks.iter().map(|sink| sink.max_payload_bytes());
        limits.min().unwrap_or(usize::MAX)
    }

    /// The counts of each sink.
    fn counts(&mut self) -> Vec<SinkCounts> {
        let counts: Vec<SinkCounts> = self.sinks.iter().map(|sink| sink.counts()).collect();
        self.max_queued.resize(counts.len(), 0);
        for (max, counts) in self.max_queued.iter_mut().zip(&counts) {
            *max = counts.queued.max(*max);
        }
        counts
    }

    /// Closes all sinks; returns the sum of their counts, and what each of them did.
    pub(super) fn close(mut self) -> (SinkCounts, Vec<OutputReport>) {
        let before = self.counts();
        let spool = self.sinks.iter_mut().find_map(|sink| sink.spool_stats());
        let names: Vec<String> = self.sinks.iter().map(|sink| sink.name()).collect();
        let closed = close_all(self.sinks, SINK_CLOSE_TIMEOUT);
        let report =
            |(((name, counts), before), max): (((_, &SinkCounts), &SinkCounts), _)| OutputReport {
                name,
                items: MESSAGES.to_owned(),
                accepted: counts.accepted,
                delivered: counts.delivered,
                lost: counts.lost(),
                queued: before.queued,
                max_queued: max,
                busy_ms: counts.busy.as_secs_f64() * 1e3,
            };
        let each = names.into_iter().zip(&closed).zip(&before);
        let mut outputs: Vec<OutputReport> = each.zip(self.max_queued).map(report).collect();
        outputs.retain(|output| !output.name.is_empty());
        outputs.extend(spool.map(|spool| OutputReport {
            name: thread_names::SPOOL.to_owned(),
            items: MESSAGES.to_owned(),
            lost: spool.dropped.iter().sum(),
            busy_ms: spool.busy.as_secs_f64() * 1e3,
            ..OutputReport::default()
        }));
        (closed.into_iter().sum(), outputs)
    }
}
