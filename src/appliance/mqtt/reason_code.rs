// SPDX-License-Identifier: Apache-2.0
//! Reason codes of MQTT 5.0. A code is a number: one that the standard does not know is kept, and above 0x7f it is an error.

use std::fmt;

/// Why a packet is as it is: success below 0x80, an error from there on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ReasonCode(pub u8);

macro_rules! reason_codes {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        impl ReasonCode {
            $(
                #[doc = concat!("The text is `", $text, "`.")]
                pub const $name: Self = Self($code);
            )*
        }

        /// Codes in ascending order.
        const TEXTS: &[(u8, &str)] = &[$(($code, $text)),*];
    };
}

reason_codes! {
    SUCCESS = 0x00, "success";
    GRANTED_QOS_1 = 0x01, "granted QoS 1";
    GRANTED_QOS_2 = 0x02, "granted QoS 2";
    DISCONNECT_WITH_WILL = 0x04, "disconnect with will message";
    NO_MATCHING_SUBSCRIBERS = 0x10, "no matching subscribers";
    NO_SUBSCRIPTION_EXISTED = 0x11, "no subscription existed";
    CONTINUE_AUTHENTICATION = 0x18, "continue authentication";
    REAUTHENTICATE = 0x19, "re-authenticate";
    UNSPECIFIED_ERROR = 0x80, "unspecified error";
    MALFORMED_PACKET = 0x81, "malformed packet";
    PROTOCOL_ERROR = 0x82, "protocol error";
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83, "implementation specific error";
    UNSUPPORTED_PROTOCOL_VERSION = 0x84, "unsupported protocol version";
    CLIENT_IDENTIFIER_NOT_VALID = 0x85, "client identifier not valid";
    BAD_USER_NAME_OR_PASSWORD = 0x86, "bad user name or password";
    NOT_AUTHORIZED = 0x87, "not authorized";
    SERVER_UNAVAILABLE = 0x88, "server unavailable";
    SERVER_BUSY = 0x89, "server busy";
    BANNED = 0x8a, "banned";
    SERVER_SHUTTING_DOWN = 0x8b, "server shutting down";
    BAD_AUTHENTICATION_METHOD = 0x8c, "bad authentication method";
    KEEP_ALIVE_TIMEOUT = 0x8d, "keep alive timeout";
    SESSION_TAKEN_OVER = 0x8e, "session taken over";
    TOPIC_FILTER_INVALID = 0x8f, "topic filter invalid";
    TOPIC_NAME_INVALID = 0x90, "topic name invalid";
    PACKET_IDENTIFIER_IN_USE = 0x91, "packet identifier in use";
    PACKET_IDENTIFIER_NOT_FOUND = 0x92, "packet identifier not found";
    RECEIVE_MAXIMUM_EXCEEDED = 0x93, "receive maximum exceeded";
    TOPIC_ALIAS_INVALID = 0x94, "topic alias invalid";
    PACKET_TOO_LARGE = 0x95, "packet too large";
    MESSAGE_RATE_TOO_HIGH = 0x96, "message rate too high";
    QUOTA_EXCEEDED = 0x97, "quota exceeded";
    ADMINISTRATIVE_ACTION = 0x98, "administrative action";
    PAYLOAD_FORMAT_INVALID = 0x99, "payload format invalid";
    RETAIN_NOT_SUPPORTED = 0x9a, "retain not supported";
    QOS_NOT_SUPPORTED = 0x9b, "QoS not supported";
    USE_ANOTHER_SERVER = 0x9c, "use another server";
    SERVER_MOVED = 0x9d, "server moved";
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9e, "shared subscriptions not supported";
    CONNECTION_RATE_EXCEEDED = 0x9f, "connection rate exceeded";
    MAXIMUM_CONNECT_TIME = 0xa0, "maximum connect time";
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xa1, "subscription identifiers not supported";
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xa2, "wildcard subscriptions not supported";
}

/// Return codes 1 to 5 of CONNACK in MQTT 3.1.1, as reason codes.
const RETURN_CODES: [ReasonCode; 5] = [
    ReasonCode::UNSUPPORTED_PROTOCOL_VERSION,
    ReasonCode::CLIENT_IDENTIFIER_NOT_VALID,
    ReasonCode::SERVER_UNAVAILABLE,
    ReasonCode::BAD_USER_NAME_OR_PASSWORD,
    ReasonCode::NOT_AUTHORIZED,
];

impl ReasonCode {
    /// Whether what was asked for was not done.
    #[must_use]
    pub fn is_error(self) -> bool {
        self.0 >= 0x80
    }

    /// The standard's words; `None`: it does not know the code.
    #[must_use]
    pub fn text(self) -> Option<&'static str> {
        let at = TEXTS.binary_search_by_key(&self.0, |&(code, _)| code);
        at.ok().map(|at| TEXTS[at].1)
    }

    /// The reason of a return code in CONNACK of MQTT 3.1.1. One that is neither 0 nor of the standard is an error in any case.
    pub(crate) fn of_return_code(code: u8) -> Self {
        match code {
            0 | 0x80.. => Self(code),
            _ => *RETURN_CODES
                .get(usize::from(code) - 1)
                .unwrap_or(&Self::UNSPECIFIED_ERROR),
        }
    }

    /// The return code for it; 3, server unavailable, where MQTT 3.1.1 has none of this sense.
    pub(crate) fn return_code(self) -> u8 {
        let at = RETURN_CODES.iter().position(|&code| code == self);
        match (self.is_error(), at) {
            (false, _) => 0,
            (true, Some(at)) => at as u8 + 1,
            (true, None) => 3,
        }
    }
}

impl fmt::Display for ReasonCode {
    /// As `server busy (0x89)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text().unwrap_or("unknown reason code");
        write!(f, "{text} (0x{:02x})", self.0)
    }
}

impl fmt::Debug for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_text_and_is_success_or_error() {
        assert!(TEXTS.is_sorted_by_key(|&(code, _)| code));
        assert_eq!(ReasonCode::SERVER_BUSY.to_string(), "server busy (0x89)");
        assert_eq!(ReasonCode(0xc1).to_string(), "unknown reason code (0xc1)");
        for code in (0..=255).map(ReasonCode) {
            assert!(!code.to_string().is_empty());
            assert_eq!(code.is_error(), code.0 > 0x7f);
        }
    }

    #[test]
    fn return_codes_of_3_1_1_keep_their_sense() {
        for code in 0..=255 {
            let reason = ReasonCode::of_return_code(code);
            assert_eq!(reason.is_error(), code != 0, "{code}");
            if code <= 5 {
                assert_eq!(reason.return_code(), code);
            }
        }
        assert_eq!(ReasonCode::QUOTA_EXCEEDED.return_code(), 3);
    }
}
