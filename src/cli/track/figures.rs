//! What `jetwatch track --metrics` prints: a line for each sequence, and one for all of them together.

use std::fmt::Write;

use crate::track::{Metrics, TrackRow};

use super::Sequence;

/// The table of figures, in percent but for the counts.
pub(super) fn table(sequences: &[Sequence], tracks: &[Vec<TrackRow>]) -> String {
    let mut all = Metrics::default();
    let mut lines = Vec::with_capacity(sequences.len() + 1);
    for (sequence, tracks) in sequences.iter().zip(tracks) {
        let metrics = Metrics::of(&sequence.truth, tracks);
        all += &metrics;
        lines.push((sequence.name.as_str(), metrics));
    }
    if lines.len() > 1 {
        lines.push(("all", all));
    }
    let width = lines.iter().map(|(name, _)| name.chars().count());
    let width = width.max().unwrap_or(0).max("sequence".len());
    let mut text = format!(
        "{:<width$}  {:>6}  {:>6}  {:>6}  {:>6}  {:>6}  {:>6}  {:>8}  {:>6}  {:>6}  {:>7}\n",
        "sequence",
        "MOTA",
        "MOTP",
        "IDF1",
        "HOTA",
        "DetA",
        "AssA",
        "switches",
        "FP",
        "FN",
        "objects"
    );
    for (name, metrics) in &lines {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{name:<width$}  {:>6.2}  {:>6.2}  {:>6.2}  {:>6.2}  {:>6.2}  {:>6.2}  {:>8}  {:>6}  {:>6}  {:>7}",
            100.0 * metrics.mota(),
            100.0 * metrics.motp(),
            100.0 * metrics.idf1(),
            100.0 * metrics.hota(),
            100.0 * metrics.detection_accuracy(),
            100.0 * metrics.association_accuracy(),
            metrics.switches(),
            metrics.false_positives(),
            metrics.misses(),
            metrics.objects,
        );
    }
    text
}
