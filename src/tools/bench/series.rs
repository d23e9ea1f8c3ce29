// SPDX-License-Identifier: Apache-2.0
//! Several runs, each in a process of its own: concurrent ones, one for each point of a sweep, repeated, or two configurations
//! in turns.
//!
//! Rounds go over all points before the next round begins, and every second round goes backwards, so that a rising
//! temperature or other load affects all of them alike.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Value, json};

use jetwatch_detect::engines::Device;
use jetwatch_telemetry::StopToken;

use super::aggregate::speeds;
use super::best_point::{self, disturbance};
use super::compare::{CPU_SPEED, SPEED, noise};
use super::processes::{MakeCommand, Point, check_gpus};
use super::results::{PointResult, RunResult, SeriesResult, check_stop};
use super::run::Speed;
use super::secondary::{SecondaryResult, secondary_results};
use super::streams::{copy_sources, run_streams};
use super::system_info::machine_of;
use super::{BenchOptions, Comparison, RunCost, Statistics, ablation, cartesian, setting_texts};

/// All runs of this call.
pub struct RunPlan<'a> {
    args: &'a BenchOptions,
    points: Vec<Point>,
}

impl<'a> RunPlan<'a> {
    /// The runs that `args` ask for; `None`: a single one, which needs no process of its own. Every point's configuration
    /// is read here, so that nothing runs before all are valid. `warn` receives what limits the steps of an ablation.
    ///
    /// # Errors
    /// A configuration or `--sweep` is wrong, or there is nothing to change in an ablation.
    pub fn new(args: &'a BenchOptions, warn: &dyn Fn(&str)) -> anyhow::Result<Option<Self>> {
        let settings = args.settings.as_slice();
        check_gpus(args.gpus, &|| Ok(Device::count()?))?;
        let point = |name: &str, config: &Option<PathBuf>, more: &[(String, String)]| Point {
            name: name.to_owned(),
            config: config.clone(),
            settings: [settings, more].concat(),
            varied: more.to_vec(),
            streams: None,
        };
        let of_file = |name: &str, config: &Option<PathBuf>| Point {
            varied: vec![("config".to_owned(), name.to_owned())],
            ..point(name, config, &[])
        };
        let points: Vec<Point> = match (&args.config, &args.compare) {
            (first, Some(second)) => {
                let names = file_labels([first.as_deref().unwrap_or(Path::new("")), second]);
                vec![of_file(&names[0], first), of_file(&names[1], &args.compare)]
            }
            (_, None) if args.ablation => ablation::steps(args, &args.load_config()?, warn)?
                .iter()
                .map(|(name, keys)| point(name, &args.config, keys))
                .collect(),
            (_, None) if args.streams.is_some() => vec![point("", &args.config, &[])],
            (_, None) => cartesian(&args.axes()?)?
                .iter()
                .map(|more| point(&setting_texts(more).join(","), &args.config, more))
                .collect(),
        };
        for point in &points {
            let config = args.config(point.config.as_deref(), &point.settings)?;
            if let Some(streams) = args.streams {
                // What cannot be copied is reported before anything runs.
                copy_sources(&mut config.clone(), streams.most(), args.fps)?;
            }
        }
        let is_single = points.len() == 1 && args.rounds() == 1 && args.processes * args.gpus == 1;
        let is_swept = !args.sweep.is_empty() || args.ablation;
        let is_series = !is_single || is_swept || args.streams.is_some();
        Ok(is_series.then_some(Self { args, points }))
    }

