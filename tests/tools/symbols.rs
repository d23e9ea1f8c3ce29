// SPDX-License-Identifier: Apache-2.0
//! The binary needs no symbol newer than GStreamer 1.16 and GLib 2.64, JetPack 5's: with a newer one it would not start there.
//!
//! Which version introduced a symbol is read from the `symbols` files that Debian and Ubuntu install with these libraries.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// Packages whose symbols are checked, with the newest version allowed.
const LIMITS: [(&str, (u32, u32)); 4] = [
    ("libgstreamer1.0-0", (1, 16)),
    ("libgstreamer-plugins-base1.0-0", (1, 16)),
    ("libglib2.0-0", (2, 64)),
    ("libglib2.0-0t64", (2, 64)),
];

/// Symbols of an installed package with the version that introduced each; `None` where it is not installed.
fn introduced(package: &str) -> Option<BTreeMap<String, (u32, u32)>> {
    let entries = fs::read_dir("/var/lib/dpkg/info").ok()?;
    let path = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            name.strip_prefix(package).is_some_and(|rest| {
                rest == ".symbols" || (rest.starts_with(':') && rest.ends_with(".symbols"))
            })
        })?;
    let text = fs::read_to_string(path).ok()?;
    Some(text.lines().filter_map(symbol).collect())
}

/// ` gst_init@Base 1.0.0` as its name and version.
fn symbol(line: &str) -> Option<(String, (u32, u32))> {
    let (name, rest) = line.strip_prefix(' ')?.split_once('@')?;
    let version = rest.split_whitespace().nth(1)?;
    let mut numbers = version.split(['.', '-', '~', '+']).map(str::parse::<u32>);
    Some((
        name.to_owned(),
        (numbers.next()?.ok()?, numbers.next()?.ok()?),
    ))
}

/// Symbols that are newer than their package's limit.
fn too_new<'a>(
    wanted: &[&'a str],
    known: &BTreeMap<String, (u32, u32)>,
    limit: (u32, u32),
) -> Vec<&'a str> {
    wanted
        .iter()
        .copied()
        .filter(|name| known.get(*name).is_some_and(|version| *version > limit))
        .collect()
}

#[test]
fn the_binary_runs_with_jetpack_5s_libraries() {
    let output = Command::new("nm")
        .args(["-D", "--undefined-only", env!("CARGO_BIN_EXE_jetwatch")])
        .output()
        .expect("nm starts; it comes with gcc");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let wanted: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().last()?.split('@').next())
        .collect();
    assert!(
        wanted
            .iter()
            .filter(|name| name.starts_with("gst_"))
            .count()
            > 50,
        "{} symbols",
        wanted.len()
    );
    let mut checked = 0;
    for (package, limit) in LIMITS {
        let Some(known) = introduced(package) else {
            continue;
        };
        let newer = too_new(&wanted, &known, limit);
        assert!(
            newer.is_empty(),
            "newer than {package} {}.{}: {newer:?}",
            limit.0,
            limit.1
        );
        checked += wanted
            .iter()
            .filter(|name| known.contains_key(**name))
            .count();
    }
    if checked == 0 {
        eprintln!("skipped: no symbols files in /var/lib/dpkg/info");
    }
}

#[test]
fn newer_symbol_is_detected() {
    let known = [
        " gst_init@Base 1.0.0",
        " gst_element_get_current_running_time@Base 1.18.0",
        "* Build-Depends-Package: x",
    ];
    let known: BTreeMap<_, _> = known.into_iter().filter_map(symbol).collect();
    assert_eq!(known.len(), 2);
    let found = too_new(
        &["gst_init", "gst_element_get_current_running_time", "write"],
        &known,
        (1, 16),
    );
    assert_eq!(found, ["gst_element_get_current_running_time"]);
}
