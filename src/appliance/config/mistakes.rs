//! Mistakes of each section with their whole reports: the pairs in `mistakes.txt`. A file with many mistakes at once is read in
//! `tests/config_mistakes.rs`.
//!
//! `UPDATE_GOLDEN=1 cargo test -p jetwatch-config mistakes` writes the reports again; read the difference before keeping it.

use std::fs;

use crate::{Config, ConfigError};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/mistakes.txt");

/// Sections that a case does not have.
const BASE: [(&str, &str); 2] = [
    ("sources:", "sources: [{name: a, uri: /v.mp4}]"),
    ("detector:", "detector: {model: /m}"),
];

/// The configuration of these sections, and of those that it lacks.
fn read(path: &str, sections: &str) -> Result<Config, ConfigError> {
    let is_missing = |key: &str| !sections.lines().any(|line| line.starts_with(key));
    let base = BASE.iter().filter(|(key, _)| is_missing(key));
    let base: String = base.map(|(_, line)| format!("{line}\n")).collect();
    Config::from_str(path, &format!("{sections}\n{base}"))
}

/// The configuration of sections without a mistake, in the folder `conf`.
pub(crate) fn loaded(sections: &str) -> Config {
    read("conf/f.yaml", sections).unwrap_or_else(|error| panic!("{sections}\n{error}"))
}

/// The problems of a configuration, one a line.
fn report(case: &[&str]) -> String {
    let text = case.join("\n");
    let error = read("f.yaml", &text).expect_err(&text);
    let problems = error.problems().iter();
    let lines: String = problems.map(|problem| format!("  > {problem}\n")).collect();
    assert!(!lines.contains("hunter"), "a secret is reported: {lines}");
    lines
}

#[test]
fn each_mistake_has_its_report() {
    let text = fs::read_to_string(FILE).expect("readable");
    let (mut found, mut case) = (String::new(), Vec::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_report = |line: &str| line.starts_with("  > ");
        if is_report(line) {
            continue;
        }
        found += &format!("{line}\n");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        case.push(line);
        if lines.peek().is_some_and(|next| is_report(next)) {
            found += &report(&case);
            case.clear();
        }
    }
    assert!(case.is_empty(), "{case:?} has no report");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return fs::write(FILE, &found).expect("written");
    }
    for (found, kept) in found.lines().zip(text.lines()) {
        assert_eq!(found, kept);
    }
    assert_eq!(found.len(), text.len());
}
