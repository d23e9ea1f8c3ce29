// SPDX-License-Identifier: Apache-2.0
//! A scene with manually checked counts, and the metrics that motmetrics 1.4.0 and TrackEval 1.3.0 print for it.

use crate::{TrackRow, TruthRow};
use jetwatch_types::{TrackId, Xyxy};

use super::*;

/// A square of ten pixels.
fn square(x: f32) -> Xyxy {
    [x, 0.0, x + 10.0, 10.0]
}

fn truth(rows: &[(u32, u64, f32)]) -> Vec<TruthRow> {
    let row = |(frame, object, x): &(u32, u64, f32)| TruthRow {
        frame: *frame,
        object: *object,
        xyxy: square(*x),
    };
    rows.iter().map(row).collect()
}

fn tracks(rows: &[(u32, u64, f32)]) -> Vec<TrackRow> {
    let row = |(frame, id, x): &(u32, u64, f32)| TrackRow {
        frame: *frame,
        id: TrackId(*id),
        xyxy: square(*x),
        score: 0.5,
        class: 0,
    };
    rows.iter().map(row).collect()
}

fn example() -> (Vec<TruthRow>, Vec<TrackRow>) {
    let mut objects = Vec::new();
    objects.extend((1..=6).map(|frame| (frame, 1, 0.0)));
    objects.extend((1..=6).map(|frame| (frame, 2, 50.0)));
    objects.extend((2..=5).map(|frame| (frame, 3, 100.0 + 2.0 * frame as f32)));
    #[rustfmt::skip]
    let found = [
        // Object 1 changes from 7 to 9.
        [(1, 7, 0.0), (2, 7, 2.0), (3, 7, 0.0)].as_slice(),
        &[(4, 9, 1.0), (5, 9, 0.0), (6, 9, 0.0)],
        // Object 2 is missed in frame 3, overlaps too little in frame 4, and is taken over by 7 in frame 6.
        &[(1, 8, 50.0), (2, 8, 51.0), (4, 8, 54.0), (5, 8, 52.0), (6, 7, 50.0)],
        // Object 3 keeps its track when another one appears; 6 matches no object, once after the last object has left.
        &[(2, 5, 104.0), (3, 5, 106.0), (4, 5, 109.0), (5, 5, 110.0), (5, 4, 111.0)],
        &[(3, 6, 300.0), (8, 6, 300.0)],
    ];
    (truth(&objects), tracks(&found.concat()))
}

fn assert_percent(found: f64, wanted: f64) {
    assert!(
        (100.0 * found - wanted).abs() < 0.005,
        "{} instead of {wanted}",
        100.0 * found
    );
}

#[test]
fn mot_metrics_equal_reference_values() {
    let (truth, tracks) = example();
    let metrics = Metrics::new(&truth, &tracks);
    assert_eq!((metrics.objects, metrics.boxes), (16, 18));
    assert_eq!(
        (
            metrics.misses(),
            metrics.false_positives(),
            metrics.switches()
        ),
        (2, 4, 2)
    );
    assert_percent(metrics.mota(), 50.0);
    assert_percent(metrics.motp(), 91.34);
    assert_percent(metrics.idf1(), 58.82);
    assert_percent(metrics.hota(), 60.91);
    assert_percent(metrics.detection_accuracy(), 65.96);
    assert_percent(metrics.association_accuracy(), 56.35);
}

#[test]
fn ground_truth_scores_perfectly() {
    let (truth, _) = example();
    let same: Vec<_> = truth
        .iter()
        .map(|row| (row.frame, 100 - row.object, row.xyxy[0]))
        .collect();
    let metrics = Metrics::new(&truth, &tracks(&same));
    for figure in [
        metrics.mota(),
        metrics.motp(),
        metrics.idf1(),
        metrics.hota(),
        metrics.detection_accuracy(),
        metrics.association_accuracy(),
    ] {
        assert_percent(figure, 100.0);
    }
}

#[test]
fn no_objects_and_no_tracks_have_defined_metrics() {
    let (truth, tracks) = example();
    let no_objects = Metrics::new(&[], &tracks);
    assert_eq!(
        (no_objects.mota(), no_objects.idf1(), no_objects.hota()),
        (0.0, 0.0, 0.0)
    );
    assert_eq!((no_objects.false_positives(), no_objects.misses()), (18, 0));
    let nothing = Metrics::new(&truth, &[]);
    assert_eq!(
        (nothing.mota(), nothing.motp(), nothing.hota()),
        (0.0, 0.0, 0.0)
    );
    assert_eq!((nothing.false_positives(), nothing.misses()), (0, 16));
    assert_eq!(Metrics::new(&[], &[]), Metrics::default());
}

#[test]
fn sequences_add_up_by_their_counts() {
    let (truth, tracks) = example();
    let one = Metrics::new(&truth, &tracks);
    let nothing = Metrics::new(&truth, &[]);
    let mut all = one.clone();
    all += &nothing;
    assert_eq!((all.objects, all.misses(), all.switches()), (32, 18, 2));
    assert_percent(all.mota(), 100.0 * (1.0 - 24.0 / 32.0));
    // No match is added, so the association stays, and the boxes found are a smaller share.
    assert_percent(all.association_accuracy(), 56.35);
    assert!(all.detection_accuracy() < one.detection_accuracy());
}

#[test]
fn duplicate_id_in_frame_counts_once() {
    let metrics = Metrics::new(
        &truth(&[(1, 1, 0.0)]),
        &tracks(&[(1, 7, 0.0), (1, 7, 200.0)]),
    );
    assert_eq!((metrics.misses(), metrics.false_positives()), (0, 1));
    assert_percent(metrics.motp(), 100.0);
}
