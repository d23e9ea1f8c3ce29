// SPDX-License-Identifier: Apache-2.0
//! `jetwatch report`: tables, comparisons and plots of profiles and benchmarks. `jetwatch_nsys` computes them.

use std::fs;
use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, ensure};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use jetwatch_nsys::report::capture::{TimeWindow, parse_time};
use jetwatch_nsys::report::series::{Series, side_by_side};
use jetwatch_nsys::report::table::Table;
use jetwatch_nsys::report::{
    ALL_TABLES, Analysis, Plots, ReportError, ReportSummary, Request, VERDICT, analyze, compare,
    find_reports, page, table_names, titles,
};

use super::Exit;

/// Maximum number of rows of a table without `--rows`.
const ROWS: usize = 50;

/// Arguments of `jetwatch report`.
#[derive(Debug, Args)]
#[command(after_help = tables_help())]
pub(super) struct ReportArgs {
    /// Profiles of Nsight Systems (.nsys-rep, or exported as .sqlite), benchmark.json and series.json files, or folders with them.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Tables to print, or all of them.
    #[arg(short, long = "table", value_name = "NAMES", value_delimiter = ',', value_parser = table_parser())]
    tables: Vec<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write an HTML page with tables and plots to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Compare two files: print the changes from the first to the second.
    #[arg(long)]
    diff: bool,
    /// Include only events after this time from the start of the capture, such as 1.5s or 300ms.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    from: Option<i64>,
    /// Include only events before this time.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<i64>,
    /// Include only events during this NVTX range: `jetwatch:infer`, or `infer@jetwatch` as in nsys; `jetwatch:infer#3`, or `infer@jetwatch/2`, is its third.
    #[arg(long, value_name = "RANGE")]
    within: Option<String>,
    /// Limit the rows of a table for a terminal or a page, and of one that lists single events; 0: no limit.
    #[arg(long, value_name = "N", default_value_t = ROWS)]
    rows: usize,
    /// Use this nsys to export reports.
    #[arg(long, value_name = "PROGRAM", default_value = "nsys")]
    nsys: PathBuf,
}

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For a terminal.
    Text,
    /// With the headings and units of `nsys stats`.
    Csv,
    /// One object with everything.
    Json,
}

impl ReportArgs {
    /// Default tables without options: the verdict and the first tables of `io`, exported by `nsys` where necessary.
    pub(super) fn for_files(files: Vec<PathBuf>, nsys: &Path) -> Self {
        Self {
            files,
            tables: Vec::new(),
            format: Format::Text,
            html: None,
            diff: false,
            from: None,
            until: None,
            within: None,
            rows: ROWS,
            nsys: nsys.to_owned(),
        }
    }
}

fn table_parser() -> PossibleValuesParser {
    let names = table_names().map(|(name, _)| name);
    PossibleValuesParser::new(names.chain([ALL_TABLES]))
}

fn tables_help() -> String {
    let mut text = "Tables:\n".to_owned();
    for (name, about) in table_names() {
        text.push_str(&format!("  {name:<22} {about}\n"));
    }
    text
}

