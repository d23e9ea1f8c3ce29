//! Output of the commands. In this crate `println!`, `print!`, `eprintln!` are those of this file: Rust's own macros panic on
//! a closed pipe, and a panic aborts with a core dump, for example after `| head -1`.
//!
//! When standard output is closed, the process ends at once and silently, with the exit code that shells show for programs
//! that SIGPIPE ended. Rust ignores that signal, and restoring its default needs unsafe code.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::process;

/// 128 and the number of SIGPIPE.
const SIGPIPE_EXIT: i32 = 141;

/// Prints a line to standard output; see [`print`].
macro_rules! println {
    () => { $crate::output::print(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints to standard output; see [`print`].
macro_rules! print {
    ($($text:tt)*) => { $crate::output::print(format_args!($($text)*)) };
}

/// Prints a line to standard error; errors are ignored.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::output::eprint(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints to standard output. Ends the process when the pipe is closed, or with a message when writing fails for another
/// reason, such as a full disk.
pub(super) fn print(text: Arguments<'_>) {
    let written = stdout().lock().write_fmt(text);
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => process::exit(SIGPIPE_EXIT),
        Err(error) => {
            eprint(format_args!(
                "jetwatch: cannot write to standard output: {error}\n"
            ));
            process::exit(1);
        }
    }
}

/// Prints to standard error; errors are ignored.
pub(super) fn eprint(text: Arguments<'_>) {
    // There is no other place to report the error.
    let _ = stderr().lock().write_fmt(text);
}
