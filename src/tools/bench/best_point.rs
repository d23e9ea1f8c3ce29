// SPDX-License-Identifier: Apache-2.0
//! Which point of a series is the best, and whether the difference to the next one stands out of the noise: by frames per second, by
//! CPU time where other programs took the CPU meanwhile, and by latency where sources are live.

use jetwatch_platform::Occupancy;
use jetwatch_types::{Ranking, Rate, mean, standard_deviation};

use super::compare::{CPU_SPEED, RunSpeed, SPEED};
use super::results::{PointResult, RunResult};

/// A speed with its error from run to run; `None` with fewer than two runs.
fn from_rounds(runs: &[RunResult], of: RunSpeed) -> Option<Rate> {
    let speeds: Vec<f64> = runs.iter().filter_map(of).collect();
    let per_second = mean(speeds.iter().copied()).filter(|_| speeds.len() > 1)?;
    Some(Rate {
        per_second,
        standard_error: standard_deviation(&speeds, per_second, 1) / (speeds.len() as f64).sqrt(),
        blocks: speeds.len(),
    })
}

/// Frames per second with their error from run to run; within the run where there is only one. `None` where the error is unknown.
fn rate(runs: &[RunResult]) -> Option<Rate> {
    from_rounds(runs, SPEED).or_else(|| {
        let run = runs.iter().find(|run| run.fps.is_some())?;
        Rate::stated(run.fps?, run.fps_standard_error, run.fps_blocks)
    })
}

/// 95 % confidence interval of the frames per second of a point; `None` where it is unknown.
pub(super) fn interval(runs: &[RunResult]) -> Option<(f64, f64)> {
    Some(rate(runs)?.interval_95())
}

/// That other programs took the CPU in some of the runs, and which; `None` where the runs were undisturbed.
pub(super) fn disturbance<'p>(points: impl IntoIterator<Item = &'p PointResult>) -> Option<String> {
    let runs = points.into_iter().flat_map(|point| &point.runs);
    let known: Vec<_> = runs.filter_map(|run| run.occupancy.as_ref()).collect();
    let worst = Occupancy::most_disturbed(known.iter().copied())?;
    Some(format!(
        "not measurable on this machine now: {} in the worst of {} disturbed runs of {}",
        worst.describe_others(),
        known.iter().filter(|found| found.is_disturbed()).count(),
        known.len()
    ))
}

/// Sentences about the best point; `None` with fewer than two points that ran.
pub(super) fn describe(points: &[PointResult]) -> Option<String> {
    let ran: Vec<&PointResult> = points.iter().filter(|point| point.fps.is_some()).collect();
    if ran.len() < 2 {
        return None;
    }
    let mut lines = match disturbance(points) {
        Some(by) => vec![format!("Fastest: {by}"), least_cpu(&ran)],
        None => vec![fastest(&ran)],
    };
    lines.extend(lowest_latency(&ran));
    Some(lines.join("\n"))
}

/// The points by their speeds.
fn ranked<'p>(
    points: &[&'p PointResult],
    rate: impl Fn(&[RunResult]) -> Option<Rate>,
) -> Ranking<&'p PointResult> {
    Ranking::new(points.iter().map(|point| (*point, rate(&point.runs))))
}

/// The names of points.
fn names(points: &[&PointResult]) -> String {
    let names = points.iter().map(|point| point.name.as_str());
    names.collect::<Vec<_>>().join(", ")
}

/// The points that differ from the best by no more than noise, as a clause.
fn alike(points: &[&PointResult]) -> String {
    match points {
        [] => String::new(),
        alike => format!("; the difference to {} is within the noise", names(alike)),
    }
}

fn fastest(points: &[&PointResult]) -> String {
    let ranking = ranked(points, rate);
    let mut text = match ranking.best {
        None => "Fastest: unknown".to_owned(),
        Some((point, best)) => {
            let (from, to) = best.interval_95();
            let source = match point.runs.iter().filter_map(SPEED).count() {
                1 => "within one run; --repeat 3 gives it from interleaved rounds".to_owned(),
                rounds => format!("from {rounds} interleaved rounds"),
            };
            format!(
                "Fastest: {}, {:.1} frames/s (95 % interval {from:.1} to {to:.1}, {source}){}",
                point.name,
                best.per_second,
                alike(&ranking.alike)
            )
        }
    };
    if !ranking.unknown.is_empty() {
        text += &format!(
            "; not judged: {}, with fewer than three batches after the warm-up (more with --frames)",
            names(&ranking.unknown)
        );
    }
    text
}

