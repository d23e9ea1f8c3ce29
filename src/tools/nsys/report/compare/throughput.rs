// SPDX-License-Identifier: Apache-2.0
//! Frames per second of several reports: which is the fastest, and whether that stands out of the noise.

use jetwatch_platform::Occupancy;
use jetwatch_telemetry::Latency;
use jetwatch_types::Ranking;

use super::super::summary::{ReportSummary, Throughput};
use super::super::table::Table;

/// A row for each report that records frames; the title names the fastest. Without rows where none does.
#[must_use]
pub fn throughput(digests: &[ReportSummary]) -> Table {
    type Row<'d> = (usize, &'d ReportSummary, &'d Throughput);
    let rows = digests.iter().enumerate();
    let rows: Vec<Row<'_>> = rows
        .filter_map(|(at, digest)| Some((at, digest, digest.throughput.as_ref()?)))
        .collect();
    let fastest = fastest(digests);
    let title = match &fastest {
        Some(fastest) => format!("Throughput: {}", fastest.describe(digests)),
        None => "Throughput".to_owned(),
    };
    let mut table = Table::of("throughput", title, &rows)
        .plain("Report", |(_, digest, _)| digest.title.as_str());
    if digests.iter().any(|it| !it.workload.varied.is_empty()) {
        table = table.plain("Varied", |(_, digest, _)| {
            let pairs = digest.workload.varied.iter();
            let pairs: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
            (!pairs.is_empty()).then(|| pairs.join(" "))
        });
    }
    let interval = |found: &Throughput| found.rate.map(|rate| rate.interval_95());
    table = table
        .plain("Batch Size", |(_, digest, _)| digest.workload.batch_size)
        .plain("Frames/s", |(.., found)| found.fps)
        .plain("95 % From", |(.., found)| interval(found).map(|it| it.0))
        .plain("To", |(.., found)| interval(found).map(|it| it.1))
        .ns("Time Per Frame", |(.., found)| found.frame_ns())
        .ns("GPU Per Frame", |(.., found)| found.gpu_ns)
        .ns("CPU Per Frame", |(.., found)| found.cpu_ns)
        .joules("Energy Per Frame", |(.., found)| found.joules);
    if rows.iter().any(|(.., found)| found.latency.is_some()) {
        let ns = |found: &Throughput, of: fn(&Latency) -> f64| {
            found.latency.as_ref().map(|latency| of(latency) * 1e6)
        };
        table = table
            .ns("Latency Med", move |(.., found)| {
                ns(found, |it| it.median_ms)
            })
            .ns("Latency 95 %", move |(.., found)| ns(found, |it| it.p95_ms))
            .ns("Latency Max", move |(.., found)| ns(found, |it| it.max_ms));
    }
    if rows.iter().any(|(.., found)| found.occupancy.is_some()) {
        table = table.percent("CPU of Others", |(.., found)| {
            let occupancy = found.occupancy.as_ref()?;
            Some(occupancy.foreign_share() * 100.0)
        });
    }
    if let Some(fastest) = &fastest {
        table = table.plain("Fastest", |(at, ..)| fastest.mark(*at));
    }
    table.build()
}

/// The fastest of several reports, by their places.
#[derive(Debug, PartialEq)]
struct Fastest {
    /// Who took the CPU in the report where other programs disturbed the run most.
    disturbed: Option<(usize, Occupancy)>,
    /// The reports that record frames.
    ranking: Ranking<usize>,
}

/// `None` where fewer than two reports record frames.
fn fastest(digests: &[ReportSummary]) -> Option<Fastest> {
    let found = digests.iter().enumerate();
    let found = found.filter_map(|(at, digest)| Some((at, digest.throughput.as_ref()?)));
    let found: Vec<(usize, &Throughput)> = found.collect();
    let taken = found.iter();
    let taken = taken.filter_map(|(at, found)| Some((*at, found.disturbance()?.clone())));
    let disturbed = taken.max_by(|a, b| a.1.foreign_share().total_cmp(&b.1.foreign_share()));
    let ranking = Ranking::new(found.iter().map(|(at, found)| (*at, found.rate)));
    (found.len() > 1).then_some(Fastest { disturbed, ranking })
}

impl Fastest {
    fn describe(&self, digests: &[ReportSummary]) -> String {
        let names = |places: &[usize]| {
            let names = places.iter().map(|at| digests[*at].title.as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        let mut text = match (&self.disturbed, self.ranking.best) {
            (Some((at, taken)), _) => {
                return format!(
                    "which is fastest was not measurable, since {} during {}; compare the CPU time per frame",
                    taken.describe_others(),
                    digests[*at].title
                );
            }
            (None, None) => "which is fastest is unknown".to_owned(),
            (None, Some((at, rate))) => {
                let (from, to) = rate.interval_95();
                format!(
                    "{} is fastest with {:.1} frames/s (95 % interval {from:.1} to {to:.1})",
                    digests[at].title, rate.per_second
                )
            }
        };
        let [alike, unknown] = [&self.ranking.alike, &self.ranking.unknown].map(|it| names(it));
        if !alike.is_empty() {
            text += &format!("; the difference to {alike} is within the noise");
        }
        if !unknown.is_empty() {
            text += &format!(
                "; the interval of {unknown} is unknown: it needs the times of three batches or more"
            );
        }
        text
    }

    /// The cell of a report.
    fn mark(&self, at: usize) -> Option<&'static str> {
        let ranking = Some(&self.ranking).filter(|_| self.disturbed.is_none())?;
        match ranking.best {
            Some((best, _)) if best == at => Some("fastest"),
            _ => ranking.alike.contains(&at).then_some("within noise"),
        }
    }
}

/// The change of the frames per second from one report to another as a sentence; `None` where one of them records no frames.
#[must_use]
pub fn change(before: &ReportSummary, after: &ReportSummary) -> Option<String> {
    let (old, new) = (before.throughput.as_ref()?, after.throughput.as_ref()?);
    if old.fps <= 0.0 {
        return None;
    }
    let percent = (new.fps / old.fps - 1.0) * 100.0;
    let by_cpu = || {
        let (old, new) = (old.cpu_ns?, new.cpu_ns?);
        let percent = (new / old - 1.0) * 100.0;
        let [old, new] = [old, new].map(|ns| ns / 1e6);
        Some(format!(
            "; CPU time per frame {old:.2} to {new:.2} ms, {percent:+.1} %"
        ))
    };
    let frames = format!("{:.1} to {:.1} frames/s", old.fps, new.fps);
    if let Some(taken) = old.disturbance().or(new.disturbance()) {
        let (others, by_cpu) = (taken.describe_others(), by_cpu().unwrap_or_default());
        return Some(format!("{frames}: not comparable, since {others}{by_cpu}"));
    }
    let judged = match (old.rate, new.rate) {
        (Some(old), Some(new)) if new.is_like(&old) => "within the noise".to_owned(),
        (Some(_), Some(_)) if percent > 0.0 => "faster".to_owned(),
        (Some(_), Some(_)) => "slower".to_owned(),
        (old, _) => {
            let unknown = if old.is_none() { before } else { after };
            format!("the interval of {} is unknown", unknown.title)
        }
    };
    Some(format!("{frames}, {percent:+.1} %: {judged}"))
}

#[cfg(test)]
mod tests {
    use jetwatch_types::Rate;

