// SPDX-License-Identifier: Apache-2.0
//! The final report of a run, as `--stats FILE` writes it.

use jetwatch_platform::Occupancy;
use jetwatch_publish::SecondaryStats;
use jetwatch_record::RecordingReport;
use jetwatch_telemetry::{LatencyReport, OutputReport, Stage, StageSummary, thread_names};

/// Numbers of one run, after its warm-up frames. Field names carry their units.
#[derive(Debug, Clone, serde::Serialize)]
pub struct RunReport {
    /// Version of this format: 2.
    pub version: u32,
    /// From the first measured frame's arrival to the last frame's end, in seconds.
    pub duration_s: f64,
    /// Frames processed.
    pub frames: u64,
    /// Frames before the measured part.
    pub warmup_frames: u64,
    /// Frames replaced by newer ones.
    pub dropped: u64,
    /// The same, before the measured part.
    pub warmup_dropped: u64,
    /// Frames per second, end to end.
    pub fps: f64,
    /// Frames per second of inference only: frames per second of inference time, times the workers.
    pub inference_fps: f64,
    /// Backend, model, precision and device of the detector, as text.
    pub detector: String,
    /// Detector workers.
    pub workers: usize,
    /// Most frames of a batch.
    pub batch_size: usize,
    /// Longest wait for more frames of a batch, in ms.
    pub batch_timeout_ms: f64,
    /// CPU time of the whole process per frame, in ms.
    pub cpu_ms_per_frame: f64,
    /// CPU time of the worker threads in inference per frame, in ms (all of it while `threads_per_worker` is 1).
    pub inference_cpu_ms_per_frame: f64,
    /// Mean time from the arrival of a frame to the queueing of its messages, in ms.
    pub latency_mean_ms: f64,
    /// The longest such time, in ms.
    pub latency_max_ms: f64,
    /// Latency of the frames of live sources; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyReport>,
    /// Who used the CPU, from the start of the run on, with the warm-up; absent where the kernel does not say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occupancy: Option<Occupancy>,
    /// What throttled the machine at the end of the run, or had throttled it before.
    pub throttled: Vec<String>,
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
    /// Messages passed to the sinks.
    pub messages_accepted: u64,
    /// Messages that were acknowledged or written.
    pub messages_delivered: u64,
    /// Messages dropped.
    pub messages_dropped: u64,
    /// Of those: messages of QoS 0, which are sent while connected only.
    pub messages_best_effort_dropped: u64,
    /// Retained messages that a newer one replaced before they were sent.
    pub messages_replaced: u64,
    /// Messages that still waited when the run had ended.
    pub messages_queued: u64,
    /// Of those: in the spool, from which the next run sends them.
    pub messages_spooled: u64,
    /// Messages that will never arrive: dropped ones but for those of QoS 0, and those that waited and are not in the spool.
    pub messages_lost: u64,
    /// Per output, also of those that take no messages.
    pub outputs: Vec<OutputReport>,
    /// Of the recording, where one was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<RecordingReport>,
}

/// Numbers of one source, warm-up included.
#[derive(Debug, Clone, serde::Serialize)]
pub struct SourceReport {
    /// Its name.
    pub name: String,
    /// Whether it is a camera or another live source, which drops frames that are not taken in time; a file waits.
    pub live: bool,
    /// State at the end.
    pub state: &'static str,
    /// Frames received.
    pub frames: u64,
    /// Frames processed.
    pub detected: u64,
    /// Frames that skipped the network after each one that went through it, at the end.
    pub interval: u32,
    /// Frames that skipped the network, with predicted tracks.
    pub skipped: u64,
    /// Frames replaced by newer ones.
    pub dropped: u64,
    /// Frames that came after their time, of a file that is played at a pace.
    pub late: u64,
    /// Frames left out because they came faster than `max_fps`; not among `frames`.
    pub above_max_fps: u64,
    /// Encoded images that could not be decoded, since something before them was lost on the way; not among `frames`.
    pub behind_loss: u64,
    /// Times that it was reopened.
    pub reconnects: u64,
}

impl RunReport {
    /// Adds what the outputs did, and the recording with its own figures.
    pub(super) fn set_outputs(
        &mut self,
        outputs: Vec<OutputReport>,
        recording: Option<RecordingReport>,
    ) {
        self.outputs = outputs;
        let busy = self.stages.iter();
        let busy = busy.filter(|stage| matches!(stage.stage, Stage::Render | Stage::Encode));
        let busy_ms = busy.map(|stage| stage.total_ms).sum();
        self.outputs
            .extend(recording.as_ref().map(|recorded| OutputReport {
                name: thread_names::RECORD.to_owned(),
                items: "frames".to_owned(),
                accepted: recorded.frames + recorded.dropped,
                delivered: recorded.frames,
                lost: recorded.dropped,
                busy_ms,
                ..OutputReport::default()
            }));
        self.recording = recording;
    }
}

impl SourceReport {
    /// One entry per name, in the order of first appearance: a restarted source continues under its name.
    pub(super) fn by_name(all: impl Iterator<Item = Self>) -> Vec<Self> {
        let mut named: Vec<Self> = Vec::new();
        for source in all {
            match named.iter_mut().find(|entry| entry.name == source.name) {
                Some(entry) => {
                    entry.state = source.state;
                    entry.interval = source.interval;
                    entry.frames += source.frames;
                    entry.detected += source.detected;
                    entry.skipped += source.skipped;
                    entry.dropped += source.dropped;
                    entry.late += source.late;
                    entry.above_max_fps += source.above_max_fps;
                    entry.behind_loss += source.behind_loss;
                    entry.reconnects += source.reconnects;
                }
                None => named.push(source),
            }
        }
        named
    }
}
