//! FLOOR 1: logs, stage times with their NVTX ranges, the process's own CPU time and memory, and what systemd is told.

mod logger;
mod process;
mod pulse;
pub mod service;
mod stage;
pub mod thread_names;
mod trace;

pub use logger::{LogHome, marked_as_error, start as start_logging};
pub use process::{ProcessUsage, process_usage, thread_cpu_time};
pub use pulse::{Pulse, Pulses};
pub use stage::{BatchRange, Range, Recorder, Span, Stage, StageSummary, Summary, name_thread};
pub use trace::{Entry, Level, Trace};
