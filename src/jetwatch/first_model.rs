// SPDX-License-Identifier: Apache-2.0
//! The network for a first video or camera: one that is on this machine, else one that is fetched, else `street-nano`.
//!
//! Called by `jetwatch demo` when no model is given. `street-nano` was made for drawn scenes, so it comes last, with a line
//! that says what to expect.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;

use jetwatch_detect::model::ModelSpec;
use jetwatch_models::model_zoo::{self, RetryPolicy};
use jetwatch_models::{CONVERTED, FIRST_MODEL, FetchOptions};
use jetwatch_telemetry::with_causes;

use super::model::fetch;

/// The project's own network.
const STREET_NANO: &str = "street-nano";

/// What to expect of it on real video; the model card says how this was measured.
const STREET_NANO_NOTE: &str = "street-nano is a test network for drawn scenes: in real video it finds few objects and reports many \
                                false ones (AP 0.028 on COCO images)";

/// The model folder for a first video. Prints which network it is, if that was not obvious.
///
/// # Errors
/// No network is on this machine, and none can be fetched.
pub(super) fn choose() -> anyhow::Result<PathBuf> {
    let folders = jetwatch_config::model_folders();
    if let Some(found) = find(&names()?, &folders) {
        return Ok(found);
    }
    println!("No network for real video is on this machine; one is fetched, once.");
    // Of the user: it is writable, and serves all working folders.
    let target = jetwatch_config::user_cache()
        .unwrap_or_default()
        .join("models");
    match fetch_into(&target) {
        Ok(folder) => {
            println!();
            Ok(folder)
        }
        Err(error) => match find(&[STREET_NANO.to_owned()], &folders) {
            Some(folder) => {
                println!(
                    "No network could be fetched ({}); {STREET_NANO_NOTE}.\n",
                    with_causes(error.as_ref())
                );
                Ok(folder)
            }
            None => bail!(
                "no network is on this machine, and none could be fetched: {}; run `make picodet` in a checkout, or give a model folder \
                 with --model",
                with_causes(error.as_ref())
            ),
        },
    }
}

/// Names of networks in the order of preference.
fn names() -> anyhow::Result<Vec<String>> {
    let entries = model_zoo::entries()?.into_iter().map(|entry| entry.name);
    let first = [FIRST_MODEL]
        .into_iter()
        .chain(CONVERTED)
        .map(str::to_owned);
    Ok(first
        .chain(entries.filter(|name| name != FIRST_MODEL))
        .collect())
}

/// The first of `names` that is complete in one of `folders`.
fn find(names: &[String], folders: &[PathBuf]) -> Option<PathBuf> {
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|folder| is_complete(folder))
}

fn is_complete(folder: &Path) -> bool {
    ModelSpec::load(folder)
        .is_ok_and(|spec| spec.files.first().is_some_and(|file| file.path.is_file()))
}

/// Fetches the first network into a folder of its name below `target`.
fn fetch_into(target: &Path) -> anyhow::Result<PathBuf> {
    let fetched = fetch::fetch(&FetchOptions {
        name: FIRST_MODEL,
        folder: None,
        parent: target,
        url: None,
        accept_unverified: false,
        force: false,
        // Someone waits for the first picture, and there is a network without a download.
        retry: RetryPolicy {
            attempts: 2,
            connect: Duration::from_secs(10),
            ..RetryPolicy::default()
        },
    })?;
    Ok(fetched.folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_model_and_converted_networks_come_first() {
        let mut names = names().expect("the catalogue is right");
        assert_eq!(
            names[..3],
            ["picodet_s", "picodet_s_lcnet", "picodet_s_lcnet_416x256"]
        );
        names.retain(|name| !CONVERTED.contains(&name.as_str()));
        names.sort();
        let mut entries: Vec<String> = model_zoo::entries()
            .expect("the catalogue is right")
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        entries.sort();
        assert_eq!(names, entries);
    }
}
