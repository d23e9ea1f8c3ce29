//! `jetwatch model fetch`: downloads a network of the catalogue into a model folder.

use jetwatch_models::model_zoo::Progress;
use jetwatch_models::{FetchOptions, ModelFetch};
use jetwatch_telemetry as telemetry;

use super::{Exit, FetchArgs};
use crate::progress::DownloadProgress;

/// Fetches the file, then completes the folder, and prints what was verified.
pub(super) fn run(args: &FetchArgs) -> anyhow::Result<Exit> {
    telemetry::start_logging(log::LevelFilter::Warn);
    let fetch = ModelFetch::new(&FetchOptions {
        name: &args.name,
        folder: args.into.as_deref(),
        url: args.from.as_deref(),
        accept_unverified: args.accept_unverified,
        force: args.force,
    })?;
    let entry = fetch.entry();
    println!("{}: {}", entry.name, fetch.url());
    let fetched = fetch.download(&mut show_progress())?;
    let what = if fetched.was_present {
        "exists already"
    } else {
        "fetched"
    };
    println!(
        "{what}: {}, SHA-256 {}",
        fetch.path().display(),
        fetched.sha256
    );
    match &entry.sha256 {
        Some(_) => println!("the hash matches the catalogue: {}", entry.verified),
        None => println!(
            "NOT VERIFIED: the catalogue has no hash for this file; compare the hash above with another source"
        ),
    }
    let spec = fetch.complete(fetched.sha256)?;
    println!(
        "license: {} ({}); read the terms there",
        spec.license.spdx, spec.license.source
    );
    println!("to use it: detector.model: {}", fetch.folder().display());
    Ok(Exit::Success)
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
