// SPDX-License-Identifier: Apache-2.0
//! The ablation: the keys of a sweep get their values one after the other, in place of all combinations, and each change has its
//! gain.

use anyhow::ensure;
use serde::Serialize;

use jetwatch_config::{Config, Interval};
use jetwatch_detect::model::ModelSpec;

use super::best_point::disturbance;
use super::compare::{CPU_SPEED, SPEED};
use super::results::PointResult;
use super::{
    Axis, BenchOptions, Comparison, Explanation, SecondaryResult, Settings, Statistics, one_by_one,
    setting_texts,
};

/// The precision of a network that is not quantized.
const FP32: &str = "fp32";

/// Result of one step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Gain {
    /// Its number, from 1.
    pub(super) step: usize,
    /// Description of its change.
    pub(super) title: String,
    /// Frames per second over the rounds; `None` where all failed.
    pub(super) fps: Option<Statistics>,
    /// Time per frame, in ms: 1000 divided by the median of the frames per second.
    pub(super) ms_per_frame: Option<f64>,
    /// That time as a share of the first step's, in percent.
    pub(super) relative_percent: Option<f64>,
    /// Speed divided by that of the step before, for each round; `None` where other programs took the CPU meanwhile.
    pub(super) gain: Option<Comparison>,
    /// The same by frames per second of CPU time, which other programs hardly change.
    pub(super) cpu_gain: Option<Comparison>,
    /// Why there is no gain.
    pub(super) not_measurable: Option<String>,
    /// Speed divided by that of the first step, for each round; `None` as with `gain`.
    pub(super) cumulative: Option<Comparison>,
    /// What explains the change from the step before.
    pub(super) explanation: Option<Explanation>,
    /// Keys with their values that the step sets, in addition to those of the step before.
    pub(super) settings: Vec<String>,
    /// Each secondary network; means over the rounds.
    pub(super) secondary: Vec<SecondaryResult>,
    /// Warnings about its runs.
    pub(super) notes: Vec<String>,
}

/// The name and the keys of each step: those of `--sweep`, or else those that `config` sets for its speed, each of them off at
/// first. `warn` receives the names of sources that limit the speed.
///
/// # Errors
/// `--sweep` is wrong, a model cannot be read, or the configuration sets no such key.
pub(super) fn steps(
    args: &BenchOptions,
    config: &Config,
    warn: &dyn Fn(&str),
) -> anyhow::Result<Vec<(String, Settings)>> {
    for source in config.sources.iter().filter(|source| source.is_live()) {
        warn(&format!(
            "{} gives frames at its own pace, which no step can exceed; use a file, or a drawn scene with realtime=false",
            source.name
        ));
    }
    let axes = match args.sweep.is_empty() {
        true => axes_of(config)?,
        false => args.axes()?,
    };
    let steps = one_by_one(&axes)?;
    let name = |index: usize| {
        let before = index.checked_sub(1).map(|before| &steps[before]);
        let is_new = |setting: &&(String, String)| before.is_some_and(|b| !b.contains(setting));
        match steps[index].iter().find(is_new) {
            Some((key, value)) => format!("{}_{key}={value}", index + 1),
            None => format!("{}_first_values", index + 1),
        }
    };
    let names: Vec<String> = (0..steps.len()).map(name).collect();
    Ok(names.into_iter().zip(steps).collect())
}

/// The keys that make `config` fast, each with the value that turns it off and its own.
fn axes_of(config: &Config) -> anyhow::Result<Vec<Axis>> {
    let mut axes = Vec::new();
    let mut add = |key: &str, off: &str, own: String| {
        if own != off {
            let (key, values) = (key.to_owned(), vec![off.to_owned(), own]);
            axes.push(Axis { key, values });
        }
    };
    let detector = &config.detector;
    let secondary = || config.secondary.iter().enumerate();
    add("detector.workers", "1", detector.workers.to_string());
    add("detector.batch_size", "1", detector.batch_size.to_string());
    for (index, network) in secondary() {
        let key = format!("secondary[{index}].batch_size");
        add(&key, "1", network.batch_size.to_string());
    }
    let primary = (detector.model.as_ref(), &detector.precision);
    let primary = std::iter::once(("detector".to_owned(), primary));
    let others = secondary().map(|(index, network)| {
        let network = (Some(&network.model), &network.precision);
        (format!("secondary[{index}]"), network)
    });
    for (section, (model, precision)) in primary.chain(others) {
        let (Some(model), Some(precision)) = (model, precision) else {
            continue;
        };
        let model = ModelSpec::load(model)?;
        if model.files.iter().any(|file| file.precision == FP32) {
            add(&format!("{section}.precision"), FP32, precision.clone());
        }
    }
    if let Interval::Frames(frames) = detector.interval {
        add("detector.interval", "0", frames.to_string());
    }
    ensure!(
        !axes.is_empty(),
        "the configuration sets none of detector.workers, batch_size, precision and interval; name keys by --sweep, each with its \
         first value for the first step, such as --sweep detector.interval=0,3"
    );
    Ok(axes)
}

