// SPDX-License-Identifier: Apache-2.0
//! The message about the device itself: its health.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::component::{Component, Rank, literal};
use super::ids;
use super::site::{Draft, ORIGIN, Site};

/// The rail of a module that feeds all others, where it has one.
const WHOLE: &str = "VDD_IN";

/// Sum of all rails, in place of a rail's name.
const SUM: &str = "sum";

/// Id of the entity for updates of the package.
pub(super) const UPDATE: &str = "update";

/// States of the detector.
const DETECTOR_STATES: [&str; 4] = ["engine_missing", "building", "ready", "failed"];

/// What a machine measures. The names are those of the system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sensors {
    /// Thermal zones.
    pub temperatures: BTreeSet<String>,
    /// Power rails.
    pub rails: BTreeSet<String>,
}

impl Sensors {
    /// Those that a message with these components has.
    pub fn of_components<'i>(ids: impl Iterator<Item = &'i String>) -> Self {
        let mut sensors = Self::default();
        for parts in ids.filter_map(|id| ids::split(id)) {
            match parts.as_slice() {
                [kind, zone] if kind == "temperature" => {
                    sensors.temperatures.insert(zone.clone());
                }
                [kind, rail] if kind == "rail" || (kind == "power" && rail == WHOLE) => {
                    sensors.rails.insert(rail.clone());
                }
                _ => {}
            }
        }
        sensors
    }
}

/// The message about the device with these sensors. `has_updates`: `jetwatch update` was used on it.
pub(super) fn draft(site: &Site, sensors: &Sensors, has_updates: bool) -> Draft {
    let mut device = Map::new();
    let mut set = |key: &str, value: Value| device.insert(key.to_owned(), value);
    set("ids", json!([site.box_id()]));
    set("name", site.device.as_str().into());
    set("mf", ORIGIN.into());
    set("sw", env!("CARGO_PKG_VERSION").into());
    if let Some(model) = &site.options.model {
        set("mdl", model.as_str().into());
    }
    let mut components = vec![throttling(site), detector(site)];
    components.extend(numbers(site));
    components.extend(
        sensors
            .temperatures
            .iter()
            .map(|zone| temperature(site, zone)),
    );
    components.extend(power(site, &sensors.rails));
    components.extend(has_updates.then(|| update(site)));
    Draft {
        device_id: site.box_id(),
        root: site.root(Value::Object(device), vec![site.availability()]),
        components,
    }
}

/// A diagnostic entity whose state comes with the statistics, and is unknown without them.
fn of_stats(
    site: &Site,
    platform: &'static str,
    parts: &[&str],
    name: &str,
    template: &str,
) -> Component {
    let expires_after_s = site.options.stats_interval.as_secs().max(1) * 3;
    Component::entity(platform, Rank::Essential, parts, name)
        .diagnostic()
        .state(&site.topics.of_device("stats"), template)
        .set("exp_aft", expires_after_s)
}

fn throttling(site: &Site) -> Component {
    let template = "{{ ('ON' if value_json.machine.throttled_by else 'OFF') if value_json.machine else 'None' }}";
    let attributes = "{{ {'throttled_by': value_json.machine.throttled_by, 'throttled_times': value_json.machine.throttled_times} | tojson \
                      if value_json.machine else '{}' }}";
    of_stats(
        site,
        "binary_sensor",
        &["throttling"],
        "throttling",
        template,
    )
    .set("dev_cla", "problem")
    .attributes(&site.topics.of_device("stats"), attributes)
}

fn detector(site: &Site) -> Component {
    let topic = site.topics.of_device("detector");
    let attributes = "{{ {'runs': value_json.get('runs'), 'reason': value_json.get('reason'), 'progress': value_json.get('progress')} | tojson }}";
    Component::entity("sensor", Rank::Essential, &["detector"], "detector")
        .diagnostic()
        .set("dev_cla", "enum")
        .set("ops", DETECTOR_STATES.to_vec())
        .state(&topic, "{{ value_json.state }}")
        .attributes(&topic, attributes)
}

/// Updates of the package: shown, not installed from there.
fn update(site: &Site) -> Component {
    let topic = site.topics.of_device("update");
    let state = "{{ {'installed_version': value_json.installed, 'latest_version': value_json.latest, 'title': 'jetwatch', \
                 'in_progress': value_json.in_progress, 'release_summary': (value_json.reason or '')[:255]} | tojson }}";
    let attributes = "{{ {'update_state': value_json.state, 'held': value_json.held, 'previous': value_json.previous, \
                      'reason': value_json.reason} | tojson }}";
    Component::entity("update", Rank::Essential, &[UPDATE], "update")
        .diagnostic()
        .state(&topic, state)
        .attributes(&topic, attributes)
}

