//! FLOOR 2: tracks out: wire format, MQTT, JSON lines, embedded broker.

use std::time::{Duration, SystemTime};

use crate::types::{FrameMeta, Track, TrackEvent};

/// What a sink is told. Borrowed: a sink that keeps something copies what it needs into its own bounded queue.
#[derive(Debug)]
pub enum Record<'a> {
    /// Steps in the lives of tracks, after one frame of one source.
    Events {
        /// Name of the source.
        source: &'a str,
        /// The frame.
        frame: &'a FrameMeta,
        /// At least one event.
        events: &'a [TrackEvent],
    },
    /// All confirmed tracks (active and lost) of one frame; sent only when `publish.detections` asks for it.
    Frame {
        /// Name of the source.
        source: &'a str,
        /// The frame.
        frame: &'a FrameMeta,
        /// Its tracks.
        tracks: &'a [Track],
    },
    /// The number of active tracks of one label changed.
    Count {
        /// Name of the source.
        source: &'a str,
        /// The label.
        label: &'a str,
        /// Active tracks now.
        count: usize,
        /// Capture time of the frame that changed it.
        at: SystemTime,
    },
    /// A source's state changed.
    Source {
        /// Name of the source.
        source: &'a str,
        /// The state now.
        state: SourceState,
        /// Why, in words, when it is not online.
        reason: Option<&'a str>,
        /// When.
        at: SystemTime,
    },
    /// A summary at `publish.stats_interval`.
    Stats(&'a Stats),
}

/// State of one source as subscribers see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceState {
    /// Being opened; no frame yet.
    Connecting,
    /// Frames arrive.
    Online,
    /// Failed or stalled; it is tried again.
    Offline,
    /// Reached its end.
    Ended,
}

/// Numbers about the running daemon, since its start where nothing else is said.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// Time since start.
    pub uptime: Duration,
    /// Per source, in the configuration's order.
    pub sources: Vec<SourceStats>,
    /// Frames that went through the network.
    pub detected_frames: u64,
    /// Frames per second through the whole chain since the last summary.
    pub fps: f64,
    /// Frames per second of the network alone, workers added up, since the last summary.
    pub inference_fps: f64,
    /// CPU time of the process per frame since the last summary, in ms.
    pub cpu_ms_per_frame: f64,
    /// Resident memory, in bytes.
    pub rss_bytes: u64,
    /// Peak resident memory, in bytes.
    pub peak_rss_bytes: u64,
    /// What became of messages, added over the sinks.
    pub messages: SinkCounts,
}

/// Numbers about one source.
#[derive(Debug, Clone)]
pub struct SourceStats {
    /// Its name.
    pub name: String,
    /// State now.
    pub state: SourceState,
    /// Frames received.
    pub frames: u64,
    /// Frames dropped because a newer one was there.
    pub dropped: u64,
    /// Times that it was opened anew.
    pub reconnects: u64,
    /// Frames per second since the last summary.
    pub fps: f64,
    /// Confirmed tracks now.
    pub tracks: usize,
}

/// What became of the messages given to a sink.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SinkCounts {
    /// Handed over by the chain.
    pub accepted: u64,
    /// Known to have arrived (acknowledged, written).
    pub delivered: u64,
    /// Given up because the queue was full or writing failed.
    pub dropped: u64,
    /// Still waiting.
    pub queued: u64,
}

/// Where tracks go. Implementations: MQTT, and JSON lines.
pub trait Sink: Send {
    /// Takes one record. Never blocks: what cannot be kept is dropped and counted.
    fn accept(&mut self, record: &Record<'_>);

    /// What became of the messages so far.
    fn counts(&self) -> SinkCounts;

    /// Delivers what is queued, says goodbye (clean disconnect, retained `offline`), and ends within `deadline`. Returns the final counts.
    fn close(self: Box<Self>, deadline: Duration) -> SinkCounts;
}
