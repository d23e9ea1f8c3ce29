// SPDX-License-Identifier: Apache-2.0
//! Clips in the tracking stage: they follow the frames, and end before the sinks.

use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use jetwatch_telemetry::thread_names;
use jetwatch_types::{FrameMeta, SourceId};

use super::{ControlMessage, TrackStage};

/// Longest time for the clips to be completed when the pipeline ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// Interval at which the end of the thread is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl TrackStage {
    /// Processes the events of a frame that are not published yet; the clip that they begin is named in them.
    pub(super) fn step_clips(&mut self, meta: &FrameMeta) {
        let source = &mut self.sources[meta.source.index()];
        if let Some(clips) = &mut source.clips {
            let analytics = source.analytics.iter();
            let pending = analytics.flat_map(|analytics| analytics.pending());
            clips.step(meta, &source.events, pending);
            clips.set_processed(meta, source.lifecycle.unconfirmed_for());
        }
    }

    /// Ends the clip of a source, none of whose frames continues those before.
    pub(super) fn finish_clips(&mut self, id: SourceId) {
        if let Some(clips) = &mut self.sources[id.index()].clips {
            clips.finish();
        }
    }

    /// Completes the clips of all sources, and publishes their files.
    pub(super) fn close_clips(&mut self, control: &Receiver<ControlMessage>) {
        let Some(service) = self.clips.take() else {
            return;
        };
        service.stop();
        let until = Instant::now() + CLOSE_TIMEOUT;
        while !service.is_finished() && Instant::now() < until {
            if let Ok(message) = control.recv_timeout(POLL_INTERVAL) {
                self.publish_control(message);
            }
        }
        if !service.is_finished() {
            log::warn!(
                "the thread {} does not end: the last clips are not complete",
                thread_names::MEDIA
            );
        }
        for message in control.try_iter() {
            self.publish_control(message);
        }
    }
}
