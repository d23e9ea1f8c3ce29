// SPDX-License-Identifier: Apache-2.0
//! Links to one picture or video, which hold without a log-in until they expire. There is no table of them: a link is the path of the item,
//! the time until which it holds, and a signature over both. A new key ends all links.

use std::fs::Permissions;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use parking_lot::Mutex;
use sha2::Sha256;

use super::random_hex;
use jetwatch_files::{OFlags, Sha256Digest, WriteError};

/// What a link ends with, before and behind its time.
const UNTIL: &str = "until=";
const KEY: &str = "&key=";

/// A link as a request shows it. Its parts are what the client says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Link {
    /// Path and query before the signature.
    signed: String,
    signature: Option<Sha256Digest>,
    /// Seconds of Unix time.
    until: u64,
}

/// What a link is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum LinkState {
    Valid,
    /// It held until this time.
    Expired(SystemTime),
    /// It was changed, or all links were revoked since.
    Invalid,
}

impl Link {
    /// The link that a request shows; `None`: it shows none.
    pub(in super::super) fn of(path: &str, query: &str) -> Option<Self> {
        let (before, signature) = query.rsplit_once(KEY)?;
        // The last one counts: it is the one that was added to what the user asked for.
        let (_, until) = before.rsplit_once(UNTIL)?;
        Some(Self {
            signed: format!("{path}?{before}"),
            signature: signature.parse().ok(),
            until: until.parse().ok()?,
        })
    }
}

/// Signs links, and checks them.
#[derive(Debug)]
pub(in super::super) struct ShareLinks {
    /// The file of the key; `None`: there is no folder for it.
    path: Option<PathBuf>,
    key: Mutex<Option<String>>,
}

impl ShareLinks {
    /// With the key of the file at `path`, which is made when the first link is.
    pub(in super::super) fn open(path: Option<PathBuf>) -> Self {
        let read = path.as_deref().map(read_key).transpose();
        let key = read.unwrap_or_else(|error| {
            let path = path.as_deref().unwrap_or(Path::new("")).display();
            log::warn!("web: {path}: {error}; links of before do not hold");
            None
        });
        Self {
            path,
            key: Mutex::new(key.flatten()),
        }
    }

    /// The query of a link to `path`, with its `query`, which holds until `until`. May write a file.
    ///
    /// # Errors
    /// The key cannot be written.
    pub(in super::super) fn sign(
        &self,
        path: &str,
        query: &str,
        until: SystemTime,
    ) -> Result<String, WriteError> {
        let mut key = self.key.lock();
        let key = match &*key {
            Some(key) => key,
            None => key.insert(self.new_key()?),
        };
        let joint = if query.is_empty() { "" } else { "&" };
        let until = until.duration_since(UNIX_EPOCH).unwrap_or_default();
        let query = format!("{query}{joint}{UNTIL}{}", until.as_secs());
        let signature = signature(key, &format!("{path}?{query}")).finalize();
        let signature = Sha256Digest::from(<[u8; 32]>::from(signature.into_bytes()));
        Ok(format!("{query}{KEY}{signature}"))
    }

    /// What `link` is worth at `now`.
    pub(in super::super) fn state(&self, link: &Link, now: SystemTime) -> LinkState {
        let key = self.key.lock();
        let (Some(key), Some(shown)) = (&*key, link.signature) else {
            return LinkState::Invalid;
        };
        // In constant time.
        if signature(key, &link.signed)
            .verify(&<[u8; 32]>::from(shown).into())
            .is_err()
        {
            return LinkState::Invalid;
        }
        let until = UNIX_EPOCH + Duration::from_secs(link.until);
        match now < until {
            true => LinkState::Valid,
            false => LinkState::Expired(until),
        }
    }

    /// Ends all links: a new key is written.
    ///
    /// # Errors
    /// The key cannot be written; the links hold.
    pub(in super::super) fn revoke(&self) -> Result<(), WriteError> {
        let mut key = self.key.lock();
        *key = Some(self.new_key()?);
        Ok(())
    }

