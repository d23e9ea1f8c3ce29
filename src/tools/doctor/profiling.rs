// SPDX-License-Identifier: Apache-2.0
//! Permission to profile, and the installed Nsight Systems.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
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
                    "users get NVTX ranges and calls, but no call stacks: those need 2 or less, or root"
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
        Ok(version) => {
            let is_in_path = std::env::var_os("PATH").is_some_and(|value| {
                std::env::split_paths(&value).any(|folder| path.parent() == Some(&folder))
            });
            let path = path.display();
            let advice = match is_in_path {
                true => String::new(),
                false => format!(
                    "; it is not in PATH: run jetwatch profile with --target-nsys {path} --nsys {path}"
                ),
            };
            report.ok("nsys", &format!("{version}, {path}{advice}"));
        }
        Err(error) => report.failed(
            "nsys",
            &format!("{}: {error}; install it again", path.display()),
        ),
    }
}

/// Path of the program: in the search path, which `jetwatch profile` uses, else in the folders of NVIDIA's packages.
fn find(context: &DoctorContext) -> Option<PathBuf> {
    // The search path is that of the real system.
    let is_real = context.root.path("/") == Path::new("/");
    let search_path = is_real.then(|| std::env::var_os("PATH")).flatten();
    let in_path = search_path.and_then(|path| in_search_path(&path));
    if in_path.is_some() {
        return in_path;
    }
    let usual = [
        "/usr/local/bin/nsys",
        "/usr/bin/nsys",
        "/usr/local/cuda/bin/nsys",
    ];
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

/// The first executable file named `nsys` in the folders of `path`, the value of PATH.
fn in_search_path(path: &OsStr) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        let metadata = path.metadata();
        metadata.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("nsys"))
        .find(is_program)
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn search_path_gives_first_executable_file() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let folders = ["empty", "text", "folder", "first", "second"].map(|name| {
            let folder = root.path().join(name);
            fs::create_dir(&folder).expect("created");
            folder
        });
        let program = |folder: &Path, mode: u32| {
            let path = folder.join("nsys");
            fs::write(&path, "#!/bin/sh\n").expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
        };
        program(&folders[1], 0o644);
        fs::create_dir(folders[2].join("nsys")).expect("created");
        program(&folders[3], 0o755);
        program(&folders[4], 0o755);
        let found =
            |folders: &[PathBuf]| in_search_path(&std::env::join_paths(folders).expect("no colon"));
        assert_eq!(found(&folders), Some(folders[3].join("nsys")));
        assert_eq!(found(&folders[..3]), None);
        assert_eq!(found(&[PathBuf::from(".")]), None, "relative");
    }
}
