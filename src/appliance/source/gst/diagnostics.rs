// SPDX-License-Identifier: Apache-2.0
//! Diagnostics of a pipeline while it is being built: written by its threads, read by the supervisor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::SourceError;
use crate::convert_plan::VideoFormat;

use super::codec_threads::CodecThreads;
use super::own_scaling::OwnScaling;
use super::push_tracer::LaunchWork;

/// Diagnostics of one session.
#[derive(Debug, Default)]
pub(super) struct SessionDiagnostics {
    other_streams: Mutex<Vec<String>>,
    notes: Mutex<Vec<String>>,
    rejection: Mutex<Option<String>>,
    failure: Mutex<Option<SourceError>>,
    zero_copy_disabled: AtomicBool,
    video_streams: AtomicUsize,
    is_hardware_fed: AtomicBool,
    own_scaling: Mutex<Option<OwnScaling>>,
    /// The video format that was logged last, in this session or an earlier one.
    logged_format: Arc<Mutex<Option<VideoFormat>>>,
    /// Threads of the software decoder.
    pub(super) codec_threads: Arc<CodecThreads>,
    /// Work of a launch line's threads outside of all stages.
    pub(super) launch_work: Arc<LaunchWork>,
}

impl SessionDiagnostics {
    /// For a session of a source that keeps `logged_format` from one to the next.
    pub(super) fn new(logged_format: &Arc<Mutex<Option<VideoFormat>>>) -> Self {
        Self {
            logged_format: Arc::clone(logged_format),
            ..Self::default()
        }
    }

    /// Whether `format` is to be logged: it is not the last one that was.
    pub(super) fn is_new_format(&self, format: &VideoFormat) -> bool {
        self.logged_format.lock().replace(format.clone()).as_ref() != Some(format)
    }

    /// Adds the media type of a stream that is not the video.
    pub(super) fn add_other_stream(&self, media_type: String) {
        let mut others = self.other_streams.lock();
        others.push(media_type);
    }

    /// Media types of streams that are not the video.
    pub(super) fn other_streams(&self) -> Vec<String> {
        let others = self.other_streams.lock();
        others.clone()
    }

    /// Adds a reason why a better unit is not used; duplicates are ignored.
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

    /// Sets the reason why the session must end; the first one counts. The caller must post an error on the pipeline's bus, which
    /// wakes the supervisor.
    pub(super) fn reject(&self, reason: String) {
        let mut rejection = self.rejection.lock();
        rejection.get_or_insert(reason);
    }

    /// An image in NVMM could not be read without a copy: the session must end, and the next one copies. The caller must post an
    /// error on the bus.
    pub(super) fn disable_zero_copy(&self) {
        self.zero_copy_disabled.store(true, Ordering::Relaxed);
    }

    /// Whether [`disable_zero_copy`](Self::disable_zero_copy) was called.
    pub(super) fn is_zero_copy_disabled(&self) -> bool {
        self.zero_copy_disabled.load(Ordering::Relaxed)
    }

    /// The machine's video decoder has received an image.
    pub(super) fn set_hardware_fed(&self) {
        self.is_hardware_fed.store(true, Ordering::Relaxed);
    }

    /// Whether [`set_hardware_fed`](Self::set_hardware_fed) was called.
    pub(super) fn is_hardware_fed(&self) -> bool {
        self.is_hardware_fed.load(Ordering::Relaxed)
    }

    /// Sets how many video streams the description of an RTSP server lists.
    pub(super) fn set_video_streams(&self, count: usize) {
        self.video_streams.store(count, Ordering::Relaxed);
    }

    /// How many video streams the description of an RTSP server lists.
    pub(super) fn video_streams(&self) -> usize {
        self.video_streams.load(Ordering::Relaxed)
    }

    /// Sets why the camera cannot be connected to, whose connection then fails.
    pub(super) fn set_failure(&self, error: SourceError) {
        *self.failure.lock() = Some(error);
    }

    /// Why the camera cannot be connected to, if so.
    pub(super) fn take_failure(&self) -> Option<SourceError> {
        self.failure.lock().take()
    }

    /// Sets what jetwatch itself scales; `None`: elements do it.
    pub(super) fn set_own_scaling(&self, scaling: Option<OwnScaling>) {
        *self.own_scaling.lock() = scaling;
    }

    /// What jetwatch itself scales, if anything.
    pub(super) fn own_scaling(&self) -> Option<OwnScaling> {
        *self.own_scaling.lock()
    }

    /// The reason set by [`reject`](Self::reject), if any.
    pub(super) fn take_rejection(&self) -> Option<String> {
        let mut rejection = self.rejection.lock();
        rejection.take()
    }
}
