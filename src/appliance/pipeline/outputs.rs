//! The outputs of a run: sinks, and the embedded broker.

use std::time::SystemTime;

use jetwatch_config::{Broker, Config, MqttConfig};
use jetwatch_publish::{
    DetectorStatus, EmbeddedBroker, JsonLinesSink, MqttSink, Publication, Sink,
};
use jetwatch_telemetry::Heartbeats;
use jetwatch_types::Classes;

use super::PipelineError;

/// The sinks of a run, and the embedded broker, to which some of them may publish.
pub(super) struct Sinks {
    pub(super) sinks: Vec<Box<dyn Sink>>,
    pub(super) broker: Option<EmbeddedBroker>,
}

impl Sinks {
    /// Starts the broker and the sinks of the configuration.
    pub(super) fn start(
        config: &Config,
        classes: &Classes,
        heartbeats: &Heartbeats,
    ) -> Result<Self, PipelineError> {
        let broker = embedded_broker(config)?;
        let sinks = start_sinks(config, classes, broker.as_ref(), heartbeats)?;
        Ok(Self { sinks, broker })
    }

    /// Publishes the status of the detector.
    pub(super) fn publish(&mut self, status: &DetectorStatus) {
        let publication = Publication::Detector {
            status,
            at: SystemTime::now(),
        };
        for sink in &mut self.sinks {
            sink.publish(&publication);
        }
    }
}

/// Starts the embedded broker, where the configuration has one.
///
/// # Errors
/// Its address cannot be bound, or a thread cannot be started.
pub fn embedded_broker(config: &Config) -> Result<Option<EmbeddedBroker>, PipelineError> {
    let Some(mqtt) = &config.publish.mqtt else {
        return Ok(None);
    };
    let Broker::Embedded { listen } = mqtt.broker else {
        return Ok(None);
    };
    Ok(Some(EmbeddedBroker::start_for(mqtt, listen)?))
}

/// Starts the sinks of the configuration; MQTT connects to `broker` where there is one.
///
/// # Errors
/// A sink cannot be started.
pub fn start_sinks(
    config: &Config,
    classes: &Classes,
    broker: Option<&EmbeddedBroker>,
    heartbeats: &Heartbeats,
) -> Result<Vec<Box<dyn Sink>>, PipelineError> {
    let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
    if let Some(mqtt) = &config.publish.mqtt {
        let mqtt = with_bound_address(mqtt, broker);
        sinks.push(Box::new(MqttSink::start_with_heartbeat(
            &mqtt,
            &config.device,
            classes,
            heartbeats,
        )?));
    }
    if let Some(json_lines) = &config.publish.json_lines {
        sinks.push(Box::new(JsonLinesSink::start_with_heartbeat(
            json_lines,
            &config.device,
            classes,
            heartbeats,
        )?));
    }
    Ok(sinks)
}

/// The settings of an MQTT client, with the address to which the embedded broker is bound.
pub(super) fn with_bound_address(mqtt: &MqttConfig, broker: Option<&EmbeddedBroker>) -> MqttConfig {
    let mut mqtt = mqtt.clone();
    if let Some(broker) = broker {
        // Port 0 in the configuration becomes the port that the system chose.
        mqtt.broker = Broker::Embedded {
            listen: broker.local_addr(),
        };
    }
    mqtt
}
