// SPDX-License-Identifier: Apache-2.0
//! What is known of one broker: what it cannot do, as it has said or shown. It lasts as long as the process.
//!
//! A broker that refuses a CONNECT and says why is asked again at once without that. One that closes the connection is asked again as
//! before: it may be starting. The second time in a row, everything that brokers close on is left out in turn. One that does not answer
//! is asked with MQTT 3.1.1 at once: a time-out is long.

use std::time::Duration;

use jetwatch_mqtt::ReasonCode;
use tokio::time::Instant;

use crate::reaction::{Feature, Reaction, reactions};

/// What was guessed is tried again after this long.
const GUESS_TIME: Duration = Duration::from_secs(3600);

/// What may be left out after a CONNECT that was closed, in turn. Most likely first: brokers without MQTT 5.0, without retained messages,
/// and with rules about the topic of the will.
const LADDER: [&[Feature]; 5] = [
    &[Feature::Version5],
    &[Feature::Retain],
    &[Feature::Retain, Feature::Version5],
    &[Feature::Will],
    &[Feature::Will, Feature::Version5],
];

impl Feature {
    /// What is missing, for a line of the log.
    pub fn missing(self) -> &'static str {
        match self {
            Self::Version5 => {
                "it does not speak MQTT 5.0: with 3.1.1 it does not say why it refuses a message"
            }
            Self::Will => {
                "it takes no last will from this client: the status stays `online` when the daemon is gone"
            }
            Self::Retain => {
                "it does not retain messages: who subscribes later does not get the states"
            }
            Self::QoS1 => "it acknowledges no messages: they are sent with QoS 0",
        }
    }
}

/// A set of features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Features(u8);

impl Features {
    pub fn has(self, feature: Feature) -> bool {
        self.0 & 1 << feature as u8 != 0
    }

    pub fn with(self, feature: Feature) -> Self {
        Self(self.0 | 1 << feature as u8)
    }

    pub fn iter(self) -> impl Iterator<Item = Feature> {
        [
            Feature::Version5,
            Feature::Will,
            Feature::Retain,
            Feature::QoS1,
        ]
        .into_iter()
        .filter(move |&feature| self.has(feature))
    }

    fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl FromIterator<Feature> for Features {
    fn from_iter<I: IntoIterator<Item = Feature>>(features: I) -> Self {
        features.into_iter().fold(Self::default(), Self::with)
    }
}

/// What is known of one broker.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// What it has said that it cannot do.
    said: Features,
    /// What it has refused or closed connections on, as far as that is known.
    guessed: Features,
    guessed_at: Option<Instant>,
    /// Attempts in a row that ended without an answer to CONNECT.
    unanswered: u32,
    logged: Features,
}

/// How an attempt to connect ended without CONNACK of success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The broker says why.
    Refused(ReasonCode),
    /// It closed the connection after CONNECT.
    Closed,
    /// It did not answer.
    Silent,
    /// Before CONNECT, or no MQTT.
    Other,
}

impl Known {
    /// For a single attempt: everything is tried at once.
    pub fn single() -> Self {
        Self {
            unanswered: 1,
            ..Self::default()
        }
    }

    /// What is left out.
    pub fn without(&self) -> Features {
        self.said.union(self.guessed)
    }

    /// It has said so.
    pub fn leave_out(&mut self, feature: Feature) {
        self.said = self.said.with(feature);
    }

    /// Whether this is to be logged: once.
    pub fn log(&mut self, feature: Feature) -> bool {
        let is_new = !self.logged.has(feature);
        self.logged = self.logged.with(feature);
        is_new
    }

    /// Whether the attempt that has just failed has tried everything.
    pub fn is_thorough(&self) -> bool {
        self.unanswered > 0 && self.unanswered.is_multiple_of(2)
    }

    /// An attempt begins; returns what is left out.
    pub fn begin(&mut self) -> Features {
        if self.guessed_at.is_some_and(|at| at.elapsed() >= GUESS_TIME) {
            self.guessed = Features::default();
            self.guessed_at = None;
        }
        self.without()
    }

    /// The attempt has succeeded without `left_out`; the last failure before it, if there was one, was `failure`.
    pub fn accepted(&mut self, left_out: Features, failure: Option<Failure>) {
        self.unanswered = 0;
        if failure.is_some() && left_out != self.without() {
            self.guessed = left_out;
            self.guessed_at = Some(Instant::now());
        }
    }

