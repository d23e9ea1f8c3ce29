//! `jetwatch model list`: the networks of the catalogue.

use serde_json::json;

use super::{Exit, ListArgs};
use jetwatch_models::model_zoo;
use jetwatch_tables::{Align, TextTable};

/// Prints a table, or JSON.
pub(super) fn run(args: &ListArgs) -> anyhow::Result<Exit> {
    let entries = model_zoo::entries()?;
    if args.json {
        let entries: Vec<_> = entries
            .iter()
            .map(|entry| {
                json!({
                    "name": entry.name, "title": entry.title, "file": entry.file, "url": entry.url, "bytes": entry.bytes,
                    "sha256": entry.sha256, "verified": entry.verified, "license": entry.license,
                })
            })
            .collect();
        println!("{}", serde_json::to_string_pretty(&entries)?);
        return Ok(Exit::Success);
    }
    let mut table = TextTable::new(&[
        ("NAME", Align::Left),
        ("SIZE", Align::Right),
        ("LICENSE", Align::Left),
        ("WHAT", Align::Left),
    ]);
    for entry in &entries {
        let size = entry.bytes.map_or_else(
            || "unknown".to_owned(),
            |bytes| format!("{:.1} MB", bytes as f64 / 1e6),
        );
        let hash = if entry.sha256.is_some() {
            ""
        } else {
            " (hash unknown: --accept-unverified)"
        };
        let what = format!("{}{hash}", entry.title);
        table.push([&entry.name, &size, &entry.license, &what]);
    }
    println!("{table}");
    println!(
        "\nThese files are not part of jetwatch. `jetwatch model fetch NAME` gets one from its authors into models/NAME;"
    );
    println!(
        "the license is that of their repository, and --json says where the files lie and how their hashes became known."
    );
    Ok(Exit::Success)
}
