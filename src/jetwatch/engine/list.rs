// SPDX-License-Identifier: Apache-2.0
//! `jetwatch engine list`: lists the engines.

use super::{Exit, ListArgs};
use jetwatch_config::{Config, ENGINES_FOLDER};
use jetwatch_detect::engines::{EngineCache, ListedState};

/// Prints a table, or JSON.
pub(super) fn run(args: &ListArgs) -> anyhow::Result<Exit> {
    let folder = match (&args.config, &args.engines) {
        (Some(path), _) => Config::load(path)?.detector.tensorrt.engines,
        (None, Some(engines)) => engines.clone(),
        (None, None) => ENGINES_FOLDER.into(),
    };
    let list = EngineCache::new(&folder).list()?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&list)?);
        return Ok(Exit::Success);
    }
    if list.is_empty() {
        println!("no engines in {}", folder.display());
    }
    for listed in &list {
        let name = listed
            .path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let state = match &listed.state {
            ListedState::Whole => "whole".to_owned(),
            ListedState::Damaged(reason) => format!("DAMAGED: {reason}"),
            ListedState::Incomplete(reason) => format!("INCOMPLETE: {reason}"),
        };
        println!("{name}");
        if let Some(manifest) = &listed.manifest {
            let of = &manifest.recipe;
            println!(
                "    {} in {}, batches of 1 to {}, by {} {} for {} ({}), {:.1} MB, {}",
                of.model,
                of.precision,
                of.batch,
                of.builder,
                of.builder_version,
                of.gpu,
                of.compute_capability,
                manifest.plan_bytes as f64 / 1e6,
                manifest.built_at
            );
        }
        println!("    {state}");
    }
    Ok(Exit::Success)
}
