// SPDX-License-Identifier: Apache-2.0
//! `series.json` of `jetwatch bench`: the points of a sweep, the steps of an ablation, or the trials of a search for streams, as
//! tables and plots; and several of them, such as those of two machines, next to each other.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use jetwatch_platform::Occupancy;

use super::interner::position_or_push;
use super::metrics::NetworkNotes;
use super::run_tables::{MS, networks};
use super::summary::ReportSummary;
use super::table::Table;
use super::{ReportError, Result};

/// Titles of an ablation of several rounds, and of one.
const ABLATION_TITLE: &str = "Gain of each step: each round's speed divided by that of the step before in the same round, median over the rounds";
const SINGLE_ABLATION_TITLE: &str = "Gain of each step, of one round, so that the noise is unknown; --repeat 5 gives the range over interleaved rounds";

/// A parsed series.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// What was run.
    kind: &'static str,
    machine: Option<String>,
    /// Name and median of the frames per second of each point, step or number of streams.
    points: Vec<(String, Option<f64>)>,
    pub(super) tables: Vec<Table>,
    pub(super) findings: Vec<String>,
    /// Drops against streams: number of streams, share of the frames in percent.
    drops: Vec<(u64, f64)>,
}

impl Series {
    /// Parses a file; `None` where it is JSON of another kind.
    ///
    /// # Errors
    /// It is a series, but a part is missing.
    pub(super) fn parse(path: &Path, document: &Value) -> Result<Option<Self>> {
        let steps = document["ablation"]["steps"].as_array();
        let streams = document["streams"]["trials"].as_array();
        let points = document["points"].as_array();
        let mut series = Self {
            machine: document["machine"]["name"].as_str().map(str::to_owned),
            ..Self::default()
        };
        if let Some(steps) = steps {
            series.kind = "ablation";
            series.read_ablation(steps);
        } else if streams.is_some() {
            series.kind = "streams";
            series.read_streams(&document["streams"]);
        } else if let Some(points) = points {
            series.kind = "runs";
            series.read_points(points);
        } else {
            return Ok(None);
        }
        if let Some(verdict) = document["verdict"].as_str() {
            series.findings.insert(0, format!("{verdict}\n"));
        }
        series.find_detectors(list(&document["points"]));
        if series.points.is_empty() {
            let reason =
                "it is a series without a result: the benchmark was interrupted; run it again";
            return Err(ReportError::Content(path.to_owned(), reason.to_owned()));
        }
        Ok(Some(series))
    }

