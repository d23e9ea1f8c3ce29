// SPDX-License-Identifier: Apache-2.0
//! The dependency rules of the workspace, and the shape of its files.
//!
//! Cargo enforces the layers once they are declared. This test checks the declarations: which crate may depend on which, and
//! which outside crate is used where. The checker is tested on a small workspace that breaks every rule. Tables first, tests
//! below them, the checker last.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Crates of the appliance by layer. A crate may depend on crates of lower layers only.
const LAYERS: &[(u8, &str)] = &[
    (4, "pipeline"),
    (3, "onvif"),
    (
        2,
        "source detect track analytics record publish metrics web media",
    ),
    (1, "archive config http pixels platform spool telemetry"),
    (0, "config-derive files mqtt schedule types"),
];

/// The FFI crates, which have unsafe code. They depend on no other crate of the workspace; only these may depend on them. NVTX has
/// a crate of its own, since telemetry is below all others and must not wait for GStreamer and ONNX Runtime, which `nvidia` needs.
const FFI: &[(&str, &[&str])] = &[
    ("nvidia", &["detect", "source", "record"]),
    ("nvtx", &["telemetry"]),
];

/// Outside crates that are used in some crates only.
const OUTSIDE: &[(&str, &[&str])] = &[
    ("anyhow", &["bench", "doctor", "eval", "jetwatch", "models"]),
    ("argon2", &["web"]),
    ("clap", &["jetwatch"]),
    ("clap_complete", &["jetwatch"]),
    ("clap_mangen", &["jetwatch"]),
    ("comfy-table", &["tables"]),
    ("crc32fast", &["spool"]),
    ("env_logger", &["telemetry"]),
    ("fast_image_resize", &["pixels"]),
    ("getrandom", &["onvif", "web"]),
    ("gstreamer", &["doctor", "nvidia", "record", "source"]),
    ("gstreamer-app", &["doctor", "nvidia", "record", "source"]),
    ("gstreamer-video", &["doctor", "nvidia", "record", "source"]),
    ("hmac", &["publish", "web"]),
    ("http-body-util", &["metrics", "web"]),
    ("hyper", &["http", "metrics", "web"]),
    ("hyper-util", &["http"]),
    ("indicatif", &["jetwatch"]),
    ("jpeg-encoder", &["pixels"]),
    ("libc", &["nvidia"]),
    ("libloading", &["nvidia", "nvtx"]),
    ("memmap2", &["media"]),
    ("multiversion", &["pixels"]),
    ("nix", &["jetwatch"]),
    ("ort", &["detect", "nvidia"]),
    ("percent-encoding", &["config", "onvif", "source"]),
    ("png", &["pixels"]),
    ("proc-macro2", &["config-derive"]),
    ("quote", &["config-derive"]),
    ("roxmltree", &["onvif"]),
    ("rusqlite", &["archive", "nsys"]),
    ("saphyr", &["config"]),
    ("saphyr-parser", &["config"]),
    ("schemars", &["publish"]),
    ("sd-notify", &["telemetry"]),
    ("strsim", &["config", "detect"]),
    ("syn", &["config-derive"]),
    ("systemd-journal-logger", &["telemetry"]),
    ("tokio", &["http", "mqtt", "publish", "web"]),
    ("tokio-rustls", &["http", "mqtt", "publish"]),
    ("ureq", &["models", "onvif", "publish"]),
    ("zune-jpeg", &["pixels"]),
];

/// Maximum number of lines of a file below `src`.
const MAX_LINES: usize = 800;

