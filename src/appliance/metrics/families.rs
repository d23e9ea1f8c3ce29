// SPDX-License-Identifier: Apache-2.0
//! The families of metrics, each declared once: name, type, labels and help. The text and the reference page are made from them.
//!
//! Names follow the conventions of Prometheus: base units, `_total` for counters, `_info` for labels without a figure. The values
//! of labels are names of the configuration, labels of the network, sensors of the machine, or the words in the help: their number
//! does not grow while the daemon runs with the same sources.

jetwatch_types::named_enum! {
    /// The type of a family.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Kind {
        /// A number that only grows, until the daemon or the source starts again.
        Counter = "counter",
        /// A number that goes up and down.
        Gauge = "gauge",
        /// Counts in buckets, with their sum.
        Histogram = "histogram",
    }

    /// The word in the text.
    pub fn name;
}

/// A family: all samples of one name.
#[derive(Debug)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// What it is, in one or two sentences.
    pub help: &'static str,
}

macro_rules! families {
    ($($constant:ident: $name:literal, $kind:ident, [$($label:literal),*], $help:literal;)*) => {
        $(pub(super) static $constant: Family = Family {
            name: $name,
            kind: Kind::$kind,
            labels: &[$($label),*],
            help: $help,
        };)*

        /// All families, in the order in which they are written.
        pub static ALL: &[&Family] = &[$(&$constant),*];
    };
}

families! {
    BUILD_INFO: "jetwatch_build_info", Gauge, ["version"],
        "1, with the version of the daemon.";
    UPTIME: "jetwatch_uptime_seconds", Gauge, [],
        "Time since the start of the daemon.";
    DETECTOR_STATE: "jetwatch_detector_state", Gauge, ["state"],
        "1 for the state of the detector, 0 for the others: loading, engine_missing, building, ready, failed.";
    DETECTOR_INFO: "jetwatch_detector_info", Gauge, ["backend", "model", "precision"],
        "1, once the detector is loaded.";
    SOURCE_UP: "jetwatch_source_up", Gauge, ["source"],
        "Whether the source is online. A file that has ended is not.";
    SOURCE_FRAMES: "jetwatch_source_frames_total", Counter, ["source", "outcome"],
        "Frames: detected went through the network, carried skipped it (interval; skipped_frames of messages), dropped were replaced by newer ones, skipped came faster than max_fps.";
    SOURCE_LAST_FRAME: "jetwatch_source_last_frame_timestamp_seconds", Gauge, ["source"],
        "Arrival of the newest processed frame.";
    SOURCE_RECONNECTS: "jetwatch_source_reconnects_total", Counter, ["source"],
        "Reopenings after a failure.";
    STAGE_SECONDS: "jetwatch_stage_seconds", Histogram, ["stage"],
        "Time of one run of a stage; of a batch in the stages of the network.";
    TRACKS_ACTIVE: "jetwatch_tracks_active", Gauge, ["source", "label"],
        "Active tracks, as in published counts.";
    EVENTS: "jetwatch_events_total", Counter, ["source", "type"],
        "Track events: new, update, end.";
    ANALYTICS_EVENTS: "jetwatch_analytics_events_total", Counter, ["source", "type"],
        "Analytics events: zone_entered, zone_left, loitering, overcrowding, overcrowding_over, line_crossed, direction, stationary, moving.";
    LINE_CROSSINGS: "jetwatch_line_crossings_total", Counter, ["source", "line", "to", "label"],
        "Objects that crossed a line to the left or right, seen along it.";
    ZONE_OBJECTS: "jetwatch_zone_objects", Gauge, ["source", "zone", "label"],
        "Objects in a zone.";
    MQTT_CONNECTED: "jetwatch_mqtt_connected", Gauge, [],
        "Whether the broker is connected.";
    MQTT_MESSAGES: "jetwatch_mqtt_messages_total", Counter, ["outcome"],
        "Messages: delivered were acknowledged, replaced by a newer value, dropped are lost, unsent had QoS 0 and no connection.";
    MQTT_QUEUED: "jetwatch_mqtt_queued_messages", Gauge, [],
        "Messages that wait for the broker.";
    SPOOL_BYTES: "jetwatch_spool_bytes", Gauge, ["tier"],
        "Size of the spool: runtime on tmpfs, state on a device.";
    SPOOL_OLDEST: "jetwatch_spool_oldest_timestamp_seconds", Gauge, [],
        "When the oldest waiting message was made.";
    SPOOL_DROPPED: "jetwatch_spool_dropped_total", Counter, ["class"],
        "Messages that the spool dropped: update, new, end, analytics, other.";
    MEDIA_BYTES: "jetwatch_media_bytes", Gauge, ["kind"],
        "Size of kept files: snapshot, clip, continuous.";
    MEDIA_FULL: "jetwatch_media_full", Gauge, [],
        "Whether recording has stopped for want of space.";
    DISK_FREE: "jetwatch_disk_free_bytes", Gauge, [],
        "Free space on the device of record.folder.";
    TEMPERATURE: "jetwatch_temperature_celsius", Gauge, ["zone"],
        "Temperature of a thermal zone.";
    POWER: "jetwatch_power_watts", Gauge, ["rail"],
        "Power of a rail.";
    CLOCK: "jetwatch_clock_hertz", Gauge, ["unit"],
        "Clock of a CPU (cpu0, cpu1 and so on) or an engine: gpu, emc, vic, nvdec, nvenc, nvjpg, dla.";
    LOAD: "jetwatch_load_ratio", Gauge, ["unit"],
        "Load of a CPU or an engine, 0 to 1.";
    THROTTLED: "jetwatch_throttled", Gauge, ["cause"],
        "Whether the machine is throttled by heat, a rail above its limit, or over_current.";
    THROTTLINGS: "jetwatch_throttlings_total", Counter, [],
        "How often throttling began.";
    PROCESS_CPU: "process_cpu_seconds_total", Counter, [],
        "CPU time of all threads of the daemon.";
    PROCESS_MEMORY: "process_resident_memory_bytes", Gauge, [],
        "Resident memory of the daemon.";
    PROCESS_START: "process_start_time_seconds", Gauge, [],
        "When the daemon started.";
    PROCESS_FDS: "process_open_fds", Gauge, [],
        "Open file descriptors of the daemon.";
    PROCESS_THREADS: "process_threads", Gauge, [],
        "Threads of the daemon.";
}

