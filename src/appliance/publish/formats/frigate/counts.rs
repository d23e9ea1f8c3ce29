// SPDX-License-Identifier: Apache-2.0
//! How many objects each topic counts. A topic is published when its count changes.

use std::collections::{BTreeMap, BTreeSet};

use crate::formats::{FormatDelivery, FormatMessage};

/// Counts by topic, below the prefix.
#[derive(Debug, Default)]
pub(super) struct Counts {
    values: BTreeMap<String, Count>,
    changed: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Count {
    value: u32,
    published: Option<u32>,
}

impl Counts {
    /// These topics exist, also while they count nothing.
    pub fn announce(&mut self, topics: impl Iterator<Item = String>) {
        for topic in topics {
            self.values.entry(topic.clone()).or_default();
            self.changed.insert(topic);
        }
    }

    /// One more object in each of `topics`.
    pub fn add(&mut self, topics: &[String]) {
        for topic in topics {
            self.values.entry(topic.clone()).or_default().value += 1;
            self.changed.insert(topic.clone());
        }
    }

    /// One object less in each of `topics`.
    pub fn remove(&mut self, topics: &[String]) {
        for topic in topics {
            if let Some(count) = self.values.get_mut(topic) {
                count.value = count.value.saturating_sub(1);
                self.changed.insert(topic.clone());
            }
        }
    }

    /// Publishes the counts that differ from what was published.
    pub fn publish(&mut self, prefix: &str, out: &mut Vec<FormatMessage>) {
        for topic in std::mem::take(&mut self.changed) {
            let Some(count) = self.values.get_mut(&topic) else {
                continue;
            };
            if count.published.replace(count.value) != Some(count.value) {
                out.push(message(prefix, &topic, count.value, FormatDelivery::Latest));
            }
        }
    }

    /// Ends the topics of `place`, a camera or a zone, with 0.
    pub fn end(&mut self, place: &str, prefix: &str, out: &mut Vec<FormatMessage>) {
        let is_of = |topic: &String| topic.split('/').next() == Some(place);
        let gone: Vec<String> = self
            .values
            .keys()
            .filter(|topic| is_of(topic))
            .cloned()
            .collect();
        for topic in gone {
            self.values.remove(&topic);
            out.push(message(prefix, &topic, 0, FormatDelivery::Last));
        }
    }
}

fn message(prefix: &str, topic: &str, value: u32, delivery: FormatDelivery) -> FormatMessage {
    FormatMessage {
        topic: format!("{prefix}/{topic}").into(),
        payload: value.to_string().into_bytes(),
        delivery,
    }
}

/// The topics of the counts of `labels` in `place`.
pub(super) fn topics<'a>(
    place: &'a str,
    labels: impl Iterator<Item = &'a str>,
) -> impl Iterator<Item = String> {
    labels.chain(std::iter::once("all")).flat_map(move |label| {
        [
            format!("{place}/{label}"),
            format!("{place}/{label}/active"),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(counts: &mut Counts) -> Vec<(String, String)> {
        let mut out = Vec::new();
        counts.publish("f", &mut out);
        let text = |message: FormatMessage| {
            let payload = String::from_utf8(message.payload).expect("a number");
            (message.topic.to_string(), payload)
        };
        out.into_iter().map(text).collect()
    }

    #[test]
    fn counts_are_published_when_they_change_and_end_with_zero() {
        let pair = |topic: &str, value: &str| (topic.to_owned(), value.to_owned());
        let mut counts = Counts::default();
        counts.announce(topics("gate", ["car"].into_iter()));
        assert_eq!(published(&mut counts).len(), 4);
        let car = ["gate/car".to_owned(), "gate/all".to_owned()];
        counts.add(&car);
        counts.add(&car);
        let found = published(&mut counts);
        assert_eq!(found, [pair("f/gate/all", "2"), pair("f/gate/car", "2")]);
        counts.remove(&car);
        counts.add(&car);
        assert_eq!(published(&mut counts), []);
        let mut out = Vec::new();
        counts.end("gat", "f", &mut out);
        assert_eq!(out, []);
        counts.end("gate", "f", &mut out);
        assert_eq!(out.len(), 4);
        assert!(out.iter().all(|message| message.payload == b"0"));
        assert_eq!(published(&mut counts), []);
    }
}
