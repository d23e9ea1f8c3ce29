// SPDX-License-Identifier: Apache-2.0
//! The message about one source: what is in its images, and what its rules report.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::component::{Component, Rank, literal};
use super::ids;
use super::site::{Draft, ORIGIN, Site};
use super::source_events;
use crate::SourceInfo;
use crate::topics::{COUNT, GROUP_COUNT, SNAPSHOT};
use jetwatch_config::ZoneRule;

/// A source, and the labels that were seen there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    pub info: SourceInfo,
    pub seen: Seen,
    /// What has a schedule: detection (`None`) and rules.
    pub scheduled: BTreeSet<Option<String>>,
}

impl Source {
    /// A source that was just added.
    pub fn new(info: &SourceInfo) -> Self {
        Self {
            info: info.clone(),
            seen: Seen::default(),
            scheduled: info.scheduled(),
        }
    }
}

/// Labels of objects that were seen, by this run or an earlier one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// In the whole image.
    pub labels: BTreeSet<String>,
    /// In each zone.
    pub zones: BTreeMap<String, BTreeSet<String>>,
}

impl Seen {
    /// Those that a message with these components has.
    pub fn of_components<'i>(ids: impl Iterator<Item = &'i String>) -> Self {
        let mut seen = Self::default();
        for parts in ids.filter_map(|id| ids::split(id)) {
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            match *parts.as_slice() {
                ["label", label, "count"] => {
                    seen.labels.insert(label.to_owned());
                }
                ["zone", zone, "label", label, "count"] => {
                    let labels = seen.zones.entry(zone.to_owned()).or_default();
                    labels.insert(label.to_owned());
                }
                _ => {}
            }
        }
        seen
    }

    /// Adds those of `other`.
    pub fn extend(&mut self, other: Self) {
        self.labels.extend(other.labels);
        for (zone, labels) in other.zones {
            self.zones.entry(zone).or_default().extend(labels);
        }
    }
}

/// Labels and groups that have entities.
#[derive(Debug, PartialEq)]
struct Announced<'s> {
    labels: Vec<&'s str>,
    groups: Vec<&'s str>,
}

/// The message about a source.
pub(super) fn draft(site: &Site, source: &Source) -> Draft {
    let name = &source.info.name;
    let device = json!({
        "ids": [site.source_id(name)],
        "name": format!("{} {name}", site.device),
        "mf": ORIGIN,
        "mdl": "Source",
        "via_device": site.box_id(),
    });
    let of_source = json!({
        "t": site.topics.of_source(name, "status"),
        "val_tpl": "{{ 'online' if value_json.state in ('online', 'ended') else 'offline' }}",
    });
    let mut components = vec![connection(site, name)];
    if source.info.has_motion {
        let topic = site.topics.of_source(name, "motion");
        let entity = Component::entity("binary_sensor", Rank::Essential, &["motion"], "motion");
        components.push(
            entity
                .set("dev_cla", "motion")
                .state(&topic, &where_given("value")),
        );
    }
    let announced = announced(site, source);
    components.extend(label_entities(site, name, &announced));
    if source.info.has_pictures {
        components.extend(picture_entities(site, name, &announced));
    }
    for zone in &source.info.rules.zones {
        components.extend(zone_entities(site, source, zone));
    }
    components.extend(line_entities(site, source));
    components.extend(source_events::components(site, source));
    components.extend(source.scheduled.iter().map(|rule| active(site, name, rule)));
    if site.options.has_commands {
        components.extend(switches(site, source));
    }
    Draft {
        device_id: site.source_id(name),
        root: site.root(device, vec![site.availability(), of_source]),
        components,
    }
}

/// Topics of counts that have entities. They have a value from the start on, which the pipeline publishes with the first object only.
pub(super) fn count_topics(site: &Site, source: &Source) -> Vec<String> {
    let name = &source.info.name;
    let Announced { labels, groups } = announced(site, source);
    let path = |spec, entry| site.topics.path(spec, name, entry);
    let labels = labels.into_iter().map(|label| path(COUNT, label));
    let groups = groups.into_iter().map(|group| path(GROUP_COUNT, group));
    labels.chain(groups).collect()
}

/// Of labels that were chosen all, else those that were seen.
fn announced<'s>(site: &'s Site, source: &'s Source) -> Announced<'s> {
    let info = &source.info;
    let is_announced =
        |label: &&String| info.has_chosen_labels || source.seen.labels.contains(*label);
    let labels: Vec<&str> = info
        .labels
        .iter()
        .filter(is_announced)
        .map(String::as_str)
        .collect();
    Announced {
        groups: groups_of(site, &labels),
        labels,
    }
}

