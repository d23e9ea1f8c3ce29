// SPDX-License-Identifier: Apache-2.0
//! Which events of the list are wanted: by source, label, zone or line, time, and place in the list.

use std::sync::Arc;

use serde::Deserialize;

/// Which events are wanted.
#[derive(Debug, Default)]
pub(super) struct EventQuery {
    pub(super) source: Option<String>,
    pub(super) label: Option<String>,
    /// Zone or line: of the event itself, or of an analytics event about its track.
    pub(super) rule: Option<String>,
    /// At or after this time, RFC 3339.
    pub(super) from: Option<String>,
    /// Before this time.
    pub(super) to: Option<String>,
    /// Only events with a smaller number: the next page.
    pub(super) before: Option<u64>,
    pub(super) limit: usize,
}

/// What is looked at in a message. Times of messages have one form, so that they are compared as texts.
#[derive(Deserialize)]
pub(super) struct EventKeys<'e> {
    pub(super) source: &'e str,
    #[serde(default)]
    label: Option<String>,
    /// Of the rule, in analytics events.
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) track_id: Option<u64>,
    #[serde(default)]
    started_at: Option<&'e str>,
    #[serde(default)]
    at: Option<&'e str>,
}

impl<'e> EventKeys<'e> {
    /// When the event began.
    pub(super) fn at(&self) -> &'e str {
        self.started_at.or(self.at).unwrap_or_default()
    }
}

impl EventQuery {
    /// Whether the message `json` is wanted, of a track that was in the zones and lines `rules`.
    pub(super) fn admits(&self, json: &[u8], rules: &[Arc<str>]) -> bool {
        let Ok(keys) = serde_json::from_slice::<EventKeys<'_>>(json) else {
            return false;
        };
        let at = keys.at();
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        let is_at_rule = |wanted: &String| {
            keys.name.as_ref() == Some(wanted) || rules.iter().any(|rule| **rule == **wanted)
        };
        is(&self.source, Some(keys.source))
            && is(&self.label, keys.label.as_deref())
            && self.rule.as_ref().is_none_or(is_at_rule)
            && self.from.as_deref().is_none_or(|from| at >= from)
            && self.to.as_deref().is_none_or(|to| at < to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_filtered() {
        let events: [&[u8]; 3] = [
            br#"{"source":"a","label":"car","started_at":"2026-01-01T00:00:01Z"}"#,
            br#"{"source":"b","label":"car","started_at":"2026-01-01T00:00:02Z"}"#,
            br#"{"source":"b","label":"person","name":"door","at":"2026-01-01T00:00:03Z"}"#,
        ];
        let text = |text: &str| Some(text.to_owned());
        let time = || text("2026-01-01T00:00:02Z");
        let all = EventQuery::default;
        #[rustfmt::skip]
        let cases = [
            (all(), [true, true, true]),
            (EventQuery { source: text("b"), ..all() }, [false, true, true]),
            (EventQuery { label: text("car"), ..all() }, [true, true, false]),
            (EventQuery { rule: text("door"), ..all() }, [false, false, true]),
            (EventQuery { rule: text("yard"), ..all() }, [true, true, true]),
            (EventQuery { from: time(), ..all() }, [false, true, true]),
            (EventQuery { to: time(), ..all() }, [true, false, false]),
        ];
        for (query, wanted) in cases {
            let found = events.map(|event| query.admits(event, &["yard".into()]));
            assert_eq!(found, wanted, "{query:?}");
        }
        assert!(!all().admits(b"no JSON", &[]));
    }
}