/// The gain of each step, from the runs of its rounds. `first_keys` are the keys of the first step.
pub(super) fn gains(results: &[PointResult], first_keys: &[(String, String)]) -> Vec<Gain> {
    let time = |point: &PointResult| {
        let median = point.fps.as_ref()?.median;
        (median > 0.0).then(|| 1e3 / median)
    };
    let compared = |before: &PointResult, own: &PointResult| match disturbance([before, own]) {
        Some(_) => None,
        None => Comparison::of_runs(&before.runs, &own.runs, SPEED),
    };
    let explained = |before: &PointResult, own: &PointResult| {
        let pairs = before.runs.iter().zip(&own.runs);
        let pairs = pairs.filter_map(|(a, b)| Some((a.cost.as_ref()?, b.cost.as_ref()?)));
        // Of the medians in the table of the steps.
        let change = time(own)? - time(before)?;
        Explanation::of_pairs(change, &pairs.collect::<Vec<_>>())
    };
    let first = results.first();
    let gain = |(index, own): (usize, &PointResult)| {
        let before = index.checked_sub(1).map(|before| &results[before]);
        let change = own.name.split_once('_').map_or("", |(_, change)| change);
        let (title, settings) = match index {
            0 => ("first values", setting_texts(first_keys)),
            _ => (change, vec![change.to_owned()]),
        };
        let relative = time(own).zip(first.and_then(time));
        Gain {
            step: index + 1,
            title: title.to_owned(),
            fps: own.fps,
            ms_per_frame: time(own),
            relative_percent: relative.map(|(own, first)| 100.0 * (own / first)),
            gain: before.and_then(|before| compared(before, own)),
            cpu_gain: before.and_then(|it| Comparison::of_runs(&it.runs, &own.runs, CPU_SPEED)),
            not_measurable: before.and_then(|before| disturbance([before, own])),
            cumulative: before.and(first).and_then(|first| compared(first, own)),
            explanation: before.and_then(|before| explained(before, own)),
            settings,
            secondary: own.secondary.clone(),
            notes: own.warnings.clone(),
        }
    };
    results.iter().enumerate().map(gain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::RunResult;

    #[test]
    fn steps_turn_on_what_the_configuration_sets() {
        let axes = |detector: &str| -> Result<Vec<String>, String> {
            let text = format!(
                "sources: [{{name: a, uri: 'synthetic://traffic'}}]\ndetector: {{backend: scripted{detector}}}\n"
            );
            let config = Config::from_str("test.yaml", &text).expect("valid");
            let axes = axes_of(&config).map_err(|error| error.to_string())?;
            let text = |axis: &Axis| format!("{}={}", axis.key, axis.values.join(","));
            Ok(axes.iter().map(text).collect())
        };
        let all = axes(", workers: 3, batch_size: 4, interval: 2").expect("keys");
        assert_eq!(
            all,
            [
                "detector.workers=1,3",
                "detector.batch_size=1,4",
                "detector.interval=0,2"
            ]
        );
        assert_eq!(
            axes(", interval: adaptive").expect("keys"),
            ["detector.workers=1,2"]
        );
        let error = axes(", workers: 1").expect_err("nothing to turn off");
        assert!(error.contains("--sweep detector.interval=0,3"), "{error}");
    }

    #[test]
    fn gains_compare_steps_of_same_round() {
        let speeds = [
            vec![Some(10.0), Some(20.0), Some(10.0)],
            vec![Some(20.0), Some(50.0), Some(20.0)],
            vec![None, Some(50.0), Some(30.0)],
            vec![None, None, None],
            vec![Some(40.0), Some(40.0), Some(40.0)],
            vec![Some(160.0), Some(80.0), Some(80.0)],
        ];
        let point = |(index, rounds): (usize, &Vec<Option<f64>>)| {
            let good: Vec<f64> = rounds.iter().copied().flatten().collect();
            let run = |fps: &Option<f64>| RunResult {
                fps: *fps,
                ..RunResult::default()
            };
            PointResult {
                name: format!("{}_a={index}", index + 1),
                fps: Statistics::from_values(&good),
                runs: rounds.iter().map(run).collect(),
                ..PointResult::default()
            }
        };
        let results: Vec<PointResult> = speeds.iter().enumerate().map(point).collect();
        let steps = gains(&results, &[("a".to_owned(), "0".to_owned())]);
        let relative: Vec<_> = steps.iter().map(|step| step.relative_percent).collect();
        // Medians of 10, 20, 40, nothing, 40 and 80 frames a second.
        let wanted = [
            Some(100.0),
            Some(50.0),
            Some(25.0),
            None,
            Some(25.0),
            Some(12.5),
        ];
        assert_eq!(relative, wanted);
        let ratios = |gain: &Option<Comparison>| gain.as_ref().map(|gain| gain.ratios.clone());
        let found: Vec<_> = steps.iter().map(|step| ratios(&step.gain)).collect();
        let wanted = [
            None,
            Some(vec![2.0, 2.5, 2.0]),
            Some(vec![1.0, 1.5]),
            None,
            None,
            Some(vec![4.0, 2.0, 2.0]),
        ];
        assert_eq!(found, wanted);
        assert_eq!(ratios(&steps[0].cumulative), None);
        assert_eq!(ratios(&steps[5].cumulative), Some(vec![16.0, 4.0, 8.0]));
        assert_eq!((steps[5].step, steps[5].title.as_str()), (6, "a=5"));
        assert_eq!(steps[0].settings, ["a=0"]);
        assert_eq!(steps[5].settings, ["a=5"]);
    }
}
