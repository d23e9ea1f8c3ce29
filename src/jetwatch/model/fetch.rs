//! `jetwatch model fetch`: a network of the catalogue into a model folder.

use std::fs;
use std::io::{IsTerminal, Write, stderr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{Exit, FetchArgs, atomic_write};
use jetwatch_detect::model::{FILE_NAME, ModelSpec};
use jetwatch_models::model_zoo::{self, Download, Entry, Progress, RetryPolicy};
use jetwatch_telemetry as telemetry;

/// Name of the labels file in the folder.
const LABELS: &str = "labels.txt";

/// Fetches the file, then writes what describes it: a folder with a `model.yaml` is complete.
pub(super) fn run(args: &FetchArgs) -> Result<Exit> {
    telemetry::start_logging(log::LevelFilter::Warn);
    let entries = model_zoo::entries()?;
    let Some(entry) = entries.iter().find(|entry| entry.name == args.name) else {
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        bail!(
            "found the name `{}`, expected one of {}",
            args.name,
            names.join(", ")
        );
    };
    let url = args.from.as_deref().unwrap_or(&entry.url);
    check_hash(entry, url, args.accept_unverified)?;
    let folder = args
        .into
        .clone()
        .unwrap_or_else(|| Path::new("models").join(&entry.name));
    let path = folder.join(&entry.file);
    let described = check_folder(entry, &folder, &path, args.force)?;
    println!("{}: {url}", entry.name);
    let download = Download {
        url,
        bytes: entry.bytes,
        sha256: entry.sha256,
        path: &path,
    };
    let fetched = model_zoo::download(
        &download,
        &RetryPolicy::default(),
        &mut ProgressLine::default().into_callback(),
    )?;
    let what = if fetched.was_present {
        "is there already"
    } else {
        "fetched"
    };
    println!("{what}: {}, SHA-256 {}", path.display(), fetched.sha256);
    match &entry.sha256 {
        Some(_) => println!("its hash is the one in the catalogue: {}", entry.verified),
        None => println!(
            "NOT VERIFIED: the catalogue knows no hash for it; compare the one above with what others have"
        ),
    }
    if !described {
        atomic_write::write(&folder.join(LABELS), entry.labels.as_bytes())?;
        atomic_write::write(
            &folder.join(FILE_NAME),
            entry.model_yaml(fetched.sha256).as_bytes(),
        )?;
    }
    let spec = ModelSpec::load(&folder)
        .context("the file is there, but its description cannot be read")?;
    println!(
        "license: {} ({}); terms of the repository, see there",
        spec.license.spdx, spec.license.source
    );
    println!("use it: detector.model: {}", folder.display());
    Ok(Exit::Success)
}

/// A file without a hash is taken only by who says so, and never from an address that anybody on the way can change.
fn check_hash(entry: &Entry, url: &str, is_accepted: bool) -> Result<()> {
    if entry.sha256.is_some() {
        return Ok(());
    }
    if !url.starts_with("https://") {
        bail!(
            "{url}: the catalogue knows no hash for {}: only https addresses are taken then",
            entry.name
        );
    }
    if !is_accepted {
        bail!(
            "the catalogue knows no hash for {}: fetch it with --accept-unverified, and compare the hash that is printed with \
             what others have",
            entry.name
        );
    }
    Ok(())
}

/// Whether the folder has a description of this very file, which then stays. Fails for one of another file.
fn check_folder(entry: &Entry, folder: &Path, path: &PathBuf, is_forced: bool) -> Result<bool> {
    let description = folder.join(FILE_NAME);
    if is_forced {
        return Ok(false);
    }
    if fs::symlink_metadata(&description).is_ok() {
        let spec = ModelSpec::load(folder).with_context(|| {
            format!(
                "{} is there and cannot be read; replace it with --force",
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
    // A file with the right hash is taken as it is.
    if path.exists() && entry.sha256 != atomic_write::hash(path).ok() {
        atomic_write::reject_existing([path])?;
    }
    atomic_write::reject_existing([&folder.join(LABELS)])?;
    Ok(false)
}

/// The progress line on a terminal; without one, only failures are told.
#[derive(Default)]
struct ProgressLine {
    drawn_bytes: u64,
}

impl ProgressLine {
    fn into_callback(mut self) -> impl FnMut(Progress) {
        let is_terminal = stderr().is_terminal();
        move |progress| match progress {
            Progress::Received { bytes, of } if is_terminal => self.draw(bytes, of),
            Progress::Received { .. } => {}
            Progress::Waiting { reason, wait } => {
                self.drawn_bytes = 0;
                let clear = if is_terminal { "\x1b[K" } else { "" };
                eprintln!(
                    "{clear}{reason}; next attempt in {:.0} s",
                    wait.as_secs_f64().ceil()
                );
            }
        }
    }

    /// Draws when a hundredth, or half a megabyte, has come since the last time.
    fn draw(&mut self, bytes: u64, of: Option<u64>) {
        let step = of.map_or(500_000, |of| of / 100).max(1);
        if bytes < self.drawn_bytes.saturating_add(step) && Some(bytes) != of {
            return;
        }
        self.drawn_bytes = bytes;
        let _ = write!(stderr(), "\x1b[K{}\r", bar(bytes, of));
        if Some(bytes) == of {
            let _ = write!(stderr(), "\x1b[K");
        }
    }
}

fn bar(bytes: u64, of: Option<u64>) -> String {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    match of {
        Some(of) if of > 0 => {
            let full = usize::try_from(bytes.min(of) * 30 / of).unwrap_or(30);
            format!(
                "[{}{}] {:3} %  {:.1} of {:.1} MB",
                "#".repeat(full),
                " ".repeat(30 - full),
                bytes.min(of) * 100 / of,
                megabytes(bytes),
                megabytes(of)
            )
        }
        _ => format!("{:.1} MB", megabytes(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_bar_grows_with_received_bytes() {
        assert_eq!(
            bar(0, Some(2_000_000)),
            format!("[{}]   0 %  0.0 of 2.0 MB", " ".repeat(30))
        );
        assert_eq!(
            bar(2_000_000, Some(2_000_000)),
            format!("[{}] 100 %  2.0 of 2.0 MB", "#".repeat(30))
        );
        assert_eq!(bar(1_500_000, None), "1.5 MB");
    }

    #[test]
    fn file_without_hash_needs_flag_and_https() {
        let mut entry = model_zoo::entries().expect("all are right").remove(0);
        assert!(check_hash(&entry, "http://mirror/x", false).is_ok());
        entry.sha256 = None;
        let error = check_hash(&entry, "https://h/x", false)
            .expect_err("nobody agreed")
            .to_string();
        assert!(error.contains("--accept-unverified"), "{error}");
        assert!(check_hash(&entry, "https://h/x", true).is_ok());
        assert!(check_hash(&entry, "http://mirror/x", true).is_err());
    }
}
