//! The manual pages and the shells' completions in `cross/manual` are those of the command line as it is.
//!
//! They are kept there so that packages for other machines need not start the program. `UPDATE_GOLDEN=1 cargo test --test
//! manual` writes them anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use clap_complete::Shell;

/// File names with what they must hold.
fn expected_files() -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    clap_mangen::generate_to(jetwatch::command(), folder.path()).expect("manual pages");
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        let mut command = jetwatch::command();
        clap_complete::generate_to(shell, &mut command, "jetwatch", folder.path())
            .expect("completions");
    }
    read_files(folder.path())
}

fn read_files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries
        .map(|entry| entry.expect("readable"))
        .map(|entry| {
            let name = entry.file_name().into_string().expect("a plain name");
            (name, fs::read_to_string(entry.path()).expect("a text"))
        })
        .collect()
}

#[test]
fn manual_pages_and_completions_are_up_to_date() {
    let wanted = expected_files();
    assert!(wanted.contains_key("jetwatch-run.1"), "{:?}", wanted.keys());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cross/manual");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        for name in read_files(&folder).keys() {
            fs::remove_file(folder.join(name)).expect("removed");
        }
        for (name, text) in &wanted {
            fs::write(folder.join(name), text).expect("written");
        }
    }
    let found = read_files(&folder);
    let names = |texts: &BTreeMap<String, String>| texts.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&wanted), "run with UPDATE_GOLDEN=1");
    for (name, text) in &wanted {
        assert!(
            found[name] == *text,
            "cross/manual/{name} is old: run with UPDATE_GOLDEN=1"
        );
    }
}
