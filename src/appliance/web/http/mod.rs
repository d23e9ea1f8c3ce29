// SPDX-License-Identifier: Apache-2.0
//! Requests and answers: who asks, for what, and what is answered. [`Service`] is the entry; `server.rs` calls it.

mod assets;
mod body;
mod downloads;
mod limits;
mod lists;
mod login;
mod request;
mod response;
mod router;
mod service;
mod shares;
mod streams;

pub(super) use self::limits::WorkThreads;
pub use self::router::{EndpointSummary, endpoints};
pub(super) use self::service::Service;
pub(super) use self::streams::MAX_ENCODED;

/// A client on this machine.
#[cfg(test)]
fn test_peer() -> jetwatch_http::Peer {
    jetwatch_http::Peer {
        address: std::net::Ipv4Addr::LOCALHOST.into(),
        is_tls: false,
        streams: std::sync::Arc::default(),
    }
}
