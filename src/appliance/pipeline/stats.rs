// SPDX-License-Identifier: Apache-2.0
//! Statistics of a run: for `stats` messages, the progress line and the final report.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use jetwatch_platform::throttling::Cause;
use jetwatch_platform::{CpuCounters, Occupancy, SensorSnapshot};
use jetwatch_publish::{
    MachineStats, MediaStats, SecondaryStats, SinkCounts, SourceStats, Stats, Utc,
};
use jetwatch_source::SourceCounters;
use jetwatch_telemetry::{
    LatencyPart, LatencyReport, LatencyTimes, Recorder, Stage, StageSummary, process_usage,
};
use jetwatch_types::{FrameMeta, SourceId, SourceState};

use super::batcher::{BatchSettings, Batcher};
use super::report::{RunReport, SourceReport};
use super::secondary::NamedCounters;
use super::source_counts::SourceCounts;

mod figures;

/// Collects statistics; written by the tracking stage, read by all others.
pub(super) struct StatsCollector {
    started: Instant,
    warmup_frames: u64,
    workers: usize,
    batch: BatchSettings,
    batcher: Arc<Batcher>,
    recorder: Recorder,
    secondary: Vec<NamedCounters>,
    /// The newest figures of kept files.
    media: Mutex<Option<MediaStats>>,
    state: Mutex<State>,
}

struct State {
    sources: Vec<Source>,
    /// Frames processed, and those of them that skipped the network.
    frames: u64,
    skipped: u64,
    events: u64,
    first_frame_at: Option<Instant>,
    first_event_at: Option<Instant>,
    last_frame_at: Option<Instant>,
    /// Longest time of a frame from its arrival to the queues of the sinks, and the sum of all.
    latency_max: Duration,
    latency_sum: Duration,
    /// Of the frames of live sources: the whole, and its parts.
    live_latency: LiveLatency,
    /// Start of the measured part: the start of the run, or the end of the warm-up.
    base: Snapshot,
    /// Frames dropped before that.
    warmup_dropped: u64,
    /// Start of the interval of the next `stats` message.
    interval: Snapshot,
    /// The last sensor readings, and the earlier ones from which their loads are counted.
    machine: Option<(MachineStats, Arc<SensorSnapshot>)>,
    cpu: Option<CpuUse>,
}

/// Latencies of frames.
#[derive(Default)]
struct LiveLatency {
    whole: LatencyTimes,
    wait: LatencyTimes,
    detect: LatencyTimes,
    track: LatencyTimes,
}

/// Readings of who uses the CPU: the first, that of the last `stats` message, and the newest.
struct CpuUse {
    first: CpuCounters,
    base: CpuCounters,
    last: CpuCounters,
}

struct Source {
    name: String,
    counters: Arc<SourceCounters>,
    is_live: bool,
    state: SourceState,
    tracks: usize,
    /// Frames processed, and those of them that skipped the network.
    done: u64,
    skipped: u64,
    /// Arrival of the newest of them.
    last_frame_at: Option<SystemTime>,
    done_at_interval: u64,
    /// Since the last call of [`StatsCollector::source_counts`].
    latency: LatencyTimes,
    /// It was removed; its numbers stay for the report.
    is_removed: bool,
}

impl Source {
    fn new(name: String, counters: Arc<SourceCounters>, is_live: bool) -> Self {
        Self {
            name,
            counters,
            is_live,
            state: SourceState::Connecting,
            tracks: 0,
            done: 0,
            skipped: 0,
            last_frame_at: None,
            done_at_interval: 0,
            latency: LatencyTimes::default(),
            is_removed: false,
        }
    }
}

#[derive(Clone, Copy)]
struct Snapshot {
    at: Instant,
    cpu: Duration,
    frames: u64,
    inferred: u64,
    infer_ms: f64,
}

