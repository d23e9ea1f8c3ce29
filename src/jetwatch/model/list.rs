// SPDX-License-Identifier: Apache-2.0
//! `jetwatch model list`: lists the networks of the catalogue.

use serde_json::json;

use super::{Exit, ListArgs};
use jetwatch_models::{FIRST_MODEL, model_zoo};
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
        ("FROM", Align::Left),
        ("TITLE", Align::Left),
    ]);
    for entry in &entries {
        let size = entry.bytes.map_or_else(|| "unknown".to_owned(), megabytes);
        let hash = if entry.sha256.is_some() {
            ""
        } else {
            " (hash unknown: --accept-unverified)"
        };
        table.push([
            &entry.name,
            &size,
            &entry.license,
            host(&entry.url),
            &format!("{}{hash}", entry.title),
        ]);
    }
    println!("{table}");
    println!(
        "\nThese files are not part of jetwatch. `jetwatch model fetch NAME` fetches one into models/NAME and verifies it; without \
         NAME, the network\nfor a first video: {FIRST_MODEL}. The package has PicoDet, and `make picodet` converts it where only \
         package indexes can be reached.\nThe license is that of the authors. --json lists addresses and the origin of hashes."
    );
    Ok(Exit::Success)
}

/// Host of an https address.
fn host(url: &str) -> &str {
    let rest = url.trim_start_matches("https://");
    rest.split('/').next().unwrap_or(rest)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
