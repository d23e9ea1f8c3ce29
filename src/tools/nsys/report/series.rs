// SPDX-License-Identifier: Apache-2.0
//! `series.json` of `jetwatch bench`: the points of a sweep, the steps of an ablation, or the trials of a search for streams, as
//! tables and plots; and several of them, such as those of two machines, next to each other.

use std::path::Path;

use serde_json::{Value, json};

use super::ReportError;
use super::summary::ReportSummary;
use super::table::Table;

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
            Kind::Points => series.read_points(list(&document["points"])),
        }
        if let Some(verdict) = document["verdict"].as_str() {
            series.findings.insert(0, format!("{verdict}\n"));
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

    fn read_points(&mut self, points: &[Value]) {
        let fps = |point: &Value, key: &str| point["fps"][key].as_f64();
        let title = "Frames per second, medians over the runs";
        let table = Table::of("series", title, points)
            .plain("Point", point_name)
            .plain("Runs", |point| point["fps"]["count"].as_u64())
            .plain("Frames/s", |point| fps(point, "median"))
            .plain("From", |point| fps(point, "min"))
            .plain("To", |point| fps(point, "max"))
            .plain("Network Alone, Frames/s", |point| {
                point["inference_fps"]["median"].as_f64()
            })
            .build();
        self.tables.push(table);
        let named = points.iter();
        let named = named.map(|point| (point_name(point).to_owned(), fps(point, "median")));
        self.points.extend(named);
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
        type Row<'v> = (&'v str, &'v Value);
        let networks = points.iter().flat_map(|point| {
            let networks = list(&point["secondary"]).iter();
            networks.map(|network| (point_name(point), network))
        });
        let rows: Vec<Row<'_>> = networks.collect();
        if rows.is_empty() {
            return;
        }
        let number = |key: &'static str| move |(_, network): &Row<'_>| network[key].as_f64();
        let table = Table::of("series_secondary", "Secondary networks", &rows)
            .plain("Point", |(point, _)| *point)
            .plain("Secondary Network", |(_, network)| network["name"].as_str())
            .plain("Crops/s", number("crops_per_s"))
            .plain("Crops/Frame", number("crops_per_frame"))
            .plain("Dropped Crops", number("dropped_crops"))
            .percent("Dropped", number("dropped_percent"))
            .plain("Batch Size", number("batch_size"))
            .plain("Crops in a Batch", number("mean_batch"))
            .percent("Fill", number("fill_percent"))
            .plain("Wait, ms", number("wait_ms"))
            .plain("Infer, ms", number("infer_ms"))
            .plain("Suggested Batch Size", number("suggested_batch_size"))
            .build();
        self.tables.push(table);
    }

    fn read_ablation(&mut self, steps: &[Value]) {
        let median = |statistics: &Value| statistics["median"].as_f64();
        let gain = |gain: &Value| factor(median(&gain["statistics"]), " x");
        let table = Table::of("ablation", "Gain of each step", steps)
            .plain("Step", step_name)
            .plain("Frames/s", |step| median(&step["fps"]))
            .plain("ms/Frame", |step| factor(step["ms_per_frame"].as_f64(), ""))
            .percent("Of the First", |step| step["relative_percent"].as_f64())
            .plain("Gained", |step| gain(&step["gain"]))
            .plain("To the First", |step| gain(&step["cumulative"]))
            .plain("Sets", |step| {
                let sets = list(&step["settings"]).iter().filter_map(Value::as_str);
                sets.collect::<Vec<_>>().join("; ")
            })
            .build();
        self.tables.push(table);
        let points = steps
            .iter()
            .map(|step| (step_name(step), median(&step["fps"])));
        self.points.extend(points);
        self.read_explanations(steps);
        self.read_secondary(steps);
        // Not where it is noise, or could not be measured.
        let is_clear = |gain: &Value| !gain.is_null() && gain["is_clear"] != false;
        let last = steps.iter().rfind(|step| is_clear(&step["cumulative"]));
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
        /// Step, part, change and half of its interval in ms, and the ends.
        type Row<'v> = (&'v Value, &'v str, Option<f64>, Option<f64>, &'v Value);
        let mut rows: Vec<Row<'_>> = Vec::new();
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
            rows.push((step, "measured", measured, half, &Value::Null));
            for part in list(&found["parts"]) {
                let ends = match &part["cpu_ms"] {
                    Value::Null => &found["cores"],
                    ends => ends,
                };
                let name = part["name"].as_str().unwrap_or("?");
                rows.push((step, name, part["change_ms"].as_f64(), None, ends));
            }
            rows.push((step, "not explained", unexplained, half, &Value::Null));
        }
        if rows.is_empty() {
            return;
        }
        let title = "Change of the time per frame from step to step: its parts, and what they do not explain, add up to it";
        let table = Table::of("ablation_explanation", title, &rows)
            .plain("Step", |(step, ..)| step_name(step))
            .plain("Part", |(_, part, ..)| *part)
            .plain("Change, ms", |(_, _, change, ..)| factor(*change, ""))
            .plain("95 % Interval, ms", |(.., half, _)| {
                half.map(|half| format!("± {half:.2}"))
            })
            .plain("Before", |(.., ends)| factor(ends[0].as_f64(), ""))
            .plain("After", |(.., ends)| factor(ends[1].as_f64(), ""))
            .build();
        self.tables.push(table);
    }

    fn read_streams(&mut self, streams: &Value) {
        let trials = list(&streams["trials"]);
        let number = |trial: &Value, key: &str| trial[key].as_u64().unwrap_or(0);
        let count = |key: &'static str| move |trial: &Value| number(trial, key);
        let ms = |key: &'static str| move |trial: &Value| trial[key].as_f64();
        let table = Table::of("streams", "Trials, in their order", trials)
            .plain("Streams", count("streams"))
            .plain("Kept Up", |trial| match trial["has_kept_up"] == true {
                true => "yes",
                false => "no",
            })
            .plain("Frames/s", ms("fps"))
            .plain("Received", count("received"))
            .plain("Dropped", count("dropped"))
            .plain("Late", count("late"))
            .plain("Dropped Crops", count("dropped_crops"))
            .plain("Latency, ms", ms("latency_median_ms"))
            .plain("95 %, ms", ms("latency_p95_ms"))
            .plain("Longest, ms", ms("latency_max_ms"))
            .plain("Reason", |trial| trial["shortfall"].as_str())
            .build();
        self.tables.push(table);
        let counts = trials.iter().map(|trial| number(trial, "streams"));
        let mut counts: Vec<u64> = counts.collect();
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
    }
}

