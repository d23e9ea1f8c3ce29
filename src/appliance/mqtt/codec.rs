// SPDX-License-Identifier: Apache-2.0
//! Packets to bytes and back, as one table of what is where: [`Packet::encode`] and [`decode`] go through the same fields in the same
//! order.

mod packet;
mod read;
mod write;

pub use packet::{
    Ack, Acks, ConnAck, Connect, Filters, Packet, Protocol, Publish, QoS, Reason, RetainHandling,
    Subscribe, SubscribeOptions, Unsubscribe, Will,
};
pub(crate) use read::Reader;
pub use read::{DecodeError, decode};
pub use write::EncodeError;
pub(crate) use write::variable;

#[cfg(test)]
mod tests;