/// Reads all files, then writes the requested output.
pub(super) fn run(args: &ReportArgs) -> anyhow::Result<Exit> {
    let files = find_reports(&args.files)?;
    ensure!(
        !args.diff || files.len() == 2,
        "--diff takes two files, the earlier and the later one; found {}",
        files.len()
    );
    let rows = if args.rows == 0 {
        usize::MAX
    } else {
        args.rows
    };
    let everything = TimeWindow::default();
    let request = Request {
        tables: &args.tables,
        rows,
        window: TimeWindow {
            from: args.from.unwrap_or(everything.from),
            until: args.until.unwrap_or(everything.until),
        },
        within: args.within.as_deref(),
        plots: if args.html.is_some() {
            Plots::Include
        } else {
            Plots::Omit
        },
        nsys: &args.nsys,
    };
    let mut analyses = Vec::with_capacity(files.len());
    for (file, title) in files.iter().zip(titles(&files)) {
        let bar = ProgressBar::new(&title);
        analyses.push(analyze(file, &title, &request, &|done, total| {
            bar.show(done, total)
        })?);
        bar.clear();
    }
    let summaries: Vec<ReportSummary> = analyses
        .iter()
        .map(|analysis| analysis.summary.clone())
        .collect();
    let series: Option<Vec<(&str, &Series)>> = analyses
        .iter()
        .map(|analysis| Some((analysis.summary.title.as_str(), analysis.series.as_ref()?)))
        .collect();
    let series = series.map(|all| (all.len() > 1).then(|| side_by_side(&all)));
    let warnings = match &series {
        // Machines and settings are what they are compared for.
        Some(_) => Vec::new(),
        None => warnings(args, &summaries),
    };
    for warning in &warnings {
        eprintln!("jetwatch: warning: {warning}");
    }
    let compared = match series {
        Some(table) => table.into_iter().collect(),
        None => compared(args, &summaries),
    };
    if let Some(path) = &args.html {
        write_page(path, &mut analyses, &compared, &warnings, rows)?;
    }
    let text = match args.format {
        Format::Text => to_text(args, analyses, compared, rows),
        Format::Csv => to_csv(args, &analyses, &compared),
        Format::Json => to_json(&analyses, &compared, &warnings)?,
    };
    print(&text)?;
    Ok(Exit::Success)
}

/// What limits the comparison of reports.
fn warnings(args: &ReportArgs, summaries: &[ReportSummary]) -> Vec<String> {
    let different = compare::differences(summaries).map(|difference| {
        format!("different workloads, times are hardly comparable: {difference}")
    });
    let unknown = match summaries {
        [before, after] if args.diff => compare::unknown_intervals(before, after),
        _ => None,
    };
    different.into_iter().chain(unknown).collect()
}

/// Tables of the throughput of all reports, and those that compare them.
fn compared(args: &ReportArgs, summaries: &[ReportSummary]) -> Vec<Table> {
    let mut tables = vec![compare::throughput(summaries)];
    match summaries {
        [_] if !args.tables.is_empty() => return Vec::new(),
        [before, after] if args.diff => {
            if let (Some(text), Some(table)) = (
                compare::throughput_change(before, after),
                tables.first_mut(),
            ) {
                table.title = format!("Throughput: {text}");
            }
            tables.extend([
                compare::overview(summaries),
                compare::diff(before, after),
                compare::advice(before, after),
            ]);
        }
        _ => {
            // Points of a sweep share no load.
            if compare::is_one_configuration(summaries) {
                tables.push(compare::balance(summaries));
            }
            if summaries.len() > 1 {
                tables.insert(0, compare::slowest(summaries));
                tables.extend([compare::overview(summaries), compare::ranges(summaries)]);
                tables.push(compare::outliers(summaries));
            }
        }
    }
    // Reports without frames, or of one process.
    tables.retain(|table| {
        !table.rows.is_empty()
            || !matches!(
                table.name,
                "throughput" | "balance" | "outliers" | "slowest"
            )
    });
    tables
}

fn write_page(
    path: &Path,
    analyses: &mut [Analysis],
    compared: &[Table],
    warnings: &[String],
    rows: usize,
) -> Result<(), ReportError> {
    let whole: Vec<Vec<Table>> = analyses
        .iter()
        .map(|analysis| analysis.tables.clone())
        .collect();
    for table in analyses
        .iter_mut()
        .flat_map(|analysis| &mut analysis.tables)
    {
        table.truncate(rows);
    }
    let text = page(analyses, compared, warnings);
    for (analysis, tables) in analyses.iter_mut().zip(whole) {
        analysis.tables = tables;
    }
    fs::write(path, text).map_err(|cause| ReportError::Write(path.to_owned(), cause))
}

