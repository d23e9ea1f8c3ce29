//! The house rules as a test: floors, fences, where unsafe code may stand, and how files begin and end.
//!
//! Rust files are read as tokens, so that comments and texts do not count and macros do. The checker is tested on a small
//! house that breaks every rule: a check that cannot fail is worth nothing. Tables first, the tests below them, the
//! checker last.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A room may name rooms on lower floors only. The cellar lies below all of them.
const FLOORS: &[(&str, i32)] = &[
    ("cli", 4),
    ("pipeline", 3),
    ("source", 2),
    ("detect", 2),
    ("track", 2),
    ("accuracy", 2),
    ("benchmark", 2),
    ("analytics", 2),
    ("render", 2),
    ("catalog", 2),
    ("profile", 2),
    ("publish", 2),
    ("web", 2),
    ("report", 2),
    ("platform", 1),
    ("config", 1),
    ("telemetry", 1),
    ("types", 0),
];

/// The room below the floors, which names no other, and the rooms that may name it.
const CELLAR: (&str, [&str; 3]) = ("nvidia", ["detect", "source", "render"]);

/// Outside crates that have a home.
const HOMES: &[(&str, &[&str])] = &[
    ("gstreamer", &["source", "render", "nvidia"]),
    ("gstreamer_app", &["source", "render", "nvidia"]),
    ("gstreamer_video", &["source", "render", "nvidia"]),
    ("image", &["source"]),
    ("mqtt5", &["publish"]),
    ("tokio", &["publish"]),
    ("clap", &["cli"]),
    ("clap_mangen", &["cli"]),
    ("clap_complete", &["cli"]),
    ("anyhow", &["cli"]),
    ("ureq", &["catalog"]),
    ("ort", &["detect"]),
    ("nvtx", &["telemetry"]),
    ("env_logger", &["telemetry"]),
    ("systemd_journal_logger", &["telemetry"]),
    ("sd_notify", &["telemetry"]),
    ("saphyr", &["config"]),
    ("saphyr_parser", &["config"]),
    ("percent_encoding", &["config"]),
    ("rusqlite", &["report"]),
    ("cudarc", &["nvidia"]),
    ("libloading", &["nvidia"]),
];

/// Names that say nothing about what a file is.
const EMPTY_NAMES: [&str; 6] = ["utils", "util", "common", "helpers", "helper", "manager"];

/// Most lines of a file below `src`.
const MAX_LINES: usize = 500;

