// SPDX-License-Identifier: Apache-2.0
//! Runs the trials of `jetwatch bench --streams`, each in a process of its own, and writes `series.json`.
//!
//! `search` decides which numbers are tried, `copies` makes the configuration of a trial, `trial` measures one in a process of its own, and
//! the verdict says what limits it.

mod copies;
mod search;
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
use self::search::{StreamFit, StreamSearch};
pub(super) use self::trial::TrialObserver;
use self::trial::{TrialResult, noun};

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
        on_run(&describe(trial));
        search.record(count, trial.has_kept_up);
    }
    let (trials, machine) = (runner.trials, runner.machine);
    let fit = matches!(goal, StreamGoal::Search { .. }).then(|| search.result());
    let above = fit.as_ref().map(|fit| fit.streams + 1);
    let wanted = above.unwrap_or(trials[0].streams);
    let failed = |trial: &&Trial| trial.streams == wanted && !trial.has_kept_up;
    let limited = trials.iter().rfind(failed);
    let limit = limited.and_then(|trial| trial.limit.as_ref());
    let verdict = verdict(&trials, fit.as_ref(), rate, limit);
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
    SeriesResult::write(&args.output, document)
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
            Err(error) => Trial {
                streams: count,
                shortfall: Some(format!("{error:#}")),
                folder,
                ..Trial::default()
            },
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

/// A line about one trial.
fn describe(trial: &Trial) -> String {
    let verdict = trial.shortfall.as_deref().unwrap_or("no drops");
    let taken = Occupancy::most_disturbed(trial.occupancy.iter());
    let taken = taken.map(|taken| format!("; {}", taken.describe_others()));
    let (streams, taken) = (streams(trial.streams), taken.unwrap_or_default());
    format!("{streams}: {verdict}, {:.1} frames/s{taken}", trial.fps)
}

/// The verb for this many streams.
const fn fit(count: usize) -> &'static str {
    if count == 1 { "fits" } else { "fit" }
}

fn streams(count: usize) -> String {
    format!("{count} {}", noun(count as u64, "stream"))
}

/// How many streams fit, and what limits more of them; `rate`: frames per second of one stream.
fn verdict(
    trials: &[Trial],
    fit: Option<&StreamFit>,
    rate: Option<f64>,
    limit: Option<&Finding>,
) -> String {
    let mut lines = Vec::new();
    lines.extend(fit.map(|fit| answer(fit, trials, rate)));
    if let Some(limit) = limit {
        let next = fit.map_or_else(|| trials[0].streams, |fit| fit.streams + 1);
        let (next, Finding { text, evidence, .. }) = (streams(next), limit);
        lines.push(format!("What limits {next}: {text}, because {evidence}"));
        if !limit.keys.is_empty() {
            lines.push(format!("  Keys: {}", limit.keys.join(", ")));
        }
    }
    lines.join("\n")
}

/// The answer, and how sure it is.
fn answer(fit: &StreamFit, trials: &[Trial], rate: Option<f64>) -> String {
    let of = rate.map_or_else(String::new, |rate| format!(" of {rate:.1} frames/s"));
    let failed = || trials.iter().filter(|trial| !trial.has_kept_up);
    let taken = failed().filter_map(|trial| trial.occupancy.as_ref());
    let taken = Occupancy::most_disturbed(taken);
    if fit.streams == 0 {
        return match taken {
            Some(taken) => format!(
                "Whether one stream{of} fits is not measurable on this machine now: {}",
                taken.describe_others()
            ),
            None => format!("Not even one stream{of} fits: see the reasons above"),
        };
    }
    let fits = self::fit(fit.streams);
    let mut text = if let Some(taken) = taken.filter(|_| !fit.is_lower_bound) {
        // What fits beside others fits without them; what does not may do so.
        let most = most_by_cpu(fit, trials, taken);
        let most = most.map_or_else(String::new, |most| {
            format!(
                "; by the CPU time of a stream no more than {most} fit on {} cores",
                taken.allowed_cores
            )
        });
        format!(
            "At least {}{of} {fits}; whether more do is not measurable on this machine now: {}{most}",
            streams(fit.streams),
            taken.describe_others()
        )
    } else if fit.is_lower_bound {
        format!(
            "At least {}{of} {fits}: the most that was to be tried (--max-streams)",
            streams(fit.streams)
        )
    } else {
        format!(
            "{}{of} {fits}: {} of {} trials without drops; with {}, {} of {}",
            streams(fit.streams),
            fit.at.passed,
            fit.at.count(),
            fit.streams + 1,
            fit.above.passed,
            fit.above.count()
        )
    };
    if fit.from < fit.to || fit.from != fit.streams {
        text += &format!(
            "\nTrials contradict each other: the limit is between {} and {}; measure longer (--duration), with more trials \
             (--repeat), or on a quiet machine",
            fit.from,
            streams(fit.to)
        );
    }
    let good = |trial: &&Trial| trial.streams == fit.streams && trial.has_kept_up;
    let frames: u64 = trials.iter().filter(good).map(|trial| trial.received).sum();
    if frames > 0 && fit.at.failed == 0 {
        // The rule of three: with no event in n independent ones, the upper 95 % limit of its rate is about 3 / n.
        text += &format!(
            "\nNo drop in {frames} frames of {}: with 95 % confidence fewer than {:.2} % are dropped",
            streams(fit.streams),
            300.0 / frames as f64
        );
    }
    text
}

