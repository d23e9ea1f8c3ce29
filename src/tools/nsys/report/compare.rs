// SPDX-License-Identifier: Apache-2.0
//! Several reports next to each other: which is fastest, where each spends its time, what changed from one to another.

mod throughput;
mod workloads;

use std::collections::BTreeSet;

use serde_json::Value;

pub use self::throughput::{change as throughput_change, throughput};
pub use self::workloads::{differences, is_one_configuration};
use super::summary::{Load, RangeSummary, ReportSummary};
use super::table::Table;

/// A difference below this share is no change.
const MIN_CHANGE: f64 = 0.01;
/// A difference counts from this multiple of its standard error on.
const SIGNIFICANCE: f64 = 3.0;

/// Ranges against reports: mean times on the CPU and on the GPU, and the report in which each is fastest.
#[must_use]
pub fn ranges(digests: &[ReportSummary]) -> Table {
    // A batch of one frame takes less time than one of eight, and is not faster for that.
    let is_alike = have_equal_batches(digests);
    let title = match is_alike {
        true => "Ranges by report: mean times",
        false => "Ranges by report: mean times of batches, which differ in size",
    };
    /// A range by its name in each report.
    type Row<'d> = (&'d str, Vec<Option<&'d RangeSummary>>);
    let found = |name| digests.iter().map(|digest| digest.range(name)).collect();
    let rows = names(digests).into_iter().map(|name| (name, found(name)));
    let rows: Vec<Row<'_>> = rows.collect();
    // The place of the fastest report, and the shortest and the longest time.
    let extremes = |found: &[Option<&RangeSummary>]| {
        let times = found.iter().enumerate();
        let times = times.filter_map(|(at, range)| Some((at, (*range)?.cpu_ns)));
        let mut times: Vec<(usize, f64)> = times.filter(|_| is_alike).collect();
        times.sort_by(|a, b| a.1.total_cmp(&b.1));
        let last = times.get(1..)?.last()?;
        Some((times[0].0, times[0].1, last.1))
    };
    let mut table = Table::of("ranges", title, &rows).plain("Range", |(name, _)| *name);
    for (at, digest) in digests.iter().enumerate() {
        table = table
            .ns(format!("CPU {}", digest.title), move |(_, found)| {
                found[at].map(|range| range.cpu_ns)
            })
            .ns(format!("GPU {}", digest.title), move |(_, found)| {
                found[at].and_then(|range| range.gpu_ns)
            });
    }
    table
        .plain("Fastest", |(_, found)| {
            Some(digests[extremes(found)?.0].title.as_str())
        })
        .percent("Slowest Over Fastest", |(_, found)| {
            let (_, first, last) = extremes(found).filter(|(_, first, _)| *first > 0.0)?;
            Some((last / first - 1.0) * 100.0)
        })
        .build()
}

/// Whether all reports whose batch size is known have the same.
fn have_equal_batches<'d>(digests: impl IntoIterator<Item = &'d ReportSummary>) -> bool {
    let digests = digests.into_iter();
    let mut sizes = digests.filter_map(|digest| digest.workload.batch_size);
    let first = sizes.next();
    sizes.all(|size| Some(size) == first)
}

/// Names of all ranges, those of the first report first.
fn names<'d>(digests: impl IntoIterator<Item = &'d ReportSummary>) -> Vec<&'d str> {
    let mut observed = BTreeSet::new();
    let all = digests.into_iter().flat_map(|digest| &digest.ranges);
    all.map(|range| range.name.as_str())
        .filter(|name| observed.insert(*name))
        .collect()
}

/// Each report in a line: how long, how busy its GPU, what took most.
#[must_use]
pub fn overview(digests: &[ReportSummary]) -> Table {
    let by_range = ranges(digests);
    let fastest = by_range.columns.len() - 2;
    let is_alike = have_equal_batches(digests);
    let wins = |digest: &ReportSummary| {
        let is_won = |row: &&Vec<Value>| row[fastest] == digest.title.as_str();
        by_range.rows.iter().filter(is_won).count()
    };
    Table::of("reports", "Reports", digests)
        .plain("Report", |digest| digest.title.as_str())
        .plain("Made By", |digest| digest.version.as_str())
        .ns("Length", |digest| digest.span_ns)
        .percent("GPU Busy", |it| it.gpu_busy.map(|busy| busy * 100.0))
        .plain("Ranges Fastest Here", |it| is_alike.then(|| wins(it)))
        .plain("Most Time", |it| most(it).map(|range| range.name.as_str()))
        // A mean is no total.
        .ns("Its Total Time", |digest| {
            let most = most(digest).filter(|range| range.count.is_some());
            most.map(|range| range.cpu_total_ns)
        })
        .build()
}