impl StatsCollector {
    pub(super) fn new(
        started: Instant,
        warmup_frames: u64,
        workers: usize,
        batch: BatchSettings,
        batcher: Arc<Batcher>,
        recorder: Recorder,
        secondary: Vec<NamedCounters>,
    ) -> Self {
        let start = Snapshot {
            at: Instant::now(),
            cpu: process_usage().cpu,
            frames: 0,
            inferred: 0,
            infer_ms: 0.0,
        };
        let state = State {
            sources: Vec::new(),
            frames: 0,
            skipped: 0,
            events: 0,
            first_frame_at: None,
            first_event_at: None,
            last_frame_at: None,
            latency_max: Duration::ZERO,
            latency_sum: Duration::ZERO,
            live_latency: LiveLatency::default(),
            base: start,
            warmup_dropped: 0,
            interval: start,
            machine: None,
            cpu: None,
        };
        Self {
            started,
            warmup_frames,
            workers,
            batch,
            batcher,
            recorder,
            secondary,
            media: Mutex::new(None),
            state: Mutex::new(state),
        }
    }

    /// Adds a source; sources are added in the order of their ids.
    pub(super) fn add_source(&self, name: &str, counters: Arc<SourceCounters>) {
        let id = SourceId(self.state.lock().sources.len() as u16);
        let source = Source::new(name.to_owned(), counters, self.batcher.is_live(id));
        self.state.lock().sources.push(source);
    }

    /// Removes a source from the messages.
    pub(super) fn remove_source(&self, id: SourceId) {
        let mut state = self.state.lock();
        let source = &mut state.sources[id.index()];
        source.is_removed = true;
        source.state = SourceState::Ended;
        source.tracks = 0;
    }

    /// A frame was processed; `skipped`: it skipped the network. `in_worker`: when a worker took it, and when its detections were
    /// sent.
    pub(super) fn frame_done(
        &self,
        meta: &FrameMeta,
        tracks: usize,
        skipped: bool,
        in_worker: Option<[Instant; 2]>,
    ) {
        let now = Instant::now();
        let latency = now.saturating_duration_since(meta.received_at);
        let mut state = self.state.lock();
        state.frames += 1;
        state.skipped += u64::from(skipped);
        state.first_frame_at.get_or_insert(meta.received_at);
        state.last_frame_at = Some(now);
        state.latency_max = state.latency_max.max(latency);
        state.latency_sum += latency;
        let source = &mut state.sources[meta.source.index()];
        source.done += 1;
        source.skipped += u64::from(skipped);
        source.last_frame_at = Some(meta.captured_at);
        source.latency.add(latency);
        source.tracks = tracks;
        if source.is_live {
            let live = &mut state.live_latency;
            live.whole.add(latency);
            if let Some([taken, sent]) = in_worker {
                live.wait
                    .add(taken.saturating_duration_since(meta.received_at));
                live.detect.add(sent.saturating_duration_since(taken));
                live.track.add(now.saturating_duration_since(sent));
            }
        }
        if state.frames == 1 && self.warmup_frames == 0 {
            // Loading and connecting are not part of the measured time.
            state.base = Snapshot {
                at: meta.received_at,
                ..state.base
            };
        }
        if state.frames == self.warmup_frames {
            self.recorder.reset();
            state.base = Snapshot {
                at: now,
                cpu: process_usage().cpu,
                frames: state.frames,
                inferred: 0,
                infer_ms: 0.0,
            };
            state.interval = state.base;
            state.warmup_dropped = self.dropped(&state);
            state.latency_max = Duration::ZERO;
            state.latency_sum = Duration::ZERO;
            state.live_latency = LiveLatency::default();
        }
    }

    /// All tracks of a source have ended.
    pub(super) fn tracks_ended(&self, id: SourceId) {
        self.state.lock().sources[id.index()].tracks = 0;
    }

    /// Events were published.
    pub(super) fn add_events(&self, count: usize) {
        let mut state = self.state.lock();
        state.events += count as u64;
        state.first_event_at.get_or_insert_with(Instant::now);
    }

    /// Sets who uses the CPU.
    pub(super) fn set_cpu(&self, counters: CpuCounters) {
        let mut state = self.state.lock();
        match &mut state.cpu {
            Some(cpu) => cpu.last = counters,
            None => {
                state.cpu = Some(CpuUse {
                    first: counters.clone(),
                    base: counters.clone(),
                    last: counters,
                });
            }
        }
    }

