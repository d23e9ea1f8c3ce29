// SPDX-License-Identifier: Apache-2.0
//! The motion of the camera of one source, which its tracks follow.

use jetwatch_pixels::motion::{CameraMotion, GrayImage};
use jetwatch_types::{Detection, Similarity, Track, TrackState, Xyxy};

/// The estimate of one source and the boxes of its objects, which do not count.
#[derive(Default)]
pub(crate) struct SourceCamera {
    motion: CameraMotion,
    /// Boxes of the detections of the newest frame, of all classes and scores.
    boxes: Vec<Xyxy>,
}

impl SourceCamera {
    /// The motion from the newest frame with inference to this one, which has these detections; `None` where it is not known or there
    /// is none.
    pub(crate) fn estimate(
        &mut self,
        gray: Option<&GrayImage>,
        detections: &[Detection],
    ) -> Option<Similarity> {
        let Some(gray) = gray else {
            // The next frame may not be like the one before this.
            self.motion.reset();
            return None;
        };
        self.boxes.clear();
        self.boxes.extend(detections.iter().map(|found| found.xyxy));
        let motion = self.motion.estimate(gray, &self.boxes)?;
        (motion != Similarity::IDENTITY).then_some(motion)
    }

    /// Sets the tracks of the frame of the last [`estimate`](Self::estimate): neither they nor its detections are static.
    pub(crate) fn set_tracks(&mut self, tracks: &[Track]) {
        let tracks = tracks
            .iter()
            .filter(|track| track.state != TrackState::Ended)
            .map(|track| &track.xyxy);
        self.motion.set_objects(tracks.chain(&self.boxes));
    }

    /// Later frames do not continue the earlier ones.
    pub(crate) fn reset(&mut self) {
        self.motion.reset();
    }
}
