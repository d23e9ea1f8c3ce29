// SPDX-License-Identifier: Apache-2.0
//! Ranges with instances far above their usual time.

use super::super::summary::{RangeSummary, ReportSummary};
use super::super::table::Table;

/// Share of the report's time from which the excess of outliers counts.
const MIN_EXCESS: f64 = 0.01;
/// Maximum number of rows.
const MAX_ROWS: usize = 10;

/// Ranges whose outliers took a noticeable part of the report's time beyond the median, most first.
#[must_use]
pub fn outliers(digests: &[ReportSummary]) -> Table {
    let all = digests.iter().flat_map(|digest| {
        let length = length(digest);
        let ranges = digest.ranges.iter();
        ranges.map(move |range| (digest, range, range.outlier_excess_ns / length))
    });
    let mut found: Vec<(&ReportSummary, &RangeSummary, f64)> = all
        .filter(|(_, range, share)| range.outliers > 0 && *share >= MIN_EXCESS && range.is_work())
        .collect();
    // The excess of a range within another is in both.
    let within: Vec<(String, String)> = (found.iter())
        .map(|(digest, range, _)| (digest.title.clone(), range.name.clone()))
        .collect();
    found.retain(|(digest, range, _)| {
        let outer = format!("{}/", range.name);
        let is_outer =
            |(title, name): &(String, String)| *title == digest.title && name.starts_with(&outer);
        !within.iter().any(is_outer)
    });
    found.sort_by(|a, b| b.2.total_cmp(&a.2));
    found.truncate(MAX_ROWS);
    let title = "Outliers: ranges whose slow instances took 1 % of the report or more beyond the median, at most 10";
    Table::of("outliers", title, &found)
        .plain("Report", |(digest, ..)| digest.title.as_str())
        .plain("Range", |(_, range, _)| range.name.as_str())
        .plain("Instances", |(_, range, _)| range.count)
        .plain("Outliers", |(_, range, _)| range.outliers)
        .ns("Excess", |(_, range, _)| range.outlier_excess_ns)
        .percent("Of The Time", |(.., share)| share * 100.0)
        .ns("Med", |(_, range, _)| range.median_ns)
        .ns("Max", |(_, range, _)| range.max_ns)
        .build()
}

/// Length of the report in ns, or the longest sum of a range where it is unknown.
fn length(digest: &ReportSummary) -> f64 {
    let sums = digest.ranges.iter().map(|range| range.cpu_total_ns);
    let length = digest.span_ns.map(|span| span as f64);
    length
        .or_else(|| sums.reduce(f64::max))
        .unwrap_or(0.0)
        .max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_outliers_that_cost_time_are_listed() {
        let range = |name: &str, excess: f64| RangeSummary {
            name: name.to_owned(),
            count: Some(100),
            outliers: 2,
            outlier_excess_ns: excess,
            median_ns: 5.0,
            max_ns: 800.0,
            ..RangeSummary::default()
        };
        let mut digest = ReportSummary {
            title: "a".to_owned(),
            span_ns: Some(10_000),
            ranges: vec![
                range("jetwatch:track", 99.0),
                range("jetwatch:decode", 100.0),
                range("jetwatch:infer", 1_500.0),
                range("jetwatch:batch", 9_000.0),
                range("jetwatch:enqueue", 9_000.0),
                range("jetwatch:detect_batch", 9_000.0),
            ],
            ..ReportSummary::default()
        };
        assert_eq!(
            outliers(&[digest.clone()]).to_csv(),
            "Report,Range,Instances,Outliers,Excess (ns),Of The Time (%),Med (ns),Max (ns)\n\
             a,jetwatch:infer,100,2,1500.0,15.0,5.0,800.0\n\
             a,jetwatch:decode,100,2,100.0,1.0,5.0,800.0\n"
        );
        digest.ranges = vec![
            range("jetwatch/detect", 900.0),
            range("jetwatch/detect/infer", 800.0),
        ];
        assert_eq!(
            outliers(&[digest.clone()]).rows.len(),
            1,
            "one is in the other"
        );
        digest.ranges = (0..30).map(|at| range(&at.to_string(), 5_000.0)).collect();
        let table = outliers(&[digest]);
        assert_eq!((table.rows.len(), table.more), (10, 0));
    }
}
