//! Who may profile, and with which Nsight Systems.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::subject::Subject;
use crate::lines::Lines;

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// Where its packages put it.
const FOLDER: &str = "/opt/nvidia";

pub(super) fn examine(subject: &Subject, lines: &mut Lines) {
    const WHAT: &str = "profiling";
    match subject.root.number::<i32>(PARANOID) {
        Ok(Some(level)) => {
            let how = "tune.perf_event_paranoid sets it";
            let text = match level {
                ..=0 => "any user may sample its own processes and the whole system",
                1 | 2 => {
                    "any user may sample the call stacks of its own processes; the whole system needs 0 or root"
                }
                _ => {
                    "users see NVTX ranges and calls, but no call stacks: those need 2 or less, or root"
                }
            };
            let text = format!("perf_event_paranoid is {level}: {text}");
            match level > 2 && !subject.is_root {
                true => lines.unknown(WHAT, &format!("{text}; {how}")),
                false => lines.ok(WHAT, &text),
            }
        }
        Ok(None) => lines.unknown(WHAT, "this kernel has no perf events"),
        Err(error) => subject.unreadable(lines, WHAT, &error.to_string()),
    }
    let Some(path) = find(subject) else {
        lines.unknown("nsys", "Nsight Systems is not found; on a Jetson: sudo apt install nsight-systems-cli, or it comes with JetPack's nvidia-nsight-sys");
        return;
    };
    match version(&path) {
        Ok(version) => lines.ok("nsys", &format!("{version}, {}", path.display())),
        Err(error) => lines.wrong(
            "nsys",
            &format!("{}: {error}; install it anew", path.display()),
        ),
    }
}

/// The program: in a folder of programs, else where NVIDIA's packages keep it.
fn find(subject: &Subject) -> Option<PathBuf> {
    let usual = ["/usr/local/bin/nsys", "/usr/bin/nsys"];
    let mut paths: Vec<String> = usual.map(str::to_owned).into();
    for name in subject.root.names(FOLDER).unwrap_or_default() {
        if name.starts_with("nsight-systems") {
            let folder = format!("{FOLDER}/{name}");
            paths.push(format!("{folder}/bin/nsys"));
            for version in subject.root.names(&folder).unwrap_or_default() {
                paths.push(format!("{folder}/{version}/bin/nsys"));
            }
        }
    }
    let paths = paths.iter().map(|path| subject.root.path(path));
    paths.into_iter().find(|path| path.is_file())
}

fn version(path: &PathBuf) -> Result<String, String> {
    let output = Command::new(path)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| !line.trim().is_empty());
    match line {
        Some(line) if output.status.success() => Ok(line.trim().to_owned()),
        _ => Err(format!(
            "it ended with {} and said no version",
            output.status
        )),
    }
}
