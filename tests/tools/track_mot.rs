// SPDX-License-Identifier: Apache-2.0
//! The trackers on public MOTChallenge sequences, against their ground truth.
//!
//! Needs `JETWATCH_TEST_DATA`, a folder with `mot/det/SEQUENCE.txt` and `mot/gt/SEQUENCE/gt/gt.txt`; without it the
//! test is skipped with a message. The comparison with other programs is tested where the figures are computed.

use std::fs;
use std::path::{Path, PathBuf};

use jetwatch_config::{Association, TrackerConfig, TrackerKind};
use jetwatch_eval::{Metrics, TentativeFrames, parse_detections, parse_truth, track_offline};

fn read(path: &Path) -> String {
    fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

/// Tracks a sequence as `jetwatch track` does by default, and scores it.
fn score(folder: &Path, sequence: &str, config: &TrackerConfig) -> Metrics {
    let path = folder.join("det").join(sequence).with_extension("txt");
    let detections = parse_detections(&read(&path))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let path = folder.join("gt").join(sequence).join("gt/gt.txt");
    let truth =
        parse_truth(&read(&path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rows = track_offline(&detections, config, TentativeFrames::Restored);
    Metrics::new(&truth, &rows)
}

#[test]
fn accuracy_on_public_sequences_is_at_least_the_published() {
    let Some(root) = std::env::var_os("JETWATCH_TEST_DATA") else {
        eprintln!("skipped: JETWATCH_TEST_DATA is not set, so there are no sequences to score");
        return;
    };
    let folder = PathBuf::from(root).join("mot");
    // Figures of a plain greedy IoU tracker with the same detections, and those that SORT's authors publish.
    for (sequence, plain, published_mota, published_idf1) in [
        ("TUD-Campus", 58.8, 62.7, 60.6),
        ("KITTI-17", 58.9, 60.2, 71.1),
    ] {
        let mut best_idf1 = 0.0_f64;
        for (kind, least) in [
            (TrackerKind::Iou, plain),
            (TrackerKind::Sort, published_mota),
            (TrackerKind::ByteTrack, published_mota),
            (TrackerKind::OcSort, published_mota),
        ] {
            for association in [Association::Greedy, Association::Optimal] {
                let usual = TrackerConfig::new(kind);
                let config = TrackerConfig {
                    association,
                    ..usual.clone()
                };
                let metrics = score(&folder, sequence, &config);
                let (mota, idf1) = (100.0 * metrics.mota(), 100.0 * metrics.idf1());
                println!(
                    "{sequence}, {kind:?}, {association:?}: MOTA {mota:.2} MOTP {:.2} IDF1 {idf1:.2} HOTA {:.2} switches {} \
                     FP {} FN {}",
                    100.0 * metrics.motp(),
                    100.0 * metrics.hota(),
                    metrics.switches(),
                    metrics.false_positives(),
                    metrics.misses()
                );
                if association == usual.association {
                    best_idf1 = best_idf1.max(idf1);
                    assert!(
                        mota >= least,
                        "{sequence}, {kind:?}: MOTA {mota:.2} is below {least}"
                    );
                }
            }
        }
        assert!(
            best_idf1 >= published_idf1,
            "{sequence}: the best IDF1 {best_idf1:.2} is below {published_idf1}"
        );
    }
}
