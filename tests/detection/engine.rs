// SPDX-License-Identifier: Apache-2.0
//! `jetwatch engine` on doubles of TensorRT and of libcuda, and on NVIDIA's real TensorRT-RTX without a GPU.
//!
//! The doubles are where `tests/nvidia_doubles/build` puts them, the real library at `JETWATCH_TENSORRT`; a test for which
//! there is none is skipped with a message.

use crate::support;
use crate::support::cuda;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use jetwatch_pixels::ImageFormat;
use jetwatch_source::image_file::write_rgb;
use jetwatch_types::Size;
use support::daemon::{TEST_TIMEOUT, finish, start, wait_for_output};

/// One version of each generation.
const VERSIONS: [&str; 3] = ["8.5.2", "10.3.0", "11.4.0"];

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folders of the double of TensorRT `version` and of the double of libcuda; `None`, with a message, when they were not built.
fn doubles(version: &str) -> Option<String> {
    static CUDA: OnceLock<PathBuf> = OnceLock::new();
    let folder = cuda::doubles().join(version);
    if !folder.join("stamp").exists() {
        eprintln!("skipped for {version}: tests/nvidia_doubles/build has not built its double");
        return None;
    }
    let cuda = CUDA.get_or_init(cuda::double);
    Some(format!("{}:{}", folder.display(), cuda.display()))
}

/// A folder for engines, and the commands on it.
struct Bench {
    folder: tempfile::TempDir,
    libraries: String,
}

impl Bench {
    fn new(version: &str) -> Option<Self> {
        let libraries = doubles(version)?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        Some(Self { folder, libraries })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn engines(&self) -> PathBuf {
        self.path("engines")
    }

    /// `jetwatch engine ARGUMENTS` with the doubles.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jetwatch"));
        command
            .arg("engine")
            .args(arguments)
            .env("LD_LIBRARY_PATH", &self.libraries)
            .env_remove("RUST_LOG");
        command
    }

    /// `jetwatch engine build` of street-nano with `arguments`, in INT8 unless they select another precision.
    fn build(&self, arguments: &[&str]) -> Command {
        let model = project().join("models/street-nano");
        let mut command = self.command(&["build", "--model"]);
        command.arg(model).arg("--engines").arg(self.engines());
        if !arguments.contains(&"--precision") {
            command.args(["--precision", "int8"]);
        }
        // Last: the value of the last option may follow.
        command.args(arguments);
        command
    }

    /// The printed list of the engines.
    fn list(&self) -> String {
        ends(self.command(&["list", "--engines"]).arg(self.engines()), 0)
    }

    /// Files in the folder of engines that end with `ending`, sorted.
    fn files(&self, ending: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.engines()) else {
            return Vec::new();
        };
        let mut files: Vec<PathBuf> = entries
            .map(|entry| entry.expect("readable").path())
            .filter(|path| path.to_string_lossy().ends_with(ending))
            .collect();
        files.sort();
        files
    }

    fn manifest(&self) -> serde_json::Value {
        let [path] = &self.files(".engine.json")[..] else {
            panic!("not one manifest: {:?}", self.files(".json"));
        };
        serde_json::from_slice(&fs::read(path).expect("readable")).expect("JSON")
    }
}

fn printed(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// Runs a command that must exit with `code`, and returns its output.
fn ends(command: &mut Command, code: i32) -> String {
    let output = finish(command);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(code), "{command:?}\n{text}");
    text
}

