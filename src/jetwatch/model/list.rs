//! `jetwatch model list`: lists the networks of the catalogue.

use serde_json::json;

use super::{Exit, ListArgs};
use jetwatch_models::FIRST_MODEL;
use jetwatch_models::model_zoo::{self, Measured};
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
                    "measured": entry.measured.as_ref().map(|measured| json!({ "ap": measured.ap, "ms": measured.ms })),
                })
            })
            .collect();
        println!("{}", serde_json::to_string_pretty(&entries)?);
        return Ok(Exit::Success);
    }
    let mut table = TextTable::new(&[
        ("NAME", Align::Left),
        ("SIZE", Align::Right),
        ("AP", Align::Right),
        ("MS", Align::Right),
        ("LICENSE", Align::Left),
        ("FROM", Align::Left),
        ("TITLE", Align::Left),
    ]);
    for entry in &entries {
        let size = entry.bytes.map_or_else(|| "unknown".to_owned(), megabytes);
        let measured = |value: fn(&Measured) -> String| {
            entry
                .measured
                .as_ref()
                .map_or_else(|| "-".to_owned(), value)
        };
        let hash = if entry.sha256.is_some() {
            ""
        } else {
            " (hash unknown: --accept-unverified)"
        };
        table.push([
            &entry.name,
            &size,
            &measured(|measured| format!("{:.3}", measured.ap)),
            &measured(|measured| format!("{:.1}", measured.ms)),
            &entry.license,
            host(&entry.url),
            &format!("{}{hash}", entry.title),
        ]);
    }
    println!("{table}");
    println!(
        "\nThese files are not part of jetwatch. `jetwatch model fetch NAME` fetches one into models/NAME and verifies it; without \
         NAME, the network\nfor a first video: {FIRST_MODEL}. The package has PicoDet, and `make picodet` converts it where only \
         package indexes can be reached.\nThe license is that of the authors."
    );
    println!(
        "AP: on 128 images of COCO. MS: per image on one core of an AMD EPYC. Both measured by the project; `-`: not measured. \
         --json lists\naddresses and the origin of hashes."
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
