//! FLOOR 1: logs, stage times with their NVTX ranges, and the process's own CPU time and memory.

mod logger;
mod process;
mod stage;

pub use logger::{LogHome, marked_as_error, start as start_logging};
pub use process::{ProcessUsage, process_usage, thread_cpu_time};
pub use stage::{Range, Recorder, Stage, StageSummary, Summary, name_thread};