#[test]
fn engine_is_built_once_cached_and_rebuilt_with_force() {
    for version in VERSIONS {
        let Some(bench) = Bench::new(version) else {
            continue;
        };
        let settings = ["--batch", "2", "--workers", "2"];
        let text = ends(&mut bench.build(&settings), 0);
        assert_has!(text =>
            "reason     no TensorRT engine of street-nano in int8 was built yet", "layers by output precision: ", "by device: GPU");
        let manifest = bench.manifest();
        assert_eq!(manifest["recipe"]["builder_version"], version);
        assert_eq!(manifest["recipe"]["batch"], 2);
        let profiles = if version == "8.5.2" { 2 } else { 1 };
        assert_eq!(manifest["recipe"]["profiles"], profiles, "{version}");
        assert_eq!(bench.files(".partial"), Vec::<PathBuf>::new());
        // The timing cache is kept for the next build.
        assert_eq!(bench.files(".cache").len(), 1, "{version}");

        let text = ends(&mut bench.build(&settings), 0);
        assert_has!(text => "found      the engine exists already");
        assert_eq!(bench.manifest(), manifest);

        let mut forced = bench.build(&settings);
        let text = ends(
            forced.arg("--force").env("RUST_LOG", "info,tensorrt=trace"),
            0,
        );
        assert!(!text.contains("found      "), "{text}");
        assert_has!(text => "timing from the cache");
        assert_ne!(bench.manifest()["built_at"], manifest["built_at"]);

        let list = bench.list();
        assert_has!(list => "whole", "street-nano in int8, batches of 1 to 2");
    }
}

#[test]
fn engine_rebuild_reports_differences_first() {
    let Some(bench) = Bench::new("10.3.0") else {
        return;
    };
    ends(&mut bench.build(&["--batch", "2"]), 0);
    let text = ends(&mut bench.build(&["--batch", "4"]), 0);
    assert_has!(text => "does not fit: it was built for batches up to 2, and 4 is configured");
    let Some(newer) = doubles("11.4.0") else {
        return;
    };
    let mut other = bench.build(&["--batch", "4"]);
    let text = ends(other.env("LD_LIBRARY_PATH", newer), 0);
    assert_has!(text => "it was built by TensorRT 10.3.0, and TensorRT 11.4.0 is here", "outdated   1 engines");
    assert_eq!(bench.files(".engine").len(), 3);
    // The newer version is built; the engine of the older one with the same settings is removed.
    let text = ends(
        bench
            .build(&["--batch", "4", "--prune"])
            .env("LD_LIBRARY_PATH", doubles("11.4.0").expect("as above")),
        0,
    );
    assert_has!(text => "removed    ", "b4-trt10.3.0-");
    assert_eq!(bench.files(".engine").len(), 2);

    // A damaged plan is not used.
    let path = bench.files(".engine").remove(0);
    let mut plan = fs::read(&path).expect("readable");
    plan[100] ^= 1;
    fs::write(&path, plan).expect("writable");
    let list = bench.list();
    assert_has!(list => "DAMAGED: its SHA-256 is ");
    let text = ends(bench.command(&["inspect"]).arg(&path), 1);
    assert_has!(text => "WRONG      its SHA-256 is ");
    let text = ends(&mut bench.build(&["--batch", "2"]), 0);
    assert_has!(text => "is damaged: its SHA-256 is ");
    ends(bench.command(&["inspect"]).arg(&path), 0);
}

/// A folder with `count` images.
fn image_folder(bench: &Bench, count: u8) -> PathBuf {
    let folder = bench.path("pictures");
    fs::create_dir_all(&folder).expect("made");
    let size = Size::new(160, 120);
    for index in 0..count {
        let rgb: Vec<u8> = (0..size.width * size.height * 3)
            .map(|at| (at as u8).wrapping_mul(31).wrapping_add(index))
            .collect();
        write_rgb(
            &folder.join(format!("{index}.png")),
            ImageFormat::Png,
            size,
            &rgb,
        )
        .expect("written");
    }
    folder
}

