// SPDX-License-Identifier: Apache-2.0
//! `benchmark.json` as CV-CUDA's tools and `jetwatch bench` write it.
//!
//! Older ones have `data`, `mean_data` and `meta`: nested ranges with `cpu_time` and `gpu_time` in milliseconds. Newer ones
//! have `data_stats_minus_warmup`: the same with `mean`, `median` and so on for each time. Both are read; ranges are named
//! by their path. `batches` takes the times of single batches from `data`.

mod batches;

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use jetwatch_telemetry::Stage;
use jetwatch_types::{Rate, mean, standard_deviation};

use self::batches::Level;
use super::advice::{Finding, advise};
use super::metrics::{CaptureMetrics, RunNotes, StageNotes};
use super::run_tables::{MS, elements, run_tables};
use super::summary::{Load, Outliers, RangeSummary, ReportSummary, Throughput, Workload, outliers};
use super::table::{Table, listed};
use super::{ReportError, Result};

/// A parsed benchmark.
#[derive(Debug)]
pub(super) struct Benchmark {
    ranges: Vec<TimedRange>,
    throughput: Option<Throughput>,
    /// Number of processes whose means it holds; `None`: it is of one.
    processes: Option<u64>,
    workload: Workload,
    /// Findings of the verdict's rules for its run; `None` if another program wrote it.
    pub(super) findings: Option<Vec<Finding>>,
    /// What its run states beside the times of stages.
    run: RunNotes,
    stages: Vec<StageNotes>,
}

/// One range: its path, and its times in ms.
#[derive(Debug, Default)]
struct TimedRange {
    path: String,
    cpu: Statistics,
    gpu: Statistics,
    cpu_per_item: Option<f64>,
    gpu_per_item: Option<f64>,
    items: Option<f64>,
    /// Most items of a batch.
    most_items: Option<f64>,
    outliers: Outliers,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
struct Statistics {
    mean: Option<f64>,
    median: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    #[serde(rename = "std")]
    deviation: Option<f64>,
    percentile_99: Option<f64>,
    count: Option<f64>,
    /// The newer script counts the values as items.
    total_items: Option<f64>,
}

impl Benchmark {
    /// Parses a file. Fails if it is not a benchmark, or has no batch after the warm-up.
    pub(super) fn parse(path: &Path, value: &Value) -> Result<Self> {
        let wrong = |reason: String| ReportError::Content(path.to_owned(), reason);
        let object = value.as_object();
        let object = object.ok_or_else(|| wrong("it is not a JSON object".to_owned()))?;
        let sets = ["data_stats_minus_warmup", "mean_data", "data_mean", "data"];
        let set = sets.into_iter().find(|set| object.contains_key(*set));
        let mut ranges = Vec::new();
        match set {
            Some(set) => {
                let other = || format!("{set} is {}, expected an object", kind(&object[set]));
                let tree = object[set].as_object().ok_or_else(|| wrong(other()))?;
                walk(tree, "", &mut ranges).map_err(|problem| wrong(format!("{set}{problem}")))?;
                if ranges.is_empty() {
                    return Err(wrong(format!(
                        "{set} is empty: no batch is left after the warm-up, which is removed at the start and at the end; run more \
                         than twice as many batches as the warm-up has"
                    )));
                }
            }
            // Without the times of single batches (--no-record) the run is all there is.
            None if object.contains_key("run") => {}
            None => {
                let found: Vec<&String> = object.keys().take(8).collect();
                let found = listed(&found);
                return Err(wrong(format!(
                    "found the keys {found}, expected {} of a benchmark",
                    sets.join(" or ")
                )));
            }
        }
        let (meta, run) = (&value["meta"], &value["run"]);
        let levels = batches::levels(&value["data"], meta);
        for range in &mut ranges {
            range.add_single_times(&levels);
        }
        let mut means = ["mean_all_batches", "data_mean_all_procs"].into_iter();
        let is_mean = means.any(|key| object.contains_key(key));
        let processes = is_mean.then(|| {
            let number = |name: &str| meta["args"][name].as_u64().unwrap_or(1);
            number("num_processes") * number("num_gpus")
        });
        let shares = shares(&ranges);
        let is_on_gpu = ranges.iter().any(|range| range.gpu.mean.is_some());
        // Without a run, as of a part alone, the shares are all that is known.
        let has_run = object.contains_key("run");
        let is_ours = has_run || !shares.is_empty();
        let metrics = CaptureMetrics {
            detector_shares: shares,
            timed_on_gpu: is_on_gpu,
            ..CaptureMetrics::from_run(run, meta)
        };
        let findings = is_ours.then(|| advise(&metrics));
        // Of a part alone, they stand beside.
        let stages: Vec<StageNotes> = match has_run {
            true => metrics.run.stages.clone(),
            false => Deserialize::deserialize(&value["stages"]).unwrap_or_default(),
        };
        Ok(Self {
            throughput: throughput(value, &levels, &ranges),
            workload: workload(meta, &ranges),
            ranges,
            processes,
            findings,
            run: metrics.run,
            stages,
        })
    }

