//! Several reports next to each other: which is fastest, where each spends its time, what changed from one to another.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::summary::{RangeSummary, ReportSummary};
use super::table::{Cell, Column, Table, Unit, ns, percent, unitless};

/// A difference below this share is no change.
const MIN_CHANGE: f64 = 0.01;
/// A difference counts from this multiple of its standard error on.
const SIGNIFICANCE: f64 = 3.0;
/// Two reports with less than this share of their kernels in common ran different networks.
const MIN_COMMON_KERNELS: f64 = 0.5;

/// Ranges against reports: mean times on the CPU and on the GPU, and the report in which each is fastest.
#[must_use]
pub fn ranges(digests: &[ReportSummary]) -> Table {
    let mut columns = vec![unitless("Range")];
    for digest in digests {
        for what in ["CPU", "GPU"] {
            columns.push(Column {
                name: Cow::Owned(format!("{what} {}", digest.title)),
                unit: Unit::Ns,
            });
        }
    }
    columns.extend([unitless("Fastest"), percent("Slowest Over Fastest")]);
    let mut table = Table::new("ranges", "Ranges by report: mean times", &columns);
    for name in names(digests) {
        let found: Vec<Option<&RangeSummary>> =
            digests.iter().map(|digest| digest.range(name)).collect();
        let mut row: Vec<Cell> = vec![name.into()];
        for range in &found {
            row.push(range.map(|range| range.cpu_ns).into());
            row.push(range.and_then(|range| range.gpu_ns).into());
        }
        let with_title = digests.iter().zip(&found);
        let mut times: Vec<(&str, f64)> = with_title
            .filter_map(|(digest, range)| Some((digest.title.as_str(), (*range)?.cpu_ns)))
            .collect();
        times.sort_by(|a, b| a.1.total_cmp(&b.1));
        let is_shared = times.len() > 1;
        let fastest = times.first().filter(|_| is_shared);
        row.push(fastest.map(|(title, _)| *title).into());
        let over = match (times.first(), times.last()) {
            (Some(first), Some(last)) if is_shared && first.1 > 0.0 => Some(last.1 / first.1),
            _ => None,
        };
        row.push(over.map(|over| (over - 1.0) * 100.0).into());
        table.rows.push(row);
    }
    table
}

/// Names of all ranges, those of the first report first.
fn names(digests: &[ReportSummary]) -> Vec<&str> {
    let mut observed = BTreeSet::new();
    let all = digests.iter().flat_map(|digest| &digest.ranges);
    all.map(|range| range.name.as_str())
        .filter(|name| observed.insert(*name))
        .collect()
}

/// Each report in a line: how long, how busy its GPU, what took most.
#[must_use]
pub fn overview(digests: &[ReportSummary]) -> Table {
    let columns = [
        unitless("Report"),
        unitless("Made By"),
        ns("Length"),
        percent("GPU Busy"),
        unitless("Ranges Fastest Here"),
        unitless("Most Time"),
        ns("Its Total Time"),
    ];
    let mut table = Table::new("reports", "Reports", &columns);
    let by_range = ranges(digests);
    let fastest = by_range.columns.len() - 2;
    table.rows.extend(digests.iter().map(|digest| {
        let wins = by_range
            .rows
            .iter()
            .filter(|row| row[fastest] == Cell::Text(digest.title.clone()))
            .count();
        let most = digest
            .ranges
            .iter()
            .max_by(|a, b| a.cpu_total_ns.total_cmp(&b.cpu_total_ns));
        vec![
            digest.title.as_str().into(),
            digest.version.as_str().into(),
            digest.span_ns.into(),
            digest.gpu_busy.map(|busy| busy * 100.0).into(),
            (wins as u64).into(),
            most.map(|range| range.name.as_str()).into(),
            most.map(|range| range.cpu_total_ns).into(),
        ]
    }));
    table
}

/// Ranges with instances far above their usual time, by report.
#[must_use]
pub fn outliers(digests: &[ReportSummary]) -> Table {
    let columns = [
        unitless("Report"),
        unitless("Range"),
        unitless("Instances"),
        unitless("Outliers"),
        ns("Med"),
        ns("Max"),
        unitless("Max Over Med"),
    ];
    let mut table = Table::new(
        "outliers",
        "Outliers: instances far above the usual time",
        &columns,
    );
    let mut found: Vec<(&ReportSummary, &RangeSummary)> = digests
        .iter()
        .flat_map(|digest| digest.ranges.iter().map(move |range| (digest, range)))
        .filter(|(_, range)| range.outliers > 0)
        .collect();
    let over = |range: &RangeSummary| range.max_ns / range.median_ns.max(1.0);
    found.sort_by(|a, b| over(b.1).total_cmp(&over(a.1)));
    table.rows.extend(found.into_iter().map(|(digest, range)| {
        vec![
            digest.title.as_str().into(),
            range.name.as_str().into(),
            range.count.into(),
            range.outliers.into(),
            range.median_ns.into(),
            range.max_ns.into(),
            over(range).into(),
        ]
    }));
    table
}