fn to_text(
    args: &ReportArgs,
    analyses: Vec<Analysis>,
    compared: Vec<Table>,
    rows: usize,
) -> String {
    let mut text = String::new();
    let is_single = analyses.len() == 1;
    let (first, compared): (Vec<Table>, Vec<Table>) = compared
        .into_iter()
        .partition(|table| table.name == "slowest");
    for table in first {
        text.push_str(&table.to_text());
        text.push('\n');
    }
    let of_all = |text: &mut String| {
        for mut table in compared {
            table.truncate(rows);
            text.push_str(&table.to_text());
            text.push('\n');
        }
    };
    let mut of_all = Some(of_all);
    let shows_each = !args.diff || !args.tables.is_empty();
    for analysis in analyses {
        if !is_single || args.tables.is_empty() {
            text.push_str(&format!(
                "== {} ({})\n\n",
                analysis.summary.title, analysis.summary.version
            ));
        }
        // Frames per second stand before the details of the only report.
        if let Some(of_all) = of_all.take_if(|_| is_single) {
            of_all(&mut text);
        }
        let is_wanted = args.tables.is_empty()
            || args
                .tables
                .iter()
                .any(|name| name == VERDICT || name == ALL_TABLES);
        if let Some(findings) = analysis.verdict.filter(|_| is_wanted) {
            match analysis.warmup_ns {
                0 => text.push_str("Verdict\n"),
                ns => text.push_str(&format!(
                    "Verdict, without a warm-up of {:.0} ms\n",
                    ns as f64 / 1e6
                )),
            }
            if findings.is_empty() {
                text.push_str("  nothing stands out\n");
            }
            for finding in findings {
                text.push_str(&format!("  {finding}"));
            }
            text.push('\n');
        }
        let tables = analysis.tables.into_iter();
        for mut table in tables.filter(|table| shows_each && table.name != VERDICT) {
            table.truncate(rows);
            text.push_str(&table.to_text());
            text.push('\n');
        }
    }
    if let Some(of_all) = of_all {
        of_all(&mut text);
    }
    text
}

/// A single table is written without a title, for other programs; several have a line with report and name before each.
fn to_csv(args: &ReportArgs, analyses: &[Analysis], compared: &[Table]) -> String {
    let shows_each = !args.diff || !args.tables.is_empty();
    let of_reports = analyses.iter().filter(|_| shows_each).flat_map(|analysis| {
        analysis
            .tables
            .iter()
            .map(|table| (analysis.summary.title.as_str(), table))
    });
    let of_all = compared.iter().map(|table| ("all", table));
    // With tables requested for one file, only those are written.
    let all: Vec<(&str, &Table)> = of_reports.chain(of_all).collect();
    if let [(_, only)] = all.as_slice() {
        return only.to_csv();
    }
    let parts = all
        .iter()
        .map(|(title, table)| format!("# {title}: {}\n{}", table.name, table.to_csv()));
    parts.collect::<Vec<_>>().join("\n")
}

fn to_json(
    analyses: &[Analysis],
    compared: &[Table],
    warnings: &[String],
) -> anyhow::Result<String> {
    let named = |tables: &[Table]| {
        let each = tables
            .iter()
            .map(|table| (table.name.to_owned(), table.to_json()));
        Value::Object(Map::from_iter(each))
    };
    let reports: Vec<Value> = analyses
        .iter()
        .map(|analysis| {
            json!({
                "report": analysis.summary.title,
                "version": analysis.summary.version,
                "tables": named(&analysis.tables),
            })
        })
        .collect();
    let document = json!({
        "reports": reports,
        "compared": named(compared),
        "warnings": warnings,
    });
    let text = serde_json::to_string_pretty(&document).context("cannot write tables as JSON")?;
    Ok(text + "\n")
}

/// Writes to standard output; a closed pipe is not an error.
fn print(text: &str) -> anyhow::Result<()> {
    match stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Progress line on a terminal.
struct ProgressBar<'a> {
    title: &'a str,
    visible: bool,
    percent: AtomicU64,
}

impl<'a> ProgressBar<'a> {
    fn new(title: &'a str) -> Self {
        Self {
            title,
            visible: stderr().is_terminal(),
            percent: AtomicU64::new(u64::MAX),
        }
    }

    fn show(&self, done: u64, total: u64) {
        let percent = done * 100 / total.max(1);
        // Called from several threads: each percent is written once.
        if self.visible && self.percent.swap(percent, Ordering::Relaxed) != percent {
            let line = if percent < 100 {
                format!("reading {}: {percent} % of {total} events", self.title)
            } else {
                format!("computing tables of {}", self.title)
            };
            let _ = write!(stderr(), "\x1b[K{line}\r");
        }
    }

    fn clear(&self) {
        if self.visible {
            let _ = write!(stderr(), "\x1b[K");
        }
    }
}
