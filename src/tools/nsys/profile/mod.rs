//! FLOOR 2: profiles taken: nsys around the daemon, on this machine or on another one over the system's ssh, and their exports.
//! It knows no pipeline and reads no profile; `report` does.
//!
//! The target's side is the shell script `target.sh`, the same here and there; `remote_shell` talks to it, `run` gives the orders,
//! `nsys` decides what to trace from what that machine's nsys says of itself.

mod error;
mod export;
mod host;
mod host_info;
pub mod nsys;
mod remote_shell;
mod run;

pub use error::ProfileError;
pub use export::Exporter;
pub use host::{Host, User};
pub use host_info::HostInfo;
pub use remote_shell::CancelHandle;
pub use run::{ConfigSource, ProfileRequest, ProfileResult, ProfileRunner, ProfileTarget};
