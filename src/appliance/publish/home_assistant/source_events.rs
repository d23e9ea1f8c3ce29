// SPDX-License-Identifier: Apache-2.0
//! Analytics events of a source: one `event` entity with all of them, and a trigger of the device for each that a rule reports.
//!
//! A message that waited for the broker is no event that happens now: an automation would act on it hours later. Those that are
//! older than [`FRESH`] says are ignored.

use super::component::{Component, Rank};
use super::site::Site;
use super::source_entities::Source;
use jetwatch_config::SceneRules;

/// Condition of messages that are at most half a minute late.
const FRESH: &str = "value_json.get('late_ms', 0) <= 30000";

/// The keys of an analytics event that are attributes, where it has them.
const ATTRIBUTES: [&str; 7] = ["name", "label", "group", "to", "count", "duration_ms", "id"];

/// An event that a rule reports, and its trigger.
struct Reported<'r> {
    /// Type of the analytics event.
    kind: &'static str,
    /// Name of its rule, where the event has it.
    rule: Option<&'r str>,
    /// Side of a line.
    to: Option<&'static str>,
}

impl<'r> Reported<'r> {
    fn of_rule(kind: &'static str, rule: &'r str) -> Self {
        Self {
            kind,
            rule: Some(rule),
            to: None,
        }
    }

    fn trigger(&self, topic: &str) -> Component {
        let subtype = match (self.rule, self.to) {
            (Some(rule), Some(side)) => format!("{rule} to {side}"),
            (Some(rule), None) => rule.to_owned(),
            (None, _) => "object".to_owned(),
        };
        let (rule, to) = (self.rule.unwrap_or("None"), self.to.unwrap_or("None"));
        let text = "value_json.type ~ '/' ~ value_json.get('name') ~ '/' ~ value_json.get('to')";
        Component::trigger(&["trigger", self.kind, rule, to], self.kind, &subtype)
            .set("t", topic)
            .set("val_tpl", where_fresh(text))
            .set("pl", format!("{}/{rule}/{to}", self.kind))
    }
}

/// The components of a source's rules; none without rules.
pub(super) fn components(site: &Site, source: &Source) -> Vec<Component> {
    let reported = reported(&source.info.rules);
    if reported.is_empty() {
        return Vec::new();
    }
    let topic = site.topics.of_source(&source.info.name, "analytics");
    let mut types: Vec<&str> = Vec::new();
    for event in &reported {
        if !types.contains(&event.kind) {
            types.push(event.kind);
        }
    }
    let keys = ATTRIBUTES.map(|key| format!(", '{key}': value_json.get('{key}')"));
    let event = format!(
        "{{'event_type': value_json.type{}}} | tojson",
        keys.concat()
    );
    let entity = Component::entity("event", Rank::Essential, &["analytics"], "analytics")
        .set("evt_typ", types)
        .set("ic", "mdi:motion-sensor")
        .state(&topic, &where_fresh(&event));
    let triggers = reported.iter().map(|event| event.trigger(&topic));
    std::iter::once(entity).chain(triggers).collect()
}

/// The template that gives `expression` where the message is fresh, else nothing.
fn where_fresh(expression: &str) -> String {
    format!("{{{{ ({expression}) if {FRESH} else '' }}}}")
}

/// All that these rules report.
fn reported(rules: &SceneRules) -> Vec<Reported<'_>> {
    let mut events = Vec::new();
    for zone in &rules.zones {
        let mut kinds = vec!["zone_entered", "zone_left"];
        if zone.loitering.is_some() {
            kinds.push("loitering");
        }
        if zone.object_threshold.is_some() {
            kinds.extend(["overcrowding", "overcrowding_over"]);
        }
        let of_zone = |kind| Reported::of_rule(kind, &zone.name);
        events.extend(kinds.into_iter().map(of_zone));
    }
    for line in &rules.lines {
        events.extend(["left", "right"].map(|side| Reported {
            to: Some(side),
            ..Reported::of_rule("line_crossed", &line.name)
        }));
    }
    let directions = rules.directions.iter();
    events.extend(directions.map(|rule| Reported::of_rule("direction", &rule.name)));
    if rules.stationary.is_some() {
        events.extend(["stationary", "moving"].map(|kind| Reported {
            kind,
            rule: None,
            to: None,
        }));
    }
    events
}
