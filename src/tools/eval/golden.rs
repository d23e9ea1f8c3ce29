// SPDX-License-Identifier: Apache-2.0
//! Recorded detections on known images, stored next to the model, for comparison with other machines.

use serde::{Deserialize, Serialize};

use jetwatch_files::Sha256Digest;
use jetwatch_types::Detection;

/// Version of the file format.
const FORMAT: u32 = 1;

/// Detections of one model on the golden frames.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Golden {
    /// Version of the format: 1.
    pub format: u32,
    /// Name of the model.
    pub model: String,
    /// Backend that produced them, such as `onnx`.
    pub backend: String,
    /// One set per precision.
    pub sets: Vec<GoldenSet>,
}

/// Detections in one precision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoldenSet {
    /// The precision.
    pub precision: String,
    /// The images in order. Version 0.1.0 wrote them as `pictures`.
    #[serde(alias = "pictures")]
    pub images: Vec<GoldenImage>,
}

/// One image and its detections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoldenImage {
    /// SHA-256 of its pixels.
    pub sha256: Sha256Digest,
    /// Each detection as `[class, score, left, top, right, bottom]`, in source pixels, best first.
    pub detections: Vec<(u16, f32, f32, f32, f32, f32)>,
}

/// Why a file is not a golden file.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum GoldenError {
    #[error(
        "expected recorded detections as `jetwatch doctor --detector --record` writes them: {0}"
    )]
    Syntax(#[from] serde_json::Error),
    #[error(
        "recorded detections have format {0}, expected {FORMAT}: update jetwatch, or record them again"
    )]
    Format(u32),
}

impl Golden {
    /// A file without sets.
    pub fn new(model: &str, backend: &str) -> Self {
        Self {
            format: FORMAT,
            model: model.to_owned(),
            backend: backend.to_owned(),
            sets: Vec::new(),
        }
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// The text is not JSON of this format, or of a later version.
    pub fn parse(text: &str) -> Result<Self, GoldenError> {
        let golden: Self = serde_json::from_str(text)?;
        match golden.format {
            FORMAT => Ok(golden),
            other => Err(GoldenError::Format(other)),
        }
    }

    /// The set of a precision.
    pub fn set(&self, precision: &str) -> Option<&GoldenSet> {
        self.sets.iter().find(|set| set.precision == precision)
    }
}

impl GoldenImage {
    /// An image with its detections; coordinates are rounded to 0.01 pixels, scores to 0.0001.
    pub fn new(sha256: Sha256Digest, detections: &[Detection]) -> Self {
        let rounded = |value: f32, steps: f32| (value * steps).round() / steps;
        let of = |detection: &Detection| {
            let [left, top, right, bottom] = detection.xyxy.map(|edge| rounded(edge, 100.0));
            let score = rounded(detection.score, 10_000.0);
            (detection.class, score, left, top, right, bottom)
        };
        Self {
            sha256,
            detections: detections.iter().map(of).collect(),
        }
    }

    /// The detections.
    pub fn detections(&self) -> Vec<Detection> {
        let of = |&(class, score, left, top, right, bottom): &(u16, f32, f32, f32, f32, f32)| {
            Detection {
                class,
                score,
                xyxy: [left, top, right, bottom],
            }
        };
        self.detections.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_file_is_read_again_and_other_formats_are_rejected() {
        let detection = Detection {
            class: 2,
            score: 0.876_54,
            xyxy: [1.004, 2.0, 30.129, 40.5],
        };
        let mut golden = Golden::new("tiny", "onnx");
        golden.sets.push(GoldenSet {
            precision: "fp32".to_owned(),
            images: vec![GoldenImage::new([0xab; 32].into(), &[detection])],
        });
        let text = serde_json::to_string(&golden).expect("it is JSON");
        let read = Golden::parse(&text).expect("its own form");
        assert_eq!(read, golden);
        assert!(read.set("int8").is_none());
        let found = read.set("fp32").expect("it is there").images[0].detections();
        assert_eq!(found[0].xyxy, [1.0, 2.0, 30.13, 40.5]);
        assert!((found[0].score - 0.8765).abs() < 1e-6);

        let error = Golden::parse(&text.replace("\"format\":1", "\"format\":2"));
        assert!(
            error
                .expect_err("a later form")
                .to_string()
                .contains("format 2, expected 1")
        );
        let error = Golden::parse("{}").expect_err("not the form");
        assert!(error.to_string().contains("missing field"), "{error}");
    }
}
