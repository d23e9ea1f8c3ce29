// SPDX-License-Identifier: Apache-2.0
//! Runs the trials of `jetwatch bench --streams`, each in a process of its own, and writes `series.json`.
//!
//! `search` decides which numbers are tried, `copies` makes the configuration of a trial, `trial` measures one in a process of its own, and
//! the verdict says what limits it.

mod copies;
mod search;
mod text;
mod trial;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use jetwatch_nsys::report::{Finding, trial_limit};
use jetwatch_platform::Occupancy;
use jetwatch_telemetry::{Latency, StopToken};

use crate::processes::{MakeCommand, Point};
use crate::results::{SeriesResult, check_stop};
use crate::system_info::machine_of;
use crate::{BenchOptions, StreamGoal};

pub(super) use self::copies::copy_sources;
use self::search::StreamSearch;
pub(super) use self::trial::TrialObserver;
use self::trial::TrialResult;

/// One trial of the search.
#[derive(Debug, Default, Serialize)]
pub(super) struct Trial {
    /// Number of streams.
    pub(super) streams: usize,
    /// Whether all of them kept up.
    pub(super) has_kept_up: bool,
    /// Why not.
    pub(super) shortfall: Option<String>,
    /// Frames per second of all streams together.
    pub(super) fps: f64,
    /// Frames dropped, of those received; frames late; crops dropped.
    pub(super) dropped: u64,
    pub(super) received: u64,
    pub(super) late: u64,
    pub(super) dropped_crops: u64,
    /// Mean over all frames, in ms.
    pub(super) latency_mean_ms: Option<f64>,
    /// Of the stream where it is longest: median, 95th percentile, maximum, in ms.
    pub(super) latency_median_ms: f64,
    pub(super) latency_p95_ms: f64,
    pub(super) latency_max_ms: f64,
    /// Who used the CPU; `None`: unknown.
    pub(super) occupancy: Option<Occupancy>,
    /// What limits it, by the rules of the verdict.
    #[serde(skip)]
    pub(super) limit: Option<Finding>,
    /// Folder of the run.
    pub(super) folder: std::path::PathBuf,
    /// What was measured; `None`: the run failed.
    #[serde(flatten)]
    pub(super) result: Option<TrialResult>,
}

/// Runs the trials of `args` with the configuration of `point`.
///
/// # Errors
/// It was stopped, a file cannot be written, or not even the first trial ran.
pub(crate) fn run_streams(
    args: &BenchOptions,
    point: &Point,
    stop: &StopToken,
    command: MakeCommand<'_>,
    on_run: &dyn Fn(&str),
) -> anyhow::Result<SeriesResult> {
    let goal = args.streams.context("no number of streams")?;
    let mut rate = args.fps.map(f64::from);
    let mut runner = Runner {
        args,
        point,
        stop,
        command,
        trials: Vec::new(),
        machine: Value::Null,
    };
    let mut search = match goal {
        StreamGoal::Search { max } => StreamSearch::new(max, args.rounds()),
        // Only this number is tried.
        StreamGoal::Exactly(_) => StreamSearch::new(1, 1),
    };
    for round in 1.. {
        let next = match goal {
            StreamGoal::Search { .. } => search.next_count(),
            StreamGoal::Exactly(count) => Some(count).filter(|_| round <= args.rounds()),
        };
        let Some(count) = next else { break };
        let trial = runner.run(count, rate)?;
        // The first trial of a single stream shows its own rate.
        if let (None, Some(result), StreamGoal::Search { .. }) = (rate, &trial.result, goal) {
            rate = Some(result.received_fps()).filter(|rate| *rate > 0.0);
        }
        on_run(&text::trial(trial));
        search.record(count, trial.has_kept_up);
    }
    let (trials, machine) = (runner.trials, runner.machine);
    let fit = matches!(goal, StreamGoal::Search { .. }).then(|| search.result());
    let above = fit.as_ref().map(|fit| fit.streams + 1);
    let wanted = above.unwrap_or(trials[0].streams);
    let failed = |trial: &&Trial| trial.streams == wanted && !trial.has_kept_up;
    let limited = trials.iter().rfind(failed);
    let limit = limited.and_then(|trial| trial.limit.as_ref());
    let verdict = text::verdict(&trials, fit.as_ref(), rate, limit);
    let document = json!({
        "kind": "streams",
        "verdict": verdict,
        "machine": machine,
        "streams": {
            "fit": fit,
            "rate": rate,
            "seconds": args.trial_time().as_secs_f64(),
            "limit": limit,
            "trials": trials,
        },
    });
    SeriesResult::write(&args.output, document, |_| None)
}