#[test]
fn workspace_keeps_its_rules() {
    let broken = check(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(
        broken.is_empty(),
        "{} broken rules:\n{}",
        broken.len(),
        broken.join("\n")
    );
}

#[test]
fn every_rule_violation_is_detected() {
    // Put together here, so that this file does not break the rules that it tests.
    let later = ["TO", "DO"].concat();
    let workplace = ["/wo", "rk/data"].concat();
    let lints = "[lints]\nworkspace = true\n";
    let manifest = |name: &str, dependencies: &str| {
        format!("[package]\nname = \"jetwatch-{name}\"\n{lints}[dependencies]\n{dependencies}")
    };
    let files = [
        ("Cargo.toml", format!("[workspace.lints.rust]\nunsafe_code = \"deny\"\n[package]\nname = \"jetwatch\"\n{lints}[dependencies]\nhmac.workspace = true\n")),
        ("src/appliance/types/Cargo.toml", manifest("types", "jetwatch-config.workspace = true\n")),
        ("src/appliance/config/Cargo.toml", manifest("config", "anyhow = \"1\"\n[dev-dependencies]\njetwatch-detect.workspace = true\n")),
        ("src/appliance/track/Cargo.toml", manifest("track", "jetwatch-detect = { workspace = true }\njetwatch-nvtx.workspace = true\njetwatch-types.workspace = true\n")),
        ("src/appliance/nvtx/Cargo.toml", manifest("nvtx", "jetwatch-nvidia.workspace = true\nlibloading.workspace = true\n")),
        ("src/appliance/platform/Cargo.toml", manifest("platform", "jetwatch-nvidia.workspace = true\njetwatch-eval.workspace = true\n").replace(lints, "")),
        ("src/appliance/nvidia/Cargo.toml", manifest("nvidia", "jetwatch-types.workspace = true\nlibloading.workspace = true\n")),
        ("src/appliance/attic/Cargo.toml", manifest("attic", "")),
        ("src/tools/eval/Cargo.toml", manifest("eval", "jetwatch-pipeline.workspace = true\njetwatch-bench.workspace = true\njetwatch.workspace = true\n")),
        ("src/appliance/track/bare.rs", "// No inner comment.\n".to_owned()),
        ("src/appliance/track/long.rs", format!("//! Long.\n{}", "//\n".repeat(MAX_LINES))),
        ("src/appliance/track/broken.rs", "//! Broken.\nfn f( {\n".to_owned()),
        ("src/appliance/track/lib.rs", "//! Track.\nconst A: &str = \"/tmp/socket\";\n#[test]\n#[ignore = \"slow\"]\nfn t() {}\n".to_owned()),
        ("tests/a.rs", "//! Test.\n#[cfg_attr(miri, ignore)]\nfn t() {}\n".to_owned()),
        ("README.md", format!("Later: {later}, in `{workplace}`. todo: nothing.\nMETHODO {later}S /frame/work/x\n")),
        (".git/a.rs", "unsafe\n".to_owned()),
        ("out/a.rs", "unsafe\n".to_owned()),
        (".gitignore", "/out/\n".to_owned()),
    ];
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in &files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("created");
        let license = if name.ends_with("/lib.rs") || !name.ends_with(".rs") {
            ""
        } else {
            LICENSE
        };
        fs::write(path, format!("{license}{text}")).expect("written");
    }
    fs::write(folder.path().join("image.png"), [0xff, 0xd8, 0xff]).expect("written");
    let mut expected = vec![
        "Cargo.toml: `hmac` belongs in publish, web".to_owned(),
        "Cargo.toml: unsafe code is not forbidden".to_owned(),
        format!("README.md: contains {later}"),
        format!("README.md: contains {workplace}"),
        "src/appliance/attic/Cargo.toml: `attic` has no layer".to_owned(),
        "src/appliance/config/Cargo.toml: `anyhow` belongs in bench, doctor, eval, jetwatch, models".to_owned(),
        "src/appliance/nvidia/Cargo.toml: `nvidia` may not depend on `types`".to_owned(),
        "src/appliance/platform/Cargo.toml: `platform` may not depend on `eval`".to_owned(),
        "src/appliance/platform/Cargo.toml: `platform` may not depend on `nvidia`".to_owned(),
        "src/appliance/platform/Cargo.toml: does not take the lints of the workspace".to_owned(),
        "src/appliance/nvtx/Cargo.toml: `nvtx` may not depend on `nvidia`".to_owned(),
        "src/appliance/track/Cargo.toml: `track` may not depend on `detect`".to_owned(),
        "src/appliance/track/Cargo.toml: `track` may not depend on `nvtx`".to_owned(),
        "src/appliance/track/broken.rs: is not Rust".to_owned(),
        "src/appliance/track/lib.rs: contains /tmp/socket".to_owned(),
        "src/appliance/track/lib.rs: does not open with its license".to_owned(),
        "src/appliance/track/lib.rs: has a test that is ignored".to_owned(),
        "src/appliance/track/long.rs: has 801 lines, more than 800".to_owned(),
        "src/appliance/track/bare.rs: does not open with //!".to_owned(),
        "src/appliance/types/Cargo.toml: `types` may not depend on `config`".to_owned(),
        "src/tools/eval/Cargo.toml: `eval` may not depend on `jetwatch`".to_owned(),
        "tests/a.rs: has a test that is ignored".to_owned(),
    ];
    expected.sort();
    assert_eq!(check(folder.path()), expected);
}

