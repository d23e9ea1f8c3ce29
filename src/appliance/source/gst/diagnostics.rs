//! Findings of a pipeline's threads while it is being built, for the supervisor.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Findings of one session.
#[derive(Debug, Default)]
pub(super) struct Findings {
    other_streams: Mutex<Vec<String>>,
    notes: Mutex<Vec<String>>,
    rejection: Mutex<Option<String>>,
    zero_copy_disabled: AtomicBool,
}

impl Findings {
    /// A stream that turned out not to be the video, by its media type.
    pub(super) fn add_other_stream(&self, media_type: String) {
        let mut others = self.other_streams.lock();
        others.push(media_type);
    }

    /// Media types that turned out not to be video.
    pub(super) fn other_streams(&self) -> Vec<String> {
        let others = self.other_streams.lock();
        others.clone()
    }

    /// Why something is not done by a better unit; said once.
    pub(super) fn add_note(&self, note: String) {
        let mut notes = self.notes.lock();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// All notes so far.
    pub(super) fn notes(&self) -> Vec<String> {
        let notes = self.notes.lock();
        notes.clone()
    }

    /// Why the session must end; the first reason counts. An error on the pipeline's bus must follow, which wakes the supervisor.
    pub(super) fn reject(&self, reason: String) {
        let mut refusal = self.rejection.lock();
        refusal.get_or_insert(reason);
    }

    /// A picture in NVMM could not be read in place: the session must end and the next copy. An error on the bus must follow.
    pub(super) fn disable_zero_copy(&self) {
        self.zero_copy_disabled.store(true, Ordering::Relaxed);
    }

    /// Whether that has happened.
    pub(super) fn is_zero_copy_disabled(&self) -> bool {
        self.zero_copy_disabled.load(Ordering::Relaxed)
    }

    /// The reason for which the session ended, if it was one of ours.
    pub(super) fn take_rejection(&self) -> Option<String> {
        let mut refusal = self.rejection.lock();
        refusal.take()
    }
}
