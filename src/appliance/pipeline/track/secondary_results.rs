// SPDX-License-Identifier: Apache-2.0
//! Results of secondary networks in the tracking stage, which calls this for each.

use super::TrackStage;
use crate::secondary::SecondaryResult;

impl TrackStage {
    /// Processes the result of a secondary network for a track, which may arrive at any time.
    pub(super) fn on_secondary_result(&mut self, result: SecondaryResult) {
        let id = result.source();
        if let Some((track, attributes)) = self.secondary.on_result(result)
            && self.sources.contains(id)
        {
            let source = &mut self.sources[id.index()];
            if let Some(meta) = source.last_meta {
                source
                    .lifecycle
                    .set_attributes(track, attributes, &mut source.events);
                self.publish_events(&meta);
            }
        }
        self.end_if_drained(id);
    }
}
