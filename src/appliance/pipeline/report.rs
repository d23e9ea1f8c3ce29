//! The final report of a run, as `--stats FILE` writes it.

use jetwatch_publish::SecondaryStats;
use jetwatch_record::RecordingReport;
use jetwatch_telemetry::StageSummary;

/// Numbers of one run, after its warm-up frames. Field names carry their units.
#[derive(Debug, Clone, serde::Serialize)]
pub struct RunReport {
    /// Version of this format: 2.
    pub version: u32,
    /// From the first measured frame's arrival to the last frame's end, in seconds.
    pub duration_s: f64,
    /// Frames through the whole chain.
    pub frames: u64,
    /// Frames before the measured part.
    pub warmup_frames: u64,
    /// Frames replaced by newer ones.
    pub dropped: u64,
    /// The same, before the measured part.
    pub warmup_dropped: u64,
    /// Frames per second, end to end.
    pub fps: f64,
    /// Frames per second of the networks alone: frames per second inside them, times the workers.
    pub inference_fps: f64,
    /// Detector workers.
    pub workers: usize,
    /// CPU time of the whole process per frame, in ms.
    pub cpu_ms_per_frame: f64,
    /// CPU time of the workers' threads inside the network per frame, in ms (all of it while `threads_per_worker` is 1).
    pub inference_cpu_ms_per_frame: f64,
    /// From a frame's arrival to its messages' queueing: mean, in ms.
    pub latency_mean_ms: f64,
    /// The longest such time, in ms.
    pub latency_max_ms: f64,
    /// Peak resident memory, in MiB.
    pub peak_rss_mib: f64,
    /// From the start of the process to the first frame's arrival, in ms.
    pub first_frame_ms: Option<f64>,
    /// From the start of the process to the first event, in ms.
    pub first_event_ms: Option<f64>,
    /// Track events.
    pub events: u64,
    /// Times per stage.
    pub stages: Vec<StageSummary>,
    /// Per secondary network.
    pub secondary: Vec<SecondaryStats>,
    /// Per source.
    pub sources: Vec<SourceReport>,
    /// Messages handed to the sinks.
    pub messages_accepted: u64,
    /// Messages known to have arrived.
    pub messages_delivered: u64,
    /// Messages given up.
    pub messages_dropped: u64,
    /// Retained values that a newer one overtook before they were sent.
    pub messages_replaced: u64,
    /// Messages still waiting when the run ended.
    pub messages_undelivered: u64,
    /// Of the recording, where one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<RecordingReport>,
}

/// Numbers of one source, warm-up included.
#[derive(Debug, Clone, serde::Serialize)]
pub struct SourceReport {
    /// Its name.
    pub name: String,
    /// State at the end.
    pub state: &'static str,
    /// Frames received.
    pub frames: u64,
    /// Frames through the whole chain.
    pub detected: u64,
    /// Frames that skipped the network after each one that went through it, at the end.
    pub interval: u32,
    /// Frames of them that skipped the network, their tracks predicted.
    pub skipped: u64,
    /// Frames replaced by newer ones.
    pub dropped: u64,
    /// Times that it was opened anew.
    pub reconnects: u64,
}

impl SourceReport {
    /// One entry a name, in the order of their first coming: a source that was started anew goes on under its name.
    pub(super) fn by_name(all: impl Iterator<Item = Self>) -> Vec<Self> {
        let mut named: Vec<Self> = Vec::new();
        for source in all {
            match named.iter_mut().find(|known| known.name == source.name) {
                Some(known) => {
                    known.state = source.state;
                    known.interval = source.interval;
                    known.frames += source.frames;
                    known.detected += source.detected;
                    known.skipped += source.skipped;
                    known.dropped += source.dropped;
                    known.reconnects += source.reconnects;
                }
                None => named.push(source),
            }
        }
        named
    }
}