#[test]
fn the_house_is_in_order() {
    let broken = check(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(
        broken.is_empty(),
        "{} broken rules:\n{}",
        broken.len(),
        broken.join("\n")
    );
}

#[test]
fn every_broken_rule_is_found() {
    // Put together here, so that this file does not break the rules that it tests.
    let later = ["TO", "DO"].concat();
    let workplace = ["/wo", "rk/data"].concat();
    let files = [
        ("src/lib.rs", "//! Lib.\npub mod track;\n".to_owned()),
        ("src/main.rs", "//! Main.\nfn main() { jetwatch::pipeline::run(); jetwatch::cli::run(); }\n".to_owned()),
        ("src/types/mod.rs", "//! Types.\nuse crate::config::Config;\n".to_owned()),
        ("src/track/mod.rs", "//! Track.\nuse super::detect::nms;\nmod tests { use super::super::web::Page; }\n".to_owned()),
        ("src/track/iou.rs", "//! IOU.\nuse super::super::{types::Track, source::{self, Frame}};\nuse super::source::Own;\n".to_owned()),
        ("src/detect/mod.rs", "//! Detect.\nuse crate::{nvidia::Engine, config, types::*};\nfn f() { log::warn!(\"{}\", crate::publish::x()); }\n".to_owned()),
        ("src/config/mod.rs", "//! Config.\n//! Not crate::cli, which only stands in a comment.\nconst T: &str = \"crate::cli unsafe anyhow::Error\";\nuse anyhow::Result;\nuse a::anyhow::b;\n".to_owned()),
        ("src/publish/mod.rs", "//! Publish.\nuse mqtt5 as client;\nuse {gstreamer as gst};\n#[derive(clap::Parser)]\nstruct A;\nfn f() { ::tokio::spawn(); ::saphyr::x(); }\n".to_owned()),
        ("src/platform/mod.rs", "//! Platform.\nfn f() { unsafe { g() } }\nuse crate::nvidia::Cuda;\n".to_owned()),
        ("src/nvidia/mod.rs", "//! NVIDIA.\nfn f() { unsafe { g() } }\nuse crate::types::Size;\nuse crate::*;\n".to_owned()),
        ("src/attic/mod.rs", "//! A room without a floor.\n".to_owned()),
        ("src/web/utils.rs", "// No inner comment.\n".to_owned()),
        ("src/web/long.rs", format!("//! Long.\n{}", "//\n".repeat(MAX_LINES))),
        ("src/web/broken.rs", "//! Broken.\nfn f( {\n".to_owned()),
        ("src/web/mod.rs", "//! Web.\nconst A: &str = \"/tmp/socket\";\n#[test]\n#[ignore = \"slow\"]\nfn t() {}\n".to_owned()),
        ("tests/a.rs", "//! Test.\n#[cfg_attr(miri, ignore)]\nfn t() {}\nfn u() { unsafe {} }\n".to_owned()),
        ("README.md", format!("Later: {later}, in `{workplace}`. todo: nothing.\nMETHODO {later}S /frame/work/x\n")),
        (".git/a.rs", "unsafe\n".to_owned()),
        ("out/a.rs", "unsafe\n".to_owned()),
        (".gitignore", "/out/\n".to_owned()),
    ];
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in &files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("created");
        fs::write(path, text).expect("written");
    }
    fs::write(folder.path().join("picture.png"), [0xff, 0xd8, 0xff]).expect("written");
    let mut wanted = vec![
        format!("README.md: says {later}"),
        format!("README.md: says {workplace}"),
        "src/attic/mod.rs: the room `attic` has no floor".to_owned(),
        "src/config/mod.rs: `anyhow` is at home in cli".to_owned(),
        "src/detect/mod.rs: `detect` may not name `publish`".to_owned(),
        "src/main.rs: `main` may not name `pipeline`".to_owned(),
        "src/nvidia/mod.rs: `nvidia` may not name `*` (name what is needed)".to_owned(),
        "src/nvidia/mod.rs: `nvidia` may not name `types`".to_owned(),
        "src/platform/mod.rs: `platform` may not name `nvidia`".to_owned(),
        "src/platform/mod.rs: unsafe code is at home in nvidia".to_owned(),
        "src/publish/mod.rs: `clap` is at home in cli".to_owned(),
        "src/publish/mod.rs: `gstreamer` is at home in source, render, nvidia".to_owned(),
        "src/publish/mod.rs: `saphyr` is at home in config".to_owned(),
        "src/track/iou.rs: `track` may not name `source`".to_owned(),
        "src/track/mod.rs: `track` may not name `detect`".to_owned(),
        "src/track/mod.rs: `track` may not name `web`".to_owned(),
        "src/types/mod.rs: `types` may not name `config`".to_owned(),
        "src/web/broken.rs: is not Rust".to_owned(),
        "src/web/long.rs: has 501 lines, more than 500".to_owned(),
        "src/web/mod.rs: has a test that is ignored".to_owned(),
        "src/web/mod.rs: says /tmp/socket".to_owned(),
        "src/web/utils.rs: does not open with //!".to_owned(),
        "src/web/utils.rs: has a name that says nothing".to_owned(),
        "tests/a.rs: has a test that is ignored".to_owned(),
        "tests/a.rs: unsafe code is at home in nvidia".to_owned(),
    ];
    wanted.sort();
    assert_eq!(check(folder.path()), wanted);
}

/// Every broken rule below `root`, sorted.
fn check(root: &Path) -> Vec<String> {
    let mut files = Vec::new();
    collect(root, &left_out(root), &mut files);
    let mut broken = Vec::new();
    for path in files {
        // What is not text has nothing to say.
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let name = path
            .strip_prefix(root)
            .expect("below the root")
            .display()
            .to_string();
        let mut rules = check_text(&name, &text);
        if name.ends_with(".rs") {
            rules.extend(check_shape(&name, &text));
            match text.parse() {
                Ok(tokens) => rules.extend(check_tokens(&name, tokens)),
                Err(_) => rules.push("is not Rust".to_owned()),
            }
        }
        broken.extend(rules.into_iter().map(|rule| format!("{name}: {rule}")));
    }
    broken.sort();
    broken.dedup();
    broken
}

