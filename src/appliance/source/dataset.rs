//! Labeled pictures of many street scenes: what a network is trained on and judged by. Pure drawing; the command
//! `jetwatch dataset` writes the files.
//!
//! Scene `n` of a set has the seed `first_seed + n`, so that sets with other seeds share no scene. Each has its own look
//! and its own number of objects; its pictures lie at moments drawn from the seed, far enough apart that the traffic is
//! another each time.

use jetwatch_config::{Pacing, SyntheticScene};
use jetwatch_types::{GroundTruthBox, PIXEL_BYTES, Size};

use super::scene::Scene;

/// Frames among which the moments of a scene are drawn: an hour at 30 frames a second.
const FRAME_RANGE: u64 = 108_000;

/// Which scenes a set holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatasetGenerator {
    /// Seed of the first scene.
    pub first_seed: u64,
    /// Pictures of each scene, at least 1.
    pub images_per_scene: u32,
    /// Width and height of the pictures in pixels, neither 0.
    pub size: Size,
    /// Least and most objects of a scene on average over time.
    pub objects: (u32, u32),
}

/// One picture with the truth about it.
#[derive(Debug, Clone, PartialEq)]
pub struct LabeledImage {
    /// Seed of its scene.
    pub seed: u64,
    /// Its frame in the scene.
    pub frame: u64,
    /// Rows of red, green and blue, `size.width * size.height * 3` bytes.
    pub rgb: Vec<u8>,
    /// The objects in it, farthest first, hidden ones too.
    pub truth: Vec<GroundTruthBox>,
}

impl DatasetGenerator {
    /// Draws the pictures of scene number `index` and hands each to `on_image`; ends at its first error.
    pub fn draw<E>(
        &self,
        index: u64,
        mut on_image: impl FnMut(LabeledImage) -> Result<(), E>,
    ) -> Result<(), E> {
        let seed = self.first_seed.wrapping_add(index);
        let (least, most) = self.objects;
        let mut numbers = SplitMix64(seed);
        let span = u64::from(most.saturating_sub(least)) + 1;
        let mut scene = Scene::new(&SyntheticScene {
            seed,
            // Below `max`, which is 32 bits.
            objects: least + (numbers.next() % span) as u32,
            width: self.size.width,
            height: self.size.height,
            fps: 30,
            frames: None,
            pacing: Pacing::Unlimited,
        });
        let stride = self.size.width as usize * PIXEL_BYTES;
        let mut pixels = vec![0; stride * self.size.height as usize];
        for _ in 0..self.images_per_scene {
            let frame = numbers.next() % FRAME_RANGE;
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

/// SplitMix64 (Steele, Lea, Flood 2014): the same numbers on every machine.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
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
        let mut pictures = Vec::new();
        let result: Result<(), ()> = set.draw(index, |picture| {
            pictures.push(picture);
            Ok(())
        });
        assert_eq!(result, Ok(()));
        pictures
    }

    #[test]
    fn scene_is_independent_of_dataset_position() {
        let pictures = drawn(SET, 3);
        assert_eq!(pictures.len(), 2);
        assert_eq!((pictures[0].seed, pictures[0].rgb.len()), (43, 96 * 64 * 3));
        assert_ne!(pictures[0].frame, pictures[1].frame);
        assert_ne!(pictures[0].rgb, pictures[1].rgb);
        let shifted = DatasetGenerator {
            first_seed: 43,
            ..SET
        };
        assert_eq!(drawn(shifted, 0), pictures);
    }

    #[test]
    fn colors_are_those_of_the_scene_and_boxes_lie_inside() {
        let picture = &drawn(SET, 0)[0];
        let mut scene = Scene::new(&SyntheticScene {
            seed: 40,
            objects: 0,
            width: 96,
            height: 64,
            fps: 30,
            frames: None,
            pacing: Pacing::Unlimited,
        });
        let mut pixels = vec![0; 96 * 64 * PIXEL_BYTES];
        scene.draw(picture.frame, SET.size, &mut pixels, 96 * PIXEL_BYTES);
        // No object reaches the upper corner of this scene, only the sensor's noise differs by frame.
        assert_eq!(picture.rgb[..3], [pixels[2], pixels[1], pixels[0]]);
        for truth in drawn(SET, 1).iter().flat_map(|picture| &picture.truth) {
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
