// SPDX-License-Identifier: Apache-2.0
//! `spool` of `publish.mqtt`: where messages wait for the broker, and for how long.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use super::Words;
use super::folders::{from_variable, state_folder};
use super::section::Section;

/// Folder on tmpfs unless the configuration names another: `spool` in `$JETWATCH_RUNTIME_DIR`, or in `/run/jetwatch`.
pub static RUNTIME_FOLDER: LazyLock<PathBuf> =
    LazyLock::new(|| from_variable("JETWATCH_RUNTIME_DIR", "/run/jetwatch").join("spool"));

/// Folder on a device unless the configuration names another: `spool` in `$JETWATCH_STATE_DIR`, or in `/var/lib/jetwatch`.
pub static STATE_FOLDER: LazyLock<PathBuf> = LazyLock::new(|| state_folder("spool"));

/// Accepted form of a size.
pub(super) const SIZES: &str = "a size from 1MiB to 1TiB, such as 256MiB or 2GiB";

/// Accepted form of an age.
pub(super) const AGES: &str = "a time from 1s to 3650d, such as 90m, 12h or 7d";

/// Unacknowledged messages, kept outside of the process. Without the folders they are in memory only.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(default)]
pub struct SpoolConfig {
    /// What unacknowledged messages survive. process: a crash or kill of the daemon; outage: also a power cut, but for the first 2 s without acknowledgement; always: also that, but for sync_ms.
    #[key(default = "outage")]
    pub durability: Durability,
    /// Time between two writes to the disk; a longer time writes less.
    #[key(name = "sync_ms", range = 10..=60_000, default = 1000)]
    pub sync: Duration,
    /// Maximum size on the disk; then updates of tracks are dropped first, then the oldest messages.
    #[key(text = SIZES, parse = parse_size, default = "256MiB")]
    pub max_bytes: u64,
    /// Messages that wait longer are dropped.
    #[key(text = AGES, parse = parse_age, default = "7d")]
    pub max_age: Duration,
    /// What is sent first after an outage. ordered: the oldest message; newest_first: what happens now, except of tracks with messages that wait.
    #[key(
        words(ordered = Replay::Ordered, newest_first = Replay::NewestFirst),
        default = "ordered"
    )]
    pub replay: Replay,
    /// Late messages per second, beyond the rate of new ones.
    #[key(range = 1..=100_000, unit = "messages", default = 200)]
    pub max_per_s: u32,
    /// Folder on tmpfs; its parent must exist. Default: /run/jetwatch/spool.
    pub runtime_folder: Option<PathBuf>,
    /// Folder on a disk; its parent must exist. Default: /var/lib/jetwatch/spool.
    pub state_folder: Option<PathBuf>,
}

/// What messages survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum Durability {
    /// The end of the process.
    Process,
    /// Also a power cut during an outage of the broker.
    Outage,
    /// Also a power cut at any time.
    Always,
}

/// Order after an outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// As the messages were made.
    Ordered,
    /// New messages before those that wait.
    NewestFirst,
}

impl SpoolConfig {
    /// The folder of the client `client_id` on tmpfs.
    pub fn runtime_path(&self, client_id: &str) -> PathBuf {
        let folder = self.runtime_folder.as_deref();
        folder.unwrap_or(&RUNTIME_FOLDER).join(file_name(client_id))
    }

    /// The folder of the client `client_id` on a device.
    pub fn state_path(&self, client_id: &str) -> PathBuf {
        let folder = self.state_folder.as_deref();
        folder.unwrap_or(&STATE_FOLDER).join(file_name(client_id))
    }
}

/// A client id as the name of a folder or a file.
pub(super) fn file_name(client_id: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@:".contains(c);
    let name: String = client_id
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect();
    match name.trim_matches('.').is_empty() {
        true => "_".to_owned(),
        false => name,
    }
}

pub(super) fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim_start()))
}

pub(super) fn parse_size(text: &str) -> Option<u64> {
    parse_bytes(text, 1 << 20..=1 << 40)
}

/// A size within `range`.
pub(super) fn parse_bytes(text: &str, range: RangeInclusive<u64>) -> Option<u64> {
    let (number, unit) = split_number(text)?;
    let shift = match unit {
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return None,
    };
    let bytes = number.checked_mul(1 << shift)?;
    range.contains(&bytes).then_some(bytes)
}

pub(super) fn parse_age(text: &str) -> Option<Duration> {
    let (number, unit) = split_number(text)?;
    let seconds = match unit {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    let seconds = number.checked_mul(seconds)?;
    (1..=3650 * 86_400)
        .contains(&seconds)
        .then_some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn sizes_and_ages_have_units() {
        for (text, bytes) in [("1MiB", 1 << 20), ("2 GiB", 2 << 30), ("1TiB", 1 << 40)] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in [
            "",
            "0MiB",
            "2TiB",
            "5",
            "5MB",
            "MiB",
            "-1GiB",
            "99999999999999TiB",
        ] {
            assert_eq!(parse_size(text), None, "{text}");
        }
        for (text, seconds) in [("90m", 5400), ("12h", 43_200), ("7d", 604_800), ("1 s", 1)] {
            assert_eq!(parse_age(text), Some(Duration::from_secs(seconds)));
        }
        for text in ["", "0s", "4000d", "7", "1w", "d"] {
            assert_eq!(parse_age(text), None, "{text}");
        }
    }

    #[test]
    fn each_client_has_a_folder_of_its_own() {
        let spool = SpoolConfig::default();
        let path = spool.runtime_path("jetwatch-gate");
        assert_eq!(path, Path::new("/run/jetwatch/spool/jetwatch-gate"));
        let path = spool.state_path("../a b");
        assert_eq!(path, Path::new("/var/lib/jetwatch/spool/.._a_b"));
        assert_eq!(file_name(".."), "_");
    }
}
