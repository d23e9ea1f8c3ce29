//! Where tracks go: the sinks of a configuration, and the broker inside the daemon.

use jetwatch_config::{Broker, Config, MqttConfig};
use jetwatch_publish::{EmbeddedBroker, JsonLinesSink, MqttSink, Sink};
use jetwatch_telemetry::Heartbeats;

use super::PipelineError;

pub(super) fn embedded_broker(config: &Config) -> Result<Option<EmbeddedBroker>, PipelineError> {
    let Some(mqtt) = &config.publish.mqtt else {
        return Ok(None);
    };
    let Broker::Embedded { listen } = mqtt.broker else {
        return Ok(None);
    };
    Ok(Some(EmbeddedBroker::start(
        listen,
        mqtt.credentials.as_ref(),
    )?))
}

pub(super) fn start_sinks(
    config: &Config,
    labels: &[String],
    broker: Option<&EmbeddedBroker>,
    pulses: &Heartbeats,
) -> Result<Vec<Box<dyn Sink>>, PipelineError> {
    let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
    if let Some(mqtt) = &config.publish.mqtt {
        let mqtt = with_bound_address(mqtt, broker);
        sinks.push(Box::new(MqttSink::start_with_heartbeat(
            &mqtt,
            &config.device,
            labels,
            pulses,
        )?));
    }
    if let Some(json_lines) = &config.publish.json_lines {
        sinks.push(Box::new(JsonLinesSink::start_with_heartbeat(
            json_lines,
            &config.device,
            labels,
            pulses,
        )?));
    }
    Ok(sinks)
}

/// The client's settings, with the address where the broker inside the daemon really listens.
pub(super) fn with_bound_address(mqtt: &MqttConfig, broker: Option<&EmbeddedBroker>) -> MqttConfig {
    let mut mqtt = mqtt.clone();
    if let Some(broker) = broker {
        // Port 0 in the configuration becomes the port that was given.
        mqtt.broker = Broker::Embedded {
            listen: broker.local_addr(),
        };
    }
    mqtt
}
