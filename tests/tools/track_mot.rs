//! The trackers on public MOTChallenge sequences, against their ground truth.
//!
//! Needs `JETWATCH_TEST_DATA`, a folder with `mot/det/SEQUENCE.txt` and `mot/gt/SEQUENCE/gt/gt.txt`; without it the
//! test is skipped with a message. The comparison with other programs is tested where the figures are computed.

use std::fs;
use std::path::{Path, PathBuf};

use jetwatch_config::{Association, TrackerConfig, TrackerKind};
use jetwatch_eval::{
    ClearMotCounter, GroundTruthObject, Hypothesis, Metrics, TentativeFrames, parse_detections,
    parse_truth, track_offline,
};
use jetwatch_track::Tracker;
use jetwatch_types::{Detection, TrackState, hash64};

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

/// Noise from 0 to below 1 that depends on the place only.
fn noise(words: [u64; 2]) -> f64 {
    (hash64(1000 * words[0] + words[1]) >> 40) as f64 / f64::from(1_u32 << 24)
}

/// `jetwatch track --metrics` reads files and scores a whole sequence; `jetwatch demo` counts the published tracks frame by
/// frame. For the same detections and the same truth the figures must be equal.
#[test]
fn track_command_and_demo_compute_the_same_mota() {
    let (mut detections, mut truth) = (String::new(), String::new());
    for frame in 1..=200_u64 {
        for id in 1..=9_u64 {
            let (x, y) = (4.0 * frame as f64 + 90.0 * id as f64, 60.0 * id as f64);
            // Objects come and go.
            if (frame / 40 + id).is_multiple_of(4) {
                continue;
            }
            truth.push_str(&format!("{frame},{id},{x},{y},30,70,1\n"));
            let of_object = |what: u64| noise([frame * 100 + id, what]);
            if of_object(0) < 0.8 {
                let (x, y) = (x + 6.0 * of_object(1), y + 10.0 * of_object(2));
                let score = 0.4 + 0.6 * of_object(3);
                detections.push_str(&format!("{frame},-1,{x:.2},{y:.2},30,70,{score:.3}\n"));
            }
        }
        let x = 800.0 * noise([frame, 7]);
        detections.push_str(&format!("{frame},-1,{x:.2},300,30,70,0.7\n"));
    }
    let detections = parse_detections(&detections).expect("well formed");
    let truth = parse_truth(&truth).expect("well formed");
    for kind in [
        TrackerKind::Iou,
        TrackerKind::Sort,
        TrackerKind::ByteTrack,
        TrackerKind::OcSort,
    ] {
        let config = TrackerConfig::new(kind);
        let rows = track_offline(&detections, &config, TentativeFrames::Omitted);
        let of_files = Metrics::new(&truth, &rows);
        let mut tracker = Tracker::new(&config);
        let mut of_frames = ClearMotCounter::new(0.5);
        for frame in 1..=200 {
            let found: Vec<Detection> = (detections.iter())
                .filter(|row| row.frame == frame)
                .map(|row| row.detection)
                .collect();
            let tracks = tracker.update(&found).iter();
            let tracks = tracks.filter(|track| track.state == TrackState::Active);
            let reported: Vec<Hypothesis> = tracks
                .map(|track| Hypothesis {
                    id: track.id.0,
                    class: 0,
                    xyxy: track.xyxy,
                })
                .collect();
            let known: Vec<GroundTruthObject> = (truth.iter())
                .filter(|row| row.frame == frame)
                .map(|row| GroundTruthObject {
                    id: row.object as u32,
                    class: 0,
                    xyxy: row.xyxy,
                    ignored: false,
                })
                .collect();
            of_frames.frame(&known, &reported);
        }
        let counts = of_frames.counts();
        assert_eq!(
            (counts.misses, counts.false_positives, counts.switches),
            (
                of_files.misses(),
                of_files.false_positives(),
                of_files.switches()
            ),
            "{kind:?}"
        );
        assert_eq!(counts.mota(), Some(of_files.mota()), "{kind:?}");
        assert!(
            of_files.mota() > 0.3 && of_files.mota() < 0.95,
            "{kind:?}: {}",
            of_files.mota()
        );
    }
}
