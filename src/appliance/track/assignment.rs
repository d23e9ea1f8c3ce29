// SPDX-License-Identifier: Apache-2.0
//! Assignment: selects pairs of tracks and detections from the candidates that the tracker found to overlap enough.
//!
//! Candidates have a rank. A lower rank is assigned before the next rank chooses from what is left, so that the stale box
//! of a lost track cannot take the detection of a track matched a moment ago. Within a rank the pairs are chosen either
//! greedily or for the greatest total IOU. This module computes no overlaps; [`Tracker`](super::Tracker) does.

use jetwatch_config::Association;

use super::hungarian::HungarianSolver;
use super::sparse_assignment::SparseAssignment;

/// Largest number of track-detection pairs in a group (with or without a candidate) that is solved as a dense matrix.
const MAX_MATRIX_SIZE: usize = 1024;

/// A track and a detection that may be paired.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Lower ranks are assigned first.
    pub rank: u8,
    /// Index of the track.
    pub track: usize,
    /// Index of the detection.
    pub detection: usize,
    /// Weight of the pair: intersection over union or what the association stage derives from it, above 0 to 1.
    pub iou: f32,
}

/// The assignment: pairs of tracks and detections.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pairing {
    /// Detection of each track, by track index; `None` without a match.
    pub detection_of_track: Vec<Option<usize>>,
    /// Track of each detection, by detection index; `None` without a match.
    pub track_of_detection: Vec<Option<usize>>,
}

impl Pairing {
    fn reset(&mut self, tracks: usize, detections: usize) {
        self.detection_of_track.clear();
        self.detection_of_track.resize(tracks, None);
        self.track_of_detection.clear();
        self.track_of_detection.resize(detections, None);
    }

    fn is_free(&self, track: usize, detection: usize) -> bool {
        self.detection_of_track[track].is_none() && self.track_of_detection[detection].is_none()
    }

    fn pair(&mut self, track: usize, detection: usize) {
        self.detection_of_track[track] = Some(detection);
        self.track_of_detection[detection] = Some(track);
    }
}

/// Selects pairs. Reuses its buffers: allocates only when a frame has more objects than any before.
#[derive(Debug)]
pub struct Assigner {
    association: Association,
    pairing: Pairing,
    /// Sort keys of the candidates, and the smallest key of each track and of each detection.
    order: Vec<u128>,
    first_of_track: Vec<u128>,
    first_of_detection: Vec<u128>,
    groups: Groups,
    solver: HungarianSolver,
}

impl Assigner {
    /// An assigner that uses `association`.
    pub fn new(association: Association) -> Self {
        Self {
            association,
            pairing: Pairing::default(),
            order: Vec::new(),
            first_of_track: Vec::new(),
            first_of_detection: Vec::new(),
            groups: Groups::default(),
            solver: HungarianSolver::default(),
        }
    }

    /// Pairs tracks `0..tracks` with detections `0..detections`; `candidates` may be reordered.
    ///
    /// Greedy: the greatest IOU first; among equals the lower track, then the lower detection. Optimal: per rank, the
    /// greatest sum of IOUs.
    ///
    /// # Panics
    /// When a candidate has an index out of range.
    pub fn assign(
        &mut self,
        candidates: &mut [Candidate],
        tracks: usize,
        detections: usize,
    ) -> &Pairing {
        self.pairing.reset(tracks, detections);
        match self.association {
            Association::Greedy => self.choose_greedily(candidates),
            Association::Optimal => {
                candidates.sort_unstable_by_key(|candidate| candidate.rank);
                for rank in candidates.chunk_by(|a, b| a.rank == b.rank) {
                    self.groups.split(rank, &self.pairing);
                    self.groups.solve_each(&mut self.solver, &mut self.pairing);
                }
            }
        }
        &self.pairing
    }

    /// Result of the last [`assign`](Self::assign).
    pub(crate) fn pairing(&self) -> &Pairing {
        &self.pairing
    }
}

