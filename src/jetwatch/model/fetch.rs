// SPDX-License-Identifier: Apache-2.0
//! `jetwatch model fetch`: fetches a network of the catalogue into a model folder.

use std::path::{Path, PathBuf};

use jetwatch_detect::model::ModelSpec;
use jetwatch_models::model_zoo::{Progress, RetryPolicy};
use jetwatch_models::{FIRST_MODEL, FetchOptions, ModelFetch};
use jetwatch_telemetry as telemetry;

use super::{Exit, FetchArgs};
use crate::progress::DownloadProgress;

/// Fetches the file, then completes the folder, and prints what was verified.
pub(super) fn run(args: &FetchArgs) -> anyhow::Result<Exit> {
    telemetry::start_logging(log::LevelFilter::Warn);
    let fetched = fetch(&FetchOptions {
        name: args.name.as_deref().unwrap_or(FIRST_MODEL),
        folder: args.into.as_deref(),
        parent: Path::new("models"),
        url: args.from.as_deref(),
        accept_unverified: args.accept_unverified,
        force: args.force,
        retry: RetryPolicy::default(),
    })?;
    println!("to use it: detector.model: {}", fetched.folder.display());
    Ok(Exit::Success)
}

/// A complete model folder.
pub(crate) struct FetchedModel {
    pub(crate) folder: PathBuf,
}

/// Fetches a network and completes its folder. Prints what was fetched and verified.
pub(crate) fn fetch(options: &FetchOptions<'_>) -> anyhow::Result<FetchedModel> {
    let fetch = ModelFetch::new(options)?;
    println!("{}: {}", fetch.entry().name, fetch.origin());
    let result = fetch.download(&mut show_progress())?;
    let entry = fetch.entry();
    let what = if result.was_present {
        "exists already"
    } else {
        "fetched"
    };
    println!(
        "{what}: {}, SHA-256 {}",
        fetch.path().display(),
        result.sha256
    );
    match &entry.sha256 {
        Some(_) => println!("the hash matches the catalogue: {}", entry.verified),
        None => println!(
            "NOT VERIFIED: the catalogue has no hash for this file; compare the hash above with another source"
        ),
    }
    let spec: ModelSpec = fetch.complete(result.sha256)?;
    println!(
        "license: {} ({}); read the terms there",
        spec.license.spdx, spec.license.source
    );
    Ok(FetchedModel {
        folder: fetch.folder().to_owned(),
    })
}

/// Shows what has arrived, and prints why and how long a failed download waits.
fn show_progress() -> impl FnMut(Progress) {
    let line = DownloadProgress::start();
    move |progress| match progress {
        Progress::Received { bytes, of } => line.show(bytes, of),
        Progress::Waiting { reason, wait } => {
            eprintln!(
                "{reason}; next attempt in {:.0} s",
                wait.as_secs_f64().ceil()
            );
        }
    }
}
