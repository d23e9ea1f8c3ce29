// SPDX-License-Identifier: Apache-2.0
//! The interface with a tool that writes down each call (`tests/nvtx/double.c`). NVTX looks for a tool once in a process, so that each test
//! starts itself again as the program that the tool comes to.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;

use crate::{Domain, Event, name_thread};

/// Set for the program that a test starts.
const IS_PROGRAM: &str = "JETWATCH_TEST_NVTX";

/// What the tool writes while it is initialized.
const INITIALIZED: &str = "tool of version 3\nno module 0\nmodule 1: 16\nmodule 2: 9\nmodule 3: 15\nmodule 4: 7\nmodule 5: 16\nmodule 6: 7\nno module 7\n";

/// A program that a tool comes to.
struct Run {
    folder: tempfile::TempDir,
    command: Command,
}

impl Run {
    /// This test `name` as a program of its own, for which no tool is named.
    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command
            .args(["--exact", &format!("tests::{name}")])
            .env(IS_PROGRAM, "1")
            .env("NVTX_DOUBLE_LOG", folder.path().join("log"))
            .env_remove("NVTX_INJECTION64_PATH");
        Self { folder, command }
    }

    /// Names the tool that the test has built, in one of its modes.
    fn with_tool(self, mode: &str) -> Self {
        let library = self.folder.path().join("libdouble.so");
        build(&library);
        let mut run = self.with_library(library);
        run.command.env("NVTX_DOUBLE_MODE", mode);
        run
    }

    /// Names the library of a tool.
    fn with_library(mut self, library: PathBuf) -> Self {
        self.command.env("NVTX_INJECTION64_PATH", library);
        self
    }

    /// Runs the program to its end; returns what the tool has written.
    fn log(mut self) -> String {
        let output = self.command.output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{output:?}"
        );
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

fn build(library: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/nvtx/double.c");
    let built = Command::new("cc")
        .args([
            "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-pthread", "-o",
        ])
        .args([library, &source])
        .status()
        .expect("a C compiler; `.ci/setup build` installs it");
    assert!(built.success());
}

fn is_program() -> bool {
    std::env::var_os(IS_PROGRAM).is_some()
}

/// Whether the library of the tool is open in this process.
fn has_tool() -> bool {
    let maps = fs::read_to_string("/proc/self/maps").expect("Linux has it");
    maps.contains("libdouble.so")
}

/// Each call once.
fn call_all() {
    name_thread(7, "camera\0 one");
    let domain = Domain::new(c"street");
    let message = domain.register_string("décode");
    let first = domain.register_category("décode");
    let second = domain.register_category("source:Tür 3");
    let plain = Event {
        message,
        category: None,
        payload: None,
    };
    let whole = Event {
        message,
        category: Some(second),
        payload: Some(u64::MAX),
    };
    let counted = Event {
        message,
        category: Some(first),
        payload: Some(0),
    };
    let outer = whole.push();
    let inner = plain.push();
    drop(inner);
    drop(outer);
    let early = counted.start();
    let late = plain.start();
    let other = std::thread::spawn(move || drop(early));
    other.join().expect("no panic");
    drop(late);
}

/// What a tool sees of [`call_all`].
const ALL: &str = "thread 7 camera one
domain street
string street d<e9>code
category street 1 d<e9>code
category street 2 source:T<fc>r 3
push street d<e9>code category 2 payload 1:18446744073709551615
push street d<e9>code category 0 payload 0:0
pop street
pop street
start street d<e9>code category 1 payload 1:0
start street d<e9>code category 0 payload 0:0
end street 101
end street 102
";

#[test]
fn a_tool_gets_every_call_with_its_values() {
    if is_program() {
        call_all();
        assert!(has_tool());
        return;
    }
    let log = Run::new("a_tool_gets_every_call_with_its_values")
        .with_tool("all")
        .log();
    assert_eq!(log, format!("{INITIALIZED}{ALL}"));
}

#[test]
fn a_tool_without_domains_gets_names_of_threads_alone() {
    if is_program() {
        call_all();
        name_thread(8, "camera two");
        assert!(has_tool());
        return;
    }
    let log = Run::new("a_tool_without_domains_gets_names_of_threads_alone")
        .with_tool("core")
        .log();
    let names = "thread 7 camera one\nthread 8 camera two\n";
    assert_eq!(log, format!("{INITIALIZED}{names}"));
}

#[test]
fn a_tool_that_refuses_is_closed_and_not_called() {
    if is_program() {
        call_all();
        assert!(!has_tool());
        call_all();
        return;
    }
    let log = Run::new("a_tool_that_refuses_is_closed_and_not_called")
        .with_tool("refuse")
        .log();
    assert_eq!(log, INITIALIZED);
}

#[test]
fn without_a_tool_all_calls_do_nothing() {
    const NAME: &str = "without_a_tool_all_calls_do_nothing";
    if is_program() {
        call_all();
        return;
    }
    assert_eq!(Run::new(NAME).log(), "");
    // A missing file, an empty path, a library that is not a tool.
    for path in ["/no/such/library.so", "", "libc.so.6"] {
        let run = Run::new(NAME).with_library(PathBuf::from(path));
        assert_eq!(run.log(), "", "{path}");
    }
}

#[test]
fn threads_that_start_at_once_wait_for_one_initialization() {
    const THREADS: usize = 8;
    if is_program() {
        let barrier = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for id in 0..THREADS as u32 {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    if id % 2 == 0 {
                        name_thread(id, "even");
                    } else {
                        let message = Domain::new(c"odd").register_string("step");
                        let event = Event {
                            message,
                            category: None,
                            payload: Some(id.into()),
                        };
                        drop(event.push());
                    }
                });
            }
        });
        return;
    }
    let log = Run::new("threads_that_start_at_once_wait_for_one_initialization")
        .with_tool("all")
        .log();
    let calls = log.strip_prefix(INITIALIZED).expect("it is first");
    let mut calls: Vec<_> = calls.lines().collect();
    calls.sort_unstable();
    let mut expected = Vec::new();
    for id in 0..THREADS {
        if id % 2 == 0 {
            expected.push(format!("thread {id} even"));
        } else {
            expected.push("domain odd".to_owned());
            expected.push("string odd step".to_owned());
            expected.push(format!("push odd step category 0 payload 1:{id}"));
            expected.push("pop odd".to_owned());
        }
    }
    expected.sort();
    assert_eq!(calls, expected);
}

#[test]
fn a_call_from_inside_the_initialization_returns() {
    const CALL: &str = "NVTX_DOUBLE_CALL";
    if let Some(path) = std::env::var_os(CALL) {
        let address = call_all as extern "C" fn() as usize;
        fs::write(path, address.to_string()).expect("written");
        call_all();
        return;
    }
    extern "C" fn call_all() {
        super::tests::call_all();
    }
    let mut run = Run::new("a_call_from_inside_the_initialization_returns").with_tool("all");
    let file = run.folder.path().join("address");
    run.command.env(CALL, file);
    // Inside, the tool has not written its functions yet.
    assert_eq!(run.log(), format!("{INITIALIZED}inside\noutside\n{ALL}"));
}