/// Groups with at least one of these labels.
fn groups_of<'s>(site: &'s Site, labels: &[&str]) -> Vec<&'s str> {
    let has_label = |group: &&String| {
        let is_member = |label: &&str| group_of(site, label) == Some(group.as_str());
        labels.iter().any(is_member)
    };
    let groups = site.classes.groups().iter().filter(has_label);
    groups.map(String::as_str).collect()
}

fn class_of(site: &Site, label: &str) -> Option<u16> {
    let index = site
        .classes
        .labels()
        .iter()
        .position(|known| known == label)?;
    u16::try_from(index).ok()
}

fn group_of<'s>(site: &'s Site, label: &str) -> Option<&'s str> {
    site.classes.group(class_of(site, label)?)
}

/// As `announced`, for a zone. Nothing where the zone is about one label alone: that is the zone's own count.
fn announced_in_zone<'s>(site: &'s Site, source: &'s Source, zone: &ZoneRule) -> Announced<'s> {
    let info = &source.info;
    let is_possible = |label: &&String| {
        let class = class_of(site, label);
        let is_meant =
            |object: &String| class.is_some_and(|class| site.classes.includes(object, class));
        zone.objects.is_empty() || zone.objects.iter().any(is_meant)
    };
    let possible: Vec<&str> = info
        .labels
        .iter()
        .filter(is_possible)
        .map(String::as_str)
        .collect();
    let is_chosen = info.has_chosen_labels || !zone.objects.is_empty();
    let seen = source.seen.zones.get(&zone.name);
    let is_announced = |label: &&str| is_chosen || seen.is_some_and(|seen| seen.contains(*label));
    let labels: Vec<&str> = match possible.len() {
        1 => Vec::new(),
        _ => possible.iter().copied().filter(is_announced).collect(),
    };
    // A group that all labels are in is the zone's own count, too.
    let is_all = |group: &str| {
        possible
            .iter()
            .all(|label| group_of(site, label) == Some(group))
    };
    let groups = groups_of(site, &labels).into_iter();
    Announced {
        groups: groups.filter(|group| !is_all(group)).collect(),
        labels,
    }
}

/// The template that gives `expression`, and nothing where the value was withdrawn, as while its source starts again: the state stays.
fn where_given(expression: &str) -> String {
    format!("{{% if value %}}{{{{ {expression} }}}}{{% endif %}}")
}

fn connection(site: &Site, source: &str) -> Component {
    let topic = site.topics.of_source(source, "status");
    let attributes = "{{ {'state': value_json.state, 'reason': value_json.reason, 'since': value_json.since} | tojson }}";
    Component::entity(
        "binary_sensor",
        Rank::Essential,
        &["connection"],
        "connection",
    )
    .diagnostic()
    .set("dev_cla", "connectivity")
    // With that of the source it could never be off.
    .set("avty", vec![site.availability()])
    .state(
        &topic,
        "{{ 'ON' if value_json.state == 'online' else 'OFF' }}",
    )
    .attributes(&topic, attributes)
}

/// Whether detection, or a rule, is active by its switch and its schedule. Known while the source is away, too.
fn active(site: &Site, source: &str, rule: &Option<String>) -> Component {
    let (parts, name, levels) = match rule.as_deref() {
        Some(rule) => (
            vec!["rule", rule, "active"],
            format!("{rule} rule active"),
            format!("rules/{rule}/active"),
        ),
        None => (
            vec!["detection", "active"],
            "detection active".to_owned(),
            "detect/active".to_owned(),
        ),
    };
    let topic = site.topics.of_source(source, &levels);
    let attributes = "{{ {'switched_on': value_json.switched_on, 'scheduled': value_json.scheduled, 'next_change': value_json.next_change} | tojson }}";
    Component::entity("binary_sensor", Rank::Essential, &parts, &name)
        .diagnostic()
        .set("dev_cla", "running")
        .set("avty", vec![site.availability()])
        .state(&topic, &where_given("'ON' if value_json.active else 'OFF'"))
        .attributes(&topic, attributes)
}

/// Whether something is there, and how many. `count` is an expression of the message.
fn occupancy(rank: Rank, parts: &[&str], name: &str, topic: &str, count: &str) -> [Component; 2] {
    let id = |last| [parts, &[last]].concat();
    let is_there = where_given(&format!("'ON' if ({count}) > 0 else 'OFF'"));
    [
        Component::entity(
            "binary_sensor",
            rank,
            &id("occupancy"),
            &format!("{name} occupancy"),
        )
        .set("dev_cla", "occupancy")
        .state(topic, &is_there),
        Component::entity("sensor", rank, &id("count"), &format!("{name} count"))
            .set("stat_cla", "measurement")
            .set("unit_of_meas", "objects")
            .set("ic", "mdi:counter")
            .state(topic, &where_given(count)),
    ]
}

