// SPDX-License-Identifier: Apache-2.0
//! The table of `jetwatch track --metrics`: one line per sequence, and one for all together; or the counts as JSON.

use serde_json::{Value, json};

use jetwatch_tables::TextTable;

use crate::mot_format::TrackRow;
use crate::mot_metrics::Metrics;
use crate::mot_sequence::MotSequence;

/// The table of metrics, in percent except for the counts. `tracks` has the rows of each sequence.
#[must_use]
pub fn metrics_table(sequences: &[MotSequence], tracks: &[Vec<TrackRow>]) -> String {
    let mut all = Metrics::default();
    let mut lines = Vec::with_capacity(sequences.len() + 1);
    for (sequence, tracks) in sequences.iter().zip(tracks) {
        let metrics = Metrics::new(&sequence.truth, tracks);
        all += &metrics;
        lines.push((sequence.name.as_str(), metrics));
    }
    if lines.len() > 1 {
        lines.push(("all", all));
    }
    let percent = |share: f64| format!("{:.2}", 100.0 * share);
    let table = TextTable::of(&lines)
        .left("sequence", |(name, _)| *name)
        .right("MOTA", |(_, metrics)| percent(metrics.mota()))
        .right("MOTP", |(_, metrics)| percent(metrics.motp()))
        .right("IDF1", |(_, metrics)| percent(metrics.idf1()))
        .right("HOTA", |(_, metrics)| percent(metrics.hota()))
        .right("DetA", |(_, metrics)| percent(metrics.detection_accuracy()))
        .right("AssA", |(_, metrics)| {
            percent(metrics.association_accuracy())
        })
        .right("switches", |(_, metrics)| metrics.switches().to_string())
        .right("FP", |(_, metrics)| metrics.false_positives().to_string())
        .right("FN", |(_, metrics)| metrics.misses().to_string())
        .right("objects", |(_, metrics)| metrics.objects.to_string())
        .build();
    format!("{table}\n")
}

/// The counts behind the metrics of each sequence, which can be added up. `tracks` has the rows of each sequence.
#[must_use]
pub fn metrics_json(sequences: &[MotSequence], tracks: &[Vec<TrackRow>]) -> Value {
    let counts = sequences.iter().zip(tracks).map(|(sequence, tracks)| {
        let mut counts = json!(Metrics::new(&sequence.truth, tracks));
        counts["name"] = json!(sequence.name);
        counts
    });
    counts.collect()
}

#[cfg(test)]
mod tests {
    use jetwatch_config::{TrackerConfig, TrackerKind};

    use super::*;
    use crate::{TentativeFrames, parse_detections, parse_truth, track_offline};

    #[test]
    fn table_has_row_per_sequence_and_total() {
        let line = |frame: u32, x: u32| format!("{frame},1,{x},0,10,10,1\n");
        let found: String = (1..=4).map(|frame| line(frame, 0)).collect();
        let missed: String = (1..=4).map(|frame| line(frame, 500)).collect();
        let sequence = |name: &str, truth: &str| MotSequence {
            name: name.to_owned(),
            detections: parse_detections(&found).expect("well formed"),
            truth: parse_truth(truth).expect("well formed"),
            ignored: Vec::new(),
        };
        let sequences = [sequence("found", &found), sequence("missed", &missed)];
        let config = TrackerConfig::new(TrackerKind::Sort);
        let tracks: Vec<_> = sequences
            .iter()
            .map(|sequence| track_offline(&sequence.detections, &config, TentativeFrames::Restored))
            .collect();
        let text = metrics_table(&sequences, &tracks);
        let fields: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        let wanted = [
            "found 100.00 100.00 100.00 100.00 100.00 100.00 0 0 0 4",
            "missed -100.00 0.00 0.00 0.00 0.00 0.00 0 4 4 4",
            // A third of the boxes of either side are matches; each belongs to its track all the time.
            "all 0.00 100.00 50.00 57.74 33.33 100.00 0 4 4 8",
        ];
        assert_eq!(
            fields[1..],
            wanted.map(|line| line.split(' ').collect::<Vec<_>>())
        );
        assert_eq!(
            metrics_table(&sequences[..1], &tracks[..1]).lines().count(),
            2
        );
        let counts = metrics_json(&sequences, &tracks);
        assert_eq!(counts[1]["name"], "missed");
        assert_eq!(counts[0]["clear"]["matches"], 4);
        assert_eq!(counts[0]["identity"]["matches"], 4);
        let last = &counts[0]["hota"]["at_alpha"][18];
        assert_eq!(
            (&last["matches"], &last["association_sum"]),
            (&json!(4), &json!(4.0))
        );
    }
}
