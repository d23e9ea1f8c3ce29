//! What commands print. In this room `println!`, `print!`, `eprintln!` are those of this file: Rust's own panic when a pipe
//! is closed, which here would be a bug with a core dump because somebody typed `| head -1`.
//!
//! Whoever closes our standard output has seen enough: the process ends at once and without a word, with the exit code that
//! shells show for programs that the signal SIGPIPE ended. Rust ignores that signal, and taking it back needs unsafe code.

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

/// Prints a line to standard error; what nobody can read is not printed.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::output::eprint(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints to standard output. Ends the process when nobody reads it any more, or when it cannot be written for another
/// reason, as on a full disk; that is told.
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

/// Prints to standard error, as far as that can be written.
pub(super) fn eprint(text: Arguments<'_>) {
    // There is no third place to say so.
    let _ = stderr().lock().write_fmt(text);
}