    /// Sets the sensor readings of the machine.
    pub(super) fn set_machine(
        &self,
        readings: Arc<SensorSnapshot>,
        throttled_by: Vec<Cause>,
        throttled_times: u64,
        read_in: Duration,
    ) {
        let mut state = self.state.lock();
        let base = match state.machine.take() {
            Some((_, base)) => base,
            None => Arc::clone(&readings),
        };
        let machine = MachineStats {
            cpu_loads: readings.cpu_loads_since(&base),
            readings,
            throttled_by,
            throttled_times,
            read_in,
        };
        state.machine = Some((machine, base));
    }

    /// The state of a source changed.
    pub(super) fn source_state(&self, id: SourceId, new: SourceState) {
        let mut state = self.state.lock();
        let source = &mut state.sources[id.index()];
        source.state = new;
        if new != SourceState::Online {
            source.tracks = 0;
        }
    }

    /// For each source: whether its first frame was processed, or none will be.
    pub(super) fn first_frames(&self) -> Vec<bool> {
        let sources = &self.state.lock().sources;
        let is_done = |source: &Source| source.done > 0 || source.state == SourceState::Ended;
        sources.iter().map(is_done).collect()
    }

    /// The numbers since the last call, for a `stats` message; begins a new interval.
    pub(super) fn stats(&self, messages: SinkCounts) -> Stats {
        let mut state = self.state.lock();
        let stats = self.collect(&state, messages);
        state.interval = self.snapshot(&state);
        if let Some((machine, base)) = &mut state.machine {
            *base = Arc::clone(&machine.readings);
        }
        if let Some(cpu) = &mut state.cpu {
            cpu.base.clone_from(&cpu.last);
        }
        for source in &mut state.sources {
            source.done_at_interval = source.done;
        }
        stats
    }

    /// The numbers since the last `stats` message, without beginning a new interval.
    pub(super) fn progress(&self) -> Stats {
        self.collect(&self.state.lock(), SinkCounts::default())
    }

    /// Counts of the sources; begins a new interval of their latencies.
    pub(super) fn source_counts(&self) -> Vec<SourceCounts> {
        let mut state = self.state.lock();
        let sources = state.sources.iter_mut().enumerate();
        sources
            .map(|(index, source)| SourceCounts {
                name: source.name.clone(),
                state: source.state,
                received: source.counters.frames(),
                processed: source.done,
                skipped: self.batcher.interval(SourceId(index as u16)).1,
                dropped: self.batcher.dropped(SourceId(index as u16)),
                late: source.counters.late(),
                latency: std::mem::take(&mut source.latency).summary(),
            })
            .collect()
    }

    fn collect(&self, state: &State, messages: SinkCounts) -> Stats {
        let now = self.snapshot(state);
        let seconds = now.at.duration_since(state.interval.at).as_secs_f64();
        let frames = now.frames - state.interval.frames;
        let usage = process_usage();
        Stats {
            sent_at: Utc(SystemTime::now()),
            uptime: self.started.elapsed(),
            sources: state
                .sources
                .iter()
                .enumerate()
                .filter(|(_, source)| !source.is_removed)
                .map(|(index, source)| SourceStats {
                    name: source.name.clone(),
                    state: source.state,
                    frames: source.counters.frames(),
                    dropped: self.batcher.dropped(SourceId(index as u16)),
                    reconnects: source.counters.reconnects(),
                    fps: per_second(source.done - source.done_at_interval, seconds),
                    tracks: source.tracks,
                    interval: self.batcher.interval(SourceId(index as u16)).0,
                    skipped: self.batcher.interval(SourceId(index as u16)).1,
                })
                .collect(),
            detected_frames: state.frames - state.skipped,
            fps: per_second(frames, seconds),
            inference_fps: self.inference_fps(&state.interval, &now),
            cpu_ms_per_frame: per_frame(now.cpu.saturating_sub(state.interval.cpu), frames),
            rss_bytes: usage.rss_bytes,
            peak_rss_bytes: usage.peak_rss_bytes,
            messages,
            spool: None,
            media: *self.media.lock(),
            machine: state.machine.as_ref().map(|(machine, _)| machine.clone()),
            occupancy: (state.cpu.as_ref())
                .and_then(|cpu| Occupancy::between(&cpu.base, &cpu.last)),
            secondary: self.secondary(),
            stages: self.stages(),
        }
    }