struct Runner<'a> {
    args: &'a BenchOptions,
    point: &'a Point,
    stop: &'a StopToken,
    command: MakeCommand<'a>,
    trials: Vec<Trial>,
    machine: Value,
}

impl Runner<'_> {
    /// One trial of `count` streams, each of which should give `rate` frames per second.
    fn run(&mut self, count: usize, rate: Option<f64>) -> anyhow::Result<&Trial> {
        check_stop(self.stop, &self.args.output)?;
        let before = self.trials.iter().filter(|trial| trial.streams == count);
        let name = format!("streams_{count:02}/trial_{}", before.count() + 1);
        let folder = self.args.output.join(name);
        let point = Point {
            name: String::new(),
            config: self.point.config.clone(),
            settings: self.point.settings.clone(),
            varied: vec![("streams".to_owned(), count.to_string())],
            streams: Some(count),
        };
        let documents = point.run(self.args, &folder, self.stop, self.command);
        let result = documents.and_then(|documents| {
            let document = documents.first().context("the trial has written nothing")?;
            self.machine = machine_of(document);
            let counts = TrialResult::deserialize(&document["trial"]);
            let occupancy = Option::<Occupancy>::deserialize(&document["run"]["occupancy"]);
            let counts = counts.context("the trial has written no counts")?;
            let late = counts.sum(|source| source.late);
            let limit = trial_limit(&document["run"], document.get("meta"), late);
            Ok((counts, occupancy.unwrap_or_default(), limit))
        });
        // What a trial says that was stopped in its middle is about the stop.
        check_stop(self.stop, &self.args.output)?;
        let trial = match result {
            // One stream must run; more of them may be more than the machine can hold.
            Err(error) if count == 1 || self.trials.is_empty() => {
                return Err(error.context(format!("a trial of {count} streams cannot run")));
            }
            Err(error) => Trial::failed(count, folder, format!("{error:#}")),
            Ok((result, occupancy, limit)) => Trial {
                occupancy,
                limit,
                ..Trial::new(count, folder, result, rate)
            },
        };
        self.trials.push(trial);
        Ok(&self.trials[self.trials.len() - 1])
    }
}

impl Trial {
    fn failed(streams: usize, folder: std::path::PathBuf, error: String) -> Self {
        Self {
            streams,
            shortfall: Some(error),
            folder,
            ..Self::default()
        }
    }

    pub(super) fn new(
        streams: usize,
        folder: std::path::PathBuf,
        result: TrialResult,
        rate: Option<f64>,
    ) -> Self {
        let shortfall = result.shortfall(rate);
        let latencies = || result.sources.iter().filter_map(|source| source.latency);
        let frames: u64 = latencies().map(|latency| latency.frames).sum();
        let sum = latencies().map(|latency| latency.mean_ms * latency.frames as f64);
        let sum: f64 = sum.sum();
        let longest = |of: fn(Latency) -> f64| latencies().map(of).fold(0.0, f64::max);
        Self {
            streams,
            has_kept_up: shortfall.is_none(),
            shortfall,
            fps: result.fps(),
            dropped: result.sum(|source| source.dropped),
            received: result.sum(|source| source.received),
            late: result.sum(|source| source.late),
            dropped_crops: result.dropped_crops,
            latency_mean_ms: (frames > 0).then(|| sum / frames as f64),
            latency_median_ms: longest(|latency| latency.median_ms),
            latency_p95_ms: longest(|latency| latency.p95_ms),
            latency_max_ms: longest(|latency| latency.max_ms),
            folder,
            result: Some(result),
            ..Self::default()
        }
    }
}
