// SPDX-License-Identifier: Apache-2.0
//! Records profiles: runs the daemon under nsys, on this machine or on another one over the system's ssh, and exports them.
//! It does not depend on the pipeline and reads no profile; `report` does.
//!
//! The shell script `target.sh` runs on the target, local or remote; `remote_shell` is the connection to it, `run`
//! sends the commands, `nsys` decides what to trace from the version and help text of the target's nsys.

mod error;
mod export;
mod host;
mod host_info;
pub mod nsys;
mod remote_shell;
mod run;

pub use error::ProfileError;
use error::Result;
pub use export::Exporter;
pub use host::{Host, User};
pub use host_info::HostInfo;
pub use remote_shell::CancelHandle;
pub use run::{ConfigSource, ProfileRequest, ProfileResult, ProfileRunner, ProfileTarget};
