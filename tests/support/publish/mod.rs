// SPDX-License-Identifier: Apache-2.0
//! Shared by the integration tests of publishing: brokers, breaking connections, messages.

pub mod clients;
pub mod mosquitto;
pub mod proxy;
pub mod records;
pub mod scripted;
