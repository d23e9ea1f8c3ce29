// SPDX-License-Identifier: Apache-2.0
//! Doubles of L4T's GStreamer elements for tests: the plug-in, built on demand, and the folder through which tests break the
//! machine and see which engine did what. See `tests/virtual_jetson/README.md`.
#![allow(dead_code)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::project::built_by;

/// Time in which gst-launch must end after it has reported an error.
const ERROR_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// The folder with the plug-in and the double of libnvbufsurface, built if need be.
pub fn plugin() -> PathBuf {
    built_by("tests/virtual_jetson/gst/build")
}

/// One machine with those elements: its state and its counts, in a temporary folder that goes with it.
pub struct JetsonElements {
    folder: tempfile::TempDir,
    plugin: PathBuf,
}

/// Work of one element.
#[derive(Debug, Clone, PartialEq)]
pub struct ElementActivity {
    /// Factory, such as `nvvidconv`.
    pub element: String,
    /// The element's own name in its pipeline.
    pub name: String,
    /// `VIC`, `GPU`, `NVDEC`, `NVJPG`, `ISP` or `CPU`.
    pub engine: String,
    /// Memory, format, size and layout of what came in, such as `NVMM NV12 1280x720 block`, or the encoding.
    pub from: String,
    /// The same of what went out.
    pub to: String,
    /// Whether the CPU copied images between NVMM and its own memory.
    pub cpu_copy: bool,
    /// How many.
    pub frames: u64,
}

impl JetsonElements {
    /// A machine whose cameras work.
    pub fn new() -> Self {
        let machine = Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            plugin: plugin(),
        };
        machine.write("nvargus-daemon", "");
        machine
    }

    /// The folder of its state.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file of its state.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.folder().join(name), text).expect("written");
    }

    /// Removes a file of its state.
    pub fn remove(&self, name: &str) {
        fs::remove_file(self.folder().join(name)).expect("removed");
    }

    /// Environment of a process that uses the elements.
    pub fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("GST_PLUGIN_PATH", self.plugin.clone()),
            ("GST_PLUGIN_PATH_1_0", self.plugin.clone()),
            // Not the user's registry, which would otherwise contain the doubles.
            ("GST_REGISTRY", self.plugin.join("registry.bin")),
            ("GST_REGISTRY_1_0", self.plugin.join("registry.bin")),
            ("LD_LIBRARY_PATH", self.plugin.clone()),
            ("JETWATCH_VIRTUAL_JETSON", self.folder().to_owned()),
        ]
    }

    /// Runs a pipeline to its end, which comes by itself.
    pub fn launch(&self, pipeline: &str) -> Output {
        let mut launch = Command::new("gst-launch-1.0")
            .arg("--quiet")
            .args(pipeline.split_whitespace())
            .envs(self.environment())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("gst-launch-1.0 starts; install it with: apt-get install gstreamer1.0-tools");
        let mut printed = Vec::new();
        let mut lines = BufReader::new(launch.stderr.take().expect("a pipe"));
        while lines.read_until(b'\n', &mut printed).expect("a line") > 0 {
            // An error before gst-launch runs its main loop is reported but does not end it.
            if printed.windows(5).any(|part| part == b"ERROR") {
                let until = Instant::now() + ERROR_SHUTDOWN_TIMEOUT;
                while launch.try_wait().expect("a status").is_none() {
                    if Instant::now() > until {
                        launch.kill().expect("an end");
                    }
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
        Output {
            status: launch.wait().expect("a status"),
            stdout: Vec::new(),
            stderr: printed,
        }
    }

    /// Runs a pipeline that must end well.
    pub fn run_to_end(&self, pipeline: &str) {
        let output = self.launch(pipeline);
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{pipeline}\n{printed}");
    }

    /// Runs a pipeline that must fail, and returns its output.
    pub fn run_to_error(&self, pipeline: &str) -> String {
        let output = self.launch(pipeline);
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() || printed.contains("ERROR"),
            "{pipeline} plays: {printed}"
        );
        printed
    }

    /// Work of the elements so far: one entry per element and kind of work, in order of their start.
    pub fn activity(&self) -> Vec<ElementActivity> {
        let text = fs::read_to_string(self.folder().join("counts.jsonl")).unwrap_or_default();
        let mut all: Vec<(Value, ElementActivity)> = Vec::new();
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).expect("a line of JSON");
            let word = |key: &str| line[key].as_str().expect("a word").to_owned();
            let frames = line["frames"].as_u64().expect("a number");
            let work = ElementActivity {
                element: word("element"),
                name: word("name"),
                engine: word("engine"),
                from: format_memory(&line["from"]),
                to: format_memory(&line["to"]),
                cpu_copy: line["cpu_copy"].as_bool().expect("yes or no"),
                frames: 0,
            };
            let process = line["process"].clone();
            let known = all.iter().position(|(one, known)| {
                let of_it = ElementActivity {
                    frames: 0,
                    ..known.clone()
                };
                *one == process && of_it == work
            });
            let at = known.unwrap_or_else(|| {
                all.push((process, work));
                all.len() - 1
            });
            all[at].1.frames += frames;
        }
        all.into_iter().map(|(_, work)| work).collect()
    }
}

/// A location as text.
fn format_memory(value: &Value) -> String {
    let format = value["format"].as_str().expect("a format");
    let (Some(width), Some(height)) = (value["width"].as_u64(), value["height"].as_u64()) else {
        return format.to_owned();
    };
    let word = |key: &str| value[key].as_str().expect("a word");
    format!(
        "{} {format} {width}x{height} {}",
        word("memory"),
        word("layout")
    )
}
