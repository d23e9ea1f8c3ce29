// SPDX-License-Identifier: Apache-2.0
//! `time_zone`, `schedules`, and every `schedule`: a window, a list of windows, or the name of one of `schedules`.
//!
//! Names are resolved and time zones are looked up when the file is read, so that a source holds all of its schedules.

use jetwatch_schedule::{Day, Days, Schedule, TimeOfDay, Window, Zone, ZoneError};

use super::names::{NAME, is_name};
use super::redact::quoted;
use super::schema::{DefaultValue, ValueType, nearest};
use super::section::{KeyValue, ListItem, Section};
use super::yaml::map::Map;
use super::yaml::node::{Node, Value};
use super::yaml::tree::{MapEntry, Spanned, YamlValue};

/// Most windows of one schedule.
const MAX_WINDOWS: usize = 64;

const DAYS: &str = "mon, tue, wed, thu, fri, sat or sun";
const TIME: &str = "a time from 00:00 to 24:00 in quotes, HH:MM or HH:MM:SS";
const ZONE: &str = "an IANA name such as Europe/Berlin";
const WINDOWS: &str =
    r#"a window such as {days: [mon, tue], from: "22:00", to: "06:00"}, or a list of windows"#;
const SCHEDULES: &str = r#"a map such as `night: {from: "22:00", to: "06:00"}`"#;

/// One window as it is written.
#[derive(Section)]
struct WindowKeys {
    /// Days of the week on which it begins. Default: all.
    #[key(value = ValueType::Texts(DAYS), read = days)]
    days: Option<Days>,
    /// When it begins, by the clock of its time zone.
    #[key(text = TIME, parse = time, default = "00:00")]
    from: TimeOfDay,
    /// When it ends. One that does not end after its beginning goes over midnight, and belongs to the day on which it begins.
    #[key(text = TIME, parse = time, default = "24:00")]
    to: TimeOfDay,
    /// Its time zone. Default: the time_zone of the file.
    #[key(name = "time_zone", value = ValueType::Text(ZONE), read = time_zone)]
    zone: Option<Zone>,
}

fn time(text: &str) -> Option<TimeOfDay> {
    text.parse().ok()
}

/// A schedule that others refer to by its name.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedSchedule {
    /// Its name.
    pub name: String,
    /// When it is active.
    pub schedule: Schedule,
}

impl KeyValue for Schedule {
    const TYPE: ValueType = ValueType::Other {
        form: r#"the name of one of schedules, a window such as {days: [mon, tue], from: "22:00", to: "06:00"}, or a list of windows"#,
        schema: r#"{"anyOf": [{"type": "string", "minLength": 1}, {"type": "object"}, {"type": "array", "items": {"type": "object"}, "minItems": 1}]}"#,
    };
    const WHEN_ABSENT: DefaultValue = DefaultValue::Absent;

    fn read(map: &Map<'_>, name: &str) -> Option<Self> {
        let node = map.get(name)?;
        match node.value() {
            Value::Text(known) => referred(&node, known),
            _ => windows(&node),
        }
    }
}

impl ListItem for NamedSchedule {
    const LIST: ValueType = ValueType::Other {
        form: SCHEDULES,
        schema: r#"{"type": "object", "propertyNames": {"pattern": "^[A-Za-z0-9_-]{1,64}$"}, "additionalProperties": {"anyOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}, "minItems": 1}]}}"#,
    };

    fn read_list(map: &Map<'_>, name: &str) -> Option<Vec<Self>> {
        let Some(node) = map.get(name).filter(|node| !node.is_null()) else {
            return Some(Vec::new());
        };
        let mut schedules = Vec::new();
        let mut is_complete = true;
        for (name, windows_of) in node.entries(SCHEDULES)? {
            if name.is_empty() || !is_name(name) {
                let what = format!("the name \"{}\"", quoted(name));
                windows_of.report(&what, Some(NAME.to_owned()), None);
            }
            match windows(&windows_of) {
                Some(schedule) => schedules.push(Self {
                    name: name.to_owned(),
                    schedule,
                }),
                None => is_complete = false,
            }
        }
        is_complete.then_some(schedules)
    }
}

