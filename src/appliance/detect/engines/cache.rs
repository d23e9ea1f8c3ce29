// SPDX-License-Identifier: Apache-2.0
//! The engine cache, a folder: finds the engine of a spec, explains why it is missing, stores new ones.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::EngineError;
use super::atomic_file::{self, AtomicFile, Lock, folder_error, manifest_of};
use super::disk_space;
use super::manifest::Manifest;
use super::miss::{CacheMiss, MissReason, differences};
use super::spec::EngineSpec;

/// Disk space in bytes needed in addition to the plan, for the manifest and the timing cache.
const SLACK_BYTES: u64 = 16 << 20;

/// A folder of engines.
#[derive(Debug, Clone)]
pub struct EngineCache {
    folder: PathBuf,
}

/// What [`EngineCache::find`] found.
#[derive(Debug)]
pub enum Lookup {
    /// The engine.
    Found(Box<Stored>),
    /// No engine, and why.
    Miss(CacheMiss),
}

/// An engine with a verified hash.
#[derive(Debug)]
pub struct Stored {
    /// Its file.
    pub path: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// The plan.
    pub plan: Vec<u8>,
}

/// A manifest, or why it cannot be read.
type ReadManifest = Result<Manifest, String>;

impl Stored {
    /// Copies the engine to `path`, and its manifest next to it.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn copy_to(&self, path: &Path) -> Result<(), EngineError> {
        atomic_file::write(path, &self.plan)?;
        atomic_file::write(&manifest_of(path), self.manifest.to_text().as_bytes())
    }
}

impl EngineCache {
    /// The cache in `folder`, which does not have to exist.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of the engine of `spec`, whether it exists or not.
    pub fn path_of(&self, spec: &EngineSpec) -> PathBuf {
        self.folder.join(spec.file_name())
    }

    /// Reads the engine of `spec` and compares its hash, or explains why it is missing.
    ///
    /// # Errors
    /// The folder or a file in it cannot be read.
    pub fn find(&self, spec: &EngineSpec) -> Result<Lookup, EngineError> {
        let path = self.path_of(spec);
        let missing = |reason| {
            Ok(Lookup::Miss(CacheMiss {
                reason,
                command: spec.command(&self.folder),
            }))
        };
        let file = file_name(&path);
        let Some(plan) = read(&path)? else {
            return missing(self.nearest(spec)?);
        };
        let manifest = manifest_of(&path);
        let Some(text) = read(&manifest)? else {
            return missing(MissReason::NoManifest { file });
        };
        let manifest = match Manifest::parse(&text) {
            Ok(manifest) => manifest,
            Err(what) => {
                let file = file_name(&manifest);
                return missing(MissReason::BadManifest { file, what });
            }
        };
        let wanted = spec.cache_key_fields();
        if manifest.recipe != wanted {
            // The name is that of this spec, so the file was renamed or changed.
            let differences = differences(&manifest.recipe, &wanted);
            return missing(MissReason::Other { file, differences });
        }
        if let Some(what) = manifest.mismatch(&plan) {
            return missing(MissReason::Damaged { file, what });
        }
        Ok(Lookup::Found(Box::new(Stored {
            path,
            manifest,
            plan,
        })))
    }

    /// Why there is no engine of `spec`: the differences to the nearest one of the same model and precision.
    fn nearest(&self, spec: &EngineSpec) -> Result<MissReason, EngineError> {
        let wanted = spec.cache_key_fields();
        let known = self
            .manifests()?
            .into_iter()
            .filter_map(|(path, manifest)| {
                let manifest = manifest.ok()?;
                let found = &manifest.recipe;
                (found.model == wanted.model && found.precision == wanted.precision)
                    .then(|| (differences(found, &wanted), manifest.built_at, path))
            });
        // The fewest differences, then the newest: RFC 3339 times sort as text.
        let nearest = known.min_by(|(one, one_built, _), (other, other_built, _)| {
            (one.len().cmp(&other.len())).then_with(|| other_built.cmp(one_built))
        });
        Ok(match nearest {
            Some((differences, _, path)) => MissReason::Other {
                file: file_name(&path),
                differences,
            },
            None => MissReason::None {
                model: spec.model.clone(),
                precision: spec.precision_name(),
                folder: self.folder.display().to_string(),
            },
        })
    }