    use super::super::super::summary::Throughput;
    use super::*;

    fn report(title: &str, fps: f64, error: Option<f64>, batch_size: u64) -> ReportSummary {
        let rate = Rate::stated(fps, error, Some(11));
        let mut report = ReportSummary {
            title: title.to_owned(),
            throughput: Some(Throughput {
                fps,
                rate,
                ..Throughput::default()
            }),
            ..ReportSummary::default()
        };
        report.workload.batch_size = Some(batch_size);
        report
    }

    #[test]
    fn fastest_report_is_marked_with_its_interval() {
        let digests = [
            report("bs01", 100.0, Some(1.0), 1),
            report("bs04", 125.0, Some(1.0), 4),
            report("bs08", 124.0, Some(1.0), 8),
            report("bs16", 900.0, None, 16),
        ];
        let table = throughput(&digests);
        assert_eq!(
            table.title,
            "Throughput: bs04 is fastest with 125.0 frames/s (95 % interval 122.8 to 127.2); the difference to bs08 is within the \
             noise; the interval of bs16 is unknown: it needs the times of three batches or more"
        );
        assert_eq!(
            table.to_csv(),
            "Report,Batch Size,Frames/s,95 % From,To,Time Per Frame (ns),GPU Per Frame (ns),CPU Per Frame (ns),Energy Per Frame (J),Fastest\n\
             bs01,1,100.0,97.8,102.2,10000000.0,None,None,None,None\n\
             bs04,4,125.0,122.8,127.2,8000000.0,None,None,None,fastest\n\
             bs08,8,124.0,121.8,126.2,8064516.1,None,None,None,within noise\n\
             bs16,16,900.0,None,None,1111111.1,None,None,None,None\n"
        );
        assert_eq!(throughput(&digests[..1]).title, "Throughput");
        assert!(throughput(&[ReportSummary::default()]).rows.is_empty());
    }

    #[test]
    fn reports_of_a_busy_machine_are_compared_by_cpu_time() {
        let beside = |title: &str, foreign_cores, cpu_ms: f64| {
            let mut report = report(title, 50.0, Some(0.1), 1);
            if let Some(found) = &mut report.throughput {
                found.cpu_ns = Some(cpu_ms * 1e6);
                found.occupancy = Some(Occupancy {
                    allowed_cores: 2,
                    foreign_cores,
                    ..Occupancy::default()
                });
            }
            report
        };
        let digests = [beside("a", 0.0, 10.0), beside("b", 1.0, 12.0)];
        let table = throughput(&digests);
        assert_eq!(
            table.title,
            "Throughput: which is fastest was not measurable, since other programs took 50 % of 2 cores (none of them is visible \
             from here) during b; compare the CPU time per frame"
        );
        assert!(
            table.to_csv().contains("CPU of Others"),
            "{}",
            table.to_csv()
        );
        assert!(!table.to_csv().contains(",fastest"));
        let text = change(&digests[0], &digests[1]).expect("frames");
        assert!(
            text.starts_with("50.0 to 50.0 frames/s: not comparable, since other programs")
                && text.ends_with("; CPU time per frame 10.00 to 12.00 ms, +20.0 %"),
            "{text}"
        );
    }

    #[test]
    fn change_of_frames_is_judged_by_both_intervals() {
        let sentence = |old: f64, new: f64, error| {
            change(&report("a", old, Some(1.0), 1), &report("b", new, error, 1)).expect("frames")
        };
        assert_eq!(
            sentence(100.0, 110.0, Some(1.0)),
            "100.0 to 110.0 frames/s, +10.0 %: faster"
        );
        assert_eq!(
            sentence(100.0, 90.0, Some(1.0)),
            "100.0 to 90.0 frames/s, -10.0 %: slower"
        );
        assert_eq!(
            sentence(100.0, 101.0, Some(1.0)),
            "100.0 to 101.0 frames/s, +1.0 %: within the noise"
        );
        assert_eq!(
            sentence(100.0, 200.0, None),
            "100.0 to 200.0 frames/s, +100.0 %: the interval of b is unknown"
        );
        assert_eq!(
            change(&ReportSummary::default(), &report("b", 1.0, None, 1)),
            None
        );
    }
}
