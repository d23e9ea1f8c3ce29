//! The scripts of `models/`, the quantizer and the importers: runs their tests in Python, on networks and images that they create.
//!
//! Needs Python with the packages of `models/requirements-test.txt`: `make quantize-test` makes such an environment, and
//! `JETWATCH_QUANTIZE_PYTHON` may name another. Without one the tests are skipped with a message.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The interpreter that is named, that of `make quantize-test`, or the system's.
fn python(project: &Path) -> PathBuf {
    let made = project.join(".cache/quantize/bin/python");
    match env::var_os("JETWATCH_QUANTIZE_PYTHON") {
        Some(named) => named.into(),
        None if made.exists() => made,
        None => "python3".into(),
    }
}

/// Runs the tests of a script, which must be at least so many.
fn run(script: &str, expected: u32) {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let run = match Command::new(python(project))
        .arg("-B")
        .arg(project.join("models").join(script))
        .env("JETWATCH", env!("CARGO_BIN_EXE_jetwatch"))
        // A wheel that the tests fetch is kept there.
        .env("XDG_CACHE_HOME", project.join(".cache"))
        .output()
    {
        Ok(run) => run,
        Err(error) => {
            eprintln!(
                "skipped: {} does not start: {error}",
                python(project).display()
            );
            return;
        }
    };
    let (out, err) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    if out.starts_with("skipped: ") {
        eprintln!("{}", out.trim_end());
        return;
    }
    assert!(run.status.success(), "{out}{err}");
    // A run that found no test would succeed too.
    let ran = err
        .lines()
        .find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse().ok());
    assert!(ran.is_some_and(|tests: u32| tests >= expected), "{err}");
}

#[test]
fn quantize_script_tests_pass() {
    run("quantize_test.py", 10);
}

#[test]
fn import_script_tests_pass() {
    run("import_test.py", 10);
}
