//! Secrets: never printed, and read from the configured place each time they are needed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::{env, fmt};

use rustix::fs::{Mode, OFlags};

/// A secret that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// Written in the YAML file.
    Inline(String),
    /// First line of a file, read at every connect so that it can be rotated.
    File(PathBuf),
    /// Value of an environment variable.
    Env {
        /// Its name.
        name: String,
        /// The file that the unit fills its environment from, for processes that the unit does not start: see [`Secret::env`].
        file: PathBuf,
    },
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
    /// The environment variable `name`, wanted by the configuration `label`. Where it is not set, as in a check by hand, it is read
    /// from the file next to the configuration that the package's units take: `secrets.env`, or `secrets-NAME.env` for
    /// another configuration than `jetwatch.yaml`.
    #[must_use]
    pub fn env(name: &str, label: &str) -> Self {
        let label = Path::new(label);
        let file = match label.file_stem().and_then(OsStr::to_str) {
            Some("jetwatch") | None => "secrets.env".to_owned(),
            Some(instance) => format!("secrets-{instance}.env"),
        };
        Self::Env {
            name: name.to_owned(),
            file: label.with_file_name(file),
        }
    }

    /// Reads the secret as it is now.
    ///
    /// # Errors
    /// The file cannot be read or its first line is empty; the variable is not set or not UTF-8.
    pub fn read(&self) -> Result<String, SecretError> {
        match self {
            Self::Inline(secret) => Ok(secret.clone()),
            Self::File(path) => {
                let advice = match path.starts_with("/run/credentials") {
                    true => {
                        "systemd shows it to the unit alone, so that other callers cannot check it"
                    }
                    false => {
                        "the first line of password_file is the password, and this user must be able to read it"
                    }
                };
                let fail = |reason: String| SecretError {
                    from: path.display().to_string(),
                    reason,
                    advice,
                };
                let text = read_regular(path).map_err(|error| fail(error.to_string()))?;
                match text.lines().next() {
                    Some(line) if !line.is_empty() => Ok(line.to_owned()),
                    _ => Err(fail("its first line is empty".to_owned())),
                }
            }
            Self::Env { name, file } => {
                let reason = match env::var(name) {
                    Ok(secret) => return Ok(secret),
                    Err(env::VarError::NotUnicode(_)) => "it is not UTF-8".to_owned(),
                    Err(env::VarError::NotPresent) => match read_regular(file) {
                        Ok(text) => match variable(&text, name) {
                            Some(secret) => return Ok(secret),
                            None => format!("it is not set, and not in {} either", file.display()),
                        },
                        Err(error) => {
                            format!(
                                "it is not set, and {} cannot be read ({error})",
                                file.display()
                            )
                        }
                    },
                };
                Err(SecretError {
                    from: format!("environment variable {name}"),
                    reason,
                    advice: "password_env names an environment variable of the daemon; under systemd, Environment= or EnvironmentFile= sets it",
                })
            }
        }
    }
}

/// Reads a regular file. A pipe would block until it has a writer, at every connect.
fn read_regular(path: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        let what = "it is not a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// The last value of `name` in a file of lines `NAME=value`, quoted or not, as systemd's EnvironmentFile= has them.
fn variable(text: &str, name: &str) -> Option<String> {
    let value = |line: &str| {
        let (found, value) = line.trim().split_once('=')?;
        let value = value.trim();
        let quoted = ['"', '\''].iter().find_map(|quote| {
            let inner = value.strip_prefix(*quote)?;
            inner.strip_suffix(*quote)
        });
        (found.trim_end() == name).then(|| quoted.unwrap_or(value).to_owned())
    };
    text.lines().rev().find_map(value)
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(_) => f.write_str("Inline(…)"),
            Self::File(path) => write!(f, "File({})", path.display()),
            Self::Env { name, .. } => write!(f, "Env({name})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn pipe_is_no_secret_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("password");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, Mode::RUSR, 0).expect("a pipe");
        let error = Secret::File(path).read().expect_err("nothing writes to it");
        assert_eq!(error.reason, "it is not a regular file");
    }

    #[test]
    fn secret_file_is_reread_each_time() {
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
    fn missing_secret_is_reported() {
        assert_eq!(Secret::Inline("x".to_owned()).read().as_deref(), Ok("x"));
        let error = Secret::File(PathBuf::from("/nonexistent/secret"))
            .read()
            .expect_err("no such file");
        assert!(
            error.from.contains("/nonexistent/secret") && error.advice.contains("password_file"),
            "{error}"
        );
        let error = Secret::env("JETWATCH_TEST_UNSET", "/nonexistent/jetwatch.yaml")
            .read()
            .expect_err("not set");
        assert!(
            error.to_string().contains("JETWATCH_TEST_UNSET")
                && error
                    .reason
                    .contains("not set, and /nonexistent/secrets.env"),
            "{error}"
        );
    }

    #[test]
    fn unset_variable_is_searched_in_unit_environment_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        let text =
            "# PASSWORD=no\nOTHER_PASSWORD=no\nPASSWORD=old\nPASSWORD = \"a b=c\" \nQUOTE='\n";
        fs::write(path("secrets.env"), text).expect("writable");
        fs::write(path("secrets-gate.env"), "PASSWORD=gate\n").expect("writable");
        let read = |name: &str, config: &str| {
            let label = path(config).display().to_string();
            Secret::env(name, &label).read()
        };
        assert_eq!(read("PASSWORD", "jetwatch.yaml").as_deref(), Ok("a b=c"));
        assert_eq!(read("QUOTE", "jetwatch.yaml").as_deref(), Ok("'"));
        assert_eq!(read("PASSWORD", "gate.yaml").as_deref(), Ok("gate"));
        let error = read("QUOTE", "gate.yaml").expect_err("not there");
        assert!(error.reason.ends_with("secrets-gate.env either"), "{error}");
    }
}
