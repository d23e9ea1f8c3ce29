//! User names and passwords, which a source and the MQTT client have in the same keys.

use super::Secret;
use super::yaml::map::Map;

/// Accepted form of a user name.
pub(super) const USER: &str = "a user name";

/// Accepted form of `password_env`.
pub(super) const VARIABLE: &str = "the name of an environment variable";

/// Keys of which one gives the password.
const PASSWORD_KEYS: [&str; 3] = ["password", "password_file", "password_env"];

/// User and password; the latter from the one of `password`, `password_file` and `password_env` that is given. Two of them
/// are a problem, and so is one without `user` or `user` without one.
pub(super) fn credentials(map: &Map<'_>) -> (Option<String>, Option<Secret>) {
    let given: Vec<_> = PASSWORD_KEYS
        .into_iter()
        .filter(|name| map.has(name))
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
    let secrets = [
        map.secret("password").map(Secret::Inline),
        map.path("password_file").map(Secret::File),
        map.get("password_env").and_then(|node| {
            let name = map.checked("password_env", is_variable_name)?;
            Some(Secret::env(&name, node.label()))
        }),
    ];
    (map.text("user"), secrets.into_iter().flatten().next())
}

/// Whether a shell accepts `name` as a variable.
pub(super) fn is_variable_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
