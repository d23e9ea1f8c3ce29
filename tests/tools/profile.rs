// SPDX-License-Identifier: Apache-2.0
//! `jetwatch profile` with doubles of nsys and ssh (`nsys/`): commands, files and failures. The real ones are
//! in `nsys_profile`.

use crate::support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::daemon::{
    Setup, Signal, finish, signal, start, stderr, wait_for_output, wait_until_some,
};

const ENDLESS: &str = "synthetic://traffic?seed=3&objects=3&width=160&height=120&fps=50";

/// A configuration, doubles, and a folder for what the target writes.
struct ProfileSetup {
    setup: Setup,
    target: PathBuf,
}

impl ProfileSetup {
    fn new(uri: &str) -> Self {
        let setup = Setup::new(&format!(
            "device: test\nsources: [{{name: cam, uri: '{uri}'}}]\ndetector: {{backend: scripted}}\npublish: {{mqtt: off, json_lines: {{path: events.jsonl}}}}\n"
        ));
        let target = setup.path("target");
        fs::create_dir(&target).expect("created");
        Self { setup, target }
    }

    /// With a source that delivers frames as fast as they are consumed, and ends.
    fn short() -> Self {
        Self::new(&format!("{ENDLESS}&frames=40&realtime=false"))
    }

    fn command(&self) -> Command {
        self.command_with(&[])
    }

    /// `jetwatch profile` with `more` options and values, which go before those that every test has.
    fn command_with(&self, more: &[&str]) -> Command {
        let mut command = self.setup.command("profile");
        command.args(more);
        let usual = [
            ("--output", self.setup.path("out")),
            ("--target-folder", self.target.clone()),
            ("--target-nsys", double("double")),
        ];
        for (option, value) in usual {
            if !more.contains(&option) {
                command.arg(option).arg(value);
            }
        }
        command
            .arg("--fetch-only")
            .env("NSYS_MEMORY", self.setup.path("memory"))
            .env("SSH_ARGUMENTS", self.setup.path("ssh-arguments"));
        command
    }

    /// Output of the double of nsys.
    fn report(&self, name: &str) -> String {
        fs::read_to_string(self.setup.path(name)).expect("a report")
    }

    /// Nothing is left at the target: no files, and no process with its folder as an argument.
    fn is_clean(&self) -> bool {
        let is_empty = fs::read_dir(&self.target)
            .expect("readable")
            .next()
            .is_none();
        is_empty && self.processes().is_empty()
    }

    /// Command lines of processes that name the target's folder.
    fn processes(&self) -> Vec<String> {
        let wanted = self.target.display().to_string();
        let lines = fs::read_dir("/proc").expect("readable").flatten();
        let lines = lines.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines
            .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
            .filter(|line| line.contains(&wanted) && !line.contains("--target-folder"))
            .collect()
    }
}

fn double(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/nsys")
        .join(name)
}

/// The error of a run that must fail.
fn failure(output: &Output, status: i32) -> String {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(status), "{text}");
    text
}

fn assert_success(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
}

#[test]
fn run_is_profiled_and_report_fetched() {
    let bench = ProfileSetup::short();
    let output = finish(
        bench
            .command()
            .args(["--duration", "90s", "--warmup", "1500ms", "--frames", "30"])
            .env("NSYS_TRACES", "'cuda', 'nvtx', 'osrt', 'nvvideo'"),
    );
    assert_success(&output);
    let text = stderr(&output);
    assert_has!(text => "run with 30 frames", "the CPU is not sampled");
    let report = bench.report("out.nsys-rep");
    assert_has!(report =>
        "profile --trace=cuda,nvtx,osrt,nvvideo --sample=none --cpuctxsw=none --delay=2 --force-overwrite=true --output=",
        " run --config=", " --duration=91500ms --max-frames=30");
    assert!(bench.report("out.stats.json").contains("\"frames\": 30"));
    assert!(bench.is_clean());

    let again = failure(&finish(&mut bench.command()), 1);
    assert_has!(again => "out.nsys-rep exists", "--force");
    assert_success(&finish(bench.command().arg("--force")));
}

#[test]
fn each_batch_size_has_own_report() {
    let bench = ProfileSetup::short();
    assert_success(&finish(bench.command().args(["--batch-sizes", "4,16"])));
    let mut hashes = Vec::new();
    for (name, size) in [("out-batch04", "4"), ("out-batch16", "16")] {
        let report = bench.report(&format!("{name}.nsys-rep"));
        assert!(report.contains(&format!("--batch-size={size}")), "{report}");
        let stats: serde_json::Value =
            serde_json::from_str(&bench.report(&format!("{name}.stats.json"))).expect("JSON");
        let notes = &stats["profile"];
        assert_eq!(notes["varied"]["detector.batch_size"], size, "{notes}");
        hashes.push((notes["base_hash"].clone(), notes["config_hash"].clone()));
    }
    assert_eq!(hashes[0].0, hashes[1].0);
    assert_ne!(hashes[0].1, hashes[1].1);
    let output = finish(bench.command().args(["--batch-sizes", "0"]));
    assert!(failure(&output, 2).contains("1..=64"));
}