    /// The whole run after the warm-up.
    pub(super) fn report(&self, messages: SinkCounts) -> RunReport {
        let state = self.state.lock();
        let now = self.snapshot(&state);
        let end = state.last_frame_at.unwrap_or(now.at).max(state.base.at);
        let seconds = end.duration_since(state.base.at).as_secs_f64();
        let frames = now.frames - state.base.frames;
        let usage = process_usage();
        let summary = self.recorder.summary();
        let since_start = |at: Instant| at.duration_since(self.started).as_secs_f64() * 1e3;
        RunReport {
            version: 2,
            duration_s: seconds,
            frames,
            warmup_frames: state.base.frames,
            fps: per_second(frames, seconds),
            inference_fps: self.inference_fps(&state.base, &now),
            detector: String::new(),
            workers: self.workers,
            batch_size: self.batch.size,
            batch_timeout_ms: self.batch.timeout.as_secs_f64() * 1e3,
            cpu_ms_per_frame: per_frame(now.cpu.saturating_sub(state.base.cpu), frames),
            inference_cpu_ms_per_frame: summary.stage(Stage::Infer).cpu_ms.unwrap_or(0.0)
                / summary.stage(Stage::Infer).items.max(1) as f64,
            latency_mean_ms: state.latency_sum.as_secs_f64() * 1e3 / frames.max(1) as f64,
            latency_max_ms: state.latency_max.as_secs_f64() * 1e3,
            latency: self.live_latency(&state),
            occupancy: (state.cpu.as_ref())
                .and_then(|cpu| Occupancy::between(&cpu.first, &cpu.last)),
            throttled: throttled(&state),
            peak_rss_mib: usage.peak_rss_bytes as f64 / f64::from(1 << 20),
            first_frame_ms: state.first_frame_at.map(since_start),
            first_event_ms: state.first_event_at.map(since_start),
            events: state.events,
            dropped: self.dropped(&state) - state.warmup_dropped,
            warmup_dropped: state.warmup_dropped,
            stages: summary.stages,
            secondary: self.secondary(),
            sources: SourceReport::by_name(state.sources.iter().enumerate().map(
                |(index, source)| SourceReport {
                    name: source.name.clone(),
                    live: self.batcher.is_live(SourceId(index as u16)),
                    state: source.state.name(),
                    frames: source.counters.frames(),
                    detected: source.done,
                    interval: self.batcher.interval(SourceId(index as u16)).0,
                    skipped: self.batcher.interval(SourceId(index as u16)).1,
                    dropped: self.batcher.dropped(SourceId(index as u16)),
                    late: source.counters.late(),
                    above_max_fps: source.counters.above_max_fps(),
                    behind_loss: source.counters.behind_loss(),
                    reconnects: source.counters.reconnects(),
                },
            )),
            messages_accepted: messages.accepted,
            messages_delivered: messages.delivered,
            messages_dropped: messages.dropped,
            messages_best_effort_dropped: messages.best_effort_dropped,
            messages_replaced: messages.replaced,
            messages_queued: messages.queued,
            messages_spooled: messages.spooled,
            messages_lost: messages.lost(),
            outputs: Vec::new(),
            recording: None,
        }
    }

