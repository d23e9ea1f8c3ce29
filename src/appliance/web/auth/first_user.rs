// SPDX-License-Identifier: Apache-2.0
//! The link by which the first user is made: once, and until this process ends.
//!
//! Who can read the file with it, or the log, runs the daemon or is root. Requests have the secret in their body only: the link has it
//! behind the `#`, which browsers do not send.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::random_hex;
use jetwatch_files::{OFlags, Sha256Digest, WriteError};

/// Largest file of a link that is read, in bytes.
const MAX_FILE_BYTES: u64 = 4096;

/// The address of a running page, in a file that its owner alone may read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageLink {
    /// The address of the page.
    pub url: String,
    /// The link by which the first user is made; `None`: there is one.
    pub first_user: Option<String>,
    /// The process of the daemon.
    pub pid: u32,
}

impl PageLink {
    /// Reads the file at `path`; `None`: there is none, or no daemon runs that has written it.
    ///
    /// # Errors
    /// It cannot be read, or it is no such file.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        let file = match jetwatch_files::open_own(path, OFlags::RDONLY) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = String::new();
        file.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
        let link: Self = serde_json::from_str(&text)?;
        let is_running = Path::new(&format!("/proc/{}", link.pid)).exists();
        Ok(is_running.then_some(link))
    }

    fn write(&self, path: &Path) -> Result<(), WriteError> {
        jetwatch_files::write_with(path, |file| {
            file.set_permissions(Permissions::from_mode(0o600))?;
            serde_json::to_writer(&*file, self)?;
            file.write_all(b"\n")
        })
    }
}

/// Whether the first user may be made, and the file with the link.
#[derive(Debug)]
pub(in super::super) struct FirstUser {
    /// Digest of the secret; `None`: there is a user.
    secret: Mutex<Option<Sha256Digest>>,
    file: Option<(PathBuf, PageLink)>,
}

impl FirstUser {
    /// For the page at `url`, with a link where it `has_users` not. The link is logged, and written to the first of `files` that can be
    /// written.
    pub(in super::super) fn of_page(url: &str, has_users: bool, files: &[PathBuf]) -> Self {
        let secret = (!has_users).then(random_hex::<32>);
        let link = PageLink {
            url: url.to_owned(),
            first_user: secret
                .as_ref()
                .map(|secret| format!("{url}first.html#{secret}")),
            pid: std::process::id(),
        };
        if let Some(link) = &link.first_user {
            log::info!(
                "the page has no user yet; make the first one by this link, which holds once: {link}"
            );
        }
        let written = files.iter().find(|file| link.write(file).is_ok());
        Self {
            secret: Mutex::new(secret.map(|secret| Sha256Digest::of(secret.as_bytes()))),
            file: written.map(|file| (file.clone(), link)),
        }
    }

    /// Whether the first user may be made.
    pub(in super::super) fn is_open(&self) -> bool {
        self.secret.lock().is_some()
    }

    /// Whether `secret` is that of the link.
    pub(in super::super) fn admits(&self, secret: &str) -> bool {
        // Digests: a client cannot control where they differ first.
        *self.secret.lock() == Some(Sha256Digest::of(secret.as_bytes()))
    }

    /// There is a user: the link does not hold any more.
    pub(in super::super) fn close(&self) {
        if self.secret.lock().take().is_none() {
            return;
        }
        if let Some((path, link)) = &self.file {
            let link = PageLink {
                first_user: None,
                ..link.clone()
            };
            if let Err(error) = link.write(path) {
                log::warn!("{error}");
            }
        }
    }
}

impl Drop for FirstUser {
    fn drop(&mut self) {
        if let Some((path, _)) = &self.file {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_is_in_a_file_of_its_owner_until_there_is_a_user() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("page.json");
        let files = [PathBuf::from("/nonexistent/page.json"), path.clone()];
        let first = FirstUser::of_page("http://127.0.0.1:1/", false, &files);
        let mode = fs::metadata(&path).expect("written").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let link = PageLink::read(&path).expect("its own").expect("it runs");
        let link = link.first_user.expect("no user yet");
        let secret = link.strip_prefix("http://127.0.0.1:1/first.html#");
        let secret = secret.expect("a link");
        assert_eq!(secret.len(), 64);
        assert!(first.is_open() && first.admits(secret));
        assert!(!first.admits("") && !first.admits(&secret[1..]));
        first.close();
        assert!(!first.is_open() && !first.admits(secret));
        let left = PageLink::read(&path).expect("its own").expect("it runs");
        assert_eq!(left.first_user, None);
        drop(first);
        assert_eq!(PageLink::read(&path).expect("none"), None);
    }

    #[test]
    fn each_start_has_its_own_link_and_users_need_none() {
        let [one, other] = [(); 2].map(|()| FirstUser::of_page("http://a/", false, &[]));
        assert_ne!(*one.secret.lock(), *other.secret.lock());
        let users = FirstUser::of_page("http://a/", true, &[]);
        assert!(!users.is_open() && !users.admits(""));
    }
}
