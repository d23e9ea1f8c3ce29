//! The password of the MQTT user, read at each connect so that it can be rotated without a restart.

use std::{env, fs};

use crate::config::{Credentials, Secret};
use crate::publish::PublishError;

/// Reads the password; it appears in no error.
pub(in crate::publish) fn read_password(credentials: &Credentials) -> Result<String, PublishError> {
    let unreadable = |from: String, reason: String, advice| PublishError::Password {
        user: credentials.user.clone(),
        from,
        reason,
        advice,
    };
    match &credentials.password {
        Secret::Inline(password) => Ok(password.clone()),
        Secret::File(path) => {
            let file_advice = "the first line of publish.mqtt.password_file is the password, and this user must be able to read it";
            let text = fs::read_to_string(path)
                .map_err(|error| unreadable(path.display().to_string(), error.to_string(), file_advice))?;
            match text.lines().next() {
                Some(line) if !line.is_empty() => Ok(line.to_owned()),
                _ => {
                    let reason = "its first line is empty".to_owned();
                    Err(unreadable(path.display().to_string(), reason, file_advice))
                }
            }
        }
        Secret::Env(name) => env::var(name).map_err(|error| {
            let advice = "publish.mqtt.password_env names an environment variable of the daemon; under systemd, Environment= or EnvironmentFile= sets it";
            let reason = match error {
                env::VarError::NotPresent => "it is not set".to_owned(),
                env::VarError::NotUnicode(_) => "it is not UTF-8".to_owned(),
            };
            unreadable(format!("environment variable {name}"), reason, advice)
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn password(secret: Secret) -> Result<String, String> {
        read_password(&Credentials {
            user: "cam".to_owned(),
            password: secret,
        })
        .map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_gives_its_first_line_anew_each_time() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("password");
        fs::write(&path, "first\r\nsecond\n").expect("writable");
        assert_eq!(password(Secret::File(path.clone())).as_deref(), Ok("first"));
        fs::write(&path, "rotated").expect("writable");
        assert_eq!(
            password(Secret::File(path.clone())).as_deref(),
            Ok("rotated")
        );
        fs::write(&path, "\nsecond").expect("writable");
        let error = password(Secret::File(path)).expect_err("an empty first line is no password");
        assert!(
            error.contains("first line is empty") && error.contains("'cam'"),
            "{error}"
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(password(Secret::Inline("x".to_owned())).as_deref(), Ok("x"));
        let error =
            password(Secret::File(PathBuf::from("/nonexistent/secret"))).expect_err("no such file");
        assert!(
            error.contains("/nonexistent/secret") && error.contains("password_file"),
            "{error}"
        );
        let error = password(Secret::Env("JETWATCH_TEST_UNSET".to_owned())).expect_err("not set");
        assert!(
            error.contains("JETWATCH_TEST_UNSET") && error.contains("not set"),
            "{error}"
        );
    }
}
