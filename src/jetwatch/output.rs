// SPDX-License-Identifier: Apache-2.0
//! Standard output and standard error of the commands. This crate uses the macros `println!`, `print!` and `eprintln!` of this
//! file: those of the standard library panic when a pipe is closed, so that `| head -1` would abort with a core dump.
//!
//! When the reader of standard output closes the pipe, the process ends at once and silently, with the exit code that shells
//! show for programs that were ended by SIGPIPE. Rust ignores that signal, and restoring it needs unsafe code.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::process;

use super::progress;

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

/// Prints a line to standard error; see [`eprint`].
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::output::eprint(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints to standard output. Ends the process when the pipe is closed, or when writing fails for another reason, such as a
/// full disk, which is reported.
pub(super) fn print(text: Arguments<'_>) {
    let written = progress::suspended(|| stdout().lock().write_fmt(text));
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

/// Prints to standard error; a failed write is ignored.
pub(super) fn eprint(text: Arguments<'_>) {
    // There is no other place to report the failure.
    let _ = progress::suspended(|| stderr().lock().write_fmt(text));
}
