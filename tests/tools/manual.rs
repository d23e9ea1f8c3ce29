// SPDX-License-Identifier: Apache-2.0
//! `jetwatch manual`: the manual pages and the completions of shells that `cross/build` puts into the package.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jetwatch"))
        .args(arguments)
        .output()
        .expect("the binary starts")
}

/// Runs `jetwatch manual` and returns its files by name.
fn write_manual(folder: &Path) -> BTreeMap<String, String> {
    let folder = folder.join("made/here");
    let output = run(&["manual", "--out", folder.to_str().expect("a path in UTF-8")]);
    assert!(output.status.success(), "{output:?}");
    let entries = fs::read_dir(&folder).expect("the folder is made");
    entries
        .map(|entry| entry.expect("readable"))
        .map(|entry| {
            let name = entry.file_name().into_string().expect("a plain name");
            (name, fs::read_to_string(entry.path()).expect("a text"))
        })
        .collect()
}

/// Subcommands as `jetwatch --help` lists them.
fn subcommands() -> Vec<String> {
    let help = String::from_utf8(run(&["--help"]).stdout).expect("UTF-8");
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    lines
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_subcommand_has_a_manual_page_and_completions() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files = write_manual(folder.path());
    let subcommands = subcommands();
    assert!(subcommands.contains(&"run".to_owned()), "{subcommands:?}");
    for name in &subcommands {
        let page = files.get(&format!("jetwatch-{name}.1"));
        let page = page.unwrap_or_else(|| panic!("{name}: {:?}", files.keys()));
        assert!(page.contains(".SH SYNOPSIS"), "{name}: {page}");
    }
    assert!(files["jetwatch.1"].contains("Exit codes:"));
    assert!(files["jetwatch-run.1"].contains(r"\-\-config"));
    for shell in ["jetwatch.bash", "_jetwatch", "jetwatch.fish"] {
        for name in &subcommands {
            assert!(files[shell].contains(name.as_str()), "{shell}: {name}");
        }
    }
}

#[test]
fn hidden_commands_are_not_documented() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files = write_manual(folder.path());
    for hidden in ["manual", "test-clip"] {
        for (name, text) in &files {
            assert!(!name.contains(hidden), "{name}");
            // As Bash, Zsh and fish name a subcommand.
            for trace in [
                format!("__{}", hidden.replace('-', "__")),
                format!("'{hidden}:"),
                format!("-a \"{hidden}\""),
            ] {
                assert!(!text.contains(&trace), "{name}: {trace}");
            }
        }
        assert!(!subcommands().contains(&hidden.to_owned()), "{hidden}");
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_with_its_path() {
    let output = run(&["manual", "--out", "/proc/manual"]);
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("/proc/manual"), "{error}");
}
