// SPDX-License-Identifier: Apache-2.0
//! Whether reports ran the same work, so that their times can be compared.

use super::super::summary::{ReportSummary, Workload};
use super::super::table::listed;

/// Two reports with less than this share of their kernels in common ran different networks.
const MIN_COMMON_KERNELS: f64 = 0.5;

/// Why reports are not comparable, in one line; `None` if they are. What a sweep or a similar series varies by itself is no
/// reason.
#[must_use]
pub fn differences(digests: &[ReportSummary]) -> Option<String> {
    let (first, others) = digests.split_first()?;
    let mut workloads = others.iter().map(|other| &other.workload);
    let is_series = workloads.all(|other| is_series(&first.workload, other));
    let mut found = Vec::new();
    if !is_series {
        found.extend(batches(digests));
        found.extend(sources(digests));
        found.extend(others.iter().find_map(|other| networks(first, other)));
        found.extend(configurations(digests));
    }
    let shares = |other: &&ReportSummary| {
        let mut ranges = first.ranges.iter();
        ranges.any(|range| other.range(&range.name).is_some())
    };
    if let Some(other) = others.iter().find(|other| !shares(other)) {
        found.push(format!(
            "{} and {} have no range in common",
            first.title, other.title
        ));
    }
    (!found.is_empty()).then(|| found.join("; "))
}

/// Whether all reports are of one configuration, as the processes of one benchmark are.
#[must_use]
pub fn is_one_configuration(digests: &[ReportSummary]) -> bool {
    let mut hashes = digests.iter().map(|digest| &digest.workload.config);
    let first = hashes.next();
    let is_known = digests.len() < 2 || first.is_some_and(Option::is_some);
    is_known && hashes.all(|hash| Some(hash) == first)
}

/// Whether two runs of jetwatch belong together: the same configuration, apart from the keys that a series varies.
fn is_series(one: &Workload, other: &Workload) -> bool {
    // The hashes that other programs record are of something else.
    let (Some(one_base), Some(other_base)) = (&one.base, &other.base) else {
        return false;
    };
    // A comparison of two files varies more than keys that are set.
    let is_whole = one.varied.contains_key("config");
    let is_varied = !one.varied.is_empty() && one.varied.keys().eq(other.varied.keys());
    one.config.is_some() && one.config == other.config
        || is_varied && (one_base == other_base || is_whole)
}

/// Titles of the reports with each value that `value` gives, in the order of their first occurrence.
fn groups<'d, T: PartialEq>(
    digests: &'d [ReportSummary],
    value: impl Fn(&'d ReportSummary) -> Option<T>,
) -> Vec<(T, Vec<&'d str>)> {
    let mut groups: Vec<(T, Vec<&'d str>)> = Vec::new();
    for digest in digests {
        let Some(value) = value(digest) else { continue };
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, titles)) => titles.push(&digest.title),
            None => groups.push((value, vec![&digest.title])),
        }
    }
    groups
}

/// The values of reports that differ, each with the titles of its reports.
fn differing<'d, T: PartialEq>(
    digests: &'d [ReportSummary],
    what: &str,
    value: impl Fn(&'d ReportSummary) -> Option<T>,
    text: impl Fn(T) -> String,
) -> Option<String> {
    let groups = groups(digests, value).into_iter();
    let each = groups.map(|(value, titles)| format!("{} in {}", text(value), titles.join(", ")));
    let each: Vec<String> = each.collect();
    (each.len() > 1).then(|| format!("{what}: {}", each.join(", ")))
}

fn batches(digests: &[ReportSummary]) -> Option<String> {
    let size = |digest: &ReportSummary| digest.workload.batch_size;
    let text = |size| format!("up to {size} frames");
    differing(digests, "batches", size, text)
}

fn sources(digests: &[ReportSummary]) -> Option<String> {
    differing(
        digests,
        "sources",
        |digest| Some(Vec::from_iter(&digest.workload.sources)),
        |names| listed(&names),
    )
}