    /// All ranges with their times, and what the run states beside.
    pub(super) fn tables(&self) -> Vec<Table> {
        let stages = [Stage::VideoDecode, Stage::Scale].into_iter();
        let in_elements = stages.filter_map(|stage| {
            let in_batch = format!("/{}", stage.name());
            let mut ranges = self.ranges.iter();
            let is_range = ranges.any(|range| range.path.ends_with(&in_batch));
            let mut stages = self.stages.iter().filter(|found| found.items > 0.0);
            stages.find(|found| found.stage == stage.name() && !is_range)
        });
        let in_elements: Vec<StageNotes> = in_elements.cloned().collect();
        let mut tables = vec![self.ranges(), elements(&in_elements)];
        tables.extend(run_tables(&self.run));
        tables.retain(|table| !table.rows.is_empty());
        tables
    }

    fn ranges(&self) -> Table {
        let ns = |ms: Option<f64>| ms.map(|ms| ms * MS);
        let title = "Ranges of the benchmark, after warm-up";
        Table::of("benchmark", title, &self.ranges)
            .plain("Range", |timed| timed.path.as_str())
            .plain("Items Per Batch", |timed| timed.items)
            .plain("Batches", |timed| timed.cpu.count.map(|count| count as i64))
            .ns("CPU Avg", |timed| ns(timed.cpu.mean))
            .ns("CPU Med", |timed| ns(timed.cpu.median))
            .ns("CPU Min", |timed| ns(timed.cpu.min))
            .ns("CPU Max", |timed| ns(timed.cpu.max))
            .ns("CPU StdDev", |timed| ns(timed.cpu.deviation))
            .ns("CPU Per Item", |timed| ns(timed.cpu_per_item))
            .ns("GPU Avg", |timed| ns(timed.gpu.mean))
            .ns("GPU Med", |timed| ns(timed.gpu.median))
            .ns("GPU Per Item", |timed| ns(timed.gpu_per_item))
            .ns("CPU 99 %", |timed| ns(timed.cpu.percentile_99))
            .plain("Frames/s Per Thread", |timed| {
                Some(1e3 / timed.cpu_per_item.filter(|ms| *ms > 0.0)?)
            })
            .build()
    }

