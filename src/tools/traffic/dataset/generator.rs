// SPDX-License-Identifier: Apache-2.0
//! Labeled images of many street scenes, to train and evaluate networks. Pure drawing, no files.
//!
//! Scene `n` of a set has the seed `first_seed + n`, so that sets with disjoint seeds share no scene. Each scene has its own
//! appearance and its own number of objects. Its images lie at random times of an hour, so that their traffic differs.

use jetwatch_config::{Pacing, SyntheticScene};
use jetwatch_types::{GroundTruthBox, PIXEL_BYTES, Size, SplitMix64};

use crate::scene::Scene;

/// Frames among which those of a scene are chosen: an hour at 30 frames/s.
const FRAME_RANGE: u64 = 108_000;

/// The scenes of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatasetGenerator {
    /// Seed of the first scene.
    pub first_seed: u64,
    /// Images of each scene, at least 1.
    pub images_per_scene: u32,
    /// Width and height of the images in pixels, neither 0.
    pub size: Size,
    /// Minimum and maximum number of objects of a scene, on average over time.
    pub objects: (u32, u32),
}

/// One image with its ground truth.
#[derive(Debug, Clone, PartialEq)]
pub struct LabeledImage {
    /// Seed of its scene.
    pub seed: u64,
    /// Index of its frame in the scene.
    pub frame: u64,
    /// Rows of red, green and blue, `size.width * size.height * 3` bytes.
    pub rgb: Vec<u8>,
    /// The objects in it, farthest first, hidden ones included.
    pub truth: Vec<GroundTruthBox>,
}

impl DatasetGenerator {
    /// Draws the images of scene number `index` and passes each to `on_image`.
    ///
    /// # Errors
    /// The first error of `on_image`; no further image is drawn.
    pub fn draw<E>(
        &self,
        index: u64,
        mut on_image: impl FnMut(LabeledImage) -> Result<(), E>,
    ) -> Result<(), E> {
        let seed = self.first_seed.wrapping_add(index);
        let (least, most) = self.objects;
        let mut numbers = SplitMix64::new(seed);
        let span = u64::from(most.saturating_sub(least)) + 1;
        let mut scene = Scene::new(&SyntheticScene {
            seed,
            // At most `most`, which has 32 bits.
            objects: least + (numbers.next_u64() % span) as u32,
            width: self.size.width,
            height: self.size.height,
            fps: 30,
            frames: None,
            shake: 0,
            pacing: Pacing::Unlimited,
        });
        let stride = self.size.width as usize * PIXEL_BYTES;
        let mut pixels = vec![0; stride * self.size.height as usize];
        for _ in 0..self.images_per_scene {
            let frame = numbers.next_u64() % FRAME_RANGE;
            scene.draw(frame, self.size, &mut pixels, stride);
            let rgb = pixels
                .chunks_exact(PIXEL_BYTES)
                .flat_map(|pixel| [pixel[2], pixel[1], pixel[0]])
                .collect();
            let truth = scene.truth(frame);
            on_image(LabeledImage {
                seed,
                frame,
                rgb,
                truth,
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: DatasetGenerator = DatasetGenerator {
        first_seed: 40,
        images_per_scene: 2,
        size: Size::new(96, 64),
        objects: (3, 9),
    };

    fn drawn(set: DatasetGenerator, index: u64) -> Vec<LabeledImage> {
        let mut images = Vec::new();
        let result: Result<(), ()> = set.draw(index, |image| {
            images.push(image);
            Ok(())
        });
        assert_eq!(result, Ok(()));
        images
    }

    #[test]
    fn scene_is_independent_of_dataset_position() {
        let images = drawn(SET, 3);
        assert_eq!(images.len(), 2);
        assert_eq!((images[0].seed, images[0].rgb.len()), (43, 96 * 64 * 3));
        assert_ne!(images[0].frame, images[1].frame);
        assert_ne!(images[0].rgb, images[1].rgb);
        let shifted = DatasetGenerator {
            first_seed: 43,
            ..SET
        };
        assert_eq!(drawn(shifted, 0), images);
    }

    #[test]
    fn colors_are_those_of_the_scene_and_boxes_lie_inside() {
        let image = &drawn(SET, 0)[0];
        let mut scene = Scene::new(&SyntheticScene {
            seed: 40,
            objects: 0,
            width: 96,
            height: 64,
            fps: 30,
            frames: None,
            shake: 0,
            pacing: Pacing::Unlimited,
        });
        let mut pixels = vec![0; 96 * 64 * PIXEL_BYTES];
        scene.draw(image.frame, SET.size, &mut pixels, 96 * PIXEL_BYTES);
        // No object reaches the upper corner of this scene, only the sensor's noise differs by frame.
        assert_eq!(image.rgb[..3], [pixels[2], pixels[1], pixels[0]]);
        for truth in drawn(SET, 1).iter().flat_map(|image| &image.truth) {
            let [left, top, right, bottom] = truth.xyxy;
            assert!(left >= 0.0 && top >= 0.0 && right <= 96.0 && bottom <= 64.0);
        }
    }

    #[test]
    fn first_error_stops_scene() {
        let mut taken = 0;
        let result = SET.draw(0, |_| {
            taken += 1;
            Err("full")
        });
        assert_eq!((result, taken), (Err("full"), 1));
    }
}
