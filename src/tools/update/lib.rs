// SPDX-License-Identifier: Apache-2.0
//! Updates of the program and of models as packages of a signed apt repository. The present version is kept, the new one checks the
//! present configuration and its models, is installed, and has to become healthy; else the kept version is installed again.
//!
//! ```text
//! refresh ─► keep ─► fetch ─► check ─► install ─► verify ─► commit
//!                                         └──────────┴────► roll back
//! ```
//!
//! [`Updater`] decides, over the boundary [`System`]; [`Debian`] is apt, dpkg and systemd. Each step is in the [`Journal`] on disk
//! before it begins, so that [`Updater::resume`] ends what a kill or a power cut has interrupted with one of the two versions.
//!
//! The folder belongs to root alone: the daemon's user must not name the package that root installs.

mod command;
mod debian;
mod error;
mod gate;
mod journal;
mod process_tree;
mod store;
mod system;
#[cfg(test)]
mod tests;
mod updater;

pub use debian::{Debian, INSTALL_LIMIT, PACKAGES, Repository};
pub use error::UpdateError;
pub use gate::{Gate, Rates, UnitBaseline};
pub use journal::{Change, Journal, KeptPackage, Step};
pub use store::Store;
pub use system::{DaemonState, Installed, System};
pub use updater::{InstallRequest, Outcome, Updater};

/// Whether this process is root.
///
/// # Errors
/// It is not.
pub fn require_root() -> Result<(), UpdateError> {
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err(UpdateError::NotRoot),
    }
}