    /// Summary for comparisons.
    pub(super) fn summary(self, title: &str) -> ReportSummary {
        let version = match self.processes {
            Some(processes) => format!("benchmark_mean.json, means of {processes} processes"),
            None => "benchmark.json".to_owned(),
        };
        let ranges = self.ranges.into_iter().map(|timed| {
            let cpu_ns = timed.cpu.mean.unwrap_or(0.0) * MS;
            let count = timed.cpu.count.map(|count| count as u64);
            RangeSummary {
                name: timed.path,
                count,
                cpu_ns,
                cpu_deviation_ns: timed.cpu.deviation.map(|ms| ms * MS),
                cpu_total_ns: cpu_ns * count.unwrap_or(1) as f64,
                median_ns: timed.cpu.median.unwrap_or(0.0) * MS,
                max_ns: timed.cpu.max.unwrap_or(0.0) * MS,
                outliers: timed.outliers.count,
                outlier_excess_ns: timed.outliers.excess,
                gpu_ns: timed.gpu.mean.map(|ms| ms * MS),
            }
        });
        let fps = self.throughput.as_ref().map(|found| found.fps);
        // The means of several processes are not a part next to them.
        let is_one = self.processes.is_none();
        let loads = fps.into_iter().filter(|_| is_one).map(|fps| Load {
            fps: Some(fps),
            ..Load::default()
        });
        let findings = self.findings.iter().flatten();
        ReportSummary {
            title: title.to_owned(),
            version,
            loads: loads.collect(),
            throughput: self.throughput,
            ranges: ranges.collect(),
            workload: self.workload,
            rules: findings.map(|finding| finding.rule).collect(),
            ..ReportSummary::default()
        }
    }
}

impl TimedRange {
    /// Takes statistics that are missing from the times of single batches.
    fn add_single_times(&mut self, levels: &[Level]) {
        let times = levels.iter().find_map(|level| {
            let below = self.path.strip_prefix(level.path.as_str())?;
            level.times.get(below.trim_start_matches('/'))
        });
        let Some(times) = times.filter(|times| !times.is_empty()) else {
            return;
        };
        let mut ns: Vec<i64> = times.iter().map(|ms| (ms * MS) as i64).collect();
        self.outliers = outliers(&mut ns);
        if let Some(mean) = mean(times.iter().copied()) {
            let deviation = standard_deviation(times, mean, 1);
            let known = &mut self.cpu;
            known.deviation = known.deviation.or((times.len() > 1).then_some(deviation));
            known.count = known.count.or(Some(times.len() as f64));
            known.min = known.min.or(times.iter().copied().reduce(f64::min));
            known.max = known.max.or(times.iter().copied().reduce(f64::max));
        }
    }
}

/// Findings of the verdict's rules for a run: the values of `run` and `meta` of a `benchmark.json`.
#[must_use]
pub fn run_findings(run: &Value, meta: Option<&Value>) -> Vec<Finding> {
    advise(&CaptureMetrics::from_run(run, meta.unwrap_or(&Value::Null)))
}

/// What limits a trial of streams that did not keep up, and gave `late` frames too late; `None` where it is unknown.
#[must_use]
pub fn trial_limit(run: &Value, meta: Option<&Value>, late: u64) -> Option<Finding> {
    let mut metrics = CaptureMetrics::from_run(run, meta.unwrap_or(&Value::Null));
    metrics.run.late_in_trial = Some(late);
    let findings = advise(&metrics).into_iter();
    let known = findings.filter_map(|finding| Some((finding.limit_rank()?, finding)));
    let (_, mut limit) = known.min_by_key(|(rank, _)| *rank)?;
    // The streams set the pace.
    limit.stage = limit.stage.filter(|stage| *stage != Stage::Input.name());
    Some(limit)
}

/// Every object with a time is a range. The error names a time that is not a number.
fn walk(tree: &Map<String, Value>, path: &str, ranges: &mut Vec<TimedRange>) -> Result<(), String> {
    if tree.contains_key("cpu_time") || tree.contains_key("gpu_time") {
        // In the script's spelling, in that of its documentation, and of a batch.
        let per_item = |time: &str| {
            ["minus_warmup_per_item", "per_item_minus_warmup", "per_item"]
                .map(|end| format!("{time}_{end}"))
        };
        let number = |name: &str| tree.get(name).and_then(|value| statistics(value)?.mean);
        let first = |names: [String; 3]| names.iter().find_map(|name| number(name));
        let time = |name: &str| match tree.get(name) {
            None | Some(Value::Null) => Ok(Statistics::default()),
            Some(value) => statistics(value)
                .ok_or_else(|| format!(".{path}.{name} is {}, expected a time in ms", kind(value))),
        };
        ranges.push(TimedRange {
            path: path.to_owned(),
            cpu: time("cpu_time")?,
            // Zero stands where nothing ran on a GPU, or none was measured.
            gpu: time("gpu_time").map(|gpu| match gpu.mean {
                Some(mean) if mean > 0.0 => gpu,
                _ => Statistics::default(),
            })?,
            cpu_per_item: first(per_item("cpu_time")),
            gpu_per_item: first(per_item("gpu_time")).filter(|ms| *ms > 0.0),
            items: number("total_items_minus_warmup").or_else(|| number("total_items")),
            most_items: (tree.get("total_items").and_then(statistics))
                .and_then(|items| items.max.or(items.mean)),
            outliers: Outliers::default(),
        });
    }
    for (name, value) in tree {
        if name.starts_with("cpu_time") || name.starts_with("gpu_time") {
            continue;
        }
        if let Some(inner) = value.as_object() {
            walk(inner, &batches::below(path, name), ranges)?;
        }
    }
    Ok(())
}

/// A time as one number, as a list of one for each batch, or with its statistics.
fn statistics(value: &Value) -> Option<Statistics> {
    match value {
        Value::Number(number) => Some(Statistics {
            mean: number.as_f64(),
            ..Statistics::default()
        }),
        Value::Array(values) => {
            let values: Vec<f64> = values.iter().map(Value::as_f64).collect::<Option<_>>()?;
            let count = values.len() as f64;
            let mean = values.iter().sum::<f64>() / count;
            (count > 0.0).then(|| Statistics {
                mean: Some(mean),
                min: values.iter().copied().reduce(f64::min),
                max: values.iter().copied().reduce(f64::max),
                count: Some(count),
                ..Statistics::default()
            })
        }
        Value::Object(_) => {
            let found = Statistics::deserialize(value).ok();
            let found = found.filter(|found| found.mean.is_some())?;
            let count = found.count.or(found.total_items);
            Some(Statistics { count, ..found })
        }
        Value::Null | Value::Bool(_) | Value::String(_) => None,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The level of the detectors.
const DETECT: &str = "jetwatch/detect";

/// Shares of the detectors' time, 0 to 1, largest first; empty if the detectors were not measured.
fn shares(ranges: &[TimedRange]) -> Vec<(Stage, f64)> {
    // A range that is not in every batch counts as often as it was there.
    let find = |path: &str| {
        let cpu = ranges.iter().find(|range| range.path == path)?.cpu;
        Some(cpu.mean? * cpu.count.unwrap_or(1.0))
    };
    let Some(whole) = find(DETECT).filter(|whole| *whole > 0.0) else {
        return Vec::new();
    };
    let stages = [Stage::Batch, Stage::Tensor, Stage::Infer, Stage::Decode];
    let share = |stage: Stage| find(&format!("{DETECT}/{}", stage.name())).map(|time| time / whole);
    let shares = stages.into_iter().map(|stage| Some((stage, share(stage)?)));
    let mut shares: Vec<(Stage, f64)> = shares.flatten().collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares
}

/// Frames per second: what the file states, else of the batches of its first level that has frames.
fn throughput(document: &Value, levels: &[Level], ranges: &[TimedRange]) -> Option<Throughput> {
    let speed = &document["speed"];
    let number = |name: &str| speed[name].as_f64();
    let workers = document["run"]["workers"].as_f64().unwrap_or(1.0);
    let detect = levels.iter().find(|level| level.path == DETECT);
    let level = detect.or_else(|| levels.iter().find(|level| !level.batches.is_empty()));
    let estimated = level.and_then(|level| level.rate(workers));
    let stated = number("fps_all_processes").or(number("fps"));
    let fps = stated.or_else(|| level?.fps(workers))?;
    let error = number("fps_all_processes_standard_error").or(number("fps_standard_error"));
    let blocks = speed["fps_blocks"].as_u64().map(|blocks| blocks as usize);
    let rate = Rate::stated(fps, error, blocks)
        .or_else(|| estimated.map(|rate| rate.scaled(fps / rate.per_second)));
    let of_level = ranges.iter().find(|range| range.path == DETECT);
    let gpu = number("gpu_ms_per_frame").or_else(|| of_level?.gpu_per_item);
    let mut throughput = Throughput {
        fps,
        rate,
        gpu_ns: gpu.map(|ms| ms * MS),
        joules: number("joules_per_frame"),
        ..Throughput::default()
    };
    throughput.add_notes(speed);
    Some(throughput)
}

/// What `meta` states about the work.
fn workload(meta: &Value, ranges: &[TimedRange]) -> Workload {
    let settings = meta["settings"].as_array().into_iter().flatten();
    let mut settings = settings.filter_map(|pair| pair.as_str()?.split_once('='));
    let is_size = |key: &str| ["batch_size", "detector.batch_size"].contains(&key);
    let set = settings.find(|(key, _)| is_size(key));
    let set = set.and_then(|(_, value)| value.parse().ok());
    let detect = ranges.iter().find(|range| range.path == DETECT);
    let largest = detect.and_then(|range| Some(range.most_items? as u64));
    let mut workload = Workload {
        batch_size: meta["batch_size"].as_u64().or(set).or(largest),
        ..Workload::default()
    };
    workload.add_notes(meta);
    workload
}

#[cfg(test)]
mod tests {
    use super::super::analysis::parse_measurement;
    use super::*;
    use serde_json::json;

    fn digest(json: &str) -> Result<ReportSummary, String> {
        let path = Path::new("benchmark.json");
        let json = parse_measurement(path, json.as_bytes());
        let found = json.and_then(|json| Benchmark::parse(path, &json));
        Ok(found.map_err(|error| error.to_string())?.summary("a"))
    }

    #[test]
    fn both_benchmark_key_sets_are_parsed() {
        let older = r#"{"data": {"run": {"cpu_time": 90}}, "meta": {"batch_size": 4}, "mean_data": {"run/pipeline": {
            "cpu_time": 3.5, "gpu_time": 2.25, "cpu_time_per_item": 0.875, "total_items": 4, "decode": {"cpu_time": 1.5, "gpu_time": 0}}}}"#;
        let found = digest(older).expect("a benchmark");
        fn of(found: &ReportSummary, at: usize) -> (&str, f64, Option<f64>) {
            let range = &found.ranges[at];
            (&range.name, range.cpu_ns, range.gpu_ns)
        }
        assert_eq!(of(&found, 0), ("run/pipeline", 3.5e6, Some(2.25e6)));
        assert_eq!(of(&found, 1), ("run/pipeline/decode", 1.5e6, None));
        assert_eq!(found.workload.batch_size, Some(4));

        let newer = r#"{"data": {}, "data_stats_minus_warmup": {"run": {"pipeline": {
            "cpu_time": {"mean": 4.0, "median": 3.9, "std": 0.5, "min": 3, "max": 6, "count": 10}, "gpu_time": {"mean": 1}}}}}"#;
        let found = digest(newer).expect("a benchmark");
        assert_eq!(of(&found, 0), ("run/pipeline", 4.0e6, Some(1.0e6)));
        let range = &found.ranges[0];
        assert_eq!(
            (range.count, range.max_ns, range.cpu_deviation_ns),
            (Some(10), 6.0e6, Some(0.5e6))
        );
    }

    #[test]
    fn invalid_benchmark_is_reported() {
        for case in [
            r#"{"data": { => not complete JSON"#,
            "[] => not a JSON object",
            "{} => found the keys none, expected data_stats_minus_warmup",
            r#"{"results": 1} => found the keys results"#,
            r#"{"data": [], "meta": {}} => data is a list, expected an object"#,
            r#"{"data": {"a": {"cpu_time": 1}}, "mean_data": {}} => no batch is left after the warm-up"#,
            r#"{"mean_data": {"a": {"cpu_time": "fast"}}} => mean_data.a.cpu_time is a text, expected a time in ms"#,
        ] {
            let (json, expected) = case.split_once(" => ").expect("a file and its error");
            let error = digest(json).expect_err(json);
            assert!(error.contains(expected), "{json}: {error}");
        }
    }

    #[test]
    fn shares_count_batches_in_which_a_range_was() {
        let range = |(path, mean, count): (&str, f64, f64)| TimedRange {
            path: path.to_owned(),
            cpu: Statistics {
                mean: Some(mean),
                count: Some(count),
                ..Statistics::default()
            },
            ..TimedRange::default()
        };
        let ranges = [
            ("jetwatch/detect", 10.0, 20.0),
            ("jetwatch/detect/infer", 9.4, 20.0),
            // In half of the batches.
            ("jetwatch/detect/tensor", 0.8, 10.0),
            ("jetwatch/track", 99.0, 20.0),
        ]
        .map(range);
        let found: Vec<(Stage, i64)> = shares(&ranges)
            .iter()
            .map(|(stage, share)| (*stage, (share * 100.0).round() as i64))
            .collect();
        assert_eq!(found, [(Stage::Infer, 94), (Stage::Tensor, 4)]);
        assert_eq!(shares(&[]), []);
    }

    #[test]
    fn stated_speed_has_precedence_over_batches() {
        let mut detect = json!({});
        for at in 0..6 {
            detect[format!("batch_{at}")] = json!({"cpu_time": 20.0, "total_items": 2});
        }
        let mut document = json!({"data": {"jetwatch": {"detect": detect}}, "run": {"workers": 2}});
        let found = |document: &Value| {
            let levels = batches::levels(&document["data"], &Value::Null);
            throughput(document, &levels, &[]).expect("frames")
        };
        // Two workers, each with two frames in 20 ms.
        let estimated = found(&document);
        assert!((estimated.fps - 200.0).abs() < 1e-9);
        assert!(
            estimated
                .rate
                .is_some_and(|rate| rate.standard_error < 1e-9)
        );
        document["speed"] = json!({"fps": 150.0, "fps_standard_error": 3.0, "fps_blocks": 6, "gpu_ms_per_frame": 0.5});
        let stated = found(&document);
        assert_eq!((stated.fps, stated.gpu_ns), (150.0, Some(0.5e6)));
        assert_eq!(
            stated.rate.map(|rate| (rate.standard_error, rate.blocks)),
            Some((3.0, 6))
        );
        // Of several processes it is their sum.
        document["speed"] = json!({"fps": 75.0, "fps_all_processes": 150.0});
        assert_eq!(found(&document).fps, 150.0);
        assert_eq!(throughput(&Value::Null, &[], &[]), None);
    }

    #[test]
    fn batch_size_is_what_was_set_or_seen() {
        let of = |meta: &Value, most_items: Option<f64>| {
            let range = TimedRange {
                path: DETECT.to_owned(),
                most_items,
                ..TimedRange::default()
            };
            workload(meta, &[range]).batch_size
        };
        assert_eq!(of(&json!({"batch_size": 3}), Some(8.0)), Some(3));
        assert_eq!(
            of(
                &json!({"settings": ["a=b", "detector.batch_size=4"]}),
                Some(8.0)
            ),
            Some(4)
        );
        assert_eq!(of(&json!({}), Some(8.0)), Some(8));
        let meta = json!({"config": null, "varied": {"workers": "2"}, "base_hash": "x", "settings": ["workers=2"]});
        let found = workload(&meta, &[]);
        assert_eq!(found.varied.get("workers").map(String::as_str), Some("2"));
        assert_eq!(found.base.as_deref(), Some("x"));
    }
}
