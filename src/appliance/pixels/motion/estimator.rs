// SPDX-License-Identifier: Apache-2.0
//! The motion of the camera of one source, from frame to frame.

use jetwatch_types::{Similarity, Xyxy};

use super::coarse_shift::CoarseShift;
use super::corners::CornerDetector;
use super::fit::{Pair, RobustFit};
use super::flow::follow;
use super::gray::{Geometry, GrayImage};
use super::pyramid::Pyramid;

/// Distance at which a point agrees with a motion, in gray pixels.
const TOLERANCE: f64 = 0.6;

/// Motion of the corners of the image below which the camera counts as still, in gray pixels: what noise alone gives.
const MIN_MOTION: f64 = 0.1;

/// Estimates the motion of one camera. Its memory is reused from frame to frame.
///
/// For each frame of a source, in order: [`estimate`](Self::estimate), then [`set_objects`](Self::set_objects) with the boxes that
/// were found in it.
#[derive(Debug, Default)]
pub struct CameraMotion {
    /// The frame before; `None` at the start and after a gap.
    reference: Option<Geometry>,
    /// Its sizes, and those of the frame that is compared with it.
    before: Pyramid,
    after: Pyramid,
    content: [usize; 4],
    coarse_shift: CoarseShift,
    detector: CornerDetector,
    corners: Vec<[f32; 2]>,
    pairs: Vec<Pair>,
    fit: RobustFit,
}

impl CameraMotion {
    /// The transform from the frame of the call before to this one, in source pixels: where a point of the static scene is now.
    /// `objects` are boxes in this frame, in source pixels, whose pixels do not count.
    ///
    /// `None` where the motion is not known: at the first frame, after [`reset`](Self::reset), at a cut, when the size of the source
    /// changes, or where the image shows too little of the static scene. [`Similarity::IDENTITY`] for a still camera, exactly.
    pub fn estimate<'b>(
        &mut self,
        image: &GrayImage,
        objects: impl IntoIterator<Item = &'b Xyxy>,
    ) -> Option<Similarity> {
        let geometry = image.geometry();
        let (width, height) = (geometry.size.width as usize, geometry.size.height as usize);
        self.after.build(image.pixels.as_ref(), width, height);
        let is_continued = self
            .reference
            .is_some_and(|reference| image.has_geometry_of(&reference));
        let motion = is_continued
            .then(|| self.compare(&geometry, objects))
            .flatten();
        std::mem::swap(&mut self.before, &mut self.after);
        self.reference = Some(geometry);
        self.content = image.content;
        self.corners.clear();
        self.detector.clear_mask(&self.before.planes()[0]);
        motion
    }

    /// Sets the boxes of the objects in the frame of the last [`estimate`](Self::estimate), in source pixels, and finds the corners of
    /// the static scene outside of them.
    pub fn set_objects<'b>(&mut self, objects: impl IntoIterator<Item = &'b Xyxy>) {
        let (Some(geometry), Some(plane)) = (self.reference, self.before.planes().first()) else {
            return;
        };
        self.detector.clear_mask(plane);
        for object in objects {
            self.detector.mask(plane, &geometry.to_gray(object));
        }
        self.detector.find(plane, self.content, &mut self.corners);
    }

    /// Forgets the frame before: the next frame does not continue it.
    pub fn reset(&mut self) {
        self.reference = None;
        self.corners.clear();
    }

    /// The motion from `before` to `after`, which have the same geometry.
    fn compare<'b>(
        &mut self,
        geometry: &Geometry,
        objects: impl IntoIterator<Item = &'b Xyxy>,
    ) -> Option<Similarity> {
        let (before, after) = (self.before.planes(), self.after.planes());
        let smallest = before.len() - 1;
        let factor = 1 << smallest;
        let [x, y] = self.coarse_shift.find(
            &before[smallest],
            &after[smallest],
            self.detector.masked(),
            (factor, before[0].width),
        );
        let expected = [x * factor as f32, y * factor as f32];
        // From here on the mask is that of this frame.
        self.detector.clear_mask(&after[0]);
        for object in objects {
            self.detector.mask(&after[0], &geometry.to_gray(object));
        }
        self.pairs.clear();
        for &at in &self.corners {
            let guess = [at[0] + expected[0], at[1] + expected[1]];
            let Some(found) = follow(&self.before, &self.after, at, guess) else {
                continue;
            };
            if !self.detector.is_masked(&after[0], found) {
                let source = |point| geometry.to_source(point).map(f64::from);
                self.pairs.push((source(at), source(found)));
            }
        }
        let [px, py] = geometry.per_pixel.map(f64::from);
        let unit = px.max(py);
        let size = geometry.size;
        let diagonal = (f64::from(size.width) * px).hypot(f64::from(size.height) * py);
        let motion = self.fit.fit(&self.pairs, TOLERANCE * unit, diagonal)?;
        let largest = corners(geometry)
            .map(|corner| {
                let [x, y] = motion.point(corner);
                (x - corner[0]).hypot(y - corner[1])
            })
            .into_iter()
            .fold(0.0, f64::max);
        Some(match largest < MIN_MOTION * unit {
            true => Similarity::IDENTITY,
            false => motion,
        })
    }
}

/// The corners of the image, in source pixels.
fn corners(geometry: &Geometry) -> [[f64; 2]; 4] {
    let (width, height) = (geometry.size.width as f32, geometry.size.height as f32);
    [[0.0, 0.0], [width, 0.0], [0.0, height], [width, height]]
        .map(|corner| geometry.to_source(corner).map(f64::from))
}

#[cfg(test)]
mod tests;
