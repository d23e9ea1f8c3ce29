// SPDX-License-Identifier: Apache-2.0
//! The documents agree with the program and with each other: every configuration that they show loads, every relative link
//! leads to a file and to one of its headings, every page is in the book, and the README stays short.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use jetwatch_config::{Config, heading_slug};

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

/// Path and anchor of links and images that are no addresses; each may be empty. Code is skipped.
fn links(text: &str) -> Vec<(&str, &str)> {
    let prose = text.split("```").step_by(2);
    prose
        .flat_map(|part| part.split("](").skip(1))
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.contains("://"))
        .map(|target| target.split_once('#').unwrap_or((target, "")))
        .collect()
}

/// The anchors that code hosts and mdBook both give to the headings. Code is skipped.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in text.split("```").step_by(2).flat_map(str::lines) {
        let heading = line.trim_start_matches('#');
        let Some(heading) = heading.strip_prefix(' ').filter(|_| heading != line) else {
            continue;
        };
        assert!(!heading.contains("{#"), "only mdBook knows {heading}");
        let slug = heading_slug(heading);
        // A heading that occurs again gets a number.
        let mut numbered = (0..).map(|number| match number {
            0 => slug.clone(),
            number => format!("{slug}-{number}"),
        });
        anchors.extend(numbered.find(|slug| !anchors.contains(slug)));
    }
    anchors
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
fn the_minimal_configuration_is_shown_as_it_is() {
    let file = read(&root().join("examples/minimal.yaml"));
    for page in ["README.md", "docs/src/guide/configuration.md"] {
        let text = read(&root().join(page));
        assert!(yaml_blocks(&text).contains(&file.as_str()), "{page}");
    }
}

#[test]
fn relative_links_lead_to_files_and_headings() {
    for path in documents() {
        let text = read(&path);
        let folder = path.parent().expect("a folder");
        for (target, anchor) in links(&text) {
            let linked = match target {
                "" => path.clone(),
                target => folder.join(target),
            };
            assert!(linked.exists(), "{}: no file {target}", path.display());
            assert!(
                anchor.is_empty() || anchors(&read(&linked)).contains(anchor),
                "{}: no heading {target}#{anchor}",
                path.display()
            );
        }
    }
}

#[test]
fn headings_have_their_automatic_anchors() {
    let text = "# A\n```sh\n# code\n```\n## `a[].b_c`: d, e\n## A\n### A\n";
    let wanted = ["a", "a-1", "a-2", "ab_c-d-e"].map(str::to_owned);
    assert_eq!(anchors(text), BTreeSet::from(wanted));
}

#[test]
fn every_page_is_in_the_book() {
    let book = root().join("docs/src");
    let summary = read(&book.join("SUMMARY.md"));
    let listed: BTreeSet<PathBuf> = links(&summary)
        .into_iter()
        .map(|(target, _)| book.join(target))
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
