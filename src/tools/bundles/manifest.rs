//! `manifest.json`, the first file of a bundle: what it holds, and where it may be installed.

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::fs;
use std::path::Path;
use std::str::FromStr;

use jetwatch_files::Sha256Digest;
use jiff::{Timestamp, ToSpan};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::io;
use super::names::{is_name, path_problem};
use super::{BundleError, BundleName};

/// Number of the format.
pub(crate) const FORMAT: u32 = 1;

/// Name of the manifest inside a bundle and in the folder of a version.
pub(crate) const MANIFEST: &str = "manifest.json";

/// Folder of the model folders.
pub(crate) const MODELS: &str = "models";

/// Name of the configuration inside a bundle.
pub const CONFIGURATION: &str = "configuration.yaml";

/// Maximum size of a manifest in bytes.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// Maximum size of a configuration in bytes.
const MAX_CONFIGURATION_BYTES: u64 = 1 << 20;

/// Maximum number of files.
const MAX_FILES: usize = 1000;

/// What a bundle holds, and where it may be installed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Number of the format: 1.
    pub format: u32,
    /// Name of the bundle, which all of its versions share.
    pub name: BundleName,
    /// Serial number, which grows with every version.
    pub serial: u64,
    /// When it was packed.
    #[serde(with = "as_text")]
    pub created: Timestamp,
    /// From when on it is not installed any more. An installed version runs on.
    #[serde(with = "as_text")]
    pub expires: Timestamp,
    /// Oldest version of the program that runs it.
    #[serde(with = "as_text")]
    pub min_jetwatch: ProgramVersion,
    /// The model folders.
    pub models: Vec<BundledModel>,
    /// All files but the manifest, in the order of the archive.
    pub files: Vec<BundledFile>,
}

/// A model folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledModel {
    /// Name of the folder, for `bundle:NAME/FOLDER`.
    pub folder: String,
    /// Precision of the engine or file to prove, such as `int8`; `None`: that of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledFile {
    /// Path inside the bundle.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the content.
    pub sha256: Sha256Digest,
}

/// Version of the program: three numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramVersion([u32; 3]);

impl FromStr for ProgramVersion {
    type Err = String;

    /// Reads `1.2.3`; what follows a `-` or `+` is ignored.
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split(['-', '+']).next().unwrap_or_default();
        let numbers: Result<Vec<u32>, _> = numbers.split('.').map(str::parse).collect();
        let parts = numbers.ok().and_then(|numbers| numbers.try_into().ok());
        parts.map(Self).ok_or_else(|| {
            format!("found the version {text:?}, expected three numbers such as 1.2.3")
        })
    }
}

impl Display for ProgramVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

impl Manifest {
    /// Reads the manifest of the unpacked files in `folder`.
    ///
    /// # Errors
    /// It cannot be read, or is not valid.
    pub fn read(folder: &Path) -> Result<Self, BundleError> {
        let path = folder.join(MANIFEST);
        let text = fs::read(&path).map_err(io("read", &path))?;
        Self::parse(&text).map_err(|problem| BundleError::Content { path, problem })
    }

