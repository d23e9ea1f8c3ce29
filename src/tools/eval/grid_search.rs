//! `jetwatch track --search`: settings that are best on all sequences but one, and what they are worth on that one.
//!
//! Settings chosen on the sequences that they are then scored on always look good. So each sequence is held out in turn: what
//! is printed about it was chosen without it. Scores are not searched, since their scale belongs to the detector.

use std::fmt::Write;

use clap::ValueEnum;

use jetwatch_config::{Association, TrackerConfig};
use jetwatch_track::{Metrics, TentativeFrames, track_offline};

use super::Sequence;

/// Values of `--search`: the metric by which settings are selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MetricArg {
    /// Higher order tracking accuracy
    Hota,
    /// Multiple object tracking accuracy
    Mota,
    /// Identity F1
    Idf1,
}

/// The candidates in addition to the given settings.
const MIN_IOUS: [f32; 5] = [0.1, 0.2, 0.3, 0.4, 0.5];
const PROBATIONS: [u32; 4] = [1, 2, 3, 5];
const MAX_LOST_FRAMES: [u32; 6] = [0, 1, 5, 15, 30, 60];
const ASSOCIATIONS: [Association; 2] = [Association::Greedy, Association::Optimal];

impl MetricArg {
    fn value(self, metrics: &Metrics) -> f64 {
        match self {
            Self::Hota => metrics.hota(),
            Self::Mota => metrics.mota(),
            Self::Idf1 => metrics.idf1(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Hota => "HOTA",
            Self::Mota => "MOTA",
            Self::Idf1 => "IDF1",
        }
    }
}

/// Evaluates all settings on all sequences and returns the result as text.
pub(super) fn search(
    sequences: &[Sequence],
    given: &TrackerConfig,
    tentative: TentativeFrames,
    metric: MetricArg,
) -> String {
    let settings = settings(given);
    let tried: Vec<Vec<Metrics>> = settings
        .iter()
        .map(|config| {
            let score = |sequence: &Sequence| {
                let rows = track_offline(&sequence.detections, config, tentative);
                Metrics::new(&sequence.truth, &rows)
            };
            sequences.iter().map(score).collect()
        })
        .collect();
    let width = sequences
        .iter()
        .map(|sequence| sequence.name.chars().count());
    let width = width.max().unwrap_or(0).max("held out".len());
    let name = metric.name();
    let mut text = format!(
        "{} settings, chosen by the {name} of the other sequences:\n{:<width$}  {:>6}  {:>6}  settings\n",
        settings.len(),
        "held out",
        "given",
        "chosen",
    );
    let (mut before, mut after) = (Metrics::default(), Metrics::default());
    for (held_out, sequence) in sequences.iter().enumerate() {
        let chosen = best(&tried, Some(held_out), metric);
        before += &tried[0][held_out];
        after += &tried[chosen][held_out];
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{:<width$}  {:>6.2}  {:>6.2}  {}",
            sequence.name,
            100.0 * metric.value(&tried[0][held_out]),
            100.0 * metric.value(&tried[chosen][held_out]),
            options(&settings[chosen]),
        );
    }
    let _ = writeln!(
        text,
        "{:<width$}  {:>6.2}  {:>6.2}",
        "all",
        100.0 * metric.value(&before),
        100.0 * metric.value(&after),
    );
    let chosen = &settings[best(&tried, None, metric)];
    let _ = writeln!(text, "by all of them: {}", options(chosen));
    text
}

/// Index of the settings that are best on all sequences but the one held out; the first of equal ones, so that the given
/// settings are kept unless others are better.
fn best(tried: &[Vec<Metrics>], held_out: Option<usize>, metric: MetricArg) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for (index, of_settings) in tried.iter().enumerate() {
        let mut others = Metrics::default();
        for (_, metrics) in of_settings
            .iter()
            .enumerate()
            .filter(|(sequence, _)| Some(*sequence) != held_out)
        {
            others += metrics;
        }
        let reached = metric.value(&others);
        if reached > best.1 {
            best = (index, reached);
        }
    }
    best.0
}

/// The given settings, then all others.
fn settings(given: &TrackerConfig) -> Vec<TrackerConfig> {
    let mut settings = vec![given.clone()];
    for association in ASSOCIATIONS {
        for min_iou in MIN_IOUS {
            for probation_frames in PROBATIONS {
                for max_lost_frames in MAX_LOST_FRAMES {
                    let other = TrackerConfig {
                        association,
                        min_iou,
                        probation_frames,
                        max_lost_frames,
                        ..given.clone()
                    };
                    if other != *given {
                        settings.push(other);
                    }
                }
            }
        }
    }
    settings
}

/// The searched settings as the command's options.
fn options(config: &TrackerConfig) -> String {
    let association = match config.association {
        Association::Greedy => "greedy",
        Association::Optimal => "optimal",
    };
    format!(
        "--association {association} --min-iou {} --probation-frames {} --max-lost-frames {}",
        config.min_iou, config.probation_frames, config.max_lost_frames
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_config::TrackerKind;

    /// A sequence with an object that is hidden for `hidden` frames on its way.
    fn sequence(name: &str, hidden: u32) -> Sequence {
        use jetwatch_track::{parse_detections, parse_truth};
        let line = |frame: u32, id: i32| format!("{frame},{id},{},0,100,200,1\n", 2 * frame);
        let observed = |frame: &u32| *frame <= 10 || *frame > 10 + hidden;
        let detections: String = (1..=30)
            .filter(observed)
            .map(|frame| line(frame, -1))
            .collect();
        let truth: String = (1..=30).map(|frame| line(frame, 1)).collect();
        Sequence {
            name: name.to_owned(),
            detections: parse_detections(&detections).expect("well formed"),
            truth: parse_truth(&truth).expect("well formed"),
        }
    }

    #[test]
    fn held_out_sequence_does_not_affect_choice() {
        let given = TrackerConfig {
            max_lost_frames: 0,
            ..TrackerConfig::new(TrackerKind::Sort)
        };
        // Patience pays on the first, which is not known when it is held out: the second has no gap.
        let sequences = [sequence("gap", 4), sequence("whole", 0)];
        let text = search(
            &sequences,
            &given,
            TentativeFrames::Restored,
            MetricArg::Idf1,
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 6, "{text}");
        assert!(
            lines[0].starts_with("240 settings, chosen by the IDF1"),
            "{text}"
        );
        assert!(lines[2].ends_with("--max-lost-frames 0"), "{text}");
        assert!(lines[3].ends_with("--max-lost-frames 5"), "{text}");
        assert!(lines[3].starts_with("whole     100.00  100.00"), "{text}");
        assert!(
            lines[5].starts_with("by all of them: --association"),
            "{text}"
        );
        assert!(lines[5].ends_with("--max-lost-frames 5"), "{text}");
    }
}
