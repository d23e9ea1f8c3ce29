// SPDX-License-Identifier: Apache-2.0
//! Copies of the counts of sources and of the machine for metrics. Unlike a `stats` message they begin no interval.

use jetwatch_archive::MediaKind;
use jetwatch_metrics::{MachineFigures, MediaFigures, SourceFigures};
use jetwatch_publish::MediaStats;
use jetwatch_types::SourceState;

use super::StatsCollector;

impl StatsCollector {
    /// Takes the figures of kept files, for the next `stats` message.
    pub(crate) fn set_media(&self, media: MediaStats) {
        *self.media.lock() = Some(media);
    }

    /// Figures of kept files.
    pub(crate) fn media_figures(&self) -> Option<MediaFigures> {
        let media = (*self.media.lock())?;
        Some(MediaFigures {
            bytes: vec![
                (MediaKind::Snapshot.word(), media.snapshot_bytes),
                (MediaKind::Clip.word(), media.clip_bytes),
                (MediaKind::Continuous.word(), media.continuous_bytes),
            ],
            is_full: media.is_full,
            free_bytes: media.free_bytes,
        })
    }

    /// Name, state, processed and detected frames of each source that was not removed, in the order of the configuration.
    pub(crate) fn source_frames(&self) -> Vec<(String, SourceState, u64, u64)> {
        let state = self.state.lock();
        let sources = state.sources.iter().filter(|source| !source.is_removed);
        sources
            .map(|source| {
                let detected = source.done - source.skipped;
                (source.name.clone(), source.state, source.done, detected)
            })
            .collect()
    }

    /// Figures of the sources, and of the machine after the first reading. The tracking stage waits for a copy of them at most.
    pub(crate) fn figures(&self) -> (Vec<SourceFigures>, Option<MachineFigures>) {
        // Before the lock below: no thread waits for two.
        let dropped = self.batcher.dropped_by_source();
        let state = self.state.lock();
        let sources = state.sources.iter().enumerate();
        let sources = sources.filter(|(_, source)| !source.is_removed);
        let sources = sources.map(|(index, source)| SourceFigures {
            name: source.name.clone(),
            is_up: source.state == SourceState::Online,
            detected: source.done - source.skipped,
            carried: source.skipped,
            // A source that was added meanwhile has dropped none.
            dropped: dropped.get(index).copied().unwrap_or(0),
            skipped: source.counters.above_max_fps(),
            reconnects: source.counters.reconnects(),
            last_frame_at: source.last_frame_at,
        });
        let machine = state.machine.as_ref().map(|(machine, _)| MachineFigures {
            readings: machine.readings.clone(),
            cpu_loads: machine.cpu_loads.clone(),
            throttled_by: machine.throttled_by.clone(),
            throttled_times: machine.throttled_times,
        });
        (sources.collect(), machine)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::batcher::{BatchSettings, Batcher};
    use jetwatch_telemetry::Recorder;
    use jetwatch_types::{Frame, FrameMeta, Size, SourceId};

    #[test]
    fn frames_are_counted_by_outcome_and_removed_sources_are_left_out() {
        let batcher = Arc::new(Batcher::new(&[true, true], 1, None));
        let recorder = Recorder::default();
        let stats = StatsCollector::new(
            Instant::now(),
            0,
            1,
            BatchSettings::default(),
            Arc::clone(&batcher),
            recorder,
            Vec::new(),
        );
        stats.add_source("gone", Arc::default());
        stats.add_source("camera", Arc::default());
        for seq in 0..4 {
            batcher.push(Frame::black(1, seq, Size::new(1, 1)));
        }
        let meta = FrameMeta::for_test(1, 3, Size::new(1, 1));
        stats.source_state(SourceId(1), SourceState::Online);
        stats.frame_done(&meta, 0, false, None);
        for _ in 0..2 {
            stats.frame_done(&meta, 0, true, None);
        }
        stats.remove_source(SourceId(0));
        let (sources, machine) = stats.figures();
        assert!(machine.is_none(), "no sensor was read");
        let [camera] = sources.as_slice() else {
            panic!("{sources:?}");
        };
        assert_eq!((camera.name.as_str(), camera.is_up), ("camera", true));
        assert_eq!((camera.detected, camera.carried, camera.dropped), (1, 2, 3));
        assert_eq!(camera.last_frame_at, Some(meta.captured_at));
        let readings = Arc::default();
        stats.set_machine(readings, Vec::new(), 2, Duration::ZERO);
        assert_eq!(
            stats.figures().1.map(|machine| machine.throttled_times),
            Some(2)
        );
    }
}