/// Changes from the first to the second report, the largest change of time first.
#[must_use]
pub fn diff(before: &ReportSummary, after: &ReportSummary) -> Table {
    let columns = [
        unitless("Range"),
        unitless("Change"),
        percent("CPU Change"),
        ns("CPU Before"),
        ns("CPU After"),
        percent("GPU Change"),
        ns("GPU Before"),
        ns("GPU After"),
        unitless("Instances Before"),
        unitless("Instances After"),
    ];
    let title = format!("What changed from {} to {}", before.title, after.title);
    let mut table = Table::new("diff", title, &columns);
    let pair = [before.clone(), after.clone()];
    let mut rows: Vec<(f64, Vec<Cell>)> = names(&pair)
        .into_iter()
        .map(|name| {
            let (old, new) = (before.range(name), after.range(name));
            let cpu = |range: Option<&RangeSummary>| range.map(|range| range.cpu_ns);
            let gpu = |range: Option<&RangeSummary>| range.and_then(|range| range.gpu_ns);
            let weight =
                |range: Option<&RangeSummary>| range.map_or(0.0, |range| range.cpu_total_ns);
            let count = |range: Option<&RangeSummary>| range.map(|range| range.count);
            let row = vec![
                name.into(),
                change(old, new).into(),
                ratio(cpu(old), cpu(new)).into(),
                cpu(old).into(),
                cpu(new).into(),
                ratio(gpu(old), gpu(new)).into(),
                gpu(old).into(),
                gpu(new).into(),
                count(old).into(),
                count(new).into(),
            ];
            ((weight(new) - weight(old)).abs(), row)
        })
        .collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    table.rows = rows.into_iter().map(|(_, row)| row).collect();
    table
}

/// Findings of the first report only, of the second only, and of both.
#[must_use]
pub fn advice(before: &ReportSummary, after: &ReportSummary) -> Table {
    let title = format!("Verdict of {} and of {}", before.title, after.title);
    let mut table = Table::new(
        "diff_verdict",
        title,
        &[unitless("Rule"), unitless("Change")],
    );
    let new = after
        .rules
        .iter()
        .filter(|rule| !before.rules.contains(rule));
    for rule in before.rules.iter().chain(new) {
        let change = match (before.rules.contains(rule), after.rules.contains(rule)) {
            (true, true) => "same",
            (true, false) => "gone",
            (false, _) => "new",
        };
        table.rows.push(vec![(*rule).into(), change.into()]);
    }
    table
}

/// The change in percent.
fn ratio(old: Option<f64>, new: Option<f64>) -> Option<f64> {
    let old = old.filter(|old| *old > 0.0)?;
    Some((new? / old - 1.0) * 100.0)
}

/// The change as one word: only significant changes count.
fn change(old: Option<&RangeSummary>, new: Option<&RangeSummary>) -> &'static str {
    let (Some(old), Some(new)) = (old, new) else {
        return if old.is_some() { "gone" } else { "new" };
    };
    let error = |range: &RangeSummary| range.cpu_deviation_ns.powi(2) / range.count.max(1) as f64;
    let difference = new.cpu_ns - old.cpu_ns;
    let chance = SIGNIFICANCE * (error(old) + error(new)).sqrt();
    if difference.abs() <= chance.max(old.cpu_ns * MIN_CHANGE) {
        "same"
    } else if difference > 0.0 {
        "slower"
    } else {
        "faster"
    }
}

/// Why two reports are not comparable, as sentences; empty if they are.
#[must_use]
pub fn differences(one: &ReportSummary, other: &ReportSummary) -> Vec<String> {
    let mut found = Vec::new();
    let names = [&one.title, &other.title];
    let (a, b) = (&one.workload, &other.workload);
    if a.batch_size != b.batch_size && a.batch_size.is_some() && b.batch_size.is_some() {
        let size = |size: Option<u64>| size.unwrap_or(0);
        found.push(format!(
            "batches: up to {} frames in {}, up to {} in {}",
            size(a.batch_size),
            names[0],
            size(b.batch_size),
            names[1]
        ));
    }
    if a.sources != b.sources {
        found.push(format!(
            "sources: {} in {}, {} in {}",
            listed(&a.sources),
            names[0],
            listed(&b.sources),
            names[1]
        ));
    }
    let union = a.kernels.union(&b.kernels).count();
    let shared = a.kernels.intersection(&b.kernels).count();
    // A report without kernels was made without a GPU, or without tracing it: which says nothing about the network.
    let both_have = !a.kernels.is_empty() && !b.kernels.is_empty();
    if both_have && (shared as f64) < MIN_COMMON_KERNELS * union as f64 {
        found.push(format!(
            "networks: {} kernels in {}, {} in {}, {shared} in both",
            a.kernels.len(),
            names[0],
            b.kernels.len(),
            names[1]
        ));
    }
    if let (Some(a), Some(b)) = (&a.config, &b.config)
        && a != b
    {
        found.push(format!(
            "configurations: {a} in {}, {b} in {}",
            names[0], names[1]
        ));
    }
    let has_shared_range = one
        .ranges
        .iter()
        .any(|range| other.range(&range.name).is_some());
    if !has_shared_range {
        found.push(format!(
            "{} and {} have no range in common",
            names[0], names[1]
        ));
    }
    found
}

