// SPDX-License-Identifier: Apache-2.0
//! Requests and answers: who asks, for what, and what is answered. [`Service`] is the entry; `server.rs` calls it.

mod assets;
mod body;
mod downloads;
mod limits;
mod lists;
mod login;
mod password;
mod request;
mod response;
mod router;
mod service;
mod streams;
mod tls;
mod write_timeout;

pub(super) use self::limits::WorkThreads;
pub(super) use self::request::Peer;
pub use self::router::{EndpointSummary, endpoints};
pub(super) use self::service::Service;
pub(super) use self::streams::MAX_ENCODED;
pub(super) use self::tls::acceptor;
pub(super) use self::write_timeout::WriteTimeout;
