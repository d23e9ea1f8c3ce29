//! Results as tables for a terminal.

use std::collections::BTreeMap;

use serde_json::Value;

use super::run::Speed;
use super::series::PointResult;
use super::{Comparison, Gain};

/// The ranges of a `benchmark.json`, its speeds, and what limits them.
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
    }
    lines.push(String::new());
    add_speeds(speed, &mut lines);
    let throttling = meta["throttling"].as_array();
    for cause in throttling.into_iter().flatten().filter_map(Value::as_str) {
        lines.push(format!("Warning:   the machine was throttled: {cause}"));
    }
    lines.join("\n")
}

/// Times without the warm-up, in ms per batch of each range.
fn add_ranges(ranges: &[Value], lines: &mut Vec<String>) {
    lines.push(format!(
        "{:<20} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10}",
        "range, ms",
        "batches",
        "frames",
        "mean",
        "std",
        "median",
        "min",
        "max",
        "p99",
        "GPU mean",
        "frames/s"
    ));
    for range in ranges {
        let numbers = &range["minus_warmup"];
        let ms = |kind: &str, name: &str| {
            let number = numbers[kind][name].as_f64();
            number.map_or_else(|| "-".to_owned(), |number| format!("{number:.3}"))
        };
        let is_on_gpu = numbers["cpu_time"]["max"].as_f64() == Some(0.0);
        let kind = if is_on_gpu { "gpu_time" } else { "cpu_time" };
        lines.push(format!(
            "{:<20} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10.1}",
            indented(range["name"].as_str().unwrap_or("?")),
            numbers["batches"].to_string(),
            numbers["items"].to_string(),
            ms(kind, "mean"),
            ms(kind, "std"),
            ms(kind, "median"),
            ms(kind, "min"),
            ms(kind, "max"),
            ms(kind, "percentile_99"),
            ms("gpu_time", "mean"),
            numbers["throughput"].as_f64().unwrap_or_default(),
        ));
    }
}

fn indented(name: &str) -> String {
    match name.split_once('/') {
        Some((_, stage)) => format!("  {stage}"),
        None => name.to_owned(),
    }
}

fn add_speeds(speed: &Speed, lines: &mut Vec<String>) {
    let inference = speed.inference_fps.map_or_else(String::new, |fps| {
        format!(", network alone {fps:.1} frames/s")
    });
    let batches = speed
        .batches
        .map_or_else(String::new, |batches| format!(" in {batches} batches"));
    lines.push(format!("End to end {:.1} frames/s{inference}", speed.fps));
    lines.push(format!(
        "           {} frames{batches}, {:.2} ms CPU per frame, {:.0} MiB",
        speed.frames, speed.cpu_ms_per_frame, speed.peak_rss_mib
    ));
}

/// A row for each point: medians over its rounds.
pub(super) fn of_series(results: &[PointResult]) -> String {
    let mut lines = Vec::new();
    lines.push(format!(
        "{:<40} {:>5} {:>12} {:>20} {:>14}",
        "point", "runs", "frames/s", "from to", "network alone"
    ));
    for point in results {
        let name = if point.name.is_empty() {
            "run"
        } else {
            &point.name
        };
        let Some(fps) = &point.fps else {
            lines.push(format!("{name:<40} {:>5} {:>12}", 0, "failed"));
            continue;
        };
        let inference = point
            .inference_fps
            .map_or("-".to_owned(), |fps| format!("{:.1}", fps.median));
        lines.push(format!(
            "{name:<40} {:>5} {:>12.1} {:>20} {inference:>14}",
            fps.count,
            fps.median,
            format!("{:.1} to {:.1}", fps.min, fps.max),
        ));
        for warning in &point.warnings {
            lines.push(format!("Warning: {warning}"));
        }
    }
    // With `backend: auto` one point may have an engine and another not; their speeds then cannot be compared.
    let detectors = detectors(results);
    if detectors.len() > 1 {
        lines.push(format!("Not all of them detected with the same:"));
        for (detector, names) in detectors {
            lines.push(format!("  {detector}: {}", names.join(" ")));
        }
    }
    lines.join("\n")
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

/// A row for each step: its speed, its gain over the step before, and where its time went.
pub(super) fn of_ablation(steps: &[Gain]) -> String {
    let mut lines = Vec::new();
    lines.push(format!(
        "{:<30} {:>9} {:>9} {:>9} {:>8}   where the time went, ms per frame",
        "step", "frames/s", "ms/frame", "relative", "gained"
    ));
    for step in steps {
        let title = format!("{} {}", step.step, step.title);
        let (Some(fps), Some(ms), Some(relative)) =
            (&step.fps, step.ms_per_frame, step.relative_percent)
        else {
            lines.push(format!("{title:<30} {:>9}", "failed"));
            continue;
        };
        let gained = step.gain.as_ref().map_or_else(
            || "-".to_owned(),
            |gain| format!("{:.2} x", gain.statistics.median),
        );
        let spent = step.spent.iter();
        let spent: Vec<String> = spent
            .map(|spent| format!("{} {:.2}", spent.stage, spent.ms_per_frame))
            .collect();
        lines.push(format!(
            "{title:<30} {:>9.1} {ms:>9.2} {:>9} {gained:>8}   {}",
            fps.median,
            format!("{relative:.1} %"),
            spent.join(", ")
        ));
        for note in &step.notes {
            lines.push(format!("  {note}"));
        }
        // The noise of fewer rounds is not known.
        let noisy = |gain: &&Comparison| gain.ratios.len() >= 3 && !gain.is_clear;
        if step.gain.as_ref().filter(noisy).is_some() {
            lines.push(format!(
                "  the difference from the step before is within the noise"
            ));
        }
    }
    lines.join("\n")
}
