// SPDX-License-Identifier: Apache-2.0
//! Used and free bytes of the file systems that the daemon writes to, for the page. A disk that does not answer delays a request for
//! [`TIMEOUT`], and occupies one thread.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};

/// Time in which disks answer; later, the figures of before are given.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Asks for the figures, which may block.
type Ask = dyn Fn() -> Vec<Value> + Send + Sync;

/// The file systems, and their last figures.
pub(super) struct Disks {
    ask: Arc<Ask>,
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    figures: Vec<Value>,
    is_asking: bool,
}

impl Disks {
    pub(super) fn new(ask: impl Fn() -> Vec<Value> + Send + Sync + 'static) -> Self {
        Self {
            ask: Arc::new(ask),
            state: Arc::default(),
        }
    }

    /// Those of `folders`, by name.
    pub(super) fn of(folders: Vec<(&'static str, PathBuf)>) -> Self {
        let of = |(name, folder): &(&'static str, PathBuf)| {
            let stat = rustix::fs::statvfs(folder).ok()?;
            let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
            Some(json!({
                "name": name,
                "folder": folder,
                // The same for folders on the same one.
                "filesystem": fs::metadata(folder).ok().map(|found| found.dev().to_string()),
                "total_bytes": bytes(stat.f_blocks),
                "free_bytes": bytes(stat.f_bavail),
            }))
        };
        Self::new(move || folders.iter().filter_map(of).collect())
    }

    /// The figures of now, or the last ones.
    pub(super) fn figures(&self) -> Vec<Value> {
        let (state, answered) = &*self.state;
        let mut now = state.lock();
        if !now.is_asking {
            let (ask, shared) = (Arc::clone(&self.ask), Arc::clone(&self.state));
            let asking = thread::Builder::new().name("disks".to_owned());
            let asked = asking.spawn(move || {
                let figures = ask();
                *shared.0.lock() = State {
                    figures,
                    is_asking: false,
                };
                shared.1.notify_all();
            });
            now.is_asking = asked.is_ok();
        }
        answered.wait_while_for(&mut now, |state| state.is_asking, TIMEOUT);
        now.figures.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_that_does_not_answer_holds_one_thread_and_no_request() {
        let (answer, blocked) = crossbeam_channel::bounded::<u32>(0);
        let (started, starts) = crossbeam_channel::unbounded();
        let disks = Disks::new(move || {
            let _ = started.send(());
            blocked
                .recv()
                .map(|figure| json!(figure))
                .into_iter()
                .collect()
        });
        thread::scope(|scope| {
            scope.spawn(|| answer.send(1));
            while disks.figures().is_empty() {}
        });
        starts.recv().expect("the first time");
        let last = || assert_eq!(disks.figures(), [json!(1)]);
        last();
        starts.recv().expect("again");
        last();
        last();
        assert!(starts.is_empty(), "one thread waits");
    }
}