fn label_entities(site: &Site, source: &str, announced: &Announced<'_>) -> Vec<Component> {
    let count = "value | int(0)";
    let of_label = |label: &&str| {
        let topic = site.topics.path(COUNT, source, label);
        occupancy(Rank::Label, &["label", label], label, &topic, count)
    };
    let of_group = |group: &&str| {
        let topic = site.topics.path(GROUP_COUNT, source, group);
        occupancy(Rank::Label, &["group", group], group, &topic, count)
    };
    let labels = announced.labels.iter().flat_map(of_label);
    labels
        .chain(announced.groups.iter().flat_map(of_group))
        .collect()
}

/// The newest picture of each label.
fn picture_entities(site: &Site, source: &str, announced: &Announced<'_>) -> Vec<Component> {
    let of_label = |label: &&str| {
        let topic = site.topics.path(SNAPSHOT, source, label);
        Component::entity("image", Rank::Label, &["label", label, "picture"], label)
            .set("img_t", topic)
            .set("cont_type", "image/jpeg")
    };
    announced.labels.iter().map(of_label).collect()
}

fn zone_entities(site: &Site, source: &Source, zone: &ZoneRule) -> Vec<Component> {
    let name = zone.name.as_str();
    let topic = site
        .topics
        .of_source(&source.info.name, &format!("zones/{name}"));
    let parts = ["zone", name];
    let all = occupancy(Rank::Essential, &parts, name, &topic, "value_json.count");
    let mut components = Vec::from(all);
    if zone.object_threshold.is_some() {
        components.push(
            Component::entity(
                "binary_sensor",
                Rank::Essential,
                &["zone", name, "overcrowded"],
                &format!("{name} overcrowded"),
            )
            .set("dev_cla", "problem")
            .state(
                &topic,
                &where_given("'ON' if value_json.overcrowded else 'OFF'"),
            ),
        );
    }
    let Announced { labels, groups } = announced_in_zone(site, source, zone);
    let of = |kind: &'static str, list: &str, entry: &str| {
        let count = format!(
            "value_json.{list} | selectattr('{kind}', 'eq', {}) | sum(attribute='count')",
            literal(entry)
        );
        let parts = ["zone", name, kind, entry];
        let name = format!("{name} {entry}");
        occupancy(Rank::ZoneLabel, &parts, &name, &topic, &count)
    };
    components.extend(
        labels
            .iter()
            .flat_map(|label| of("label", "present", label)),
    );
    components.extend(groups.iter().flat_map(|group| of("group", "groups", group)));
    components
}

fn line_entities(site: &Site, source: &Source) -> Vec<Component> {
    let of_line = |line: &jetwatch_config::LineRule| {
        let name = line.name.as_str();
        let topic = site
            .topics
            .of_source(&source.info.name, &format!("lines/{name}"));
        ["left", "right"].map(|side| {
            Component::entity(
                "sensor",
                Rank::Essential,
                &["line", name, side],
                &format!("{name} to {side}"),
            )
            .set("stat_cla", "total_increasing")
            .set("unit_of_meas", "crossings")
            .set("ic", format!("mdi:arrow-{side}"))
            .state(&topic, &where_given(&format!("value_json.to_{side}")))
        })
    };
    source.info.rules.lines.iter().flat_map(of_line).collect()
}

/// Switches of detection and of each rule, and the threshold. They work while the source is away, too.
fn switches(site: &Site, source: &Source) -> Vec<Component> {
    let (info, rules) = (&source.info, &source.info.rules);
    let command = |component: Component, levels: &str| {
        let topic = site.topics.of_source(&info.name, levels);
        component
            .set("ent_cat", "config")
            .set("avty", Value::from(vec![site.availability()]))
            .set("cmd_t", format!("{topic}/set"))
            .set("stat_t", topic)
    };
    let switch = |parts: &[&str], name: &str, levels: &str| {
        let component = Component::entity("switch", Rank::Essential, parts, name);
        command(component, levels)
    };
    let zones = rules.zones.iter().map(|rule| &rule.name);
    let lines = rules.lines.iter().map(|rule| &rule.name);
    let directions = rules.directions.iter().map(|rule| &rule.name);
    let stationary = rules.stationary.as_ref().map(|_| "stationary");
    let names = zones.chain(lines).chain(directions).map(String::as_str);
    let mut components = vec![
        switch(&["detection"], "detection", "detect"),
        command(
            Component::entity(
                "number",
                Rank::Essential,
                &["score_threshold"],
                "score threshold",
            )
            .set("min", 0)
            .set("max", 1)
            .set("step", 0.01)
            .set("ic", "mdi:tune"),
            "score_threshold",
        ),
    ];
    components.extend(names.chain(stationary).map(|name| {
        let levels = format!("rules/{name}");
        switch(&["rule", name], &format!("{name} rule"), &levels)
    }));
    components
}
