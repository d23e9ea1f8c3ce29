// SPDX-License-Identifier: Apache-2.0
//! Downloads a network of the catalogue into a model folder.
//!
//! [`ModelFetch::new`] checks the request before anything is transferred, [`download`](ModelFetch::download) fetches the file,
//! and [`complete`](ModelFetch::complete) writes the description: a folder with a `model.yaml` is complete. Called by `jetwatch model fetch` and `jetwatch demo`, which print the progress.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use jetwatch_config::redact;
use jetwatch_detect::model::{FILE_NAME, ModelSpec};
use jetwatch_files::Sha256Digest;

use crate::atomic_write;
use crate::model_zoo::{self, Download, DownloadResult, Entry, FetchError, Progress, RetryPolicy};

/// Name of the labels file in the folder.
const LABELS: &str = "labels.txt";

/// Name in the catalogue of the network for a first video: the smallest one with a good share of COCO's classes.
pub const FIRST_MODEL: &str = "picodet_s";

/// PicoDet, as `make picodet` converts it and the package has it.
pub const CONVERTED: [&str; 2] = ["picodet_s_lcnet", "picodet_s_lcnet_416x256"];

/// What to fetch.
#[derive(Debug, Clone, Copy)]
pub struct FetchOptions<'a> {
    /// Name in the catalogue.
    pub name: &'a str,
    /// The model folder; `None`: one of the network's name in `parent`.
    pub folder: Option<&'a Path>,
    /// Folder of model folders.
    pub parent: &'a Path,
    /// Address of the same file elsewhere; `None`: that of the catalogue.
    pub url: Option<&'a str>,
    /// Accept a file without a hash in the catalogue.
    pub accept_unverified: bool,
    /// Replace existing files.
    pub force: bool,
    /// Attempts and timeouts.
    pub retry: RetryPolicy,
}

/// A checked request.
#[derive(Debug)]
pub struct ModelFetch {
    entry: Entry,
    /// Address of the file.
    url: String,
    folder: PathBuf,
    path: PathBuf,
    /// Whether the folder has a description of this file, which then stays.
    is_described: bool,
    retry: RetryPolicy,
}

impl ModelFetch {
    /// Finds the network in the catalogue and checks the folder.
    ///
    /// # Errors
    /// The name is unknown, the file has no hash and that was not accepted, or the folder has other files.
    pub fn new(options: &FetchOptions<'_>) -> Result<Self> {
        let entries = model_zoo::entries()?;
        let Some(entry) = entries.iter().find(|entry| entry.name == options.name) else {
            let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
            bail!(
                "found the name `{}`, expected one of {}{}",
                options.name,
                names.join(", "),
                match CONVERTED.contains(&options.name) {
                    true => "; `make picodet` converts it in a checkout, and the package has it",
                    false => "",
                }
            );
        };
        let url = options.url.unwrap_or(&entry.url);
        check_hash(entry, url, options.accept_unverified)?;
        let folder = match options.folder {
            Some(folder) => folder.to_owned(),
            None => options.parent.join(&entry.name),
        };
        let path = folder.join(&entry.file);
        Ok(Self {
            is_described: check_folder(entry, &folder, &path, options.force)?,
            entry: entry.clone(),
            url: url.to_owned(),
            retry: options.retry,
            folder,
            path,
        })
    }

    /// The network's entry in the catalogue.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Where the file comes from, without passwords.
    pub fn origin(&self) -> String {
        redact(&self.url)
    }

    /// The model folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The network's file in the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Downloads the file, or resumes an interrupted download. Blocks until it is complete.
    ///
    /// # Errors
    /// The transfer failed permanently, or length or hash are wrong.
    pub fn download(
        &self,
        on_progress: &mut dyn FnMut(Progress),
    ) -> Result<DownloadResult, FetchError> {
        let download = Download {
            url: &self.url,
            bytes: self.entry.bytes,
            sha256: self.entry.sha256,
            path: &self.path,
        };
        model_zoo::download(&download, &self.retry, on_progress)
    }

    /// Writes labels and `model.yaml` for the file with the hash `sha256` where they are missing, and loads the folder.
    ///
    /// # Errors
    /// Writing fails, or the folder cannot be loaded.
    pub fn complete(&self, sha256: Sha256Digest) -> Result<ModelSpec> {
        if !self.is_described {
            atomic_write::write(&self.folder.join(LABELS), self.entry.labels.as_bytes())?;
            atomic_write::write(
                &self.folder.join(FILE_NAME),
                self.entry.model_yaml(sha256).as_bytes(),
            )?;
        }
        ModelSpec::load(&self.folder)
            .context("the file was fetched, but its description cannot be read")
    }
}

/// A file without a hash needs the option, and an https address, so that its content cannot be replaced in transit.
fn check_hash(entry: &Entry, url: &str, is_accepted: bool) -> Result<()> {
    if entry.sha256.is_some() {
        return Ok(());
    }
    if !url.starts_with("https://") {
        bail!(
            "{url}: the catalogue has no hash for {}: use an https address",
            entry.name
        );
    }
    if !is_accepted {
        bail!(
            "the catalogue has no hash for {}: fetch it with --accept-unverified, and compare the hash that is printed with \
             another source",
            entry.name
        );
    }
    Ok(())
}

/// Whether the folder has a description of this file, which then stays. Fails for one of another file.
fn check_folder(entry: &Entry, folder: &Path, path: &PathBuf, is_forced: bool) -> Result<bool> {
    let description = folder.join(FILE_NAME);
    if is_forced {
        return Ok(false);
    }
    if fs::symlink_metadata(&description).is_ok() {
        let spec = ModelSpec::load(folder).with_context(|| {
            format!(
                "{} exists and cannot be read; replace it with --force",
                description.display()
            )
        })?;
        let expected = entry.sha256;
        let file = spec.files.iter().find(|file| file.path == *path);
        return match file {
            Some(file) if Some(file.sha256) == expected => Ok(true),
            _ => bail!(
                "{} describes another file ({}), expected {} with SHA-256 {}: choose another folder with --into, or replace the \
                 description with --force",
                description.display(),
                file.map_or("not this one".to_owned(), |file| format!(
                    "SHA-256 {}",
                    file.sha256
                )),
                entry.file,
                expected.map_or("unknown".to_owned(), |digest| digest.to_string())
            ),
        };
    }
    // A file with the right hash stays.
    if path.exists() && entry.sha256 != atomic_write::hash(path).ok() {
        atomic_write::reject_existing([path])?;
    }
    atomic_write::reject_existing([&folder.join(LABELS)])?;
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_without_hash_needs_flag_and_https() {
        let mut entry = model_zoo::entries().expect("all are right").remove(0);
        assert!(check_hash(&entry, "http://mirror/x", false).is_ok());
        entry.sha256 = None;
        let error = check_hash(&entry, "https://h/x", false)
            .expect_err("it was not accepted")
            .to_string();
        assert!(error.contains("--accept-unverified"), "{error}");
        assert!(check_hash(&entry, "https://h/x", true).is_ok());
        assert!(check_hash(&entry, "http://mirror/x", true).is_err());
    }
}
