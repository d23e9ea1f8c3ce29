// SPDX-License-Identifier: Apache-2.0
//! Truth and tracks of one sequence: identities as indices, and the overlaps of every frame.

use std::collections::{BTreeMap, BTreeSet};

use jetwatch_types::Xyxy;

use crate::mot_format::TrackRow;
use crate::mot_truth::TruthRow;

/// One sequence.
pub(super) struct Sequence {
    /// Frames with an object or a track, in their order.
    pub(super) frames: Vec<Frame>,
    /// Number of frames of each object.
    pub(super) object_frames: Vec<u64>,
    /// Number of frames of each track.
    pub(super) track_frames: Vec<u64>,
}

/// One frame.
#[derive(Default)]
pub(super) struct Frame {
    /// Indices of the objects in it.
    pub(super) objects: Vec<usize>,
    /// Indices of the tracks in it.
    pub(super) tracks: Vec<usize>,
    /// IOU of each object with each track, by rows of objects.
    pub(super) ious: Vec<f64>,
}

impl Frame {
    /// IOU of the object and the track of these indices.
    pub(super) fn iou(&self, object: usize, track: usize) -> f64 {
        self.ious[object * self.tracks.len() + track]
    }

    /// Indices of all pairs, object first.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let tracks = self.tracks.len();
        (0..self.objects.len())
            .flat_map(move |object| (0..tracks).map(move |track| (object, track)))
    }
}

impl Sequence {
    pub(super) fn new(truth: &[TruthRow], tracks: &[TrackRow]) -> Self {
        let (objects, object_frames) = collect(
            truth
                .iter()
                .map(|row| (row.frame, row.object, row.xyxy))
                .collect(),
        );
        let (found, track_frames) = collect(
            tracks
                .iter()
                .map(|row| (row.frame, row.id.0, row.xyxy))
                .collect(),
        );
        let numbers: BTreeSet<u32> = objects.keys().chain(found.keys()).copied().collect();
        let none = Boxes::new();
        let frames = numbers.iter().map(|number| {
            let objects = objects.get(number).unwrap_or(&none);
            let found = found.get(number).unwrap_or(&none);
            Frame {
                objects: objects.iter().map(|(index, _)| *index).collect(),
                tracks: found.iter().map(|(index, _)| *index).collect(),
                ious: objects
                    .iter()
                    .flat_map(|(_, a)| found.iter().map(move |(_, b)| iou(a, b)))
                    .collect(),
            }
        });
        Self {
            frames: frames.collect(),
            object_frames,
            track_frames,
        }
    }
}

/// Boxes of one frame with the indices of their owners.
type Boxes = Vec<(usize, Xyxy)>;

/// The boxes of each frame with the indices of their owners, and the number of boxes of each owner.
fn collect(rows: Vec<(u32, u64, Xyxy)>) -> (BTreeMap<u32, Boxes>, Vec<u64>) {
    let ids: BTreeSet<u64> = rows.iter().map(|(_, id, _)| *id).collect();
    let index: BTreeMap<u64, usize> = ids.into_iter().zip(0..).collect();
    let mut counts = vec![0; index.len()];
    let mut frames: BTreeMap<u32, Boxes> = BTreeMap::new();
    for (frame, id, xyxy) in rows {
        let of_frame = frames.entry(frame).or_default();
        if of_frame.iter().all(|(known, _)| *known != index[&id]) {
            of_frame.push((index[&id], xyxy));
            counts[index[&id]] += 1;
        }
    }
    (frames, counts)
}

/// Intersection over union in `f64`, as in the reference programs.
pub(crate) fn iou(a: &Xyxy, b: &Xyxy) -> f64 {
    let [a, b] = [a.map(f64::from), b.map(f64::from)];
    let width = (a[2].min(b[2]) - a[0].max(b[0])).max(0.0);
    let height = (a[3].min(b[3]) - a[1].max(b[1])).max(0.0);
    let both = width * height;
    let area = |of: [f64; 4]| (of[2] - of[0]) * (of[3] - of[1]);
    let either = area(a) + area(b) - both;
    if either > 0.0 { both / either } else { 0.0 }
}