    /// Runs everything and writes `series.json`. `command` makes the command that starts this program again
    /// for one run; `on_run` receives a line of text for each run that ended.
    ///
    /// # Errors
    /// It was stopped, or a file cannot be written. A run that fails is a result.
    pub fn run(
        &self,
        stop: &StopToken,
        command: MakeCommand<'_>,
        on_run: &dyn Fn(&str),
    ) -> anyhow::Result<SeriesResult> {
        if self.args.streams.is_some() {
            return run_streams(self.args, &self.points[0], stop, command, on_run);
        }
        let mut results: Vec<Vec<RunResult>> = self.points.iter().map(|_| Vec::new()).collect();
        for round in 1..=self.args.rounds() {
            let mut order: Vec<usize> = (0..self.points.len()).collect();
            if round % 2 == 0 {
                order.reverse();
            }
            for index in order {
                check_stop(stop, &self.args.output)?;
                let point = &self.points[index];
                let result = self.run_point(point, round, stop, command);
                on_run(&self.describe_result(point, &result));
                results[index].push(result);
            }
        }
        let results: Vec<PointResult> = self.points.iter().zip(results).map(summarize).collect();
        let [comparison, cpu_comparison] = [SPEED, CPU_SPEED].map(|of| match results.as_slice() {
            [first, second] if self.args.compare.is_some() => {
                Comparison::of_runs(&first.runs, &second.runs, of)
            }
            _ => None,
        });
        let runs: Vec<&RunResult> = results.iter().flat_map(|point| &point.runs).collect();
        let machine = runs.iter().find(|run| run.error.is_none());
        let kind = match (&self.args.compare, self.args.sweep.is_empty()) {
            (Some(_), _) => "comparison",
            (None, false) => "sweep",
            (None, true) => "runs",
        };
        let mut document = json!({
            "kind": kind,
            "machine": machine.map(|run| &run.machine),
            "points": results,
            "comparison": comparison,
            "cpu_comparison": cpu_comparison,
            "rounds": self.args.rounds(),
            "processes": self.args.processes,
            "gpus": self.args.gpus,
        });
        if self.args.ablation {
            let steps = ablation::gains(&results, &self.points[0].varied);
            document["kind"] = json!("ablation");
            document["ablation"] = json!({ "steps": steps });
        }
        let verdict = match (&comparison, self.points.as_slice()) {
            (Some(comparison), [first, second]) => {
                let describe = |found: &Comparison| found.describe(&first.name, &second.name);
                Some(match (disturbance(&results), &cpu_comparison) {
                    (None, _) => describe(comparison),
                    (Some(by), None) => format!("Speed: {by}"),
                    (Some(by), Some(cpu)) => {
                        format!("Speed: {by}\nBy CPU time per frame: {}", describe(cpu))
                    }
                })
            }
            _ => best_point::describe(&results),
        };
        document["verdict"] = json!(verdict);
        let failed = runs.iter().filter(|run| run.error.is_some()).count();
        let mut result = SeriesResult::write(&self.args.output, document)?;
        if failed > 0 {
            let (all, path) = (runs.len(), result.path.display());
            let text = format!("{failed} of {all} runs failed; see the messages above and {path}");
            result.failure = Some(text);
        }
        Ok(result)
    }

    fn describe_result(&self, point: &Point, result: &RunResult) -> String {
        let name = Some(point.name.as_str()).filter(|name| !name.is_empty());
        let (name, round, rounds) = (name.unwrap_or("run"), result.round, self.args.rounds());
        let reported = match &result.error {
            Some(error) => format!("failed: {error}"),
            None => format!("{:.1} frames/s", result.fps.unwrap_or_default()),
        };
        format!("{name}, round {round} of {rounds}: {reported}")
    }

    /// One round of one point: all of its processes at the same time.
    fn run_point(
        &self,
        point: &Point,
        round: u32,
        stop: &StopToken,
        command: MakeCommand<'_>,
    ) -> RunResult {
        let mut folder = self.args.output.join(plain(&point.name));
        if self.args.rounds() > 1 {
            folder.push(format!("run_{round}"));
        }
        let documents = point.run(self.args, &folder, stop, command);
        let result = documents.and_then(|documents| run_result(&documents));
        let result = result.unwrap_or_else(|error| RunResult {
            error: Some(format!("{error:#}")),
            ..RunResult::default()
        });
        RunResult {
            round,
            folder,
            ..result
        }
    }
}