#[test]
fn calibration_uses_images_then_cache() {
    for version in ["8.5.2", "10.3.0"] {
        let Some(bench) = Bench::new(version) else {
            continue;
        };
        let (pictures, cache) = (image_folder(&bench, 5), bench.path("street.calibration"));
        let mut calibrating = bench.build(&["--batch", "2", "--calibration-images"]);
        calibrating.arg(&pictures).arg("--calibration").arg(&cache);
        let text = ends(&mut calibrating, 0);
        assert_has!(text => "calibrated with 4 images; to use it: detector.tensorrt.calibration: ");
        let calibrated = fs::read_to_string(&cache).expect("it was written");
        assert!(calibrated.starts_with("TRT-"), "{calibrated}");
        let manifest = bench.manifest();
        assert!(manifest["recipe"]["calibration_sha256"].is_string());

        // With the calibration cache, the spec is the same.
        let mut again = bench.build(&["--batch", "2", "--precision", "int8", "--calibration"]);
        let text = ends(again.arg(&cache), 0);
        assert_has!(text => "found      the engine exists already");
        // Without it, the engine of the network with Q/DQ nodes is another.
        let text = ends(
            &mut bench.build(&["--batch", "2", "--precision", "int8"]),
            0,
        );
        assert_has!(text => "it was calibrated, and no calibration is configured");
        // The calibration cache is enough to rebuild.
        fs::remove_dir_all(bench.engines()).expect("removed");
        let mut restarted = bench.build(&["--batch", "2", "--precision", "int8", "--calibration"]);
        ends(restarted.arg(&cache), 0);
        assert_eq!(bench.manifest()["plan_sha256"], manifest["plan_sha256"]);

        let mut few = bench.build(&["--batch", "8", "--calibration-images"]);
        let text = ends(few.arg(&pictures), 1);
        assert_has!(text => "found 5 images that can be read, expected at least 8");
    }
}

#[test]
fn tensorrt_11_has_no_calibration() {
    let Some(bench) = Bench::new("11.4.0") else {
        return;
    };
    let pictures = image_folder(&bench, 2);
    let mut calibrating = bench.build(&["--calibration-images"]);
    let text = ends(calibrating.arg(&pictures), 78);
    assert_has!(text => "cannot calibrate a network; give a network with Q/DQ nodes");
    assert_eq!(bench.files(".engine"), Vec::<PathBuf>::new());
    let mut wrong = bench.build(&["--precision", "fp32", "--calibration-images"]);
    let text = ends(wrong.arg(&pictures), 2);
    assert_has!(text => "--calibration-images is for INT8");
}

#[test]
fn failed_build_reports_tensorrt_message_and_leaves_no_file() {
    for version in VERSIONS {
        let Some(bench) = Bench::new(version) else {
            continue;
        };
        #[rustfmt::skip]
        let cases = [
            ("out-of-memory", "OutOfMemory (Requested size was 1073741824 bytes.)"),
            ("unsupported-layer", "Could not find any implementation for node "),
        ];
        for (failure, words) in cases {
            let text = ends(bench.build(&[]).env("JETWATCH_DOUBLE_FAIL", failure), 1);
            assert_has!(text => "TensorRT failed at IBuilder::buildSerializedNetwork: ", words);
        }
        let text = ends(
            bench
                .build(&[])
                .env("JETWATCH_DOUBLE_GPU_BYTES", "200000000"),
            1,
        );
        assert_has!(text => "too little memory to build an engine: 190 MiB of GPU memory are free");
        assert_eq!(bench.files(".engine"), Vec::<PathBuf>::new());
        assert_eq!(bench.files(".partial"), Vec::<PathBuf>::new());
        // None of it disturbs the next build.
        ends(&mut bench.build(&[]), 0);
    }
}

#[test]
fn signal_cancels_build_without_output() {
    for version in VERSIONS {
        let Some(bench) = Bench::new(version) else {
            continue;
        };
        let child = start(
            bench
                .build(&[])
                .env("JETWATCH_DOUBLE_BUILD_MS", "600000")
                .env("RUST_LOG", "info,tensorrt=debug"),
        );
        // The lock is taken when all steps before the build are done.
        let since = Instant::now();
        while !bench.engines().join(".lock").exists() {
            assert!(since.elapsed() < TEST_TIMEOUT, "no build began");
            std::thread::yield_now();
        }
        let id = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it runs");
        let output = wait_for_output(child);
        let text = printed(&output);
        if version == "8.5.2" {
            let found = std::os::unix::process::ExitStatusExt::signal(&output.status);
            assert_eq!(found, Some(2), "{text}");
        } else {
            assert_eq!(output.status.code(), Some(1), "{text}");
            assert_has!(text => "the build was canceled; nothing was written");
        }
        assert_eq!(bench.files(".engine"), Vec::<PathBuf>::new());
        assert_eq!(bench.files(".engine.json"), Vec::<PathBuf>::new());
    }
}

