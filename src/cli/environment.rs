//! What a library reads from the environment only, given to it by starting this program anew.
//!
//! A program may not change its own environment safely once other code reads it, and a variable in a service file is
//! missing wherever somebody starts the program by hand. The new program takes the place of this one: process id, open
//! files and terminal stay.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::source;

/// Returns when nothing is missing, or when the new start fails: then the daemon works, with the library's fault.
///
/// To be called before anything is read or opened: a configuration that comes through a pipe can be read only once.
pub(super) fn complete() {
    let Some((name, value)) = source::gst::needed_variable() else {
        return;
    };
    let mut arguments = env::args_os();
    let mut anew = match env::current_exe() {
        Ok(program) => Command::new(program),
        Err(error) => return say(name, value, &error),
    };
    if let Some(own_name) = arguments.next() {
        anew.arg0(own_name);
    }
    let error = anew.args(arguments).env(name, value).exec();
    say(name, value, &error);
}

fn say(name: &str, value: &str, error: &std::io::Error) {
    eprintln!(
        "jetwatch: cannot start anew with {name}={value}: {error}; set it yourself, or cameras that were unplugged may not come back"
    );
}
