// SPDX-License-Identifier: Apache-2.0
//! Several reports next to each other: which is fastest, where each spends its time, what changed from one to another.

mod balance;
mod outliers;
mod throughput;
mod workloads;

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::summary::{RangeSummary, ReportSummary};
use super::table::{Cell, Column, Table, Unit, ns, percent, unitless};

pub use self::balance::balance;
pub use self::outliers::outliers;
pub use self::throughput::{change as throughput_change, throughput};
pub use self::workloads::{differences, is_one_configuration};

/// A difference below this share is no change.
const MIN_CHANGE: f64 = 0.01;
/// A difference counts from this multiple of its standard error on.
const SIGNIFICANCE: f64 = 3.0;

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
    // A batch of one frame takes less time than one of eight, and is not faster for that.
    let is_alike = have_equal_batches(digests);
    let title = match is_alike {
        true => "Ranges by report: mean times",
        false => "Ranges by report: mean times of batches, which differ in size",
    };
    let mut table = Table::new("ranges", title, &columns);
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
        let is_shared = times.len() > 1 && is_alike;
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

/// Whether all reports whose batch size is known have the same.
fn have_equal_batches(digests: &[ReportSummary]) -> bool {
    let mut sizes = digests
        .iter()
        .filter_map(|digest| digest.workload.batch_size);
    let first = sizes.next();
    sizes.all(|size| Some(size) == first)
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
    let is_alike = have_equal_batches(digests);
    table.rows.extend(digests.iter().map(|digest| {
        let wins = by_range
            .rows
            .iter()
            .filter(|row| row[fastest] == Cell::Text(digest.title.clone()))
            .count();
        let most = digest
            .ranges
            .iter()
            .filter(|range| !range.is_stay() && !range.is_wait())
            .max_by(|a, b| a.cpu_total_ns.total_cmp(&b.cpu_total_ns));
        vec![
            digest.title.as_str().into(),
            digest.version.as_str().into(),
            digest.span_ns.into(),
            digest.gpu_busy.map(|busy| busy * 100.0).into(),
            is_alike.then_some(wins as u64).into(),
            most.map(|range| range.name.as_str()).into(),
            // A mean is no total.
            most.filter(|range| range.count.is_some())
                .map(|range| range.cpu_total_ns)
                .into(),
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
        percent("±"),
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
            let count = |range: Option<&RangeSummary>| range.and_then(|range| range.count);
            let margin = old.zip(new).and_then(|(old, new)| {
                let error = standard_error(old, new)?;
                (old.cpu_ns > 0.0).then(|| SIGNIFICANCE * error * 100.0 / old.cpu_ns)
            });
            let row = vec![
                name.into(),
                change(old, new).into(),
                ratio(cpu(old), cpu(new)).into(),
                margin.into(),
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

/// Standard error of the difference of two mean times; `None` where one of them is unknown.
fn standard_error(old: &RangeSummary, new: &RangeSummary) -> Option<f64> {
    let square = |range: &RangeSummary| {
        let count = range.count.filter(|count| *count > 1)?;
        Some(range.cpu_deviation_ns?.powi(2) / count as f64)
    };
    Some((square(old)? + square(new)?).sqrt())
}

/// The change in a word: only significant changes count. Without the times of single instances the significance is unknown,
/// which is added.
fn change(old: Option<&RangeSummary>, new: Option<&RangeSummary>) -> &'static str {
    let (Some(old), Some(new)) = (old, new) else {
        return if old.is_some() { "gone" } else { "new" };
    };
    let difference = new.cpu_ns - old.cpu_ns;
    let is_small = |bound: f64| difference.abs() <= bound.max(old.cpu_ns * MIN_CHANGE);
    match standard_error(old, new) {
        Some(error) if is_small(SIGNIFICANCE * error) => "same",
        Some(_) if difference > 0.0 => "slower",
        Some(_) => "faster",
        None if is_small(0.0) => "same (interval unknown)",
        None if difference > 0.0 => "slower (interval unknown)",
        None => "faster (interval unknown)",
    }
}

/// Which of the two reports lack the times of single instances, so that the significance of changes is unknown; `None` if
/// neither does.
#[must_use]
pub fn unknown_intervals(before: &ReportSummary, after: &ReportSummary) -> Option<String> {
    let lacks = |digest: &&ReportSummary| {
        let mut ranges = digest.ranges.iter();
        !digest.ranges.is_empty() && ranges.all(|range| range.cpu_deviation_ns.is_none())
    };
    let names = [before, after].into_iter().filter(lacks);
    let names: Vec<&str> = names.map(|digest| digest.title.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{} has means without the times of single batches: whether these changes stand out of the noise is unknown",
            names.join(" and ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(name: &str, count: u64, cpu_ns: f64, gpu_ns: Option<f64>) -> RangeSummary {
        RangeSummary {
            name: name.to_owned(),
            count: Some(count),
            cpu_ns,
            cpu_deviation_ns: Some(cpu_ns / 10.0),
            cpu_total_ns: cpu_ns * count as f64,
            median_ns: cpu_ns,
            max_ns: cpu_ns * 9.0,
            gpu_ns,
            ..RangeSummary::default()
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
    fn neither_a_stay_nor_a_wait_is_what_took_most_time() {
        let ranges = vec![
            range("jetwatch:video_decode_stay", 10, 900.0, None),
            range("jetwatch:enqueue", 10, 800.0, None),
            range("jetwatch:infer", 10, 100.0, None),
        ];
        let table = overview(&[digest("a", ranges)]);
        let most = (table.columns.iter()).position(|column| column.name == "Most Time");
        assert_eq!(
            table.rows[0][most.expect("a column")],
            "jetwatch:infer".into()
        );
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
        let mut digests = [a, b];
        assert_eq!(
            ranges(&digests).to_csv(),
            "Range,CPU a (ns),GPU a (ns),CPU b (ns),GPU b (ns),Fastest,Slowest Over Fastest (%)\n\
             infer,200.0,150.0,100.0,80.0,b,100.0\n\
             track,50.0,None,None,None,None,None\n\
             publish,None,None,9.0,None,None,None\n"
        );
        let overview = super::overview(&digests).to_csv();
        assert!(
            overview.ends_with("a,,None,None,0,infer,20000.0\nb,,None,None,1,infer,10000.0\n"),
            "{overview}"
        );
        // With batches of different sizes none is the fastest.
        digests[0].workload.batch_size = Some(1);
        digests[1].workload.batch_size = Some(8);
        let table = ranges(&digests).to_csv();
        assert!(
            table.contains("infer,200.0,150.0,100.0,80.0,None,None\n"),
            "{table}"
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
        let table = diff(&before, &after);
        let text = table.to_csv();
        for row in [
            ",200.0,150.0,-50.0,100.0,50.0,100,100\n",
            "\nold,gone,None,None,1.0,None,None,None,None,1,None\n",
        ] {
            assert!(text.contains(row), "{row} is not in\n{text}");
        }
        let rows = table.rows;
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
            (&rows[0][2], &rows[0][6]),
            (&Cell::Decimal(-25.0), &Cell::Decimal(-50.0))
        );
        // Three times the root of 2² + 1.5², of 200.
        assert_eq!(rows[0][3], Cell::Decimal(3.75));
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
    fn means_alone_have_no_known_significance() {
        let means = |title: &str, cpu_ns: f64| {
            let mut range = range("infer", 1, cpu_ns, None);
            (range.count, range.cpu_deviation_ns) = (None, None);
            digest(title, vec![range])
        };
        let known = digest("c", vec![range("infer", 50, 100.0, None)]);
        for (after, word) in [
            (means("b", 284.0), "slower (interval unknown)"),
            (means("b", 50.0), "faster (interval unknown)"),
            (means("b", 100.0), "same (interval unknown)"),
        ] {
            let table = diff(&means("a", 100.0), &after);
            assert_eq!(table.rows[0][1], word.into());
            assert_eq!(table.rows[0][3], Cell::None);
        }
        let text = unknown_intervals(&known, &means("b", 1.0)).expect("b has none");
        assert!(text.starts_with("b has means without"), "{text}");
        assert_eq!(unknown_intervals(&known, &known), None);
    }
}
