// SPDX-License-Identifier: Apache-2.0
//! Calls of the nsys of this machine.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs nsys to its end.
pub(crate) fn call(nsys: &Path, arguments: &[&OsStr]) -> io::Result<Output> {
    Command::new(nsys)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
}

/// Exports `report` as SQLite to `to`; nsys names files of its own after it. The inner error is its output.
pub(crate) fn export(nsys: &Path, report: &Path, to: &Path) -> io::Result<Result<(), String>> {
    let options = ["export", "--type=sqlite", "--force-overwrite=true", "-o"].map(OsStr::new);
    let files = [to.as_os_str(), report.as_os_str()];
    let output = call(nsys, &[options.as_slice(), &files].concat())?;
    let is_done = output.status.success() && to.is_file();
    Ok(is_done.then_some(()).ok_or_else(|| output_text(&output)))
}

/// Standard output and standard error on one line, without progress bars.
pub(crate) fn output_text(output: &Output) -> String {
    let text = [output.stdout.as_slice(), b"\n", &output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let lines = text.split(['\n', '\r']).map(str::trim);
    let is_progress = |line: &str| line.contains("[1/1]") || line.contains('%');
    let lines: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !is_progress(line))
        .collect();
    if lines.is_empty() {
        return format!("it ended with {} and no output", output.status);
    }
    lines.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_shown_without_progress() {
        let output = |stdout: &str, stderr: &str| Output {
            status: std::process::ExitStatus::default(),
            stdout: stdout.into(),
            stderr: stderr.into(),
        };
        let both = output(
            "Processing 9 events: [30%]\r[1/1]\n",
            "Importer error\nfile is damaged\n",
        );
        assert_eq!(output_text(&both), "Importer error file is damaged");
        let none = output_text(&output("", ""));
        assert!(none.ends_with(" and no output"), "{none}");
    }
}
