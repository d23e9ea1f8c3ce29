//! Secrets: never printed, and read where the configuration says they are, each time they are needed.

use std::path::PathBuf;
use std::{env, fmt, fs};

/// A secret that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// Written in the YAML file.
    Inline(String),
    /// First line of a file, read at every connect so that it can be rotated.
    File(PathBuf),
    /// Value of an environment variable.
    Env(String),
}

/// A secret that cannot be read: from where, why, and what must hold there. It holds nothing of the secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read it from {from}: {reason}; {advice}")]
pub struct SecretError {
    /// The file or variable.
    pub from: String,
    /// Why not.
    pub reason: String,
    /// What must hold.
    pub advice: &'static str,
}

impl Secret {
    /// Reads the secret as it is now.
    ///
    /// # Errors
    /// The file cannot be read or its first line is empty; the variable is not set or not UTF-8.
    pub fn read(&self) -> Result<String, SecretError> {
        match self {
            Self::Inline(secret) => Ok(secret.clone()),
            Self::File(path) => {
                let fail = |reason: String| SecretError {
                    from: path.display().to_string(),
                    reason,
                    advice: "the first line of password_file is the password, and this user must be able to read it",
                };
                let text = fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
                match text.lines().next() {
                    Some(line) if !line.is_empty() => Ok(line.to_owned()),
                    _ => Err(fail("its first line is empty".to_owned())),
                }
            }
            Self::Env(name) => env::var(name).map_err(|error| SecretError {
                from: format!("environment variable {name}"),
                reason: match error {
                    env::VarError::NotPresent => "it is not set".to_owned(),
                    env::VarError::NotUnicode(_) => "it is not UTF-8".to_owned(),
                },
                advice: "password_env names an environment variable of the daemon; under systemd, Environment= or EnvironmentFile= sets it",
            }),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(_) => f.write_str("Inline(…)"),
            Self::File(path) => write!(f, "File({})", path.display()),
            Self::Env(name) => write!(f, "Env({name})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_its_first_line_anew_each_time() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("password");
        let secret = Secret::File(path.clone());
        fs::write(&path, "first\r\nsecond\n").expect("writable");
        assert_eq!(secret.read().as_deref(), Ok("first"));
        fs::write(&path, "rotated").expect("writable");
        assert_eq!(secret.read().as_deref(), Ok("rotated"));
        fs::write(&path, "\nsecond").expect("writable");
        let error = secret
            .read()
            .expect_err("an empty first line is no password");
        assert_eq!(error.reason, "its first line is empty");
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(Secret::Inline("x".to_owned()).read().as_deref(), Ok("x"));
        let error = Secret::File(PathBuf::from("/nonexistent/secret"))
            .read()
            .expect_err("no such file");
        assert!(
            error.from.contains("/nonexistent/secret") && error.advice.contains("password_file"),
            "{error}"
        );
        let error = Secret::Env("JETWATCH_TEST_UNSET".to_owned())
            .read()
            .expect_err("not set");
        assert!(
            error.to_string().contains("JETWATCH_TEST_UNSET") && error.reason.contains("not set"),
            "{error}"
        );
    }
}
