//! Several runs, each a process of its own: side by side, one for each point of a sweep, repeated, or two configurations in
//! turns.
//!
//! Rounds go over all points before the next round begins, and every second round goes backwards, so that a machine that
//! grows hot or a neighbor that comes and goes is shared by all of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal};
use serde::Serialize;
use serde_json::{Value, json};

use jetwatch_bench::{AblationStep, Comparison, Noise, Statistics, cartesian, mean};
use jetwatch_telemetry::StopToken;

use super::super::{Exit, signals};
use super::cores::{allowed_cores, shares};
use super::run::{FILE, Speed, write};
use super::{BenchArgs, PartArg, ablation};

/// How often is looked whether the processes have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// All runs of this call.
pub(super) struct RunPlan<'a> {
    args: &'a BenchArgs,
    points: Vec<Point>,
    rounds: u32,
}

/// One configuration.
struct Point {
    /// Name of its folder and in tables; empty where there is one point only.
    name: String,
    config: Option<PathBuf>,
    settings: Vec<(String, String)>,
    /// The step of the ablation that it is.
    step: Option<AblationStep>,
}

/// What became of one point.
#[derive(Serialize)]
pub(super) struct PointResult {
    name: String,
    settings: Vec<String>,
    pub(super) runs: Vec<RunResult>,
    /// Frames per second of the runs that went well.
    fps: Option<Statistics>,
    inference_fps: Option<Statistics>,
    warnings: Vec<String>,
}

/// What became of one run of one point.
#[derive(Serialize)]
pub(super) struct RunResult {
    round: u32,
    pub(super) folder: PathBuf,
    /// Processes added up.
    pub(super) fps: Option<f64>,
    inference_fps: Option<f64>,
    /// What detected, in words.
    detector: Option<String>,
    pub(super) error: Option<String>,
}

impl<'a> RunPlan<'a> {
    /// The runs that `args` ask for; `None`: a single one, which needs no process of its own. Every point's configuration
    /// is read here, so that nothing runs before all are right.
    pub(super) fn new(
        args: &'a BenchArgs,
        settings: &[(String, String)],
    ) -> anyhow::Result<Option<Self>> {
        let point = |name: &str, config: &Option<PathBuf>, more: &[(String, String)]| Point {
            name: name.to_owned(),
            config: config.clone(),
            settings: [settings, more].concat(),
            step: None,
        };
        let step = |rung: AblationStep| Point {
            step: Some(rung),
            ..point(rung.name(), &args.config, &[])
        };
        let mut points: Vec<Point> = match &args.compare {
            Some(_) => vec![
                point("a", &args.config, &[]),
                point("b", &args.compare, &[]),
            ],
            None if args.ablation => AblationStep::ALL.map(step).into(),
            None => cartesian(&args.axes()?)?
                .iter()
                .map(|more| point(&folder_name(more), &args.config, more))
                .collect(),
        };
        let mut runtime = None;
        for point in &points {
            let config = args.config(point.config.as_deref(), &point.settings)?;
            if point.step == Some(AblationStep::Naive) {
                ablation::check_prerequisites(args, &config)?;
                runtime = ablation::common_runtime(&config)?;
            }
        }
        for point in &mut points {
            point.settings.extend(runtime.clone());
        }
        let rounds = args.rounds();
        let is_single = points.len() == 1 && rounds == 1 && args.processes * args.gpus == 1;
        let is_swept = !args.sweep.is_empty();
        Ok((!is_single || is_swept).then_some(Self {
            args,
            points,
            rounds,
        }))
    }

