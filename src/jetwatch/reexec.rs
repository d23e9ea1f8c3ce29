//! Sets environment variables that libraries need, by executing this program again.
//!
//! A program cannot change its own environment safely while other code reads it, and a variable in a service file is
//! missing when the program is started manually. The new program replaces this one: process id, open files and terminal
//! stay. A variable that is already set keeps its value.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

use jetwatch_detect as detect;
use jetwatch_source as source;

/// A variable, its value, and what happens without it.
type Variable = (&'static str, &'static str, &'static str);

/// One heap arena: with one per thread, freed memory stays in each arena, which wastes some MiB.
const ONE_HEAP: Variable = (
    "MALLOC_ARENA_MAX",
    "1",
    "the daemon takes a little more memory",
);

/// Returns when no variable is missing, or when the exec fails: then the program works, with the libraries' faults.
///
/// Call it before anything is read or opened: a configuration from a pipe can be read only once.
pub(super) fn ensure_environment() {
    let telemetry = (
        detect::ort_library::NO_TELEMETRY.0,
        detect::ort_library::NO_TELEMETRY.1,
        "ONNX Runtime may report its use to its vendor",
    );
    let camera = source::gst::needed_variable()
        .map(|(name, value)| (name, value, "unplugged cameras may not be found again"));
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
            "jetwatch: cannot restart with {name}={value}: {error}; set it yourself, or {without}"
        );
    }
}
