//! `jetwatch model pack`: packs model folders and a configuration into a bundle.

use std::path::{Path, PathBuf};

use anyhow::bail;
use jiff::Timestamp;

use jetwatch_bundles::{BundledModel, PackOptions, pack};
use jetwatch_detect::model::ModelSpec;

use super::PackArgs;
use crate::Exit;

/// Name of the model folder where none is given, for `bundle:NAME`.
const DEFAULT_FOLDER: &str = "model";

/// Packs the bundle and prints how it is signed.
pub(crate) fn run(args: &PackArgs) -> anyhow::Result<Exit> {
    let mut models = Vec::new();
    for text in &args.model {
        let (folder, path) = split_model(text, args.model.len())?;
        // A folder that no daemon loads is not published.
        ModelSpec::load(&path)?;
        if !path.join("golden.json").exists() {
            eprintln!(
                "{}: no golden.json: boxes do not install it as their detector; write it with `jetwatch doctor --detector --model {} --record {}/golden.json`",
                path.display(),
                path.display(),
                path.display()
            );
        }
        let model = BundledModel {
            folder,
            precision: args.precision.clone(),
        };
        models.push((model, path));
    }
    let packed = pack(&PackOptions {
        name: args.name.clone(),
        serial: args.serial,
        // Whole seconds: what the manifest shows.
        created: Timestamp::from_second(Timestamp::now().as_second())?,
        expires: args.expires,
        min_jetwatch: args.min_jetwatch,
        models,
        configuration: args.configuration.clone(),
        folder: args.out.clone(),
    })?;
    println!(
        "packed     {} ({} files, {:.1} MB)",
        packed.path.display(),
        packed.manifest.files.len(),
        packed.bytes as f64 / 1e6
    );
    for model in &packed.manifest.models {
        let suffix = match model.folder.as_str() {
            DEFAULT_FOLDER => String::new(),
            folder => format!("/{folder}"),
        };
        println!("use        model: bundle:{}{suffix}", args.name);
    }
    println!(
        "sign       minisign -S -t '{} {}' -m {}",
        args.name,
        args.serial,
        packed.path.display()
    );
    Ok(Exit::Success)
}

/// Name and place of a model folder.
fn split_model(text: &str, count: usize) -> anyhow::Result<(String, PathBuf)> {
    if let Some((folder, path)) = text.split_once('=') {
        return Ok((folder.to_owned(), path.into()));
    }
    if count > 1 {
        bail!(
            "found --model {text} among {count}, expected FOLDER=DIR: several model folders need names"
        );
    }
    Ok((DEFAULT_FOLDER.to_owned(), Path::new(text).to_owned()))
}
