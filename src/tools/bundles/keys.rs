//! The public keys whose signatures count: files of minisign in one folder. Several, so that a new key is trusted before the old
//! one is withdrawn.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use minisign_verify::PublicKey;

use super::BundleError;
use super::error::io;

/// End of the name of a key.
const EXTENSION: &str = "pub";

/// Maximum size of a key in bytes.
const MAX_KEY_BYTES: u64 = 4096;

/// Bits of a mode with which others than the owner may write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The trusted keys, at least one.
#[derive(Debug)]
pub struct TrustedKeys {
    keys: Vec<(PathBuf, PublicKey)>,
}

impl TrustedKeys {
    /// Reads every file of `folder` whose name ends in `.pub`, in the order of the names.
    ///
    /// # Errors
    /// There is none, or one is not a key, or the folder or a key belongs to, or is writable by, others than root and the caller: a
    /// key that is wrong is an error rather than skipped, so that it is noticed before it is needed.
    pub fn read(folder: &Path) -> Result<Self, BundleError> {
        let no_keys = || BundleError::NoKeys {
            folder: folder.to_owned(),
        };
        if !folder.exists() {
            return Err(no_keys());
        }
        check_owner(folder)?;
        let entries = fs::read_dir(folder).map_err(io("read", folder))?;
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(io("read", folder))?.path();
            if path.extension().is_some_and(|end| end == EXTENSION) {
                paths.push(path);
            }
        }
        paths.sort();
        let keys: Result<Vec<_>, BundleError> = paths
            .into_iter()
            .map(|path| read_key(&path).map(|key| (path, key)))
            .collect();
        let keys = keys?;
        match keys.is_empty() {
            true => Err(no_keys()),
            false => Ok(Self { keys }),
        }
    }

    /// The keys with their files.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, &PublicKey)> {
        self.keys.iter().map(|(path, key)| (path.as_path(), key))
    }

    /// The names of their files, for messages.
    pub(crate) fn describe(&self) -> String {
        let names = self.iter().map(|(path, _)| path.display().to_string());
        names.collect::<Vec<_>>().join(", ")
    }
}

fn read_key(path: &Path) -> Result<PublicKey, BundleError> {
    let wrong = |problem: String| BundleError::Key {
        path: path.to_owned(),
        problem,
    };
    check_owner(path)?;
    let metadata = fs::metadata(path).map_err(io("read", path))?;
    if !metadata.is_file() || metadata.len() > MAX_KEY_BYTES {
        return Err(wrong("expected a public key of minisign".to_owned()));
    }
    let text = fs::read_to_string(path).map_err(io("read", path))?;
    PublicKey::decode(text.trim_end()).map_err(|error| {
        wrong(format!(
            "expected a public key of minisign, as `minisign -G` writes it: {error}"
        ))
    })
}

/// Checks that no other user can change what `path` leads to.
fn check_owner(path: &Path) -> Result<(), BundleError> {
    let metadata = fs::metadata(path).map_err(io("read", path))?;
    let problem = owner_problem(&metadata);
    problem.map_or(Ok(()), |problem| {
        Err(BundleError::Key {
            path: path.to_owned(),
            problem,
        })
    })
}

/// Why others than root and the caller can change a file; `None`: they cannot.
pub(crate) fn owner_problem(metadata: &fs::Metadata) -> Option<String> {
    let (owner, own) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != 0 && owner != own {
        return Some(format!(
            "it belongs to the user {owner}, expected root or the user {own}: its owner decides what is installed"
        ));
    }
    (metadata.mode() & WRITABLE_BY_OTHERS != 0).then(|| {
        format!(
            "its mode is {:o}, expected that only its owner may write: run chmod go-w",
            metadata.mode() & 0o7777
        )
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::test_bundles::Signer;

    #[test]
    fn all_keys_of_the_folder_are_read() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let error = TrustedKeys::read(&folder.path().join("none")).expect_err("no folder");
        assert!(matches!(error, BundleError::NoKeys { .. }), "{error}");
        let error = TrustedKeys::read(folder.path()).expect_err("no key");
        assert!(error.to_string().contains("name ends in .pub"), "{error}");
        fs::write(folder.path().join("README"), "no key").expect("written");
        for name in ["b.pub", "a.pub"] {
            let signer = Signer::new();
            fs::copy(signer.public(), folder.path().join(name)).expect("copied");
        }
        let keys = TrustedKeys::read(folder.path()).expect("two keys");
        let names: Vec<_> = keys
            .iter()
            .filter_map(|(path, _)| path.file_name())
            .collect();
        assert_eq!(names, ["a.pub", "b.pub"]);
    }

    #[test]
    fn key_that_is_wrong_or_writable_by_others_is_an_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let signer = Signer::new();
        let path = folder.path().join("a.pub");
        fs::copy(signer.public(), &path).expect("copied");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).expect("set");
        let error = TrustedKeys::read(folder.path()).expect_err("writable");
        assert!(error.to_string().contains("run chmod go-w"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
        TrustedKeys::read(folder.path()).expect("a key");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("set");
        let error = TrustedKeys::read(folder.path()).expect_err("a folder of others");
        assert!(error.to_string().contains("mode is 777"), "{error}");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("set");
        fs::write(folder.path().join("b.pub"), "no key\n").expect("written");
        let error = TrustedKeys::read(folder.path()).expect_err("no key");
        assert!(
            error.to_string().contains("as `minisign -G` writes it"),
            "{error}"
        );
    }
}
