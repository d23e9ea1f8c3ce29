// SPDX-License-Identifier: Apache-2.0
//! The bearer token of requests: read from its file for each request, so that it can be rotated, and compared in constant time.

use std::path::{Path, PathBuf};

use super::MetricsError;
use jetwatch_config::Secret;
use jetwatch_files::Sha256Digest;
use jetwatch_http::bearer_token;

/// Fewest characters of a token.
const MIN_CHARACTERS: usize = 16;

#[derive(Debug)]
pub(super) struct Token {
    path: PathBuf,
}

impl Token {
    /// The token in the file at `path`.
    ///
    /// # Errors
    /// It cannot be read, is too short, or has characters that no request can have.
    pub(super) fn open(path: &Path) -> Result<Self, MetricsError> {
        let token = Self {
            path: path.to_owned(),
        };
        token.read()?;
        Ok(token)
    }

    /// Whether a request with this `Authorization` header may read. Without one the file is not read.
    ///
    /// # Errors
    /// The file cannot be read any more.
    pub(super) fn admits(&self, authorization: Option<&[u8]>) -> Result<bool, MetricsError> {
        let Some(given) = authorization.and_then(bearer_token) else {
            return Ok(false);
        };
        // Digests have equal lengths, and a client cannot control where they differ first.
        Ok(Sha256Digest::of(given) == Sha256Digest::of(self.read()?.as_bytes()))
    }

    fn read(&self) -> Result<String, MetricsError> {
        let token =
            Secret::File(self.path.clone())
                .read()
                .map_err(|error| MetricsError::Token {
                    path: self.path.clone(),
                    reason: error.reason,
                })?;
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
        let fault = if token.len() < MIN_CHARACTERS {
            "shorter than that"
        } else if !token.chars().all(is_allowed) {
            "no token"
        } else {
            return Ok(token);
        };
        Err(MetricsError::WeakToken {
            path: self.path.clone(),
            fault,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_the_present_token_is_admitted() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("token");
        fs::write(&path, "first-token-of-the-test\nsecond line\n").expect("written");
        let token = Token::open(&path).expect("a good token");
        let admits = |header: &str| token.admits(Some(header.as_bytes())).expect("readable");
        assert!(admits("Bearer first-token-of-the-test"));
        assert!(admits("bearer  first-token-of-the-test "));
        for wrong in [
            "first-token-of-the-test",
            "Basic first-token-of-the-test",
            "Bearer first-token-of-the-tes",
            "Bearer first-token-of-the-test2",
            "Bearer ",
            "Bearer",
            "",
        ] {
            assert!(!admits(wrong), "{wrong}");
        }
        assert!(!token.admits(None).expect("nothing is read"));
        fs::write(&path, "another-token-of-the-test").expect("written");
        assert!(!admits("Bearer first-token-of-the-test"));
        assert!(admits("Bearer another-token-of-the-test"));
        fs::remove_file(&path).expect("removed");
        let gone = token.admits(Some(b"Bearer another-token-of-the-test"));
        assert!(matches!(gone, Err(MetricsError::Token { .. })), "{gone:?}");
        assert!(!token.admits(None).expect("nothing is read"));
    }

    #[test]
    fn weak_tokens_are_refused_and_never_quoted() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("token");
        for (text, wanted) in [
            ("hunter2", "shorter than that"),
            ("hunter hunter hunter", "is no token"),
            ("hunter2-hunter2-é", "is no token"),
            ("", "first line is empty"),
        ] {
            fs::write(&path, text).expect("written");
            let error = Token::open(&path).expect_err(text).to_string();
            assert!(error.contains(wanted), "{error}");
            assert!(!error.contains("hunter"), "{error}");
        }
        let error = Token::open(&folder.path().join("none")).expect_err("there is none");
        assert!(
            error
                .to_string()
                .contains("metrics.token_file: cannot read"),
            "{error}"
        );
    }
}