    /// Title, what was run, and where.
    pub(super) fn summary(&self, title: &str) -> ReportSummary {
        let place = self.machine.iter().map(|name| format!(", {name}"));
        let place: String = place.collect();
        ReportSummary {
            title: title.to_owned(),
            version: format!("{} of jetwatch bench{place}", self.kind),
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
        let fps = number("/fps/median");
        let of_runs = |place| move |point: &Value| Some(mean_of(point, number(place))? * MS);
        let title = "Frames per second, medians over the runs";
        let table = Table::of("series", title, points)
            .plain("Point", point_name)
            .plain("Runs", count("/fps/count"))
            .plain("Failed", |point| {
                let runs = list(&point["runs"]).iter();
                let failed = runs.filter(|run| run["error"].is_string()).count();
                (failed > 0).then_some(failed)
            })
            .plain("Frames/s", fps)
            .plain("From", number("/fps/min"))
            .plain("To", number("/fps/max"))
            .plain("95 % From", number("/fps_interval_95/0"))
            .plain("95 % To", number("/fps_interval_95/1"))
            .ns("Time Per Frame", |point| Some(1e9 / fps(point)?))
            .ns("CPU Per Frame", of_runs("/cpu_ms_per_frame"))
            .ns("GPU Per Frame", of_runs("/gpu_ms_per_frame"))
            .percent("CPU of Others", |point| {
                Some(mean_of(point, foreign_share)? * 100.0)
            })
            .ns("Latency Med", of_runs("/latency/median_ms"))
            .ns("Latency 95 %", of_runs("/latency/p95_ms"))
            .plain("Network Alone, Frames/s", number("/inference_fps/median"))
            .build();
        self.tables.push(table);
        let named = points.iter();
        let named = named.map(|point| (point_name(point).to_owned(), fps(point)));
        self.points.extend(named);
        self.read_secondary(points);
        for point in points {
            let name = point_name(point);
            let warnings = list(&point["warnings"]).iter().filter_map(Value::as_str);
            self.findings
                .extend(warnings.map(|warning| format!("Warning: {name}: {warning}\n")));
            for network in list(&point["secondary"]) {
                let dropped = network["dropped_percent"].as_f64().unwrap_or(0.0);
                if dropped > 0.0 {
                    self.findings.push(format!(
                        "{name}: {} dropped {dropped:.1} % of its crops; raise its batch_size or workers\n",
                        network["name"].as_str().unwrap_or("?")
                    ));
                }
            }
        }
    }

    /// With `backend: auto` one point may have an engine and another not; their speeds then cannot be compared.
    fn find_detectors(&mut self, points: &[Value]) {
        let mut detectors: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for point in points {
            for run in list(&point["runs"]) {
                if let Some(detector) = run["detector"].as_str() {
                    position_or_push(detectors.entry(detector).or_default(), point_name(point));
                }
            }
        }
        if detectors.len() > 1 {
            let mut text = "Not all of them detected with the same:\n".to_owned();
            for (detector, names) in detectors {
                text += &format!("  {detector}: {}\n", names.join(" "));
            }
            self.findings.push(text);
        }
    }

    /// The secondary networks of each point.
    fn read_secondary(&mut self, points: &[Value]) {
        let rows = points.iter().flat_map(|point| {
            let networks = Vec::<NetworkNotes>::deserialize(&point["secondary"]);
            let networks = networks.unwrap_or_default().into_iter();
            networks.map(|network| (point_name(point).to_owned(), network))
        });
        let rows: Vec<(String, NetworkNotes)> = rows.collect();
        if !rows.is_empty() {
            self.tables.push(networks("series_secondary", &rows));
        }
    }

    fn read_ablation(&mut self, steps: &[Value]) {
        let fps = number("/fps/median");
        // No factor where the difference is noise. The variance of fewer rounds is unknown.
        let is_noise = |gain: &Value| list(&gain["ratios"]).len() >= 3 && gain["is_clear"] == false;
        let gain = |gain: &Value| {
            let median = number("/statistics/median")(gain);
            factor(median.filter(|_| !is_noise(gain)), " x")
        };
        let bound = |step: &Value, key: &str| factor(step["gain"]["statistics"][key].as_f64(), "");
        let mut counts = steps.iter().map(|step| step["fps"]["count"].as_u64());
        let title = match counts.any(|count| count > Some(1)) {
            true => ABLATION_TITLE,
            false => SINGLE_ABLATION_TITLE,
        };
        let table = Table::of("ablation", title, steps)
            .plain("Step", step_name)
            .plain("Frames/s", fps)
            .plain("ms/Frame", |step| factor(step["ms_per_frame"].as_f64(), ""))
            .percent("Of the First", number("/relative_percent"))
            .plain("Gained", |step| gain(&step["gain"]))
            .plain("From", |step| bound(step, "min"))
            .plain("To", |step| bound(step, "max"))
            .plain("To the First", |step| gain(&step["cumulative"]))
            .plain("Gained by CPU Time", |step| {
                let is_wanted = !step["not_measurable"].is_null();
                is_wanted.then(|| gain(&step["cpu_gain"])).flatten()
            })
            .plain("Sets", |step| {
                let sets = list(&step["settings"]).iter().filter_map(Value::as_str);
                sets.collect::<Vec<_>>().join("; ")
            })
            .plain("Note", |step| {
                let notes = list(&step["notes"]).iter().filter_map(Value::as_str);
                let noise = "the difference from the step before is within the noise";
                let noise = Some(noise).filter(|_| is_noise(&step["gain"]));
                let notes = notes.chain(noise).chain(step["not_measurable"].as_str());
                let notes: Vec<&str> = notes.collect();
                (!notes.is_empty()).then(|| notes.join("; "))
            })
            .build();
        self.tables.push(table);
        let points = steps.iter().map(|step| (step_name(step), fps(step)));
        self.points.extend(points);
        self.read_explanations(steps);
        self.read_secondary(steps);
        // The speed of a step that cannot be told from the first says nothing.
        let is_clear = |gain: &Value| !gain.is_null() && gain["is_clear"] != false;
        let last = steps.iter().rfind(|step| is_clear(&step["cumulative"]));
        if let Some(last) = last
            && let Some(total) = number("/cumulative/statistics/median")(last)
        {
            let name = step_name(last);
            self.findings.push(format!(
                "{total:.2} times the speed of the first step at \"{name}\"\n"
            ));
        }
    }

    /// What explains the change of the time per frame of each step.
    fn read_explanations(&mut self, steps: &[Value]) {
        type Row<'v> = (&'v Value, &'v str, Option<f64>, Option<f64>, &'v Value);
        let mut rows: Vec<Row<'_>> = Vec::new();
        let mut unexplained = Vec::new();
        for step in steps {
            let found = &step["explanation"];
            if found.is_null() {
                continue;
            }
            let measured = found["measured_ms"].as_f64();
            let rest = &found["not_explained"];
            let change = rest["change_ms"].as_f64();
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
            rows.push((step, "not explained", change, half, &Value::Null));
            let is_more = |(change, half): (f64, f64)| change.abs() > half + 1e-9;
            if change.zip(half).is_some_and(is_more) {
                unexplained.push(step["step"].to_string());
            }
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
        if !unexplained.is_empty() {
            self.findings.push(format!(
                "Step {}: more than noise is not explained; repeat on a quiet machine (--repeat)\n",
                unexplained.join(", ")
            ));
        }
    }

    fn read_streams(&mut self, streams: &Value) {
        let trials = list(&streams["trials"]);
        let mut by_count: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
        let streams_of = count("/streams");
        for trial in trials {
            by_count.entry(streams_of(trial)).or_default().push(trial);
        }
        let rows: Vec<(u64, Vec<&Value>)> = by_count.into_iter().collect();
        let sum = |own: &[&Value], key: &str| numbers(own, key).sum::<f64>();
        let mean = |own: &[&Value], key: &str| sum(own, key) / own.len().max(1) as f64;
        let passed = |own: &[&Value]| own.iter().filter(|it| it["has_kept_up"] == true).count();
        let lost = |own: &[&Value]| {
            100.0 * (sum(own, "dropped") + sum(own, "late")) / sum(own, "received").max(1.0)
        };
        let table = Table::of("stream_counts", "Trials by number of streams", &rows)
            .plain("Streams", |(count, _)| *count)
            .plain("Trials Without Drops", |(_, own)| {
                format!("{} of {}", passed(own), own.len())
            })
            .plain("Frames/s", |(_, own)| mean(own, "fps"))
            .plain("Dropped", |(_, own)| sum(own, "dropped") as u64)
            .plain("Late", |(_, own)| sum(own, "late") as u64)
            .plain("Latency, ms", |(_, own)| mean(own, "latency_median_ms"))
            .plain("95 %, ms", |(_, own)| mean(own, "latency_p95_ms"))
            .plain("Longest, ms", |(_, own)| {
                numbers(own, "latency_max_ms").reduce(f64::max)
            })
            .percent("CPU of Others", |(_, own)| {
                let shares = own.iter().filter_map(|trial| foreign_share(trial));
                Some(jetwatch_types::mean(shares)? * 100.0)
            })
            .percent("Dropped or Late", |(_, own)| lost(own))
            .plain("Bar", |(_, own)| {
                let length = (lost(own) * 0.3).ceil().clamp(0.0, 30.0) as usize;
                (length > 0).then(|| "#".repeat(length))
            })
            .plain("Reason", |(_, own)| {
                own.iter().find_map(|trial| trial["shortfall"].as_str())
            })
            .build();
        self.tables.push(table);
        for (count, own) in &rows {
            let text = format!("{count} stream{}", if *count == 1 { "" } else { "s" });
            self.drops.push((*count, lost(own)));
            self.points.push((text, Some(mean(own, "fps"))));
        }
        let shown = streams["fit"]["streams"].as_u64();
        let shown = shown.or_else(|| trials.first()?["streams"].as_u64());
        let is_shown = |trial: &&Value| trial["streams"].as_u64() == shown;
        if let Some(trial) = trials.iter().rfind(is_shown) {
            let title = "Streams of the last trial with as many as fit";
            let table = Table::of("stream_sources", title, list(&trial["sources"]))
                .plain("Stream", |source| source["name"].as_str())
                .plain("Frames/s", number("/fps"))
                .plain("Frames", count("/processed"))
                .plain("Without Inference", count("/skipped"))
                .plain("Dropped", count("/dropped"))
                .plain("Late", count("/late"))
                .plain("Latency, ms", number("/latency/median_ms"))
                .plain("95 %, ms", number("/latency/p95_ms"))
                .plain("Longest, ms", number("/latency/max_ms"))
                .build();
            self.tables
                .extend(Some(table).filter(|table| !table.rows.is_empty()));
        }
    }
}

/// Series of several machines or configurations next to each other: frames per second of each point, and their ratio to the
/// first one. `titles` are those of the files.
#[must_use]
pub fn side_by_side(series: &[(&str, &Series)]) -> Table {
    let machines = series
        .iter()
        .map(|(title, it)| it.machine.as_deref().unwrap_or(title));
    let machines: Vec<&str> = machines.collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in series.iter().flat_map(|(_, series)| &series.points) {
        position_or_push(&mut names, name.as_str());
    }
    let fps = |at: usize, name: &str| {
        let found = series[at].1.points.iter().find(|(own, _)| own == name);
        found.and_then(|(_, fps)| *fps)
    };
    let title = "The same points side by side";
    let mut table = Table::of("machines", title, &names).plain("Point", |name| *name);
    for (at, (title, _)) in series.iter().enumerate() {
        let name = machines[at];
        let is_unique = machines.iter().filter(|other| **other == name).count() == 1;
        let heading = match is_unique {
            true => format!("Frames/s, {name}"),
            false => format!("Frames/s, {name}, {title}"),
        };
        table = table.plain(heading, move |name| fps(at, name));
        if at > 0 {
            table = table.plain("To the First Column", move |name| {
                factor(Some(fps(at, name)? / fps(0, name)?), " x")
            });
        }
    }
    table.build()
}

/// Reads the number at a place.
fn number(place: &'static str) -> impl Fn(&Value) -> Option<f64> + Copy {
    move |value| value.pointer(place)?.as_f64()
}

/// Reads the whole number at a place; zero where there is none.
fn count(place: &'static str) -> impl Fn(&Value) -> u64 + Copy {
    move |value| {
        let found = value.pointer(place).and_then(Value::as_u64);
        found.unwrap_or(0)
    }
}

/// A number of each trial that has it.
fn numbers<'v>(trials: &'v [&Value], key: &'v str) -> impl Iterator<Item = f64> + 'v {
    trials.iter().filter_map(move |trial| trial[key].as_f64())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The mean of a number over the runs of a point.
fn mean_of(point: &Value, of: impl Fn(&Value) -> Option<f64>) -> Option<f64> {
    jetwatch_types::mean(list(&point["runs"]).iter().filter_map(of))
}

/// Share of the allowed cores that other programs took during a run, 0 to 1.
fn foreign_share(run: &Value) -> Option<f64> {
    let occupancy = Option::<Occupancy>::deserialize(&run["occupancy"]);
    Some(occupancy.ok()??.foreign_share())
}

/// The name of a point or a step.
fn point_name(point: &Value) -> &str {
    let name = point["name"].as_str();
    name.filter(|name| !name.is_empty()).unwrap_or("run")
}

fn step_name(step: &Value) -> String {
    let number = step["step"].as_u64().unwrap_or(0);
    format!("{number} {}", step["title"].as_str().unwrap_or("?"))
}

/// A number with two digits.
fn factor(number: Option<f64>, unit: &str) -> Option<String> {
    number.map(|number| format!("{number:.2}{unit}"))
}

#[cfg(test)]
mod tests;
