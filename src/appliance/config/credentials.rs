// SPDX-License-Identifier: Apache-2.0
//! User names and passwords, which a source and the MQTT client have in the same keys.

use std::path::PathBuf;

use super::yaml::map::Map;
use super::{Secret, Section};

/// Keys with the user name and the password of a camera or an MQTT broker.
#[derive(Section)]
pub(super) struct LoginKeys {
    /// User name; needs one of the password keys. For RTSP and HTTP cameras and brokers. The embedded broker accepts this user only.
    #[key(text = "a user name")]
    user: Option<String>,
    /// The password itself. Better: password_file or password_env.
    #[key(secret)]
    password: Option<String>,
    /// File whose first line is the password; read at every connect.
    password_file: Option<PathBuf>,
    /// Environment variable with the password; if unset, a line of secrets.env next to this file.
    #[key(text = "the name of an environment variable", check = is_variable_name)]
    password_env: Option<String>,
}

/// User and password; the latter from the one of `password`, `password_file` and `password_env` that is given. Two of them
/// are a problem, and so is one without `user` or `user` without one. Both are `None` after a problem with one of the keys.
pub(super) fn credentials(map: &Map<'_>) -> (Option<String>, Option<Secret>) {
    let given: Vec<_> = LoginKeys::KEYS
        .iter()
        .map(|key| key.name)
        .filter(|name| *name != "user" && map.has(name))
        .collect();
    if let [first, others @ ..] = given.as_slice() {
        for other in others {
            map.invalid(
                other,
                &format!("given beside {first}"),
                Some("keep one of them"),
            );
        }
        if !map.has("user") {
            map.invalid(first, "given without user", None);
        }
    } else if map.has("user") {
        let hint = "add password_file, password_env or password (\"\" for an empty one)";
        map.invalid("user", "given without a password", Some(hint));
    }
    let Some(keys) = LoginKeys::from_map(map) else {
        return (None, None);
    };
    let file = map.node().label();
    let secrets = [
        keys.password.map(Secret::Inline),
        keys.password_file.map(Secret::File),
        keys.password_env.map(|name| Secret::env(&name, file)),
    ];
    (keys.user, secrets.into_iter().flatten().next())
}

/// Whether a shell accepts `name` as a variable.
fn is_variable_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
