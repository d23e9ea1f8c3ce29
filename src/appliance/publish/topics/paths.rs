// SPDX-License-Identifier: Apache-2.0
//! Topics as texts, for those who name them to others.

use std::sync::Arc;

use super::{COUNT, GROUP_COUNT, SNAPSHOT, Topics, level};

impl Topics {
    /// The topic `levels` of the device.
    pub(crate) fn of_device(&self, levels: &str) -> String {
        format!("{}/{levels}", self.base)
    }

    /// The topic `levels` of a source.
    pub(crate) fn of_source(&self, source: &str, levels: &str) -> String {
        format!("{}/{}/{levels}", self.base, level(source))
    }

    /// The topic of a source's count of a label.
    pub(crate) fn of_count(&self, source: &str, label: &str) -> String {
        let known = self.levels.get(label).cloned();
        let last = known.unwrap_or_else(|| level(label));
        COUNT
            .path(&self.base, &level(source), &last)
            .as_ref()
            .to_owned()
    }

    /// The topic of a source's newest picture of a label.
    pub(crate) fn of_snapshot(&self, source: &str, label: &str) -> String {
        let known = self.levels.get(label).cloned();
        let last = known.unwrap_or_else(|| level(label));
        let path = SNAPSHOT.path(&self.base, &level(source), &last);
        path.as_ref().to_owned()
    }

    /// The topic of a source's count of a group.
    pub(crate) fn of_group_count(&self, source: &str, group: &str) -> String {
        let path = GROUP_COUNT.path(&self.base, &level(source), &level(group));
        path.as_ref().to_owned()
    }

    /// The same, kept for the next call.
    pub(super) fn snapshot(&mut self, source: &str, label: &str) -> Arc<str> {
        if let Some(topic) = self.source(source).snapshots.get(label) {
            return Arc::clone(topic);
        }
        let topic: Arc<str> = self.of_snapshot(source, label).into();
        let known = &mut self.source(source).snapshots;
        known.insert(label.to_owned(), Arc::clone(&topic));
        topic
    }
}