#[test]
fn symbols_on_the_path_of_a_frame_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let section = text
        .split("\n## ")
        .find(|section| section.starts_with("The path of a frame"))
        .expect("the section");
    let steps: Vec<_> = section
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
        .collect();
    assert!(steps.len() > 15, "{steps:?}");
    let missing: Vec<_> = steps
        .iter()
        .filter(|step| !step_exists(root, step))
        .collect();
    assert!(missing.is_empty(), "not found: {missing:#?}");
}

/// Whether the first symbol between backticks in `step` is declared in the file that the second pair names.
fn step_exists(root: &Path, step: &str) -> bool {
    let mut quoted = step.split('`').skip(1).step_by(2);
    let (Some(symbol), Some(file)) = (quoted.next(), quoted.next()) else {
        return false;
    };
    let Ok(code) = fs::read_to_string(root.join(file)) else {
        return false;
    };
    ["fn ", "struct ", "enum ", "trait "].iter().any(|kind| {
        code.match_indices(&format!("{kind}{symbol}"))
            .any(|(at, found)| {
                let next = code[at + found.len()..].chars().next();
                next.is_some_and(|c| !c.is_alphanumeric() && c != '_')
            })
    })
}

#[test]
fn missing_symbol_on_the_path_is_found() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = "src/appliance/pipeline/batcher/mod.rs";
    assert!(step_exists(root, &format!("4. `push` in `{file}`: text")));
    assert!(!step_exists(root, &format!("4. `pus` in `{file}`: text")));
    assert!(!step_exists(root, "4. `push` in `src/none.rs`: text"));
    assert!(!step_exists(root, "4. push in the batcher"));
}

/// Crates whose modules are in layers: none refers to one that refers to it, however many are between them.
const LAYERED: &str = "analytics bench doctor eval files http media metrics nsys nvidia nvtx onvif pipeline pixels platform publish record \
    schedule source telemetry track traffic types update web";

#[test]
fn modules_refer_to_lower_ones_only() {
    for name in LAYERED.split(' ') {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let kinds = ["appliance", "tools"].map(|kind| source.join(kind).join(name));
        let folder = kinds.into_iter().find(|folder| folder.is_dir());
        let folder = folder.unwrap_or_else(|| panic!("{name} is not a crate"));
        let circle = modules_in_circles(&folder);
        assert!(circle.is_empty(), "{name}: {circle:?} refer to each other");
    }
}

#[test]
fn modules_that_refer_to_each_other_are_found() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    #[rustfmt::skip]
    let files = [
        ("lib.rs", "mod a; mod b; mod c; pub use c::{Other, Named}; use a::One;"),
        ("a.rs", "use super::b; fn f(_: crate::Unknown) {} mod tests { use crate::c::Other; }"),
        ("b/mod.rs", "/// Not of crate::a.\nuse super::Named;"),
        ("b/inner.rs", "use super::super::a; use super::c;"),
        ("c.rs", "pub struct Named; pub struct Other;"),
    ];
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("created");
        fs::write(path, text).expect("written");
    }
    assert!(modules_in_circles(folder.path()).is_empty());
    for back in [
        "use crate::{x, a::y};",
        "fn f() { crate::One::new() }",
        "use super::{One as A};",
    ] {
        fs::write(folder.path().join("c.rs"), back).expect("written");
        assert_eq!(modules_in_circles(folder.path()), ["a", "b", "c"], "{back}");
    }
}

