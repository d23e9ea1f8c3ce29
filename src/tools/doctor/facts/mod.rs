// SPDX-License-Identifier: Apache-2.0
//! What is known of a box, as a JSON file: written on the box by `jetwatch facts`, read elsewhere by `jetwatch check --offline`.
//!
//! It holds no configuration and no secret. Sizes are in bytes.

mod collect;
mod offline;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use jetwatch_platform::{Machine, Processor};

pub use offline::check_offline;

/// Version of the file's fields; one that is greater is not read.
const VERSION: u32 = 1;

/// Facts of a box. What could not be found out is `None` or empty, and `notes` has the reasons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Version of these fields.
    pub version: u32,
    /// Version of the jetwatch that wrote them.
    pub jetwatch: String,
    /// When, as in messages.
    pub collected_at: String,
    /// The machine's name.
    pub hostname: Option<String>,
    /// Architecture, such as `aarch64`.
    pub architecture: String,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Model, release, JetPack and engines.
    pub machine: Machine,
    /// Name and cores of the CPU.
    pub cpu: Processor,
    /// Memory.
    pub memory: Option<MemoryFacts>,
    /// The GPU, by the driver of CUDA.
    pub gpu: Found<Gpu>,
    /// TensorRT.
    pub tensorrt: Found<Library>,
    /// ONNX Runtime.
    pub onnxruntime: Found<OnnxRuntime>,
    /// GStreamer and its elements.
    pub gstreamer: Found<GStreamer>,
    /// V4L2 cameras.
    pub cameras: Vec<Camera>,
    /// CSI cameras in the device tree, by their badges.
    pub csi_cameras: Vec<String>,
    /// File systems.
    pub disks: Vec<Disk>,
    /// The daemon's user; `None`: the package is not installed.
    pub user: Option<User>,
    /// One sentence for each fact that could not be found out.
    pub notes: Vec<String>,
}

/// A part of the box, or the reason why it cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found<T> {
    /// It can be used.
    Found(T),
    /// It cannot.
    Missing(String),
}

impl<T> Found<T> {
    /// It, or the reason why it cannot be used.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn get(&self) -> Result<&T, &str> {
        match self {
            Self::Found(found) => Ok(found),
            Self::Missing(reason) => Err(reason),
        }
    }
}

impl<T> From<Result<T, String>> for Found<T> {
    fn from(result: Result<T, String>) -> Self {
        result.map_or_else(Self::Missing, Self::Found)
    }
}

/// Memory of the box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFacts {
    /// All that the kernel uses.
    pub total_bytes: u64,
    /// What programs could still get.
    pub available_bytes: u64,
}

/// A GPU of NVIDIA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Its name.
    pub name: String,
    /// Version of CUDA that the driver has, such as `11.4`.
    pub cuda: String,
    /// Compute capability.
    pub compute_capability: (u32, u32),
}

/// A library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    /// Its version.
    pub version: String,
    /// Its file.
    pub path: PathBuf,
}

/// ONNX Runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnnxRuntime {
    /// Its file, whose name has the version.
    pub path: PathBuf,
    /// Whether its provider for CUDA is beside it.
    pub has_cuda: bool,
}

/// GStreamer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GStreamer {
    /// Its version, such as `GStreamer 1.16.3`.
    pub version: String,
    /// The elements that jetwatch names and that are installed.
    pub elements: BTreeMap<String, Element>,
    /// The encoders of H.264 that are installed, the best one first.
    pub h264_encoders: Vec<String>,
}

/// An element that is installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Element {
    /// Version of its plug-in.
    pub version: String,
    /// Those of its properties that jetwatch sets.
    pub properties: Vec<String>,
    /// What is wrong with others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrong: Vec<String>,
}

/// A V4L2 camera.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Camera {
    /// Its device node.
    pub device: PathBuf,
    /// Its name.
    pub name: String,
    /// What it offers, as caps of GStreamer; or why that is not known, such as that another program uses it.
    pub modes: Found<Vec<String>>,
}

/// A file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Where it is mounted.
    pub mount: PathBuf,
    /// Its kind, such as `ext4` or `tmpfs`.
    pub kind: String,
    /// Its size.
    pub total_bytes: u64,
    /// What programs could still write.
    pub free_bytes: u64,
}

/// The daemon's user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Its name.
    pub name: String,
    /// The groups that it is in, sorted.
    pub groups: Vec<String>,
}

impl Facts {
    /// Reads the file that `jetwatch facts` has written.
    ///
    /// # Errors
    /// It cannot be read, is not such a file, or is of a newer version: what, where, and what to do.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| anyhow::anyhow!("cannot read {}: {error}", path.display()))?;
        Self::parse(&text).map_err(|reason| {
            anyhow::anyhow!(
                "{}: {reason}; write it again on the box: jetwatch facts > box.json",
                path.display()
            )
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let document: serde_json::Value = serde_json::from_str(text)
            .map_err(|error| format!("{error}, expected the output of jetwatch facts"))?;
        match document["version"].as_u64() {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => {
                return Err(format!("found version {version}, expected {VERSION}"));
            }
            None => {
                return Err(
                    "found no field `version`, expected the output of jetwatch facts".to_owned(),
                );
            }
        }
        // Read from the text again: only so has the error a line.
        serde_json::from_str(text)
            .map_err(|error| format!("{error}, expected the output of jetwatch facts"))
    }

    /// The file system that a path of the box is on.
    pub(crate) fn disk_of(&self, path: &Path) -> Option<&Disk> {
        let holds = |disk: &&Disk| path.starts_with(&disk.mount);
        let on = self.disks.iter().filter(holds);
        on.max_by_key(|disk| disk.mount.components().count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_on_the_deepest_mount() {
        let disk = |mount: &str| Disk {
            mount: mount.into(),
            kind: "ext4".to_owned(),
            total_bytes: 1,
            free_bytes: 1,
        };
        let mut facts = Facts::collect(&jetwatch_platform::SysRoot::new("/nothing"), String::new());
        facts.disks = vec![disk("/"), disk("/var/lib"), disk("/var")];
        for (path, mount) in [
            ("/var/lib/jetwatch", "/var/lib"),
            ("/var/library", "/var"),
            ("/etc", "/"),
        ] {
            let found = facts.disk_of(Path::new(path)).expect("one of them");
            assert_eq!(found.mount, Path::new(mount), "{path}");
        }
        let text = serde_json::to_string(&facts).expect("JSON");
        assert_eq!(Facts::parse(&text), Ok(facts));
    }

    #[test]
    fn what_is_no_file_of_facts_is_refused() {
        for (text, wanted) in [
            ("", "EOF while parsing a value at line 1 column 0"),
            ("[]", "found no field `version`"),
            (r#"{"version": 2}"#, "found version 2, expected 1"),
            ("{\"version\": 1,\n\"jetwatch\": 5}", "at line 2 column 13"),
        ] {
            let error = Facts::parse(text).expect_err(text);
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
