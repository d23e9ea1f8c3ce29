// SPDX-License-Identifier: Apache-2.0
//! The file of users and tokens: JSON that `jetwatch user` writes, with hashes in place of passwords and tokens.
//!
//! Only its owner may read it. It is written whole or not at all, and the running daemon reads it again when it changes.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::password::checked_hash;
use super::random_hex;
use jetwatch_config::WebRole;
use jetwatch_files::{PendingFile, Sha256Digest, WriteError};

/// Most users, and most tokens.
const MAX_ENTRIES: usize = 200;

/// Largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Longest name.
const MAX_NAME_BYTES: usize = 64;

/// Why users cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum UserError {
    #[error("cannot read {}: {reason}; make it with `jetwatch user add`", path.display())]
    Read { path: PathBuf, reason: String },
    #[error("{} may be read by others (mode {mode:o}); run: chmod 600 {}", path.display(), path.display())]
    OpenFile { path: PathBuf, mode: u32 },
    #[error("{0}: {cause}", cause = std::error::Error::source(.0).map_or_else(String::new, ToString::to_string))]
    Write(#[from] WriteError),
    #[error("{} has no user; add one with `jetwatch user add`", path.display())]
    Empty { path: PathBuf },
    #[error(
        "`{name}` is no name of a user or token; expected letters, digits, `-`, `_`, `.` and `@`, at most {MAX_NAME_BYTES}"
    )]
    Name { name: String },
    #[error(
        "there is a {what} named {name} already; remove it first, or set its password with `jetwatch user password`"
    )]
    Exists { what: &'static str, name: String },
    #[error("there is no {what} named {name}; `jetwatch user list` shows all")]
    Unknown { what: &'static str, name: String },
    #[error("there are {MAX_ENTRIES} already, which is as many as can be; remove one first")]
    Full,
    #[error(
        "the password is too short or too long; expected {least} characters or more, and at most 1024 bytes"
    )]
    WeakPassword { least: usize },
    #[error("cannot hash the password: {reason}; it takes 19 MiB of memory")]
    Hash { reason: String },
}

/// What a token is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Pictures of the sources, and nothing else.
    Pictures,
    /// All that a viewer sees.
    Read,
    /// What an operator may do.
    Control,
}

impl Scope {
    /// All, by their words.
    pub const ALL: [(&'static str, Self); 3] = [
        ("pictures", Self::Pictures),
        ("read", Self::Read),
        ("control", Self::Control),
    ];
}

/// The users and tokens of a file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Users {
    users: Vec<User>,
    #[serde(default)]
    tokens: Vec<Token>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct User {
    name: String,
    #[serde(with = "role_word")]
    role: WebRole,
    /// Hash, as a PHC string.
    password: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Token {
    name: String,
    scope: Scope,
    /// Of the token.
    sha256: String,
}

/// A user without its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserSummary {
    /// Its name.
    pub name: String,
    /// The word of its role.
    pub role: &'static str,
}

/// A token without its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSummary {
    /// Its name.
    pub name: String,
    /// The word of its scope.
    pub scope: &'static str,
}