    /// Runs everything, writes `series.json`, and prints a table.
    pub(super) fn run(&self) -> anyhow::Result<Exit> {
        let stop = StopToken::default();
        signals::listen(stop.clone(), || {})?;
        let mut results: Vec<Vec<RunResult>> = self.points.iter().map(|_| Vec::new()).collect();
        for round in 1..=self.rounds {
            let mut order: Vec<usize> = (0..self.points.len()).collect();
            if round % 2 == 0 {
                order.reverse();
            }
            for index in order {
                if stop.is_stopped() {
                    bail!(
                        "stopped by a signal; what was measured before lies in {}",
                        self.args.output.display()
                    );
                }
                let point = &self.points[index];
                let result = self.run_point(point, round, &stop);
                self.print_result(point, &result);
                results[index].push(result);
            }
        }
        let results: Vec<PointResult> = self.points.iter().zip(results).map(summarize).collect();
        if self.args.ablation {
            return ablation::write_result(self.args, &results, self.rounds);
        }
        let comparison = self.comparison(&results);
        let document = json!({
            "points": results,
            "comparison": comparison,
            "rounds": self.rounds,
            "processes": self.args.processes,
            "gpus": self.args.gpus,
        });
        let path = self.args.output.join("series.json");
        write(&path, &document)?;
        if self.args.json {
            println!("{document:#}");
        } else {
            print(&results);
            if let (Some(comparison), Some(other)) = (&comparison, &self.args.compare) {
                let first = self.args.config.as_deref().unwrap_or(Path::new("a"));
                let (first, second) = (first.display().to_string(), other.display().to_string());
                println!("{}", comparison.describe(&first, &second));
            }
            println!("Written: {}", path.display());
        }
        let runs = || results.iter().flat_map(|point| &point.runs);
        let (all, failed) = (
            runs().count(),
            runs().filter(|run| run.error.is_some()).count(),
        );
        if failed > 0 {
            eprintln!(
                "jetwatch: {failed} of {all} runs failed; see the messages above and {}",
                path.display()
            );
            return Ok(Exit::Failure);
        }
        Ok(Exit::Success)
    }

    fn comparison(&self, results: &[PointResult]) -> Option<Comparison> {
        let [first, second] = results else {
            return None;
        };
        self.args.compare.as_ref()?;
        // A pair of which one failed is left out.
        let pairs = first.runs.iter().zip(&second.runs);
        let pairs = pairs.filter_map(|(first, second)| Some((first.fps?, second.fps?)));
        let (first, second): (Vec<f64>, Vec<f64>) = pairs.unzip();
        Comparison::paired(&first, &second)
    }

    fn print_result(&self, point: &Point, result: &RunResult) {
        let name = if point.name.is_empty() {
            "run"
        } else {
            &point.name
        };
        let reported = match (&result.error, result.fps) {
            (Some(error), _) => format!("failed: {error}"),
            (None, fps) => format!("{:.1} frames/s", fps.unwrap_or_default()),
        };
        eprintln!(
            "{name}, round {} of {}: {reported}",
            result.round, self.rounds
        );
    }

    /// One round of one point: all of its processes, side by side.
    fn run_point(&self, point: &Point, round: u32, stop: &StopToken) -> RunResult {
        let mut folder = self.args.output.join(&point.name);
        if self.rounds > 1 {
            folder.push(format!("run_{round}"));
        }
        let documents = self.run_processes(point, &folder, stop);
        let detector = documents.as_ref().ok().and_then(|documents| {
            let detector = documents.first()?["meta"]["versions"]["detector"].as_str();
            detector.map(str::to_owned)
        });
        let speeds = documents.and_then(|documents| {
            let speeds = documents
                .iter()
                .map(|document| Speed::deserialize_from(&document["speed"]));
            speeds.collect::<anyhow::Result<Vec<Speed>>>()
        });
        let sum = |number: &dyn Fn(&Speed) -> Option<f64>| -> Option<f64> {
            speeds.as_ref().ok()?.iter().map(number).sum()
        };
        RunResult {
            round,
            fps: sum(&|speed| Some(speed.fps)),
            inference_fps: sum(&|speed| speed.inference_fps),
            detector,
            error: speeds.as_ref().err().map(|error| format!("{error:#}")),
            folder,
        }
    }

