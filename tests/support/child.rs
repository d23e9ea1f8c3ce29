// SPDX-License-Identifier: Apache-2.0
//! Tests that run in a process of their own: such a test starts this program again for itself alone.

use std::env;
use std::process::Command;

/// Variable with the test that a child runs.
const CHILD: &str = "JETWATCH_TEST_CHILD";

/// Whether this process is the child that runs `test`.
pub fn is_child(test: &str) -> bool {
    env::var_os(CHILD).is_some_and(|name| name == *test)
}

/// Runs `test` alone in a child that `prepare` sets up, and returns its stderr output.
pub fn run_child(test: &str, prepare: impl FnOnce(&mut Command)) -> String {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command
        .args(["--exact", &full_name(test), "--nocapture"])
        .env(CHILD, test);
    prepare(&mut command);
    let output = command.output().expect("a child process");
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    let ran = String::from_utf8_lossy(&output.stdout).contains("1 passed");
    assert!(
        output.status.success() && ran,
        "{test}: {}\n{printed}",
        output.status
    );
    printed
}

/// The name of `test` in this program: its modules stand before it.
fn full_name(test: &str) -> String {
    let output = Command::new(env::current_exe().expect("this program"))
        .args(["--list", "--format", "terse"])
        .output()
        .expect("a list of the tests");
    let list = String::from_utf8_lossy(&output.stdout);
    let found: Vec<_> = list
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .filter(|name| *name == test || name.ends_with(&format!("::{test}")))
        .collect();
    match found.as_slice() {
        [name] => (*name).to_owned(),
        _ => panic!("one test {test} was expected, found {found:?}"),
    }
}