/// The number of streams that the CPU time of one allows on the cores of a free machine; `None` where it is unknown.
fn most_by_cpu(fit: &StreamFit, trials: &[Trial], machine: &Occupancy) -> Option<usize> {
    let good = trials
        .iter()
        .filter(|trial| trial.streams == fit.streams && trial.has_kept_up);
    let cores = good.filter_map(|trial| Some(trial.occupancy.as_ref()?.own_cores));
    let of_one = jetwatch_types::mean(cores)? / fit.streams as f64;
    let most = machine.allowed_cores as f64 / of_one;
    (of_one > 0.0).then(|| (most as usize).max(fit.streams))
}

#[cfg(test)]
mod tests {
    use super::search::Trials;
    use super::trial::StreamResult;
    use super::*;

    fn run(count: usize, dropped: u64) -> Trial {
        let sources = (1..=count).map(|number| StreamResult {
            name: format!("cam-{number}"),
            state: "online".to_owned(),
            fps: 10.0,
            received: 100 + dropped,
            processed: 100,
            dropped,
            ..StreamResult::default()
        });
        let result = TrialResult {
            seconds: 10.0,
            sources: sources.collect(),
            ..TrialResult::default()
        };
        Trial::new(count, "out".into(), result, Some(10.0))
    }

    #[test]
    fn answer_names_trials_interval_and_confidence() {
        let trials = [run(1, 0), run(2, 0), run(3, 100), run(2, 0), run(3, 100)];
        let mut fit = StreamFit {
            streams: 2,
            at: Trials {
                passed: 2,
                failed: 0,
            },
            above: Trials {
                passed: 0,
                failed: 2,
            },
            is_lower_bound: false,
            from: 2,
            to: 2,
        };
        let whole =
            |trials: &[Trial], fit: &StreamFit, rate| verdict(trials, Some(fit), rate, None);
        let text = whole(&trials, &fit, Some(10.0));
        for wanted in [
            "2 streams of 10.0 frames/s fit: 2 of 2 trials without drops; with 3, 0 of 2",
            "No drop in 400 frames of 2 streams: with 95 % confidence fewer than 0.75 % are dropped",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
        assert!(!text.contains("contradict"), "{text}");
        fit.to = 4;
        let text = whole(&trials, &fit, None);
        assert!(text.contains("between 2 and 4 streams"), "{text}");
        assert_eq!(
            describe(&trials[2]),
            "3 streams: 300 frames dropped, 30.0 frames/s"
        );
    }

    #[test]
    fn drops_beside_other_programs_are_no_limit() {
        let beside = |trial: Trial, foreign_cores| Trial {
            occupancy: Some(Occupancy {
                allowed_cores: 2,
                own_cores: 0.5,
                foreign_cores,
                ..Occupancy::default()
            }),
            ..trial
        };
        let fit = |streams| StreamFit {
            streams,
            at: Trials {
                passed: 1,
                failed: 0,
            },
            above: Trials {
                passed: 0,
                failed: 1,
            },
            is_lower_bound: false,
            from: streams,
            to: streams,
        };
        let trials = [beside(run(2, 0), 1.0), beside(run(3, 100), 1.0)];
        let text = answer(&fit(2), &trials, None);
        assert!(
            text.starts_with(
                "At least 2 streams fit; whether more do is not measurable on this machine now: other programs took 50 % of 2 cores \
                 (none of them is visible from here); by the CPU time of a stream no more than 8 fit on 2 cores"
            ),
            "{text}"
        );
        assert!(describe(&trials[1]).contains("; other programs took 50 %"));
        let text = answer(&fit(0), &[beside(run(1, 9), 1.0)], None);
        assert!(
            text.contains("not measurable on this machine now"),
            "{text}"
        );
        // A disturbed trial that passed says nothing against the one that failed undisturbed.
        let trials = [beside(run(2, 0), 1.0), beside(run(3, 100), 0.0)];
        assert!(answer(&fit(2), &trials, None).starts_with("2 streams fit: 1 of 1 trials"));
    }
}
