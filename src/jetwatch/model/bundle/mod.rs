//! Signed bundles: packed by their publisher, installed and rolled back on the box.

mod arguments;
mod gate;
pub(crate) mod history;
pub(crate) mod install;
pub(crate) mod pack;
pub(crate) mod prove;
pub(crate) mod recover;
pub(crate) mod rollback;
mod service;

pub(super) use arguments::{HistoryArgs, InstallArgs, PackArgs, RecoverArgs, RollbackArgs};