/// The reference page: all families as a list.
#[must_use]
pub fn families_page() -> String {
    let mut page = String::from(
        "# Metrics\n\n\
         All families, with type and labels; [the guide](../guide/metrics.md) says how to read them. What a machine or a configuration \
         does not have is left out.\n\n\
         <!-- Generated from src/appliance/metrics/families.rs. -->\n\n",
    );
    for family in ALL {
        let labels: String = family
            .labels
            .iter()
            .map(|label| format!(", `{label}`"))
            .collect();
        page += &format!(
            "- `{}` ({}{labels}): {}\n",
            family.name,
            family.kind.name(),
            family.help
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_follow_the_conventions() {
        let names: HashSet<&str> = ALL.iter().map(|family| family.name).collect();
        assert_eq!(names.len(), ALL.len(), "a name is used twice");
        for family in ALL {
            let name = family.name;
            assert!(
                name.starts_with("jetwatch_") || name.starts_with("process_"),
                "{name}"
            );
            assert_eq!(
                family.kind == Kind::Counter,
                name.ends_with("_total"),
                "{name}"
            );
            let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(name.chars().all(is_name), "{name}");
            assert!(
                family.help.ends_with('.') && !family.help.contains('|'),
                "{name}"
            );
            for label in family.labels {
                assert!(label.chars().all(is_name), "{name}: {label}");
                assert!(
                    !["le", "device"].contains(label),
                    "{name}: {label} is reserved"
                );
            }
        }
    }
}
