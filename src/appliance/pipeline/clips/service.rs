// SPDX-License-Identifier: Apache-2.0
//! The thread `media`, and what its commands and results pass through.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use jetwatch_archive::Archive;
use jetwatch_config::{Config, SourceConfig};
use jetwatch_detect::DetectError;
use jetwatch_media::{ClipCommand, POLL_INTERVAL, Recorder, RingLimits, SourceStream};
use jetwatch_telemetry::{OutputMeter, StopToken, thread_names};
use jetwatch_types::Classes;

use super::source::SourceClips;
use super::store::ArchiveStore;
use crate::PipelineError;
use crate::threads::spawn;

/// Commands that may wait for the thread.
const COMMAND_DEPTH: usize = 1024;

/// Commands of one source that may wait for the channel.
const MAX_UNSENT: usize = 1024;

/// Sends the commands of one source, and keeps those that find the channel full.
pub(super) struct CommandSender {
    sender: Sender<ClipCommand>,
    unsent: VecDeque<ClipCommand>,
}

impl CommandSender {
    fn new(sender: &Sender<ClipCommand>) -> Self {
        Self {
            sender: sender.clone(),
            unsent: VecDeque::new(),
        }
    }

    /// Sends a command, or keeps it until the next [`flush`](Self::flush). Does not block.
    pub(super) fn send(&mut self, command: ClipCommand) {
        if self.unsent.len() == MAX_UNSENT {
            log::warn!(
                "the thread {} does not take commands: a clip is lost",
                thread_names::MEDIA
            );
            return;
        }
        self.unsent.push_back(command);
        self.flush();
    }

    /// Sends what waits. Does not block.
    pub(super) fn flush(&mut self) {
        while let Some(command) = self.unsent.pop_front() {
            if let Err(refused) = self.sender.try_send(command) {
                if refused.is_full() {
                    self.unsent.push_front(refused.into_inner());
                }
                return;
            }
        }
    }
}

/// The thread that writes clips and continuous recording, and what the sources need of it.
pub(crate) struct ClipService {
    commands: Sender<ClipCommand>,
    is_recording: Arc<AtomicBool>,
    meter: OutputMeter,
    stop: StopToken,
    thread: JoinHandle<()>,
}

/// Makes the streams and the clips of sources.
#[derive(Clone)]
pub(crate) struct ClipFactory {
    commands: Sender<ClipCommand>,
    is_recording: Arc<AtomicBool>,
}

impl ClipService {
    /// Starts the thread, which keeps its files in `archive`; `None` where no video is kept.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start_for(
        config: &Config,
        archive: Option<&Archive>,
    ) -> Result<Option<Self>, PipelineError> {
        let Some(archive) = archive.filter(|_| config.has_video_files()) else {
            return Ok(None);
        };
        let (commands, received) = bounded(COMMAND_DEPTH);
        let is_recording = Arc::new(AtomicBool::new(true));
        let meter = OutputMeter::default();
        let stop = StopToken::default();
        let writer = Writer {
            recorder: Recorder::new(ArchiveStore::new(archive.clone())),
            received,
            is_recording: Arc::clone(&is_recording),
            meter: meter.clone(),
            stop: stop.clone(),
        };
        let thread = spawn(thread_names::MEDIA, move || writer.run())?;
        Ok(Some(Self {
            commands,
            is_recording,
            meter,
            stop,
            thread,
        }))
    }

    /// Counters of the files, and of the images that are missing in them.
    pub(crate) fn meter(&self) -> OutputMeter {
        self.meter.clone()
    }

    /// Makes the streams and the clips of sources.
    pub(crate) fn factory(&self) -> ClipFactory {
        ClipFactory {
            commands: self.commands.clone(),
            is_recording: Arc::clone(&self.is_recording),
        }
    }

    /// Completes all files; the thread ends then.
    pub(crate) fn stop(&self) {
        self.stop.stop();
    }

    /// Whether the thread has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}

impl ClipFactory {
    /// The stream of `source`, and what records it; `None` where nothing of it is recorded. Continuous recording begins at once.
    ///
    /// # Errors
    /// A label that the model does not have.
    pub(crate) fn source(
        &self,
        config: &Config,
        source: &SourceConfig,
        classes: &Classes,
    ) -> Result<Option<(Arc<SourceStream>, SourceClips)>, DetectError> {
        let record = &config.record;
        if !record.has_clips(source) && !record.is_continuous(source) {
            return Ok(None);
        }
        let limits = RingLimits {
            bytes: usize::try_from(record.clips.ring_bytes).unwrap_or(usize::MAX),
            span: record.clips.pre_roll,
        };
        let stream = SourceStream::new(&source.name, limits);
        let stream = Arc::new(match record.has_audio(source) {
            true => stream.with_sound(),
            false => stream,
        });
        let mut commands = CommandSender::new(&self.commands);
        if record.is_continuous(source) {
            commands.send(ClipCommand::Continuous {
                stream: Arc::clone(&stream),
                segment: record.continuous.segment,
            });
        }
        let clips = SourceClips::new(
            config,
            source,
            classes,
            Arc::clone(&stream),
            commands,
            Arc::clone(&self.is_recording),
        )?;
        Ok(Some((stream, clips)))
    }
}

/// The thread's state.
struct Writer {
    recorder: Recorder<ArchiveStore>,
    received: Receiver<ClipCommand>,
    is_recording: Arc<AtomicBool>,
    meter: OutputMeter,
    stop: StopToken,
}

impl Writer {
    fn run(mut self) {
        let mut lost = 0;
        loop {
            // It has no heartbeat: a device that does not answer is no reason to end the daemon.
            let received = self.received.recv_timeout(POLL_INTERVAL);
            let busy = self.meter.busy.clone();
            match received {
                Ok(command) => busy.time(|| self.recorder.execute(command, Instant::now())),
                Err(RecvTimeoutError::Timeout) => busy.time(|| self.recorder.poll(Instant::now())),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.report(&mut lost);
            if self.stop.is_stopped() {
                break;
            }
        }
        for command in self.received.try_iter() {
            self.recorder.execute(command, Instant::now());
        }
        self.recorder.close(Instant::now());
        self.report(&mut lost);
    }

    /// Logs what was lost since `lost`; the archive announces its files.
    fn report(&mut self, lost: &mut u64) {
        self.is_recording
            .store(self.recorder.is_recording(), Ordering::Relaxed);
        let recorded = self.recorder.take_recorded();
        recorded.iter().for_each(|_| self.meter.delivered());
        let images = self.recorder.counts().lost - *lost;
        *lost += images;
        self.meter.lost(images);
        // Where a file fails, the recorder says why.
        if let Some(recorded) = recorded.first().filter(|_| images > 0) {
            log::warn!(source = recorded.label.source.as_str(), images; "images are missing in clips: they came faster than they were written; the disk or the CPU is too slow, or a file is read faster than it plays (playback_fps)");
        }
    }
}