#[test]
fn dla_runs_unquantized_network() {
    let Some(bench) = Bench::new("8.5.2") else {
        return;
    };
    let with_cores = |arguments: &[&str]| {
        let mut command = bench.build(arguments);
        command.env("JETWATCH_DOUBLE_DLA_CORES", "2");
        command
    };
    let text = ends(&mut with_cores(&["--dla", "0"]), 78);
    assert_has!(text => "cannot run a network with Q/DQ nodes on a DLA; DLA supports implicit quantization only");
    let text = ends(&mut with_cores(&["--dla", "0", "--precision", "fp32"]), 78);
    assert_has!(text => "a DLA supports only fp16 and int8");
    let text = ends(&mut with_cores(&["--dla", "7", "--precision", "fp16"]), 78);
    assert_has!(text => "core 7 was requested, and this machine has 2");
    let text = ends(&mut with_cores(&["--dla", "1", "--precision", "fp16"]), 0);
    assert_has!(text => "-fp16-dla-b1-trt8.5.2-", "DLA ");
    let manifest = bench.manifest();
    let found = (
        &manifest["recipe"]["dla"],
        &manifest["recipe"]["gpu_fallback"],
    );
    assert_eq!(found, (&true.into(), &true.into()));
    let path = bench.files(".engine").remove(0);
    let mut loading = bench.command(&["inspect", "--json", "--load", "--dla", "0"]);
    let text = finish(loading.arg(&path).env("JETWATCH_DOUBLE_DLA_CORES", "2"));
    let report: serde_json::Value = serde_json::from_slice(&text.stdout).expect("JSON");
    assert_eq!(report["layers"], manifest["layers"], "{report}");
    assert!(
        report["layers"]["device"]["DLA"].as_u64() > Some(0),
        "{report}"
    );
}

#[test]
fn missing_tensorrt_parts_are_reported() {
    let Some(bench) = Bench::new("10.3.0") else {
        return;
    };
    let tensorrt = bench
        .libraries
        .split(':')
        .next()
        .expect("two folders")
        .to_owned();
    let text = ends(bench.build(&[]).env("LD_LIBRARY_PATH", &tensorrt), 78);
    if !cuda::has_gpu() {
        assert!(text.contains(cuda::no_gpu_message()), "{text}");
    }
    let text = ends(bench.build(&[]).env("LD_LIBRARY_PATH", "/nowhere"), 78);
    assert_has!(text => "TensorRT was not found");
    let text = ends(&mut bench.build(&["--compute-capability", "8.6"]), 78);
    assert_has!(text => "cannot build for another GPU");
    let text = ends(&mut bench.build(&["--precision", "int4"]), 78);
    assert_has!(text => "begins with fp32, fp16 or int8");

    let file = bench.path("file");
    fs::write(&file, "").expect("written");
    let model = project().join("models/street-nano");
    let mut command = bench.command(&["build", "--model"]);
    let text = ends(
        command
            .arg(&model)
            .arg("--engines")
            .arg(file.join("engines")),
        78,
    );
    assert_has!(text => "cannot write ", "--engines");
    let mut command = bench.command(&["build", "--model"]);
    let text = ends(command.arg(bench.path("no model")), 78);
    assert_has!(text => "detector.model must name a folder with a model.yaml");
}

#[test]
fn full_disk_is_reported_and_left_unchanged() {
    let Some(bench) = Bench::new("10.3.0") else {
        return;
    };
    fs::create_dir(bench.engines()).expect("made");
    let mount = |arguments: &[&str]| {
        let mut command = Command::new("mount");
        command
            .args(arguments)
            .arg(bench.engines())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=4m", "none"]) {
        eprintln!("skipped: a small disk can be mounted by root alone, and not in every container");
        return;
    }
    let text = ends(&mut bench.build(&[]), 1);
    let left = bench.files("");
    let unmounted = Command::new("umount").arg(bench.engines()).status();
    assert_has!(text => "not enough disk space for the engine in ");
    assert_eq!(left, [bench.engines().join(".lock")]);
    assert!(unmounted.is_ok_and(|status| status.success()));
}

