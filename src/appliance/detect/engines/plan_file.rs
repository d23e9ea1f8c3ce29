// SPDX-License-Identifier: Apache-2.0
//! Identifies an engine file without loading it: a plan holds machine code, and a wrong one may do anything.
//!
//! NVIDIA does not document the plan format. The fields read here were found with plans of TensorRT-RTX 1.7.1 for three
//! GPUs: the word `vtrt`, the file's length, the version and build number of the library, and a bit for each compute
//! capability. Of other plans only the first word is known.

use std::path::Path;

use serde::Serialize;

use super::EngineError;
use super::atomic_file::{folder_error, manifest_of};
use super::cache::read;
use super::manifest::Manifest;
use crate::graph;

/// Compute capabilities in the order of the bits.
const CAPABILITIES: [&str; 6] = ["7.5", "8.0", "8.6", "8.9", "12.0", "12.1"];

/// Maximum length in bytes of the description in front of a wrapped plan.
const MAX_METADATA_BYTES: usize = 1 << 20;

/// What is known of a file without loading it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanFile {
    /// Its length in bytes.
    pub bytes: usize,
    /// Its kind.
    pub kind: PlanKind,
    /// The manifest next to it, if there is one that can be read.
    pub manifest: Option<Manifest>,
    /// What is wrong with the manifest, or how the plan differs from it.
    pub mismatch: Option<String>,
}

/// The kind of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PlanKind {
    /// No bytes.
    Empty,
    /// A plan whose header names its builder's version, as those of TensorRT-RTX.
    Versioned {
        /// Version and build number of the library, such as `1.7.1.116`.
        version: String,
        /// Compute capabilities that it was built for.
        capabilities: Vec<&'static str>,
        /// Length that the header states.
        stated_bytes: u64,
    },
    /// A plan of TensorRT, whose header is not known.
    Plan,
    /// A plan behind a description in JSON, as Ultralytics writes them.
    Wrapped {
        /// The description.
        description: serde_json::Value,
        /// Offset of the plan in bytes.
        plan_at: usize,
        /// The kind of the plan there.
        plan: Box<PlanKind>,
    },
    /// An ONNX network, from which no plan was built yet.
    Onnx {
        /// Nodes of its graph.
        nodes: usize,
        /// Whether some of them are quantized.
        is_quantized: bool,
    },
    /// An HTML page: a failed download.
    Html,
    /// A pointer of Git LFS instead of the file.
    LfsPointer,
    /// Something else.
    Unknown {
        /// Its first bytes, in hexadecimal digits.
        begins: String,
    },
}

/// Reads the file at `path` and the manifest next to it.
///
/// # Errors
/// The file cannot be read.
pub fn inspect_file(path: &Path) -> Result<PlanFile, EngineError> {
    let bytes = std::fs::read(path).map_err(|source| folder_error("read", path, source))?;
    let (manifest, mismatch) = match read(&manifest_of(path))? {
        None => (None, None),
        Some(text) => match Manifest::parse(&text) {
            Ok(manifest) => {
                let mismatch = manifest.mismatch(&bytes);
                (Some(manifest), mismatch)
            }
            Err(what) => (None, Some(format!("its manifest cannot be read: {what}"))),
        },
    };
    Ok(PlanFile {
        bytes: bytes.len(),
        kind: PlanKind::identify(path, &bytes),
        manifest,
        mismatch,
    })
}

