// SPDX-License-Identifier: Apache-2.0
//! `series.json` of `jetwatch bench`: the points of a sweep, the steps of an ablation, or the trials of a search for streams, as
//! tables and plots; and several of them, such as those of two machines, next to each other.

use std::borrow::Cow;
use std::path::Path;

use serde_json::{Value, json};

use super::ReportError;
use super::summary::ReportSummary;
use super::table::{Cell, Column, Table, Unit, percent, unitless};

/// A parsed series.
#[derive(Debug, Clone)]
pub struct Series {
    kind: Kind,
    machine: Option<String>,
    /// Name and median of the frames per second of each point, step or number of streams.
    points: Vec<(String, Option<f64>)>,
    tables: Vec<Table>,
    findings: Vec<String>,
    /// Drops against streams: number of streams, share of the frames in percent.
    drops: Vec<(u64, f64)>,
}

/// What was run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Points,
    Ablation,
    Streams,
}

impl Series {
    /// Parses a file; `None` where it is JSON of another kind.
    ///
    /// # Errors
    /// It is a series, but a part is missing.
    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Option<Self>, ReportError> {
        // What is no JSON is reported by the reader of benchmarks.
        let Ok(document) = serde_json::from_slice::<Value>(bytes) else {
            return Ok(None);
        };
        let kind = match () {
            () if document["ablation"]["steps"].is_array() => Kind::Ablation,
            () if document["streams"]["trials"].is_array() => Kind::Streams,
            () if document["points"].is_array() => Kind::Points,
            () => return Ok(None),
        };
        let mut series = Self {
            kind,
            machine: document["machine"]["name"].as_str().map(str::to_owned),
            points: Vec::new(),
            tables: Vec::new(),
            findings: Vec::new(),
            drops: Vec::new(),
        };
        match kind {
            Kind::Ablation => series.read_ablation(list(&document["ablation"]["steps"])),
            Kind::Streams => series.read_streams(&document["streams"]),
            Kind::Points => series.read_points(list(&document["points"]), &document["comparison"]),
        }
        if series.points.is_empty() {
            return Err(ReportError::Benchmark {
                path: path.to_owned(),
                reason:
                    "it is a series without a result: the benchmark was interrupted; run it again"
                        .to_owned(),
            });
        }
        Ok(Some(series))
    }

    /// What the series is, for the heading.
    pub(super) fn version(&self) -> String {
        let kind = match self.kind {
            Kind::Points => "runs of jetwatch bench",
            Kind::Ablation => "ablation of jetwatch bench",
            Kind::Streams => "streams of jetwatch bench",
        };
        match &self.machine {
            Some(machine) => format!("{kind}, {machine}"),
            None => kind.to_owned(),
        }
    }

    pub(super) fn tables(&self) -> Vec<Table> {
        self.tables.clone()
    }

    pub(super) fn findings(&self) -> Vec<String> {
        self.findings.clone()
    }

    pub(super) fn summary(&self, title: &str) -> ReportSummary {
        ReportSummary {
            title: title.to_owned(),
            version: self.version(),
            ..ReportSummary::default()
        }
    }

    /// Data of the plots: bars of frames per second, and drops against streams.
    pub(super) fn plot(&self) -> Value {
        let bars = self.points.iter().filter_map(|(name, fps)| {
            let fps = (*fps)?;
            Some(json!({ "name": name, "value": fps, "text": format!("{fps:.1} frames/s") }))
        });
        let drops = self.drops.iter();
        let drops = drops.map(|(streams, share)| json!({ "x": streams, "y": share }));
        json!({ "bars": bars.collect::<Vec<_>>(), "drops": drops.collect::<Vec<_>>() })
    }

    fn read_points(&mut self, points: &[Value], comparison: &Value) {
        let columns = [
            unitless("Point"),
            unitless("Runs"),
            unitless("Frames/s"),
            unitless("From"),
            unitless("To"),
            unitless("Network Alone, Frames/s"),
        ];
        let mut table = Table::new(
            "series",
            "Frames per second, medians over the runs",
            &columns,
        );
        let mut fastest: Option<(&str, f64)> = None;
        for point in points {
            let name = point_name(point);
            let fps = &point["fps"];
            let median = fps["median"].as_f64();
            table.rows.push(vec![
                name.into(),
                fps["count"].as_u64().into(),
                median.into(),
                fps["min"].as_f64().into(),
                fps["max"].as_f64().into(),
                point["inference_fps"]["median"].as_f64().into(),
            ]);
            self.points.push((name.to_owned(), median));
            if let Some(median) = median.filter(|fps| fastest.is_none_or(|(_, best)| *fps > best)) {
                fastest = Some((name, median));
            }
        }
        self.tables.push(table);
        if let (Some((name, fps)), true) = (fastest, points.len() > 1) {
            self.findings
                .push(format!("fastest: {name}, with {fps:.1} frames/s\n"));
        }
        if let Some(ratio) = comparison["statistics"]["median"].as_f64() {
            self.findings.push(format!(
                "the second runs at {ratio:.3} times the speed of the first, median of the pairs\n"
            ));
        }
        self.read_secondary(points);
        for point in points {
            for network in list(&point["secondary"]) {
                let dropped = network["dropped_percent"].as_f64().unwrap_or(0.0);
                if dropped > 0.0 {
                    self.findings.push(format!(
                        "{}: {} dropped {dropped:.1} % of its crops; raise its batch_size or workers\n",
                        point_name(point),
                        network["name"].as_str().unwrap_or("?")
                    ));
                }
            }
        }
    }

