// SPDX-License-Identifier: Apache-2.0
//! Doubles of TensorRT for tests: each that `tests/nvidia_doubles/build` made, in child processes of their own.
//!
//! Two of one generation have the same library names, and settings of a double are in the environment, so each test starts
//! itself again for every version. The GPU is the double of libcuda, and the real one next to it where the machine has one.
//! `JETWATCH_DOUBLES` names the folder with the doubles where it is not `.cache/nvidia_doubles`.
#![allow(dead_code)]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jetwatch_nvidia::cuda::Device;
use jetwatch_nvidia::tensorrt::{Flavor, Generation, Library};

use super::cuda;

/// Variable with the library that a child opens.
const LIBRARY: &str = "JETWATCH_TEST_TENSORRT";

/// What a child tests.
pub struct Double {
    pub library: Arc<Library>,
    pub device: Arc<Device>,
}

impl Double {
    pub fn generation(&self) -> Generation {
        self.library.generation()
    }

    /// Whether the GPU is the double of libcuda.
    pub fn is_on_double(&self) -> bool {
        self.device.name().contains("double")
    }

    /// Whether networks without Q/DQ nodes can be calibrated.
    pub fn calibrates(&self) -> bool {
        matches!(self.generation(), Generation::Eight | Generation::Ten)
    }

    /// A name for files, such as `10.3.0`.
    pub fn name(&self) -> String {
        match self.library.flavor() {
            Flavor::Rtx => format!("rtx-{}", self.library.version()),
            _ => self.library.version().to_string(),
        }
    }
}

/// Runs `body` with each double and `settings`; returns the stderr output of the children.
pub fn run_on_each(
    test: &str,
    settings: &[(&str, &str)],
    body: impl FnOnce(Double),
) -> Vec<String> {
    if let Some(double) = child(test) {
        body(double);
        return Vec::new();
    }
    let mut printed = Vec::new();
    for library in libraries() {
        let library = library.display().to_string();
        let settings: Vec<(&str, &str)> = [(LIBRARY, library.as_str())]
            .into_iter()
            .chain(settings.iter().copied())
            .collect();
        if !cuda::is_real_gpu_only() {
            let text = cuda::run_on_double(test, &settings);
            check_counts(test, &library, &text);
            cuda::assert_let_go(&format!("{test}, {library}"), &text);
            printed.push(text);
        }
        if cuda::has_gpu() {
            let text = cuda::run_on_real_gpu(test, &settings);
            check_counts(test, &library, &text);
            printed.push(text);
        }
    }
    printed
}

/// Runs `body` with each double in a process without libcuda.
pub fn run_on_each_without_gpu(test: &str, body: impl FnOnce(Arc<Library>)) {
    if cuda::is_child(test) {
        let path = env::var_os(LIBRARY).expect("the parent sets the library");
        return body(Library::open(Some(Path::new(&path))).expect("it opens"));
    }
    for library in libraries() {
        let library = library.display().to_string();
        // The real libcuda is not opened by default.
        let text = cuda::run_on_real_gpu(test, &[(LIBRARY, &library)]);
        check_counts(test, &library, &text);
    }
}

/// The library that this process tests, if it is the child that runs `test`.
fn child(test: &str) -> Option<Double> {
    if !cuda::is_child(test) {
        return None;
    }
    log::set_logger(&LOG).expect("the first logger");
    log::set_max_level(log::LevelFilter::Trace);
    // The GPU first, as in the program: TensorRT creates its objects on the current GPU.
    let device = Device::open(0).expect("a GPU");
    let path = env::var_os(LIBRARY).expect("the parent sets the library");
    let library = Library::open(Some(Path::new(&path))).expect("it opens");
    Some(Double { library, device })
}

/// No object of the double may be left.
fn check_counts(test: &str, library: &str, stderr: &str) {
    for line in stderr
        .lines()
        .filter(|line| line.starts_with("double: count "))
    {
        assert!(
            line.ends_with(" alive=0"),
            "{test}, {library}: {line}\n{stderr}"
        );
    }
}

/// The libraries of the doubles that were built.
pub fn libraries() -> Vec<PathBuf> {
    let folder = cuda::doubles();
    let stems = ["libnvinfer.so.", "libtensorrt_rtx.so."];
    let mut libraries = Vec::new();
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let files = fs::read_dir(entry.path()).into_iter().flatten().flatten();
        let is_library = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            stems.iter().any(|stem| name.starts_with(stem))
        };
        // Without its stamp file it is incomplete.
        if entry.path().join("stamp").exists() {
            libraries.extend(files.map(|file| file.path()).filter(is_library));
        }
    }
    libraries.sort();
    if libraries.is_empty() {
        eprintln!(
            "skipped: there are no doubles of TensorRT in {}; tests/nvidia_doubles/build makes them",
            folder.display()
        );
    }
    libraries
}

/// Lines of the log in this process.
static LOG: CapturedLog = CapturedLog(Mutex::new(Vec::new()));

struct CapturedLog(Mutex<Vec<(log::Level, String)>>);

impl log::Log for CapturedLog {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = (record.level(), record.args().to_string());
        self.lines().push(line);
    }

    fn flush(&self) {}
}

impl CapturedLog {
    fn lines(&self) -> MutexGuard<'_, Vec<(log::Level, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Number of log lines at `level` that contain `part`.
pub fn logged(level: log::Level, part: &str) -> usize {
    let lines = LOG.lines();
    let found = lines
        .iter()
        .filter(|(at, text)| *at == level && text.contains(part));
    found.count()
}