    fn new_key(&self) -> Result<String, WriteError> {
        let key = random_hex::<32>();
        let path = self.path.as_deref().unwrap_or(Path::new(""));
        jetwatch_files::write_with(path, |file| {
            file.set_permissions(Permissions::from_mode(0o600))?;
            writeln!(file, "{key}")
        })?;
        Ok(key)
    }
}

fn signature(key: &str, text: &str) -> Hmac<Sha256> {
    let mut mac = Hmac::new_from_slice(key.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    mac
}

/// The key of a file; `None`: there is none yet.
fn read_key(path: &Path) -> io::Result<Option<String>> {
    let file = match jetwatch_files::open_own(path, OFlags::RDONLY) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mode = file.metadata()?.permissions().mode();
    let mut key = String::new();
    file.take(128).read_to_string(&mut key)?;
    let key = key.trim_end();
    if mode & 0o077 != 0 || key.parse::<Sha256Digest>().is_err() {
        let reason = "it may be read by others, or is not 64 hexadecimal digits";
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    Ok(Some(key.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PATH: &str = "/api/media/a/clip.mp4";

    #[test]
    fn link_gives_its_item_until_it_expires_or_all_are_revoked() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("share.key");
        let links = ShareLinks::open(Some(file.clone()));
        assert!(!file.exists(), "no link was made");
        let now = SystemTime::now();
        let until = now + Duration::from_secs(60);
        let query = links.sign(PATH, "", until).expect("a key");
        let mode = fs::metadata(&file).expect("written").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let state = |links: &ShareLinks, path, query: &str, now| {
            Link::of(path, query).map(|link| links.state(&link, now))
        };
        let at = |path, query: &str| state(&links, path, query, now);
        assert_eq!(at(PATH, &query), Some(LinkState::Valid));
        for (path, query) in [
            ("/api/media/b/clip.mp4", query.clone()),
            ("/api/media/a/snapshot.jpg", query.clone()),
            (PATH, query.replace("until=1", "until=2")),
            (PATH, format!("x=1&{query}")),
            (PATH, format!("{query}&x=1")),
            (PATH, format!("{query}0")),
            (PATH, format!("{}0", &query[..query.len() - 2])),
            (PATH, query.split(KEY).next().expect("one").to_owned() + KEY),
        ] {
            assert_eq!(at(path, &query), Some(LinkState::Invalid), "{path}?{query}");
        }
        for query in ["", "until=1", "key=0", "until=x&key=0"] {
            assert_eq!(at(PATH, query), None, "{query}");
        }
        assert!(matches!(
            state(&links, PATH, &query, until),
            Some(LinkState::Expired(_))
        ));
        // The next run has the same key.
        let next = ShareLinks::open(Some(file.clone()));
        assert_eq!(state(&next, PATH, &query, now), Some(LinkState::Valid));
        next.revoke().expect("written");
        assert_eq!(state(&next, PATH, &query, now), Some(LinkState::Invalid));
        // A file that others may read is not used.
        fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("its owner may");
        let open = ShareLinks::open(Some(file));
        assert_eq!(*open.key.lock(), None);
        assert!(ShareLinks::open(None).sign(PATH, "", until).is_err());
    }

    #[test]
    fn times_within_what_was_asked_for_do_not_count() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let links = ShareLinks::open(Some(folder.path().join("share.key")));
        let asked = format!("{UNTIL}9999999999{KEY}00");
        let query = links.sign(PATH, &asked, UNIX_EPOCH + Duration::from_secs(5));
        let link = Link::of(PATH, &query.expect("a key")).expect("a link");
        let late = UNIX_EPOCH + Duration::from_secs(5);
        assert_eq!(links.state(&link, late), LinkState::Expired(late));
    }
}