    /// Parses a manifest and checks that it is complete in itself.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let invalid = |error: serde_json::Error| format!("{MANIFEST}: {error}");
        // First, so that a later format is named as such and not by its first unknown key.
        let Format { format } = serde_json::from_slice(text).map_err(invalid)?;
        if format != FORMAT {
            return Err(format!(
                "{MANIFEST} has format {format}, expected {FORMAT}: update jetwatch"
            ));
        }
        let manifest: Self = serde_json::from_slice(text).map_err(invalid)?;
        manifest.check_content()?;
        Ok(manifest)
    }

    /// Checks names, paths and sizes.
    pub(crate) fn check_content(&self) -> Result<(), String> {
        if self.models.is_empty() {
            return Err("found no model, expected one at least".to_owned());
        }
        if self.files.len() > MAX_FILES {
            return Err(format!(
                "found {} files, expected {MAX_FILES} at most",
                self.files.len()
            ));
        }
        let mut folders = BTreeSet::new();
        for BundledModel { folder, .. } in &self.models {
            if !is_name(folder) {
                return Err(format!(
                    "found the model folder {folder:?}, expected a plain name"
                ));
            }
            if !folders.insert(folder.as_str()) {
                return Err(format!("the model folder {folder} is there twice"));
            }
        }
        let mut paths = BTreeSet::new();
        for file in &self.files {
            if let Some(problem) = path_problem(&file.path) {
                return Err(problem);
            }
            if !is_place(&file.path, &folders) {
                return Err(format!(
                    "found the file {}, expected {CONFIGURATION} or a file of a model folder",
                    file.path
                ));
            }
            if file.path == CONFIGURATION && file.bytes > MAX_CONFIGURATION_BYTES {
                return Err(format!(
                    "{CONFIGURATION} has {} bytes, expected {MAX_CONFIGURATION_BYTES} at most",
                    file.bytes
                ));
            }
            if !paths.insert(file.path.as_str()) {
                return Err(format!("the file {} is there twice", file.path));
            }
        }
        let missing = folders
            .iter()
            .map(|folder| format!("{MODELS}/{folder}/model.yaml"))
            .find(|path| !paths.contains(path.as_str()));
        missing.map_or(Ok(()), |path| Err(format!("the file {path} is missing")))
    }

    /// Whether there is a configuration.
    #[must_use]
    pub fn has_configuration(&self) -> bool {
        self.files.iter().any(|file| file.path == CONFIGURATION)
    }

    /// Checks that the bundle may be installed by the program of version `program` at `now`, after a bundle of the same name with
    /// the highest serial number `highest`, if there was one.
    pub(crate) fn check_installable(
        &self,
        now: Timestamp,
        program: ProgramVersion,
        highest: Option<u64>,
        allow_downgrade: bool,
    ) -> Result<(), BundleError> {
        let refused = |reason: String| {
            Err(BundleError::Refused {
                name: self.name.clone(),
                serial: self.serial,
                reason,
            })
        };
        if program < self.min_jetwatch {
            return refused(format!(
                "it needs jetwatch {}, and this is {program}: update jetwatch first",
                self.min_jetwatch
            ));
        }
        // A machine without a clock starts in the past, where nothing has expired.
        if now
            .checked_add(24.hours())
            .is_ok_and(|now| now < self.created)
        {
            return refused(format!(
                "the clock says {now:.0}, and it was packed at {:.0}: set the clock",
                self.created
            ));
        }
        if now >= self.expires {
            return refused(format!(
                "it expired at {:.0}, and the clock says {now:.0}: get a newer bundle, or set the clock",
                self.expires
            ));
        }
        match highest {
            Some(highest) if self.serial < highest && !allow_downgrade => refused(format!(
                "its serial number is below {highest}, which was installed: only --allow-downgrade installs an older version"
            )),
            _ => Ok(()),
        }
    }
}

/// Whether a file may be at `path`: the configuration, or below one of the model `folders`.
fn is_place(path: &str, folders: &BTreeSet<&str>) -> bool {
    let mut parts = path.splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(CONFIGURATION), None, None) => true,
        (Some(MODELS), Some(folder), Some(_)) => folders.contains(folder),
        _ => false,
    }
}

/// Values that are written as text.
mod as_text {
    use super::*;

    pub(super) fn serialize<S: Serializer>(
        value: &impl Display,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let file = |path: &str| BundledFile {
            path: path.to_owned(),
            bytes: 3,
            sha256: Sha256Digest::of(b"abc"),
        };
        Manifest {
            format: FORMAT,
            name: "street".parse().expect("a name"),
            serial: 7,
            created: "2026-01-01T00:00:00Z".parse().expect("a time"),
            expires: "2027-01-01T00:00:00Z".parse().expect("a time"),
            min_jetwatch: "1.2.3".parse().expect("a version"),
            models: vec![BundledModel {
                folder: "model".to_owned(),
                precision: None,
            }],
            files: vec![
                file("configuration.yaml"),
                file("models/model/model.yaml"),
                file("models/model/weights/a.onnx"),
            ],
        }
    }

