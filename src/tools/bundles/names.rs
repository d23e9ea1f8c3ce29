//! Names of bundles, and the paths of files inside one: which are accepted. Everything else is refused before a file is touched.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Accepted form of a name, in words.
const NAME_FORM: &str = "1 to 48 lower-case letters, digits, `-` and `_`, beginning with a letter";

/// Maximum length of a name in bytes: shorter than a digest, which names a version in the same folder.
const MAX_NAME_BYTES: usize = 48;

/// Maximum length of a path inside a bundle in bytes: that of the name field of a tar header.
const MAX_PATH_BYTES: usize = 100;

/// Name of a bundle, which all of its versions share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BundleName(String);

impl BundleName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BundleName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match is_name(text) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!("found the name {text:?}, expected {NAME_FORM}")),
        }
    }
}

impl TryFrom<String> for BundleName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<BundleName> for String {
    fn from(name: BundleName) -> Self {
        name.0
    }
}

impl fmt::Display for BundleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether `text` names a bundle, or a model folder inside one.
pub(crate) fn is_name(text: &str) -> bool {
    let is_inner =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    text.len() <= MAX_NAME_BYTES
        && text.bytes().next().is_some_and(|c| c.is_ascii_lowercase())
        && text.bytes().all(is_inner)
}

/// What is wrong with a path inside a bundle; `None`: nothing.
pub(crate) fn path_problem(path: &str) -> Option<String> {
    let is_part = |part: &str| {
        let is_accepted = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'\\';
        !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_accepted)
    };
    let is_path = path.len() <= MAX_PATH_BYTES && path.split('/').all(is_part);
    (!is_path).then(|| {
        format!(
            "found the path {path:?}, expected at most {MAX_PATH_BYTES} bytes of ASCII, relative, and no part that is empty or begins with a dot"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_words() {
        let long = "a".repeat(MAX_NAME_BYTES + 1);
        for name in ["a", "street", "street-nano_2", &long[1..]] {
            assert_eq!(
                name.parse::<BundleName>().map(String::from),
                Ok(name.to_owned())
            );
        }
        for name in [
            "", "A", "2a", "-a", "a/b", "..", ".a", "a.b", "a b", "ä", "a\0", &long,
        ] {
            let error = name.parse::<BundleName>().expect_err("no name");
            assert!(error.contains("expected 1 to 48"), "{error}");
        }
        serde_json::from_str::<BundleName>("\"../a\"").expect_err("no name");
    }

    #[test]
    fn paths_stay_inside_and_are_plain() {
        for path in ["a", "models/model/model.yaml", "a b/c+d~e@1.onnx"] {
            assert_eq!(path_problem(path), None, "{path}");
        }
        let long = "a".repeat(MAX_PATH_BYTES + 1);
        for path in [
            "", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", ".a", "a/.b",
            "a\\b", "a\nb", "a\0b", "ä", &long,
        ] {
            let problem = path_problem(path).expect("refused");
            assert!(problem.starts_with("found the path"), "{problem}");
        }
    }
}
