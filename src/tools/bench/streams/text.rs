// SPDX-License-Identifier: Apache-2.0
//! Trials of streams as text for a terminal: a table of the trials with bars, the streams of the answer, and the answer.

use jetwatch_nsys::report::Finding;
use jetwatch_platform::Occupancy;

use super::Trial;
use super::search::StreamFit;
use super::trial::noun;

/// A line about one trial.
pub(super) fn trial(trial: &Trial) -> String {
    let verdict = trial.shortfall.as_deref().unwrap_or("no drops");
    let taken = disturbance(std::iter::once(trial));
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

/// Who used the CPU in the trial with the most by other programs, where they disturbed one.
fn disturbance<'t>(trials: impl Iterator<Item = &'t Trial>) -> Option<&'t Occupancy> {
    let taken = trials.filter_map(|trial| trial.occupancy.as_ref());
    let taken = taken.filter(|taken| taken.is_disturbed());
    taken.max_by(|a, b| a.foreign_share().total_cmp(&b.foreign_share()))
}

/// How many streams fit, and what limits more of them; `rate`: frames per second of one stream.
pub(super) fn verdict(
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
    let taken = disturbance(failed());
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
    use super::*;
    use crate::streams::search::Trials;
    use crate::streams::trial::{StreamResult, TrialResult};

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
            trial(&trials[2]),
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
        assert!(trial(&trials[1]).contains("; other programs took 50 %"));
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
