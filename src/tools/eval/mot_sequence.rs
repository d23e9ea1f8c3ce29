// SPDX-License-Identifier: Apache-2.0
//! A sequence to track: its detections, and its ground truth if tracks are scored. Reads the files of `jetwatch track`.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use jetwatch_types::intersection_over_union;

use crate::clear_mot::is_within;
use crate::io::read;
use crate::mot_format::{MotDetection, TrackRow, parse_detections};
use crate::mot_truth::{TruthRow, parse_truth, parse_uncounted};

/// A track matches an object at this overlap.
const MIN_IOU: f32 = 0.5;

/// A track lies mostly in an object with this share of its box.
const MIN_SHARE: f32 = 0.5;

/// One sequence.
#[derive(Debug, Clone)]
pub struct MotSequence {
    /// Name of its file or folder.
    pub name: String,
    /// Detections, sorted by frame.
    pub detections: Vec<MotDetection>,
    /// Ground truth; empty if none was read.
    pub truth: Vec<TruthRow>,
    /// Objects that need not be found, and whose tracks are not wrong: hidden ones, for example. Sorted by frame.
    pub ignored: Vec<TruthRow>,
}

impl MotSequence {
    /// Reads files in the text format of MOTChallenge; `-` is standard input. Detections with a score below `min_score` are
    /// ignored.
    ///
    /// # Errors
    /// A file cannot be read or parsed, with the line and field, or the ground truth has no object.
    pub fn read(detections: &Path, min_score: Option<f32>, truth: Option<&Path>) -> Result<Self> {
        let text = read(detections)
            .with_context(|| format!("cannot read detections from {}", detections.display()))?;
        let mut rows = parse_detections(&text)
            .with_context(|| format!("{} is not in MOTChallenge format", detections.display()))?;
        if let Some(least) = min_score {
            rows.retain(|row: &MotDetection| row.detection.score >= least);
        }
        Ok(Self {
            name: sequence_name(detections),
            detections: rows,
            truth: truth.map(read_truth).transpose()?.unwrap_or_default(),
            ignored: Vec::new(),
        })
    }

    /// Ignores the objects whose rows do not count, instead of leaving them out: their tracks are not counted as wrong.
    ///
    /// # Errors
    /// The file cannot be read or parsed.
    pub fn with_ignored(mut self, truth: &Path) -> Result<Self> {
        let text = read_text(truth)?;
        self.ignored = parse_uncounted(&text).with_context(|| not_mot(truth))?;
        Ok(self)
    }

    /// The rows of tracks that are scored: without those that lie mostly in an ignored object and match no other one.
    #[must_use]
    pub fn scored(&self, mut tracks: Vec<TrackRow>) -> Vec<TrackRow> {
        if !self.ignored.is_empty() {
            tracks.retain(|track| {
                let mut ignored = of_frame(&self.ignored, track.frame).iter();
                !ignored.any(|object| is_within(&track.xyxy, &object.xyxy, MIN_SHARE))
                    || (of_frame(&self.truth, track.frame).iter())
                        .any(|object| intersection_over_union(&track.xyxy, &object.xyxy) >= MIN_IOU)
            });
        }
        tracks
    }
}

/// The name of a sequence: its file's, or in MOTChallenge's layout, `NAME/det/det.txt`, its folder's.
fn sequence_name(path: &Path) -> String {
    let named = |part: Option<&OsStr>| part.map(|name| name.to_string_lossy().into_owned());
    let stem = named(path.file_stem()).unwrap_or_default();
    if path.parent().is_some_and(|folder| folder.ends_with("det")) && stem == "det" {
        let folder = path.parent().and_then(Path::parent);
        return named(folder.and_then(Path::file_name)).unwrap_or(stem);
    }
    stem
}

/// The rows of one frame.
fn of_frame(rows: &[TruthRow], frame: u32) -> &[TruthRow] {
    let first = rows.partition_point(|row| row.frame < frame);
    let count = rows[first..].partition_point(|row| row.frame == frame);
    &rows[first..first + count]
}

fn read_text(path: &Path) -> Result<String> {
    read(path).with_context(|| format!("cannot read the ground truth from {}", path.display()))
}

fn not_mot(path: &Path) -> String {
    format!("{} is not in MOTChallenge format", path.display())
}

fn read_truth(path: &Path) -> Result<Vec<TruthRow>> {
    let rows = parse_truth(&read_text(path)?).with_context(|| not_mot(path))?;
    ensure!(
        !rows.is_empty(),
        "{} has no object, so tracks cannot be scored; expected a line for each object and frame",
        path.display()
    );
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_named_by_file_or_folder() {
        assert_eq!(sequence_name(Path::new("a/KITTI-17.txt")), "KITTI-17");
        assert_eq!(
            sequence_name(Path::new("a/KITTI-17/det/det.txt")),
            "KITTI-17"
        );
        assert_eq!(sequence_name(Path::new("det/det.txt")), "det");
        assert_eq!(sequence_name(Path::new("det.txt")), "det");
    }

    #[test]
    fn tracks_of_ignored_objects_are_not_scored() {
        let row = |frame, object, left: f32| TruthRow {
            frame,
            object,
            xyxy: [left, 0.0, left + 10.0, 10.0],
        };
        let sequence = MotSequence {
            name: String::new(),
            detections: Vec::new(),
            truth: vec![row(1, 1, 0.0), row(2, 1, 50.0)],
            ignored: vec![row(1, 2, 3.0), row(2, 2, 100.0), row(3, 2, 200.0)],
        };
        let track = |frame, left: f32| TrackRow {
            frame,
            id: jetwatch_types::TrackId(1),
            xyxy: [left, 0.0, left + 10.0, 10.0],
            score: 0.9,
            class: 0,
        };
        let wrong = track(2, 300.0);
        let tracks = vec![
            track(1, 0.0),
            track(1, 6.0),
            track(2, 101.0),
            wrong,
            track(3, 206.0),
        ];
        assert_eq!(
            sequence.scored(tracks),
            [track(1, 0.0), wrong, track(3, 206.0)]
        );
    }
}
