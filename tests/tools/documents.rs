// SPDX-License-Identifier: Apache-2.0
//! The documents agree with the program and with each other: every configuration that they show loads, every relative link
//! leads to a file, every page is in the book, and the README stays short.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use jetwatch_config::Config;

/// Maximum length of the README, in lines.
const MAX_README_LINES: usize = 120;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Markdown files at the top and in the book.
fn documents() -> Vec<PathBuf> {
    let mut files = Vec::new();
    markdown_in(root(), false, &mut files);
    markdown_in(&root().join("docs/src"), true, &mut files);
    assert!(files.len() > 20, "{files:?}");
    files
}

fn markdown_in(folder: &Path, recursive: bool, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() && recursive {
            markdown_in(&path, recursive, files);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
}

/// The text between ```` ```yaml ```` and ```` ``` ````, for each such block.
fn yaml_blocks(text: &str) -> Vec<&str> {
    text.split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or(rest))
        .collect()
}

/// Targets of links and images that are paths, without the part behind `#`. Code is skipped.
fn relative_links(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose
        .flat_map(|part| part.split("](").skip(1))
        .filter_map(|rest| rest.split(')').next()?.split('#').next())
        .filter(|target| !target.is_empty() && !target.contains("://"))
        .collect()
}

#[test]
fn configurations_in_the_documents_load() {
    let mut complete = 0;
    for path in documents() {
        let text = read(&path);
        // Excerpts of a configuration have no sources.
        for block in yaml_blocks(&text) {
            if block.starts_with("sources:") {
                Config::from_str(&path.display().to_string(), block)
                    .unwrap_or_else(|error| panic!("{error}"));
                complete += 1;
            }
        }
    }
    assert!(complete >= 3, "found {complete} configurations");
    Config::load(&root().join("examples/minimal.yaml")).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn relative_links_lead_to_files() {
    for path in documents() {
        let text = read(&path);
        let folder = path.parent().expect("a folder");
        for target in relative_links(&text) {
            assert!(
                folder.join(target).exists(),
                "{}: no file {target}",
                path.display()
            );
        }
    }
}

#[test]
fn every_page_is_in_the_book() {
    let book = root().join("docs/src");
    let summary = read(&book.join("SUMMARY.md"));
    let listed: BTreeSet<PathBuf> = relative_links(&summary)
        .into_iter()
        .map(|target| book.join(target))
        .collect();
    let mut pages = Vec::new();
    markdown_in(&book, true, &mut pages);
    pages.retain(|page| !page.ends_with("SUMMARY.md"));
    let pages: BTreeSet<PathBuf> = pages.into_iter().collect();
    assert_eq!(pages, listed);
}

#[test]
fn the_readme_is_short() {
    let lines = read(&root().join("README.md")).lines().count();
    assert!(lines <= MAX_README_LINES, "README.md has {lines} lines");
}
