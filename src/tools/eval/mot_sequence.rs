//! A sequence to track: its detections, and its ground truth where tracks are scored. Reads the files of `jetwatch track`.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::io::read;
use crate::mot_format::{MotDetection, parse_detections};
use crate::mot_truth::{TruthRow, parse_truth};

/// One sequence.
#[derive(Debug, Clone)]
pub struct MotSequence {
    /// Its name, after its file or folder.
    pub name: String,
    /// Detections, sorted by frame.
    pub detections: Vec<MotDetection>,
    /// Ground truth; empty where none was read.
    pub truth: Vec<TruthRow>,
}

impl MotSequence {
    /// Reads files in the text format of MOTChallenge; `-` is standard input. Detections with a score below `min_score` are left
    /// out.
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
        })
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

fn read_truth(path: &Path) -> Result<Vec<TruthRow>> {
    let text = read(path)
        .with_context(|| format!("cannot read the ground truth from {}", path.display()))?;
    let rows = parse_truth(&text)
        .with_context(|| format!("{} is not in MOTChallenge format", path.display()))?;
    ensure!(
        !rows.is_empty(),
        "{} has no object, so that nothing can be scored by it; expected a line for each object and frame",
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
}
