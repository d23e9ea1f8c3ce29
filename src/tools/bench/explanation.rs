// SPDX-License-Identifier: Apache-2.0
//! What explains the change of the time per frame from one step to the next: work per frame, and CPU cores in use.
//!
//! The time per frame is the CPU time per frame divided by the CPU cores in use, `t = w / c`. With the means of both steps its
//! change is exactly `(w2 - w1) * mean(1/c) + mean(w) * (1/c2 - 1/c1)`: the first part is split by stage, by the CPU clocks of
//! the threads. What the stages do not count (decoding and scaling in elements, threads of libraries) is what the process's CPU
//! clock has beyond them. Cores in use are CPU time per frame times the measured frames per second. The duration of the whole run
//! is not used: it holds the start and the end of the run, which the speed leaves out, and the sum would miss the measured
//! change by them.
//!
//! The parts are means over the rounds, the measured change is that of the medians in the table of the steps. What is between
//! them is a part of its own, not explained, with the interval of the change from round to round.

use serde::Serialize;
use serde_json::Value;

use jetwatch_telemetry::Stage;
use jetwatch_types::{mean, standard_deviation, student_t_95};

/// Name of the CPU time that no stage counts.
const REST: &str = "decoding and other";

/// Name of the part of a change that comes from more or fewer cores in use.
const CORES: &str = "cores in use";

/// What one run costs per frame.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunCost {
    /// Time per frame, in ms.
    pub ms: f64,
    /// Standard error of that time within the run, in ms; `None` where it is unknown.
    pub standard_error_ms: Option<f64>,
    /// CPU time per frame of each stage, in ms; the last is the rest.
    pub cpu_ms: Vec<(String, f64)>,
}

/// Why a step takes another time per frame than the one before. The measured change is the sum of the parts and of what is not
/// explained.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Explanation {
    /// Measured change of the time per frame, in ms.
    pub measured_ms: f64,
    /// The parts, the largest first; means over the rounds.
    pub parts: Vec<Part>,
    /// The rest of the change.
    pub not_explained: NotExplained,
    /// CPU cores in use, before and after; means over the rounds.
    pub cores: (f64, f64),
}

/// One part of a change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Part {
    /// A stage, what no stage counts, or the cores in use.
    pub name: String,
    /// CPU time per frame before and after, in ms; `None` for the cores in use.
    pub cpu_ms: Option<(f64, f64)>,
    /// Change of the time per frame that comes from it, in ms.
    pub change_ms: f64,
}

/// What the parts do not explain.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct NotExplained {
    /// Measured minus the sum of the parts, in ms.
    pub change_ms: f64,
    /// Half the 95 % confidence interval of the change, in ms: from round to round, or within the runs of the only round.
    /// `None` where it is unknown.
    pub interval_95_ms: Option<f64>,
}

impl RunCost {
    /// The costs of a `benchmark.json`; `None` where it lacks them.
    pub(crate) fn of_run(document: &Value) -> Option<Self> {
        let run = &document["run"];
        let number = |value: &Value| value.as_f64().filter(|number| *number > 0.0);
        let frames = number(&run["frames"])?;
        let total = number(&run["cpu_ms_per_frame"])?;
        let is_counted = |name: &str| {
            let stage = Stage::ALL.iter().find(|stage| stage.name() == name);
            stage.is_some_and(|stage| !stage.is_on_gpu() && !stage.is_stay())
        };
        let stages = run["stages"].as_array().into_iter().flatten();
        let mut cpu_ms: Vec<(String, f64)> = stages
            .filter_map(|stage| {
                let name = stage["stage"].as_str().filter(|name| is_counted(name))?;
                Some((name.to_owned(), stage["cpu_ms"].as_f64()? / frames))
            })
            .collect();
        let counted: f64 = cpu_ms.iter().map(|(_, ms)| ms).sum();
        cpu_ms.push((REST.to_owned(), total - counted));
        let speed = &document["speed"];
        let fps = number(&speed["fps"])?;
        let error = speed["fps_standard_error"].as_f64();
        Some(Self {
            ms: 1e3 / fps,
            standard_error_ms: error.map(|error| 1e3 * error / (fps * fps)),
            cpu_ms,
        })
    }

    /// CPU time per frame, in ms.
    fn work(&self) -> f64 {
        self.cpu_ms.iter().map(|(_, ms)| ms).sum()
    }

    /// CPU cores in use.
    fn cores(&self) -> f64 {
        self.work() / self.ms
    }

    fn of(&self, name: &str) -> f64 {
        let found = self.cpu_ms.iter().find(|(own, _)| own == name);
        found.map_or(0.0, |(_, ms)| *ms)
    }
}

