// SPDX-License-Identifier: Apache-2.0
//! Notices what changes the messages to Home Assistant, where the pipeline publishes. Reports each fact once and never blocks.

use std::collections::{HashMap, HashSet};

use tokio::sync::mpsc::UnboundedSender;

use super::{Fact, Sensors};
use crate::{Count, Label, Publication, SourceInfo, SourceName};
use jetwatch_types::Classes;

/// Passes facts on.
#[derive(Debug)]
pub(crate) struct Observer {
    facts: UnboundedSender<Fact>,
    classes: Classes,
    sensors: Option<Sensors>,
    /// `jetwatch update` was used on the machine.
    has_updates: bool,
    sources: HashMap<String, SeenThere>,
}

/// What was reported of a source.
#[derive(Debug, Default)]
struct SeenThere {
    labels: HashSet<String>,
    /// Classes in each zone.
    zones: HashMap<String, HashSet<u16>>,
    /// What has a schedule: detection (`None`) and rules.
    scheduled: HashSet<Option<String>>,
}

impl SeenThere {
    /// Sets whether detection or a rule has a schedule; returns whether that is new.
    fn set_scheduled(&mut self, rule: Option<String>, has_schedule: bool) -> bool {
        if has_schedule {
            self.scheduled.insert(rule)
        } else {
            self.scheduled.remove(&rule)
        }
    }
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
        self.sources.insert(
            source.name.clone(),
            SeenThere {
                scheduled: source.scheduled().into_iter().collect(),
                ..SeenThere::default()
            },
        );
        self.send(Fact::SourceAdded(source.clone()));
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
            }) => {
                let Some(known) = self.sources.get_mut(*source) else {
                    return;
                };
                if !known.labels.contains(*label) {
                    known.labels.insert((*label).to_owned());
                    self.send(Fact::LabelSeen {
                        source: (*source).to_owned(),
                        label: (*label).to_owned(),
                    });
                }
            }
            Publication::Zone {
                source,
                zone,
                present,
                ..
            } => {
                for entry in present.iter().filter(|entry| entry.count > 0) {
                    self.in_zone(source, &zone.name, entry.class);
                }
            }
            Publication::Active {
                source, activity, ..
            } => {
                // Those from the start are known by the source itself.
                let rule = activity.rule.map(str::to_owned);
                let has_schedule = activity.scheduled.is_some();
                if let Some(known) = self.sources.get_mut(*source)
                    && known.set_scheduled(rule.clone(), has_schedule)
                {
                    self.send(Fact::Scheduled {
                        source: (*source).to_owned(),
                        rule,
                        has_schedule,
                    });
                }
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

    fn in_zone(&mut self, source: &str, zone: &str, class: u16) {
        let Some(known) = self.sources.get_mut(source) else {
            return;
        };
        if known
            .zones
            .get(zone)
            .is_some_and(|classes| classes.contains(&class))
        {
            return;
        }
        let classes = known.zones.entry(zone.to_owned()).or_default();
        classes.insert(class);
        if let Some(label) = self.classes.label(class) {
            self.send(Fact::ZoneLabelSeen {
                source: source.to_owned(),
                zone: zone.to_owned(),
                label: label.to_owned(),
            });
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