/// The schedule of the file that has this name. `node` refers to it.
fn referred(node: &Node<'_>, name: &str) -> Option<Schedule> {
    let known = top_level(node, "schedules");
    let known = known.and_then(|known| match known.value() {
        Value::Map(entries) => Some(entries),
        _ => None,
    });
    let known = known.unwrap_or_default();
    if let Some((_, found)) = known.iter().find(|(known, _)| *known == name) {
        return windows(found);
    }
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let hint = match (nearest(name, names.iter().copied()), names.is_empty()) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, true) => format!("there is none at the key schedules; or write {WINDOWS}"),
        (None, false) => format!("schedules has: {}", names.join(", ")),
    };
    node.report(
        &format!("there is no schedule \"{}\"", quoted(name)),
        None,
        Some(hint),
    );
    None
}

/// The value of a key of the whole file.
fn top_level<'d>(node: &Node<'d>, key: &str) -> Option<Node<'d>> {
    match node.document().root().value() {
        Value::Map(entries) => entries
            .into_iter()
            .find(|(known, _)| *known == key)
            .map(|(_, node)| node),
        _ => None,
    }
}

fn windows(node: &Node<'_>) -> Option<Schedule> {
    let found = match node.value() {
        Value::Map(_) => vec![window(node)],
        Value::List(items) if (1..=MAX_WINDOWS).contains(&items.len()) => {
            items.iter().map(window).collect()
        }
        Value::List(items) if !items.is_empty() => {
            let what = format!("found {} windows", items.len());
            node.report(&what, Some(format!("{MAX_WINDOWS} at most")), None);
            return None;
        }
        _ => return node.type_error(WINDOWS),
    };
    let found: Option<Vec<Window>> = found.into_iter().collect();
    found.map(Schedule::new)
}

fn window(node: &Node<'_>) -> Option<Window> {
    let map = node.map(WindowKeys::KEYS)?;
    let keys = WindowKeys::from_map(&map)?;
    if keys.from == TimeOfDay::END {
        let hint = "write 00:00, and the day after it";
        map.invalid("from", "a window does not begin at 24:00", Some(hint));
        return None;
    }
    if keys.from == keys.to {
        let hint = "leave both out for the whole day, or write 24:00 for the end of the day";
        map.invalid("to", "it ends when it begins", Some(hint));
        return None;
    }
    Some(Window {
        days: keys.days.unwrap_or(Days::ALL),
        from: keys.from,
        to: keys.to,
        zone: match keys.zone {
            Some(zone) => zone,
            None => file_zone(node)?,
        },
    })
}

fn days(map: &Map<'_>) -> Option<Option<Days>> {
    if !map.has("days") {
        return Some(None);
    }
    // Reports what is no list of different texts.
    map.texts("days")?;
    let node = map.get("days")?;
    let items = node.items(DAYS)?;
    if items.is_empty() {
        return node.type_error(&map.expected("days"));
    }
    let day = |item: &Node<'_>| match item.text(DAYS).map(Day::from_key) {
        Some(Some(day)) => Some(day),
        _ => item.type_error(DAYS),
    };
    let days: Vec<Option<Day>> = items.iter().map(day).collect();
    days.into_iter().collect::<Option<Days>>().map(Some)
}

/// The zone of the file: its key `time_zone`, or that of the system.
fn file_zone(node: &Node<'_>) -> Option<Zone> {
    if let Some(key) = top_level(node, "time_zone") {
        return key.text(ZONE).and_then(|name| zone_named(&key, name));
    }
    match Zone::system() {
        Ok(zone) => Some(zone),
        Err(error) => {
            let hint = "name one at the key time_zone".to_owned();
            node.report(&error.to_string(), None, Some(hint));
            None
        }
    }
}

fn zone_named(node: &Node<'_>, name: &str) -> Option<Zone> {
    let error = match Zone::named(name) {
        Ok(zone) => return Some(zone),
        Err(error) => error,
    };
    let hint = match error {
        ZoneError::NoData => "install the package tzdata".to_owned(),
        _ => {
            let known = Zone::names();
            let lower: Vec<String> = known.iter().map(|name| name.to_ascii_lowercase()).collect();
            let near = nearest(name, lower.iter().map(String::as_str));
            let near = near.and_then(|near| lower.iter().position(|name| name == near));
            match near {
                Some(index) => format!("did you mean `{}`?", known[index]),
                None => "`timedatectl list-timezones` prints them".to_owned(),
            }
        }
    };
    let what = format!("found \"{}\": {error}", quoted(name));
    node.report(&what, Some(ZONE.to_owned()), Some(hint));
    None
}