    /// The `benchmark.json` of each process.
    fn run_processes(
        &self,
        point: &Point,
        folder: &Path,
        stop: &StopToken,
    ) -> anyhow::Result<Vec<Value>> {
        let (processes, gpus) = (self.args.processes, self.args.gpus);
        let count = usize::from(processes) * usize::from(gpus);
        let cores = shares(&allowed_cores()?, count);
        let mut started: Vec<(PathBuf, Child)> = Vec::new();
        for gpu in 0..gpus {
            for process in 0..processes {
                let place = started.len();
                let own = match count {
                    1 => folder.to_owned(),
                    _ => folder.join(format!("proc_{process}_gpu_{gpu}")),
                };
                // What an earlier call left here must not pass for this one's result.
                let _ = fs::remove_file(own.join(FILE));
                let mut command = self.command(point, &own)?;
                if point.step.is_some_and(AblationStep::is_on_one_core) {
                    command.arg("--cores").args(cores[place].first());
                }
                if count > 1 {
                    command.arg("--cores").arg(cores[place].join(","));
                    if gpus > 1 {
                        command.env("CUDA_VISIBLE_DEVICES", gpu.to_string());
                    }
                }
                let child = command
                    .spawn()
                    .context("cannot start a process of this program")?;
                started.push((own, child));
            }
        }
        wait(&mut started, stop)?;
        let mut documents = Vec::new();
        for (own, child) in &mut started {
            let status = child.wait()?;
            ensure!(status.success(), "{} ended with {status}", own.display());
            let path = own.join(FILE);
            let text =
                fs::read(&path).with_context(|| format!("no result in {}", path.display()))?;
            documents.push(serde_json::from_slice::<Value>(&text)?);
        }
        if count > 1 {
            let args = json!({ "num_processes": processes, "num_gpus": gpus, "warmup_batches": self.args.warmup });
            let machine = &documents[0]["meta"]["machine_name"];
            let meta = json!({ "args": args, "machine_name": machine, "cores": cores });
            write(
                &folder.join("benchmark_mean.json"),
                &mean(&documents, meta)?,
            )?;
        }
        Ok(documents)
    }