impl PlanKind {
    /// Identifies `bytes`, the contents of the file at `path`.
    pub fn identify(path: &Path, bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::Empty;
        }
        if let Some(plan) = plan(bytes) {
            return plan;
        }
        if let Some((description, plan_at)) = description(bytes) {
            let plan = plan(&bytes[plan_at..]);
            return Self::Wrapped {
                description,
                plan_at,
                plan: Box::new(plan.unwrap_or_else(|| unknown(&bytes[plan_at..]))),
            };
        }
        let start: String = String::from_utf8_lossy(&bytes[..bytes.len().min(256)]).to_lowercase();
        let start = start.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
        if start.starts_with("<!doctype html") || start.starts_with("<html") {
            return Self::Html;
        }
        if start.starts_with("version https://git-lfs") {
            return Self::LfsPointer;
        }
        match graph::summarize(path, bytes, |_| None) {
            Ok(network) => Self::Onnx {
                nodes: network
                    .operators
                    .iter()
                    .map(|operator| operator.count)
                    .sum(),
                is_quantized: network.quantization.is_any(),
            },
            Err(_) => unknown(bytes),
        }
    }

    /// A sentence on what it is, with advice where it is no plan.
    pub fn describe(&self, bytes: usize) -> String {
        match self {
            Self::Empty => {
                "empty: a build or a copy was cut off; build it again".to_owned()
            }
            Self::Versioned {
                version,
                capabilities,
                stated_bytes,
            } => {
                let wanted = if capabilities.is_empty() {
                    "GPUs unknown to this jetwatch".to_owned()
                } else {
                    format!("compute capability {}", capabilities.join(", "))
                };
                let plan = format!(
                    "a plan whose header names version {version} of its builder (TensorRT-RTX has such headers), for {wanted}"
                );
                if *stated_bytes == bytes as u64 {
                    plan
                } else {
                    format!(
                        "{plan}; it is cut off or damaged: {bytes} bytes, expected {stated_bytes} by its header; build or copy it again"
                    )
                }
            }
            Self::Plan => "it begins as plans of TensorRT do; NVIDIA does not publish the rest, so version and GPU are known to the \
                           manifest alone"
                .to_owned(),
            Self::Wrapped { plan_at, plan, .. } => format!(
                "a plan behind a description of {} bytes, as Ultralytics writes them: TensorRT and jetwatch take it without those \
                 {plan_at} bytes alone; then {}",
                plan_at - 4,
                plan.describe(bytes - plan_at)
            ),
            Self::Onnx {
                nodes,
                is_quantized,
            } => format!(
                "an ONNX network of {nodes} nodes{}, and no engine: make a model folder with `jetwatch model init`, then the engine \
                 with `jetwatch engine build --model`",
                if *is_quantized { ", quantized" } else { "" }
            ),
            Self::Html => {
                "an HTML page: the download failed; open the address in a browser to see its text".to_owned()
            }
            Self::LfsPointer => {
                "a pointer of Git LFS instead of the file: fetch it with `git lfs pull`".to_owned()
            }
            Self::Unknown { begins } => {
                format!("neither a plan of TensorRT nor an ONNX network; it begins with the bytes {begins}")
            }
        }
    }
}

/// The kind of plan that `bytes` begin like, if any.
fn plan(bytes: &[u8]) -> Option<PlanKind> {
    let four = |at: usize| bytes.get(at..at + 4);
    match four(0)? {
        b"vtrt" => {}
        b"ftrt" | b"ptrt" => return Some(PlanKind::Plan),
        _ => return None,
    }
    // The header's second word repeats the first behind the version.
    if bytes.get(28..32) != Some(b"vtrt") {
        return Some(PlanKind::Plan);
    }
    let [major, minor, patch, build] = four(24)?.try_into().ok()?;
    let stated_bytes = u64::from_le_bytes(bytes.get(16..24)?.try_into().ok()?);
    let mask = u32::from_le_bytes(four(32)?.try_into().ok()?);
    let capabilities = CAPABILITIES
        .into_iter()
        .enumerate()
        .filter(|(bit, _)| mask >> bit & 1 == 1)
        .map(|(_, capability)| capability);
    Some(PlanKind::Versioned {
        version: format!("{major}.{minor}.{patch}.{build}"),
        capabilities: capabilities.collect(),
        stated_bytes,
    })
}

/// The description in front of a wrapped plan, and where the plan begins: four bytes of length, the least significant first, then JSON.
fn description(bytes: &[u8]) -> Option<(serde_json::Value, usize)> {
    let length = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let text = bytes.get(4..4 + length.min(MAX_METADATA_BYTES))?;
    let value: serde_json::Value = serde_json::from_slice(text).ok()?;
    value.is_object().then_some((value, 4 + length))
}

