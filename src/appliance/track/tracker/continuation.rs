// SPDX-License-Identifier: Apache-2.0
//! Continues a lost track under its id where a new one begins at its predicted place.

use jetwatch_types::TrackState;

use super::candidates::may_continue;
use super::{Tracker, UNCONFIRMED};
use crate::appearance::Appearance;

impl Tracker {
    /// Index of the lost track that most likely is the same object as the new one at `index`.
    pub(super) fn find_lost_match(&self, index: usize) -> Option<usize> {
        let new = &self.tracks[index];
        let trajectory = self.memories[index].trajectory.as_ref()?;
        let mut best: Option<(f32, usize)> = None;
        for (at, (lost, memory)) in self.tracks.iter().zip(&self.memories).enumerate() {
            let other_class = !may_continue(&self.config, &self.classes, lost.class, new.class);
            if lost.state != TrackState::Lost || other_class {
                continue;
            }
            let appearance = (memory.appearance).similarity_to(&self.memories[index].appearance);
            if appearance.is_some_and(|it| it < self.config.min_appearance_similarity) {
                continue;
            }
            let Some(distance) = memory
                .trajectory
                .as_ref()
                .and_then(|path| path.distance(lost.age_frames, trajectory, new.age_frames))
            else {
                continue;
            };
            // Among equals, the older one.
            if best.is_none_or(|(least, _)| distance < least) {
                best = Some((distance, at));
            }
        }
        best.map(|(_, at)| at)
    }

    /// Gives the identity of the track at `lost` to the one at `new`, and ends the former without a report.
    pub(super) fn adopt(&mut self, lost: usize, new: usize) {
        let before = &mut self.tracks[lost];
        let (id, age, hits) = (before.id, before.age_frames, before.hits);
        let (top_score, attributes) = (before.top_score, std::mem::take(&mut before.attributes));
        before.id = UNCONFIRMED;
        before.state = TrackState::Ended;
        let track = &mut self.tracks[new];
        track.id = id;
        track.hits = track.hits.saturating_add(hits);
        track.top_score = track.top_score.max(top_score);
        track.attributes = attributes;
        let appearance = std::mem::take(&mut self.memories[lost].appearance);
        let memory = &mut self.memories[new];
        if memory.appearance == Appearance::default() {
            memory.appearance = appearance;
        }
        // What was observed continues with the age of the joined track.
        let older = age.saturating_sub(track.age_frames);
        if let Some(observations) = self.observations.get_mut(new) {
            observations.shift_age(older);
        }
        if let Some(trajectory) = &mut memory.trajectory {
            trajectory.shift_age(older);
        }
        track.age_frames = age;
    }
}
