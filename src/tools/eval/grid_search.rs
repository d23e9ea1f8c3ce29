//! Grid search for tracker settings with leave-one-out cross-validation.
//!
//! Each sequence is held out in turn, and its result is that of the settings that are best on the others: settings scored on
//! their own training data look too good. The 95 % interval of the gain is over the choice of sequences: they are drawn with
//! replacement, again and again. Called by `jetwatch track --search`.

use jetwatch_config::TrackerConfig;
use jetwatch_tables::{Align, TextTable};
use jetwatch_types::{SplitMix64, quantile};

use crate::mot_metrics::Metrics;
use crate::mot_sequence::MotSequence;
use crate::offline::{TentativeFrames, track_offline};

/// The metric by which settings are selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackingMetric {
    /// Higher order tracking accuracy.
    Hota,
    /// Multiple object tracking accuracy.
    Mota,
    /// Identity F1.
    Idf1,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct GridSearch {
    /// The metric by which settings were selected.
    pub metric: TrackingMetric,
    /// Number of evaluated settings, including the given ones.
    pub tried: usize,
    /// One for each sequence, in their order.
    pub held_out: Vec<HeldOut>,
    /// Value of the given settings over all sequences, at most 1.
    pub given: f64,
    /// Value over all sequences, each with the settings chosen without it.
    pub chosen: f64,
    /// 95 % interval of `chosen − given` over the choice of sequences.
    pub gain: (f64, f64),
    /// The best settings on all sequences.
    pub best: TrackerConfig,
}

/// A sequence for which settings were chosen on the others.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldOut {
    /// Name of the sequence.
    pub name: String,
    /// Value of the given settings on it, at most 1.
    pub given: f64,
    /// Value of the chosen settings on it.
    pub chosen: f64,
    /// The settings chosen on the other sequences.
    pub settings: TrackerConfig,
}

/// The candidates in addition to the given settings.
const MIN_IOUS: [f32; 4] = [0.15, 0.2, 0.25, 0.3];
const PROBATIONS: [u32; 2] = [3, 5];
const PROBATION_EVIDENCES: [f32; 3] = [0.0, 1.5, 2.5];
const MAX_LOST_FRAMES: [u32; 3] = [1, 5, 30];
/// Scores that start a track; the last one adapts to the network.
const NEW_TRACK_SCORES: [(f32, f32); 4] = [(0.0, 0.0), (0.6, 0.0), (0.8, 0.0), (0.6, 0.05)];

/// Number of times that the sequences are drawn for an interval.
const DRAWS: usize = 2000;

impl TrackingMetric {
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

/// Evaluates all settings of the grid, and the `given` ones, on all sequences: several hundred runs of each.
#[must_use]
pub fn grid_search(
    sequences: &[MotSequence],
    given: &TrackerConfig,
    tentative: TentativeFrames,
    metric: TrackingMetric,
) -> GridSearch {
    let settings = settings(given);
    let tried: Vec<Vec<Metrics>> = settings
        .iter()
        .map(|config| {
            let score = |sequence: &MotSequence| {
                let rows = track_offline(&sequence.detections, config, tentative);
                Metrics::new(&sequence.truth, &sequence.scored(rows))
            };
            sequences.iter().map(score).collect()
        })
        .collect();
    let (mut before, mut after) = (Metrics::default(), Metrics::default());
    let mut pairs = Vec::with_capacity(sequences.len());
    let held_out = sequences.iter().enumerate().map(|(index, sequence)| {
        let chosen = best(&tried, Some(index), metric);
        before += &tried[0][index];
        after += &tried[chosen][index];
        pairs.push((&tried[0][index], &tried[chosen][index]));
        HeldOut {
            name: sequence.name.clone(),
            given: metric.value(&tried[0][index]),
            chosen: metric.value(&tried[chosen][index]),
            settings: settings[chosen].clone(),
        }
    });
    let held_out = held_out.collect();
    GridSearch {
        metric,
        tried: settings.len(),
        held_out,
        gain: gain_interval(&pairs, metric),
        given: metric.value(&before),
        chosen: metric.value(&after),
        best: settings[best(&tried, None, metric)].clone(),
    }
}

impl GridSearch {
    /// As a table, in percent, with the settings as options of `jetwatch track`.
    #[must_use]
    pub fn to_text(&self) -> String {
        let percent = |share: f64| format!("{:.2}", 100.0 * share);
        let mut table = TextTable::new(&[
            ("held out", Align::Left),
            ("given", Align::Right),
            ("chosen", Align::Right),
            ("settings", Align::Left),
        ]);
        for row in &self.held_out {
            let settings = options(&row.settings);
            table.push([
                row.name.clone(),
                percent(row.given),
                percent(row.chosen),
                settings,
            ]);
        }
        table.push(["all".to_owned(), percent(self.given), percent(self.chosen)]);
        format!(
            "{} settings, chosen by the {} of the other sequences:\n{table}\ngain {:+.2} points, 95 % interval {:+.2} to \
             {:+.2}\nby all of them: {}\n",
            self.tried,
            self.metric.name(),
            100.0 * (self.chosen - self.given),
            100.0 * self.gain.0,
            100.0 * self.gain.1,
            options(&self.best),
        )
    }
}

/// 95 % interval of the second minus the first over sequences that are drawn with replacement. The same for the same input.
fn gain_interval(pairs: &[(&Metrics, &Metrics)], metric: TrackingMetric) -> (f64, f64) {
    let mut random = SplitMix64::new(1);
    let mut gains: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let (mut before, mut after) = (Metrics::default(), Metrics::default());
            for _ in pairs {
                let (given, chosen) = pairs[(random.next_u64() % pairs.len() as u64) as usize];
                before += given;
                after += chosen;
            }
            metric.value(&after) - metric.value(&before)
        })
        .collect();
    gains.sort_by(f64::total_cmp);
    (quantile(&gains, 0.025), quantile(&gains, 0.975))
}

