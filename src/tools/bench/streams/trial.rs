// SPDX-License-Identifier: Apache-2.0
//! One trial: a number of streams for a time, counted from outside of the pipeline once all of them run.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use jetwatch_pipeline::{Pipeline, SourceCounts};
use jetwatch_publish::Stats;
use jetwatch_telemetry::{Latency, StopToken};
use jetwatch_types::SourceState;

/// Longest time until all streams have a frame.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Time that passes between that and the count: caches and networks are cold at first.
const SETTLE_TIME: Duration = Duration::from_secs(2);

/// Interval at which the start is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A stream that gives less than this share of its frames has not kept up.
const MIN_RATE: f64 = 0.95;

/// Result of a trial.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct TrialResult {
    /// Measured time, in seconds.
    pub(crate) seconds: f64,
    /// Each stream.
    pub(crate) sources: Vec<StreamResult>,
    /// Crops that secondary networks could not keep up with.
    pub(crate) dropped_crops: u64,
}

/// One stream over the measured time.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct StreamResult {
    /// Its name.
    pub(crate) name: String,
    /// State at the end.
    pub(crate) state: String,
    /// Frames per second processed, including those that skipped the network.
    pub(crate) fps: f64,
    /// Frames received, including dropped ones.
    pub(crate) received: u64,
    /// Frames processed.
    pub(crate) processed: u64,
    /// Frames of these that skipped the network.
    pub(crate) skipped: u64,
    /// Frames replaced by newer ones.
    pub(crate) dropped: u64,
    /// Frames that the source could not give in time.
    pub(crate) late: u64,
    /// Time from the arrival of a frame to the queueing of its messages; `None` without frames.
    pub(crate) latency: Option<Latency>,
}

impl TrialResult {
    /// Frames per second received by a stream, mean over all of them.
    pub(crate) fn received_fps(&self) -> f64 {
        let received: u64 = self.sources.iter().map(|source| source.received).sum();
        received as f64 / self.seconds / self.sources.len().max(1) as f64
    }

    /// Frames per second processed, over all streams.
    pub(crate) fn fps(&self) -> f64 {
        self.sources.iter().map(|source| source.fps).sum()
    }

    pub(crate) fn sum(&self, number: impl Fn(&StreamResult) -> u64) -> u64 {
        self.sources.iter().map(number).sum()
    }

    /// Why a stream has not kept up; `None` where all did. `rate`: frames per second that each one should give, if known.
    pub(crate) fn shortfall(&self, rate: Option<f64>) -> Option<String> {
        let ended = |source: &&StreamResult| source.state != SourceState::Online.name();
        if let Some(source) = self.sources.iter().find(ended) {
            return Some(format!("{} is {}", source.name, source.state));
        }
        let (dropped, late) = (self.sum(|s| s.dropped), self.sum(|s| s.late));
        if dropped > 0 {
            return Some(format!("{dropped} {} dropped", noun(dropped, "frame")));
        }
        if late > 0 {
            return Some(format!("{late} {} late", noun(late, "frame")));
        }
        if self.dropped_crops > 0 {
            let crops = noun(self.dropped_crops, "crop");
            return Some(format!("{} {crops} dropped", self.dropped_crops));
        }
        let least = rate? * MIN_RATE;
        // One frame may be on its way at each end.
        let slow = |source: &&StreamResult| ((source.processed + 2) as f64) < least * self.seconds;
        let source = self.sources.iter().find(slow)?;
        let (name, fps) = (&source.name, source.fps);
        Some(format!("{name} gave {fps:.1} of {:.1} frames/s", rate?))
    }
}

/// Counts the streams of a running pipeline, then stops it.
pub(crate) struct TrialObserver {
    thread: JoinHandle<anyhow::Result<TrialResult>>,
}

impl TrialObserver {
    /// Starts the thread that counts for `duration`.
    pub(crate) fn start(pipeline: &Pipeline, duration: Duration) -> anyhow::Result<Self> {
        let counts = pipeline.source_counts();
        let stats = pipeline.progress();
        let stop = pipeline.stop_token();
        let thread = std::thread::Builder::new()
            .name("trial".to_owned())
            .spawn(move || {
                let result = observe(&counts, &stats, &stop, duration);
                stop.stop();
                result
            })
            .context("cannot start a thread")?;
        Ok(Self { thread })
    }

