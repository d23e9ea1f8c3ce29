// SPDX-License-Identifier: Apache-2.0
//! The text file for node_exporter's textfile collector, written by a thread of its own: a file system that hangs must keep no
//! request waiting, let alone a frame.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};

use super::{Form, MetricsError, WriteFigures};
use jetwatch_files::{PendingFile, WriteError};
use jetwatch_telemetry::{self as telemetry, LogDedup, StopToken, thread_names};

/// Readable for the user of node_exporter, whatever the umask of the daemon.
const MODE: u32 = 0o644;

/// Longest wait for the thread to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Writes the file until it is dropped; then the file is removed, since its figures are those of a daemon that is gone.
pub(super) struct TextFile {
    stop: StopToken,
    thread: Option<JoinHandle<()>>,
    ended: Receiver<()>,
}

impl TextFile {
    /// Writes the file at `path` every `interval`, the first time at once.
    ///
    /// # Errors
    /// The file cannot be written, or no thread can be started.
    pub(super) fn start(
        path: &Path,
        device: &str,
        interval: Duration,
        write: WriteFigures,
    ) -> Result<Self, MetricsError> {
        check_text_file(path)?;
        let stop = StopToken::default();
        let (end, ended) = bounded::<()>(1);
        let writer = Writer {
            path: path.to_owned(),
            device: device.to_owned(),
            write,
            text: String::new(),
            failures: LogDedup::default(),
        };
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name(thread_names::METRICS_FILE.to_owned())
            .spawn(move || {
                telemetry::name_thread(thread_names::METRICS_FILE);
                writer.run(interval, &stopped);
                drop(end);
            })
            .map_err(|cause| MetricsError::Thread {
                name: thread_names::METRICS_FILE,
                cause,
            })?;
        Ok(Self {
            stop,
            thread: Some(thread),
            ended,
        })
    }
}

impl Drop for TextFile {
    fn drop(&mut self) {
        self.stop.stop();
        let Some(thread) = self.thread.take() else {
            return;
        };
        // The thread never sends: the channel disconnects when it ends.
        if self.ended.recv_timeout(STOP_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            log::warn!(thread = thread_names::METRICS_FILE; "did not stop within {} s; abandoned", STOP_TIMEOUT.as_secs());
            return;
        }
        // A panic has already been logged by the panic hook.
        let _ = thread.join();
    }
}

/// Checks that the file at `path` can be written, without changing it.
///
/// # Errors
/// It cannot.
pub(super) fn check_text_file(path: &Path) -> Result<(), MetricsError> {
    if path.is_dir() {
        return Err(MetricsError::TextFolder {
            path: path.to_owned(),
        });
    }
    let pending = PendingFile::create(path).map_err(|cause| MetricsError::TextFile { cause })?;
    drop(pending);
    Ok(())
}

struct Writer {
    path: PathBuf,
    device: String,
    write: WriteFigures,
    text: String,
    failures: LogDedup,
}

impl Writer {
    fn run(mut self, interval: Duration, stop: &StopToken) {
        loop {
            self.turn();
            if stop.wait(interval) {
                break;
            }
        }
        if let Err(error) = fs::remove_file(&self.path) {
            log::debug!("cannot remove {}: {error}", self.path.display());
        }
    }

    fn turn(&mut self) {
        self.text.clear();
        let device = &self.device;
        (self.write)(Form::File { device }, &mut self.text);
        match replace(&self.path, &self.text) {
            Ok(()) => {
                let repeats = self.failures.reset();
                if repeats > 0 {
                    log::info!(repeats; "{} can be written again", self.path.display());
                }
            }
            Err(cause) => {
                let text = MetricsError::TextFile { cause }.to_string();
                if let Some(repeats) = self.failures.admit(&text) {
                    log::warn!(repeats; "{text}");
                }
            }
        }
    }
}

/// Replaces the file, without a sync: the next turn writes it anyway, and the device is spared.
fn replace(path: &Path, text: &str) -> Result<(), WriteError> {
    let mut pending = PendingFile::create(path)?;
    let file = pending.file();
    let written = file
        .set_permissions(Permissions::from_mode(MODE))
        .and_then(|()| file.write_all(text.as_bytes()));
    written.map_err(|source| WriteError {
        action: "write",
        path: path.to_owned(),
        source,
    })?;
    pending.replace()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Instant;

    use super::*;

    fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !done() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn the_file_is_always_whole_and_goes_with_the_daemon() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("jetwatch.prom");
        let turns = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&turns);
        let write: WriteFigures = Arc::new(move |form, text: &mut String| {
            assert_eq!(form, Form::File { device: "gate" });
            let turn = counter.fetch_add(1, Ordering::Relaxed);
            *text = format!("begin {turn}\n{}end {turn}\n", "x".repeat(100_000));
        });
        let file = TextFile::start(&path, "gate", Duration::from_millis(1), write);
        let file = file.expect("it starts");
        wait_until("a first text", || path.exists());
        while turns.load(Ordering::Relaxed) < 200 {
            let text = fs::read_to_string(&path).expect("there is a file");
            let ends = [text.lines().next(), text.lines().last()];
            let numbers = ends.map(|line| line.and_then(|line| line.rsplit_once(' ')));
            let [first, last] = numbers.map(|parts| parts.expect("a whole text").1);
            assert_eq!(first, last);
        }
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        drop(file);
        let names: Vec<_> = fs::read_dir(folder.path()).expect("readable").collect();
        assert!(names.is_empty(), "{names:?}");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_refused_at_the_start() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let error = check_text_file(&folder.path().join("none/jetwatch.prom"));
        let error = error.expect_err("no folder").to_string();
        assert!(
            error.starts_with("metrics.text_file: cannot create a file in ")
                && error.contains("its folder must exist"),
            "{error}"
        );
        let path = folder.path().join("jetwatch.prom");
        fs::create_dir(&path).expect("created");
        let error = check_text_file(&path).expect_err("a folder").to_string();
        assert!(error.ends_with("is a folder; name a file in it"), "{error}");
        fs::remove_dir(&path).expect("removed");
        fs::write(&path, "kept").expect("written");
        check_text_file(&path).expect("it may be replaced");
        assert_eq!(fs::read_to_string(&path).expect("readable"), "kept");
    }

    #[test]
    fn a_folder_that_comes_back_is_written_again() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).expect("created");
        let path = inner.join("jetwatch.prom");
        let write: WriteFigures = Arc::new(|_, text: &mut String| text.push_str("figures\n"));
        let file = TextFile::start(&path, "gate", Duration::from_millis(1), write);
        let file = file.expect("it starts");
        wait_until("a text", || path.exists());
        // The thread may write between the removals of the file and of the folder.
        wait_until("no folder", || {
            fs::remove_dir_all(&inner).is_ok() || !inner.exists()
        });
        fs::create_dir(&inner).expect("created");
        wait_until("a text again", || path.exists());
        drop(file);
    }
}
