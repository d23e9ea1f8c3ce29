//! A network as ONNX Runtime's optimizer leaves it, made once and shared by all sessions.
//!
//! A session of its own reads the file, optimizes it and writes it down in the runtime's own format; it is gone before
//! the sessions that work are opened. Those use the weights where they lie, all of them the same bytes: two sessions of
//! yolox_nano have one copy of its weights instead of two, and nothing of the reader and the optimizer. What is
//! written fits this processor and this library, so it is never kept from one start to the next.
//! [`onnx`](super::onnx) makes it, [`ort_session`](super::open_network) opens it.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsRawFd;

use ort::environment::Environment;
use ort::ep;
use ort::logging::LogLevel;
use ort::session::Session;
use ort::session::builder::GraphOptimizationLevel;
use rustix::fs::{MemfdFlags, memfd_create};

/// A network in memory that is never freed, since sessions point into it.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedModel {
    bytes: &'static [u8],
    shared: bool,
}

impl SharedModel {
    /// Optimizes the network in `bytes`. Each call takes as much memory as the result has bytes, for good: a process
    /// is to load a network once.
    ///
    /// A network that the runtime cannot write in its own format stays as it is: every session then optimizes it for
    /// itself and has its own copy of the weights. Whether it can be opened at all is seen there.
    pub(super) fn new(environment: &Environment, bytes: Vec<u8>) -> Self {
        match write(environment, &bytes) {
            Ok(written) => Self {
                bytes: Vec::leak(written),
                shared: true,
            },
            Err(error) => {
                log::info!("the workers do not share the network's weights: {error}");
                Self::unoptimized(bytes)
            }
        }
    }

    /// The network as it is: what is optimized for the processor is none for a GPU.
    pub(super) fn unoptimized(bytes: Vec<u8>) -> Self {
        Self {
            bytes: Vec::leak(bytes),
            shared: false,
        }
    }

    /// What the runtime opens.
    pub(super) fn bytes(self) -> &'static [u8] {
        self.bytes
    }

    /// Whether it is in the runtime's own format, so that sessions may use the bytes where they lie.
    pub(super) fn is_shared(self) -> bool {
        self.shared
    }
}

fn write(environment: &Environment, bytes: &[u8]) -> ort::Result<Vec<u8>> {
    let mut file = anonymous_file().map_err(ort::Error::wrap)?;
    // The runtime writes to a path; this one is the open file itself.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut builder = Session::builder(environment)?
        .with_optimization_level(GraphOptimizationLevel::All)?
        .with_intra_threads(1)?
        .with_execution_providers([ep::CPU::default().build()])?
        // It would warn that the result fits this machine only.
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

/// A file without a name, in memory: no folder has to be writable, and nobody else can write to it.
fn anonymous_file() -> io::Result<File> {
    Ok(File::from(memfd_create("network", MemfdFlags::CLOEXEC)?))
}