    /// This program anew, for one run.
    fn command(&self, point: &Point, folder: &Path) -> anyhow::Result<Command> {
        let args = self.args;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("bench").arg("--one-of-several");
        command
            .arg("--output")
            .arg(folder)
            .arg("--root")
            .arg(&args.root);
        command.args(["--warmup".to_owned(), args.warmup.to_string()]);
        command.args(["--preload".to_owned(), args.preload.to_string()]);
        if let Some(config) = &point.config {
            command.arg("--config").arg(config);
        }
        let texts = [
            ("--source", args.source.clone()),
            ("--model", args.model.clone()),
            ("--batches", args.batches.map(|batches| batches.to_string())),
            (
                "--frames",
                args.max_frames().map(|frames| frames.to_string()),
            ),
            (
                "--duration",
                args.duration
                    .map(|time| format!("{}ms", time.as_millis().max(1))),
            ),
            ("--only", args.only.map(part_name)),
        ];
        for (option, value) in texts {
            if let Some(value) = value {
                command.arg(format!("{option}={value}"));
            }
        }
        for (key, value) in &point.settings {
            command.arg(format!("--set={key}={value}"));
        }
        if let Some(rung) = point.step {
            command.arg(format!("--ablation-step={}", rung.number()));
        }
        if args.no_record {
            command.arg("--no-record");
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(command)
    }
}

impl Speed {
    fn deserialize_from(value: &Value) -> anyhow::Result<Self> {
        serde_json::from_value(value.clone()).context("a process has written no speeds")
    }
}

fn part_name(part: PartArg) -> String {
    format!("{part:?}").to_lowercase()
}

/// Waits for all processes. When one fails, or a stop is asked for, the others are asked to end.
fn wait(started: &mut [(PathBuf, Child)], stop: &StopToken) -> anyhow::Result<()> {
    let mut is_ending = false;
    loop {
        let (mut running, mut failed) = (0, false);
        for (_, child) in started.iter_mut() {
            match child.try_wait()? {
                None => running += 1,
                Some(status) => failed |= !status.success(),
            }
        }
        if running == 0 {
            return Ok(());
        }
        if (failed || stop.is_stopped()) && !is_ending {
            is_ending = true;
            for (_, child) in started.iter_mut() {
                if child.try_wait()?.is_none()
                    && let Ok(id) = i32::try_from(child.id())
                    && let Some(id) = Pid::from_raw(id)
                {
                    // It may have ended this moment, which is as good.
                    let _ = rustix::process::kill_process(id, Signal::TERM);
                }
            }
        }
        // A stop in the meantime is seen in the next turn.
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// `detector.workers=2,batch_size=4` as the name of a folder.
fn folder_name(settings: &[(String, String)]) -> String {
    let part = |(key, value): &(String, String)| format!("{key}={value}");
    let name = settings.iter().map(part).collect::<Vec<_>>().join(",");
    let is_plain = |c: char| c.is_alphanumeric() || "=,._-".contains(c);
    name.chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect()
}

fn summarize((point, runs): (&Point, Vec<RunResult>)) -> PointResult {
    let fps: Vec<f64> = runs.iter().filter_map(|run| run.fps).collect();
    let inference: Vec<f64> = runs.iter().filter_map(|run| run.inference_fps).collect();
    PointResult {
        name: point.name.clone(),
        settings: point
            .settings
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect(),
        warnings: Noise::detect(&fps).iter().map(Noise::describe).collect(),
        fps: Statistics::from_values(&fps),
        inference_fps: Statistics::from_values(&inference),
        runs,
    }
}

/// A row for each point: medians over its rounds.
fn print(results: &[PointResult]) {
    println!(
        "{:<40} {:>5} {:>12} {:>20} {:>14}",
        "point", "runs", "frames/s", "from to", "network alone"
    );
    for point in results {
        let name = if point.name.is_empty() {
            "run"
        } else {
            &point.name
        };
        let Some(fps) = &point.fps else {
            println!("{name:<40} {:>5} {:>12}", 0, "failed");
            continue;
        };
        let inference = point
            .inference_fps
            .map_or("-".to_owned(), |fps| format!("{:.1}", fps.median));
        println!(
            "{name:<40} {:>5} {:>12.1} {:>20} {inference:>14}",
            fps.count,
            fps.median,
            format!("{:.1} to {:.1}", fps.min, fps.max),
        );
        for warning in &point.warnings {
            println!("Warning: {warning}");
        }
    }
    // With `backend: auto` one point may have an engine and another not; their speeds then say little of what was varied.
    let detectors = detectors(results);
    if detectors.len() > 1 {
        println!("Not all of them detected with the same:");
        for (detector, names) in detectors {
            println!("  {detector}: {}", names.join(" "));
        }
    }
}

/// What detected, in words, and the points where it did.
fn detectors(results: &[PointResult]) -> BTreeMap<&str, Vec<&str>> {
    let mut detectors: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for point in results {
        for detector in point.runs.iter().filter_map(|run| run.detector.as_deref()) {
            let names = detectors.entry(detector).or_default();
            if !names.contains(&point.name.as_str()) {
                names.push(&point.name);
            }
        }
    }
    detectors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_split_between_processes() {
        let cores: Vec<String> = (0..5).map(|core| core.to_string()).collect();
        assert_eq!(shares(&cores, 2), [["0", "1"], ["2", "3"]]);
        assert_eq!(shares(&cores[..2], 3), [["0"], ["1"], ["0"]]);
    }

    #[test]
    fn sweep_point_has_own_folder() {
        let settings = [("a.b", "1"), ("uri", "x:/y z")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(folder_name(&settings), "a.b=1,uri=x__y_z");
        assert_eq!(folder_name(&[]), "");
    }
}
