// SPDX-License-Identifier: Apache-2.0
//! Lists the engines of a cache with their states.

use std::path::PathBuf;

use serde::Serialize;

use super::EngineError;
use super::atomic_file::manifest_of;
use super::cache::{EngineCache, read};
use super::manifest::Manifest;
use super::spec::is_engine_name;

/// One engine of a cache.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listed {
    /// Its file.
    pub path: PathBuf,
    /// Its state.
    #[serde(flatten)]
    pub state: ListedState,
    /// Its manifest.
    pub manifest: Option<Manifest>,
}

/// The state of an engine in a cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "why", rename_all = "snake_case")]
pub enum ListedState {
    /// Complete, with the hash of its manifest. Whether it fits the GPU and the library is not checked.
    Whole,
    /// Its bytes differ from the manifest; the text states how.
    Damaged(String),
    /// Its manifest is missing or cannot be read, or there is a manifest without an engine.
    Incomplete(String),
}

impl EngineCache {
    /// All engines in the folder, by name. Reads and hashes each.
    ///
    /// # Errors
    /// The folder or a file in it cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, EngineError> {
        let mut all = Vec::new();
        for (path, manifest) in self.manifests()? {
            let plan = read(&path)?;
            let state = match (&manifest, plan) {
                (Err(what), _) => {
                    ListedState::Incomplete(format!("its manifest cannot be read: {what}"))
                }
                (Ok(_), None) => ListedState::Incomplete("there is a manifest alone".to_owned()),
                (Ok(manifest), Some(plan)) => match manifest.mismatch(&plan) {
                    Some(what) => ListedState::Damaged(what),
                    None => ListedState::Whole,
                },
            };
            all.push(Listed {
                path,
                state,
                manifest: manifest.ok(),
            });
        }
        let Ok(entries) = std::fs::read_dir(self.folder()) else {
            return Ok(all);
        };
        for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if is_engine_name(&name) && !manifest_of(&path).exists() {
                all.push(Listed {
                    state: ListedState::Incomplete("it has no manifest".to_owned()),
                    manifest: None,
                    path,
                });
            }
        }
        all.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(all)
    }
}
