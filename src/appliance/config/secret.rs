// SPDX-License-Identifier: Apache-2.0
//! Secrets: never printed, and read from the configured place each time they are needed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::{env, fmt};

use rustix::fs::{Mode, OFlags};

use super::yaml::characters::{is_unseen, is_utf16};

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

const FILE_ADVICE: &str =
    "the first line of password_file is the password, and this user must be able to read it";

impl Secret {
    /// The environment variable `name`, wanted by the configuration `label`. Where it is not set, as in a check by hand, it is read
    /// from the file next to the configuration that the package's units take: `secrets.env`, or `secrets-NAME.env` for
    /// another configuration than `jetwatch.yaml`.
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
                let (from, advice) = match path.parent() {
                    _ if path.starts_with("/run/credentials") => (
                        path.display().to_string(),
                        "systemd shows it to the unit alone, so that other callers cannot check it",
                    ),
                    // A name of no file may be a password that was written in its place.
                    Some(folder) if !path.exists() => {
                        (format!("a file in `{}`", folder.display()), FILE_ADVICE)
                    }
                    _ => (path.display().to_string(), FILE_ADVICE),
                };
                let fail = |reason: String| SecretError {
                    from: from.clone(),
                    reason,
                    advice,
                };
                let text = read_regular(path).map_err(|error| fail(error.to_string()))?;
                let line = text.split(['\n', '\r']).next().unwrap_or_default();
                match mistake_in(line) {
                    None => Ok(line.to_owned()),
                    Some(mistake) => Err(fail(format!("its first line {mistake}"))),
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
                    from: format!("environment variable {}", shown(name)),
                    reason,
                    advice: "password_env names an environment variable of the daemon; under systemd, Environment= or EnvironmentFile= sets it",
                })
            }
        }
    }
}

/// What no password has, and editors and shells leave in a line; it is not removed, since a password may have it after all.
fn mistake_in(line: &str) -> Option<String> {
    let describe = |c: char| match c {
        ' ' => "a blank".to_owned(),
        '\t' => "a tab".to_owned(),
        c => format!("the character U+{:04X}", u32::from(c)),
    };
    if line.is_empty() {
        return Some("is empty".to_owned());
    }
    let is_blank = |c: &char| c.is_whitespace() || is_unseen(*c);
    if let Some(c) = line.chars().next_back().filter(is_blank) {
        return Some(format!("ends with {}, remove it", describe(c)));
    }
    if let Some(c) = line.chars().next().filter(is_blank) {
        return Some(format!("begins with {}, remove it", describe(c)));
    }
    let control = line.chars().find(|c| c.is_control())?;
    Some(format!("holds {}, remove it", describe(control)))
}

/// Reads a regular file. A pipe would block until it has a writer, at every connect.
fn read_regular(path: &Path) -> io::Result<String> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what);
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(invalid("it is a folder"));
    }
    if !metadata.is_file() {
        return Err(invalid("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    if is_utf16(&bytes) {
        return Err(invalid("it is UTF-16: save it with the encoding UTF-8"));
    }
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| invalid("it is not UTF-8: save it with the encoding UTF-8"))?;
    // Editors on other systems put a byte order mark first, which means nothing in UTF-8.
    Ok(text
        .strip_prefix('\u{feff}')
        .map_or(text.clone(), str::to_owned))
}

/// The name of a variable, unless it may be a password that was written in its place.
fn shown(name: &str) -> &str {
    match name.contains(|c: char| c.is_ascii_lowercase()) {
        true => "of password_env",
        false => name,
    }
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
            Self::Env { name, .. } => write!(f, "Env({})", shown(name)),
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
    }

    #[test]
    fn password_files_are_read_as_people_write_them() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("password");
        let secret = Secret::File(path.clone());
        let utf16 =
            |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
        #[rustfmt::skip]
        let cases = [
            // hivemq/mqtt-cli#136, getwud/wud#318: `echo` writes a line break.
            (b"hunter2\n".to_vec(), Ok("hunter2")),
            (b"hunter2\r\nsecond\r\n".to_vec(), Ok("hunter2")),
            (b"hunter2\r".to_vec(), Ok("hunter2")),
            (b"hunter2".to_vec(), Ok("hunter2")),
            (b"hun ter#2\"'".to_vec(), Ok("hun ter#2\"'")),
            // espanso/espanso#2512: Notepad.
            (b"\xef\xbb\xbfhunter2\r\n".to_vec(), Ok("hunter2")),
            ("h\u{fc}nter2\n".as_bytes().to_vec(), Ok("h\u{fc}nter2")),
            // jaroslawhartman/withings-sync#104.
            (b"hunter2 \n".to_vec(), Err("its first line ends with a blank, remove it")),
            (b"hunter2\t\n".to_vec(), Err("its first line ends with a tab, remove it")),
            ("hunter2\u{a0}\n".as_bytes().to_vec(), Err("its first line ends with the character U+00A0, remove it")),
            ("hunter2\u{200b}\n".as_bytes().to_vec(), Err("its first line ends with the character U+200B, remove it")),
            (b" hunter2\n".to_vec(), Err("its first line begins with a blank, remove it")),
            (b"hun\tter2\n".to_vec(), Err("its first line holds a tab, remove it")),
            (b"hunter2\0\n".to_vec(), Err("its first line holds the character U+0000, remove it")),
            (b"".to_vec(), Err("its first line is empty")),
            (b"\nhunter2\n".to_vec(), Err("its first line is empty")),
            (b"  \n".to_vec(), Err("its first line ends with a blank, remove it")),
            // yggdrasil-network/yggdrasil-go#129: PowerShell.
            (utf16("\u{feff}hunter2\r\n"), Err("it is UTF-16: save it with the encoding UTF-8")),
            (utf16("hunter2\r\n"), Err("it is UTF-16: save it with the encoding UTF-8")),
            (b"h\xfcnter2\n".to_vec(), Err("it is not UTF-8: save it with the encoding UTF-8")),
        ];
        for (bytes, wanted) in cases {
            fs::write(&path, &bytes).expect("writable");
            let found = secret.read().map_err(|error| {
                assert!(!error.to_string().contains("hunt"), "{error}");
                error.reason
            });
            let found = found.as_deref().map_err(String::as_str);
            assert_eq!(found, wanted, "{bytes:?}");
        }
        let error = Secret::File(folder.path().to_owned())
            .read()
            .expect_err("a folder");
        assert_eq!(error.reason, "it is a folder");
    }

    #[test]
    fn missing_secret_is_reported() {
        assert_eq!(Secret::Inline("x".to_owned()).read().as_deref(), Ok("x"));
        let error = Secret::File(PathBuf::from("/nonexistent/secret"))
            .read()
            .expect_err("no such file");
        assert!(
            error.from == "a file in `/nonexistent`" && error.advice.contains("password_file"),
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