    /// A row for each secondary network of each point or step.
    fn read_secondary(&mut self, points: &[Value]) {
        let columns = [
            unitless("Point"),
            unitless("Secondary Network"),
            unitless("Crops/s"),
            unitless("Crops/Frame"),
            unitless("Dropped Crops"),
            percent("Dropped"),
            unitless("Batch Size"),
            unitless("Crops in a Batch"),
            percent("Fill"),
            unitless("Wait, ms"),
            unitless("Infer, ms"),
            unitless("Suggested Batch Size"),
        ];
        let mut table = Table::new("series_secondary", "Secondary networks", &columns);
        for point in points {
            for network in list(&point["secondary"]) {
                let mut row: Vec<Cell> =
                    vec![point_name(point).into(), network["name"].as_str().into()];
                let numbers = [
                    "crops_per_s",
                    "crops_per_frame",
                    "dropped_crops",
                    "dropped_percent",
                    "batch_size",
                    "mean_batch",
                    "fill_percent",
                    "wait_ms",
                    "infer_ms",
                    "suggested_batch_size",
                ];
                row.extend(numbers.map(|key| Cell::from(network[key].as_f64())));
                table.rows.push(row);
            }
        }
        if !table.rows.is_empty() {
            self.tables.push(table);
        }
    }

    fn read_ablation(&mut self, steps: &[Value]) {
        let columns = [
            unitless("Step"),
            unitless("Frames/s"),
            unitless("ms/Frame"),
            percent("Of the First"),
            unitless("Gained"),
            unitless("To the First"),
            unitless("Sets"),
        ];
        let mut table = Table::new("ablation", "Gain of each step", &columns);
        for step in steps {
            let name = step_name(step);
            let fps = step["fps"]["median"].as_f64();
            let sets = list(&step["settings"]).iter().filter_map(Value::as_str);
            let sets: Vec<&str> = sets.collect();
            table.rows.push(vec![
                name.as_str().into(),
                fps.into(),
                factor(step["ms_per_frame"].as_f64(), ""),
                step["relative_percent"].as_f64().into(),
                factor(step["gain"]["statistics"]["median"].as_f64(), " x"),
                factor(step["cumulative"]["statistics"]["median"].as_f64(), " x"),
                sets.join("; ").into(),
            ]);
            self.points.push((name, fps));
        }
        self.tables.push(table);
        self.read_explanations(steps);
        self.read_secondary(steps);
        let last = steps.iter().rfind(|step| !step["cumulative"].is_null());
        if let Some(last) = last
            && let Some(total) = last["cumulative"]["statistics"]["median"].as_f64()
        {
            let name = step_name(last);
            self.findings.push(format!(
                "{total:.2} times the speed of the first step at \"{name}\"\n"
            ));
        }
    }

    fn read_explanations(&mut self, steps: &[Value]) {
        let columns = [
            unitless("Step"),
            unitless("Part"),
            unitless("Change, ms"),
            unitless("95 % Interval, ms"),
            unitless("Before"),
            unitless("After"),
        ];
        let title = "Change of the time per frame from step to step: its parts, and what they do not explain, add up to it";
        let mut table = Table::new("ablation_explanation", title, &columns);
        for step in steps {
            let found = &step["explanation"];
            if found.is_null() {
                continue;
            }
            // Earlier versions wrote statistics over the rounds, and no interval.
            let measured = &found["measured_ms"];
            let measured = measured.as_f64().or(measured["mean"].as_f64());
            let rest = &found["not_explained"];
            let unexplained = rest["change_ms"].as_f64();
            let unexplained = unexplained.or(found["residual_ms"]["mean"].as_f64());
            let half = rest["interval_95_ms"].as_f64();
            let mut row = |part: &str, change: Option<f64>, half: Option<f64>, ends: &Value| {
                table.rows.push(vec![
                    step_name(step).into(),
                    part.into(),
                    factor(change, ""),
                    half.map(|half| format!("± {half:.2}")).into(),
                    factor(ends[0].as_f64(), ""),
                    factor(ends[1].as_f64(), ""),
                ]);
            };
            row("measured", measured, half, &Value::Null);
            for part in list(&found["parts"]) {
                let ends = match &part["cpu_ms"] {
                    Value::Null => &found["cores"],
                    ends => ends,
                };
                let name = part["name"].as_str().unwrap_or("?");
                row(name, part["change_ms"].as_f64(), None, ends);
            }
            row("not explained", unexplained, half, &Value::Null);
        }
        if !table.rows.is_empty() {
            self.tables.push(table);
        }
    }