/// The comparison that other programs do not disturb.
fn least_cpu(points: &[&PointResult]) -> String {
    let ranking = ranked(points, |runs| from_rounds(runs, CPU_SPEED));
    match ranking.best {
        Some((point, best)) if ranking.unknown.is_empty() => {
            let (from, to) = best.interval_95();
            // The most frames per second are the least time of a frame; the interval may reach zero frames.
            let ms = |per_second: f64| match per_second > 0.0 {
                true => format!("{:.2}", 1e3 / per_second),
                false => "unknown".to_owned(),
            };
            format!(
                "Least CPU time per frame: {}, {} ms (95 % interval {} to {}, from {} interleaved rounds){}",
                point.name,
                ms(best.per_second),
                ms(to),
                ms(from),
                best.blocks,
                alike(&ranking.alike)
            )
        }
        _ => {
            let each = points.iter().map(|point| {
                let ms = mean(point.runs.iter().filter_map(|run| run.cpu_ms_per_frame));
                let ms = ms.map_or_else(|| "unknown".to_owned(), |ms| format!("{ms:.2} ms"));
                format!("{} {ms}", point.name)
            });
            let each: Vec<String> = each.collect();
            format!(
                "CPU time per frame: {}; without interval, as there was one round (--repeat 3)",
                each.join(", ")
            )
        }
    }
}

/// The latency of the points, where sources are live: they set the pace, so that frames per second say little.
fn lowest_latency(points: &[&PointResult]) -> Option<String> {
    let latency = |point: &PointResult, of: fn(&RunResult) -> Option<f64>| {
        mean(point.runs.iter().filter_map(of))
    };
    let known = points.iter().map(|point| {
        let median = latency(point, |run| Some(run.latency?.median_ms))?;
        let p95 = latency(point, |run| Some(run.latency?.p95_ms))?;
        Some((point.name.as_str(), median, p95))
    });
    let known: Vec<(&str, f64, f64)> = known.collect::<Option<_>>()?;
    let lowest = known.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let (name, median, p95) = lowest?;
    Some(format!(
        "Lowest latency of live sources: {name}, {median:.1} ms (median; 95 %: {p95:.1} ms)"
    ))
}

#[cfg(test)]
mod tests {
    use jetwatch_platform::Program;
    use jetwatch_telemetry::Latency;

    use super::*;
    use crate::Statistics;

    fn point(name: &str, speeds: &[f64], error: Option<f64>) -> PointResult {
        let run = |fps: &f64| RunResult {
            fps: Some(*fps),
            fps_standard_error: error,
            fps_blocks: error.map(|_| 11),
            ..RunResult::default()
        };
        PointResult {
            name: name.to_owned(),
            runs: speeds.iter().map(run).collect(),
            fps: Statistics::from_values(speeds),
            ..PointResult::default()
        }
    }

    #[test]
    fn fastest_point_must_stand_out() {
        // With 10 degrees of freedom the factor is 2.228.
        let points = [
            point("1", &[100.0], Some(1.0)),
            point("2", &[110.0], Some(1.0)),
            point("4", &[108.0], Some(1.0)),
        ];
        let text = describe(&points).expect("three points");
        assert_eq!(
            text,
            "Fastest: 2, 110.0 frames/s (95 % interval 107.8 to 112.2, within one run; --repeat 3 gives it from interleaved rounds); \
             the difference to 4 is within the noise"
        );
        assert_eq!(describe(&points[..1]), None);
        let text = describe(&points[..2]).expect("two points");
        assert!(!text.contains("noise"), "{text}");
    }