    /// The result, once the pipeline has ended.
    pub(crate) fn finish(self) -> anyhow::Result<TrialResult> {
        match self.thread.join() {
            Ok(result) => result,
            Err(_) => bail!("the thread that counts the streams has failed"),
        }
    }
}

fn observe(
    counts: &dyn Fn() -> Vec<SourceCounts>,
    stats: &dyn Fn() -> Stats,
    stop: &StopToken,
    duration: Duration,
) -> anyhow::Result<TrialResult> {
    let started = Instant::now();
    while counts().iter().any(|source| source.processed == 0) {
        if stop.wait(POLL_INTERVAL) {
            bail!("the run has ended before every stream had a frame");
        }
        if started.elapsed() > START_TIMEOUT {
            bail!(
                "not every stream has given a frame within {} s; see the messages above",
                START_TIMEOUT.as_secs()
            );
        }
    }
    let dropped_crops = || -> u64 {
        let networks = stats().secondary;
        networks.iter().map(|network| network.dropped_crops).sum()
    };
    let _ = stop.wait(SETTLE_TIME);
    let (crops, first, began) = (dropped_crops(), counts(), Instant::now());
    let _ = stop.wait(duration);
    let (time, last) = (began.elapsed(), counts());
    if stop.is_stopped() {
        bail!("the run has ended before its time");
    }
    let sources = first.iter().zip(&last);
    let sources = sources.map(|(first, last)| stream(first, last, time));
    Ok(TrialResult {
        seconds: time.as_secs_f64(),
        sources: sources.collect(),
        dropped_crops: dropped_crops() - crops,
    })
}

fn stream(first: &SourceCounts, last: &SourceCounts, time: Duration) -> StreamResult {
    let processed = last.processed - first.processed;
    StreamResult {
        name: last.name.clone(),
        state: last.state.name().to_owned(),
        fps: processed as f64 / time.as_secs_f64(),
        received: last.received - first.received,
        processed,
        skipped: last.skipped - first.skipped,
        dropped: last.dropped - first.dropped,
        late: last.late - first.late,
        latency: last.latency,
    }
}

/// `name` in the number that fits `count`.
pub(super) fn noun(count: u64, name: &str) -> String {
    match count {
        1 => name.to_owned(),
        _ => format!("{name}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(change: impl Fn(&mut TrialResult)) -> TrialResult {
        let stream = |name: &str| StreamResult {
            name: name.to_owned(),
            state: "online".to_owned(),
            fps: 25.0,
            received: 250,
            processed: 250,
            ..StreamResult::default()
        };
        let mut result = TrialResult {
            seconds: 10.0,
            sources: vec![stream("a-1"), stream("a-2")],
            ..TrialResult::default()
        };
        change(&mut result);
        result
    }

    #[test]
    fn streams_keep_up_only_without_drops_at_their_rate() {
        let good = result(|_| {});
        assert_eq!(good.shortfall(Some(25.0)), None);
        assert_eq!((good.fps(), good.received_fps()), (50.0, 25.0));
        type Change = fn(&mut TrialResult);
        #[rustfmt::skip]
        let cases: [(Change, &str); 5] = [
            (|r| r.sources[1].dropped = 1, "1 frame dropped"),
            (|r| r.sources[0].late = 2, "2 frames late"),
            (|r| r.dropped_crops = 3, "3 crops dropped"),
            (|r| r.sources[1].state = "offline".to_owned(), "a-2 is offline"),
            (|r| r.sources[1].processed = 200, "a-2 gave 25.0 of 25.0 frames/s"),
        ];
        for (change, wanted) in cases {
            assert_eq!(
                result(change).shortfall(Some(25.0)).as_deref(),
                Some(wanted)
            );
        }
        // Without a rate, only what was dropped or late counts.
        assert_eq!(
            result(|r| r.sources[1].processed = 200).shortfall(None),
            None
        );
        // A frame at each end.
        assert_eq!(
            result(|r| r.sources[0].processed = 236).shortfall(Some(25.0)),
            None
        );
    }
}
