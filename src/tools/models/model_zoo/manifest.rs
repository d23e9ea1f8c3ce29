// SPDX-License-Identifier: Apache-2.0
//! The manifests of the catalogue: one YAML file per model, embedded in the binary.

use std::path::Path;

use jetwatch_config::{ConfigError, Document, Map, Section, Value, ValueType};
use jetwatch_files::Sha256Digest;

/// A model of the catalogue. The fields are the keys of its manifest.
#[derive(Debug, Clone, PartialEq, Section)]
pub struct Entry {
    /// Name of the model, and of its folder: the name of the manifest.
    #[key(no_key, read = name)]
    pub name: String,
    /// Description of the model, in one line.
    #[key(text = "what the model is")]
    pub title: String,
    /// Name of the ONNX file in the model's folder.
    #[key(text = "a file name without a folder", check = is_file_name)]
    pub file: String,
    /// Address of the published file.
    #[key(text = "an https address", check = is_https)]
    pub url: String,
    /// Length of the ONNX file in bytes, if known.
    #[key(range = 1..=1 << 40, unit = "bytes")]
    pub bytes: Option<u64>,
    /// SHA-256 of the ONNX file, if it is known.
    #[key(text = "64 lower-case hexadecimal digits", parse = lower_case_digest)]
    pub sha256: Option<Sha256Digest>,
    /// How hash and length became known.
    #[key(text = "how hash and length became known")]
    pub verified: String,
    /// SPDX identifier of the terms.
    #[key(text = "an SPDX identifier")]
    pub license: String,
    /// Text of a labels file for the folder, as `labels.txt`.
    #[key(words(coco80 = COCO))]
    pub labels: &'static str,
    /// Text of `model.yaml`, in which `$sha256` stands for the hash.
    #[key(value = ValueType::Text("the text of model.yaml"), read = model)]
    model: String,
}

/// Names and texts of the manifests, in the order in which they are listed.
const MANIFESTS: [(&str, &str); 6] = [
    (
        "yolox_nano",
        include_str!("../../../../models/catalogue/yolox_nano.yaml"),
    ),
    (
        "yolox_tiny",
        include_str!("../../../../models/catalogue/yolox_tiny.yaml"),
    ),
    (
        "yolox_s",
        include_str!("../../../../models/catalogue/yolox_s.yaml"),
    ),
    (
        "nanodet_plus_m",
        include_str!("../../../../models/catalogue/nanodet_plus_m.yaml"),
    ),
    (
        "picodet_s",
        include_str!("../../../../models/catalogue/picodet_s.yaml"),
    ),
    (
        "dfine_n",
        include_str!("../../../../models/catalogue/dfine_n.yaml"),
    ),
];

/// The 80 classes of COCO, one per line.
const COCO: &str = include_str!("../../../../models/catalogue/coco80.txt");

/// Placeholder of the hash in the text of a `model.yaml`.
const HASH_PLACEHOLDER: &str = "$sha256";

/// All manifests.
///
/// # Errors
/// A manifest is wrong: a bug, which a test detects.
pub fn entries() -> Result<Vec<Entry>, ConfigError> {
    let read = |(name, text): &(&str, &str)| parse_manifest(name, text);
    MANIFESTS.iter().map(read).collect()
}

impl Entry {
    /// The `model.yaml` for the file with the hash `sha256`.
    pub fn model_yaml(&self, sha256: Sha256Digest) -> String {
        format!(
            "# Written by `jetwatch model fetch {}`; the file comes from\n# {}\n{}",
            self.name,
            self.url,
            self.model.replace(HASH_PLACEHOLDER, &sha256.to_string())
        )
    }
}

/// Reads the manifest of `name`. All problems are reported at once.
///
/// # Errors
/// The text is not a manifest.
fn parse_manifest(name: &str, text: &str) -> Result<Entry, ConfigError> {
    let document = Document::parse(&format!("models/catalogue/{name}.yaml"), text)?;
    let map = document.root().map(Entry::KEYS);
    let entry = map.and_then(|map| Entry::from_map(&map));
    document.finish(entry)
}

fn name(map: &Map<'_>) -> Option<String> {
    let path = Path::new(map.node().label());
    Some(path.file_stem()?.to_string_lossy().into_owned())
}

fn is_file_name(text: &str) -> bool {
    Path::new(text).file_name().is_some_and(|last| last == text)
}

fn is_https(text: &str) -> bool {
    text.starts_with("https://")
}

fn lower_case_digest(text: &str) -> Option<Sha256Digest> {
    let digest: Sha256Digest = text.parse().ok()?;
    (digest.to_string() == text).then_some(digest)
}

/// A text of several lines, which other texts must not be.
fn model(map: &Map<'_>) -> Option<String> {
    let node = map.get("model")?;
    match node.value() {
        Value::Text(text) => Some(text.to_owned()),
        _ => node.type_error(&map.expected("model")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manifest_parses_and_substitutes_hash() {
        let entries = entries().expect("all are right");
        assert_eq!(entries.len(), MANIFESTS.len());
        for entry in &entries {
            let text = entry.model_yaml([0xaa; 32].into());
            assert!(
                text.contains(&"a".repeat(64)) && !text.contains(HASH_PLACEHOLDER),
                "{text}"
            );
            assert!(
                text.contains(&entry.file) && text.contains("labels.txt"),
                "{text}"
            );
        }
        assert_eq!(COCO.lines().count(), 80);
    }

    #[test]
    fn invalid_manifest_reports_all_problems() {
        let text =
            "title: T\nfile: ../x\nurl: http://x\nbytes: 0\nsha256: AB\nlabels: voc\nextra: 1\n";
        let error = parse_manifest("x", text)
            .expect_err("nearly all is wrong")
            .to_string();
        for wanted in [
            "file",
            "https",
            "bytes",
            "64 lower-case",
            "coco80",
            "extra",
            "verified",
            "license",
            "model",
        ] {
            assert!(error.contains(wanted), "{wanted} is missing in\n{error}");
        }
    }
}