impl Assigner {
    /// Accepts the candidates in the order of their sort keys, where track and detection are both still free.
    ///
    /// A candidate that is the first of its track and the first of its detection is always accepted. Most accepted pairs
    /// are of this kind, so few candidates are left to sort.
    fn choose_greedily(&mut self, candidates: &[Candidate]) {
        let Self {
            pairing,
            order,
            first_of_track,
            first_of_detection,
            ..
        } = self;
        order.clear();
        order.extend(candidates.iter().map(sort_key));
        first_of_track.clear();
        first_of_track.resize(pairing.detection_of_track.len(), u128::MAX);
        first_of_detection.clear();
        first_of_detection.resize(pairing.track_of_detection.len(), u128::MAX);
        for key in &*order {
            let [track, detection] = decode_key(*key);
            let (of_track, of_detection) = (
                &mut first_of_track[track],
                &mut first_of_detection[detection],
            );
            *of_track = (*of_track).min(*key);
            *of_detection = (*of_detection).min(*key);
        }
        for key in &*first_of_track {
            if *key != u128::MAX {
                let [track, detection] = decode_key(*key);
                if first_of_detection[detection] == *key {
                    pairing.pair(track, detection);
                }
            }
        }
        order.retain(|key| {
            let [track, detection] = decode_key(*key);
            pairing.is_free(track, detection)
        });
        order.sort_unstable();
        for key in &*order {
            let [track, detection] = decode_key(*key);
            if pairing.is_free(track, detection) {
                pairing.pair(track, detection);
            }
        }
    }
}

/// Sort key of a candidate as one number, which sorts much faster than comparing candidates: lowest rank, greatest IOU,
/// lowest track, lowest detection. The bits of non-negative floats have the order of the floats.
fn sort_key(candidate: &Candidate) -> u128 {
    let worse = !candidate.iou.max(0.0).to_bits();
    let first = u64::from(candidate.rank) << 32 | u64::from(worse);
    // An index beyond 32 bits would need a frame with four billion boxes.
    let then = (candidate.track as u64) << 32 | candidate.detection as u64 & u64::from(u32::MAX);
    u128::from(first) << 64 | u128::from(then)
}

/// Track and detection of a sort key.
fn decode_key(key: u128) -> [usize; 2] {
    [key >> 32, key].map(|half| (half & u128::from(u32::MAX)) as usize)
}

/// Candidates in groups that share no track and no detection. Most groups hold one pair, which needs no solver. The others
/// are small, which limits the solver's cubic cost: a street with 100 objects is not one matrix of 100 × 100.
#[derive(Debug, Default)]
struct Groups {
    /// Candidates whose track and detection are both free, sorted by group, then track, then detection.
    open: Vec<Candidate>,
    /// Union-find over tracks, then detections: the parent of each node, never a higher index. After
    /// [`split`](Self::split) it is the root of the node's group.
    parents: Vec<usize>,
    /// Of the group that is being solved: its tracks and detections, the column of each detection, and the matrix.
    rows: Vec<usize>,
    columns: Vec<usize>,
    column_of_detection: Vec<usize>,
    weights: Vec<f64>,
    /// Of a large group: candidate edges by row, and the start of each row.
    edges: Vec<(usize, f64)>,
    starts: Vec<usize>,
    sparse: SparseAssignment,
}

impl Groups {
    /// Selects the candidates whose track and detection are still free and sorts them into groups.
    fn split(&mut self, candidates: &[Candidate], pairing: &Pairing) {
        let tracks = pairing.detection_of_track.len();
        let detections = pairing.track_of_detection.len();
        self.parents.clear();
        self.parents.extend(0..tracks + detections);
        self.column_of_detection.resize(detections, 0);
        self.open.clear();
        self.open.extend(
            candidates
                .iter()
                .filter(|candidate| pairing.is_free(candidate.track, candidate.detection)),
        );
        for candidate in &self.open {
            let a = root(&mut self.parents, candidate.track);
            let b = root(&mut self.parents, tracks + candidate.detection);
            self.parents[a.max(b)] = a.min(b);
        }
        // Parents come before their children, so one pass in order sets every node to its root.
        for node in 0..self.parents.len() {
            self.parents[node] = self.parents[self.parents[node]];
        }
        let roots = &self.parents;
        self.open.sort_unstable_by_key(|candidate| {
            (roots[candidate.track], candidate.track, candidate.detection)
        });
    }