/// Series of several machines or configurations next to each other: frames per second of each point, and their ratio to the
/// first one. `titles` are those of the files.
#[must_use]
pub fn side_by_side(series: &[(&str, &Series)]) -> Table {
    let machine = |(title, series): &(&str, &Series)| {
        let machine = series.machine.as_deref().unwrap_or(title);
        machine.to_owned()
    };
    let machines: Vec<String> = series.iter().map(machine).collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in series.iter().flat_map(|(_, series)| &series.points) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let fps = |at: usize, name: &str| {
        let found = series[at].1.points.iter().find(|(own, _)| own == name);
        found.and_then(|(_, fps)| *fps)
    };
    let title = "The same points side by side";
    let mut table = Table::of("machines", title, &names).plain("Point", |name| *name);
    for (at, (title, _)) in series.iter().enumerate() {
        let name = &machines[at];
        let is_unique = machines.iter().filter(|other| *other == name).count() == 1;
        let heading = match is_unique {
            true => format!("Frames/s, {name}"),
            false => format!("Frames/s, {name}, {title}"),
        };
        table = table.plain(heading, move |name| fps(at, name));
        if at > 0 {
            table = table.plain("To the First Column", move |name| {
                factor(
                    fps(at, name)
                        .zip(fps(0, name))
                        .map(|(own, first)| own / first),
                    " x",
                )
            });
        }
    }
    table.build()
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

/// A number of streams, as text.
fn stream_count(count: u64) -> String {
    match count {
        1 => "1 stream".to_owned(),
        count => format!("{count} streams"),
    }
}

/// A number with two digits.
fn factor(number: Option<f64>, unit: &str) -> Option<String> {
    number.map(|number| format!("{number:.2}{unit}"))
}

#[cfg(test)]
mod tests;
