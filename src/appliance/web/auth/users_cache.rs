// SPDX-License-Identifier: Apache-2.0
//! The users of a file, for the running daemon: read again when the file changes, and looked at once a second at most.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::users::{UserError, Users};

/// Shortest time between two looks at the file.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The users of a file, read again when it changes.
#[derive(Debug)]
pub(in super::super) struct UsersCache {
    path: PathBuf,
    state: Mutex<Cached>,
}

#[derive(Debug)]
struct Cached {
    users: Arc<Users>,
    checked: Instant,
    version: Option<(i64, i64, u64, u64)>,
}

impl UsersCache {
    /// The users of the file at `path`. Where the first one `may_be_made` by the page, the file may be missing, but not its folder.
    ///
    /// # Errors
    /// Those of [`Users::load`], or it has no user.
    pub(in super::super) fn open(path: &Path, may_be_made: bool) -> Result<Self, UserError> {
        let version = version(path);
        let has_folder = path.parent().is_some_and(Path::is_dir);
        let users = match may_be_made && has_folder {
            true => Users::load_or_new(path)?,
            false => Users::load(path)?,
        };
        if users.users().is_empty() && !may_be_made {
            let path = path.to_owned();
            return Err(UserError::Empty { path });
        }
        Ok(Self {
            path: path.to_owned(),
            state: Mutex::new(Cached {
                users: Arc::new(users),
                checked: Instant::now(),
                version,
            }),
        })
    }

    /// The users of now, at most a second old. A file that cannot be used any more has none.
    pub(in super::super) fn users(&self) -> Arc<Users> {
        let mut state = self.state.lock();
        if state.checked.elapsed() >= CHECK_INTERVAL {
            state.checked = Instant::now();
            let version = version(&self.path);
            if version != state.version {
                state.version = version;
                state.users = Arc::new(Users::load(&self.path).unwrap_or_else(|error| {
                    log::warn!("web.users_file: {error}; no one can log in meanwhile");
                    Users::default()
                }));
            }
        }
        Arc::clone(&state.users)
    }

    /// Changes the file; what follows sees it at once.
    ///
    /// # Errors
    /// Those of [`Users::change`].
    pub(in super::super) fn change(
        &self,
        change: impl FnOnce(&mut Users) -> Result<(), UserError>,
    ) -> Result<(), UserError> {
        let mut state = self.state.lock();
        let changed = Users::change(&self.path, |users| {
            change(users)?;
            Ok::<_, UserError>(users.clone())
        })?;
        state.checked = Instant::now();
        state.version = version(&self.path);
        state.users = Arc::new(changed);
        Ok(())
    }
}

/// What changes with each write of the file.
fn version(path: &Path) -> Option<(i64, i64, u64, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((
        metadata.ctime(),
        metadata.ctime_nsec(),
        metadata.ino(),
        metadata.len(),
    ))
}
