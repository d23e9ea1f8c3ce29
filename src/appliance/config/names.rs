// SPDX-License-Identifier: Apache-2.0
//! Names of devices, sources, networks and rules: levels of a topic.

use super::yaml::map::Map;

/// Longest name, so that topics stay far below MQTT's limit.
const MAX_NAME_CHARS: usize = 64;

/// Accepted form of a name.
pub(super) const NAME: &str = "letters, digits, `-` and `_`, at most 64";

/// Accepted form of the name of the device.
pub(super) const DEVICE: &str = "letters, digits, `-`, `_` and `.`, at most 64";

/// Topics of the device, which are no names of sources: a subscription to `<source>/#` would include them.
pub(super) const RESERVED: [&str; 8] = [
    "status",
    "stats",
    "command",
    "detector",
    "throttling",
    "reload",
    "update",
    "gap",
];

pub(super) fn is_name(text: &str) -> bool {
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.len() <= MAX_NAME_CHARS && text.chars().all(is_name_char)
}

/// Whether `text` is the name of a device, which may have dots as host names do.
pub(super) fn is_device(text: &str) -> bool {
    text.len() <= MAX_NAME_CHARS && text.chars().all(is_device_char)
}

fn is_device_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// The key `name` of `map` in lower case, if it is a name. A missing or malformed one is reported where `map` is read.
pub(super) fn name_of(map: &Map<'_>) -> Option<String> {
    let name = map.has("name").then(|| map.text("name")).flatten()?;
    is_name(&name).then(|| name.to_ascii_lowercase())
}

/// The name of this device: the host name, in which `-` stands for what is no part of a topic level.
pub(super) fn device() -> String {
    device_from_host_name(&rustix::system::uname().nodename().to_string_lossy())
}

fn device_from_host_name(host: &str) -> String {
    let device: String = host
        .chars()
        .take(MAX_NAME_CHARS)
        .map(|c| if is_device_char(c) { c } else { '-' })
        .collect();
    if device.is_empty() {
        "jetwatch".to_owned()
    } else {
        device
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostname_becomes_one_topic_level() {
        for (host, wanted) in [
            ("xavier", "xavier"),
            ("gate north/1+#$", "gate-north-1---"),
            ("ümlaut.local", "-mlaut.local"),
            ("", "jetwatch"),
        ] {
            assert_eq!(device_from_host_name(host), wanted);
        }
        let found = device_from_host_name(&"x".repeat(100)).len();
        assert_eq!(found, MAX_NAME_CHARS);
    }
}