    /// All manifests in the folder with the path of their engines, by name; a reason as text for those that cannot be read.
    pub(super) fn manifests(&self) -> Result<Vec<(PathBuf, ReadManifest)>, EngineError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if is_not_found(&error) => return Ok(Vec::new()),
            Err(source) => return Err(folder_error("read", &self.folder, source)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry
                .map_err(|source| folder_error("read", &self.folder, source))?
                .path();
            let engine = path.to_string_lossy();
            let engine = engine.strip_suffix(".json").map(PathBuf::from);
            let Some(engine) =
                engine.filter(|engine| engine.extension() == Some("engine".as_ref()))
            else {
                continue;
            };
            let manifest = match fs::read(&path) {
                Ok(bytes) => Manifest::parse(&bytes),
                Err(error) => Err(error.to_string()),
            };
            found.push((engine, manifest));
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }

    /// The lock under which engines are built and stored; see [`atomic_file::lock`].
    pub(super) fn lock(
        &self,
        wait: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<Option<Lock>, EngineError> {
        atomic_file::lock(&self.folder, wait)
    }

    /// Fails when there is no disk space for a plan of about `plan_bytes`.
    pub(super) fn check_disk_space(&self, plan_bytes: u64) -> Result<(), EngineError> {
        disk_space::check(&self.folder, plan_bytes.saturating_add(SLACK_BYTES))
    }

    /// Stores the engine of `manifest`: writes and syncs both files, then renames the plan, then the manifest.
    /// After an interruption, a plan without its own manifest is ignored.
    pub(super) fn store(
        &self,
        manifest: Manifest,
        plan: Vec<u8>,
        _lock: &Lock,
    ) -> Result<Stored, EngineError> {
        let path = self.folder.join(manifest.recipe.file_name());
        self.check_disk_space(plan.len() as u64)?;
        let written_plan = AtomicFile::new(path.clone(), &plan)?;
        let written_manifest = AtomicFile::new(manifest_of(&path), manifest.to_text().as_bytes())?;
        written_plan.commit()?;
        written_manifest.commit()?;
        Ok(Stored {
            path,
            manifest,
            plan,
        })
    }

    /// Removes [`outdated`](Self::outdated) engines and returns their paths. Waits while another process builds.
    ///
    /// # Errors
    /// The folder cannot be read, or a file cannot be removed.
    pub fn prune(&self, kept: &Manifest) -> Result<Vec<PathBuf>, EngineError> {
        let Some(_lock) = self.lock(&mut |_| true)? else {
            return Ok(Vec::new());
        };
        let old = self.outdated(kept)?;
        for path in &old {
            // The manifest first: an engine without one is ignored.
            for path in [&manifest_of(path), path] {
                match fs::remove_file(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(folder_error("write", path, error));
                    }
                    _ => {}
                }
            }
        }
        atomic_file::sync_dir(&self.folder)?;
        Ok(old)
    }

    /// Paths of the engines that differ from `kept` only in the version of TensorRT.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn outdated(&self, kept: &Manifest) -> Result<Vec<PathBuf>, EngineError> {
        let same_but_version = |manifest: &Manifest| {
            let mut fields = manifest.recipe.clone();
            let is_other = fields.builder_version != kept.recipe.builder_version;
            fields.builder_version = kept.recipe.builder_version.clone();
            // The number of profiles depends on the version.
            fields.profiles = kept.recipe.profiles;
            is_other && fields == kept.recipe
        };
        let known = self.manifests()?.into_iter();
        Ok(known
            .filter(|(_, manifest)| manifest.as_ref().is_ok_and(same_but_version))
            .map(|(path, _)| path)
            .collect())
    }

    /// Timing cache of earlier builds by the same version on the same GPU. Without it a build takes longer.
    pub(super) fn timing_cache(&self, spec: &EngineSpec) -> Option<Vec<u8>> {
        let path = self
            .folder
            .join(spec.cache_key_fields().timing_cache_name());
        fs::read(path).ok().filter(|bytes| !bytes.is_empty())
    }

    /// Stores the timing cache for the next build.
    pub(super) fn save_timing_cache(
        &self,
        spec: &EngineSpec,
        bytes: &[u8],
        _lock: &Lock,
    ) -> Result<(), EngineError> {
        atomic_file::write(
            &self
                .folder
                .join(spec.cache_key_fields().timing_cache_name()),
            bytes,
        )
    }
}

/// The bytes of a file; `None` when it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, EngineError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(source) => Err(folder_error("read", path, source)),
    }
}

/// Whether the file or its folder does not exist.
fn is_not_found(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

pub(super) fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests;
