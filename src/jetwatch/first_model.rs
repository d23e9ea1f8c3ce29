//! The network for a first video or camera: one that is on this machine, else one that is fetched, else `street-nano`.
//!
//! Called by `jetwatch demo` when no model is given. `street-nano` was made for drawn scenes, so it comes last, with a line
//! that says what to expect.

use std::path::{Path, PathBuf};

use anyhow::bail;

use jetwatch_detect::model::ModelSpec;
use jetwatch_models::model_zoo::{self, RetryPolicy};
use jetwatch_models::{FIRST_MODEL, FetchOptions};
use jetwatch_telemetry::with_causes;

use super::model::fetch;

/// Where models are: of the project or of the working folder, of the service, of the package.
const FOLDERS: [&str; 3] = [
    "models",
    "/var/lib/jetwatch/models",
    "/usr/share/jetwatch/models",
];

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
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    let cache = model_zoo::cache_folder().map(|cache| cache.join("models"));
    folders.extend(cache.clone());
    if let Some(found) = find(&names()?, &folders) {
        return Ok(found);
    }
    println!("No network for real video is on this machine; one is fetched, once.");
    // The fallback has the folder of its own name.
    let target = cache.unwrap_or_else(|| FOLDERS[0].into());
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
                "no network is on this machine, and none could be fetched: {}; give a model folder with --model",
                with_causes(error.as_ref())
            ),
        },
    }
}

/// Names of the catalogue in the order of preference.
fn names() -> anyhow::Result<Vec<String>> {
    let entries = model_zoo::entries()?;
    let first = entries.iter().find(|entry| entry.name == FIRST_MODEL);
    let mut names = vec![FIRST_MODEL.to_owned()];
    names.extend(first.and_then(|entry| entry.fallback.clone()));
    for entry in entries {
        if !names.contains(&entry.name) {
            names.push(entry.name);
        }
    }
    Ok(names)
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

/// Fetches the first network or its fallback into a folder of its name below `target`.
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
            ..RetryPolicy::default()
        },
    })?;
    Ok(fetched.folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_model_and_its_fallback_come_first() {
        let names = names().expect("the catalogue is right");
        assert_eq!(names[..2], ["picodet_s", "picodet_s_lcnet"]);
        assert_eq!(
            names.len(),
            model_zoo::entries().expect("the catalogue is right").len()
        );
    }
}