    #[test]
    fn written_manifest_is_read_again() {
        let text = serde_json::to_vec(&manifest()).expect("JSON");
        assert_eq!(Manifest::parse(&text), Ok(manifest()));
        assert!(manifest().has_configuration());
    }

    #[test]
    fn other_formats_and_unknown_keys_are_refused() {
        let text = serde_json::to_string(&manifest()).expect("JSON");
        #[rustfmt::skip]
        let cases = [
            ("\"format\":1", "\"format\":2,\"later\":1", "format 2, expected 1"),
            ("\"serial\":7", "\"serial\":7,\"other\":1", "unknown field `other`"),
            ("\"serial\":7", "\"serial\":-7", "invalid value"),
            ("\"serial\":7,", "", "missing field `serial`"),
            ("\"1.2.3\"", "\"1.2\"", "expected three numbers"),
            ("2027-01-01T00:00:00Z", "never", "as year"),
            ("\"street\"", "\"../street\"", "found the name"),
        ];
        for (from, to, expected) in cases {
            assert!(text.contains(from), "{from}");
            let error = Manifest::parse(text.replace(from, to).as_bytes()).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn files_outside_of_the_model_folders_are_refused() {
        type Change = fn(&mut Manifest);
        #[rustfmt::skip]
        let cases: [(Change, &str); 9] = [
            (|m| m.models.clear(), "found no model"),
            (|m| m.models[0].folder = "..".to_owned(), "model folder \"..\""),
            (|m| m.models.push(m.models[0].clone()), "is there twice"),
            (|m| m.files.push(m.files[1].clone()), "is there twice"),
            (|m| m.files[2].path = "/etc/passwd".to_owned(), "found the path"),
            (|m| m.files[2].path = "models/model/../../a".to_owned(), "found the path"),
            (|m| m.files[2].path = "models/other/a".to_owned(), "a file of a model folder"),
            (|m| m.files[2].path = "manifest.json".to_owned(), "found the file"),
            (|m| m.files[0].bytes = 1 << 30, "expected 1048576 at most"),
        ];
        for (change, expected) in cases {
            let mut changed = manifest();
            change(&mut changed);
            let error = changed.check_content().expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
        let mut changed = manifest();
        changed.files.remove(1);
        let error = changed.check_content().expect_err("no model.yaml");
        assert_eq!(error, "the file models/model/model.yaml is missing");
    }

    #[test]
    fn time_version_and_serial_decide() {
        let check = |now: &str, program: &str, highest, allow| {
            let checked = manifest().check_installable(
                now.parse().expect("a time"),
                program.parse().expect("a version"),
                highest,
                allow,
            );
            checked.map_err(|error| error.to_string())
        };
        let (now, program) = ("2026-06-01T00:00:00Z", "1.2.3");
        for highest in [None, Some(6), Some(7)] {
            assert_eq!(check(now, program, highest, false), Ok(()));
        }
        assert_eq!(check(now, "2.0.0-dev", None, false), Ok(()));
        assert_eq!(check(now, program, Some(8), true), Ok(()));
        // Half a day before it was packed: the clock of another machine.
        assert_eq!(check("2025-12-31T12:00:00Z", program, None, false), Ok(()));
        #[rustfmt::skip]
        let cases = [
            (now, "1.2.2", None, "it needs jetwatch 1.2.3, and this is 1.2.2"),
            ("2027-01-01T00:00:00Z", program, None, "it expired at 2027-01-01"),
            ("1970-01-01T00:01:00Z", program, None, "set the clock"),
            (now, program, Some(8), "its serial number is below 8"),
        ];
        for (now, program, highest, expected) in cases {
            let error = check(now, program, highest, false).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }
}
