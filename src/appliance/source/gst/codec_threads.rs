// SPDX-License-Identifier: Apache-2.0
//! CPU time of the threads that a software decoder starts for itself.
//!
//! A codec starts its threads when the caps of the stream reach the decoder, before the first image. Linux gives a new thread the
//! name of the one that started it; newer versions of FFmpeg name theirs `av:CODEC:…`. So the threads of a decoder are those that
//! appeared between its caps and its first image, with one of these names, and that belong to no other decoder.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use gstreamer as gst;
use gstreamer::prelude::*;
use parking_lot::Mutex;

use jetwatch_telemetry::{Recorder, Stage};

/// How often the CPU time is read.
const READ_INTERVAL: Duration = Duration::from_millis(100);

/// Prefix of the names that FFmpeg gives its threads.
const FFMPEG: &str = "av:";

/// Threads of all decoders of this process.
static CLAIMED: LazyLock<Mutex<BTreeSet<u32>>> = LazyLock::new(Mutex::default);

/// Threads of the decoders of one session.
#[derive(Debug, Default)]
pub(super) struct CodecThreads {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Threads of this process before the caps, and the names of those that passed them; until the first image.
    before: Option<(BTreeSet<u32>, Vec<String>)>,
    threads: BTreeSet<u32>,
    /// Their CPU time when it was last read.
    cpu: Duration,
    read_at: Option<Instant>,
}

impl CodecThreads {
    /// Finds the threads of `decoder` when it gets its caps and its first image.
    pub(super) fn observe(self: &Arc<Self>, decoder: &gst::Element) {
        let Some(pad) = decoder.static_pad("sink") else {
            return;
        };
        let threads = Arc::clone(self);
        pad.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, move |_, info| {
            if info
                .event()
                .is_some_and(|event| event.type_() == gst::EventType::Caps)
            {
                threads.note_caps();
            }
            gst::PadProbeReturn::Ok
        });
        let threads = Arc::clone(self);
        pad.add_probe(gst::PadProbeType::BUFFER, move |_, _| {
            threads.claim();
            gst::PadProbeReturn::Ok
        });
    }

    /// Caps reach the decoder. Before the first image they may come again, by another thread, and then start nothing.
    fn note_caps(&self) {
        let mut state = self.state.lock();
        let (_, starters) = state
            .before
            .get_or_insert_with(|| (all_threads(), Vec::new()));
        starters.push(own_name());
    }

    fn claim(&self) {
        let mut state = self.state.lock();
        let Some((before, starters)) = state.before.take() else {
            return;
        };
        let mut claimed = CLAIMED.lock();
        for thread in all_threads().difference(&before) {
            let is_codec = name_of(*thread)
                .is_some_and(|name| starters.contains(&name) || name.starts_with(FFMPEG));
            if is_codec && claimed.insert(*thread) {
                state.threads.insert(*thread);
            }
        }
    }

    /// Adds the CPU time since the last call to `recorder`; most calls do nothing.
    pub(super) fn add_to(&self, recorder: &Recorder) {
        let mut state = self.state.lock();
        let is_due = state
            .read_at
            .is_none_or(|read_at| read_at.elapsed() >= READ_INTERVAL);
        if state.threads.is_empty() || !is_due {
            return;
        }
        let cpu = state.threads.iter().filter_map(|id| cpu_of(*id)).sum();
        // Threads end when a decoder is opened again: the sum then falls.
        let spent = Duration::saturating_sub(cpu, state.cpu);
        state.cpu = cpu;
        state.read_at = Some(Instant::now());
        recorder.add_cpu(Stage::VideoDecode, spent);
    }
}

impl Drop for CodecThreads {
    fn drop(&mut self) {
        // The system uses numbers of threads again.
        let mut claimed = CLAIMED.lock();
        for thread in &self.state.get_mut().threads {
            claimed.remove(thread);
        }
    }
}

fn all_threads() -> BTreeSet<u32> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
    tasks
        .filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

fn name_of(thread: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/self/task/{thread}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

fn own_name() -> String {
    let name = fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
    name.trim_end().to_owned()
}

/// User and system time of a thread of this process; `None` once it has ended.
fn cpu_of(thread: u32) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    let ns = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_found_with_their_time() {
        let before = all_threads();
        let (ready, wait) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let spawned = std::thread::spawn(move || {
            let until = jetwatch_telemetry::thread_cpu_time() + Duration::from_millis(5);
            while jetwatch_telemetry::thread_cpu_time() < until {
                std::hint::spin_loop();
            }
            let id = rustix::thread::gettid().as_raw_nonzero().get();
            ready.send(id.unsigned_abs()).expect("the test waits");
            let _ = stopped.recv();
        });
        let id = wait.recv().expect("it runs");
        assert!(!before.contains(&id) && all_threads().contains(&id));
        assert!(name_of(id).is_some());
        assert!(cpu_of(id).is_some_and(|cpu| cpu >= Duration::from_millis(4)));
        drop(stop);
        spawned.join().expect("it ends");
        assert_eq!(cpu_of(u32::MAX), None);
    }
}