/// Index of the settings that are best on all sequences but the one held out; the first of equal ones, so that the given
/// settings are kept unless others are better.
fn best(tried: &[Vec<Metrics>], held_out: Option<usize>, metric: TrackingMetric) -> usize {
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
    for min_iou in MIN_IOUS {
        for probation_frames in PROBATIONS {
            for probation_evidence in PROBATION_EVIDENCES {
                for (min_new_track_score, new_track_share) in NEW_TRACK_SCORES {
                    for max_lost_frames in MAX_LOST_FRAMES {
                        let other = TrackerConfig {
                            min_iou,
                            probation_frames,
                            probation_evidence,
                            min_new_track_score,
                            new_track_share,
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
    }
    settings
}

/// The searched settings as the command's options.
fn options(config: &TrackerConfig) -> String {
    // Where the score adapts, it is the default, and the option would fix it.
    let start = match config.new_track_share > 0.0 {
        true => String::new(),
        false => format!(" --min-new-track-score {}", config.min_new_track_score),
    };
    format!(
        "--min-iou {} --probation-frames {} --probation-evidence {}{start} --max-lost-frames {}",
        config.min_iou, config.probation_frames, config.probation_evidence, config.max_lost_frames
    )
}

#[cfg(test)]
mod tests {
    use jetwatch_config::TrackerKind;

    use super::*;
    use crate::{parse_detections, parse_truth};

    /// A sequence with an object that is hidden for `hidden` frames on its way.
    fn sequence(name: &str, hidden: u32) -> MotSequence {
        let line = |frame: u32, id: i32| format!("{frame},{id},{},0,100,200,1\n", 2 * frame);
        let observed = |frame: &u32| *frame <= 10 || *frame > 10 + hidden;
        let detections: String = (1..=30)
            .filter(observed)
            .map(|frame| line(frame, -1))
            .collect();
        let truth: String = (1..=30).map(|frame| line(frame, 1)).collect();
        MotSequence {
            name: name.to_owned(),
            detections: parse_detections(&detections).expect("well formed"),
            truth: parse_truth(&truth).expect("well formed"),
            ignored: Vec::new(),
        }
    }

    #[test]
    fn held_out_sequence_does_not_affect_choice() {
        let given = TrackerConfig {
            max_lost_frames: 0,
            ..TrackerConfig::new(TrackerKind::Sort)
        };
        // Lost frames help on the first only; it is not used when it is held out, and the second has no gap.
        let sequences = [sequence("gap", 4), sequence("whole", 0)];
        let text = grid_search(
            &sequences,
            &given,
            TentativeFrames::Restored,
            TrackingMetric::Idf1,
        )
        .to_text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 7, "{text}");
        assert!(
            lines[0].starts_with("289 settings, chosen by the IDF1"),
            "{text}"
        );
        assert!(lines[2].ends_with("--max-lost-frames 0"), "{text}");
        assert!(lines[3].ends_with("--max-lost-frames 5"), "{text}");
        assert!(lines[3].starts_with("whole     100.00  100.00"), "{text}");
        assert!(
            lines[5].starts_with("gain +") && lines[5].contains("95 % interval +0.00 to"),
            "{text}"
        );
        assert!(lines[6].starts_with("by all of them: --min-iou"), "{text}");
        assert!(lines[6].ends_with("--max-lost-frames 5"), "{text}");
    }
}
