// SPDX-License-Identifier: Apache-2.0
//! MQTT 5.0 and 3.1.1: packets to bytes and back ([`Packet`], [`decode`]), and a broker that keeps all in memory ([`Broker`]).
//!
//! The codec has no I/O and no state. It takes what brokers and clients send in practice: every reason code, also one that no version of
//! the standard has, and properties in any packet. It writes only what the standard allows. `jetwatch-publish` has the client, which
//! reconnects and keeps what was not acknowledged, and puts the broker on a thread.

mod broker;
mod codec;
mod properties;
mod reason_code;
mod topic;

pub use broker::{Broker, Limits, Listener, Login, OnRefusal, Refusal};
pub use codec::{
    Ack, Acks, ConnAck, Connect, DecodeError, EncodeError, Filters, Packet, Protocol, Publish, QoS,
    Reason, RetainHandling, Subscribe, SubscribeOptions, Unsubscribe, Will, decode,
};
pub use properties::{Properties, Property, Value};
pub use reason_code::ReasonCode;
pub use topic::{is_valid_filter, is_valid_topic, matches};