    fn read_streams(&mut self, streams: &Value) {
        let columns = [
            unitless("Streams"),
            unitless("Kept Up"),
            unitless("Frames/s"),
            unitless("Received"),
            unitless("Dropped"),
            unitless("Late"),
            unitless("Dropped Crops"),
            unitless("Latency, ms"),
            unitless("Longest, ms"),
            unitless("Reason"),
        ];
        let mut table = Table::new("streams", "Trials, in their order", &columns);
        let trials = list(&streams["trials"]);
        let mut counts: Vec<u64> = Vec::new();
        for trial in trials {
            let count = trial["streams"].as_u64().unwrap_or(0);
            counts.push(count);
            let number = |key: &str| trial[key].as_u64().unwrap_or(0);
            let has_kept_up = trial["has_kept_up"] == true;
            table.rows.push(vec![
                count.into(),
                if has_kept_up { "yes" } else { "no" }.into(),
                trial["fps"].as_f64().into(),
                number("received").into(),
                number("dropped").into(),
                number("late").into(),
                number("dropped_crops").into(),
                trial["latency_mean_ms"].as_f64().into(),
                trial["latency_max_ms"].as_f64().into(),
                trial["shortfall"].as_str().into(),
            ]);
        }
        self.tables.push(table);
        counts.sort_unstable();
        counts.dedup();
        for count in counts {
            let own = || {
                trials
                    .iter()
                    .filter(|trial| trial["streams"].as_u64() == Some(count))
            };
            let sum = |key: &str| -> f64 { own().filter_map(|trial| trial[key].as_f64()).sum() };
            let lost = 100.0 * (sum("dropped") + sum("late")) / sum("received").max(1.0);
            let trials = own().count().max(1) as f64;
            self.drops.push((count, lost));
            self.points
                .push((stream_count(count), Some(sum("fps") / trials)));
        }
        let fit = &streams["fit"];
        if let Some(count) = fit["streams"].as_u64() {
            let rate = streams["rate"].as_f64();
            let of = rate.map_or_else(String::new, |rate| format!(" of {rate:.1} frames/s"));
            let bound = if fit["is_lower_bound"] == true {
                "at least "
            } else {
                ""
            };
            let number = |of: &Value, key: &str| of[key].as_u64().unwrap_or(0);
            let trials = |of: &Value| number(of, "passed") + number(of, "failed");
            self.findings.push(format!(
                "{bound}{}{of} {}: {} of {} trials without drops; with one more {} of {}\n",
                stream_count(count),
                if count == 1 { "fits" } else { "fit" },
                number(&fit["at"], "passed"),
                trials(&fit["at"]),
                number(&fit["above"], "passed"),
                trials(&fit["above"]),
            ));
        }
        if let Some(limit) = streams["limit"]["text"].as_str() {
            self.findings
                .push(format!("what limits the next one: {limit}\n"));
        }
    }
}

/// Series of several machines or configurations next to each other: frames per second of each point, and their ratio to the
/// first one. `titles` are those of the files.
#[must_use]
pub fn side_by_side(series: &[(&str, &Series)]) -> Table {
    let mut columns = vec![unitless("Point")];
    let machines: Vec<&str> = series
        .iter()
        .map(|(title, series)| series.machine.as_deref().unwrap_or(title))
        .collect();
    for (at, (title, _)) in series.iter().enumerate() {
        let is_unique = machines
            .iter()
            .filter(|name| **name == machines[at])
            .count()
            == 1;
        let name = match is_unique {
            true => machines[at].to_owned(),
            false => format!("{}, {title}", machines[at]),
        };
        columns.push(Column {
            name: Cow::Owned(format!("Frames/s, {name}")),
            unit: Unit::Unitless,
        });
        if at > 0 {
            columns.push(unitless("To the First Column"));
        }
    }
    let mut table = Table::new("machines", "The same points side by side", &columns);
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in series.iter().flat_map(|(_, series)| &series.points) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    for name in names {
        let mut row: Vec<Cell> = vec![name.into()];
        let mut first = None;
        for (at, (_, series)) in series.iter().enumerate() {
            let found = series.points.iter().find(|(own, _)| own == name);
            let fps = found.and_then(|(_, fps)| *fps);
            row.push(fps.into());
            match at {
                0 => first = fps,
                _ => row.push(factor(fps.zip(first).map(|(fps, first)| fps / first), " x")),
            }
        }
        table.rows.push(row);
    }
    table
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The name of a point or a step.
fn point_name(point: &Value) -> &str {
    point["name"]
        .as_str()
        .filter(|name| !name.is_empty())
        .unwrap_or("run")
}

fn step_name(step: &Value) -> String {
    let number = step["step"].as_u64().unwrap_or(0);
    format!("{number} {}", step["title"].as_str().unwrap_or("?"))
}

/// A number with two digits.
/// A number of streams, as text.
fn stream_count(count: u64) -> String {
    match count {
        1 => "1 stream".to_owned(),
        count => format!("{count} streams"),
    }
}

fn factor(number: Option<f64>, unit: &str) -> Cell {
    number.map(|number| format!("{number:.2}{unit}")).into()
}

#[cfg(test)]
mod tests;