fn unknown(bytes: &[u8]) -> PlanKind {
    let begins = bytes.iter().take(8).map(|byte| format!("{byte:02x}"));
    PlanKind::Unknown {
        begins: begins.collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first bytes of a plan of TensorRT-RTX 1.7.1, build 116, for 8.6 and 8.9, that states `length` bytes.
    fn header(length: u64) -> Vec<u8> {
        let mut bytes = b"vtrt\0\0\0\0\x02\0\0\0\0\0\0\0".to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend([1, 7, 1, 116]);
        bytes.extend(b"vtrt");
        bytes.extend(0b1100_u32.to_le_bytes());
        bytes.resize(64, 0);
        bytes
    }

    fn description_of(bytes: &[u8]) -> String {
        PlanKind::identify(Path::new("a.engine"), bytes).describe(bytes.len())
    }

    #[test]
    fn a_plan_header_gives_the_builder_version_and_completeness() {
        let summary = description_of(&header(64));
        assert_eq!(
            summary,
            "a plan whose header names version 1.7.1.116 of its builder (TensorRT-RTX has such headers), for compute capability 8.6, 8.9"
        );
        let summary = description_of(&header(7_739_396));
        assert!(
            summary.ends_with(
                "cut off or damaged: 64 bytes, expected 7739396 by its header; build or copy it again"
            ),
            "{summary}"
        );
        assert!(description_of(b"ftrt plan").starts_with("it begins as plans"));
        assert!(description_of(&header(64)[..20]).starts_with("it begins as plans"));
    }

    #[test]
    fn a_wrapped_plan_is_recognized_with_its_description() {
        let text = br#"{"task": "detect", "imgsz": [640, 640]}"#;
        let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
        bytes.extend(text);
        bytes.extend(header(64));
        let PlanKind::Wrapped {
            description,
            plan_at,
            plan,
        } = PlanKind::identify(Path::new("a.engine"), &bytes)
        else {
            panic!("it is wrapped");
        };
        assert_eq!(description["task"], "detect");
        assert_eq!(plan_at, 4 + text.len());
        assert!(matches!(*plan, PlanKind::Versioned { .. }));
        let summary = description_of(&bytes);
        assert!(
            summary.contains("as Ultralytics writes them") && summary.contains("1.7.1.116"),
            "{summary}"
        );
        // A description without a plan behind it, and one that is cut off.
        assert!(
            description_of(&bytes[..plan_at]).contains("neither a plan"),
            "{summary}"
        );
        assert!(description_of(&bytes[..20]).starts_with("neither a plan"));
    }

    #[test]
    fn other_file_types_are_identified() {
        assert!(description_of(b"").starts_with("empty"));
        assert!(description_of(b"\n<!DOCTYPE html><html>404</html>").starts_with("an HTML page"));
        assert!(
            description_of(b"version https://git-lfs.github.com/spec/v1\n")
                .starts_with("a pointer")
        );
        assert!(
            description_of(b"\x7fELF\x02\x01")
                .ends_with("it begins with the bytes 7f 45 4c 46 02 01")
        );
        let onnx = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../../models/street-nano/street-nano_int8.onnx");
        let summary = description_of(&std::fs::read(onnx).expect("our network"));
        assert!(
            summary.starts_with("an ONNX network of ") && summary.contains("quantized"),
            "{summary}"
        );
    }

    #[test]
    fn the_manifest_of_a_file_is_compared_with_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.engine");
        std::fs::write(&path, header(64)).expect("written");
        let found = inspect_file(&path).expect("readable");
        assert_eq!((found.manifest, found.mismatch), (None, None));
        let recipe = super::super::spec::tests::engine_spec().cache_key_fields();
        let manifest = Manifest::new(recipe, &header(64), 1.0, None);
        std::fs::write(manifest_of(&path), manifest.to_text()).expect("written");
        let found = inspect_file(&path).expect("readable");
        assert_eq!((found.manifest, found.mismatch), (Some(manifest), None));
        std::fs::write(&path, header(63)).expect("written");
        let found = inspect_file(&path).expect("readable");
        assert!(found.mismatch.expect("it was changed").contains("SHA-256"));
        std::fs::write(manifest_of(&path), "{").expect("written");
        let found = inspect_file(&path).expect("readable");
        assert!(found.mismatch.expect("torn").contains("cannot be read"));
        assert!(inspect_file(&folder.path().join("gone")).is_err());
    }
}