/// The slowest step of each report, on the CPU and on the GPU: what to look at first. Without rows where no report has steps.
#[must_use]
pub fn slowest(digests: &[ReportSummary]) -> Table {
    let rows: Vec<Slowest<'_>> = digests.iter().filter_map(slowest_of).collect();
    let title = "Slowest step of each report: waits and ranges around other ranges are left out";
    Table::of("slowest", title, &rows)
        .plain("Report", |(title, ..)| *title)
        .plain("CPU Step", |(_, step, _)| step.name.as_str())
        .ns("CPU Total", |(_, step, _)| step.cpu_total_ns)
        .ns("CPU Avg", |(_, step, _)| step.cpu_ns)
        .plain("GPU Step", |(.., gpu)| gpu.map(|it| it.0.name.as_str()))
        .ns("GPU Total", |(.., gpu)| gpu.map(|(_, total)| total))
        .ns("GPU Avg", |(.., gpu)| gpu.and_then(|(step, _)| step.gpu_ns))
        .build()
}

/// A report, its slowest step on the CPU, and that on the GPU with its total time.
type Slowest<'d> = (&'d str, &'d RangeSummary, Option<(&'d RangeSummary, f64)>);

fn slowest_of(digest: &ReportSummary) -> Option<Slowest<'_>> {
    let steps = || digest.ranges.iter().filter(|range| range.is_step());
    let cpu = steps().max_by(|a, b| a.cpu_total_ns.total_cmp(&b.cpu_total_ns))?;
    let on_gpu = |range: &'_ RangeSummary| -> Option<f64> {
        Some(range.gpu_ns? * range.count.unwrap_or(1) as f64)
    };
    let gpu = steps().filter_map(|range| Some((range, on_gpu(range)?)));
    let gpu = gpu.max_by(|a, b| a.1.total_cmp(&b.1));
    Some((digest.title.as_str(), cpu, gpu))
}

/// The range at work that took most time.
fn most(digest: &ReportSummary) -> Option<&RangeSummary> {
    let at_work = digest.ranges.iter().filter(|range| range.is_work());
    at_work.max_by(|a, b| a.cpu_total_ns.total_cmp(&b.cpu_total_ns))
}

/// Changes from the first to the second report, the largest change of time first.
#[must_use]
pub fn diff(before: &ReportSummary, after: &ReportSummary) -> Table {
    /// A range before and after.
    type Pair<'d> = (&'d str, Option<&'d RangeSummary>, Option<&'d RangeSummary>);
    let title = format!("What changed from {} to {}", before.title, after.title);
    let is_alike = have_equal_batches([before, after]);
    let names = names([before, after]).into_iter();
    let rows = names.map(|name| (name, before.range(name), after.range(name)));
    let mut rows: Vec<Pair<'_>> = rows.collect();
    let total = |range: Option<&RangeSummary>| range.map_or(0.0, |range| range.cpu_total_ns);
    rows.sort_by(|a, b| {
        let [a, b] = [a, b].map(|(_, old, new)| (total(*new) - total(*old)).abs());
        b.total_cmp(&a)
    });
    let cpu = |range: &Option<&RangeSummary>| range.map(|range| range.cpu_ns);
    let gpu = |range: &Option<&RangeSummary>| range.and_then(|range| range.gpu_ns);
    let count = |range: &Option<&RangeSummary>| range.and_then(|range| range.count);
    Table::of("diff", title, &rows)
        .plain("Range", |(name, ..)| *name)
        .plain("Change", |(_, old, new)| {
            match old.is_some() && new.is_some() && !is_alike {
                true => "batches differ in size",
                false => change(*old, *new),
            }
        })
        .percent("CPU Change", |(_, old, new)| ratio(cpu(old), cpu(new)))
        .percent("±", |(_, old, new)| {
            let (old, new) = old.zip(*new)?;
            let error = standard_error(old, new)?;
            (old.cpu_ns > 0.0).then(|| SIGNIFICANCE * error * 100.0 / old.cpu_ns)
        })
        .ns("CPU Before", |(_, old, _)| cpu(old))
        .ns("CPU After", |(.., new)| cpu(new))
        .percent("GPU Change", |(_, old, new)| ratio(gpu(old), gpu(new)))
        .ns("GPU Before", |(_, old, _)| gpu(old))
        .ns("GPU After", |(.., new)| gpu(new))
        .plain("Instances Before", |(_, old, _)| count(old))
        .plain("Instances After", |(.., new)| count(new))
        .build()
}

