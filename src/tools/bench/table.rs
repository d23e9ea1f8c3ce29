// SPDX-License-Identifier: Apache-2.0
//! Results as tables for a terminal.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::ablation::Gain;
use super::run::Speed;
use jetwatch_tables::{Align, TextTable};
use jetwatch_telemetry::{OutputReport, Stage};

use super::results::{PointResult, RunResult};
use super::secondary::secondary_table;
use super::{Comparison, SecondaryResult, Statistics};

/// Parts that are named of an explanation.
const EXPLAINED_PARTS: usize = 4;

/// The ranges of a `benchmark.json`, its speeds, and their limit.
#[must_use]
pub fn run_table(document: &Value, speed: &Speed) -> String {
    let mut lines = Vec::new();
    let meta = &document["meta"];
    lines.push(format!(
        "Machine:   {}",
        meta["machine_name"].as_str().unwrap_or("unknown")
    ));
    if let Some(mode) = meta["power_mode"].as_str() {
        lines.push(format!("Power:     {mode}"));
    }
    if let Some(detector) = meta["versions"]["detector"].as_str() {
        lines.push(format!("Detector:  {detector}"));
    }
    if let Some(ranges) = document["ranges"].as_array() {
        lines.push(String::new());
        add_ranges(ranges, &mut lines);
        add_element_stages(document, ranges, &mut lines);
    }
    let networks = SecondaryResult::of_run(document);
    if !networks.is_empty() {
        lines.push(String::new());
        lines.extend(secondary_table([("", networks.as_slice())].into_iter()));
    }
    lines.push(String::new());
    add_outputs(document, &mut lines);
    add_speeds(speed, &mut lines);
    let throttling = meta["throttling"].as_array();
    for cause in throttling.into_iter().flatten().filter_map(Value::as_str) {
        lines.push(format!("Warning:   the machine was throttled: {cause}"));
    }
    lines.join("\n")
}

/// Times without the warm-up, in ms per batch of each range.
fn add_ranges(ranges: &[Value], lines: &mut Vec<String>) {
    let number = |range: &Value, name: &str| range["minus_warmup"][name].to_string();
    let ms =
        |range: &Value, kind: &str, name: &str| known(range["minus_warmup"][kind][name].as_f64());
    let time = |name: &'static str| {
        move |range: &Value| {
            let is_on_gpu = range["minus_warmup"]["cpu_time"]["max"].as_f64() == Some(0.0);
            let kind = if is_on_gpu { "gpu_time" } else { "cpu_time" };
            ms(range, kind, name)
        }
    };
    let table = TextTable::of(ranges)
        .left("range, ms", |range| {
            indented(range["name"].as_str().unwrap_or("?"))
        })
        .right("batches", |range| number(range, "batches"))
        .right("frames", |range| number(range, "items"))
        .right("mean", time("mean"))
        .right("std", time("std"))
        .right("median", time("median"))
        .right("min", time("min"))
        .right("max", time("max"))
        .right("p99", time("percentile_99"))
        .right("GPU mean", |range| ms(range, "gpu_time", "mean"))
        .right("frames/s per thread", |range| {
            let fps = range["minus_warmup"]["throughput"].as_f64();
            format!("{:.1}", fps.unwrap_or_default())
        })
        .build();
    lines.extend(table.lines());
}

/// A time in ms, where it is known.
fn known(ms: Option<f64>) -> String {
    ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.3}"))
}

/// Video decoding and scaling by elements, which run next to the batches: the work of their threads for an image, warm-up
/// included.
fn add_element_stages(document: &Value, ranges: &[Value], lines: &mut Vec<String>) {
    let stages = match &document["run"]["stages"] {
        Value::Null => &document["stages"],
        of_run => of_run,
    };
    let find = |stage: Stage| {
        let in_batch = format!("/{}", stage.name());
        let has_range = |range: &Value| {
            let name = range["name"].as_str();
            name.is_some_and(|name| name.ends_with(&in_batch))
        };
        let mut stages = stages.as_array().into_iter().flatten();
        let found = stages.find(|found| found["stage"] == stage.name())?;
        let images = found["items"].as_u64().filter(|images| *images > 0)?;
        (!ranges.iter().any(has_range)).then_some((stage, found, images))
    };
    let stages = [Stage::VideoDecode, Stage::Scale];
    let rows: Vec<(Stage, &Value, u64)> = stages.into_iter().filter_map(find).collect();
    if rows.is_empty() {
        return;
    }
    let per_image = |sum: &Value, images: u64| known(sum.as_f64().map(|sum| sum / images as f64));
    let table = TextTable::of(&rows)
        .left("work in elements, ms", |(stage, ..)| stage.name())
        .right("images", |(.., images)| images.to_string())
        .right("mean", |(_, it, images)| per_image(&it["busy_ms"], *images))
        .right("CPU mean", |(_, it, images)| {
            per_image(&it["cpu_ms"], *images)
        })
        .right("median", |(_, it, _)| known(it["p50_ms"].as_f64()))
        .right("p99", |(_, it, _)| known(it["p99_ms"].as_f64()))
        .right("max", |(_, it, _)| known(it["max_ms"].as_f64()))
        .build();
    lines.push(String::new());
    lines.extend(table.lines());
}

