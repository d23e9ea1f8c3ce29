// SPDX-License-Identifier: Apache-2.0
//! The JSON-lines sink: one message per line, to a file or to standard output, from a thread named `json-lines`.
//!
//! A line is the same JSON as on MQTT; only counts and switches, which are bare values there, are objects here. The
//! availability of the device is not written: a file has no broker that outlives the daemon. The pipeline never blocks on
//! the disk: lines wait in a bounded queue, also while the disk is full, and when the queue is full the oldest are dropped and
//! counted. A file that was moved or removed, as logrotate does, is created again within a second.

mod line_writer;

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use parking_lot::{Condvar, Mutex};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use self::line_writer::{FileOutput, LineWriter, Output};
use super::{Encoder, Publication, PublishError, Sink, SinkCounts, Timestamp};
use jetwatch_config::JsonLinesConfig;
use jetwatch_telemetry::{self as telemetry, BusyTime, Heartbeat, Heartbeats, thread_names};
use jetwatch_types::Classes;

/// Most lines that wait for the disk before the oldest are dropped: about 10 MB of events.
const QUEUE_LINES: usize = 10_000;
/// Most bytes given to one write.
const WRITE_BYTES: usize = 64 * 1024;
/// Delay after a failed write, so that a full disk is not retried thousands of times a second.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// The sink that writes lines.
#[derive(Debug)]
pub struct JsonLinesSink {
    encoder: Encoder,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    ended: Receiver<()>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// In writing.
    busy: BusyTime,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Box<[u8]>>,
    /// Lines taken by the thread and not yet written.
    writing: u64,
    closing: bool,
    closed_by_reader: bool,
    accepted: u64,
    delivered: u64,
    dropped: u64,
}

impl JsonLinesSink {
    /// Opens the file (created when missing, appended to otherwise; its folder must exist) or takes standard output, and
    /// starts the thread. `labels` are the model's, in the order of their class numbers.
    ///
    /// # Errors
    /// The file cannot be opened, or no thread can be started.
    pub fn start(
        config: &JsonLinesConfig,
        device: &str,
        labels: &[String],
    ) -> Result<Self, PublishError> {
        Self::start_with_heartbeat(
            config,
            device,
            &Classes::new(labels, &[]),
            &Heartbeats::default(),
        )
    }

    /// As [`JsonLinesSink::start`], with groups of labels, and the thread's heartbeat among `heartbeats`: a disk that does not respond is a stall, a
    /// pipe without a reader is not.
    ///
    /// # Errors
    /// Those of [`JsonLinesSink::start`].
    pub fn start_with_heartbeat(
        config: &JsonLinesConfig,
        device: &str,
        classes: &Classes,
        heartbeats: &Heartbeats,
    ) -> Result<Self, PublishError> {
        let (output, name) = match &config.path {
            Some(path) => (open(path)?, path.display().to_string()),
            None => {
                // An own descriptor: Rust's standard output would buffer lines and take a lock per line.
                let own = io::stdout().as_fd().try_clone_to_owned();
                let own = own.map_err(|source| PublishError::OpenLines {
                    path: "/dev/stdout".into(),
                    source,
                })?;
                (FileOutput::pipe(own.into()), "standard output".to_owned())
            }
        };
        let heartbeat = output
            .is_regular()
            .then(|| heartbeats.register("json-lines"));
        Self::start_with(output, name, device, classes, heartbeat)
    }

    fn start_with(
        output: impl Output + Send + 'static,
        name: String,
        device: &str,
        classes: &Classes,
        heartbeat: Option<Heartbeat>,
    ) -> Result<Self, PublishError> {
        let shared = Arc::new(Shared::default());
        let (end, ended) = bounded::<()>(0);
        let mut writer = Writer {
            lines: LineWriter::new(output),
            shared: Arc::clone(&shared),
            name,
            failing: None,
            heartbeat,
        };
        let thread = std::thread::Builder::new()
            .name(thread_names::JSON_LINES.to_owned())
            .spawn(move || {
                telemetry::name_thread(thread_names::JSON_LINES);
                writer.run();
                drop(end);
            })
            .map_err(|source| PublishError::Thread {
                name: thread_names::JSON_LINES,
                source,
            })?;
        Ok(Self {
            encoder: Encoder::new(device, classes),
            shared,
            thread: Some(thread),
            ended,
        })
    }