/// Findings of the first report only, of the second only, and of both.
#[must_use]
pub fn advice(before: &ReportSummary, after: &ReportSummary) -> Table {
    let title = format!("Verdict of {} and of {}", before.title, after.title);
    let new = after.rules.iter();
    let new = new.filter(|rule| !before.rules.contains(rule));
    let rows: Vec<&str> = before.rules.iter().chain(new).copied().collect();
    Table::of("diff_verdict", title, &rows)
        .plain("Rule", |rule| *rule)
        .plain("Change", |rule| {
            match (before.rules.contains(rule), after.rules.contains(rule)) {
                (true, true) => "same",
                (true, false) => "gone",
                (false, _) => "new",
            }
        })
        .build()
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
    let all = found.clone();
    found.retain(|(digest, range, _)| {
        let outer = format!("{}/", range.name);
        let mut others = all.iter().filter(|(other, ..)| other.title == digest.title);
        !others.any(|(_, other, _)| other.name.starts_with(&outer))
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
        .map_or(1.0, |length| length.max(1.0))
}

/// What is added up.
type Quantity = fn(&Load) -> Option<f64>;

/// The quantities, with their words in the title.
const QUANTITIES: [(&str, Quantity); 3] = [
    ("frames/s", |load| load.fps),
    ("work", |load| load.work_ns),
    ("GPU time", |load| load.gpu_ns),
];

/// A part of a report: its title, the load, and the share of each quantity, in percent.
type Part<'d> = (&'d str, &'d Load, [Option<f64>; QUANTITIES.len()]);

/// Shares of the processes and GPUs in all reports together; without rows where there is only one of each.
#[must_use]
pub fn balance(digests: &[ReportSummary]) -> Table {
    let mut sentences = Vec::new();
    let mut rows: Vec<Part<'_>> = Vec::new();
    for (what, is_gpu) in [("processes", false), ("GPUs", true)] {
        let loads = digests.iter().flat_map(|digest| {
            let loads = digest.loads.iter();
            loads.map(|load| (digest.title.as_str(), load, Default::default()))
        });
        let mut parts: Vec<Part<'_>> = loads
            .filter(|(_, load, _)| load.part.starts_with("GPU") == is_gpu)
            .collect();
        if parts.len() < 2 {
            continue;
        }
        for (at, (name, quantity)) in QUANTITIES.into_iter().enumerate() {
            // A part without a value would make the others look larger than they are.
            let values = parts.iter().map(|(_, load, _)| quantity(load));
            let values = values.collect::<Option<Vec<f64>>>().unwrap_or_default();
            let sum: f64 = values.iter().sum();
            if sum <= 0.0 {
                continue;
            }
            let count = values.len();
            let most = values.iter().copied().fold(0.0, f64::max);
            let ratio = most / (sum / count as f64);
            sentences.push(format!("{name} of {count} {what}: max/mean {ratio:.2}"));
            for ((.., shares), value) in parts.iter_mut().zip(values) {
                shares[at] = Some(value * 100.0 / sum);
            }
        }
        rows.extend(parts);
    }
    let title = match sentences.is_empty() {
        true => "Load balance".to_owned(),
        false => format!("Load balance; {}", sentences.join(", ")),
    };
    Table::of("balance", title, &rows)
        .plain("Report", |(title, ..)| *title)
        .plain("Part", |(_, load, _)| load.part.as_str())
        .plain("Frames/s", |(_, load, _)| load.fps)
        .percent("Of Frames/s", |(.., shares)| shares[0])
        .ns("Work", |(_, load, _)| load.work_ns)
        .percent("Of Work", |(.., shares)| shares[1])
        .ns("GPU Time", |(_, load, _)| load.gpu_ns)
        .percent("Of GPU Time", |(.., shares)| shares[2])
        .build()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        assert_eq!(table.rows[0][most.expect("a column")], "jetwatch:infer");
    }

    #[test]
    fn slowest_step_is_no_wrapper_and_no_wait() {
        let capture = vec![
            range("jetwatch:detect_batch", 10, 900.0, Some(70.0)),
            range("jetwatch:batch", 10, 800.0, None),
            range("jetwatch:infer", 10, 80.0, Some(60.0)),
            range("jetwatch:decode", 10, 90.0, None),
        ];
        let benchmark = vec![
            range("jetwatch/track", 10, 30.0, None),
            range("jetwatch/track/track", 10, 20.0, None),
            range("jetwatch/detect/enqueue", 10, 50.0, None),
        ];
        let digests = [("a", capture), ("b", benchmark), ("c", Vec::new())];
        assert_eq!(
            slowest(&digests.map(|(title, ranges)| digest(title, ranges))).to_csv(),
            "Report,CPU Step,CPU Total (ns),CPU Avg (ns),GPU Step,GPU Total (ns),GPU Avg (ns)\n\
             a,jetwatch:decode,900.0,90.0,jetwatch:infer,600.0,60.0\n\
             b,jetwatch/track/track,200.0,20.0,None,None,None\n"
        );
    }

    #[test]
    fn fastest_report_and_slowest_range_are_named() {
        let a = vec![
            range("infer", 100, 200.0, Some(150.0)),
            range("track", 100, 50.0, None),
        ];
        let b = vec![
            range("infer", 100, 100.0, Some(80.0)),
            range("publish", 1, 9.0, None),
        ];
        let mut digests = [digest("a", a), digest("b", b)];
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
        let before = vec![
            range("infer", 100, 200.0, Some(100.0)),
            range("track", 4, 50.0, None),
            range("old", 1, 1.0, None),
        ];
        let after = vec![
            range("infer", 100, 150.0, Some(50.0)),
            range("track", 4, 55.0, None),
            range("new", 1, 1.0, None),
        ];
        let [before, after] = [digest("a", before), digest("b", after)];
        let table = diff(&before, &after);
        let text = table.to_csv();
        for row in [
            ",200.0,150.0,-50.0,100.0,50.0,100,100\n",
            "\nold,gone,None,None,1.0,None,None,None,None,1,None\n",
        ] {
            assert!(text.contains(row), "{row} is not in\n{text}");
        }
        let rows = table.rows;
        let words: Vec<(Value, Value)> = rows
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
        assert_eq!((&rows[0][2], &rows[0][6]), (&json!(-25.0), &json!(-50.0)));
        // Three times the root of 2² + 1.5², of 200.
        assert_eq!(rows[0][3], 3.75);
        // A batch of eight takes longer than one of one, and is not slower for that.
        let [mut before, mut after] = [before, after];
        before.workload.batch_size = Some(1);
        after.workload.batch_size = Some(8);
        let rows = diff(&before, &after).rows;
        let words: Vec<&Value> = rows.iter().map(|row| &row[1]).collect();
        let differ = json!("batches differ in size");
        assert_eq!(words, [&differ, &differ, &"gone".into(), &"new".into()]);
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
            assert_eq!(table.rows[0][1], word);
            assert!(table.rows[0][3].is_null());
        }
        let text = unknown_intervals(&known, &means("b", 1.0)).expect("b has none");
        assert!(text.starts_with("b has means without"), "{text}");
        assert_eq!(unknown_intervals(&known, &known), None);
    }

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

    fn report(title: &str, loads: Vec<Load>) -> ReportSummary {
        ReportSummary {
            loads,
            ..digest(title, Vec::new())
        }
    }

    fn load(part: &str, fps: Option<f64>, gpu_ns: Option<f64>) -> Load {
        Load {
            part: part.to_owned(),
            fps,
            gpu_ns,
            ..Load::default()
        }
    }

    #[test]
    fn shares_of_processes_and_gpus_are_computed() {
        let one = report(
            "a",
            vec![
                load("process 1", Some(30.0), Some(4.0)),
                load("process 2", Some(10.0), None),
                load("GPU 0", None, Some(6.0)),
                load("GPU 1", None, Some(2.0)),
            ],
        );
        let table = balance(&[one]);
        assert_eq!(
            table.title,
            "Load balance; frames/s of 2 processes: max/mean 1.50, GPU time of 2 GPUs: max/mean 1.50"
        );
        assert_eq!(
            table.to_csv(),
            "Report,Part,Frames/s,Of Frames/s (%),Work (ns),Of Work (%),GPU Time (ns),Of GPU Time (%)\n\
             a,process 1,30.0,75.0,None,None,4.0,None\n\
             a,process 2,10.0,25.0,None,None,None,None\n\
             a,GPU 0,None,None,None,None,6.0,75.0\n\
             a,GPU 1,None,None,None,None,2.0,25.0\n"
        );
    }

    #[test]
    fn processes_of_several_reports_are_compared() {
        let [one, other] = ["proc_0", "proc_1"].map(|title| {
            let fps = if title == "proc_0" { 48.0 } else { 52.0 };
            report(title, vec![load("", Some(fps), None)])
        });
        assert!(balance(std::slice::from_ref(&one)).rows.is_empty());
        assert_eq!(
            balance(&[one, other]).title,
            "Load balance; frames/s of 2 processes: max/mean 1.04"
        );
    }
}
