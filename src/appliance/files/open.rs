// SPDX-License-Identifier: Apache-2.0
//! Files in folders that others may write to: a name there may be a symbolic link, a FIFO or a device that somebody has put in the way.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

pub use rustix::fs::OFlags;
use rustix::fs::{AtFlags, Mode, ResolveFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;

/// Not through a link, and without a wait for the other end of a FIFO.
const OWN: OFlags = OFlags::NOFOLLOW
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

const FOLDER: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Of a file that is created.
const NEW_FILE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP);

/// Of a folder that is made.
const NEW_FOLDER: Mode = Mode::RWXU.union(Mode::RGRP).union(Mode::XGRP);

/// Longest chain of symbolic links that is followed.
const MAX_LINKS: usize = 16;

/// Opens the file `name` below `folder`. Neither it nor a folder between is a symbolic link, and it is a regular file; `folder` itself
/// may be reached through links. With `CREATE`, the folders between are made, too; what is made is for its owner and group alone.
///
/// # Errors
/// It cannot be opened, or it is something else.
pub fn open_below(folder: &Path, name: &Path, flags: OFlags) -> io::Result<File> {
    let folder = rustix::fs::open(folder, FOLDER - OFlags::NOFOLLOW, Mode::empty())?;
    if flags.contains(OFlags::CREATE) {
        return open_by_parts(folder, name, flags);
    }
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match rustix::fs::openat2(&folder, name, flags | OWN, Mode::empty(), beneath) {
        // Before Linux 5.6, or where a filter of system calls does not know it.
        Err(Errno::NOSYS | Errno::PERM) => open_by_parts(folder, name, flags),
        opened => regular(opened?),
    }
}

/// As [`open_below`], folder by folder.
fn open_by_parts(folder: OwnedFd, name: &Path, flags: OFlags) -> io::Result<File> {
    let (folder, name) = folder_of(folder, name, flags.contains(OFlags::CREATE))?;
    regular(openat(&folder, name, flags | OWN, NEW_FILE)?)
}

/// The folder of the file `name` below `folder`, and the name in it; folders that are not there are made where `makes`.
fn folder_of(mut folder: OwnedFd, name: &Path, makes: bool) -> io::Result<(OwnedFd, &OsStr)> {
    let mut parts = name.components().peekable();
    while let Some(Component::Normal(part)) = parts.next() {
        if parts.peek().is_none() {
            return Ok((folder, part));
        }
        if makes {
            match mkdirat(&folder, part, NEW_FOLDER) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        folder = openat(&folder, part, FOLDER, Mode::empty())?;
    }
    Err(refused("the path leaves its folder"))
}

/// Removes the file `name` below `folder`, which is reached as in [`open_below`].
///
/// # Errors
/// It is not there, or cannot be removed.
pub fn remove_below(folder: &Path, name: &Path) -> io::Result<()> {
    let folder = rustix::fs::open(folder, FOLDER - OFlags::NOFOLLOW, Mode::empty())?;
    let (folder, name) = folder_of(folder, name, false)?;
    Ok(unlinkat(&folder, name, AtFlags::empty())?)
}

/// As [`open_below`], of a file whose folder is trusted.
///
/// # Errors
/// As [`open_below`].
pub fn open_own(path: &Path, flags: OFlags) -> io::Result<File> {
    regular(rustix::fs::open(path, flags | OWN, NEW_FILE)?)
}

fn regular(file: OwnedFd) -> io::Result<File> {
    let file = File::from(file);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(refused("it is not a regular file")),
    }
}

/// Where the symbolic links at the end of `path` lead; `path` itself where it is no link. Links of root and of this user are followed,
/// those of others are refused.
///
/// # Errors
/// A link is another user's, or there are too many of them.
pub fn target_of(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(found) = path.symlink_metadata() else {
            return Ok(path);
        };
        if !found.is_symlink() {
            return Ok(path);
        }
        if ![0, rustix::process::geteuid().as_raw()].contains(&found.uid()) {
            return Err(refused("it is a symbolic link of another user"));
        }
        let target = path.read_link()?;
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(refused("too many symbolic links"))
}

fn refused(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn links_fifos_and_folders_are_not_opened() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("victim"), "kept").expect("written");
        symlink(at("victim"), at("link")).expect("linked");
        symlink(at("nothing"), at("dangling")).expect("linked");
        fs::create_dir(at("inner")).expect("made");
        fs::write(at("inner/file"), "x").expect("written");
        symlink(at("inner"), at("outer")).expect("linked");
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), fifo, NEW_FILE, 0).expect("made");
        let flags = OFlags::RDWR | OFlags::CREATE;
        let parts = |name: &str| {
            let opened = rustix::fs::open(folder.path(), FOLDER, Mode::empty());
            open_by_parts(opened.expect("there"), Path::new(name), flags)
        };
        for name in ["link", "dangling", "fifo", "inner", "outer/file", "../x"] {
            assert!(
                open_below(folder.path(), Path::new(name), flags).is_err(),
                "{name}"
            );
            assert!(parts(name).is_err(), "{name}");
            assert!(
                name.contains('/') || open_own(&at(name), flags).is_err(),
                "{name}"
            );
        }
        // Also for reading alone, which would wait for a writer.
        assert!(open_own(&at("fifo"), OFlags::RDONLY).is_err());
        for name in ["outer/made/file", "link/made/file", "inner/../x/file"] {
            assert!(
                open_below(folder.path(), Path::new(name), flags).is_err(),
                "{name}"
            );
        }
        assert!(!at("inner/made").exists() && !at("x").exists());
        for name in ["outer/file", "inner", "../x"] {
            assert!(
                remove_below(folder.path(), Path::new(name)).is_err(),
                "{name}"
            );
        }
        assert!(at("inner/file").exists());
        let missing = open_below(folder.path(), Path::new("none/file"), OFlags::RDONLY);
        assert!(missing.is_err() && !at("none").exists());
        assert_eq!(fs::read(at("victim")).expect("readable"), b"kept");
        assert!(!at("nothing").exists());
        for name in ["inner/file", "victim", "new", "inner/a/b/new"] {
            open_below(folder.path(), Path::new(name), flags).expect(name);
            parts(name).expect(name);
        }
        remove_below(folder.path(), Path::new("inner/file")).expect("removed");
        assert!(!at("inner/file").exists());
        for (name, others) in [("new", 0o137), ("inner/a", 0o027), ("inner/a/b/new", 0o137)] {
            let mode = fs::metadata(at(name)).expect("there").permissions().mode();
            assert_eq!(mode & others, 0, "{name}: {mode:o}");
        }
    }

    #[test]
    fn links_of_the_administrator_are_followed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("real"), "").expect("written");
        symlink("real", at("one")).expect("linked");
        symlink(at("one"), at("two")).expect("linked");
        symlink("turn", at("turn")).expect("linked");
        for name in ["real", "one", "two"] {
            assert_eq!(target_of(&at(name)).expect(name), at("real"));
        }
        assert_eq!(target_of(&at("missing")).expect("no link"), at("missing"));
        assert!(target_of(&at("turn")).is_err());
        // Root alone can make links of other users.
        if rustix::process::geteuid().is_root() {
            symlink("real", at("foreign")).expect("linked");
            let nobody = Some(rustix::fs::Uid::from_raw(65534));
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(rustix::fs::CWD, at("foreign"), nobody, None, flags)
                .expect("root may");
            assert!(target_of(&at("foreign")).is_err());
        }
    }
}
