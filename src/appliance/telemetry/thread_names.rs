// SPDX-License-Identifier: Apache-2.0
//! Names of threads, as shown by profilers, `top -H` and `jetwatch report`.
//!
//! Linux keeps 15 bytes of a name; the timeline of Nsight Systems shows all of it.

/// The tracking stage.
pub const TRACK: &str = "track";
/// Reports readiness, the status line and the watchdog to systemd.
pub const SD_NOTIFY: &str = "sd-notify";
/// Writes the health of the daemon to a file.
pub const HEALTH: &str = "health";
/// Publishes the state of updates.
pub const UPDATES: &str = "updates";
/// Samples loads, clocks, temperatures and power.
pub const SYSMON: &str = "sysmon";
/// Publishes over MQTT.
pub const MQTT: &str = "mqtt";
/// Publishes states over MQTT, where they have a broker of their own.
pub const MQTT_STATES: &str = "mqtt-states";
/// Publishes in Frigate's shape over MQTT.
pub const MQTT_FRIGATE: &str = "mqtt-frigate";
/// Publishes in DeepStream's shape over MQTT.
pub const MQTT_DEEPSTREAM: &str = "mqtt-deepstream";
/// Posts events to a webhook.
pub const WEBHOOK: &str = "webhook";
/// Keeps messages on the disk until the broker has them.
pub const SPOOL: &str = "spool";
/// Writes messages as JSON lines.
pub const JSON_LINES: &str = "json-lines";
/// The embedded MQTT broker.
pub const BROKER: &str = "broker";
/// Draws and encodes the recording.
pub const RECORD: &str = "record";
/// Writes clips and continuous recording.
pub const MEDIA: &str = "media";
/// Encodes snapshots and files them.
pub const SNAPSHOT: &str = "snapshot";
/// Deletes files by the rules of `record.retention`.
pub const RETENTION: &str = "retention";
/// Answers requests for metrics.
pub const METRICS: &str = "metrics";
/// Writes metrics to a file.
pub const METRICS_FILE: &str = "metrics-file";
/// Answers requests for the page.
pub const WEB: &str = "web";
/// Reads files for the page, and compares passwords.
pub const WEB_FILES: &str = "web-files";
/// Draws and encodes the pictures of the page.
pub const WEB_PICTURES: &str = "web-pictures";
/// Cuts pictures of objects out of images, for the page.
pub const WEB_OBJECTS: &str = "web-objects";
/// Reads what checks of the installation find, for the page.
pub const WEB_CHECKS: &str = "web-checks";
/// Looks for cameras and at their streams, for the page.
pub const WEB_CAMERAS: &str = "web-cameras";

/// Prefix of secondary inference workers, after DeepStream's term (secondary GIE).
const SECONDARY: &str = "sgie-";

/// Prefix of the threads that bring images of a camera.
const CAMERA: &str = "camera-";
/// Prefix of the threads that bring images of a file.
const FILE: &str = "file-";

/// The thread that brings the images of `source`, a camera or another live source.
pub fn camera(source: &str) -> String {
    format!("{CAMERA}{source}")
}

/// The thread that brings the images of `source`, a file.
pub fn file(source: &str) -> String {
    format!("{FILE}{source}")
}

/// Whether the thread `name` brings images of a camera or another live source.
pub fn is_camera(name: &str) -> bool {
    name.starts_with(CAMERA)
}

/// Whether the thread `name` brings images of a file.
pub fn is_file(name: &str) -> bool {
    name.starts_with(FILE)
}

/// Worker `index` of the secondary network `network`.
pub fn secondary(network: &str, index: usize) -> String {
    format!("{SECONDARY}{network}-{index}")
}

/// The secondary network that the thread `name` is a worker of; another name without its number.
pub fn secondary_network(name: &str) -> &str {
    let name = name.strip_prefix(SECONDARY).unwrap_or(name);
    name.rsplit_once('-').map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_named_after_their_networks() {
        assert_eq!(secondary("a-b", 0), "sgie-a-b-0");
        assert_eq!(secondary_network(&secondary("a-b", 12)), "a-b");
        assert_eq!(secondary_network("thread 7"), "thread 7");
    }

    #[test]
    fn threads_of_sources_name_their_kind() {
        assert!(is_camera(&camera("door")) && !is_file(&camera("door")));
        assert!(is_file(&file("door")) && !is_camera(&file("door")));
        assert!(!is_camera("source-door") && !is_file("source-door"));
    }

    #[test]
    fn fixed_names_fit_into_what_linux_keeps() {
        for name in [
            TRACK,
            SD_NOTIFY,
            HEALTH,
            UPDATES,
            SYSMON,
            MQTT,
            MQTT_STATES,
            MQTT_FRIGATE,
            MQTT_DEEPSTREAM,
            WEBHOOK,
            SPOOL,
            JSON_LINES,
            BROKER,
            RECORD,
            METRICS,
            METRICS_FILE,
            WEB,
            WEB_FILES,
            WEB_PICTURES,
            WEB_OBJECTS,
            WEB_CHECKS,
            WEB_CAMERAS,
        ] {
            assert!(name.len() <= 15, "{name}");
        }
    }
}
