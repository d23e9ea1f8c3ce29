// SPDX-License-Identifier: Apache-2.0
//! The thread that publishes what `jetwatch update` writes to its status file. It looks at the file's metadata once a second, and reads
//! the file when they have changed; once more at the end, so that the step during which the updater restarts the daemon is published.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use jetwatch_platform::SysRoot;
use jetwatch_telemetry::update_status::{UpdateStatus, status_file};
use jetwatch_telemetry::{FailureLog, StopToken};

use super::track::ControlMessage;

/// Interval at which the file is looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// What differs between two versions of the file: inode, size, and time of the change.
type Stamp = (u64, u64, i64, i64);

/// The inputs and outputs of the thread.
pub(super) struct UpdateWatch {
    path: PathBuf,
    control_messages: Sender<ControlMessage>,
    seen: Option<Stamp>,
    published: Option<UpdateStatus>,
    failures: FailureLog,
}

impl UpdateWatch {
    /// Of the machine below `root`.
    pub(super) fn new(root: &SysRoot, control_messages: Sender<ControlMessage>) -> Self {
        Self {
            path: root.path(&status_file().to_string_lossy()),
            control_messages,
            seen: None,
            published: None,
            failures: FailureLog::default(),
        }
    }

    /// Runs until the stop.
    pub(super) fn run(mut self, stop: &StopToken) {
        self.look();
        while !stop.wait(POLL_INTERVAL) {
            self.look();
        }
        self.look();
    }

    fn look(&mut self) {
        let stamp = fs::metadata(&self.path).ok();
        let stamp = stamp.map(|file| (file.ino(), file.size(), file.mtime(), file.mtime_nsec()));
        if stamp == self.seen {
            return;
        }
        match UpdateStatus::read(&self.path) {
            Ok(status) => {
                self.seen = stamp;
                self.failures.reset();
                if let Some(status) = status
                    && self.published.as_ref() != Some(&status)
                {
                    self.published = Some(status.clone());
                    // Fails where the tracking stage has ended, and with it all sinks.
                    let _ = self
                        .control_messages
                        .send(ControlMessage::Update(Box::new(status)));
                }
            }
            Err(error) => {
                let path = self.path.display();
                if self
                    .failures
                    .admit(&error.to_string(), Instant::now())
                    .is_some()
                {
                    log::warn!(
                        "the state of updates is not published: cannot read {path}: {error}"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::unbounded;

    use jetwatch_telemetry::update_status::{STATUS_VERSION, UpdateState};

    use super::*;

    fn status(state: UpdateState) -> UpdateStatus {
        UpdateStatus {
            version: STATUS_VERSION,
            state,
            installed: "1.0".to_owned(),
            latest: "1.1".to_owned(),
            held: None,
            previous: None,
            reason: None,
            at_ms: 1,
        }
    }

    #[test]
    fn each_state_is_published_once_and_the_last_one_at_the_stop() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let (sender, published) = unbounded();
        let watch = UpdateWatch::new(&SysRoot::new(root.path()), sender);
        let path = watch.path.clone();
        assert!(path.starts_with(root.path()));
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        let write = |state| {
            let text = serde_json::to_string(&status(state)).expect("JSON");
            jetwatch_files::write(&path, text.as_bytes()).expect("written");
        };
        let mut watch = watch;
        let states = || -> Vec<UpdateState> {
            let state = |message| match message {
                ControlMessage::Update(status) => status.state,
                _ => panic!("another message"),
            };
            published.try_iter().map(state).collect()
        };
        watch.look();
        assert_eq!(states(), []);
        write(UpdateState::Available);
        watch.look();
        watch.look();
        assert_eq!(states(), [UpdateState::Available]);
        fs::write(&path, "{").expect("written");
        watch.look();
        assert_eq!(states(), []);
        // As the updater does just before it restarts the daemon.
        write(UpdateState::InProgress);
        let stop = StopToken::default();
        stop.stop();
        watch.run(&stop);
        assert_eq!(states(), [UpdateState::InProgress]);
    }
}