/// The modules directly below the crate in `folder` that are in a circle of references, or lead to one. References are paths that begin
/// with `crate::`, or with `super::` in the file of the module itself, also to names that `lib.rs` takes out of a module.
fn modules_in_circles(folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    collect(folder, &[], &mut files);
    // Tests may refer to anything.
    files.retain(|path| {
        let steps = path.strip_prefix(folder).expect("below it").components();
        let of_tests = |step: &str| step.starts_with("test");
        path.extension().is_some_and(|extension| extension == "rs")
            && !steps
                .into_iter()
                .any(|step| of_tests(&step.as_os_str().to_string_lossy()))
    });
    let tokens = |path: &Path| -> TokenStream {
        let text = fs::read_to_string(path).expect("readable");
        text.parse().expect("Rust")
    };
    let module_of = |path: &Path| {
        let first = path.strip_prefix(folder).ok()?.components().next()?;
        let name = first.as_os_str().to_string_lossy();
        let name = name.strip_suffix(".rs").unwrap_or(&name).to_owned();
        (name != "lib").then_some(name)
    };
    let modules: BTreeSet<String> = files.iter().filter_map(|path| module_of(path)).collect();
    let mut taken = BTreeMap::new();
    for module in &modules {
        for name in names_behind(tokens(&folder.join("lib.rs")), module) {
            taken.insert(name, module.clone());
        }
    }
    let mut references: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in &files {
        let Some(own) = module_of(path) else { continue };
        let depth = path
            .strip_prefix(folder)
            .map_or(0, |path| path.components().count());
        let mut names = names_behind(tokens(path), "crate");
        if depth == 1 || (depth == 2 && path.ends_with("mod.rs")) {
            names.extend(names_behind(tokens(path), "super"));
        }
        let found = names
            .iter()
            .filter_map(|name| modules.get(name).or_else(|| taken.get(name)));
        let found = found.filter(|other| **other != own).cloned();
        references.entry(own.clone()).or_default().extend(found);
    }
    // Those that refer to none of the rest are below it.
    while let Some(lowest) = references
        .iter()
        .find(|(_, to)| to.iter().all(|other| !references.contains_key(other)))
        .map(|(name, _)| name.clone())
    {
        references.remove(&lowest);
    }
    references.into_keys().collect()
}

/// The first names behind `first::` in `tokens`, tests left out.
fn names_behind(tokens: TokenStream, first: &str) -> Vec<String> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is = |at: usize, text: &str| match tokens.get(at) {
        Some(TokenTree::Ident(name)) => name == text,
        Some(TokenTree::Punct(mark)) => text.starts_with(mark.as_char()),
        _ => false,
    };
    let mut names = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token
            && !(at >= 2 && is(at - 1, "tests") && is(at - 2, "mod"))
        {
            names.extend(names_behind(group.stream(), first));
        }
        if !is(at, first) || !is(at + 1, ":") || !is(at + 2, ":") || (at > 0 && is(at - 1, ":")) {
            continue;
        }
        match tokens.get(at + 3) {
            Some(TokenTree::Ident(name)) => names.push(name.to_string()),
            Some(TokenTree::Group(group)) => {
                let mut begins = true;
                for token in group.stream() {
                    if let (true, TokenTree::Ident(name)) = (begins, &token) {
                        names.push(name.to_string());
                    }
                    begins = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ',');
                }
            }
            _ => {}
        }
    }
    names
}

/// Every broken rule below `root`, sorted.
fn check(root: &Path) -> Vec<String> {
    let mut files = Vec::new();
    collect(root, &ignored_folders(root), &mut files);
    let mut broken = Vec::new();
    for path in files {
        // Binary files are not read.
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
                Ok(tokens) => {
                    if has_ignored_test(tokens) {
                        rules.push("has a test that is ignored".to_owned());
                    }
                }
                Err(_) => rules.push("is not Rust".to_owned()),
            }
        }
        let steps: Vec<_> = name.split('/').collect();
        match steps.as_slice() {
            ["Cargo.toml"] => {
                if !text.contains("unsafe_code = \"forbid\"") {
                    rules.push("unsafe code is not forbidden".to_owned());
                }
                rules.extend(check_manifest("jetwatch", Kind::Program, &text));
            }
            ["src", "appliance", own, "Cargo.toml"] => {
                rules.extend(check_manifest(own, Kind::Appliance, &text));
            }
            ["src", "tools", own, "Cargo.toml"] => {
                rules.extend(check_manifest(own, Kind::Tool, &text));
            }
            _ => {}
        }
        broken.extend(rules.into_iter().map(|rule| format!("{name}: {rule}")));
    }
    broken.sort();
    broken.dedup();
    broken
}

/// Folders that `.gitignore` names at the top: they hold no part of the project.
fn ignored_folders(root: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.strip_prefix('/')?.strip_suffix('/'))
        .map(|name| root.join(name))
        .collect()
}