/// Folders that `.gitignore` names at the top: what stands there is no part of the project.
fn left_out(root: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.strip_prefix('/')?.strip_suffix('/'))
        .map(|name| root.join(name))
        .collect()
}

fn collect(folder: &Path, left_out: &[PathBuf], files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let entry = entry.expect("a readable entry");
        let kind = entry.file_type().expect("a kind");
        // In a linked worktree `.git` is a file.
        if entry.file_name() == ".git" {
            continue;
        }
        if kind.is_dir() && !left_out.contains(&entry.path()) {
            collect(&entry.path(), left_out, files);
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
}

/// Words that no file of the project holds.
fn check_text(name: &str, text: &str) -> Vec<String> {
    let mut rules = Vec::new();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    for word in text.split(|c| !is_word(c)) {
        if word == concat!("TO", "DO") || word == concat!("FIX", "ME") {
            rules.push(format!("says {word}"));
        }
    }
    let in_path = |c: char| c.is_alphanumeric() || "/._-".contains(c);
    for word in text.split(|c| !in_path(c)) {
        let is_workplace = word.starts_with(concat!("/wo", "rk/"));
        let is_temporary = word.starts_with(concat!("/t", "mp/")) && name.starts_with("src/");
        if is_workplace || is_temporary {
            rules.push(format!("says {}", word.trim_end_matches('.')));
        }
    }
    rules
}

/// How a Rust file is named, begins and ends.
fn check_shape(name: &str, text: &str) -> Vec<String> {
    let mut rules = Vec::new();
    if !text.starts_with("//!") {
        rules.push("does not open with //!".to_owned());
    }
    let steps = name.trim_end_matches(".rs").split('/');
    if steps.skip(1).any(|step| EMPTY_NAMES.contains(&step)) {
        rules.push("has a name that says nothing".to_owned());
    }
    let lines = text.lines().count();
    if name.starts_with("src/") && lines > MAX_LINES {
        rules.push(format!("has {lines} lines, more than {MAX_LINES}"));
    }
    rules
}

/// Who names whom.
fn check_tokens(name: &str, tokens: TokenStream) -> Vec<String> {
    let steps: Vec<_> = name.trim_end_matches(".rs").split('/').collect();
    let (room, depth) = match steps.as_slice() {
        ["src", "lib"] => (None, 0),
        ["src", "main"] => (Some("main"), 0),
        ["src", room, .., "mod"] => (Some(*room), steps.len() - 2),
        ["src", room, ..] => (Some(*room), steps.len() - 1),
        // Tests and benchmarks stand outside of the house.
        _ => (None, 0),
    };
    let mut found = Found::default();
    walk(tokens, depth, &mut found);
    let mut rules = Vec::new();
    if found.has_ignored_test {
        rules.push("has a test that is ignored".to_owned());
    }
    if found.has_unsafe && room != Some(CELLAR.0) {
        rules.push(format!("unsafe code is at home in {}", CELLAR.0));
    }
    let Some(room) = room else { return rules };
    if room != "main" && floor(room).is_none() {
        rules.push(format!("the room `{room}` has no floor"));
    }
    for named in &found.rooms {
        if !may_name(room, named) {
            let advice = if named == "*" {
                " (name what is needed)"
            } else {
                ""
            };
            rules.push(format!("`{room}` may not name `{named}`{advice}"));
        }
    }
    for (outside, homes) in HOMES {
        if found.crates.iter().any(|name| name == outside) && !homes.contains(&room) {
            rules.push(format!("`{outside}` is at home in {}", homes.join(", ")));
        }
    }
    rules
}

fn floor(room: &str) -> Option<i32> {
    if room == CELLAR.0 {
        return Some(-1);
    }
    FLOORS
        .iter()
        .find(|(name, _)| *name == room)
        .map(|(_, floor)| *floor)
}

fn may_name(room: &str, named: &str) -> bool {
    match (room, floor(room), floor(named)) {
        _ if room == named => true,
        ("main", ..) => named == "cli",
        _ if named == CELLAR.0 => CELLAR.1.contains(&room),
        (_, Some(own), Some(other)) => other < own,
        // Globs hide who is named; other words are macros or items of the crate's root, which holds none.
        _ => false,
    }
}

/// What one file names.
#[derive(Default)]
struct Found {
    /// First step of each path from the crate's root.
    rooms: Vec<String>,
    /// Outside crates of [`HOMES`].
    crates: Vec<String>,
    has_unsafe: bool,
    has_ignored_test: bool,
}

/// Reads `tokens`, which stand `depth` modules below the crate's root.
fn walk(tokens: TokenStream, depth: usize, found: &mut Found) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Group(group) => {
                let is_attribute = group.delimiter() == Delimiter::Bracket
                    && is_punct(&tokens, at.wrapping_sub(1), '#');
                if is_attribute && has_ident(group.stream(), "ignore") {
                    found.has_ignored_test = true;
                }
                let is_module = at >= 2 && is_ident(&tokens, at - 2, "mod");
                walk(group.stream(), depth + usize::from(is_module), found);
            }
            TokenTree::Ident(ident) => {
                let word = ident.to_string();
                if word == "unsafe" {
                    found.has_unsafe = true;
                } else if starts_path(&tokens, at) {
                    match word.as_str() {
                        "crate" | "jetwatch" if is_step(&tokens, at + 1) => {
                            name_rooms(&tokens, at + 3, found)
                        }
                        "super" => {
                            let mut supers = 1;
                            let mut next = at + 3;
                            while is_step(&tokens, next - 2) && is_ident(&tokens, next, "super") {
                                supers += 1;
                                next += 3;
                            }
                            if supers == depth && is_step(&tokens, next - 2) {
                                name_rooms(&tokens, next, found);
                            }
                        }
                        _ if HOMES.iter().any(|(outside, _)| *outside == word) => {
                            let is_used = at > 0
                                && (is_ident(&tokens, at - 1, "use")
                                    || is_ident(&tokens, at - 1, "crate"));
                            if is_used
                                || is_step(&tokens, at + 1)
                                || is_ident(&tokens, at + 1, "as")
                            {
                                found.crates.push(word);
                            }
                        }
                        _ => {}
                    }
                }
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
        at += 1;
    }
}