#[test]
fn profile_reports_missing_parts_before_start() {
    let bench = ProfileSetup::short();
    for case in [
        "--program nowhere => there is no `nowhere` on this machine",
        "--trace nvtx,cudla => does not support the trace `cudla`",
        "--target-folder /nowhere => choose another folder with --target-folder",
        "--output nowhere/out => cannot write nowhere/out.stats.json",
    ] {
        let (option, wanted) = case.split_once(" => ").expect("an option and its error");
        let words: Vec<&str> = option.split(' ').collect();
        let text = failure(&finish(&mut bench.command_with(&words)), 1);
        assert!(text.contains(wanted), "{wanted}: {text}");
        assert!(bench.is_clean(), "{wanted}");
        assert!(!bench.setup.path("out.nsys-rep").exists(), "{wanted}");
    }

    // The one here exports what the one there wrote.
    let old = bench.setup.path("old");
    fs::write(
        &old,
        "#!/bin/sh\necho NVIDIA Nsight Systems version 2021.5.1.1\n",
    )
    .expect("written");
    fs::set_permissions(&old, fs::Permissions::from_mode(0o755)).expect("executable");
    let here = |nsys: &Path| {
        let mut command = bench.setup.command("profile");
        command
            .arg("--target-nsys")
            .arg(double("double"))
            .arg("--nsys")
            .arg(nsys);
        command.arg("--output").arg(bench.setup.path("out"));
        failure(&finish(&mut command), 1)
    };
    let text = here(&old);
    assert_has!(text => "is 2022.4.2, the local one is 2021.5.1");
    let text = here(Path::new("nowhere"));
    assert_has!(text => "there is no nsys here", "--fetch-only");
}

#[test]
fn failing_daemon_reports_its_own_error() {
    let bench = ProfileSetup::short();
    fs::write(&bench.setup.config, "sources: []\n").expect("written");
    let text = failure(&finish(&mut bench.command()), 78);
    assert_has!(text => "the daemon, or nsys around it, failed", "sources");
    assert!(bench.is_clean());
}

#[test]
fn full_disk_and_hanging_nsys_are_reported() {
    let bench = ProfileSetup::short();
    let text = failure(&finish(bench.command().env("NSYS_DOES", "full")), 1);
    assert_has!(text => "became full", "--target-folder");
    assert!(bench.is_clean());

    let output = finish(
        bench
            .command()
            .args(["--duration", "1s", "--export-timeout", "1s"])
            .env("NSYS_DOES", "hangs"),
    );
    let text = failure(&output, 1);
    assert_has!(text => "did not end on this machine within 2 s");
    assert!(bench.is_clean());
}

#[test]
fn recording_of_a_killed_daemon_is_kept_without_statistics() {
    let bench = ProfileSetup::new(ENDLESS);
    let output = finish(bench.command().env("NSYS_DOES", "kills"));
    let text = stderr(&output);
    assert_has!(text => "exit status 137 and wrote no statistics; the recording is kept");
    assert_ne!(output.status.code(), Some(0), "the daemon failed");
    assert!(bench.report("out.nsys-rep").starts_with("profile "));
    let notes: serde_json::Value =
        serde_json::from_str(&bench.report("out.stats.json")).expect("JSON");
    assert!(notes["profile"]["command"].is_string(), "{notes}");
    assert!(bench.is_clean());
}

#[test]
fn missing_configuration_is_told_before_nsys_starts() {
    let bench = ProfileSetup::short();
    fs::remove_file(&bench.setup.config).expect("removed");
    let text = failure(&finish(&mut bench.command()), 1);
    assert_has!(text => "cannot read ", "name the configuration with --config");
    assert!(!bench.setup.path("out.nsys-rep").exists());
}

#[test]
fn what_a_recording_will_lack_is_named_before_nsys_starts() {
    let bench = ProfileSetup::short();
    let mut command = bench.command();
    command.args(["--trace", "cuda", "--frames", "4", "--duration", "500ms"]);
    let output = finish(&mut command);
    assert_success(&output);
    let text = stderr(&output);
    let (before, _) = text
        .split_once("jetwatch: profiling on")
        .expect("it starts");
    assert_has!(before =>
        "without nvtx in --trace there are no ranges", "4 frames are fewer than 20 batches", "0.5 s hold little beside the start");
}

