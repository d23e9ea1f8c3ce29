// SPDX-License-Identifier: Apache-2.0
//! What the tracking stage gives to the pictures of the page: frames with their tracks, and the sources.

use std::sync::Arc;

use jetwatch_record::Overlay;
use jetwatch_types::{BudgetedImage, FrameMeta, SourceId};

use super::TrackStage;

impl TrackStage {
    /// A source begins.
    pub(super) fn add_preview(&self, id: SourceId, name: &str, overlay: &Overlay) {
        if let Some(previews) = &self.previews {
            previews.add(id, name, Box::new(overlay.clone()));
        }
    }

    /// A source is removed.
    pub(super) fn remove_preview(&self, id: SourceId) {
        if let Some(previews) = &self.previews {
            previews.remove(id, &self.sources[id.index()].name);
        }
    }

    /// Offers a frame with its visible tracks; it becomes a picture where one is due.
    pub(super) fn offer_preview(&self, meta: &FrameMeta, image: Option<&Arc<BudgetedImage>>) {
        if let (Some(previews), Some(image)) = (&self.previews, image) {
            let source = &self.sources[meta.source.index()];
            // A source that does not detect has none: those of before do not move.
            let tracks = match source.is_detecting() {
                true => &source.visible_tracks[..],
                false => &[],
            };
            previews.offer(meta, image, tracks);
        }
    }
}