/// What the processes of a run have written.
fn run_result(documents: &[Value]) -> anyhow::Result<RunResult> {
    let each = documents.iter().map(|it| Speed::deserialize(&it["speed"]));
    let each = each.collect::<Result<Vec<Speed>, _>>();
    let each = each.context("a process has written no speeds")?;
    let (all, first) = (speeds(documents), &documents[0]);
    let detector = first["meta"]["versions"]["detector"].as_str();
    let number = |key: &str| all[key].as_f64();
    // Processes that share a core take it from each other.
    let occupancies = each.iter().filter_map(|speed| speed.occupancy.clone());
    let occupancies = occupancies.filter(|found| found.cores >= each.len());
    let latencies = each.iter().filter_map(|it| it.latency.as_ref());
    let latencies = latencies.map(|latency| latency.whole);
    Ok(RunResult {
        cpu_ms_per_frame: number("cpu_ms_per_frame"),
        occupancy: occupancies.max_by(|a, b| a.foreign_share().total_cmp(&b.foreign_share())),
        latency: latencies.max_by(|a, b| a.median_ms.total_cmp(&b.median_ms)),
        fps: number("fps_all_processes"),
        inference_fps: number("inference_fps_all_processes"),
        fps_standard_error: number("fps_all_processes_standard_error"),
        fps_blocks: all["fps_blocks"].as_u64().map(|blocks| blocks as usize),
        gpu_ms_per_frame: number("gpu_ms_per_frame"),
        secondary: secondary_results(documents.iter()),
        machine: machine_of(first),
        detector: detector.map(str::to_owned),
        cost: RunCost::of_run(first),
        ..RunResult::default()
    })
}

fn summarize((point, runs): (&Point, Vec<RunResult>)) -> PointResult {
    let fps: Vec<f64> = runs.iter().filter_map(|run| run.fps).collect();
    let inference: Vec<f64> = runs.iter().filter_map(|run| run.inference_fps).collect();
    PointResult {
        name: point.name.clone(),
        settings: setting_texts(&point.settings),
        warnings: noise(&fps),
        fps_interval_95: best_point::interval(&runs),
        fps: Statistics::from_values(&fps),
        inference_fps: Statistics::from_values(&inference),
        secondary: SecondaryResult::mean(runs.iter().map(|run| run.secondary.as_slice())),
        runs,
    }
}

/// Names of two configuration files, as folders and in tables: their names without extension, or with the folders above them
/// where these are the same.
pub(super) fn file_labels(files: [&Path; 2]) -> [String; 2] {
    let tail = |path: &Path, length: usize| {
        let path = path.with_extension("");
        let parts: Vec<String> = path
            .iter()
            .map(|part| plain(&part.to_string_lossy()))
            .collect();
        parts[parts.len().saturating_sub(length)..].join("_")
    };
    let longest = files.map(|file| file.iter().count()).into_iter().max();
    let labels = (1..=longest.unwrap_or(0)).map(|length| files.map(|file| tail(file, length)));
    let mut distinct =
        labels.filter(|[one, other]| one != other && !one.is_empty() && !other.is_empty());
    distinct.next().unwrap_or(["a", "b"].map(str::to_owned))
}

/// `text` as the name of a folder.
pub(super) fn plain(text: &str) -> String {
    text.replace(|c: char| !c.is_alphanumeric() && !"=,._-".contains(c), "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_point_has_own_folder() {
        let settings = [("a.b", "1"), ("uri", "x:/y z")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let name = setting_texts(&settings).join(",");
        assert_eq!(name, "a.b=1,uri=x:/y z");
        assert_eq!(plain(&name), "a.b=1,uri=x__y_z");
    }

    #[test]
    fn compared_files_are_named_by_what_differs() {
        for (files, wanted) in [
            (["a/now.yaml", "b/new one.yaml"], ["now", "new_one"]),
            (["old/box.yaml", "new/box.yaml"], ["old_box", "new_box"]),
            (["box.yaml", "box.yaml"], ["a", "b"]),
            (["box.yaml", "../box.yaml"], ["box", ".._box"]),
        ] {
            assert_eq!(file_labels(files.map(Path::new)), wanted);
        }
    }
}
