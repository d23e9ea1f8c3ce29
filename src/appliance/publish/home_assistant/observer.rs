// SPDX-License-Identifier: Apache-2.0
//! Notices what changes the messages to Home Assistant, where the pipeline publishes. Reports each fact once and never blocks.

use std::collections::{BTreeSet, HashMap};

use tokio::sync::mpsc::UnboundedSender;

use super::source_entities::Source;
use super::{Fact, Sensors};
use crate::{Count, Label, Publication, SourceInfo, SourceName};
use jetwatch_types::{Classes, ZoneCount};

/// Passes facts on.
#[derive(Debug)]
pub(crate) struct Observer {
    facts: UnboundedSender<Fact>,
    classes: Classes,
    sensors: Option<Sensors>,
    /// `jetwatch update` was used on the machine.
    has_updates: bool,
    /// What was reported of each source.
    sources: HashMap<String, Source>,
}

impl Observer {
    /// For a network with these classes.
    pub fn new(facts: UnboundedSender<Fact>, classes: &Classes) -> Self {
        Self {
            facts,
            classes: classes.clone(),
            sensors: None,
            has_updates: false,
            sources: HashMap::new(),
        }
    }

    /// A source was added.
    pub fn source_added(&mut self, source: &SourceInfo) {
        let source = Source::new(source);
        self.send(Fact::Source(Box::new(source.clone())));
        self.sources.insert(source.info.name.clone(), source);
    }

    /// A source was removed.
    pub fn source_removed(&mut self, source: &str) {
        self.sources.remove(source);
        self.send(Fact::SourceRemoved(source.to_owned()));
    }

    /// Notices what is new in `record`.
    pub fn observe(&mut self, record: &Publication<'_>) {
        match record {
            Publication::Count(Count {
                source: SourceName(source),
                label: Label(label),
                count: 1..,
                ..
            }) => self.change(source, |known, _| insert(&mut known.seen.labels, label)),
            Publication::Zone {
                source,
                zone,
                present,
                ..
            } => {
                self.change(source, |known, classes| {
                    let is_there = |entry: &&ZoneCount| entry.count > 0;
                    let labels = present.iter().filter(is_there);
                    let mut is_new = false;
                    for label in labels.filter_map(|entry| classes.label(entry.class)) {
                        is_new |= match known.seen.zones.get_mut(&zone.name) {
                            Some(seen) => insert(seen, label),
                            None => {
                                let seen = BTreeSet::from([label.to_owned()]);
                                known.seen.zones.insert(zone.name.clone(), seen);
                                true
                            }
                        };
                    }
                    is_new
                });
            }
            Publication::Active {
                source, activity, ..
            } => {
                // Those from the start are known by the source itself.
                let rule = activity.rule.map(str::to_owned);
                self.change(source, |known, _| match activity.scheduled {
                    Some(_) => known.scheduled.insert(rule),
                    None => known.scheduled.remove(&rule),
                });
            }
            Publication::Stats(stats) => {
                if let Some(machine) = &stats.machine {
                    let sensors = &machine.readings;
                    self.sensors(Sensors {
                        temperatures: sensors
                            .temperatures
                            .iter()
                            .map(|zone| zone.name.clone())
                            .collect(),
                        rails: sensors.rails.iter().map(|rail| rail.name.clone()).collect(),
                    });
                }
            }
            Publication::Update(_) if !self.has_updates => {
                self.has_updates = true;
                self.send(Fact::HasUpdates);
            }
            _ => {}
        }
    }

    /// Reports a source where `change` has changed what is known of it.
    fn change(&mut self, source: &str, change: impl FnOnce(&mut Source, &Classes) -> bool) {
        if let Some(known) = self.sources.get_mut(source)
            && change(known, &self.classes)
        {
            let known = Box::new(known.clone());
            self.send(Fact::Source(known));
        }
    }

    fn sensors(&mut self, sensors: Sensors) {
        if self.sensors.as_ref() != Some(&sensors) {
            self.sensors = Some(sensors.clone());
            self.send(Fact::Sensors(sensors));
        }
    }

    fn send(&self, fact: Fact) {
        // Fails where the thread has ended, and with it the need.
        let _ = self.facts.send(fact);
    }
}

/// Adds a label; returns whether it is new.
fn insert(labels: &mut BTreeSet<String>, label: &str) -> bool {
    !labels.contains(label) && labels.insert(label.to_owned())
}
