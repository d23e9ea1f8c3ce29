// SPDX-License-Identifier: Apache-2.0
//! Which point of a series is the fastest, and whether the difference to the next one stands out of the noise.

use jetwatch_types::{Rate, mean, standard_deviation};

use super::results::{PointResult, RunResult};

/// Frames per second with their error from run to run; within the run where there is only one. `None` where the error is unknown.
fn rate(runs: &[RunResult]) -> Option<Rate> {
    let speeds: Vec<f64> = runs.iter().filter_map(|run| run.fps).collect();
    let fps = mean(speeds.iter().copied())?;
    if speeds.len() > 1 {
        let count = speeds.len() as f64;
        return Some(Rate {
            per_second: fps,
            standard_error: standard_deviation(&speeds, fps, 1) / count.sqrt(),
            blocks: speeds.len(),
        });
    }
    let run = runs.iter().find(|run| run.fps.is_some())?;
    Some(Rate {
        per_second: fps,
        standard_error: run.fps_standard_error?,
        blocks: run.fps_blocks.filter(|blocks| *blocks > 1)?,
    })
}

/// 95 % confidence interval of the frames per second of a point; `None` where it is unknown.
pub(super) fn interval(runs: &[RunResult]) -> Option<(f64, f64)> {
    Some(rate(runs)?.interval_95())
}

/// A sentence about the fastest point; `None` with fewer than two points that ran.
pub(super) fn describe(points: &[PointResult]) -> Option<String> {
    let ran = points.iter().filter(|point| point.fps.is_some());
    if ran.clone().count() < 2 {
        return None;
    }
    let known = ran
        .clone()
        .filter_map(|point| Some((point.name.as_str(), rate(&point.runs)?)));
    let mut known: Vec<(&str, Rate)> = known.collect();
    known.sort_by(|a, b| b.1.per_second.total_cmp(&a.1.per_second));
    let measured = |point: &&PointResult| known.iter().all(|(name, _)| *name != point.name);
    let unknown: Vec<&str> = ran
        .filter(measured)
        .map(|point| point.name.as_str())
        .collect();
    let mut text = match known.split_first() {
        None => "Fastest: unknown".to_owned(),
        Some(((name, best), others)) => {
            let (from, to) = best.interval_95();
            let alike = others.iter().filter(|(_, other)| best.is_like(other));
            let alike: Vec<&str> = alike.map(|(name, _)| *name).collect();
            let against = match alike.as_slice() {
                [] => String::new(),
                alike => format!(
                    "; the difference to {} is within the noise",
                    alike.join(", ")
                ),
            };
            format!(
                "Fastest: {name}, {:.1} frames/s (95 % interval {from:.1} to {to:.1}){against}",
                best.per_second
            )
        }
    };
    if !unknown.is_empty() {
        text += &format!(
            "; not judged: {}, with fewer than three batches after the warm-up (more with --frames)",
            unknown.join(", ")
        );
    }
    Some(text)
}

#[cfg(test)]
mod tests {
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
            "Fastest: 2, 110.0 frames/s (95 % interval 107.8 to 112.2); the difference to 4 is within the noise"
        );
        assert_eq!(describe(&points[..1]), None);
        let text = describe(&points[..2]).expect("two points");
        assert!(text.ends_with("107.8 to 112.2)"), "{text}");
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
    }
}
