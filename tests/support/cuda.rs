// SPDX-License-Identifier: Apache-2.0
//! A GPU for tests: the double of libcuda in a child process, and the real one next to it where the machine has one.
//!
//! The loader finds libcuda by a variable that must be set before the process starts, so each test starts itself again.
//! `JETWATCH_TEST_GPU=real` skips the double (for a test binary that was copied to a machine with a GPU). Each test binary uses a part of
//! this.
#![allow(dead_code)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use jetwatch_nvidia::cuda::{Device, Element, PixelFormat, PlaneOrder, TensorFormat};
use jetwatch_nvidia::loopback::{GraphMode, LoopbackNetwork};
use jetwatch_nvidia::session::InputSource;

pub use super::child::is_child;
use super::child::run_child;
use super::project::{built_by, root};

/// Runs `body` on the double with `settings`, and on a real GPU if there is one; only those without settings of the double.
pub fn run_on_gpus(test: &str, settings: &[(&str, &str)], body: impl FnOnce(Arc<Device>)) {
    if is_child(test) {
        return body(Device::open(0).expect("a GPU"));
    }
    if !is_real_gpu_only() {
        let printed = run_on_double(test, settings);
        assert_let_go(test, &printed);
    }
    if settings.is_empty() && has_gpu() {
        run_child(test, |_| ());
    }
}

/// Fails where the double counts GPU memory or another object that was not let go.
pub fn assert_let_go(test: &str, printed: &str) {
    let alive =
        "alive: contexts=0 streams=0 events=0 graphs=0 graph launches=0 modules=0 memory=0 bytes=0";
    assert!(
        printed.contains(alive),
        "{test}: something was not let go:\n{printed}"
    );
}

/// Whether the double is skipped.
pub fn is_real_gpu_only() -> bool {
    env::var("JETWATCH_TEST_GPU").is_ok_and(|which| which == "real")
}

/// Whether the kernel has a driver of NVIDIA's with a GPU.
pub fn has_gpu() -> bool {
    ["/dev/nvidia0", "/dev/nvhost-gpu", "/dev/nvgpu/igpu0/ctrl"]
        .iter()
        .any(|path| Path::new(path).exists())
}

/// Message on a machine without a usable GPU: some have NVIDIA's driver library all the same, as other packages
/// bring it along.
pub fn no_gpu_message() -> &'static str {
    let known = Command::new("/sbin/ldconfig").arg("-p").output();
    let known = known.expect("the loader's cache can be listed").stdout;
    match String::from_utf8_lossy(&known).contains("libcuda.so") {
        true => "NVIDIA's driver is installed but sees no GPU",
        false => "NVIDIA's driver library libcuda.so was not found",
    }
}

/// Runs `test` in a child with the double and returns its stderr output.
pub fn run_on_double(test: &str, settings: &[(&str, &str)]) -> String {
    let folder = double();
    run_child(test, |command| {
        command
            .env("LD_LIBRARY_PATH", &folder)
            .env("JETWATCH_DOUBLE_COUNTS", "1")
            .envs(settings.iter().copied());
    })
}

/// Runs `test` in a child with the real GPU and returns its stderr output.
pub fn run_on_real_gpu(test: &str, settings: &[(&str, &str)]) -> String {
    run_child(test, |command| {
        command
            .env("JETWATCH_DOUBLE_COUNTS", "1")
            .envs(settings.iter().copied());
    })
}

/// Runs `test` in a child that finds libcuda in `folder`.
pub fn run_with_libraries(test: &str, folder: &Path) -> String {
    run_child(test, |command| {
        command.env("LD_LIBRARY_PATH", folder);
    })
}

/// The folder with what `tests/nvidia_doubles/build` makes.
pub fn doubles() -> PathBuf {
    env::var_os("JETWATCH_DOUBLES")
        .map_or_else(|| root().join(".cache/nvidia_doubles"), PathBuf::from)
}

/// The folder with the double, built if need be.
pub fn double() -> PathBuf {
    built_by("tests/nvidia_doubles/build-cuda")
}

/// The input of the models here, with `element` numbers.
pub fn tensor(width: u32, height: u32, element: Element) -> TensorFormat {
    TensorFormat {
        width,
        height,
        element,
        order: PlaneOrder::Bgr,
        mean: [0.0; 3],
        scale: [1.0; 3],
        padding: 114,
    }
}

/// A loopback network that returns the whole input tensor.
pub fn echo(pixels: PixelFormat, tensor: TensorFormat, batch: usize) -> LoopbackNetwork {
    LoopbackNetwork {
        input: InputSource::Images { pixels, tensor },
        batch,
        output_bytes: tensor.bytes(),
        pause: std::time::Duration::ZERO,
        graph_mode: GraphMode::Contexts,
    }
}

/// Bytes that differ from their neighbors and by `seed`.
pub fn noise(len: usize, seed: u32) -> Vec<u8> {
    (0..len as u32)
        .map(|i| {
            let mixed = (i ^ seed.wrapping_mul(0x9e37_79b9)).wrapping_mul(2_654_435_761);
            ((mixed ^ (mixed >> 15)).wrapping_mul(0x2c1b_3c6d) >> 24) as u8
        })
        .collect()
}
