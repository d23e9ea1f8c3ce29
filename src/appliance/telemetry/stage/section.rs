// SPDX-License-Identifier: Apache-2.0
//! Time of a thread in a part of other code, such as a GStreamer element, without what that code calls outside of it.

use std::time::{Duration, Instant};

use jetwatch_nvtx::LocalRange;

use super::{IN_STAGES, Recorder, Stage};
use crate::process::thread_cpu_time;
use crate::timeline::{SourceCategory, stage_event};

/// One visit of a thread. It may be paused while the thread is elsewhere: each part between is a range on the timeline, and all
/// of them together are one range of the statistics. Everything happens on one thread.
pub struct Section {
    stage: Stage,
    source: Option<SourceCategory>,
    payload: u64,
    running: Option<Running>,
    wall: Duration,
    cpu: Duration,
}

struct Running {
    _nvtx: LocalRange,
    started: Instant,
    cpu_before: Duration,
}

impl Section {
    /// Starts a visit; `payload` is shown on the timeline, with the source of `recorder`.
    #[must_use]
    pub fn start(recorder: &Recorder, stage: Stage, payload: u64) -> Self {
        let mut section = Self {
            stage,
            source: recorder.source,
            payload,
            running: None,
            wall: Duration::ZERO,
            cpu: Duration::ZERO,
        };
        section.resume();
        section
    }

    /// The thread leaves for a call outside of the part.
    pub fn pause(&mut self) {
        if let Some(running) = self.running.take() {
            let cpu = thread_cpu_time().saturating_sub(running.cpu_before);
            IN_STAGES.set(IN_STAGES.get() + cpu);
            self.cpu += cpu;
            self.wall += running.started.elapsed();
        }
    }

    /// The thread has returned from that call.
    pub fn resume(&mut self) {
        self.running = Some(Running {
            _nvtx: stage_event(self.stage, self.source, self.payload).push(),
            started: Instant::now(),
            cpu_before: thread_cpu_time(),
        });
    }

    /// Ends the visit, which covered one image.
    pub fn end(mut self, recorder: &Recorder) {
        self.pause();
        recorder.add(self.stage, 1, self.wall, Some(self.cpu));
    }
}