/// The first steps of the path or of the group of paths at `at`.
fn name_rooms(tokens: &[TokenTree], at: usize, found: &mut Found) {
    match tokens.get(at) {
        Some(TokenTree::Ident(room)) => found.rooms.push(room.to_string()),
        Some(TokenTree::Punct(punct)) if punct.as_char() == '*' => found.rooms.push("*".to_owned()),
        Some(TokenTree::Group(group)) => {
            let inner: Vec<_> = group.stream().into_iter().collect();
            for start in 0..inner.len() {
                if start == 0 || is_punct(&inner, start - 1, ',') {
                    name_rooms(&inner, start, found);
                }
            }
        }
        _ => {}
    }
}

/// Whether the word at `at` is the first of a path: not behind `a::`, but behind nothing or a bare `::`.
fn starts_path(tokens: &[TokenTree], at: usize) -> bool {
    if at < 2 || !is_step(tokens, at - 2) {
        return true;
    }
    at == 2 || !matches!(tokens[at - 3], TokenTree::Ident(_)) || is_ident(tokens, at - 3, "use")
}

/// Whether `::` stands at `at`.
fn is_step(tokens: &[TokenTree], at: usize) -> bool {
    is_punct(tokens, at, ':') && is_punct(tokens, at + 1, ':')
}

fn is_punct(tokens: &[TokenTree], at: usize, wanted: char) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

fn is_ident(tokens: &[TokenTree], at: usize, wanted: &str) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Ident(ident)) if ident == wanted)
}

/// Whether `wanted` stands anywhere in `tokens`.
fn has_ident(tokens: TokenStream, wanted: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == wanted,
        TokenTree::Group(group) => has_ident(group.stream(), wanted),
        _ => false,
    })
}
