// SPDX-License-Identifier: Apache-2.0
//! A self-contained HTML page: tables, verdicts, and plots drawn by `page.js`. It needs no network.

use serde_json::{Value, json};

use super::analysis::Analysis;
use super::series::Series;
use super::table::Table;

/// The page for these reports; `compared` are the tables that set them next to each other.
#[must_use]
pub fn page(analyses: &[Analysis], compared: &[Table], warnings: &[String]) -> String {
    let reports = analyses.iter().map(|analysis| {
        let ranges = analysis.summary.ranges.iter();
        let bars = ranges.filter(|range| range.is_work()).map(|range| {
            json!({"name": range.name, "cpu": range.cpu_ns, "gpu": range.gpu_ns, "total": range.cpu_total_ns})
        });
        json!({
            "title": analysis.summary.title,
            "version": analysis.summary.version,
            "verdict": analysis.verdict,
            "findings": analysis.findings,
            "bars": bars.collect::<Vec<_>>(),
            "plot": analysis.plot,
            "series": analysis.series.as_ref().map(Series::plot),
            "not_measured": analysis.not_measured,
            "tables": analysis.tables.iter().map(table_json).collect::<Vec<_>>(),
        })
    });
    let data = json!({
        "reports": reports.collect::<Vec<_>>(),
        "compared": compared.iter().map(table_json).collect::<Vec<_>>(),
        "warnings": warnings,
    });
    // Names come from profiled programs: no text in them may end the script element.
    let data = data.to_string().replace('<', "\\u003c");
    let (style, script) = (include_str!("page.css"), include_str!("page.js"));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>jetwatch report</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main id=\"page\"></main>\n\
         <script id=\"data\" type=\"application/json\">{data}</script>\n<script>\n{script}</script>\n</body>\n</html>\n"
    )
}

/// A table as the page shows it: texts, and which columns are numbers.
fn table_json(table: &Table) -> Value {
    let (visible, rows) = table.shown();
    let heads: Vec<&str> = visible.iter().map(|at| &*table.columns[*at].name).collect();
    json!({"name": table.name, "title": table.title, "heads": heads, "rows": rows, "more": table.more})
}
