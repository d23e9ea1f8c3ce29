//! The quantizer of `models/`: runs its tests in Python, on networks and images that they create.
//!
//! Needs Python with the packages of `models/requirements-test.txt`: `make quantize-test` makes such an environment, and
//! `JETWATCH_QUANTIZE_PYTHON` may name another. Without one the test is skipped with a message.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The interpreter that is named, that of `make quantize-test`, or the system's.
fn python() -> PathBuf {
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join(".cache/quantize/bin/python");
    match env::var_os("JETWATCH_QUANTIZE_PYTHON") {
        Some(named) => named.into(),
        None if made.exists() => made,
        None => "python3".into(),
    }
}

#[test]
fn quantize_script_tests_pass() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/quantize_test.py");
    let run = match Command::new(python())
        .arg("-B")
        .arg(&script)
        .env("JETWATCH", env!("CARGO_BIN_EXE_jetwatch"))
        .output()
    {
        Ok(run) => run,
        Err(error) => {
            eprintln!("skipped: {} does not start: {error}", python().display());
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
    assert!(ran.is_some_and(|tests: u32| tests >= 10), "{err}");
}
