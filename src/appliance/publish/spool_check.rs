// SPDX-License-Identifier: Apache-2.0
//! Whether the spool of a configuration can be used, for `jetwatch check` and `jetwatch doctor`.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::mqtt::{create_folders, spool_folders};
use jetwatch_config::MqttConfig;
use jetwatch_spool::{FolderProblem, Folders, Spool, SpoolError, read_folder};

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpoolCheck {
    /// Messages survive what `durability` promises; the text says what waits.
    Ok(String),
    /// Messages wait in memory only, where nothing else was asked for, or it cannot be seen by this user.
    Unknown(String),
    /// A folder cannot be used.
    Failed(String),
}

/// Opens the folders of the spool as the daemon does, and closes them. Folders of another user are only read, so that no file in them
/// has the wrong owner.
#[must_use]
pub fn check_spool(config: &MqttConfig) -> SpoolCheck {
    let folders = spool_folders(config);
    let paths = [Some(&folders.front), folders.back.as_ref()];
    let paths: Vec<&Path> = paths
        .into_iter()
        .flatten()
        .map(|path| path.as_path())
        .collect();
    let is_given = config.spool.runtime_folder.is_some() || config.spool.state_folder.is_some();
    let is_foreign = |path: &&Path| {
        // Folders that are named are made; the package makes the others.
        let mut around = path.ancestors().skip(1).take(1 + usize::from(is_given));
        let owner = around.find_map(|folder| folder.metadata().ok());
        owner.is_some_and(|owner| owner.uid() != rustix::process::geteuid().as_raw())
    };
    if paths.iter().any(is_foreign) {
        return look(&paths);
    }
    if is_given {
        create_folders(config);
    }
    let (spool, problems) = Spool::open(&folders);
    for problem in &problems {
        match problem {
            FolderProblem::Front(SpoolError::Locked { .. })
            | FolderProblem::Back(SpoolError::Locked { .. }) => return look(&paths),
            FolderProblem::Front(error) | FolderProblem::Back(error)
                if error.is_unavailable() && !is_given =>
            {
                let text = format!("some messages wait in memory only: {error}");
                // The daemon runs so, and the package makes the folders.
                return match missing_parent(&paths) {
                    Some(folder) => SpoolCheck::Ok(format!(
                        "messages wait in memory only: there is no {}, which the package makes; to keep them elsewhere, name \
                         folders in publish.mqtt.spool",
                        folder.display()
                    )),
                    None => SpoolCheck::Unknown(text),
                };
            }
            FolderProblem::Front(error) | FolderProblem::Back(error) => {
                return SpoolCheck::Failed(error.to_string());
            }
            FolderProblem::FrontOnDevice(_) | FolderProblem::Repaired(..) => {}
        }
    }
    let bytes = spool.map_or(0, |spool| spool.status().bytes());
    SpoolCheck::Ok(format!(
        "{} can be written; {bytes} bytes in it",
        names(&folders)
    ))
}

/// The first folder around one of `paths` that does not exist.
fn missing_parent<'p>(paths: &[&'p Path]) -> Option<&'p Path> {
    let mut parents = paths.iter().filter_map(|path| path.parent()?.parent());
    parents.find(|parent| !parent.exists())
}

fn names(folders: &Folders) -> String {
    let paths = [Some(&folders.front), folders.back.as_ref()];
    let names: Vec<String> = paths
        .into_iter()
        .flatten()
        .map(|path| path.display().to_string())
        .collect();
    names.join(" and ")
}

/// What can be seen without writing.
fn look(paths: &[&Path]) -> SpoolCheck {
    let mut texts = Vec::new();
    for path in paths {
        match read_folder(path, |_| {}) {
            Ok((status, is_in_use)) => texts.push(format!(
                "{}: {} messages, {} bytes{}",
                path.display(),
                status.records,
                status.bytes,
                if is_in_use { ", a daemon runs" } else { "" }
            )),
            Err(error) => {
                return SpoolCheck::Unknown(format!("{error}; run this as the user of the daemon"));
            }
        }
    }
    SpoolCheck::Ok(texts.join("; "))
}
