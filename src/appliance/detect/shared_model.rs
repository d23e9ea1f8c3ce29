// SPDX-License-Identifier: Apache-2.0
//! A network optimized by ONNX Runtime, created once and shared by all sessions.
//!
//! A temporary session reads the file, optimizes it and serializes it in the ORT format. It is closed before the working
//! sessions are opened. Those use the weights in place: two sessions of yolox_nano share one copy of its weights and keep no
//! memory of parser and optimizer. The result fits this CPU and this library only, so it is never stored for the next start.
//! [`onnx`](super::onnx) creates it, [`ort_session`](super::ort_session) opens it.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsRawFd;

use jetwatch_nvidia::onnx::optimizing_session;
use ort::environment::Environment;
use ort::ep;
use ort::logging::LogLevel;
use rustix::fs::{MemfdFlags, memfd_create};

/// A network in memory that is never freed, since sessions point into it.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedModel {
    bytes: &'static [u8],
    shared: bool,
}

impl SharedModel {
    /// Optimizes the network in `bytes`. The result is leaked, so a process must load a network only once.
    ///
    /// A network that the runtime cannot serialize stays unchanged: each session then optimizes it and has its own copy of
    /// the weights. Whether it can be opened at all is checked there.
    pub(super) fn new(environment: &Environment, bytes: Vec<u8>) -> Self {
        match write(environment, &bytes) {
            Ok(written) => Self {
                bytes: Vec::leak(written),
                shared: true,
            },
            Err(error) => {
                log::info!("cannot share optimized weights between workers: {error}");
                Self::unoptimized(bytes)
            }
        }
    }

    /// The network unchanged: one that is optimized for the CPU does not fit a GPU.
    pub(super) fn unoptimized(bytes: Vec<u8>) -> Self {
        Self {
            bytes: Vec::leak(bytes),
            shared: false,
        }
    }

    /// The bytes that the runtime opens.
    pub(super) fn bytes(self) -> &'static [u8] {
        self.bytes
    }

    /// Whether it is in the ORT format, so that sessions may use the bytes in place.
    pub(super) fn is_shared(self) -> bool {
        self.shared
    }
}

fn write(environment: &Environment, bytes: &[u8]) -> ort::Result<Vec<u8>> {
    let mut file = anonymous_file().map_err(ort::Error::wrap)?;
    // The runtime writes to a path; this path names the open file itself.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut builder = optimizing_session(environment)?
        .with_intra_threads(1)?
        .with_execution_providers([ep::CPU::default().build()])?
        // Silences the warning that the result fits this machine only.
        .with_log_level(LogLevel::Error)?
        .with_config_entry("session.save_model_format", "ORT")?
        .with_optimized_model_path(path)?;
    drop(builder.commit_from_memory(bytes)?);
    let mut written = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut written))
        .map_err(ort::Error::wrap)?;
    Ok(written)
}

/// An anonymous file in memory: no folder has to be writable, and no other process can write to it.
fn anonymous_file() -> io::Result<File> {
    Ok(File::from(memfd_create("network", MemfdFlags::CLOEXEC)?))
}