impl Users {
    /// The users of the file at `path`.
    ///
    /// # Errors
    /// It cannot be read, others may read it, or it is no such file.
    pub fn load(path: &Path) -> Result<Self, UserError> {
        let failed = |reason: String| UserError::Read {
            path: path.to_owned(),
            reason,
        };
        let metadata = fs::metadata(path).map_err(|cause| failed(cause.to_string()))?;
        if metadata.len() > MAX_FILE_BYTES || !metadata.is_file() {
            return Err(failed("it is no file of users".to_owned()));
        }
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(UserError::OpenFile {
                path: path.to_owned(),
                mode,
            });
        }
        let text = fs::read_to_string(path).map_err(|cause| failed(cause.to_string()))?;
        // The position alone: the cause may quote a hash.
        serde_json::from_str(&text).map_err(|cause| {
            let (line, column) = (cause.line(), cause.column());
            failed(format!(
                "it is no file of users (line {line}, column {column})"
            ))
        })
    }

    /// As [`load`](Self::load), or none where there is no such file yet.
    ///
    /// # Errors
    /// Those of [`load`](Self::load).
    pub(crate) fn load_or_new(path: &Path) -> Result<Self, UserError> {
        match fs::metadata(path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            _ => Self::load(path),
        }
    }

    /// Writes the file, which only its owner may read.
    ///
    /// # Errors
    /// The folder or the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), UserError> {
        let failed = |source| WriteError {
            action: "write",
            path: path.to_owned(),
            source,
        };
        let text = serde_json::to_string_pretty(self).map_err(|cause| failed(cause.into()))?;
        let path = &*jetwatch_files::target_of(path).map_err(failed)?;
        let mut pending = PendingFile::create(path)?;
        let file = pending.file();
        let owner_only = fs::Permissions::from_mode(0o600);
        file.set_permissions(owner_only)
            .and_then(|()| file.write_all(text.as_bytes()))
            .and_then(|()| file.write_all(b"\n"))
            .map_err(failed)?;
        Ok(pending.commit()?)
    }

    /// Changes the file at `path`, which is made where it is missing. Another process that does the same waits, so that no change is lost.
    ///
    /// # Errors
    /// Those of [`load`](Self::load), [`save`](Self::save) and `change`; nothing is written then.
    pub fn change<T, E: From<UserError>>(
        path: &Path,
        change: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        // Of the folder: the file is replaced by each change.
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let lock = fs::File::open(folder.unwrap_or(Path::new(".")));
        let _locked = lock.and_then(|lock| lock.lock().map(|()| lock));
        let mut users = Self::load_or_new(path)?;
        let changed = change(&mut users)?;
        users.save(path)?;
        Ok(changed)
    }

    /// Adds a user.
    ///
    /// # Errors
    /// The name or the password cannot be used, or the name is taken.
    pub fn add(&mut self, name: &str, role: WebRole, password: &str) -> Result<(), UserError> {
        check_name(name)?;
        if self.user(name).is_some() {
            let name = name.to_owned();
            return Err(UserError::Exists { what: "user", name });
        }
        if self.users.len() >= MAX_ENTRIES {
            return Err(UserError::Full);
        }
        self.users.push(User {
            name: name.to_owned(),
            role,
            password: checked_hash(password)?,
        });
        Ok(())
    }

    /// Sets the password of a user, which ends its sessions.
    ///
    /// # Errors
    /// There is no such user, or the password cannot be used.
    pub fn set_password(&mut self, name: &str, password: &str) -> Result<(), UserError> {
        let user = self.users.iter_mut().find(|user| user.name == name);
        let user = user.ok_or_else(|| unknown("user", name))?;
        user.password = checked_hash(password)?;
        Ok(())
    }

    /// Removes a user, which ends its sessions.
    ///
    /// # Errors
    /// There is no such user.
    pub fn remove(&mut self, name: &str) -> Result<(), UserError> {
        let before = self.users.len();
        self.users.retain(|user| user.name != name);
        match self.users.len() < before {
            true => Ok(()),
            false => Err(unknown("user", name)),
        }
    }

    /// Adds a token; returns it: it is stored nowhere.
    ///
    /// # Errors
    /// The name cannot be used or is taken.
    pub fn add_token(&mut self, name: &str, scope: Scope) -> Result<String, UserError> {
        check_name(name)?;
        if self.tokens.iter().any(|token| token.name == name) {
            let name = name.to_owned();
            return Err(UserError::Exists {
                what: "token",
                name,
            });
        }
        if self.tokens.len() >= MAX_ENTRIES {
            return Err(UserError::Full);
        }
        let token = format!("jw_{}", random_hex::<32>());
        self.tokens.push(Token {
            name: name.to_owned(),
            scope,
            sha256: Sha256Digest::of(token.as_bytes()).to_string(),
        });
        Ok(token)
    }

    /// Removes a token.
    ///
    /// # Errors
    /// There is no such token.
    pub fn remove_token(&mut self, name: &str) -> Result<(), UserError> {
        let before = self.tokens.len();
        self.tokens.retain(|token| token.name != name);
        match self.tokens.len() < before {
            true => Ok(()),
            false => Err(unknown("token", name)),
        }
    }

    /// The users, in the order in which they were added.
    pub fn users(&self) -> Vec<UserSummary> {
        let users = self.users.iter().map(|user| UserSummary {
            name: user.name.clone(),
            role: user.role.word(),
        });
        users.collect()
    }

    /// The tokens, in the order in which they were added.
    pub fn tokens(&self) -> Vec<TokenSummary> {
        let word = |scope: Scope| {
            let known = Scope::ALL.iter().find(|(_, known)| *known == scope);
            known.map_or("", |(word, _)| word)
        };
        let tokens = self.tokens.iter().map(|token| TokenSummary {
            name: token.name.clone(),
            scope: word(token.scope),
        });
        tokens.collect()
    }

    /// Role and password hash of a user.
    pub(super) fn user(&self, name: &str) -> Option<(WebRole, &str)> {
        let user = self.users.iter().find(|user| user.name == name)?;
        Some((user.role, &user.password))
    }

    /// Role and password hash of a user, for the server.
    pub(in super::super) fn credentials(&self, name: &str) -> Option<(WebRole, &str)> {
        self.user(name)
    }

    /// Name and scope of a token.
    pub(in super::super) fn token(&self, token: &[u8]) -> Option<(&str, Scope)> {
        // Digests: a client cannot control where they differ first.
        let digest = Sha256Digest::of(token).to_string();
        let found = self.tokens.iter().find(|known| known.sha256 == digest)?;
        Some((&found.name, found.scope))
    }
}

