//! Install, rollback and recovery, from the first check to the last.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::error::io;
use super::manifest::{CONFIGURATION, Manifest, ProgramVersion};
use super::stage::stage;
use super::switch::{abandon, begin, confirm, kept_configuration, prune};
use super::watch::{Rates, WatchLimits, measure, watch};
use super::{
    Action, BundleError, BundleName, Installed, Outcome, Service, State, Store, TrustedKeys,
};

/// A version that may be switched to.
#[derive(Debug)]
pub struct Candidate<'a> {
    /// The folder with its files.
    pub folder: &'a Path,
    /// What it holds.
    pub manifest: &'a Manifest,
    /// The configuration that it brings; `None`: the present one stays.
    pub configuration: Option<PathBuf>,
}

/// Judges a version before anything is switched.
pub trait Gate {
    /// Proves the candidate: the results in words.
    ///
    /// # Errors
    /// Why it may not be switched to, in words.
    fn check(&self, candidate: &Candidate<'_>) -> Result<Vec<String>, String>;
}

/// How a switch is done.
#[derive(Debug, Clone)]
pub struct SwitchOptions {
    /// The daemon's configuration, which a bundle may replace.
    pub configuration: PathBuf,
    /// How the daemon is watched afterwards; `None`: the switch is made while no daemon runs, and is not watched.
    pub watch: Option<WatchLimits>,
}

/// How a bundle is installed.
#[derive(Debug)]
pub struct InstallOptions {
    /// The bundle.
    pub bundle: PathBuf,
    /// Its signature; `None`: next to it.
    pub signature: Option<PathBuf>,
    /// The keys that may have signed it.
    pub keys: TrustedKeys,
    /// How the switch is done.
    pub switch: SwitchOptions,
    /// Version of this program.
    pub program: ProgramVersion,
    /// Accept a serial number below the highest one.
    pub allow_downgrade: bool,
}

/// A version that was installed.
#[derive(Debug, PartialEq, Eq)]
pub enum Installation {
    /// It was in use already; nothing was changed.
    Unchanged,
    /// It is in use. What was measured, in words.
    Done(String),
}

/// Installs a bundle: verifies and checks it, has it judged by `gate`, switches, restarts and watches `service`, and rolls back what does not
/// work. `on_step` is called with what happens, in words.
///
/// # Errors
/// The bundle is not signed, not valid or may not be installed, the gate refuses it, the disk fails, or the daemon does not work with it and runs with the version
/// before.
pub fn install(
    store: &Store,
    gate: &dyn Gate,
    service: &mut dyn Service,
    options: &InstallOptions,
    on_step: &mut dyn FnMut(&str),
) -> Result<Installation, BundleError> {
    recover(store, on_step)?;
    let signature = options.signature.as_deref();
    let staged = stage(store, &options.bundle, signature, &options.keys)?;
    let manifest = staged.manifest.clone();
    let name = &manifest.name;
    on_step(&format!(
        "{name} {}: signed by {} ({})",
        manifest.serial, staged.key, staged.comment
    ));
    let mut state = State::load(store, name)?.unwrap_or_else(|| State::new(name));
    let to = Installed {
        serial: manifest.serial,
        sha256: staged.sha256,
        configuration: None,
    };
    if is_current(&state, &to) && store.check_version(to.sha256).is_ok() {
        return Ok(Installation::Unchanged);
    }
    let highest = state.highest.map(|highest| highest.serial);
    manifest.check_installable(
        Timestamp::now(),
        options.program,
        highest,
        options.allow_downgrade,
    )?;
    let refused = |reason: String| BundleError::Refused {
        name: name.clone(),
        serial: to.serial,
        reason,
    };
    if let Some(highest) = state.highest
        && highest.serial == to.serial
        && highest.sha256 != to.sha256
        && !options.allow_downgrade
    {
        return Err(refused(format!(
            "another bundle with the serial number {} was installed: each version needs a higher one",
            to.serial
        )));
    }
    let content = staged.content();
    let brought = content.join(CONFIGURATION);
    let brought = manifest.has_configuration().then_some(brought);
    let judged = gate.check(&Candidate {
        folder: &content,
        manifest: &manifest,
        configuration: brought.clone(),
    });
    match judged {
        Ok(results) => results.iter().for_each(|text| on_step(text)),
        Err(reason) => {
            state.push_history(Action::Install, Outcome::Refused, &to, &reason);
            state.save(store)?;
            return Err(refused(reason));
        }
    }
    let configuration = match &brought {
        Some(path) => Some(fs::read(path).map_err(io("read", path))?),
        None => None,
    };
    store.step("judged");
    store.add_version(&content, to.sha256)?;
    store.step("added");
    drop(staged);
    let switch = Switch {
        store,
        options: &options.switch,
        action: Action::Install,
        to,
        configuration,
    };
    switch
        .run(&mut state, service, on_step)
        .map(Installation::Done)
}

/// Switches to the version before the one in use, and watches the daemon as [`install`] does. The highest serial number stays.
///
/// # Errors
/// There is no such version, it is damaged, the disk fails, or the daemon does not work with it and runs with the version that was in
/// use.
pub fn rollback(
    store: &Store,
    name: &BundleName,
    service: &mut dyn Service,
    options: &SwitchOptions,
    on_step: &mut dyn FnMut(&str),
) -> Result<String, BundleError> {
    recover(store, on_step)?;
    let Some(mut state) = State::load(store, name)? else {
        return Err(BundleError::NotInstalled { name: name.clone() });
    };
    let Some(to) = state.previous.clone() else {
        return Err(BundleError::NoPrevious { name: name.clone() });
    };
    store.check_version(to.sha256)?;
    let configuration = match to.configuration {
        Some(kept) => Some(kept_configuration(store, kept)?),
        None => None,
    };
    let switch = Switch {
        store,
        options,
        action: Action::Rollback,
        to,
        configuration,
    };
    switch.run(&mut state, service, on_step)
}

/// Ends every switch that was interrupted, by a power cut or a kill: the version before it is in use again. Removes temporary files.
/// `on_step` is called with what was done, in words.
///
/// # Errors
/// The store cannot be read or written.
pub fn recover(store: &Store, on_step: &mut dyn FnMut(&str)) -> Result<(), BundleError> {
    for name in store.names()? {
        let Some(mut state) = State::load(store, &name)? else {
            continue;
        };
        if let Some(serial) = state.pending.as_ref().map(|pending| pending.to.serial) {
            let text = "the switch was interrupted before the version had proven itself";
            abandon(store, &mut state, Outcome::Interrupted, text)?;
            let now = state.current.as_ref().map(|version| version.serial);
            let now = now.map_or("no version".to_owned(), |serial| {
                format!("version {serial}")
            });
            on_step(&format!("{name} {serial}: {text}; {now} is in use"));
        }
        let current = state.current.as_ref().map(|version| version.sha256);
        store.set_link(&name, current)?;
    }
    prune(store)
}

fn is_current(state: &State, version: &Installed) -> bool {
    let current = state.current.as_ref();
    current.is_some_and(|current| current.sha256 == version.sha256)
}

/// A switch with all that it needs.
struct Switch<'a> {
    store: &'a Store,
    options: &'a SwitchOptions,
    action: Action,
    to: Installed,
    configuration: Option<Vec<u8>>,
}

