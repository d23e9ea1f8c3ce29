//! What libraries read from the environment only, given to them by starting this program anew.
//!
//! A program may not change its own environment safely once other code reads it, and a variable in a service file is
//! missing wherever somebody starts the program by hand. The new program takes the place of this one: process id, open
//! files and terminal stay. Whoever has set a variable, to whatever value, keeps it.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

use jetwatch_detect as detect;
use jetwatch_source as source;

/// A variable, its value, and what happens without it.
type Variable = (&'static str, &'static str, &'static str);

/// Every thread of the chain would get a part of the heap of its own, and keep what it freed there: some MiB for nothing.
const ONE_HEAP: Variable = (
    "MALLOC_ARENA_MAX",
    "1",
    "the daemon takes a little more memory",
);

/// Returns when nothing is missing, or when the new start fails: then the program works, with the libraries' faults.
///
/// To be called before anything is read or opened: a configuration that comes through a pipe can be read only once.
pub(super) fn ensure_environment() {
    let telemetry = (
        detect::ort_library::NO_TELEMETRY.0,
        detect::ort_library::NO_TELEMETRY.1,
        "ONNX Runtime may report its use to its vendor",
    );
    let camera = source::gst::needed_variable()
        .map(|(name, value)| (name, value, "unplugged cameras may not come back"));
    let missing: Vec<Variable> = [Some(ONE_HEAP), Some(telemetry), camera]
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
            "jetwatch: cannot start anew with {name}={value}: {error}; set it yourself, or {without}"
        );
    }
}
