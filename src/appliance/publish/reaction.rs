// SPDX-License-Identifier: Apache-2.0
//! What each reason code of MQTT 5.0 asks for, by the packet that has it. One table: a code that is not in it, or not meant for the
//! packet, has a reaction, too.

use jetwatch_mqtt::ReasonCode;

/// What is done after a refusal. Nothing of it ends the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// It passes later: waits that double, up to 30 s.
    Later,
    /// As [`Later`](Self::Later), where the code may also be about this one message: if the broker takes the next one meanwhile, it is.
    Doubt,
    /// It never passes: this message is given up.
    GiveUp,
    /// The broker cannot do this, and the rest goes on without it.
    Without(Feature),
    /// Only a change of the configuration or of the broker helps: the reason is said, and attempts are rare.
    Stop,
    /// There is nothing to do.
    Nothing,
}

/// What can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Feature {
    /// MQTT 5.0, in favor of 3.1.1.
    Version5,
    /// The last will.
    Will,
    /// Retained messages.
    Retain,
    /// Acknowledgements.
    QoS1,
}

/// The reactions to one code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reactions {
    /// In PUBACK or PUBREC: about the message.
    pub message: Reaction,
    /// In CONNACK, or in a DISCONNECT in its place.
    pub connect: Reaction,
    /// In DISCONNECT. The message that was on its way then is suspected in any case: see `outbox/suspicion.rs`.
    pub disconnect: Reaction,
}

use Feature::{QoS1, Retain, Version5, Will};
use Reaction::{Doubt, GiveUp, Later, Nothing, Stop, Without};

/// Code, in PUBACK, in CONNACK, in DISCONNECT. In SUBACK every error leaves the subscription out.
///
/// Not authorized (0x87) is not waited for: it is a rule of the broker about this topic, which waiting does not change, and all other topics
/// would wait behind it. Codes that brokers use where MQTT has none are in doubt: 0x83 is a full disk or a queue that is not there for the
/// moment, and a message that is too large (mosquitto 1.6).
const TABLE: [(u8, Reaction, Reaction, Reaction); 38] = [
    (0x00, Nothing, Nothing, Later),                      // success
    (0x04, Nothing, Later, Later),                        // disconnect with will
    (0x10, Nothing, Later, Later),                        // no matching subscribers
    (0x80, Doubt, Later, Later),                          // unspecified
    (0x81, GiveUp, Without(Version5), Later),             // malformed packet
    (0x82, GiveUp, Without(Version5), Later),             // protocol error
    (0x83, Doubt, Without(Version5), Later),              // implementation specific
    (0x84, GiveUp, Without(Version5), Without(Version5)), // protocol version
    (0x85, GiveUp, Stop, Stop),                           // client identifier
    (0x86, GiveUp, Stop, Stop),                           // user name or password
    // Brokers say so of a will on a topic that is denied.
    (0x87, GiveUp, Without(Will), Later), // not authorized
    (0x88, Later, Later, Later),          // unavailable
    (0x89, Later, Later, Later),          // busy
    (0x8a, Later, Stop, Stop),            // banned
    (0x8b, Later, Later, Later),          // shutting down
    (0x8c, GiveUp, Stop, Stop),           // authentication method
    (0x8d, Later, Later, Later),          // keep alive timeout
    (0x8e, Later, Stop, Stop),            // session taken over
    (0x8f, GiveUp, Later, Later),         // topic filter
    (0x90, GiveUp, Without(Will), Later), // topic name
    // The next attempt has another identifier.
    (0x91, Later, Later, Later),          // packet identifier in use
    (0x92, Nothing, Later, Later),        // packet identifier not found
    (0x93, Later, Later, Later),          // receive maximum exceeded
    (0x94, GiveUp, Later, Later),         // topic alias
    (0x95, GiveUp, Without(Will), Later), // packet too large
    (0x96, Later, Later, Later),          // message rate too high
    (0x97, Later, Later, Later),          // quota exceeded
    (0x98, Doubt, Stop, Stop),            // administrative action
    (0x99, GiveUp, Without(Will), Later), // payload format
    (0x9a, Without(Retain), Without(Retain), Without(Retain)),
    (0x9b, Without(QoS1), Without(QoS1), Without(QoS1)),
    (0x9c, Later, Later, Later),  // use another server
    (0x9d, Later, Stop, Stop),    // server moved
    (0x9e, GiveUp, Later, Later), // shared subscriptions
    (0x9f, Later, Later, Later),  // connection rate exceeded
    (0xa0, Later, Later, Later),  // maximum connect time
    (0xa1, GiveUp, Later, Later), // subscription identifiers
    (0xa2, GiveUp, Later, Later), // wildcard subscriptions
];

/// The reactions to `code`.
pub(crate) fn reactions(code: ReasonCode) -> Reactions {
    let known = TABLE.iter().find(|(known, ..)| *known == code.0);
    let (message, connect, disconnect) = match known {
        Some(&(_, message, connect, disconnect)) => (message, connect, disconnect),
        None if code.is_error() => (Doubt, Later, Later),
        None => (Nothing, Later, Later),
    };
    Reactions {
        message,
        connect,
        disconnect,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_reaction_in_every_packet() {
        for code in (0..=255).map(ReasonCode) {
            let Reactions {
                message,
                connect,
                disconnect,
            } = reactions(code);
            // Success is none of the message, and every error is something.
            let wanted = !code.is_error() || code == ReasonCode::PACKET_IDENTIFIER_NOT_FOUND;
            assert_eq!(message == Nothing, wanted, "{code}");
            assert_eq!(connect == Nothing, code == ReasonCode::SUCCESS, "{code}");
            assert_ne!(disconnect, Nothing, "{code}");
            assert!(!matches!(connect, Doubt | GiveUp), "{code}");
            assert!(!matches!(disconnect, Doubt | GiveUp), "{code}");
            // A code with a name is in the table.
            let is_listed = TABLE.iter().any(|(known, ..)| *known == code.0);
            assert!(
                is_listed || !code.is_error() || code.text().is_none(),
                "{code}"
            );
        }
    }
}
