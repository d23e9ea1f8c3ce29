// SPDX-License-Identifier: Apache-2.0
//! Analysis of one report: tables, verdict, summary for comparisons, and plot. Called by `jetwatch report`.

use std::path::Path;

use serde_json::Value;

use super::advice::{self, Finding, advise};
use super::benchmark::Benchmark;
use super::capture::{Progress, TimeWindow, find_range, read};
use super::input::{Input, open};
use super::layers_json::Layers;
use super::metrics::{CaptureMetrics, RunNotes};
use super::plot::Plot;
use super::run_tables::run_tables;
use super::schema::{COPIES, Export, GRAPHS, KERNELS, NVTX, SCHEDULING, SETS, WAITS};
use super::series::Series;
use super::summary::{PROFILE_KEY, ReportSummary, noted_run};
use super::table::Table;
use super::tables::{AnalysisContext, Make, Recipe, TABLES};
use super::{ReportError, Result};

/// What to compute from a report.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Names of tables; empty: the default ones; `all`: all that are not empty.
    pub tables: &'a [String],
    /// Maximum number of rows of a table of single events.
    pub rows: usize,
    /// The time window to analyze.
    pub window: TimeWindow,
    /// An occurrence of a range; only events within it count.
    pub within: Option<&'a str>,
    /// Whether to compute the data of plots.
    pub plots: Plots,
    /// The program that exports reports.
    pub nsys: &'a Path,
}

/// Whether plots are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plots {
    /// Compute the data of plots.
    Include,
    /// No plots.
    Omit,
}

/// A page has rows of cores for at most this many events of scheduling: reading more takes seconds that no one asked for.
const MAX_PAGE_EVENTS: u64 = 3_000_000;

/// The verdict looks for waits for cores in at most this many events of scheduling.
const MAX_VERDICT_EVENTS: u64 = 20_000_000;

/// Name for all tables.
pub const ALL_TABLES: &str = "all";

/// The result for one report.
#[derive(Debug, Default)]
pub struct Analysis {
    /// The requested tables, in order.
    pub tables: Vec<Table>,
    /// The findings of the verdict as text; `None` without stages of jetwatch.
    pub verdict: Option<Vec<String>>,
    /// The same by their parts; empty for a series, whose verdict has none.
    pub(crate) findings: Vec<Finding>,
    /// Length of the warm-up that the verdict leaves out, in ns; zero where it leaves out none.
    pub warmup_ns: i64,
    /// Summary for comparisons.
    pub summary: ReportSummary,
    /// Data of the plots.
    pub(crate) plot: Option<Plot>,
    /// The series, where the file is the `series.json` of a benchmark.
    pub series: Option<Series>,
    /// What the capture did not record, each as a line with the remedy.
    pub not_measured: Vec<String>,
}

/// Reads and analyzes a report. Blocks: about 1 s for a million events.
///
/// # Errors
/// The file cannot be read or exported, is damaged, or has no event in the requested part.
pub fn analyze(
    path: &Path,
    title: &str,
    request: &Request<'_>,
    progress: Progress<'_>,
) -> Result<Analysis> {
    match open(path, request.nsys)? {
        Input::Benchmark { bytes } => {
            let document = parse_measurement(path, &bytes)?;
            analyze_measurement(path, &document, title)
        }
        Input::Export {
            path: exported,
            _folder,
        } => {
            // Errors contain the path of the given file, not of the temporary export.
            let export = Export::open(&exported, path)?;
            analyze_export(&export, title, request, progress)
        }
    }
}

/// The JSON of a file that `jetwatch bench` has written.
pub(super) fn parse_measurement(path: &Path, bytes: &[u8]) -> Result<Value> {
    let parsed = serde_json::from_slice(bytes);
    parsed.map_err(|error| {
        let why = format!(
            "it is not complete JSON ({error}): the benchmark was interrupted; run it again"
        );
        ReportError::Content(path.to_owned(), why)
    })
}

/// Analyzes what `jetwatch bench` has measured; `path` is the file that holds it.
///
/// # Errors
/// It is not a measurement, or was interrupted.
pub fn analyze_measurement(path: &Path, document: &Value, title: &str) -> Result<Analysis> {
    let of = |summary: ReportSummary, tables| Analysis {
        tables,
        summary,
        ..Analysis::default()
    };
    if let Some(series) = Series::parse(path, document)? {
        let findings = Some(series.findings.clone()).filter(|findings| !findings.is_empty());
        return Ok(Analysis {
            verdict: findings,
            series: Some(series.clone()),
            ..of(series.summary(title), series.tables)
        });
    }
    if let Some(layers) = Layers::parse(path, document)? {
        let tables = layers.tables();
        return Ok(of(layers.summary(title), tables));
    }
    let benchmark = Benchmark::parse(path, document)?;
    let mut tables = benchmark.tables();
    let findings = benchmark.findings.clone();
    tables.extend((findings.iter().filter(|all| !all.is_empty())).map(|all| advice::table(all)));
    Ok(Analysis {
        verdict: findings.as_deref().map(in_words),
        findings: findings.unwrap_or_default(),
        ..of(benchmark.summary(title), tables)
    })
}