#[test]
fn config_selects_engine_and_options_override() {
    let Some(bench) = Bench::new("8.5.2") else {
        return;
    };
    let config = bench.path("jetwatch.yaml");
    let yaml = format!(
        "sources: [{{name: a, uri: synthetic://traffic}}]\ndetector:\n  backend: tensorrt\n  model: {}\n  precision: fp16\n  batch_size: 4\n  \
         workers: 3\n  tensorrt: {{engines: engines, workspace_mib: 128, library: {}}}\n",
        project().join("models/street-nano").display(),
        cuda::doubles().join("8.5.2").display()
    );
    fs::write(&config, yaml).expect("written");
    ends(bench.command(&["build", "--config"]).arg(&config), 0);
    let recipe = bench.manifest()["recipe"].clone();
    let found = (
        &recipe["precision"],
        &recipe["batch"],
        &recipe["profiles"],
        &recipe["workspace_mib"],
    );
    assert_eq!(found, (&"fp16".into(), &4.into(), &3.into(), &128.into()));
    let copy = bench.path("copy.engine");
    let mut other = bench.command(&["build", "--batch", "1", "--config"]);
    let text = ends(other.arg(&config).arg("--output").arg(&copy), 0);
    assert_has!(text => "copied     to ");
    assert_eq!(bench.files(".engine").len(), 2);
    let text = ends(bench.command(&["inspect"]).arg(&copy), 0);
    assert_has!(text => "street-nano in fp16, batches of 1 to 1");
    let mut list = bench.command(&["list", "--json", "--config"]);
    let list: serde_json::Value =
        serde_json::from_slice(&finish(list.arg(&config)).stdout).expect("JSON");
    let states: Vec<_> = list
        .as_array()
        .expect("a list")
        .iter()
        .map(|listed| listed["state"].clone())
        .collect();
    assert_eq!(states, ["whole", "whole"]);
}

#[test]
fn tensorrt_rtx_builds_for_absent_gpu() {
    let Some(library) = std::env::var_os("JETWATCH_TENSORRT") else {
        eprintln!("skipped: JETWATCH_TENSORRT names no folder with NVIDIA's libraries");
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bench = Bench {
        folder,
        libraries: String::new(),
    };
    let mut build = bench.build(&["--batch", "4", "--compute-capability", "8.6", "--tensorrt"]);
    let text = ends(build.arg(&library), 0);
    assert_has!(text => "for any (compute capability 8.6)");
    let path = bench.files(".engine").remove(0);
    let text = ends(bench.command(&["inspect"]).arg(&path), 0);
    assert_has!(text => "a plan whose header names version 1.7.1.", "for compute capability 8.6");
    let mut again = bench.build(&["--batch", "4", "--compute-capability", "8.6", "--tensorrt"]);
    assert!(ends(again.arg(&library), 0).contains("found      the engine exists already"));
    // Without its manifest, and cut off, the header alone speaks.
    let half = bench.path("half.engine");
    let plan = fs::read(&path).expect("readable");
    fs::write(&half, &plan[..plan.len() / 2]).expect("written");
    let text = ends(bench.command(&["inspect"]).arg(&half), 1);
    assert!(
        text.contains("it is cut off or damaged") && text.contains(&plan.len().to_string()),
        "{text}"
    );
    // As Ultralytics writes plans.
    let description = br#"{"task": "detect", "batch": 4}"#;
    let wrapped = [
        &(description.len() as u32).to_le_bytes()[..],
        description,
        &plan,
    ]
    .concat();
    fs::write(&half, wrapped).expect("written");
    let text = ends(bench.command(&["inspect"]).arg(&half), 0);
    assert_has!(text => "as Ultralytics writes them", "task: \"detect\"");
}
