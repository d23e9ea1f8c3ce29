// SPDX-License-Identifier: Apache-2.0
//! Executes this program again with environment variables that libraries read.
//!
//! A program cannot safely change its own environment once other code reads it, and a variable in a service file is missing
//! when the program is started by hand. `exec` keeps the process id, the open files and the terminal. A variable that is set
//! already, to any value, stays as it is.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

use jetwatch_detect as detect;
use jetwatch_source as source;

/// A variable, its value, and what happens without it.
type Variable = (&'static str, &'static str, &'static str);

/// With more than one malloc arena, each thread of the pipeline keeps freed memory in its own: some MiB without use.
const ONE_HEAP: Variable = (
    "MALLOC_ARENA_MAX",
    "1",
    "the daemon uses a little more memory",
);

/// Large pages for the tensors of ONNX Runtime and for images, where the kernel lends them on request (`madvise`, as on Debian and
/// Ubuntu); C libraries older than 2.35 ignore this. It takes 2 to 3 MiB more of memory: what is left of such pages.
const LARGE_PAGES: Variable = (
    "GLIBC_TUNABLES",
    "glibc.malloc.hugetlb=1",
    "the network takes about 3 % more CPU time",
);

/// Returns when no variable is missing, or when `exec` fails: then the program continues with the libraries' defaults.
///
/// Call it before anything is read or opened: a configuration from a pipe can be read only once.
pub(super) fn ensure_environment() {
    let telemetry = (
        detect::ort_library::NO_TELEMETRY.0,
        detect::ort_library::NO_TELEMETRY.1,
        "ONNX Runtime may send usage data to its vendor",
    );
    let camera = source::gst::needed_variable()
        .map(|(name, value)| (name, value, "unplugged cameras may not reconnect"));
    let missing: Vec<Variable> = [Some(ONE_HEAP), Some(LARGE_PAGES), Some(telemetry), camera]
        .into_iter()
        .flatten()
        .filter(|(name, ..)| env::var_os(name).is_none())
        .collect();
    if missing.is_empty() {
        return;
    }
    let mut arguments = env::args_os();
    let error = match env::current_exe() {
        Ok(program) => {
            let mut restarted = Command::new(program);
            if let Some(own_name) = arguments.next() {
                restarted.arg0(own_name);
            }
            let variables = missing.iter().map(|(name, value, _)| (name, value));
            restarted.args(arguments).envs(variables).exec()
        }
        Err(error) => error,
    };
    for (name, value, without) in missing {
        eprintln!(
            "jetwatch: cannot restart with {name}={value}: {error}; set it in the environment, otherwise {without}"
        );
    }
}