impl Explanation {
    /// Explains the change `measured_ms` by pairs of runs of the same round; `None` without a pair.
    pub(crate) fn of_pairs(measured_ms: f64, pairs: &[(&RunCost, &RunCost)]) -> Option<Self> {
        if pairs.is_empty() {
            return None;
        }
        let mut names: Vec<&str> = Vec::new();
        let all = pairs
            .iter()
            .flat_map(|(a, b)| a.cpu_ms.iter().chain(&b.cpu_ms));
        for (name, _) in all {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        let count = pairs.len() as f64;
        let mean = |number: &dyn Fn(&RunCost, &RunCost) -> f64| {
            pairs.iter().map(|(a, b)| number(a, b)).sum::<f64>() / count
        };
        let of_stage = |a: &RunCost, b: &RunCost, name: &str| {
            (b.of(name) - a.of(name)) * (1.0 / a.cores() + 1.0 / b.cores()) / 2.0
        };
        let of_cores = |a: &RunCost, b: &RunCost| {
            (1.0 / b.cores() - 1.0 / a.cores()) * (a.work() + b.work()) / 2.0
        };
        let mut parts: Vec<Part> = names
            .iter()
            .map(|name| Part {
                name: (*name).to_owned(),
                cpu_ms: Some((mean(&|a, _| a.of(name)), mean(&|_, b| b.of(name)))),
                change_ms: mean(&|a, b| of_stage(a, b, name)),
            })
            .collect();
        parts.push(Part {
            name: CORES.to_owned(),
            cpu_ms: None,
            change_ms: mean(&of_cores),
        });
        parts.sort_by(|a, b| b.change_ms.abs().total_cmp(&a.change_ms.abs()));
        let explained: f64 = parts.iter().map(|part| part.change_ms).sum();
        Some(Self {
            measured_ms,
            parts,
            not_explained: NotExplained {
                change_ms: measured_ms - explained,
                interval_95_ms: interval(pairs),
            },
            cores: (mean(&|a, _| a.cores()), mean(&|_, b| b.cores())),
        })
    }
}

/// Half the 95 % confidence interval of the change between the runs of a pair, in ms.
fn interval(pairs: &[(&RunCost, &RunCost)]) -> Option<f64> {
    if let [(a, b)] = pairs {
        let errors = [a.standard_error_ms?, b.standard_error_ms?];
        return Some(1.96 * errors[0].hypot(errors[1]));
    }
    let changes: Vec<f64> = pairs.iter().map(|(a, b)| b.ms - a.ms).collect();
    let deviation = standard_deviation(&changes, mean(changes.iter().copied())?, 1);
    let count = changes.len();
    Some(student_t_95(count - 1) * deviation / (count as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cost(fps: f64, infer: f64, track: f64, total: f64) -> RunCost {
        let document = json!({"speed": {"fps": fps, "fps_standard_error": fps / 100.0}, "run": {
        // Longer than the speed says: with the start and the end of the run.
        "frames": 100, "duration_s": 120.0 / fps, "cpu_ms_per_frame": total,
        "stages": [
            {"stage": "infer", "cpu_ms": infer * 100.0}, {"stage": "track", "cpu_ms": track * 100.0},
            {"stage": "gpu_network", "cpu_ms": 900.0}, {"stage": "video_decode_stay", "cpu_ms": 5.0},
        ]}});
        RunCost::of_run(&document).expect("a run")
    }

    fn close(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-9, "{found}, wanted {wanted}");
    }

    fn sum(found: &Explanation) -> f64 {
        let parts = found.parts.iter().map(|part| part.change_ms);
        parts.sum::<f64>() + found.not_explained.change_ms
    }

    fn is_noise(found: &Explanation) -> bool {
        let rest = found.not_explained;
        let interval = rest.interval_95_ms.expect("it is known");
        rest.change_ms.abs() <= interval + 1e-9
    }

    #[test]
    fn parts_add_up_to_the_measured_change() {
        // 20 ms a frame on one core; then 6 ms on two, with less work in the network.
        let before = cost(50.0, 12.0, 3.0, 20.0);
        let after = cost(1e3 / 6.0, 6.0, 3.0, 12.0);
        assert_eq!(before.cpu_ms.last(), Some(&(REST.to_owned(), 5.0)));
        let found = Explanation::of_pairs(-14.0, &[(&before, &after)]).expect("a pair");
        close(found.cores.0, 1.0);
        close(found.cores.1, 2.0);
        let change = |name: &str| {
            let part = found.parts.iter().find(|part| part.name == name);
            part.map(|part| part.change_ms).expect("a part")
        };
        // 6 ms less at 0.75 cores per ms, 2 ms less of the rest, and the mean work of 16 ms on twice the cores.
        close(change("infer"), -4.5);
        close(change("track"), 0.0);
        close(change(REST), -1.5);
        close(change(CORES), -8.0);
        close(sum(&found), -14.0);
        assert_eq!(found.parts[0].name, CORES, "the largest first");
        close(found.not_explained.change_ms, 0.0);
        // 1 % of 20 ms and of 6 ms.
        let interval = found
            .not_explained
            .interval_95_ms
            .expect("errors are known");
        close(interval, 1.96 * 0.2_f64.hypot(0.06));
        assert!(is_noise(&found));
    }

    #[test]
    fn rest_of_the_change_of_medians_has_the_interval_of_the_rounds() {
        let before = cost(50.0, 12.0, 3.0, 20.0);
        let rounds = [10.0, 10.1, 9.9, 10.0, 11.0].map(|ms| cost(1e3 / ms, 6.0, 3.0, 10.0));
        let pairs: Vec<_> = rounds.iter().map(|after| (&before, after)).collect();
        // Of the medians: 20 and 10 ms. The mean of the rounds is 10.2 ms.
        let found = Explanation::of_pairs(-10.0, &pairs).expect("pairs");
        close(sum(&found), -10.0);
        close(found.not_explained.change_ms, -0.2);
        assert!(is_noise(&found));
        let interval = found.not_explained.interval_95_ms.expect("five rounds");
        assert!((0.4..0.7).contains(&interval), "{interval}");
        let found = Explanation::of_pairs(-12.0, &pairs).expect("pairs");
        close(sum(&found), -12.0);
        assert!(!is_noise(&found), "-2.2 ms");
        assert_eq!(Explanation::of_pairs(0.0, &[]), None);
        assert_eq!(RunCost::of_run(&json!({"speed": {"fps": 9.0}})), None);
    }
}