fn collect(folder: &Path, ignored: &[PathBuf], files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let entry = entry.expect("a readable entry");
        let kind = entry.file_type().expect("a kind");
        // In a linked worktree `.git` is a file.
        if entry.file_name() == ".git" {
            continue;
        }
        if kind.is_dir() && !ignored.contains(&entry.path()) {
            collect(&entry.path(), ignored, files);
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
}

/// Marks of unfinished work, and paths of one machine, which no file of the project contains.
fn check_text(name: &str, text: &str) -> Vec<String> {
    let mut rules = Vec::new();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    for word in text.split(|c| !is_word(c)) {
        if word == concat!("TO", "DO") || word == concat!("FIX", "ME") {
            rules.push(format!("contains {word}"));
        }
    }
    let in_path = |c: char| c.is_alphanumeric() || "/._-".contains(c);
    for word in text.split(|c| !in_path(c)) {
        let is_workplace = word.starts_with(concat!("/wo", "rk/"));
        let is_temporary = word.starts_with(concat!("/t", "mp/")) && name.starts_with("src/");
        if is_workplace || is_temporary {
            rules.push(format!("contains {}", word.trim_end_matches('.')));
        }
    }
    rules
}

/// First line of each Rust file.
const LICENSE: &str = "// SPDX-License-Identifier: Apache-2.0\n";

/// How a Rust file begins, and its length without the line of its license.
fn check_shape(name: &str, text: &str) -> Vec<String> {
    let mut rules = Vec::new();
    let text = text.strip_prefix(LICENSE).unwrap_or_else(|| {
        rules.push("does not open with its license".to_owned());
        text
    });
    if !text.starts_with("//!") {
        rules.push("does not open with //!".to_owned());
    }
    let lines = text.lines().count();
    if name.starts_with("src/") && lines > MAX_LINES {
        rules.push(format!("has {lines} lines, more than {MAX_LINES}"));
    }
    rules
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Program,
    Appliance,
    Tool,
}

/// What the crate `own` depends on; dependencies of its tests are free.
fn check_manifest(own: &str, kind: Kind, text: &str) -> Vec<String> {
    let mut rules = Vec::new();
    if users_of_ffi(own).is_none() && !text.contains("[lints]\nworkspace = true") {
        rules.push("does not take the lints of the workspace".to_owned());
    }
    if kind == Kind::Appliance && users_of_ffi(own).is_none() && layer(own).is_none() {
        rules.push(format!("`{own}` has no layer"));
    }
    for dependency in dependencies(text) {
        if let Some(other) = dependency.strip_prefix("jetwatch-") {
            if !may_depend(own, kind, other) {
                rules.push(format!("`{own}` may not depend on `{other}`"));
            }
        } else if dependency == "jetwatch" {
            rules.push(format!("`{own}` may not depend on `jetwatch`"));
        } else if let Some((_, crates)) = OUTSIDE.iter().find(|(name, _)| *name == dependency)
            && !crates.contains(&own)
        {
            rules.push(format!("`{dependency}` belongs in {}", crates.join(", ")));
        }
    }
    rules
}

/// Names in the section `[dependencies]` of a manifest.
fn dependencies(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .skip_while(|line| line.trim() != "[dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
}

fn layer(name: &str) -> Option<u8> {
    let has = |crates: &str| crates.split(' ').any(|other| other == name);
    let layer = LAYERS.iter().find(|(_, crates)| has(crates))?;
    Some(layer.0)
}

/// The crates that may depend on the FFI crate `name`; `None`: it is another crate.
fn users_of_ffi(name: &str) -> Option<&'static [&'static str]> {
    FFI.iter()
        .find(|(other, _)| *other == name)
        .map(|(_, users)| *users)
}

fn may_depend(own: &str, kind: Kind, other: &str) -> bool {
    match kind {
        // The program assembles everything but the FFI crates.
        Kind::Program => users_of_ffi(other).is_none(),
        // Tools use the appliance and each other; Cargo refuses circles.
        Kind::Tool => users_of_ffi(other).is_none(),
        Kind::Appliance if users_of_ffi(own).is_some() => false,
        Kind::Appliance => match users_of_ffi(other) {
            Some(users) => users.contains(&own),
            None => matches!((layer(own), layer(other)), (Some(own), Some(other)) if other < own),
        },
    }
}

/// Whether a test in `tokens` carries `ignore`. Comments and texts are no tokens of their own.
fn has_ignored_test(tokens: TokenStream) -> bool {
    let mut after_hash = false;
    tokens.into_iter().any(|token| {
        let found = match &token {
            TokenTree::Group(group) => {
                let is_attribute = group.delimiter() == Delimiter::Bracket && after_hash;
                (is_attribute && has_ident(group.stream(), "ignore"))
                    || has_ignored_test(group.stream())
            }
            _ => false,
        };
        after_hash = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#');
        found
    })
}

/// Whether `wanted` is anywhere in `tokens`.
fn has_ident(tokens: TokenStream, wanted: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == wanted,
        TokenTree::Group(group) => has_ident(group.stream(), wanted),
        _ => false,
    })
}
