// SPDX-License-Identifier: Apache-2.0
//! Commands whose output pipe is closed, as with `| head -1`: they end quietly.

use crate::support;

use std::process::{Command, Output, Stdio};

use support::daemon::{Setup, wait_for_output};

/// Runs `jetwatch ARGUMENTS` with a closed stdout pipe.
fn run(arguments: &[&str]) -> Output {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut child = Command::new(env!("CARGO_BIN_EXE_jetwatch"))
        .args(arguments)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    // The waiting reads both; this one has nothing to be read.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(writer);
    child.stdout = Some(std::os::fd::OwnedFd::from(reader).into());
    wait_for_output(child)
}

#[test]
fn commands_exit_quietly_on_closed_pipe() {
    let setup = Setup::new(
        "sources: [{name: cam, uri: 'synthetic://traffic'}]\ndetector: {backend: scripted}\n",
    );
    let config = setup.config.to_str().expect("a path in UTF-8");
    let folder = setup.folder.path().to_str().expect("a path in UTF-8");
    let commands: [&[&str]; 9] = [
        &["tune", "status", "--config", config],
        &["tune", "status", "--json", "--config", config],
        &["tune", "plan", "--config", config],
        &["engine", "list", "--engines", folder],
        &["engine", "list", "--engines", folder, "--json"],
        &["doctor", "--only", "platform"],
        &["model", "list"],
        &["model", "list", "--json"],
        &["check", "--file-only", "--config", config],
    ];
    for command in commands {
        let output = run(command);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(141), "{command:?}: {text}");
        assert_eq!(text, "", "{command:?}");
    }
}

#[test]
fn unwritable_output_is_error() {
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else {
        panic!("/dev/full is missing: this test needs a Linux with its usual devices");
    };
    let output = Command::new(env!("CARGO_BIN_EXE_jetwatch"))
        .args(["model", "list"])
        .stdin(Stdio::null())
        .stdout(full)
        .output()
        .expect("the binary starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_has!(text => "jetwatch: cannot write to standard output: No space left");
}
