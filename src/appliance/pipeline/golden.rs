//! The built-in scenes as an examination: the same few pictures on every machine, and what a detector finds on them.

use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::PipelineError;
use super::detector_only::preload_frames;
use jetwatch_config::{Config, Pacing, SourceUri, SyntheticScene};
use jetwatch_detect::model::hexadecimal;
use jetwatch_detect::{DetectError, DetectorFactory};
use jetwatch_types::{Detection, Frame};

/// Seeds of the scenes: none of those that the shipped network was trained on (1000 to 5999).
const SEEDS: std::ops::Range<u64> = 990_001..990_009;

/// Pictures of each scene, a second apart.
const IMAGES_PER_SCENE: u64 = 4;

/// Least score of the detections that are compared.
pub const GOLDEN_SCORE: f32 = 0.3;

/// The pictures of the examination, scaled as `prepared` wants them, always the same ones in the same order.
pub fn golden_frames(prepared: &DetectorFactory) -> Result<Vec<Frame>, PipelineError> {
    let mut frames = Vec::new();
    for seed in SEEDS {
        let mut source = Config::for_source("synthetic://traffic", None)
            .map_err(|error| PipelineError::Detect(DetectError::Model(error.into())))?
            .sources
            .remove(0);
        source.uri = SourceUri::Synthetic(SyntheticScene {
            seed,
            objects: 10,
            width: 1280,
            height: 720,
            fps: 1,
            frames: Some(IMAGES_PER_SCENE),
            pacing: Pacing::Unlimited,
        });
        frames.extend(preload_frames(
            &source,
            prepared,
            IMAGES_PER_SCENE as usize,
        )?);
    }
    Ok(frames)
}

/// What the first worker's detector finds on `frames`: boxes in source pixels, best first.
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
                path: PathBuf::from(format!("picture {} of the examination", found.len())),
                cause: Box::new(cause),
            })?;
        found.append(&mut results);
    }
    Ok(found)
}

/// SHA-256 of a frame's pixels: whether this machine draws what another one drew.
#[must_use]
pub fn image_hash(frame: &Frame) -> String {
    let mut hash = Sha256::new();
    for y in 0..frame.image.size.height {
        hash.update(frame.image.row(y));
    }
    hexadecimal(&hash.finalize())
}