fn listed(names: &BTreeSet<String>) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(name: &str, count: u64, cpu_ns: f64, gpu_ns: Option<f64>) -> RangeSummary {
        RangeSummary {
            name: name.to_owned(),
            count,
            cpu_ns,
            cpu_deviation_ns: cpu_ns / 10.0,
            cpu_total_ns: cpu_ns * count as f64,
            median_ns: cpu_ns,
            max_ns: cpu_ns * 9.0,
            outliers: u64::from(name == "infer"),
            gpu_ns,
        }
    }

    fn digest(title: &str, ranges: Vec<RangeSummary>) -> ReportSummary {
        ReportSummary {
            title: title.to_owned(),
            ranges,
            ..ReportSummary::default()
        }
    }

    #[test]
    fn fastest_report_and_slowest_range_are_named() {
        let a = digest(
            "a",
            vec![
                range("infer", 100, 200.0, Some(150.0)),
                range("track", 100, 50.0, None),
            ],
        );
        let b = digest(
            "b",
            vec![
                range("infer", 100, 100.0, Some(80.0)),
                range("publish", 1, 9.0, None),
            ],
        );
        let digests = [a, b];
        assert_eq!(
            ranges(&digests).to_csv(),
            "Range,CPU a (ns),GPU a (ns),CPU b (ns),GPU b (ns),Fastest,Slowest Over Fastest (%)\n\
             infer,200.0,150.0,100.0,80.0,b,100.0\n\
             track,50.0,None,None,None,None,None\n\
             publish,None,None,9.0,None,None,None\n"
        );
        let overview = overview(&digests).to_csv();
        assert!(
            overview.ends_with("a,,None,None,0,infer,20000.0\nb,,None,None,1,infer,10000.0\n"),
            "{overview}"
        );
        let outliers = outliers(&digests).to_csv();
        assert!(
            outliers.ends_with("a,infer,100,1,200.0,1800.0,9.0\nb,infer,100,1,100.0,900.0,9.0\n"),
            "{outliers}"
        );
    }

    #[test]
    fn change_must_exceed_standard_error() {
        let before = digest(
            "a",
            vec![
                range("infer", 100, 200.0, Some(100.0)),
                range("track", 4, 50.0, None),
                range("old", 1, 1.0, None),
            ],
        );
        let after = digest(
            "b",
            vec![
                range("infer", 100, 150.0, Some(50.0)),
                range("track", 4, 55.0, None),
                range("new", 1, 1.0, None),
            ],
        );
        let rows = diff(&before, &after).rows;
        let words: Vec<(Cell, Cell)> = rows
            .iter()
            .map(|row| (row[0].clone(), row[1].clone()))
            .collect();
        let expected = [
            ("infer", "faster"),
            ("track", "same"),
            ("old", "gone"),
            ("new", "new"),
        ];
        assert_eq!(
            words,
            expected.map(|(name, word)| (name.into(), word.into()))
        );
        assert_eq!(
            (&rows[0][2], &rows[0][5]),
            (&Cell::Decimal(-25.0), &Cell::Decimal(-50.0))
        );
    }

    #[test]
    fn advice_differences_are_listed() {
        let mut before = digest("a", Vec::new());
        before.rules = vec!["gpu_saturated", "decode_limit"];
        let mut after = digest("b", Vec::new());
        after.rules = vec!["decode_limit", "tracking_limit"];
        assert_eq!(
            advice(&before, &after).to_csv(),
            "Rule,Change\ngpu_saturated,gone\ndecode_limit,same\ntracking_limit,new\n"
        );
    }

    #[test]
    fn different_workloads_are_reported() {
        let mut one = digest("a", vec![range("infer", 1, 1.0, None)]);
        one.workload.sources.insert("source-cam".to_owned());
        one.workload.batch_size = Some(1);
        one.workload.kernels = ["k1", "k2"].map(str::to_owned).into();
        assert_eq!(differences(&one, &one), Vec::<String>::new());
        let mut other = one.clone();
        other.title = "b".to_owned();
        other.workload.batch_size = Some(4);
        other.workload.sources.clear();
        other.workload.kernels = ["k3"].map(str::to_owned).into();
        other.ranges.clear();
        assert_eq!(
            differences(&one, &other),
            [
                "batches: up to 1 frames in a, up to 4 in b",
                "sources: source-cam in a, none in b",
                "networks: 2 kernels in a, 1 in b, 0 in both",
                "a and b have no range in common",
            ]
        );
    }
}