fn in_words(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(Finding::to_text).collect()
}

fn analyze_export(
    export: &Export,
    title: &str,
    request: &Request<'_>,
    progress: Progress<'_>,
) -> Result<Analysis> {
    let recipes = requested_tables(export, request.tables)?;
    let mut window = request.window;
    if let Some(range) = request.within {
        window = window.intersect(find_range(export, range)?);
    }
    let mut capture = read(export, title, window, progress)?;
    let noted = noted_run(&export.source);
    let command = |run: &Value| Some(run[PROFILE_KEY]["command"].as_str()?.to_owned());
    capture.command = noted.as_ref().and_then(command).or(capture.command);
    let nothing = |reason: &str| ReportError::Content(export.source.clone(), reason.to_owned());
    if capture.span().is_none() && capture.waits.is_empty() {
        return Err(if window == TimeWindow::default() {
            nothing("it has no events; profile for longer, or with --trace=cuda,nvtx,osrt")
        } else {
            nothing("the requested part has no events; widen --from, --until or --within")
        });
    }
    if request.tables.is_empty() && capture.ranges.is_empty() {
        return Err(nothing(
            "it has no NVTX ranges in this part; profile with --trace=nvtx, or select other tables with --table",
        ));
    }
    let context = AnalysisContext::new(export, &capture, window, request.rows);
    let mut evidence = CaptureMetrics::from_capture(&context);
    evidence.core_wait = context.core_wait(MAX_VERDICT_EVENTS)?;
    if let Some(run) = &noted {
        evidence.run = RunNotes::new(run, &Value::Null);
    }
    let is_ours = !context.critical_path.stages.is_empty();
    let findings = match is_ours {
        true => advise(&evidence),
        false => Vec::new(),
    };
    let tables = recipes
        .iter()
        .map(|recipe| recipe.build(&context, &findings));
    let mut tables: Vec<Table> = tables.collect::<Result<_>>()?;
    // An empty table is omitted unless it was requested by name.
    let is_named = request
        .tables
        .first()
        .is_some_and(|name| name != ALL_TABLES);
    tables.retain(|table| is_named || !table.rows.is_empty());
    if request.tables.is_empty() {
        tables.extend(run_tables(&evidence.run));
    }
    let mut missing = not_measured(export);
    let mut plot = None;
    if request.plots == Plots::Include {
        let plot = plot.insert(Plot::from_capture(&context));
        if export.has(&SCHEDULING) {
            let events = export.row_count(&SCHEDULING)?;
            if events <= MAX_PAGE_EVENTS || context.schedule.get().is_some() {
                plot.add_cores(context.schedule()?);
            } else {
                missing.push(format!(
                    "cores on the timeline: {events} events of scheduling take too long for a page; see --table cpu_cores"
                ));
            }
        }
    }
    let mut summary = ReportSummary::from_capture(&context, evidence.gpu_busy, &findings);
    if let Some(run) = &noted {
        summary.add_profile_notes(run);
    }
    Ok(Analysis {
        tables,
        verdict: is_ours.then(|| in_words(&findings)),
        findings,
        warmup_ns: evidence.warmup_ns,
        summary,
        plot,
        series: None,
        not_measured: missing,
    })
}

/// What the export does not hold, each with its remedy.
fn not_measured(export: &Export) -> Vec<String> {
    let operations = [&KERNELS, &COPIES, &SETS, &GRAPHS];
    let has_operations = operations.iter().any(|shape| export.has(shape));
    let gpu = (!has_operations).then(|| format!("GPU: {}", KERNELS.advice));
    let waits = (!export.has(&WAITS)).then(|| format!("calls of the OS: {}", WAITS.advice));
    let others = TABLES.iter();
    let others = others.filter(|it| matches!(it.make, Make::OfExport(_)));
    let others = others.filter_map(|it| {
        let shape = it.missing(export)?;
        let (content, advice) = (shape.content, shape.advice);
        Some(format!("{}: no {content} was traced; {advice}", it.name))
    });
    gpu.into_iter().chain(waits).chain(others).collect()
}

/// The tables of a request. Fails if the export lacks the data of one.
fn requested_tables(export: &Export, names: &[String]) -> Result<Vec<&'static Recipe>> {
    let is_all = names.iter().any(|name| name == ALL_TABLES);
    if names.is_empty() {
        export.require(&NVTX)?;
    }
    let mut wanted = Vec::new();
    for table in TABLES {
        let is_named = match names.is_empty() {
            true => table.is_default,
            false => names.iter().any(|name| name == table.name),
        };
        match table.missing(export) {
            None if is_all || is_named => wanted.push(table),
            Some(shape) if is_named && !names.is_empty() && !is_all => export.require(shape)?,
            _ => {}
        }
    }
    Ok(wanted)
}

/// All tables with their descriptions, in the order of output.
pub fn table_names() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLES.iter().map(|table| (table.name, table.description))
}