impl Switch<'_> {
    /// Switches, watches, and confirms or goes back; what was measured, in words.
    fn run(
        self,
        state: &mut State,
        service: &mut dyn Service,
        on_step: &mut dyn FnMut(&str),
    ) -> Result<String, BundleError> {
        let Self { store, to, .. } = &self;
        let (name, serial) = (state.name.clone(), to.serial);
        let limits = self.options.watch;
        let before = limits.and_then(|limits| measure(service, limits.before));
        let path = self.options.configuration.as_path();
        let configuration = self.configuration.as_deref();
        let configuration = configuration.map(|content| (path, content));
        if let Err(error) = begin(store, state, self.action, to.clone(), configuration) {
            // The disk, which may be full: what was written is taken back now as far as it can be, else by the next recovery.
            if let Err(error) = abandon(store, state, Outcome::Interrupted, "the disk failed") {
                log::error!(bundle = name.as_str(), serial; "{error}");
            }
            return Err(error);
        }
        on_step(&format!("{name} {serial}: switched"));
        let Some(limits) = limits else {
            let text = "not watched";
            confirm(store, state, text)?;
            return Ok(text.to_owned());
        };
        let reason = match restart_and_watch(service, before.as_ref(), &limits) {
            Ok(text) => {
                confirm(store, state, &text)?;
                return Ok(text);
            }
            Err(reason) => reason,
        };
        on_step(&format!("{name} {serial}: rolling back: {reason}"));
        log::error!(bundle = name.as_str(), serial; "rolling back: {reason}");
        let abandoned = abandon(store, state, Outcome::RolledBack, &reason);
        // Nothing was running before: nothing is expected to run now.
        let after = match before {
            Some(_) => {
                let limits = WatchLimits {
                    period: limits.before,
                    ..limits
                };
                restart_and_watch(service, None, &limits).map(drop)
            }
            None => service.restart(),
        };
        abandoned?;
        Err(match after {
            Ok(()) => BundleError::RolledBack {
                name,
                serial,
                reason,
            },
            Err(after) => BundleError::DownAfterRollback {
                name,
                serial,
                reason,
                after,
            },
        })
    }
}

/// Restarts the daemon and watches it; what was measured, in words.
fn restart_and_watch(
    service: &mut dyn Service,
    before: Option<&Rates>,
    limits: &WatchLimits,
) -> Result<String, String> {
    let old_run = service.health().ok().flatten().map(|health| health.run);
    service.restart()?;
    watch(service, before, old_run, limits)
}
