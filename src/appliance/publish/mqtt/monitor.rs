// SPDX-License-Identifier: Apache-2.0
//! The state of clients, for health, metrics and tests.

use std::sync::Arc;

use super::ConnectionState;
use super::shared::Shared;
use crate::{Sink, SinkCounts};

/// View of the state of an [`MqttSink`](crate::MqttSink), also after the sink was moved elsewhere; or of two, where events and states
/// have a broker each.
#[derive(Debug, Clone)]
pub struct MqttMonitor {
    /// At least one.
    clients: Vec<Arc<Shared>>,
}

impl MqttMonitor {
    pub(super) fn new(client: Arc<Shared>) -> Self {
        Self {
            clients: vec![client],
        }
    }

    /// The state of all MQTT clients among `sinks` that have a monitor; `None`: there is none.
    #[must_use]
    pub fn of_sinks(sinks: &[Box<dyn Sink>]) -> Option<Self> {
        let monitors = sinks.iter().filter_map(|sink| sink.mqtt_monitor());
        let clients: Vec<_> = monitors.flat_map(|monitor| monitor.clients).collect();
        (!clients.is_empty()).then_some(Self { clients })
    }

    /// State of the connection: that of the first client which is not connected.
    #[must_use]
    pub fn connection_state(&self) -> ConnectionState {
        let mut states = self
            .clients
            .iter()
            .map(|client| client.connection_state().clone());
        let away = states.find(|state| *state != ConnectionState::Connected);
        away.unwrap_or(ConnectionState::Connected)
    }

    /// Current message counts.
    #[must_use]
    pub fn counts(&self) -> SinkCounts {
        let clients = self.clients.iter();
        clients.map(|client| client.outbox().counts()).sum()
    }

    /// Messages of QoS 1 that the broker has acknowledged since the start, those about the daemon itself too.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        let clients = self.clients.iter();
        clients.map(|client| client.outbox().acks()).sum()
    }
}