    fn shut_down(&mut self, deadline: Duration) {
        self.shared.state.lock().closing = true;
        self.shared.changed.notify_all();
        let Some(thread) = self.thread.take() else {
            return;
        };
        // The thread never sends: the channel disconnects when the thread ends.
        if self.ended.recv_timeout(deadline) == Err(crossbeam_channel::RecvTimeoutError::Timeout) {
            log::warn!(thread = "json-lines"; "did not stop within {:.1} s; abandoned", deadline.as_secs_f32());
            let mut state = self.shared.state.lock();
            state.drop_queue();
            return;
        }
        // A panic has already been logged by the panic hook.
        let _ = thread.join();
    }
}

/// Checks that the sink can write to `path`. A missing file is created and removed again; an existing one stays as it is.
///
/// # Errors
/// Those of [`JsonLinesSink::start`].
pub fn check_json_lines(path: &Path) -> Result<(), PublishError> {
    let is_new = !path.exists();
    open_file(path)?;
    if is_new {
        // Another program may have written to it meanwhile.
        let is_empty =
            std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0);
        if is_empty {
            drop(std::fs::remove_file(path));
        }
    }
    Ok(())
}

fn open(path: &Path) -> Result<FileOutput, PublishError> {
    let (file, is_regular) = open_file(path)?;
    Ok(match is_regular {
        true => FileOutput::file(file, path),
        false => FileOutput::pipe(file),
    })
}

/// Opens the file, and says whether it is a regular one.
fn open_file(path: &Path) -> Result<(File, bool), PublishError> {
    let failed = |source| PublishError::OpenLines {
        path: path.to_owned(),
        source,
    };
    // A named pipe without a reader would block until there is one.
    let target = jetwatch_files::target_of(path).map_err(failed)?;
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(target)
        .map_err(|source| match source.raw_os_error() {
            Some(code) if Errno::from_raw_os_error(code) == Errno::NXIO => PublishError::NoReader {
                path: path.to_owned(),
            },
            _ => failed(source),
        })?;
    let flags = fcntl_getfl(&file).map_err(|error| failed(error.into()))?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK).map_err(|error| failed(error.into()))?;
    let is_regular = file.metadata().map_err(failed)?.is_file();
    if is_regular && !begins_like_json_lines(path) {
        return Err(PublishError::NoJsonLines {
            path: path.to_owned(),
        });
    }
    Ok((file, is_regular))
}

/// True also for an empty file and for one that may be written but not read.
fn begins_like_json_lines(path: &Path) -> bool {
    let mut first = [b'{'];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut first));
    // Line breaks may be in front: of an unfinished line whose rest could not be written.
    read.is_err() || matches!(first[0], b'{' | b'\n')
}

impl Sink for JsonLinesSink {
    fn name(&self) -> String {
        thread_names::JSON_LINES.to_owned()
    }

    fn publish(&mut self, record: &Publication<'_>) {
        let mut state = self.shared.state.lock();
        self.encoder.encode(record, Timestamp::now(), |json| {
            state.accepted += 1;
            if state.closed_by_reader {
                state.dropped += 1;
                return;
            }
            if state.queue.len() >= QUEUE_LINES {
                state.queue.pop_front();
                state.dropped += 1;
            }
            let mut line = Vec::with_capacity(json.len() + 1);
            line.extend_from_slice(json);
            line.push(b'\n');
            state.queue.push_back(line.into_boxed_slice());
        });
        drop(state);
        self.shared.changed.notify_one();
    }

    fn counts(&self) -> SinkCounts {
        let state = self.shared.state.lock();
        SinkCounts {
            spooled: 0,
            accepted: state.accepted,
            delivered: state.delivered,
            dropped: state.dropped,
            best_effort_dropped: 0,
            replaced: 0,
            queued: state.queue.len() as u64 + state.writing,
            busy: self.shared.busy.total(),
        }
    }

    fn is_closed_by_reader(&self) -> bool {
        self.shared.state.lock().closed_by_reader
    }

    fn close(mut self: Box<Self>, deadline: Duration) -> SinkCounts {
        self.shut_down(deadline);
        self.counts()
    }
}

impl Drop for JsonLinesSink {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.shut_down(Duration::from_millis(500));
        }
    }
}