/// Figures that every machine has.
fn numbers(site: &Site) -> Vec<Component> {
    let sensor = |id, name, template| of_stats(site, "sensor", &[id], name, template);
    let mut figures = vec![
        sensor("fps", "frames per second", "{{ value_json.fps }}")
            .set("stat_cla", "measurement")
            .set("unit_of_meas", "fps")
            .set("sug_dsp_prc", 1)
            .set("ic", "mdi:speedometer"),
        sensor(
            "dropped_frames",
            "dropped frames",
            "{{ value_json.sources | sum(attribute='dropped_frames') }}",
        )
        .set("stat_cla", "total_increasing")
        .set("unit_of_meas", "frames")
        .set("ic", "mdi:filmstrip-off"),
        sensor(
            "dropped_messages",
            "dropped messages",
            "{{ value_json.messages.dropped }}",
        )
        .set("stat_cla", "total_increasing")
        .set("unit_of_meas", "messages")
        .set("ic", "mdi:email-alert-outline"),
    ];
    if site.has_spool {
        let bytes = "{{ value_json.spool.runtime_bytes + (value_json.spool.state_bytes or 0) if value_json.spool else 'None' }}";
        let oldest =
            "{{ (value_json.spool.oldest_age_ms or 0) / 1000 if value_json.spool else 'None' }}";
        figures.extend([
            sensor("spool_size", "spool size", bytes)
                .set("stat_cla", "measurement")
                .set("dev_cla", "data_size")
                .set("unit_of_meas", "B"),
            sensor("spool_age", "oldest message in the spool", oldest)
                .set("stat_cla", "measurement")
                .set("dev_cla", "duration")
                .set("unit_of_meas", "s"),
        ]);
    }
    figures
}

/// The values `of` from those entries of `list` below the machine's that have this name; null without one.
fn machine_value(list: &str, key: &str, name: &str, of: &str) -> String {
    let name = literal(name);
    format!(
        "((value_json.machine or {{}}).get('{list}', []) | selectattr('{key}', 'eq', {name}) | map(attribute='{of}') | list + [none]) | first"
    )
}

fn temperature(site: &Site, zone: &str) -> Component {
    let value = machine_value("temperatures", "zone", zone, "celsius");
    let name = zone.trim_end_matches("-thermal").trim_end_matches("-therm");
    let name = format!("temperature {}", name.replace(['-', '_'], " "));
    let template = format!("{{{{ {value} }}}}");
    of_stats(site, "sensor", &["temperature", zone], &name, &template)
        .set("dev_cla", "temperature")
        .set("stat_cla", "measurement")
        .set("unit_of_meas", "°C")
        .set("sug_dsp_prc", 1)
}

/// The power of the whole, and of each rail, which is off until it is wanted.
fn power(site: &Site, rails: &BTreeSet<String>) -> Vec<Component> {
    if rails.is_empty() {
        return Vec::new();
    }
    let of_rail = |rail: &str| {
        let value = machine_value("rails", "rail", rail, "mw");
        format!("{{% set mw = {value} %}}{{{{ mw / 1000 if mw is not none else 'None' }}}}")
    };
    let (whole, template) = match rails.contains(WHOLE) {
        true => (WHOLE, of_rail(WHOLE)),
        false => {
            let rails = "(value_json.machine or {}).get('rails', [])";
            let sum = format!("({rails} | map(attribute='mw') | select('number') | sum) / 1000");
            (
                SUM,
                format!("{{{{ {sum} if value_json.machine else 'None' }}}}"),
            )
        }
    };
    let sensor = |parts: &[&str], name: &str, template: &str| {
        of_stats(site, "sensor", parts, name, template)
            .set("dev_cla", "power")
            .set("stat_cla", "measurement")
            .set("unit_of_meas", "W")
            .set("sug_dsp_prc", 1)
    };
    let others = rails.iter().filter(|rail| *rail != WHOLE).map(|rail| {
        let name = format!("power {}", rail.replace(['-', '_'], " "));
        sensor(&["rail", rail], &name, &of_rail(rail)).set("en", false)
    });
    let whole = sensor(&["power", whole], "power", &template);
    std::iter::once(whole).chain(others).collect()
}
