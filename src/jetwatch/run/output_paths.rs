// SPDX-License-Identifier: Apache-2.0
//! Checks the outputs of a run before one is opened: no file that a source reads, no file twice, and no folder that cannot be
//! written to.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use jetwatch_config::{Config, SourceUri};
use jetwatch_files::PendingFile;

/// The identity of a file, independent of its name.
#[derive(PartialEq)]
enum Identity {
    /// An existing file: device and inode.
    Existing(u64, u64),
    /// A file that does not exist yet: canonical folder and name.
    Missing(PathBuf),
}

impl Identity {
    /// `None` for pipes and devices, which are not overwritten, and for paths in folders that do not exist.
    fn from_path(path: &Path) -> Option<Self> {
        match fs::metadata(path) {
            Ok(file) if file.is_file() => Some(Self::Existing(file.dev(), file.ino())),
            Ok(_) => None,
            Err(_) => {
                let folder = path.parent().filter(|folder| *folder != Path::new(""));
                let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
                Some(Self::Missing(folder.join(path.file_name()?)))
            }
        }
    }
}

/// Rejects options that would overwrite a file that a source reads, each other's file, or `publish.json_lines`.
///
/// # Errors
/// The first such file, with the option or key that also names it.
pub(super) fn check(options: &[(&str, Option<&Path>)], config: &Config) -> anyhow::Result<()> {
    let read = config.sources.iter().enumerate();
    let read = read.filter_map(|(index, source)| match &source.uri {
        SourceUri::File(path) => {
            let key = format!("sources[{index}].uri ({})", source.name);
            Some((key, Identity::from_path(path)?))
        }
        _ => None,
    });
    let read: Vec<(String, Identity)> = read.collect();
    let lines = config.publish.json_lines.as_ref();
    let lines = lines.and_then(|lines| Identity::from_path(lines.path.as_deref()?));
    let lines = lines.map(|identity| ("publish.json_lines.path".to_owned(), identity));
    let mut written: Vec<(String, Identity)> = lines.into_iter().collect();
    for (option, path) in options {
        let Some(path) = path else { continue };
        let Some(identity) = Identity::from_path(path) else {
            continue;
        };
        let same = |taken: &[(String, Identity)]| {
            let same = taken.iter().find(|(_, known)| *known == identity);
            same.map(|(key, _)| key.clone())
        };
        if let Some(key) = same(&read) {
            anyhow::bail!(
                "{option}: {} is the input of {key} and would be overwritten; choose another name for {option}",
                path.display()
            );
        }
        let twice = same(&written);
        ensure!(
            twice.is_none(),
            "{option}: {} is also the output of {}; choose another name for {option}",
            path.display(),
            twice.unwrap_or_default()
        );
        written.push(((*option).to_owned(), identity));
    }
    Ok(())
}

/// Checks that `folder` exists and that files can be written to it, so that a run does not fail at its end.
///
/// # Errors
/// They cannot; the error names `option`.
pub(super) fn check_folder(option: &str, folder: &Path) -> anyhow::Result<()> {
    let probe = || {
        let mut pending = PendingFile::create(&folder.join("probe"))?;
        let written = pending.file().write_all(b"probe");
        anyhow::Ok(written?)
    };
    probe()
        .with_context(|| {
            format!(
                "{option}: cannot write to folder {}; choose one that exists and is writable, on a disk with free space",
                folder.display()
            )
        })
}

/// As [`check_folder`] for the folder of a file that is written at the end. A device or a pipe is not written there.
///
/// # Errors
/// As [`check_folder`].
pub(super) fn check_file(option: &str, file: &Path) -> anyhow::Result<()> {
    if fs::metadata(file).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Ok(());
    }
    ensure!(
        !file.is_dir(),
        "{option}: {} is a folder; name a file",
        file.display()
    );
    let folder = file.parent().filter(|folder| *folder != Path::new(""));
    check_folder(option, folder.unwrap_or(Path::new(".")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn output_path_conflicts_are_rejected() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        for name in ["in.mp4", "lines.jsonl", "other.mp4"] {
            fs::write(path(name), "kept").expect("written");
        }
        fs::hard_link(path("in.mp4"), path("linked.mp4")).expect("a second name");
        symlink("in.mp4", path("points.mp4")).expect("a link");
        symlink("/dev/null", path("null.mp4")).expect("a link");
        fs::create_dir(path("sub")).expect("a folder");
        let yaml = "
device: test
sources: [{name: cam, uri: in.mp4}]
detector: {backend: onnx, model: net}
publish: {mqtt: off, json_lines: {path: lines.jsonl}}
";
        fs::write(path("jetwatch.yaml"), yaml).expect("written");
        let config = Config::load(&path("jetwatch.yaml")).expect("a configuration");
        let check = |record: &str, stats: &str| {
            let (record, stats) = (path(record), path(stats));
            let options = [
                ("--stats", Some(stats.as_path())),
                ("--record", Some(record.as_path())),
            ];
            let refused = super::check(&options, &config).err();
            refused.map(|error| {
                error
                    .to_string()
                    .replace(folder.path().to_str().unwrap_or(""), "")
            })
        };
        for name in ["in.mp4", "linked.mp4", "points.mp4", "sub/../in.mp4"] {
            let wanted = format!(
                "--record: /{name} is the input of sources[0].uri (cam) and would be overwritten; choose another name for --record"
            );
            assert_eq!(check(name, "stats.json"), Some(wanted));
        }
        let wanted = "--record: /lines.jsonl is also the output of publish.json_lines.path; choose another name for --record";
        assert_eq!(check("lines.jsonl", "stats.json").as_deref(), Some(wanted));
        // Neither file exists yet.
        let wanted =
            "--record: /sub/../new is also the output of --stats; choose another name for --record";
        assert_eq!(check("sub/../new", "new").as_deref(), Some(wanted));
        for name in ["other.mp4", "new.mp4", "null.mp4", "nowhere/new.mp4"] {
            assert_eq!(check(name, "stats.json"), None, "{name}");
        }
        assert_eq!(check("null.mp4", "null.mp4"), None);
    }
}