fn networks(one: &ReportSummary, other: &ReportSummary) -> Option<String> {
    let (a, b) = (&one.workload.kernels, &other.workload.kernels);
    let shared = a.intersection(b).count();
    // A report without kernels was made without a GPU, or without tracing it: which says nothing about the network.
    let both_have = !a.is_empty() && !b.is_empty();
    let is_other = (shared as f64) < MIN_COMMON_KERNELS * a.union(b).count() as f64;
    let (one, other, a, b) = (&one.title, &other.title, a.len(), b.len());
    let text = format!("networks: {a} kernels in {one}, {b} in {other}, {shared} in both");
    (both_have && is_other).then_some(text)
}

fn configurations(digests: &[ReportSummary]) -> Option<String> {
    let groups = groups(digests, |digest| digest.workload.config.as_ref());
    let each = groups.iter().map(|(_, titles)| titles.join(", "));
    let each: Vec<String> = each.collect();
    (each.len() > 1).then(|| format!("configurations: not the same in {}", each.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::super::super::summary::RangeSummary;
    use super::*;

    fn report(title: &str) -> ReportSummary {
        ReportSummary {
            title: title.to_owned(),
            ranges: vec![RangeSummary {
                name: "infer".to_owned(),
                ..RangeSummary::default()
            }],
            ..ReportSummary::default()
        }
    }

    #[test]
    fn different_workloads_are_reported_in_one_line() {
        let mut one = report("a");
        one.workload.sources.insert("source-cam".to_owned());
        one.workload.batch_size = Some(1);
        one.workload.kernels = ["k1", "k2"].map(str::to_owned).into();
        one.workload.config = Some("0123".to_owned());
        assert_eq!(differences(&[one.clone(), one.clone()]), None);
        let mut other = one.clone();
        other.title = "b".to_owned();
        other.workload.batch_size = Some(4);
        other.workload.sources.clear();
        other.workload.kernels = ["k3"].map(str::to_owned).into();
        other.workload.config = Some("4567".to_owned());
        other.ranges.clear();
        let mut third = one.clone();
        third.title = "c".to_owned();
        assert_eq!(
            differences(&[one, other, third]).as_deref(),
            Some(
                "batches: up to 1 frames in a, c, up to 4 frames in b; sources: source-cam in a, c, none in b; \
                 networks: 2 kernels in a, 1 in b, 0 in both; configurations: not the same in a, c and b; \
                 a and b have no range in common"
            )
        );
    }

    #[test]
    fn what_a_series_varies_is_no_difference() {
        let point = |title: &str, size: u64, base: &str| {
            let mut report = report(title);
            report.workload.batch_size = Some(size);
            report.workload.config = Some(title.to_owned());
            report.workload.base = Some(base.to_owned());
            let key = "detector.batch_size".to_owned();
            report.workload.varied.insert(key, size.to_string());
            report
        };
        let (one, four) = (point("a", 1, "x"), point("b", 4, "x"));
        assert_eq!(differences(&[one.clone(), four.clone()]), None);
        let elsewhere = point("c", 4, "y");
        assert!(differences(&[one.clone(), elsewhere]).is_some());
        // Without a series two configurations are two configurations.
        let mut single = four;
        single.workload.varied.clear();
        assert!(differences(&[one, single]).is_some());
    }

    #[test]
    fn equal_configurations_are_one_workload() {
        let process = |title: &str, largest_batch: u64| {
            let mut report = report(title);
            report.workload.batch_size = Some(largest_batch);
            report.workload.config = Some("x".to_owned());
            report
        };
        let mut pair = [process("a", 7), process("b", 8)];
        assert!(differences(&pair).is_some());
        assert!(is_one_configuration(&pair));
        assert!(is_one_configuration(&[report("c")]));
        assert!(
            !is_one_configuration(&[report("c"), report("d")]),
            "unknown"
        );
        assert!(!is_one_configuration(&[process("a", 1), report("c")]));
        for report in &mut pair {
            report.workload.base = Some("x".to_owned());
        }
        assert_eq!(differences(&pair), None);
    }
}