    #[test]
    fn a_point_without_an_interval_is_never_the_fastest() {
        let points = [
            point("1", &[100.0], Some(1.0)),
            point("8", &[16_000.0], None),
        ];
        let text = describe(&points).expect("two points");
        assert!(
            text.starts_with("Fastest: 1, ")
                && text.contains("not judged: 8, with fewer than three"),
            "{text}"
        );
        let text = describe(&[point("1", &[1.0], None), point("2", &[2.0], None)]);
        assert!(
            text.expect("two points")
                .starts_with("Fastest: unknown; not judged: 1, 2")
        );
    }

    #[test]
    fn repeated_runs_give_their_own_error() {
        // 100, 102 and 104: deviation 2, error 2 / √3, factor 4.303 with 2 degrees of freedom.
        let (from, to) =
            interval(&point("a", &[100.0, 102.0, 104.0], Some(50.0)).runs).expect("three");
        assert!(
            (to - from - 2.0 * 4.303 * 2.0 / 3.0_f64.sqrt()).abs() < 1e-9,
            "{from} {to}"
        );
        assert_eq!(interval(&[]), None);
        let points = [
            point("a", &[100.0, 102.0, 104.0], None),
            point("b", &[10.0, 10.2, 10.4], None),
        ];
        let text = describe(&points).expect("two points");
        assert!(text.ends_with("from 3 interleaved rounds)"), "{text}");
    }

    /// Runs beside which other programs took this many cores of two; each with its CPU time per frame.
    fn beside(name: &str, foreign: f64, runs: &[(f64, f64)]) -> PointResult {
        let speeds: Vec<f64> = runs.iter().map(|(fps, _)| *fps).collect();
        let mut point = point(name, &speeds, Some(1.0));
        for (run, (_, cpu)) in point.runs.iter_mut().zip(runs) {
            run.cpu_ms_per_frame = Some(*cpu);
            run.occupancy = Some(Occupancy {
                allowed_cores: 2,
                own_cores: 1.0,
                foreign_cores: foreign,
                programs: vec![Program {
                    name: "ffmpeg".to_owned(),
                    cores: foreign,
                }],
                ..Occupancy::default()
            });
        }
        point
    }

    #[test]
    fn no_point_is_fastest_that_met_less_load() {
        // The second took more frames as it had the machine for itself; a frame costs about the same.
        let slow = [(21.9, 19.9), (22.3, 17.4), (22.0, 18.0)];
        let quick = [(53.7, 17.6), (54.0, 19.0), (53.0, 18.5)];
        let text = describe(&[beside("1", 1.0, &slow), beside("4", 0.0, &quick)]);
        let text = text.expect("two points");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "Fastest: not measurable on this machine now: other programs took 50 % of 2 cores (ffmpeg 1.00) in the worst of 3 \
             disturbed runs of 6"
        );
        assert!(
            lines[1].starts_with("Least CPU time per frame: 4, 18.3")
                && lines[1].ends_with(
                    "from 3 interleaved rounds); the difference to 1 is within the noise"
                ),
            "{text}"
        );
        // One round has no interval.
        let text = describe(&[beside("1", 1.0, &slow[..1]), beside("4", 0.0, &quick[..1])]);
        assert!(
            text.expect("two points").ends_with(
                "CPU time per frame: 1 19.90 ms, 4 17.60 ms; without interval, as there was one round (--repeat 3)"
            )
        );
        let quiet = [beside("1", 0.0, &slow), beside("4", 0.0, &quick)];
        assert!(describe(&quiet).is_some_and(|text| text.starts_with("Fastest: 4, ")));
    }

    #[test]
    fn latency_is_weighed_where_sources_are_live() {
        let live = |name: &str, median_ms| {
            let mut point = point(name, &[25.0], Some(1.0));
            point.runs[0].latency = Some(Latency {
                median_ms,
                p95_ms: median_ms + 10.0,
                ..Latency::default()
            });
            point
        };
        let points = [live("4", 149.0), live("1", 31.0)];
        let text = describe(&points).expect("two points");
        assert!(
            text.ends_with("\nLowest latency of live sources: 1, 31.0 ms (median; 95 %: 41.0 ms)"),
            "{text}"
        );
        let mixed = [live("4", 149.0), point("1", &[25.0], Some(1.0))];
        assert!(!describe(&mixed).expect("two points").contains("latency"));
    }
}