    /// What is left out next after `failure` of an attempt that has `tried` these so far; `None`: the attempt is over. Only what is in
    /// `optional` can be left out.
    pub fn next(
        &mut self,
        failure: Failure,
        tried: &[Features],
        optional: Features,
    ) -> Option<Features> {
        let now = *tried.last()?;
        let fits = |left_out: Features| {
            let is_possible = left_out
                .iter()
                .all(|feature| optional.has(feature) || now.has(feature));
            (is_possible && !tried.contains(&left_out)).then_some(left_out)
        };
        match failure {
            Failure::Other => None,
            Failure::Refused(code) => {
                self.unanswered = 0;
                let Reaction::Without(feature) = reactions(code).connect else {
                    return None;
                };
                // Some brokers have one code for all.
                fits(now.with(feature)).or_else(|| fits(now.with(Feature::Will)))
            }
            Failure::Closed | Failure::Silent => {
                if tried.len() == 1 {
                    self.unanswered += 1;
                    if failure == Failure::Closed && !self.is_thorough() {
                        return None;
                    }
                }
                let rungs = match failure {
                    // Each takes a time-out.
                    Failure::Silent => &LADDER[..1],
                    _ => &LADDER[..],
                };
                let first = *tried.first()?;
                rungs
                    .iter()
                    .find_map(|rung| fits(first.union(rung.iter().copied().collect())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Feature; 4] = [
        Feature::Version5,
        Feature::Will,
        Feature::Retain,
        Feature::QoS1,
    ];

    /// Attempts at a broker, as the daemon makes them; what was left out at last, and the number of connections.
    fn attempts(
        known: &mut Known,
        optional: &[Feature],
        broker: impl Fn(Features) -> Option<Failure>,
    ) -> (Option<Features>, usize) {
        let optional = optional.iter().copied().collect();
        let mut connections = 0;
        for _ in 0..4 {
            let mut tried = vec![known.begin()];
            let mut last = None;
            loop {
                let left_out = tried[tried.len() - 1];
                connections += 1;
                match broker(left_out) {
                    None => {
                        known.accepted(left_out, last);
                        return (Some(left_out), connections);
                    }
                    Some(failure) => {
                        last = Some(failure);
                        match known.next(failure, &tried, optional) {
                            Some(next) => tried.push(next),
                            None => break,
                        }
                    }
                }
            }
        }
        (None, connections)
    }

    #[test]
    fn what_a_broker_does_not_take_is_left_out_and_remembered() {
        use Failure::{Closed, Refused, Silent};
        use Feature::{QoS1, Retain, Version5, Will};
        // The failure of a CONNECT with this feature; what is left out, after how many connections.
        let refuses = |code| Refused(ReasonCode(code));
        let cases: [(&str, Failure, Feature, &[Feature], usize); 8] = [
            ("emqx#2607", refuses(0x9a), Retain, &[Retain], 2),
            ("max_qos 0", refuses(0x9b), QoS1, &[QoS1], 2),
            ("mosquitto-auth-plug#13", refuses(0x87), Will, &[Will], 2),
            ("3.1.1 only", refuses(0x84), Version5, &[Version5], 2),
            ("emqx#2167", refuses(0x84), Will, &[Version5, Will], 3),
            ("nats-server#3369", Closed, Version5, &[Version5], 3),
            ("emqx-rel#323", Silent, Version5, &[Version5], 2),
            ("mosquitto#1827", Closed, Retain, &[Retain], 4),
        ];
        for (name, failure, feature, expected, connections) in cases {
            let broker = |out: Features| (!out.has(feature)).then_some(failure);
            let mut known = Known::default();
            let expected: Features = expected.iter().copied().collect();
            let first = attempts(&mut known, &ALL, broker);
            assert_eq!(first, (Some(expected), connections), "{name}");
            let found = attempts(&mut known, &ALL, broker);
            assert_eq!(found, (Some(expected), 1), "{name}");
        }
    }

    #[test]
    fn a_broker_that_refuses_all_is_asked_for_what_may_be_left_out_only() {
        let mut known = Known::default();
        let code = ReasonCode::BAD_USER_NAME_OR_PASSWORD;
        let refuses = |_| Some(Failure::Refused(code));
        assert_eq!(attempts(&mut known, &ALL, refuses), (None, 4));
        let denies = |_| Some(Failure::Refused(ReasonCode::NOT_AUTHORIZED));
        let found = attempts(&mut known, &[Feature::Version5], denies);
        assert_eq!(found, (None, 4));
        // Every second time all steps.
        let found = attempts(&mut known, &ALL, |_| Some(Failure::Closed));
        assert_eq!(found, (None, 14));
        let found = attempts(&mut known, &[], |_| Some(Failure::Closed));
        assert_eq!(found, (None, 4));
        let found = attempts(&mut known, &ALL, |_| Some(Failure::Other));
        assert_eq!(found, (None, 4));
        assert_eq!(known.without(), Features::default());
    }
}