fn unknown(what: &'static str, name: &str) -> UserError {
    let name = name.to_owned();
    UserError::Unknown { what, name }
}

fn check_name(name: &str) -> Result<(), UserError> {
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    let is_name =
        !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(is_name_char);
    is_name.then_some(()).ok_or_else(|| UserError::Name {
        name: name
            .chars()
            .take(MAX_NAME_BYTES)
            .collect::<String>()
            .escape_debug()
            .to_string(),
    })
}

/// Roles as their words.
mod role_word {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use jetwatch_config::WebRole;

    pub(super) fn serialize<S: Serializer>(role: &WebRole, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(role.word())
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(input: D) -> Result<WebRole, D::Error> {
        let word = String::deserialize(input)?;
        let found = WebRole::ALL.iter().find(|role| role.word() == word);
        found.copied().ok_or_else(|| de::Error::custom("no role"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_holds_hashes_and_belongs_to_its_owner() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("users");
        let mut users = Users::load_or_new(&path).expect("none yet");
        users
            .add("anna", WebRole::Operator, "a long password")
            .expect("new");
        let token = users.add_token("ha", Scope::Pictures).expect("new");
        users.save(&path).expect("writable");
        let text = fs::read_to_string(&path).expect("readable");
        assert!(
            !text.contains("a long password") && !text.contains(&token),
            "{text}"
        );
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let users = Users::load(&path).expect("its own file");
        let (role, hash) = users.user("anna").expect("added");
        assert_eq!(role, WebRole::Operator);
        assert!(hash.starts_with("$argon2id$"));
        assert_eq!(users.token(token.as_bytes()), Some(("ha", Scope::Pictures)));
        assert_eq!(users.token(b"jw_other"), None);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("set");
        let refused = Users::load(&path);
        assert!(
            matches!(refused, Err(UserError::OpenFile { .. })),
            "{refused:?}"
        );
    }

    #[test]
    fn names_are_checked_and_unique() {
        let mut users = Users::default();
        for name in ["", "a b", "a/b", "a\n", &"x".repeat(65)] {
            let refused = users.add(name, WebRole::Viewer, "a long password");
            assert!(matches!(refused, Err(UserError::Name { .. })), "{name}");
        }
        users
            .add("anna", WebRole::Viewer, "a long password")
            .expect("new");
        let again = users.add("anna", WebRole::Viewer, "a long password");
        assert!(matches!(again, Err(UserError::Exists { .. })));
        users.remove("anna").expect("there");
        assert!(matches!(
            users.remove("anna"),
            Err(UserError::Unknown { .. })
        ));
        assert!(users.set_password("anna", "a long password").is_err());
    }

    #[test]
    fn damaged_files_are_refused_without_a_quote() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("users");
        for text in ["", "{", "{\"users\": [{\"name\": \"secret-text\"}]}", "[]"] {
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
            let error = Users::load(&path).expect_err(text).to_string();
            assert!(error.contains("no file of users"), "{error}");
            assert!(!error.contains("secret-text"), "{error}");
        }
    }
}
