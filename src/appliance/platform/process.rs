// SPDX-License-Identifier: Apache-2.0
//! Processes of the machine: by name, and by open file.

use std::path::{Path, PathBuf};

use super::{PlatformError, SysRoot};

/// A process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub id: u32,
    /// Name in the kernel, at most 15 characters.
    pub name: String,
}

/// The processes that have a file open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenFileOwners {
    /// The processes found.
    pub processes: Vec<Process>,
    /// Whether all processes could be examined; those of other users require root.
    pub is_complete: bool,
}

/// The libraries that this process has open, as resolved files: their names contain their versions, such as
/// `libonnxruntime.so.1.31.1`. Each once, by path.
pub fn open_libraries() -> Vec<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let files = maps.lines().filter_map(|line| line.get(line.find('/')?..));
    let mut libraries: Vec<PathBuf> = files
        .filter(|file| file.contains(".so"))
        .map(PathBuf::from)
        .collect();
    libraries.sort_unstable();
    libraries.dedup();
    libraries
}

impl Process {
    /// All processes whose name is `name` and whose first argument is `argument`.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn running(root: &SysRoot, name: &str, argument: &str) -> Result<Vec<Self>, PlatformError> {
        let mut found = all(root)?;
        found.retain(|process| {
            let line = root.text(&format!("/proc/{}/cmdline", process.id));
            let line = line.ok().flatten().unwrap_or_default();
            process.name == name && line.split('\0').nth(1) == Some(argument)
        });
        Ok(found)
    }

    /// The processes that have the file at `path` open.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn open_file_owners(root: &SysRoot, path: &Path) -> Result<OpenFileOwners, PlatformError> {
        let mut holders = OpenFileOwners {
            is_complete: true,
            ..OpenFileOwners::default()
        };
        for process in all(root)? {
            let folder = format!("/proc/{}/fd", process.id);
            let Ok(files) = root.names(&folder) else {
                holders.is_complete = false;
                continue;
            };
            let is_it = |file: &String| {
                let link: PathBuf = root.path(&format!("{folder}/{file}"));
                std::fs::read_link(link).is_ok_and(|target| target == path)
            };
            if files.iter().any(is_it) {
                holders.processes.push(process);
            }
        }
        Ok(holders)
    }
}

fn all(root: &SysRoot) -> Result<Vec<Process>, PlatformError> {
    let names = root.names("/proc")?;
    let ids = names.iter().filter_map(|name| name.parse().ok());
    let process = |id: u32| {
        // The process may end at any time.
        let name = root.text(&format!("/proc/{id}/comm")).ok()??;
        Some(Process { id, name })
    };
    Ok(ids.filter_map(process).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn running_processes_and_camera_owners_are_found() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = SysRoot::new(folder.path());
        let write = |path: &str, text: &str| {
            let path = root.path(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            fs::write(path, text).expect("written");
        };
        write("/proc/12/comm", "jetwatch\n");
        write("/proc/12/cmdline", "/usr/bin/jetwatch\0run\0--config\0x\0");
        write("/proc/13/comm", "jetwatch\n");
        write("/proc/13/cmdline", "jetwatch\0doctor\0");
        write("/proc/meminfo", "MemTotal: 1 kB\n");
        for id in [12, 13] {
            fs::create_dir_all(root.path(&format!("/proc/{id}/fd"))).expect("created");
        }
        symlink("/dev/video0", root.path("/proc/12/fd/7")).expect("linked");
        let daemon = Process {
            id: 12,
            name: "jetwatch".to_owned(),
        };
        let running = Process::running(&root, "jetwatch", "run").expect("readable");
        assert_eq!(running, std::slice::from_ref(&daemon));
        let holders = Process::open_file_owners(&root, Path::new("/dev/video0")).expect("readable");
        assert_eq!(
            (holders.processes, holders.is_complete),
            (vec![daemon], true)
        );
        let holders = Process::open_file_owners(&root, Path::new("/dev/video1")).expect("readable");
        assert!(holders.processes.is_empty());
    }
}