    /// Pairs each group for its greatest total IOU. The groups are independent, so the total is the greatest, too.
    fn solve_each(&mut self, solver: &mut HungarianSolver, pairing: &mut Pairing) {
        let Self {
            open,
            parents,
            rows,
            columns,
            column_of_detection,
            weights,
            edges,
            starts,
            sparse,
        } = self;
        for group in open.chunk_by(|a, b| parents[a.track] == parents[b.track]) {
            if let [only] = group {
                pairing.pair(only.track, only.detection);
                continue;
            }
            rows.clear();
            rows.extend(
                group
                    .chunk_by(|a, b| a.track == b.track)
                    .map(|of_track| of_track[0].track),
            );
            columns.clear();
            columns.extend(group.iter().map(|candidate| candidate.detection));
            columns.sort_unstable();
            columns.dedup();
            for (column, detection) in columns.iter().enumerate() {
                column_of_detection[*detection] = column;
            }
            if rows.len() * columns.len() > MAX_MATRIX_SIZE {
                edges.clear();
                starts.clear();
                starts.push(0);
                for of_track in group.chunk_by(|a, b| a.track == b.track) {
                    edges.extend(of_track.iter().map(|candidate| {
                        let column = column_of_detection[candidate.detection];
                        (column, f64::from(candidate.iou))
                    }));
                    starts.push(edges.len());
                }
                let solution = sparse.solve(starts, edges, columns.len());
                for (track, column) in rows.iter().zip(solution) {
                    if let Some(detection) = columns.get(*column) {
                        pairing.pair(*track, *detection);
                    }
                }
                continue;
            }
            weights.clear();
            weights.resize(rows.len() * columns.len(), 0.0);
            for (row, of_track) in group.chunk_by(|a, b| a.track == b.track).enumerate() {
                for candidate in of_track {
                    weights[row * columns.len() + column_of_detection[candidate.detection]] =
                        f64::from(candidate.iou);
                }
            }
            let solution = solver.solve(rows.len(), columns.len(), weights);
            for (track, column) in rows.iter().zip(solution) {
                if let Some(column) = column {
                    pairing.pair(*track, columns[*column]);
                }
            }
        }
    }
}