fn indented(name: &str) -> String {
    match name.split_once('/') {
        Some((_, stage)) => format!("  {stage}"),
        None => name.to_owned(),
    }
}

/// A further number with its unit, where it is known.
fn more(number: Option<f64>, unit: &str) -> String {
    number.map_or_else(String::new, |number| format!(", {number:.2} {unit}"))
}

fn add_speeds(speed: &Speed, lines: &mut Vec<String>) {
    let inference = speed.inference_fps.map_or_else(String::new, |fps| {
        let only = match speed.inferred_fps {
            // Frames that skip the network do not count for it.
            Some(inferred) if inferred < 0.99 * speed.fps => {
                format!(", {inferred:.1} of them with inference")
            }
            _ => String::new(),
        };
        format!("{only}; network alone (all workers) {fps:.1} frames/s with inference")
    });
    let batches = speed
        .batches
        .map_or_else(String::new, |batches| format!(" in {batches} batches"));
    let interval = match (speed.fps_interval(), speed.batches) {
        (Some((from, to)), _) => format!(" (95 % interval {from:.1} to {to:.1})"),
        (None, Some(_)) => " (interval unknown: fewer than three batches)".to_owned(),
        // Without single ranges there is nothing to estimate it from.
        (None, None) => String::new(),
    };
    lines.push(format!(
        "End to end {:.1} frames/s{interval}{inference}",
        speed.fps
    ));
    lines.push(format!(
        "           {} frames{batches}, {:.2} ms CPU per frame{}{}, {:.0} MiB",
        speed.frames,
        speed.cpu_ms_per_frame,
        more(speed.gpu_ms_per_frame, "ms GPU per frame"),
        more(speed.joules_per_frame, "J per frame"),
        speed.peak_rss_mib
    ));
    if let Some(latency) = &speed.latency {
        let whole = &latency.whole;
        let parts = latency.parts.iter();
        let parts: Vec<String> = parts
            .map(|part| format!("{} {:.1}", part.part, part.latency.median_ms))
            .collect();
        lines.push(format!(
            "Latency    {:.1} ms (median; 95 %: {:.1}, maximum {:.1}) from the arrival of a frame to its messages; medians of the \
             parts: {}",
            whole.median_ms,
            whole.p95_ms,
            whole.max_ms,
            parts.join(", ")
        ));
    }
    if let Some(occupancy) = &speed.occupancy {
        lines.push(format!(
            "CPU        {:.2} of {} cores, {}",
            occupancy.own_cores,
            occupancy.allowed_cores,
            occupancy.describe_others()
        ));
        if occupancy.is_disturbed() {
            lines.push(
                "Warning:   frames/s and times are not those of a free machine: compare the CPU time per frame, or measure again"
                    .to_owned(),
            );
        }
    }
}

/// A row for each output that was given something: it may lose messages, however fast the rest is.
fn add_outputs(document: &Value, lines: &mut Vec<String>) {
    let outputs = Vec::<OutputReport>::deserialize(&document["run"]["outputs"]);
    let mut outputs = outputs.unwrap_or_default();
    outputs.retain(|output| output.accepted + output.lost > 0);
    if outputs.is_empty() {
        return;
    }
    let run_ms = document["run"]["duration_s"].as_f64().unwrap_or(0.0) * 1e3;
    let table = TextTable::of(&outputs)
        .left("output", |output| output.name.as_str())
        .left("of", |output| output.items.as_str())
        .right("accepted", |output| output.accepted.to_string())
        .right("delivered", |output| output.delivered.to_string())
        .right("lost", |output| output.lost.to_string())
        .right("waiting at the end", |output| output.queued.to_string())
        .right("busy", move |output| {
            format!("{:.0} %", 100.0 * output.busy_ms / run_ms.max(1.0))
        })
        .build();
    lines.extend(table.lines());
    lines.push(String::new());
}

