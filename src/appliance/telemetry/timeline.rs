// SPDX-License-Identifier: Apache-2.0
//! What profilers show besides the stages: the NVTX domain with its registered names, sources, names of threads, and ranges of
//! other code. NVTX calls end in a null check when no profiler is attached.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::LazyLock;

use jetwatch_nvtx::{Category, Domain, Event, LocalRange, RegisteredString};
use parking_lot::Mutex;

use super::stage_kind::Stage;
use super::trace::Level;

/// Prefix of the NVTX category of a source, before its name.
pub const CATEGORY_OF_SOURCE: &str = "source:";

/// Bytes of a thread's name that Linux keeps.
const MAX_THREAD_NAME: usize = 15;

/// NVTX domain and strings, registered once, since registering takes a lock inside the profiler.
struct NvtxNames {
    domain: Domain,
    stages: [(RegisteredString, Category); Stage::ALL.len()],
    batches: [(RegisteredString, Category); Level::ALL.len()],
    sources: Mutex<HashMap<String, SourceCategory>>,
}

static NVTX: LazyLock<NvtxNames> = LazyLock::new(|| {
    let domain = Domain::new(c"jetwatch");
    let mark = |name| (domain.register_string(name), domain.register_category(name));
    NvtxNames {
        stages: Stage::ALL.map(|stage| mark(stage.name())),
        batches: Level::ALL.map(|level| mark(level.batch_name())),
        domain,
        sources: Mutex::default(),
    }
});

/// The ranges of a stage: its name, the category of `source` or else of the stage, and `payload`.
pub(super) fn stage_event(stage: Stage, source: Option<SourceCategory>, payload: u64) -> Event {
    let (message, category) = NVTX.stages[stage as usize];
    Event {
        message,
        category: Some(source.map_or(category, |source| source.0)),
        payload: Some(payload),
    }
}

/// The ranges of a batch.
pub(super) fn batch_event(level: Level, payload: u64) -> Event {
    let (message, category) = NVTX.batches[level as usize];
    Event {
        message,
        category: Some(category),
        payload: Some(payload),
    }
}

/// The NVTX category of one source: ranges keep the names of their stages, so that sums by name remain sums over all sources, and
/// carry the source besides.
#[derive(Clone, Copy)]
pub struct SourceCategory(Category);

impl SourceCategory {
    /// The category `source:NAME`, registered at the first use of the name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut sources = NVTX.sources.lock();
        if let Some(known) = sources.get(name) {
            return *known;
        }
        let title = format!("{CATEGORY_OF_SOURCE}{name}");
        let category = Self(NVTX.domain.register_category(&title));
        sources.insert(name.to_owned(), category);
        category
    }
}

/// Names the calling thread on the timeline. The operating system's name is set where the thread is spawned.
pub fn name_thread(name: &str) {
    let id = rustix::thread::gettid().as_raw_nonzero().get();
    jetwatch_nvtx::name_thread(id.unsigned_abs(), name);
}

/// Names the calling thread, which another library started, on the timeline and for the operating system, which keeps the first
/// 15 bytes.
pub fn rename_thread(name: &str) {
    let kept: Vec<u8> = name
        .bytes()
        .filter(|byte| *byte != 0)
        .take(MAX_THREAD_NAME)
        .collect();
    let kept = CString::new(kept).expect("zeros were removed");
    if let Err(error) = rustix::thread::set_name(&kept) {
        log::debug!("cannot name a thread {name}: {error}");
    }
    name_thread(name);
}

/// An open range of [`push_range`].
#[must_use = "the range ends when the guard is dropped"]
pub struct OwnRange {
    _nvtx: LocalRange,
}

/// Opens a range of one's own on the timeline of the calling thread: for a program that embeds the crates, or a sink of one's own.
/// It ends when the guard is dropped, on the same thread. Ranges nest: one that is opened later must end earlier.
///
/// Profilers show it in the NVTX domain `jetwatch.own`, apart from the stages; `jetwatch report` lists it as
/// `jetwatch.own:NAME` in all tables of ranges. A name is registered once and kept: use few, without
/// numbers in them.
///
/// ```
/// use jetwatch_telemetry::push_range;
///
/// fn upload(clip: &[u8]) -> usize {
///     let _whole = push_range("upload");
///     let compressed = {
///         let _range = push_range("compress");
///         clip.len() / 2
///     };
///     compressed
/// }
///
/// assert_eq!(upload(&[0; 8]), 4);
/// ```
pub fn push_range(name: &str) -> OwnRange {
    let mut names = OWN.names.lock();
    let message = match names.get(name) {
        Some(known) => *known,
        None => {
            let registered = OWN.domain.register_string(name);
            names.insert(name.to_owned(), registered);
            registered
        }
    };
    drop(names);
    let event = Event {
        message,
        category: None,
        payload: None,
    };
    OwnRange {
        _nvtx: event.push(),
    }
}

/// Domain and names of ranges of other code.
struct OwnNames {
    domain: Domain,
    names: Mutex<HashMap<String, RegisteredString>>,
}

static OWN: LazyLock<OwnNames> = LazyLock::new(|| OwnNames {
    domain: Domain::new(c"jetwatch.own"),
    names: Mutex::default(),
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_thread_keeps_fifteen_bytes() {
        let name = std::thread::spawn(|| {
            rename_thread("front-door:video_decode");
            std::fs::read_to_string("/proc/thread-self/comm").expect("Linux has it")
        });
        assert_eq!(name.join().expect("no panic"), "front-door:vide\n");
    }
}