    /// Latency of live sources; `None` without a frame of one.
    fn live_latency(&self, state: &State) -> Option<LatencyReport> {
        let live = &state.live_latency;
        let part = |name: &str, latency| LatencyPart {
            part: name.to_owned(),
            latency,
        };
        let in_elements = [
            ("decode", Stage::VideoDecodeStay),
            ("scale", Stage::ScaleStay),
        ];
        let elements = in_elements
            .into_iter()
            .filter_map(|(name, stage)| Some(part(name, self.recorder.latency(stage)?)));
        let in_pipeline = [
            ("wait", &live.wait),
            ("detect", &live.detect),
            ("track", &live.track),
        ];
        let in_pipeline = in_pipeline.into_iter();
        let in_pipeline =
            in_pipeline.filter_map(|(name, times)| Some(part(name, times.summary()?)));
        Some(LatencyReport {
            whole: live.whole.summary()?,
            parts: elements.chain(in_pipeline).collect(),
        })
    }

    /// Frames dropped, over all sources, since the start.
    fn dropped(&self, state: &State) -> u64 {
        let ids = (0..state.sources.len()).map(|index| SourceId(index as u16));
        ids.map(|id| self.batcher.dropped(id)).sum()
    }

    fn secondary(&self) -> Vec<SecondaryStats> {
        let networks = self.secondary.iter();
        networks
            .map(|(name, counters)| counters.stats(name))
            .collect()
    }

    /// The stages that have run.
    fn stages(&self) -> Vec<StageSummary> {
        let mut stages = self.recorder.summary().stages;
        stages.retain(|stage| stage.count > 0);
        stages
    }

    fn snapshot(&self, state: &State) -> Snapshot {
        let summary = self.recorder.summary();
        let infer = summary.stage(Stage::Infer);
        Snapshot {
            at: Instant::now(),
            cpu: process_usage().cpu,
            frames: state.frames,
            inferred: infer.items,
            infer_ms: infer.total_ms,
        }
    }

    /// Frames per second of inference only: frames per second of inference time, times the workers.
    fn inference_fps(&self, from: &Snapshot, to: &Snapshot) -> f64 {
        per_second(
            to.inferred.saturating_sub(from.inferred),
            (to.infer_ms - from.infer_ms).max(0.0) / 1e3,
        ) * self.workers as f64
    }
}

/// Active causes of throttling, or how often there was one.
fn throttled(state: &State) -> Vec<String> {
    let Some((machine, _)) = &state.machine else {
        return Vec::new();
    };
    let active: Vec<String> = machine
        .throttled_by
        .iter()
        .map(ToString::to_string)
        .collect();
    match (active.is_empty(), machine.throttled_times) {
        (true, times) if times > 0 => vec![format!("{times} times, not at the end of the run")],
        _ => active,
    }
}

/// Items per second; zero when there was no time.
fn per_second(items: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        items as f64 / seconds
    } else {
        0.0
    }
}

fn per_frame(cpu: Duration, frames: u64) -> f64 {
    if frames > 0 {
        cpu.as_secs_f64() * 1e3 / frames as f64
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use jetwatch_types::{Frame, Size};

    #[test]
    fn warmup_drops_are_counted_separately() {
        let batcher = Arc::new(Batcher::new(&[true], 1, None));
        let stats = StatsCollector::new(
            Instant::now(),
            2,
            1,
            BatchSettings::default(),
            Arc::clone(&batcher),
            Recorder::default(),
            Vec::new(),
        );
        stats.add_source("camera", Arc::default());
        let mut seq = 0;
        let mut push = |times: usize| {
            for _ in 0..times {
                batcher.push(Frame::black(0, seq, Size::new(1, 1)));
                seq += 1;
            }
        };
        let done = |times: usize| {
            let mut batch = Vec::new();
            for _ in 0..times {
                batcher.next_batch(1, Duration::ZERO, &mut batch);
                stats.frame_done(&batch[0].frame.meta, 0, false, None);
            }
        };
        push(4);
        done(1);
        assert_eq!(stats.report(SinkCounts::default()).dropped, 3, "so far");
        push(2);
        done(1);
        push(3);
        done(1);
        let report = stats.report(SinkCounts::default());
        assert_eq!((report.warmup_frames, report.frames), (2, 1));
        assert_eq!((report.warmup_dropped, report.dropped), (4, 2));
        assert_eq!(report.sources[0].dropped, 6, "of the whole run");
    }
}