/// A row for each point: medians over its rounds.
pub(super) fn of_series(results: &[PointResult]) -> String {
    let mut columns = vec![("point", Align::Left)];
    let numbers = [
        "runs",
        "frames/s, end to end",
        "from to",
        "95 % interval",
        "ms/frame",
        "CPU ms/frame",
        "GPU ms/frame",
        "CPU of others",
        "latency, ms (95 %)",
        "network alone, all workers",
    ];
    columns.extend(numbers.map(|heading| (heading, Align::Right)));
    let mut table = TextTable::new(&columns);
    for point in results {
        let name = if point.name.is_empty() {
            "run"
        } else {
            &point.name
        };
        let Some(fps) = &point.fps else {
            table.push([name, "0", "failed"]);
            continue;
        };
        let inference = point
            .inference_fps
            .map_or("-".to_owned(), |fps| format!("{:.1}", fps.median));
        table.push([
            name.to_owned(),
            fps.count.to_string(),
            format!("{:.1}", fps.median),
            format!("{:.1} to {:.1}", fps.min, fps.max),
            point
                .fps_interval_95
                .map_or("-".to_owned(), |(from, to)| format!("{from:.1} to {to:.1}")),
            format!("{:.2}", 1e3 / fps.median),
            mean_of(point, |run| run.cpu_ms_per_frame, |ms| format!("{ms:.2}")),
            mean_of(point, |run| run.gpu_ms_per_frame, |ms| format!("{ms:.2}")),
            mean_of(
                point,
                |run| Some(run.occupancy.as_ref()?.foreign_share()),
                |share| format!("{:.0} %", share * 100.0),
            ),
            match mean_of(
                point,
                |run| Some(run.latency?.median_ms),
                |ms| format!("{ms:.1}"),
            ) {
                none if none == "-" => none,
                median => {
                    let p95 = mean_of(
                        point,
                        |run| Some(run.latency?.p95_ms),
                        |ms| format!("{ms:.1}"),
                    );
                    format!("{median} ({p95})")
                }
            },
            inference,
        ]);
    }
    let mut rows = table.lines();
    let mut lines: Vec<String> = rows.next().into_iter().collect();
    for (row, point) in rows.zip(results) {
        lines.push(row);
        if point.fps.is_some() {
            lines.extend(point.warnings.iter().map(|text| format!("Warning: {text}")));
        }
    }
    add_networks(results, &mut lines);
    lines.join("\n")
}

/// The mean of a number over the runs of a point, as text.
fn mean_of(
    point: &PointResult,
    of: fn(&RunResult) -> Option<f64>,
    text: fn(f64) -> String,
) -> String {
    let mean = jetwatch_types::mean(point.runs.iter().filter_map(of));
    mean.map_or_else(|| "-".to_owned(), text)
}

/// The secondary networks of each point, and warnings about the runtimes of the detectors.
fn add_networks(results: &[PointResult], lines: &mut Vec<String>) {
    let networks = results
        .iter()
        .map(|point| (point.name.as_str(), point.secondary.as_slice()));
    let networks = secondary_table(networks);
    if !networks.is_empty() {
        lines.push(String::new());
        lines.extend(networks);
    }
    // With `backend: auto` one point may have an engine and another not; their speeds then cannot be compared.
    let detectors = detectors(results);
    if detectors.len() > 1 {
        lines.push("Not all of them detected with the same:".to_owned());
        for (detector, names) in detectors {
            lines.push(format!("  {detector}: {}", names.join(" ")));
        }
    }
}

/// Descriptions of the detectors, and the points that used each.
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

/// The same for one round.
const ONE_ROUND: &str = "gained: of one round, so that the noise is unknown; --repeat 5 gives the range over interleaved rounds";

/// Explanation of the columns of an ablation with several rounds.
const GAINED: &str = "gained: each round's speed divided by that of the step before in the same round, median over the rounds; \
    frames/s: median over all rounds. On a machine with other load the two can disagree.";

