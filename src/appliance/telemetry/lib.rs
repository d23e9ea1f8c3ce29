// SPDX-License-Identifier: Apache-2.0
//! Logs, stage times with their NVTX ranges, the process's own CPU time and memory, heartbeats and stop requests of threads, and
//! notifications to systemd.

mod error_text;
pub mod health_report;
mod heartbeat;
mod latency;
mod log_dedup;
mod logger;
mod output;
mod process;
pub mod recent_log;
mod stage;
mod stage_kind;
mod stop_token;
pub mod systemd;
pub mod thread_names;
mod timeline;
mod trace;
pub mod update_status;

pub use error_text::with_causes;
pub use heartbeat::{Heartbeat, Heartbeats};
pub use latency::{Latency, LatencyPart, LatencyReport, LatencyTimes};
pub use log_dedup::{FailureLog, LogBudget, LogDedup, LogRateLimit};
pub use logger::{
    LogTarget, TerminalGuard, set_terminal_guard, start as start_logging, with_error_prefix,
};
pub use output::{BusyTime, OutputMeter, OutputReport};
pub use process::{ProcessUsage, boot_time, open_fds, process_usage, thread_cpu_time};
pub use stage::{
    BatchRange, Range, Recorder, STAGE_BUCKETS, Section, Span, StageHistogram, StageSummary,
    Summary, thread_stage_cpu_time,
};
pub use stage_kind::Stage;
pub use stop_token::StopToken;
pub use timeline::{
    CATEGORY_OF_SOURCE, OwnRange, SourceCategory, name_thread, push_range, rename_thread,
};
pub use trace::{Entry, Level, Trace};
