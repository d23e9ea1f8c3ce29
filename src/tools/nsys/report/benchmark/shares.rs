// SPDX-License-Identifier: Apache-2.0
//! Shares of the detectors' time in a benchmark, for the rules of the verdict.

use jetwatch_telemetry::Stage;

use super::TimedRange;

/// The level of the detectors.
const DETECT: &str = "jetwatch/detect";

/// Shares of the detectors' time, 0 to 1, largest first; empty if the detectors were not measured.
pub(super) fn shares(ranges: &[TimedRange]) -> Vec<(Stage, f64)> {
    // A range that is not in every batch counts as often as it was there.
    let time = |range: &TimedRange| Some(range.cpu.mean? * range.cpu.count.unwrap_or(1.0));
    let find = |path: &str| {
        ranges
            .iter()
            .find(|range| range.path == path)
            .and_then(time)
    };
    let Some(whole) = find(DETECT).filter(|whole| *whole > 0.0) else {
        return Vec::new();
    };
    let stages = [Stage::Batch, Stage::Tensor, Stage::Infer, Stage::Decode];
    let mut shares: Vec<(Stage, f64)> = stages
        .into_iter()
        .filter_map(|stage| Some((stage, find(&format!("{DETECT}/{}", stage.name()))? / whole)))
        .collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares
}

#[cfg(test)]
mod tests {
    use super::super::Statistics;
    use super::*;

    #[test]
    fn shares_count_batches_in_which_a_range_was() {
        let range = |(path, mean, count): (&str, f64, f64)| TimedRange {
            path: path.to_owned(),
            cpu: Statistics {
                mean: Some(mean),
                count: Some(count),
                ..Statistics::default()
            },
            ..TimedRange::default()
        };
        let ranges = [
            ("jetwatch/detect", 10.0, 20.0),
            ("jetwatch/detect/infer", 9.4, 20.0),
            // In half of the batches.
            ("jetwatch/detect/tensor", 0.8, 10.0),
            ("jetwatch/track", 99.0, 20.0),
        ]
        .map(range);
        let found: Vec<(Stage, i64)> = shares(&ranges)
            .iter()
            .map(|(stage, share)| (*stage, (share * 100.0).round() as i64))
            .collect();
        assert_eq!(found, [(Stage::Infer, 94), (Stage::Tensor, 4)]);
        assert_eq!(shares(&[]), []);
    }
}
