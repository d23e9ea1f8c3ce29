// SPDX-License-Identifier: Apache-2.0
//! A profile in memory: ranges, CUDA calls, GPU operations, and waits in the operating system's libraries.
//!
//! Rows are small and flat, names are numbers into one list: ten million of them fit where the database's own pages would
//! not. `read` fills it; the tables next to it only look.

pub(in crate::report) mod fields;
mod names;
mod read;
mod time_window;

use foldhash::HashMap;
use jetwatch_telemetry::Stage;

pub use read::Progress;
pub(super) use read::read;
pub(super) use time_window::find_range;
pub use time_window::{TimeWindow, parse_time};

/// One profile.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    /// Title: the file name.
    pub title: String,
    /// The version of the nsys that exported it, as text.
    pub version: String,
    /// Whether calls of the operating system's libraries were traced.
    pub has_waits: bool,
    /// The command that ran what was profiled, if it is known.
    pub command: Option<String>,
    /// All names.
    pub names: Vec<String>,
    /// Of each name the stage of jetwatch whose ranges have it.
    pub stages: Vec<Option<Stage>>,
    /// Threads in the order of their first event.
    pub threads: Vec<Thread>,
    /// Names of threads in the operating system, by nsys's numbers; also of threads without events.
    pub system_names: HashMap<i64, String>,
    /// Streams that operations ran on.
    pub streams: Vec<Stream>,
    /// Sources that ranges belong to, by [`Range::source`]; the first one stands for none and has no name.
    pub sources: Vec<String>,
    /// NVTX ranges in the order of the database.
    pub ranges: Vec<Range>,
    /// Calls of CUDA, by thread and begin.
    pub calls: Vec<Call>,
    /// GPU operations in the order of the database, kernels first, then copies, sets and graphs.
    pub operations: Vec<Operation>,
    /// Details of kernels: grid and block, each pair once.
    pub launches: Vec<Launch>,
    /// Details of copies and sets.
    pub transfers: Vec<Transfer>,
    /// Calls of the operating system's libraries, by thread and begin.
    pub waits: Vec<Call>,
}

/// Number of a name in [`Capture::names`].
pub(crate) type Name = u32;

/// Number of a thread in [`Capture::threads`].
pub(crate) type ThreadIndex = u16;

/// One thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Thread {
    /// Machine, process and thread in one number, as nsys has it.
    pub global: i64,
    /// Name from NVTX, else from the operating system.
    pub name: Option<String>,
}

impl Thread {
    /// Machine and process.
    pub(crate) const fn global_process(&self) -> i64 {
        self.global & !0x00ff_ffff
    }

    /// Process id.
    pub(crate) const fn process(&self) -> i64 {
        (self.global >> 24) & 0x00ff_ffff
    }

    /// Thread id.
    pub(crate) const fn number(&self) -> i64 {
        self.global & 0x00ff_ffff
    }

    /// Name, or the thread id without a name.
    pub(crate) fn title(&self) -> String {
        match &self.name {
            Some(name) => name.clone(),
            None => format!("thread {}", self.number()),
        }
    }
}

/// How a range was opened and closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Style {
    /// On a stack of its thread.
    PushPop,
    /// By a handle.
    StartEnd,
    /// By a handle, and it ended on another thread.
    CrossThread,
}

impl Style {
    /// Name in the tables of nsys.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::PushPop => "PushPop",
            Self::StartEnd | Self::CrossThread => "StartEnd",
        }
    }
}

/// One NVTX range. Times are in ns from the capture's start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    /// Begin.
    pub start: i64,
    /// End; that of the capture's last event for a range that was still open.
    pub end: i64,
    /// Domain and text.
    pub name: Name,
    /// Its row in the database.
    pub row: u32,
    /// Its payload, as far as it is a whole number: for jetwatch's stages the number of frames, or a frame's number.
    pub payload: u32,
    /// The thread that opened it.
    pub thread: ThreadIndex,
    /// How it was opened and closed.
    pub style: Style,
    /// Index in [`Capture::sources`]; 0: of none.
    pub source: u8,
}

/// One call of the CUDA runtime or driver, or of the operating system's libraries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    /// Begin, in ns.
    pub start: i64,
    /// End, in ns.
    pub end: i64,
    /// The function, with the suffix of its version.
    pub name: Name,
    /// Correlation id of its GPU operations; zero: none.
    pub correlation: u32,
    /// The calling thread.
    pub thread: ThreadIndex,
}

/// What a call belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum CallKind {
    /// CUDA.
    Cuda,
    /// The operating system's libraries.
    System,
}

/// Kind of a GPU operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Ran a kernel; `detail` is a [`Launch`].
    Kernel,
    /// Copied; `detail` is a [`Transfer`].
    Copy,
    /// Set memory; `detail` is a [`Transfer`].
    Set,
    /// Ran a whole graph.
    Graph,
}

