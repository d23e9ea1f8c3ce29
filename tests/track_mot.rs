//! The tracker on public MOTChallenge sequences, against their ground truth.
//!
//! Needs `JETWATCH_TEST_DATA`, a folder with `mot/det/SEQUENCE.txt` and `mot/gt/SEQUENCE/gt/gt.txt`; without it the
//! test says so and passes. The score is CLEAR-MOT (Bernardin and Stiefelhagen 2008), computed here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use jetwatch::config::{Association, ClassMatch, TrackerConfig};
use jetwatch::track::{MaximumWeight, TentativeFrames, TrackRow, parse_detections, track_offline};
use jetwatch::types::{Xyxy, intersection_over_union};

/// Boxes that overlap less than this are not the same object.
const LEAST_IOU: f32 = 0.5;

/// Counts of one sequence.
#[derive(Debug, Default, PartialEq, Eq)]
struct ClearMot {
    objects: usize,
    misses: usize,
    false_positives: usize,
    switches: usize,
}

impl ClearMot {
    /// Multiple object tracking accuracy, in percent.
    fn mota(&self) -> f64 {
        100.0
            * (1.0
                - (self.misses + self.false_positives + self.switches) as f64 / self.objects as f64)
    }
}

type Boxes = Vec<(u64, Xyxy)>;

/// Compares two lists of `(identity, box)` per frame.
fn clear_mot(truth: &BTreeMap<u32, Boxes>, found: &BTreeMap<u32, Boxes>) -> ClearMot {
    let mut score = ClearMot::default();
    let mut last_match: HashMap<u64, u64> = HashMap::new();
    let mut solver = MaximumWeight::default();
    let frames: BTreeSet<u32> = truth.keys().chain(found.keys()).copied().collect();
    for frame in frames {
        let mut truth = truth.get(&frame).cloned().unwrap_or_default();
        let mut found = found.get(&frame).cloned().unwrap_or_default();
        score.objects += truth.len();
        // Who was matched before stays matched while the boxes still overlap.
        truth.retain(|(object, is)| {
            let partner = last_match
                .get(object)
                .and_then(|id| found.iter().position(|(other, _)| other == id));
            match partner {
                Some(index) if intersection_over_union(is, &found[index].1) >= LEAST_IOU => {
                    found.remove(index);
                    false
                }
                _ => true,
            }
        });
        // The rest: as many pairs as possible, then the greatest overlap. The constant outweighs any sum of overlaps.
        let weights: Vec<f64> = truth
            .iter()
            .flat_map(|(_, is)| {
                found
                    .iter()
                    .map(|(_, was)| intersection_over_union(is, was))
            })
            .map(|iou| {
                if iou >= LEAST_IOU {
                    1_000.0 + f64::from(iou)
                } else {
                    0.0
                }
            })
            .collect();
        let columns = solver.solve(truth.len(), found.len(), &weights);
        for ((object, _), column) in truth.iter().zip(columns) {
            match column {
                Some(column) => {
                    let id = found[*column].0;
                    let before = last_match.insert(*object, id);
                    score.switches += usize::from(before.is_some_and(|before| before != id));
                }
                None => score.misses += 1,
            }
        }
        score.false_positives += found.len() - columns.iter().flatten().count();
    }
    score
}

/// The ground truth's rows that are to be found: those with confidence 1.
fn read_truth(path: &Path) -> BTreeMap<u32, Boxes> {
    let text = fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    let mut frames: BTreeMap<u32, Boxes> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let fields: Vec<f32> = line
            .split(',')
            .map(|field| field.trim().parse().expect("ground truth holds numbers"))
            .collect();
        if fields[6] >= 1.0 {
            let [x, y, width, height] = [fields[2], fields[3], fields[4], fields[5]];
            frames
                .entry(fields[0] as u32)
                .or_default()
                .push((fields[1] as u64, [x, y, x + width, y + height]));
        }
    }
    frames
}

fn by_frame(rows: &[TrackRow]) -> BTreeMap<u32, Boxes> {
    let mut frames: BTreeMap<u32, Boxes> = BTreeMap::new();
    for row in rows {
        frames
            .entry(row.frame)
            .or_default()
            .push((row.id.0, row.xyxy));
    }
    frames
}

/// Tracks a sequence with the defaults of `jetwatch track` and scores it.
fn score(folder: &Path, sequence: &str, association: Association) -> ClearMot {
    let path = folder.join("det").join(sequence).with_extension("txt");
    let text = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    let detections =
        parse_detections(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let config = TrackerConfig {
        association,
        min_iou: 0.3,
        probation_frames: 3,
        max_lost_frames: 30,
        class_match: ClassMatch::Same,
        min_new_track_score: 0.0,
    };
    let rows = track_offline(&detections, &config, TentativeFrames::Restored);
    clear_mot(
        &read_truth(&folder.join("gt").join(sequence).join("gt/gt.txt")),
        &by_frame(&rows),
    )
}

#[test]
fn accuracy_on_public_sequences_is_at_least_that_of_the_plain_tracker() {
    let Some(root) = std::env::var_os("JETWATCH_TEST_DATA") else {
        eprintln!("skipped: JETWATCH_TEST_DATA is not set, so there are no sequences to score");
        return;
    };
    let folder = PathBuf::from(root).join("mot");
    // What a plain greedy IOU tracker reaches with the same detections.
    for (sequence, plain) in [("TUD-Campus", 58.8), ("KITTI-17", 58.9)] {
        for association in [Association::Greedy, Association::Optimal] {
            let score = score(&folder, sequence, association);
            println!(
                "{sequence}, {association:?}: MOTA {:.2} {score:?}",
                score.mota()
            );
            assert!(
                score.mota() >= plain,
                "{sequence}, {association:?}: {:.2} is below {plain}: {score:?}",
                score.mota()
            );
        }
    }
}

#[test]
fn the_score_counts_misses_false_positives_and_switches() {
    let at = |id: u64, x: f32| (id, [x, 0.0, x + 10.0, 10.0]);
    let truth = BTreeMap::from([
        (1, vec![at(1, 0.0), at(2, 50.0)]),
        (2, vec![at(1, 0.0), at(2, 50.0)]),
        (3, vec![at(1, 0.0), at(2, 50.0)]),
        (4, vec![at(1, 0.0)]),
    ]);
    let found = BTreeMap::from([
        (1, vec![at(7, 0.0), at(8, 50.0)]),
        // 7 still overlaps its object, so 9 with the better box is a false positive and no switch; 8 overlaps too little,
        // which is a miss and a false positive.
        (2, vec![at(7, 3.0), at(9, 0.0), at(8, 57.0)]),
        // Another takes the object of 8: a switch.
        (3, vec![at(7, 0.0), at(6, 50.0)]),
        // Frame 4 has a miss, and this frame a box where nothing is.
        (5, vec![at(7, 0.0)]),
    ]);
    let score = clear_mot(&truth, &found);
    assert_eq!(
        score,
        ClearMot {
            objects: 7,
            misses: 2,
            false_positives: 3,
            switches: 1
        }
    );
    assert!((score.mota() - 100.0 / 7.0).abs() < 1e-9);
}
