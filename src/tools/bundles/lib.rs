//! Signed bundles of model folders and a configuration: how they are packed, verified, stored, switched and rolled back.
//!
//! A bundle is a tar archive with a detached signature of minisign over all of its bytes. It is copied into a temporary folder of the
//! store and verified there; only then is it unpacked, against the list of files in its manifest (`stage`). A [`Gate`] judges the
//! candidate before anything changes, a [`Service`] is watched after the switch, and what does not work is rolled back
//! ([`install`], [`rollback`]). After a power cut, [`recover`] ends an interrupted switch.
//!
//! This crate opens no network and knows no detector and no daemon: the program hands both in. Called by `jetwatch model`.

mod error;
mod keys;
mod manifest;
mod names;
mod operate;
mod pack;
mod signature;
mod stage;
mod state;
mod store;
mod switch;
#[cfg(test)]
mod test_attacks;
#[cfg(test)]
mod test_bundles;
#[cfg(test)]
mod test_operations;
#[cfg(test)]
mod test_power_cuts;
mod unpack;
mod watch;

pub use error::BundleError;
pub use keys::TrustedKeys;
pub use manifest::{BundledFile, BundledModel, CONFIGURATION, Manifest, ProgramVersion};
pub use names::BundleName;
pub use operate::{
    Candidate, Gate, InstallOptions, Installation, SwitchOptions, install, recover, rollback,
};
pub use pack::{PackOptions, Packed, pack};
pub use state::{Action, Highest, HistoryEntry, Installed, Outcome, State};
pub use store::Store;
pub use watch::{Health, Service, SourceCount, WatchLimits};
