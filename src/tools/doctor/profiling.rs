//! Permission to profile, and the installed Nsight Systems.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::check_report::CheckReport;
use super::context::DoctorContext;

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// Folder of NVIDIA's packages.
const FOLDER: &str = "/opt/nvidia";

pub(super) fn run(context: &DoctorContext, report: &mut CheckReport) {
    const WHAT: &str = "profiling";
    match context.root.number::<i32>(PARANOID) {
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
            match level > 2 && !context.is_root {
                true => report.unknown(WHAT, &format!("{text}; {how}")),
                false => report.ok(WHAT, &text),
            }
        }
        Ok(None) => report.unknown(WHAT, "this kernel has no perf events"),
        Err(error) => context.unreadable(report, WHAT, &error.to_string()),
    }
    let Some(path) = find(context) else {
        report.unknown("nsys", "Nsight Systems is not found; on a Jetson: sudo apt install nsight-systems-cli, or it comes with JetPack's nvidia-nsight-sys");
        return;
    };
    match version(&path) {
        Ok(version) => report.ok("nsys", &format!("{version}, {}", path.display())),
        Err(error) => report.failed(
            "nsys",
            &format!("{}: {error}; install it again", path.display()),
        ),
    }
}

/// The program: in a folder of programs, else in the folder of NVIDIA's packages.
fn find(context: &DoctorContext) -> Option<PathBuf> {
    let usual = ["/usr/local/bin/nsys", "/usr/bin/nsys"];
    let mut paths: Vec<String> = usual.map(str::to_owned).into();
    for name in context.root.names(FOLDER).unwrap_or_default() {
        if name.starts_with("nsight-systems") {
            let folder = format!("{FOLDER}/{name}");
            paths.push(format!("{folder}/bin/nsys"));
            for version in context.root.names(&folder).unwrap_or_default() {
                paths.push(format!("{folder}/{version}/bin/nsys"));
            }
        }
    }
    let paths = paths.iter().map(|path| context.root.path(path));
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
            "it ended with {} and printed no version",
            output.status
        )),
    }
}