/// One GPU operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    /// Begin, in ns.
    pub start: i64,
    /// End, in ns.
    pub end: i64,
    /// Correlation id of its call.
    pub correlation: u32,
    /// The kernel's name; for others their kind.
    pub name: Name,
    /// Index of its detail.
    pub detail: u32,
    /// Index in [`Capture::streams`].
    pub stream: u16,
    /// Kind of operation.
    pub kind: Kind,
}

/// A CUDA stream: where operations run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Stream {
    /// Its process as nsys numbers it: machine and process, the thread's bits zero; `None` if the export does not contain it.
    pub process: Option<i64>,
    /// The GPU.
    pub device: i64,
    /// Stream id.
    pub number: i64,
}

impl Stream {
    /// Its process's number; zero if the export does not contain it.
    pub(crate) fn process_number(&self) -> i64 {
        let process = self.process.unwrap_or(0);
        (process >> 24) & 0x00ff_ffff
    }
}

/// Grid and block of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Launch {
    /// Blocks in x, y, z.
    pub grid: [i32; 3],
    /// Threads of a block in x, y, z.
    pub block: [i32; 3],
}

/// Size and ends of a copy or a set. Kinds are CUPTI's numbers, -1 where unknown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transfer {
    /// Bytes.
    pub bytes: i64,
    /// From where to where; -1 for a set.
    pub direction: i8,
    /// Kind of the memory that is read.
    pub source: i8,
    /// Kind of the memory that is written.
    pub target: i8,
    /// Whether both ends are on one and the same GPU.
    pub within_device: bool,
    /// The CUDA context.
    pub context: u32,
}

/// The length of events, in ns.
macro_rules! durations {
    ($($event:ty)*) => {$(
        impl $event {
            /// Its length, in ns.
            pub(crate) const fn duration(&self) -> i64 {
                self.end - self.start
            }
        }
    )*};
}

pub(crate) use durations;

durations! { Range Call Operation }

impl Capture {
    /// The thread with this number.
    pub(crate) fn thread(&self, index: ThreadIndex) -> &Thread {
        &self.threads[usize::from(index)]
    }

    /// The stream that an operation ran on.
    pub(crate) fn stream(&self, done: &Operation) -> &Stream {
        &self.streams[usize::from(done.stream)]
    }

    /// The text of a name.
    pub(crate) fn name(&self, name: Name) -> &str {
        &self.names[name as usize]
    }

    /// Of each name whether it fits.
    pub(crate) fn names_that(&self, fits: impl Fn(&str) -> bool) -> Vec<bool> {
        self.names.iter().map(|name| fits(name)).collect()
    }

    /// The stage that a range is of.
    pub(crate) fn stage(&self, range: &Range) -> Option<Stage> {
        self.stages[range.name as usize]
    }

    /// Whether it has stages of jetwatch.
    pub(crate) fn is_ours(&self) -> bool {
        self.stages.iter().any(Option::is_some)
    }

    /// First begin and last end of all events, in ns; `None` without events.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        let ranges = self.ranges.iter().map(|range| (range.start, range.end));
        let calls = self.calls.iter().map(|call| (call.start, call.end));
        let operations = self.operations.iter().map(|done| (done.start, done.end));
        let all = ranges.chain(calls).chain(operations);
        all.reduce(|(start, end), (first, last)| (start.min(first), end.max(last)))
    }

    /// The calls of a kind by a thread, by begin.
    pub(crate) fn calls_of(&self, kind: CallKind, thread: ThreadIndex) -> &[Call] {
        let calls = match kind {
            CallKind::Cuda => &self.calls,
            CallKind::System => &self.waits,
        };
        let first = calls.partition_point(|call| call.thread < thread);
        let end = calls.partition_point(|call| call.thread <= thread);
        &calls[first..end]
    }

    /// The calls of a thread that are in no other, by begin.
    pub(crate) fn outermost_calls(
        &self,
        thread: ThreadIndex,
    ) -> impl Iterator<Item = (CallKind, &Call)> {
        let [mut cuda, mut system] = [CallKind::Cuda, CallKind::System].map(|kind| {
            let calls = self.calls_of(kind, thread).iter();
            calls.map(move |call| (kind, call)).peekable()
        });
        // Of two that begin together, the longer one is around the other.
        let order = |(_, call): &(CallKind, &Call)| (call.start, -call.end);
        let all = std::iter::from_fn(move || match (cuda.peek(), system.peek()) {
            (Some(a), Some(b)) if order(a) <= order(b) => cuda.next(),
            (_, Some(_)) => system.next(),
            _ => cuda.next(),
        });
        let mut end = i64::MIN;
        all.filter(move |(_, call)| {
            let is_outermost = call.start >= end;
            if is_outermost {
                end = call.end;
            }
            is_outermost
        })
    }
}
