// SPDX-License-Identifier: Apache-2.0
//! Numbered messages that no subscriber will receive, until a message about them is published.

use std::collections::VecDeque;

use jetwatch_spool::{Class, Gap, GapReason};

use super::entry::Tag;

/// Most gaps that wait to be published.
const MAX_GAPS: usize = 16;

/// The gaps that wait to be published.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// Identity of the numbering.
    pub id: u64,
    pub dropped_by_class: [u64; Class::ALL.len()],
    waiting: VecDeque<Gap>,
}

impl Gaps {
    /// Notes a message that was dropped, if it is numbered.
    pub fn note(&mut self, tag: Option<Tag>, reason: GapReason) {
        let Some(tag) = tag else { return };
        self.dropped_by_class[tag.class as usize] += 1;
        let is_update = tag.class == Class::Update;
        self.add(Gap {
            id: self.id,
            from: tag.seq,
            to: tag.seq,
            updates: u64::from(is_update),
            others: u64::from(!is_update),
            reason,
        });
    }

    pub fn add(&mut self, gap: Gap) {
        let last = self.waiting.back_mut();
        if last.is_some_and(|last| last.merge(&gap)) {
            return;
        }
        if self.waiting.len() < MAX_GAPS {
            self.waiting.push_back(gap);
        }
    }

    pub fn take(&mut self) -> Vec<Gap> {
        self.waiting.drain(..).collect()
    }

    pub fn last(&self) -> Option<Gap> {
        self.waiting.back().copied()
    }
}