/// Reads the key `time_zone` of the file or of a window.
pub(super) fn time_zone(map: &Map<'_>) -> Option<Option<Zone>> {
    match map.get("time_zone") {
        Some(node) => {
            let name = node.text(ZONE)?;
            zone_named(&node, name).map(Some)
        }
        None => Some(None),
    }
}

/// Writes out the schedules of `source`, the keys of one source, that are names of `root`, and their time zones: what is read
/// later, without the rest of the file, means the same.
pub(super) fn write_out(source: &mut YamlValue, root: &Node<'_>) {
    let YamlValue::Map(entries) = source else {
        return;
    };
    for entry in entries {
        match (entry.key.as_str(), &mut entry.value.value) {
            ("schedule", value) => write_out_one(value, root),
            ("zones" | "lines" | "directions", YamlValue::List(rules)) => rules
                .iter_mut()
                .for_each(|rule| write_out(&mut rule.value, root)),
            ("stationary", rule) => write_out(rule, root),
            _ => {}
        }
    }
}

fn write_out_one(schedule: &mut YamlValue, root: &Node<'_>) {
    if let YamlValue::Text(name) = schedule
        && let Some(Value::Map(known)) = top_level(root, "schedules").map(|known| known.value())
        && let Some((_, found)) = known.iter().find(|(known, _)| known == name)
    {
        *schedule = found.tree().without_spans();
    }
    let zone = top_level(root, "time_zone").map(|zone| zone.tree().without_spans());
    let Some(zone) = zone else {
        return;
    };
    let add = |window: &mut YamlValue| {
        if let YamlValue::Map(entries) = window
            && !entries.iter().any(|entry| entry.key == "time_zone")
        {
            entries.push(MapEntry {
                key: "time_zone".to_owned(),
                span: None,
                value: Spanned::without_span(zone.clone()),
            });
        }
    };
    match schedule {
        YamlValue::List(windows) => windows.iter_mut().for_each(|window| add(&mut window.value)),
        one => add(one),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use crate::mistakes::loaded;

    /// 2026-11-25, a Wednesday, at this hour of UTC.
    fn hour(hour: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_564_800 + hour * 3600)
    }

    #[test]
    fn names_windows_and_lists_are_schedules_of_sources_rules_and_templates() {
        let config = loaded(
            "sources:
  - name: a
    uri: /v.mp4
    schedule: night
    zones: [{name: z, coordinates: '0,0,1,0,1,1', schedule: {days: [wed], time_zone: UTC}}]
    stationary: {schedule: [{from: '01:00', to: '02:00'}, {from: '03:00', to: '24:00'}]}
source_templates:
  - name: t
    source: {uri: /v.mp4, schedule: night, lines: [{name: l, coordinates: '0,0,1,1', schedule: night}]}
schedules: {night: {from: '22:00', to: '06:00'}}
time_zone: Europe/Berlin",
        );
        let source = &config.sources[0];
        let active = |hours: [u64; 4], schedule: &Option<_>| {
            let schedule: &jetwatch_schedule::Schedule = schedule.as_ref().expect("a schedule");
            hours.map(|at| schedule.status(hour(at)).active)
        };
        let found = active([4, 5, 20, 21], &source.schedule);
        assert_eq!(found, [true, false, false, true]);
        let zone = &source.rules.zones[0].schedule;
        assert_eq!(active([0, 23, 24, 25], zone), [true, true, false, false]);
        let rule = source.rules.stationary.as_ref().expect("a rule");
        let found = active([0, 1, 2, 22], &rule.schedule);
        assert_eq!(found, [true, false, true, true]);
        assert_eq!(config.schedules[0].name, "night");
        let night = Some(config.schedules[0].schedule.clone());
        let template = config.source_templates[0].example_source();
        let template = template.expect("a source");
        let found = [
            &source.schedule,
            &template.schedule,
            &template.rules.lines[0].schedule,
        ];
        assert_eq!(found, [&night; 3]);
    }
}
