// SPDX-License-Identifier: Apache-2.0
//! Folders that no key names: where the daemon keeps things, and where models are looked for by name.

use std::env;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// What the daemon keeps under `name`, in `$JETWATCH_STATE_DIR` or in `/var/lib/jetwatch`.
pub(super) fn state_folder(name: &str) -> PathBuf {
    from_variable("JETWATCH_STATE_DIR", "/var/lib/jetwatch").join(name)
}

/// The folder that `variable` names, or `default`.
pub(super) fn from_variable(variable: &str, default: &str) -> PathBuf {
    let given = env::var_os(variable).filter(|value| !value.is_empty());
    given.map_or_else(|| default.into(), PathBuf::from)
}

/// Where this process keeps what no key names: `$JETWATCH_STATE_DIR`, or the folder that systemd gives it, or `/var/lib/jetwatch`, or `.local/state/jetwatch` in the home folder, which is made. `None`: it cannot write there.
pub fn own_state_folder() -> Option<PathBuf> {
    let is_own = |folder: &Path| rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok();
    for variable in ["JETWATCH_STATE_DIR", "STATE_DIRECTORY"] {
        if let Some(given) = env::var_os(variable).filter(|value| !value.is_empty()) {
            return Some(PathBuf::from(given)).filter(|folder| is_own(folder));
        }
    }
    let service = state_folder("");
    if is_own(&service) {
        return Some(service);
    }
    let folder = of_user("XDG_STATE_HOME", ".local/state")?;
    // What is kept here may be a secret.
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder);
    made.is_ok()
        .then_some(folder)
        .filter(|folder| is_own(folder))
}

/// Where the daemon with the configuration file `config` keeps the link of its page, the folder of the run before that of the state.
pub fn page_files(config: &Path) -> Vec<PathBuf> {
    let stem = config.file_stem().unwrap_or_default().to_string_lossy();
    let run = from_variable("JETWATCH_RUNTIME_DIR", "/run/jetwatch");
    let folders = [Some(run), own_state_folder()].into_iter().flatten();
    folders
        .map(|folder| folder.join(format!("page-{stem}.json")))
        .collect()
}

/// What the user can fetch again: `$XDG_CACHE_HOME/jetwatch`, or `.cache/jetwatch` in the home folder.
pub fn user_cache() -> Option<PathBuf> {
    of_user("XDG_CACHE_HOME", ".cache")
}

/// The folder of jetwatch in the one that `variable` names, or in `below_home`. Relative paths do not count.
pub fn of_user(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let folder = absolute(variable).or_else(|| Some(absolute("HOME")?.join(below_home)))?;
    Some(folder.join("jetwatch"))
}

/// Folders of model folders, in the order in which a name is looked for: of the working folder, the service, the package and the user.
#[must_use]
pub fn model_folders() -> Vec<PathBuf> {
    let mut folders = vec![
        PathBuf::from("models"),
        state_folder("models"),
        PathBuf::from("/usr/share/jetwatch/models"),
    ];
    folders.extend(user_cache().map(|cache| cache.join("models")));
    folders
}

/// The model folder that `name` stands for, without a `/`: `path` where it is there, else the first of that name.
pub(super) fn model_folder(name: &str, path: PathBuf) -> PathBuf {
    let is_model = |folder: &Path| folder.join("model.yaml").is_file();
    if path.exists() {
        return path;
    }
    let folders = model_folders().into_iter();
    let found = folders
        .map(|folder| folder.join(name))
        .find(|f| is_model(f));
    found.unwrap_or(path)
}
