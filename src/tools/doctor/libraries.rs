// SPDX-License-Identifier: Apache-2.0
//! Libraries that are opened at run time: paths and versions, compared with the versions of this release of JetPack.

use std::fs;

use super::check_report::CheckReport;
use super::context::{DoctorContext, NO_JETSON};
use jetwatch_detect::engines::{device, open_library};
use jetwatch_detect::{DetectError, ort_library};
use jetwatch_platform as platform;
use jetwatch_source as source;

/// Versions of CUDA and TensorRT in the releases of L4T, by the first number of the release.
const EXPECTED: [Expected; 4] = [
    Expected {
        release: 35,
        cuda: [(11, 4), (11, 4)],
        tensorrt: [(8, 4), (8, 5)],
    },
    Expected {
        release: 36,
        cuda: [(12, 2), (12, 6)],
        tensorrt: [(8, 6), (10, 7)],
    },
    // JetPack 7.0 and 7.1.
    Expected {
        release: 38,
        cuda: [(13, 0), (13, 0)],
        tensorrt: [(10, 13), (10, 13)],
    },
    // JetPack 7.2 comes with TensorRT 10.16; NVIDIA supports 11.4.1 on JetPack 7.2.2.
    Expected {
        release: 39,
        cuda: [(13, 2), (13, 2)],
        tensorrt: [(10, 16), (11, 4)],
    },
];

/// Lowest and highest version, each as its first two numbers.
type Range = [(u32, u32); 2];

/// Versions that a release contains.
#[derive(Clone, Copy)]
struct Expected {
    release: u32,
    cuda: Range,
    tensorrt: Range,
}

/// Paths of libnvbufsurface: JetPack 5, then 6 and 7.
const SURFACES: [&str; 3] = [
    "/usr/lib/aarch64-linux-gnu/tegra/libnvbufsurface.so.1.0.0",
    "/usr/lib/aarch64-linux-gnu/nvidia/libnvbufsurface.so.1.0.0",
    "/usr/lib/aarch64-linux-gnu/libnvbufsurface.so.1.0.0",
];

pub(super) fn run(context: &DoctorContext, report: &mut CheckReport) {
    cuda(context, report);
    tensorrt(context, report);
    onnxruntime(context, report);
    surfaces(context, report);
    match source::gst::init("*:1") {
        Ok(()) => {
            let version = source::gst::version().unwrap_or_default();
            report.ok("GStreamer", &version);
        }
        Err(error) => report.failed("GStreamer", &error.to_string()),
    }
}

fn cuda(context: &DoctorContext, report: &mut CheckReport) {
    const WHAT: &str = "libcuda";
    match device() {
        Ok(device) => {
            let version = device.driver_version();
            let (major, minor) = device.compute_capability();
            let text = format!(
                "CUDA {version} by the driver, {} (compute capability {major}.{minor}){}",
                device.name(),
                origin("libcuda.so")
            );
            let expected = expected(context).map(|expected| expected.cuda);
            add_version(
                report,
                WHAT,
                &text,
                (version.major, version.minor),
                expected,
            );
        }
        Err(error) => {
            let error = DetectError::Engine(error);
            let advice = "on a Jetson it comes with the package nvidia-l4t-cuda; the user needs the groups video and render";
            let text = format!("{error}; {advice}");
            match error.is_absence() {
                true => context.missing(report, WHAT, &text),
                false => report.failed(WHAT, &text),
            }
        }
    }
}

fn tensorrt(context: &DoctorContext, report: &mut CheckReport) {
    const WHAT: &str = "TensorRT";
    let configured = context.detector.as_ref().ok();
    let configured = configured.and_then(|config| config.detector.tensorrt.library.clone());
    let library = match open_library(configured.as_deref()) {
        Ok(library) => library,
        Err(error) => {
            let error = DetectError::Engine(error);
            let text = format!("{error}; on a Jetson: sudo apt install tensorrt-libs");
            match error.is_absence() {
                true => context.missing(report, WHAT, &text),
                false => report.failed(WHAT, &text),
            }
            return;
        }
    };
    let version = library.version();
    let file = library
        .path()
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let text = format!("{} {version}{}", library.flavor(), origin(&file));
    let expected = expected(context).map(|expected| expected.tensorrt);
    add_version(
        report,
        WHAT,
        &text,
        (version.major.into(), version.minor.into()),
        expected,
    );
    match library.parser() {
        Ok(path) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            report.ok("ONNX parser", &format!("{name}{}", origin(&name)));
        }
        Err(error) => report.failed("ONNX parser", &format!("{error}; on a Jetson: sudo apt install libnvonnxparsers8 (JetPack 5) or libnvonnxparsers10 (JetPack 6 and 7)")),
    }
}

fn onnxruntime(context: &DoctorContext, report: &mut CheckReport) {
    const WHAT: &str = "ONNX Runtime";
    let configured = context.detector.as_ref().ok();
    let configured = configured.and_then(|config| config.detector.onnxruntime.clone());
    let found = ort_library::find(configured.as_deref());
    match found.and_then(|path| ort_library::open(&path).map(|_| path)) {
        Ok(path) => {
            let real = fs::canonicalize(&path).unwrap_or(path);
            report.ok(
                WHAT,
                &format!("{} ({} or newer)", real.display(), ort_library::MIN_VERSION),
            );
        }
        // One of the two runtimes is enough, and a Jetson has TensorRT.
        Err(error @ ort_library::RuntimeError::Missing { .. }) => {
            report.unknown(WHAT, &error.to_string())
        }
        Err(error) => report.failed(WHAT, &error.to_string()),
    }
}

fn surfaces(context: &DoctorContext, report: &mut CheckReport) {
    const WHAT: &str = "libnvbufsurface";
    if !context.machine.is_jetson() {
        report.not_applicable(WHAT, NO_JETSON);
        return;
    }
    match SURFACES.iter().find(|path| context.root.exists(path)) {
        Some(path) => report.ok(WHAT, path),
        None => report.failed(
            WHAT,
            "not found in the folders of L4T; install it with: sudo apt install nvidia-l4t-multimedia nvidia-l4t-multimedia-utils",
        ),
    }
}

fn expected(context: &DoctorContext) -> Option<Expected> {
    let release = context.machine.release?;
    EXPECTED
        .into_iter()
        .find(|expected| expected.release == release.major)
}

/// Adds a version, and whether the machine's release contains it.
fn add_version(
    report: &mut CheckReport,
    what: &str,
    text: &str,
    found: (u32, u32),
    expected: Option<Range>,
) {
    match expected {
        Some([from, to]) if found < from || found > to => {
            let range = match from == to {
                true => format!("{}.{}", from.0, from.1),
                false => format!("{}.{} to {}.{}", from.0, from.1, to.0, to.1),
            };
            report.unknown(what, &format!("{text}; this release of L4T contains {range}; it may have been replaced on purpose"));
        }
        _ => report.ok(what, text),
    }
}

/// Path of a loaded library, by the part of its name before the version.
fn origin(name: &str) -> String {
    let stem = name.split_inclusive(".so").next().unwrap_or(name);
    let path = platform::open_libraries().into_iter().find(|path| {
        let file = path.file_name().and_then(|name| name.to_str());
        file.is_some_and(|file| file.starts_with(stem))
    });
    path.map_or_else(String::new, |path| format!(", {}", path.display()))
}