/// A row for each step: its speed, its gain over the step before and over the first; below the first its keys; then what explains
/// the changes.
pub(super) fn of_ablation(steps: &[Gain], results: &[PointResult]) -> String {
    let mut columns = vec![("step", Align::Left)];
    let numbers = [
        "frames/s, end to end",
        "ms/frame",
        "of the first",
        "gained",
        "from to",
        "to the first",
    ];
    columns.extend(numbers.map(|heading| (heading, Align::Right)));
    let mut table = TextTable::new(&columns);
    // No factor where the difference is noise.
    let noisy = |gain: &&Comparison| gain.ratios.len() >= 3 && !gain.is_clear;
    let factor = |gain: &Option<Comparison>| {
        let clear = gain.as_ref().filter(|gain| !noisy(gain));
        let factor = clear.map(|gain| gain.statistics.median);
        factor.map_or_else(|| "-".to_owned(), |factor| format!("{factor:.2} x"))
    };
    for step in steps {
        let title = format!("{} {}", step.step, step.title);
        let (Some(fps), Some(ms)) = (&step.fps, step.ms_per_frame) else {
            table.push([title.as_str(), "failed"]);
            continue;
        };
        // None where the first step failed.
        let relative = step.relative_percent;
        let range = step.gain.as_ref().map(|gain| &gain.statistics);
        table.push([
            title,
            format!("{:.1}", fps.median),
            format!("{ms:.2}"),
            relative.map_or_else(|| "-".to_owned(), |share| format!("{share:.1} %")),
            factor(&step.gain),
            range.map_or_else(String::new, |gain| {
                format!("{:.2} to {:.2}", gain.min, gain.max)
            }),
            factor(&step.cumulative),
        ]);
    }
    let mut rows = table.lines();
    let mut lines: Vec<String> = rows.next().into_iter().collect();
    for (row, step) in rows.zip(steps) {
        lines.push(row);
        if step.step == 1 {
            lines.extend(step.settings.iter().map(|key| format!("  {key}")));
        }
        if step.fps.is_none() {
            continue;
        }
        lines.extend(step.notes.iter().map(|note| format!("  {note}")));
        // The variance of fewer rounds is unknown.
        if step.gain.as_ref().filter(noisy).is_some() {
            lines.push("  the difference from the step before is within the noise".to_owned());
        }
        if let Some(by) = &step.not_measurable {
            lines.push(format!("  gain: {by}"));
            if let Some(cpu) = &step.cpu_gain {
                let Statistics {
                    median, min, max, ..
                } = cpu.statistics;
                let noise = if noisy(&cpu) {
                    ", within the noise"
                } else {
                    ""
                };
                lines.push(format!(
                    "  by CPU time per frame: {median:.2} x ({min:.2} to {max:.2}){noise}"
                ));
            }
        }
    }
    if steps
        .iter()
        .any(|step| step.fps.as_ref().is_some_and(|fps| fps.count > 1))
    {
        lines.push(GAINED.to_owned());
    } else {
        lines.push(ONE_ROUND.to_owned());
    }
    add_explanations(steps, &mut lines);
    add_networks(results, &mut lines);
    lines.join("\n")
}

/// What explains the change of the time per frame, for each step: its parts, and what they do not explain, add up to it.
fn add_explanations(steps: &[Gain], lines: &mut Vec<String>) {
    let mut table = TextTable::new(&[
        ("change of the time per frame", Align::Left),
        ("ms", Align::Right),
        ("95 % interval", Align::Right),
        ("before", Align::Right),
        ("after", Align::Right),
    ]);
    let mut is_empty = true;
    let mut unexplained = Vec::new();
    for step in steps {
        let Some(found) = &step.explanation else {
            continue;
        };
        is_empty = false;
        let rest = &found.not_explained;
        let around = |ms: f64| {
            let half = rest.interval_95_ms.filter(|half| half.is_finite());
            half.map_or_else(
                || "unknown".to_owned(),
                |half| format!("{:+.2} to {:+.2}", ms - half, ms + half),
            )
        };
        table.push([
            format!("{} {}", step.step, step.title),
            format!("{:+.2}", found.measured_ms),
            around(found.measured_ms),
        ]);
        let (named, others) = found.parts.split_at(EXPLAINED_PARTS.min(found.parts.len()));
        for part in named {
            let (before, after) = part.cpu_ms.unwrap_or(found.cores);
            let unit = if part.cpu_ms.is_some() { " ms CPU" } else { "" };
            table.push([
                format!("  {}", part.name),
                format!("{:+.2}", part.change_ms),
                String::new(),
                format!("{before:.2}{unit}"),
                format!("{after:.2}{unit}"),
            ]);
        }
        let others: f64 = others.iter().map(|part| part.change_ms).sum();
        table.push(["  other stages".to_owned(), format!("{others:+.2}")]);
        table.push([
            "  not explained".to_owned(),
            format!("{:+.2}", rest.change_ms),
            around(rest.change_ms),
        ]);
        if rest.is_noise() == Some(false) {
            unexplained.push(step.step.to_string());
        }
    }
    if is_empty {
        return;
    }
    lines.push(String::new());
    lines.extend(table.lines());
    if !unexplained.is_empty() {
        lines.push(format!(
            "Step {}: more than noise is not explained; repeat on a quiet machine (--repeat)",
            unexplained.join(", ")
        ));
    }
}
