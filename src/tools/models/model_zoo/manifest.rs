//! The manifests of the catalogue: one YAML file a model, in the binary.

use std::path::Path;

use jetwatch_config::{ConfigError, Document, Node, Unit, Value};

/// A model that can be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name of the model, and of its folder.
    pub name: String,
    /// What it is, in a line.
    pub title: String,
    /// Name of the ONNX file in the model's folder.
    pub file: String,
    /// Where the file is published.
    pub url: String,
    /// Its length in bytes, if it is known.
    pub bytes: Option<u64>,
    /// SHA-256 of its bytes as 64 lower-case hexadecimal digits, if it is known.
    pub sha256: Option<String>,
    /// How hash and length became known.
    pub verified: String,
    /// SPDX identifier of the terms.
    pub license: String,
    /// Text of a labels file for the folder, as `labels.txt`.
    pub labels: &'static str,
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

/// The 80 classes of COCO, one a line.
const COCO: &str = include_str!("../../../../models/catalogue/coco80.txt");

/// What stands for the hash in the text of a `model.yaml`.
const HASH_PLACEHOLDER: &str = "$sha256";

/// Every manifest. One that is wrong is a bug of the build, which a test finds first.
pub fn entries() -> Result<Vec<Entry>, ConfigError> {
    let read = |(name, text): &(&str, &str)| parse(name, text);
    MANIFESTS.iter().map(read).collect()
}

impl Entry {
    /// The `model.yaml` for the file with the hash `sha256`.
    #[must_use]
    pub fn model_yaml(&self, sha256: &str) -> String {
        format!(
            "# Written by `jetwatch model fetch {}`; the file comes from\n# {}\n{}",
            self.name,
            self.url,
            self.model.replace(HASH_PLACEHOLDER, sha256)
        )
    }
}

/// Reads the manifest of `name`. All problems are reported at once.
fn parse(name: &str, text: &str) -> Result<Entry, ConfigError> {
    let document = Document::parse(&format!("models/catalogue/{name}.yaml"), text)?;
    let entry = read(&document.root(), name);
    document.finish(entry)
}

fn read(root: &Node<'_>, name: &str) -> Option<Entry> {
    let map = root.with_keys(&[
        "title", "file", "url", "bytes", "sha256", "verified", "license", "labels", "model",
    ])?;
    let line = |key: &'static str, expected: &str| {
        let node = map.required(key, expected)?;
        node.text(expected).map(str::to_owned)
    };
    let title = line("title", "what the model is");
    let file = map.required("file", "a file name").and_then(|node| {
        let text = node.text("a file name")?;
        match Path::new(text).file_name() {
            Some(last) if last == text => Some(text.to_owned()),
            _ => node.expect("a file name without a folder"),
        }
    });
    let url = map.required("url", "an https address").and_then(|node| {
        let text = node.text("an https address")?;
        if text.starts_with("https://") {
            Some(text.to_owned())
        } else {
            node.expect("an https address")
        }
    });
    let bytes = map.optional("bytes").map_or(Some(None), |node| {
        let bytes = node.integer(1..=1 << 40, Unit::None)?;
        Some(u64::try_from(bytes).ok())
    });
    let sha256 = map.optional("sha256").map_or(Some(None), |node| {
        let expected = "64 lower-case hexadecimal digits";
        let text = node.text(expected)?;
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 64 && text.bytes().all(is_digit) {
            Some(Some(text.to_owned()))
        } else {
            node.expect(expected)
        }
    });
    let verified = line("verified", "how hash and length became known");
    let license = line("license", "an SPDX identifier");
    let labels = map
        .required("labels", "coco80")
        .and_then(|node| node.one_of(&[("coco80", COCO)]));
    let model = map
        .required("model", "the text of model.yaml")
        .and_then(|node| match node.value() {
            // Of many lines, which other texts must not have.
            Value::Text(text) => Some(text.to_owned()),
            _ => node.expect("the text of model.yaml"),
        });
    Some(Entry {
        name: name.to_owned(),
        title: title?,
        file: file?,
        url: url?,
        bytes: bytes?,
        sha256: sha256?,
        verified: verified?,
        license: license?,
        labels: labels?,
        model: model?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manifest_parses_and_substitutes_hash() {
        let entries = entries().expect("all are right");
        assert_eq!(entries.len(), MANIFESTS.len());
        for entry in &entries {
            let text = entry.model_yaml(&"a".repeat(64));
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
        let error = parse("x", text)
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