/// The root of `node`'s group; halves the path for the next search.
fn root(parents: &mut [usize], mut node: usize) -> usize {
    while parents[node] != node {
        parents[node] = parents[parents[node]];
        node = parents[node];
    }
    node
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn candidate(rank: u8, track: usize, detection: usize, iou: f32) -> Candidate {
        Candidate {
            rank,
            track,
            detection,
            iou,
        }
    }

    fn assign(
        association: Association,
        mut candidates: Vec<Candidate>,
        tracks: usize,
        detections: usize,
    ) -> Vec<Option<usize>> {
        let mut assigner = Assigner::new(association);
        // Earlier calls must not influence the result.
        assigner.assign(
            &mut [candidate(0, 8, 8, 1.0), candidate(0, 7, 8, 0.9)],
            9,
            9,
        );
        let pairing = assigner.assign(&mut candidates, tracks, detections);
        for (track, detection) in pairing.detection_of_track.iter().enumerate() {
            if let Some(detection) = detection {
                assert_eq!(pairing.track_of_detection[*detection], Some(track));
            }
        }
        let there = pairing.detection_of_track.iter().flatten().count();
        assert_eq!(there, pairing.track_of_detection.iter().flatten().count());
        pairing.detection_of_track.clone()
    }

    #[test]
    fn greedy_takes_the_best_pair_and_optimal_the_best_sum() {
        let candidates = vec![
            candidate(0, 0, 0, 0.9),
            candidate(0, 0, 1, 0.8),
            candidate(0, 1, 0, 0.8),
        ];
        let found = assign(Association::Greedy, candidates.clone(), 2, 2);
        assert_eq!(found, [Some(0), None]);
        let found = assign(Association::Optimal, candidates, 2, 2);
        assert_eq!(found, [Some(1), Some(0)]);
    }

    #[test]
    fn lower_rank_is_matched_first_for_any_overlap() {
        let candidates = vec![
            candidate(1, 0, 0, 0.99),
            candidate(0, 1, 0, 0.31),
            candidate(1, 0, 1, 0.4),
        ];
        for association in [Association::Greedy, Association::Optimal] {
            let found = assign(association, candidates.clone(), 2, 2);
            assert_eq!(found, [Some(1), Some(0)], "{association:?}");
        }
    }

    #[test]
    fn empty_input_has_no_pairs() {
        for association in [Association::Greedy, Association::Optimal] {
            assert_eq!(assign(association, Vec::new(), 2, 3), [None, None]);
            assert_eq!(assign(association, Vec::new(), 0, 0), [], "{association:?}");
        }
    }

    /// The greatest sum over all assignments of `candidates`.
    fn brute_force(candidates: &[Candidate], used_tracks: u32, used_detections: u32) -> f64 {
        let Some((first, rest)) = candidates.split_first() else {
            return 0.0;
        };
        let without = brute_force(rest, used_tracks, used_detections);
        let (track, detection) = (1 << first.track, 1 << first.detection);
        if used_tracks & track != 0 || used_detections & detection != 0 {
            return without;
        }
        without.max(
            f64::from(first.iou)
                + brute_force(rest, used_tracks | track, used_detections | detection),
        )
    }

    /// Up to 6 tracks and 6 detections, a random share of whose pairs are candidates.
    fn sparse() -> impl Strategy<Value = Vec<Candidate>> {
        (1..=6_usize, 1..=6_usize).prop_flat_map(|(tracks, detections)| {
            prop::collection::vec(
                prop_oneof![Just(0.0_f32), 0.3_f32..=1.0],
                tracks * detections,
            )
            .prop_map(move |ious| {
                let all = ious
                    .iter()
                    .enumerate()
                    .map(|(i, iou)| candidate(0, i / detections, i % detections, *iou));
                all.filter(|candidate| candidate.iou > 0.0)
                    .take(16)
                    .collect()
            })
        })
    }

    proptest! {
        #[test]
        fn greedy_matches_in_weight_order(candidates in sparse(), ranks in prop::collection::vec(0..3_u8, 16)) {
            let mut candidates = candidates;
            for (candidate, rank) in candidates.iter_mut().zip(ranks) {
                candidate.rank = rank;
                // Few values, so that some are equal.
                candidate.iou = (candidate.iou * 8.0).round() / 8.0;
            }
            let mut in_order = candidates.clone();
            in_order.sort_by(|a, b| {
                let by_iou = b.iou.total_cmp(&a.iou);
                a.rank.cmp(&b.rank).then(by_iou).then((a.track, a.detection).cmp(&(b.track, b.detection)))
            });
            let (mut expected, mut taken) = (vec![None; 6], [false; 6]);
            for candidate in in_order {
                if expected[candidate.track].is_none() && !taken[candidate.detection] {
                    expected[candidate.track] = Some(candidate.detection);
                    taken[candidate.detection] = true;
                }
            }
            prop_assert_eq!(assign(Association::Greedy, candidates, 6, 6), expected);
        }

        #[test]
        fn optimal_matches_brute_force(candidates in sparse()) {
            let pairs = assign(Association::Optimal, candidates.clone(), 6, 6);
            let iou_of = |track, detection| candidates.iter().find(|c| (c.track, c.detection) == (track, detection)).map(|c| c.iou);
            let mut sum = 0.0;
            for (track, detection) in pairs.iter().enumerate().filter_map(|(track, detection)| detection.map(|d| (track, d))) {
                let iou = iou_of(track, detection);
                prop_assert!(iou.is_some(), "{track} and {detection} were no candidates");
                sum += f64::from(iou.unwrap_or_default());
            }
            let best = brute_force(&candidates, 0, 0);
            prop_assert!((sum - best).abs() < 1e-6, "{sum} instead of {best}");
        }
    }
}
