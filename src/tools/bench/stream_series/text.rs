// SPDX-License-Identifier: Apache-2.0
//! Trials of streams as text for a terminal: a table of the trials with bars, the streams of the answer, and the answer.

use jetwatch_tables::TextTable;

use super::Trial;
use crate::streams::{Limit, StreamFit};

/// Length of the longest bar.
const BAR: f64 = 30.0;

/// A line about one trial.
pub(super) fn trial(trial: &Trial) -> String {
    let verdict = trial.shortfall.as_deref().unwrap_or("no drops");
    format!(
        "{}: {verdict}, {:.1} frames/s",
        streams(trial.streams),
        trial.fps
    )
}

/// The verb for this many streams.
const fn fit(count: usize) -> &'static str {
    if count == 1 { "fits" } else { "fit" }
}

fn streams(count: usize) -> String {
    match count {
        1 => "1 stream".to_owned(),
        count => format!("{count} streams"),
    }
}

/// Everything about a series of trials; `rate`: frames per second of one stream.
pub(super) fn summary(
    trials: &[Trial],
    fit: Option<&StreamFit>,
    rate: Option<f64>,
    limit: Option<&Limit>,
) -> String {
    let mut lines = vec![trial_table(trials)];
    let shown = fit.map_or_else(|| trials[0].streams, |fit| fit.streams);
    if let Some(trial) = trials.iter().rfind(|trial| trial.streams == shown) {
        lines.push(String::new());
        lines.push(stream_table(trial));
    }
    lines.push(String::new());
    if let Some(fit) = fit {
        lines.push(answer(fit, trials, rate));
    }
    if let Some(limit) = limit {
        let next = fit.map_or(shown, |fit| fit.streams + 1);
        lines.push(format!("What limits {}: {}", streams(next), limit.text));
        lines.push(format!("  Keys: {}", limit.keys.join(", ")));
    }
    lines.join("\n")
}

/// A row for each number of streams, over its trials.
fn trial_table(trials: &[Trial]) -> String {
    let mut counts: Vec<usize> = trials.iter().map(|trial| trial.streams).collect();
    counts.sort_unstable();
    counts.dedup();
    let own = |count: &usize| {
        let own = trials.iter().filter(|trial| trial.streams == *count);
        own.collect::<Vec<&Trial>>()
    };
    let rows: Vec<Vec<&Trial>> = counts.iter().map(own).collect();
    let mean = |own: &[&Trial], number: fn(&Trial) -> f64| {
        own.iter().map(|trial| number(trial)).sum::<f64>() / own.len().max(1) as f64
    };
    let sum = |own: &[&Trial], number: fn(&Trial) -> u64| {
        own.iter()
            .map(|trial| number(trial))
            .sum::<u64>()
            .to_string()
    };
    let table = TextTable::of(&rows)
        .right("streams", |own| own[0].streams.to_string())
        .right("trials without drops", |own| {
            let passed = own.iter().filter(|trial| trial.has_kept_up).count();
            format!("{passed} of {}", own.len())
        })
        .right("frames/s", |own| {
            format!("{:.1}", mean(own, |trial| trial.fps))
        })
        .right("dropped", |own| sum(own, |trial| trial.dropped))
        .right("late", |own| sum(own, |trial| trial.late))
        .right("latency, ms", |own| {
            let latency = mean(own, |trial| trial.latency_mean_ms.unwrap_or(0.0));
            format!("{latency:.1}")
        })
        .right("longest", |own| {
            let longest = own.iter().map(|trial| trial.latency_max_ms);
            format!("{:.1}", longest.fold(0.0, f64::max))
        })
        .right("dropped or late", |own| {
            format!("{:.2} %", mean(own, Trial::lost_percent))
        })
        .left("", |own| {
            let length = mean(own, Trial::lost_percent) / 100.0 * BAR;
            "#".repeat(length.ceil().clamp(0.0, BAR) as usize)
        })
        .build();
    table.lines().collect::<Vec<_>>().join("\n")
}

/// A row for each stream of a trial.
fn stream_table(trial: &Trial) -> String {
    let sources = trial
        .result
        .as_ref()
        .map(|result| result.sources.as_slice());
    let table = TextTable::of(sources.unwrap_or_default())
        .left("stream", |source| source.name.as_str())
        .right("frames/s", |source| format!("{:.1}", source.fps))
        .right("frames", |source| source.processed.to_string())
        .right("without inference", |source| source.skipped.to_string())
        .right("dropped", |source| source.dropped.to_string())
        .right("late", |source| source.late.to_string())
        .right("latency, ms", |source| {
            let mean = source.latency_mean_ms;
            mean.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1}"))
        })
        .right("longest", |source| format!("{:.1}", source.latency_max_ms))
        .build();
    table.lines().collect::<Vec<_>>().join("\n")
}

/// The answer, and how sure it is.
fn answer(fit: &StreamFit, trials: &[Trial], rate: Option<f64>) -> String {
    let of = rate.map_or_else(String::new, |rate| format!(" of {rate:.1} frames/s"));
    if fit.streams == 0 {
        return format!("Not even one stream{of} fits: see the reasons above");
    }
    let fits = self::fit(fit.streams);
    let mut text = if fit.is_lower_bound {
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
        let text = summary(&trials, Some(&fit), Some(10.0), None);
        for wanted in [
            "2 streams of 10.0 frames/s fit: 2 of 2 trials without drops; with 3, 0 of 2",
            "No drop in 400 frames of 2 streams: with 95 % confidence fewer than 0.75 % are dropped",
            "50.00 %  ###############",
            "cam-2",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
        assert!(
            !text.contains("contradict") && !text.contains("cam-3"),
            "{text}"
        );
        fit.to = 4;
        let text = summary(&trials, Some(&fit), None, None);
        assert!(text.contains("between 2 and 4 streams"), "{text}");
        assert_eq!(
            trial(&trials[2]),
            "3 streams: 300 frames dropped, 30.0 frames/s"
        );
    }
}
