//! The switch from one version to another, in steps that a power cut may interrupt anywhere. While a switch is pending, the state
//! names both versions and both configurations; the end of it is one write of the state.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use jetwatch_files::{PendingFile, Sha256Digest};

use super::error::io;
use super::state::{ConfigurationSwitch, Highest, Pending};
use super::{Action, BundleError, Installed, Outcome, State, Store};

/// Permissions of kept configurations: they may name users and addresses.
const KEPT_MODE: u32 = 0o600;

/// Begins a switch to `to`. With `configuration`, the file at its path is replaced by its content.
pub(crate) fn begin(
    store: &Store,
    state: &mut State,
    action: Action,
    to: Installed,
    configuration: Option<(&Path, &[u8])>,
) -> Result<(), BundleError> {
    let configuration = match configuration {
        Some((path, content)) => Some(ConfigurationSwitch {
            path: path.to_owned(),
            before: keep_present(store, path)?,
            after: keep(store, content)?,
        }),
        None => None,
    };
    store.step("configurations kept");
    state.pending = Some(Pending {
        action,
        to,
        configuration,
    });
    state.save(store)?;
    store.step("pending");
    apply_pending(store, state)?;
    store.step("switched");
    Ok(())
}

/// Ends the pending switch: the new version works. `text` goes into the history.
pub(crate) fn confirm(store: &Store, state: &mut State, text: &str) -> Result<(), BundleError> {
    let Some(pending) = state.pending.take() else {
        return Ok(());
    };
    let Pending {
        action,
        mut to,
        configuration,
    } = pending;
    state.push_history(action, Outcome::InUse, &to, text);
    // The configuration in force is now its own, until another one replaces it.
    to.configuration = None;
    let mut left = state.current.take();
    if let Some(switch) = configuration {
        match left.as_mut() {
            Some(left) => left.configuration = switch.before,
            None => state.original = state.original.or(switch.before),
        }
    }
    state.previous = left;
    if state
        .highest
        .is_none_or(|highest| highest.serial < to.serial)
    {
        state.highest = Some(Highest {
            serial: to.serial,
            sha256: to.sha256,
        });
    }
    state.current = Some(to);
    state.save(store)?;
    store.step("confirmed");
    prune(store)?;
    store.step("pruned");
    Ok(())
}

/// Ends the pending switch: everything is as before it.
pub(crate) fn abandon(
    store: &Store,
    state: &mut State,
    outcome: Outcome,
    text: &str,
) -> Result<(), BundleError> {
    let Some(pending) = state.pending.clone() else {
        return Ok(());
    };
    if let Some(switch) = &pending.configuration {
        restore_configuration(store, switch)?;
    }
    store.step("configuration restored");
    let current = state.current.as_ref().map(|version| version.sha256);
    store.set_link(&state.name, current)?;
    store.step("link restored");
    state.push_history(pending.action, outcome, &pending.to, text);
    state.pending = None;
    state.save(store)?;
    store.step("abandoned");
    prune(store)?;
    store.step("pruned");
    Ok(())
}

/// Removes what no state names.
pub(crate) fn prune(store: &Store) -> Result<(), BundleError> {
    let (mut versions, mut configurations) = (Vec::new(), Vec::new());
    for name in store.names()? {
        if let Some(state) = State::load(store, &name)? {
            let (of_state, configurations_of_state) = state.kept();
            versions.extend(of_state);
            configurations.extend(configurations_of_state);
        }
    }
    store.prune(&versions, &configurations)
}

/// The kept configuration with this digest.
pub(crate) fn kept_configuration(
    store: &Store,
    sha256: Sha256Digest,
) -> Result<Vec<u8>, BundleError> {
    let path = store.kept_configuration(sha256);
    let content = fs::read(&path).map_err(io("read", &path))?;
    match Sha256Digest::of(&content) == sha256 {
        true => Ok(content),
        false => Err(BundleError::Store {
            path,
            problem: "the kept configuration was changed".to_owned(),
        }),
    }
}

fn apply_pending(store: &Store, state: &State) -> Result<(), BundleError> {
    let Some(pending) = &state.pending else {
        return Ok(());
    };
    if let Some(switch) = &pending.configuration {
        write_configuration(store, &switch.path, switch.after)?;
    }
    store.step("configuration switched");
    store.set_link(&state.name, Some(pending.to.sha256))
}

/// Puts the configuration before the switch back, unless it is there.
fn restore_configuration(store: &Store, switch: &ConfigurationSwitch) -> Result<(), BundleError> {
    let path = &switch.path;
    match switch.before {
        Some(before) => write_configuration(store, path, before),
        None => match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(io("remove", path)(error)),
            _ => Ok(()),
        },
    }
}

/// Replaces the configuration at `path`. An existing file keeps its owner and permissions.
fn write_configuration(
    store: &Store,
    path: &Path,
    sha256: Sha256Digest,
) -> Result<(), BundleError> {
    let content = kept_configuration(store, sha256)?;
    let old = match fs::metadata(path) {
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(io("read", path)(error)),
    };
    if old.is_some() && fs::read(path).is_ok_and(|present| present == content) {
        return Ok(());
    }
    let mut pending = PendingFile::create(path)?;
    let file = pending.file();
    file.write_all(&content).map_err(io("write", path))?;
    if let Some(old) = old {
        let (uid, gid) = (Some(old.uid()), Some(old.gid()));
        std::os::unix::fs::fchown(&*file, uid, gid).map_err(io("set the owner of", path))?;
        file.set_permissions(old.permissions())
            .map_err(io("set the permissions of", path))?;
    }
    Ok(pending.commit()?)
}

/// Keeps the content of the file at `path`; `None`: there is no file.
fn keep_present(store: &Store, path: &Path) -> Result<Option<Sha256Digest>, BundleError> {
    match fs::read(path) {
        Ok(content) => keep(store, &content).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io("read", path)(error)),
    }
}

fn keep(store: &Store, content: &[u8]) -> Result<Sha256Digest, BundleError> {
    let sha256 = Sha256Digest::of(content);
    let path = store.kept_configuration(sha256);
    jetwatch_files::write_with(&path, |file| {
        file.set_permissions(Permissions::from_mode(KEPT_MODE))?;
        file.write_all(content)
    })?;
    Ok(sha256)
}
