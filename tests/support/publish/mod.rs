//! What the integration tests of publishing share: brokers, breaking connections, records.

pub mod mosquitto;
pub mod proxy;
pub mod records;
