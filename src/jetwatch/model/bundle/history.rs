//! `jetwatch model history`: which versions of bundles are installed, and what was done.

use std::path::Path;

use jetwatch_bundles::{BundleError, State};
use jetwatch_config::BUNDLES_FOLDER;
use jetwatch_tables::{Align, TextTable};

use super::HistoryArgs;
use crate::Exit;

/// Prints the states.
pub(crate) fn run(args: &HistoryArgs) -> anyhow::Result<Exit> {
    let mut states = State::load_all(Path::new(BUNDLES_FOLDER))?;
    if let Some(name) = &args.name {
        states.retain(|state| state.name == *name);
        if states.is_empty() {
            return Err(BundleError::NotInstalled { name: name.clone() }.into());
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&states)?);
        return Ok(Exit::Success);
    }
    if states.is_empty() {
        println!("no bundle is installed");
    }
    for state in &states {
        let serial =
            |version: Option<u64>| version.map_or("none".to_owned(), |serial| serial.to_string());
        let current = state.current.as_ref().map(|version| version.serial);
        let previous = state.previous.as_ref().map(|version| version.serial);
        let highest = state.highest.map(|highest| highest.serial);
        println!(
            "{}: version {} is in use, before it {}, highest serial number {}",
            state.name,
            serial(current),
            serial(previous),
            serial(highest)
        );
        if state.is_interrupted() {
            println!("  a switch has not ended; it runs, or `jetwatch model recover` ends it");
        }
        let mut table = TextTable::new(&[
            ("TIME", Align::Left),
            ("ACTION", Align::Left),
            ("SERIAL", Align::Right),
            ("OUTCOME", Align::Left),
            ("REASON", Align::Left),
        ])
        .indented(2);
        for entry in &state.history {
            table.push([
                entry.time.clone(),
                entry.action.name().to_owned(),
                entry.serial.to_string(),
                entry.outcome.name().to_owned(),
                entry.text.clone(),
            ]);
        }
        println!("{table}");
    }
    Ok(Exit::Success)
}
