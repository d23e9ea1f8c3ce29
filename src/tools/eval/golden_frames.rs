// SPDX-License-Identifier: Apache-2.0
//! Images for golden detections: the same frames of the built-in scene on every machine, and a detector's results on them.

use std::path::PathBuf;

use jetwatch_config::{Config, Pacing, SourceUri, SyntheticScene};
use jetwatch_detect::{DetectError, DetectorFactory};
use jetwatch_files::{Sha256Digest, Sha256Hasher};
use jetwatch_pipeline::{PipelineError, preload_frames};
use jetwatch_source::SyntheticFactory;
use jetwatch_types::{Detection, Frame};

/// Seeds of the scenes, different from the training seeds of the shipped network (1000 to 5999).
const SEEDS: std::ops::Range<u64> = 990_001..990_009;

/// Images of each scene, a second apart.
const IMAGES_PER_SCENE: u64 = 4;

/// Minimum score of the compared detections.
pub const GOLDEN_SCORE: f32 = 0.3;

/// The images, scaled for the network of `prepared`, always the same and in the same order.
///
/// # Errors
/// The scene cannot be opened.
pub fn golden_frames(
    prepared: &DetectorFactory,
    synthetic: &SyntheticFactory,
) -> Result<Vec<Frame>, PipelineError> {
    let mut frames = Vec::new();
    for seed in SEEDS {
        let mut source = Config::for_source("synthetic://traffic", None)
            .map_err(|error| PipelineError::from(DetectError::Model(error.into())))?
            .sources
            .remove(0);
        source.uri = SourceUri::Synthetic(SyntheticScene {
            seed,
            objects: 10,
            width: 1280,
            height: 720,
            fps: 1,
            frames: Some(IMAGES_PER_SCENE),
            shake: 0,
            pacing: Pacing::Unlimited,
        });
        frames.extend(preload_frames(
            &source,
            prepared,
            IMAGES_PER_SCENE as usize,
            Some(synthetic),
        )?);
    }
    Ok(frames)
}

/// The detections of the first worker's detector in `frames`, one frame at a time: boxes in source pixels, best first.
///
/// # Errors
/// The detector cannot be created, or fails on an image.
pub fn detections_of(
    prepared: &DetectorFactory,
    frames: &[Frame],
) -> Result<Vec<Vec<Detection>>, PipelineError> {
    let mut detector = prepared.create(0)?;
    let mut found = Vec::with_capacity(frames.len());
    let mut results = Vec::new();
    for frame in frames.chunks(1) {
        detector
            .detect(frame, &mut results)
            .map_err(|cause| PipelineError::Image {
                path: PathBuf::from(format!("golden frame {}", found.len())),
                cause: Box::new(cause),
            })?;
        found.append(&mut results);
    }
    Ok(found)
}

/// SHA-256 of a frame's pixels as hexadecimal digits: equal if two machines render the same image.
#[must_use]
pub fn image_hash(frame: &Frame) -> Sha256Digest {
    let mut hash = Sha256Hasher::default();
    for y in 0..frame.image.size.height {
        hash.update(frame.image.row(y));
    }
    hash.finish()
}