#[test]
fn run_that_ends_before_the_recording_is_reported() {
    let bench = ProfileSetup::short();
    let mut command = bench.command();
    command.args(["--frames", "30", "--warmup", "500ms"]);
    let text = failure(&finish(command.env("NSYS_DOES", "delays")), 1);
    assert_has!(text =>
        "the run of 30 frames ended before --warmup was over, for which nsys waits 1 s", "leave --warmup out, or raise --frames");
    assert!(bench.is_clean());
}

#[test]
fn nsys_bug_is_retried_then_reported() {
    for (faults, status) in [(2, 0), (3, 1)] {
        let bench = ProfileSetup::short();
        fs::write(bench.setup.path("memory"), "one\n".repeat(faults)).expect("written");
        let output = finish(bench.command().env("NSYS_DOES", "faults"));
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{text}");
        assert_eq!(text.matches("trying again").count(), 2, "{text}");
        assert_eq!(text.contains("QuadDCommon"), status == 1, "{text}");
        assert!(bench.is_clean());
    }
}

#[test]
fn signal_and_sudden_kill_stop_everything() {
    for by in [Signal::TERM, Signal::INT, Signal::KILL] {
        let bench = ProfileSetup::new(ENDLESS);
        let child = start(bench.command().args(["--duration", "500s"]));
        wait_until_some("frames", || {
            fs::metadata(bench.setup.path("events.jsonl"))
                .is_ok_and(|file| file.len() > 0)
                .then_some(())
        });
        signal(&child, by);
        let output = wait_for_output(child);
        if by != Signal::KILL {
            assert!(failure(&output, 1).contains("stopped by a signal"));
            assert!(bench.is_clean(), "{by:?}: {:?}", bench.processes());
        }
        // Nothing waits for actions after a kill.
        wait_until_some("a clean target", || bench.is_clean().then_some(()));
    }
}

#[test]
fn config_is_copied_over_ssh_and_resolves_remote_paths() {
    let bench = ProfileSetup::short();
    let there = bench.setup.path("there");
    fs::create_dir(&there).expect("created");
    fs::write(there.join("labels.txt"), "person\n").expect("written");
    let remote = |does: &str| {
        let mut command = bench.command();
        command
            .args([
                "--host",
                "root@jetson",
                "--ssh-option",
                "Port=2222",
                "--ssh-option=-4",
                "--program",
            ])
            .arg(env!("CARGO_BIN_EXE_jetwatch"))
            .arg("--remote-dir")
            .arg(&there)
            .arg("--ssh")
            .arg(double("ssh"))
            .env("SSH_DOES", does);
        finish(&mut command)
    };
    assert_success(&remote(""));
    let report = bench.report("out.nsys-rep");
    assert_has!(report => "jetwatch.yaml\n", "labels.txt\n");
    assert!(there.join("labels.txt").exists());
    let arguments = fs::read_to_string(bench.setup.path("ssh-arguments")).expect("written");
    assert!(
        arguments.starts_with("-T\n-o\nPort=2222\n-4\n-o\n"),
        "{arguments}"
    );
    assert!(arguments.contains("--\nroot@jetson\n"), "{arguments}");
    assert!(bench.is_clean());

    fs::remove_file(bench.setup.path("out.nsys-rep")).expect("removed");
    fs::remove_file(bench.setup.path("out.stats.json")).expect("removed");
    let text = failure(&remote("refuse"), 1);
    assert_has!(text => "Permission denied (publickey)", "--ssh-option");
}

#[test]
fn a_service_is_recorded_through_its_session() {
    let bench = ProfileSetup::short();
    let attach = |sessions: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jetwatch"));
        command
            .args([
                "profile",
                "--attach",
                "--duration",
                "1s",
                "--fetch-only",
                "--session",
                "box",
                "--output",
            ])
            .arg(bench.setup.path("out"))
            .arg("--target-folder")
            .arg(&bench.target)
            .arg("--target-nsys")
            .arg(double("double"))
            .env("NSYS_SESSIONS", sessions)
            .env("NSYS_MEMORY", bench.setup.path("memory"));
        finish(&mut command)
    };
    let text = failure(&attach(""), 1);
    assert_has!(text => "session `box`", "profiling.conf");
    assert_success(&attach(" 1 00:04 Launched 1 box"));
    assert!(
        bench
            .report("out.nsys-rep")
            .starts_with("stop --session=box")
    );
    assert!(!bench.setup.path("memory.box").exists());
    assert!(bench.is_clean());
}