impl State {
    /// Returns the lines of a failed write to the queue but for the first `written`; drops the oldest beyond the queue's size.
    fn put_back(&mut self, buffer: &[u8], written: u64) {
        let lines: Vec<&[u8]> = buffer.split_inclusive(|byte| *byte == b'\n').collect();
        let written = usize::try_from(written)
            .unwrap_or(usize::MAX)
            .min(lines.len());
        let unwritten = &lines[written..];
        let room = QUEUE_LINES
            .saturating_sub(self.queue.len())
            .min(unwritten.len());
        let (gone, kept) = unwritten.split_at(unwritten.len() - room);
        self.dropped += gone.len() as u64;
        for line in kept.iter().rev() {
            self.queue.push_front((*line).into());
        }
    }

    fn drop_queue(&mut self) {
        self.dropped += self.queue.len() as u64 + std::mem::take(&mut self.writing);
        self.queue.clear();
    }
}

/// The thread's side.
struct Writer<O> {
    lines: LineWriter<O>,
    shared: Arc<Shared>,
    name: String,
    /// Start of the current write failure, and the number of lines that were dropped before it.
    failing: Option<(Instant, u64)>,
    /// Heartbeat of the thread; none for a pipe.
    heartbeat: Option<Heartbeat>,
}

impl<O: Output> Writer<O> {
    fn run(&mut self) {
        let mut buffer = Vec::with_capacity(WRITE_BYTES);
        let shared = Arc::clone(&self.shared);
        while self.next_batch(&mut buffer) {
            self.heartbeat.iter().for_each(Heartbeat::busy);
            let result = shared.busy.time(|| self.lines.write(&buffer));
            self.heartbeat.iter().for_each(Heartbeat::idle);
            let mut state = shared.state.lock();
            let count = std::mem::take(&mut state.writing);
            match result {
                Ok(()) => {
                    state.delivered += count;
                    drop(state);
                    self.succeeded();
                }
                Err((whole_lines, error)) => {
                    state.delivered += whole_lines.min(count);
                    if error.kind() == io::ErrorKind::BrokenPipe {
                        state.dropped += count.saturating_sub(whole_lines);
                        state.closed_by_reader = true;
                        state.drop_queue();
                        log::info!(output = self.name.as_str(); "the reader of the JSON lines has closed the pipe");
                        return;
                    }
                    state.put_back(&buffer, whole_lines);
                    let dropped = state.dropped;
                    drop(state);
                    if self.failed(&error, dropped) {
                        shared.state.lock().drop_queue();
                        return;
                    }
                }
            }
        }
        if let Err(error) = self.lines.flush() {
            log::warn!(output = self.name.as_str(); "cannot flush the JSON lines: {error}");
        }
    }

    /// Waits for lines and takes what fits one write. Returns false when the sink is closed and the queue is empty.
    fn next_batch(&self, buffer: &mut Vec<u8>) -> bool {
        buffer.clear();
        let mut state = self.shared.state.lock();
        while state.queue.is_empty() {
            if state.closing {
                return false;
            }
            self.shared.changed.wait(&mut state);
        }
        while buffer.len() < WRITE_BYTES
            && let Some(line) = state.queue.pop_front()
        {
            buffer.extend_from_slice(&line);
            state.writing += 1;
        }
        true
    }

    fn succeeded(&mut self) {
        if let Some((since, dropped_before)) = self.failing.take() {
            let seconds = since.elapsed().as_secs();
            let lost = self.shared.state.lock().dropped - dropped_before;
            log::info!(output = self.name.as_str(), lost, seconds; "JSON lines are written again");
        }
    }

    /// Logs a failure once, and waits. Returns true if the sink is being closed: the lines that remain cannot be written.
    fn failed(&mut self, error: &io::Error, dropped: u64) -> bool {
        if self.failing.is_none() {
            self.failing = Some((Instant::now(), dropped));
            log::error!(
                output = self.name.as_str();
                "cannot write JSON lines: {error}; the newest {QUEUE_LINES} lines are kept until writing succeeds again, older ones are dropped and \
                 counted; free disk space or check the disk"
            );
        }
        let mut state = self.shared.state.lock();
        if state.closing {
            return true;
        }
        let is_open = |state: &mut State| !state.closing;
        let changed = &self.shared.changed;
        changed.wait_while_for(&mut state, is_open, RETRY_WAIT);
        false
    }
}

#[cfg(test)]
mod tests;
