// SPDX-License-Identifier: Apache-2.0
//! The outputs of a run: sinks, and the embedded broker.

use std::thread;
use std::time::{Duration, SystemTime};

use jetwatch_config::{Broker, Config, FormatKind, MqttConfig};
use jetwatch_platform::{Machine, SysRoot};
use jetwatch_publish::{
    DetectorStatus, EmbeddedBroker, FormatSink, HomeAssistantOptions, JsonLinesSink, MqttMonitor,
    MqttSink, Part, Publication, PublishError, Sink, SinkCounts, WebhookSink, format_of,
};
use jetwatch_record::{EncoderChoice, Recording};
use jetwatch_telemetry::{Heartbeats, Recorder};
use jetwatch_types::Classes;

use super::image_budgets::max_in_flight;
use super::metrics::Metrics;
use super::run_state::RunState;
use super::web::Web;
use super::{PipelineError, RECORDING_CLOSE_TIMEOUT};

/// Version of the program, in messages of other formats.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The sinks of a run, and the embedded broker, to which some of them may publish.
pub(super) struct Sinks {
    pub(super) sinks: Vec<Box<dyn Sink>>,
    pub(super) broker: Option<EmbeddedBroker>,
}

impl Sinks {
    /// Starts the broker and the sinks of the configuration, and those that feed `metrics` and `web`.
    pub(super) fn start(
        config: &Config,
        classes: &Classes,
        heartbeats: &Heartbeats,
        (metrics, web): (&Metrics, &Web),
        run: &RunState,
    ) -> Result<Self, PipelineError> {
        let broker = embedded_broker(config)?;
        let mut sinks = start_sinks(config, classes, broker.as_ref(), heartbeats)?;
        if let Some(monitor) = MqttMonitor::of_sinks(&sinks) {
            let _ = run.mqtt.set(monitor);
        }
        metrics.join_sinks(classes, &mut sinks);
        web.join_sinks(classes, &mut sinks);
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

/// Closes all sinks at once, so that one that waits takes no time from the others; each ends within `timeout`. Returns the counts of
/// each, in their order.
pub(super) fn close_all(sinks: Vec<Box<dyn Sink>>, timeout: Duration) -> Vec<SinkCounts> {
    thread::scope(|scope| {
        let closing: Vec<_> = sinks
            .into_iter()
            .map(|sink| {
                let thread = thread::Builder::new().name("close-sink".to_owned());
                let closing = thread.spawn_scoped(scope, move || sink.close(timeout));
                closing
                    .inspect_err(|error| log::error!("cannot close an output: {error}"))
                    .ok()
            })
            .collect();
        closing
            .into_iter()
            // A panic has been logged by the panic hook.
            .map(|thread| thread.and_then(|thread| thread.join().ok()))
            .map(Option::unwrap_or_default)
            .collect()
    })
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
        let states = mqtt.for_states();
        start_mqtt(
            config,
            &mqtt,
            states.as_ref(),
            classes,
            heartbeats,
            &mut sinks,
        )?;
        for (index, other) in mqtt.also.iter().enumerate() {
            let before = mqtt.also[..index].iter();
            let same = before
                .filter(|before| before.format == other.format)
                .count();
            let format = format_of(other, &config.device, classes, VERSION);
            // Home Assistant reads it.
            let is_state = other.format == FormatKind::Frigate;
            let place = states.as_ref().filter(|_| is_state).unwrap_or(&mqtt);
            let sink = FormatSink::start(place, other, same, format, heartbeats)?;
            sinks.push(Box::new(sink));
        }
    }
    if let Some(json_lines) = &config.publish.json_lines {
        sinks.push(Box::new(JsonLinesSink::start_with_heartbeat(
            json_lines,
            &config.device,
            classes,
            heartbeats,
        )?));
    }
    for webhook in &config.publish.webhooks {
        let sink = WebhookSink::start(webhook, &config.device, classes)?;
        sinks.push(Box::new(sink));
    }
    Ok(sinks)
}

/// Starts one client, or one for events and one for states, the latter after the former.
fn start_mqtt(
    config: &Config,
    mqtt: &MqttConfig,
    states: Option<&MqttConfig>,
    classes: &Classes,
    heartbeats: &Heartbeats,
    sinks: &mut Vec<Box<dyn Sink>>,
) -> Result<(), PublishError> {
    let mut start = |mqtt: &MqttConfig, home_assistant, part| {
        let device = &config.device;
        let sink =
            MqttSink::start_with_heartbeat(mqtt, device, classes, heartbeats, home_assistant, part);
        sink.map(|mut sink| {
            let has_spool = sink.spool_stats().is_some();
            sinks.push(Box::new(sink));
            has_spool
        })
    };
    let home_assistant = Some(home_assistant(config));
    let Some(states) = states else {
        return start(mqtt, home_assistant, Part::Everything).map(|_| ());
    };
    let part = Part::States {
        with_analytics: config.homeassistant.enabled,
        has_spool: start(mqtt, None, Part::Events)?,
    };
    start(states, home_assistant, part).map(|_| ())
}

fn home_assistant(config: &Config) -> HomeAssistantOptions {
    HomeAssistantOptions {
        config: config.homeassistant.clone(),
        has_commands: config.commands.enabled,
        stats_interval: config.publish.stats_interval,
        model: Machine::find(&SysRoot::default()).model,
    }
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

/// Starts the annotated recording, where there is an encoder for it.
pub(super) fn start_recording(
    config: &Config,
    encoder: Option<EncoderChoice>,
    length: Option<Duration>,
    recorder: &Recorder,
) -> Result<Option<Recording>, PipelineError> {
    let Some(encoder) = encoder else {
        return Ok(None);
    };
    let names = config.sources.iter().map(|source| source.name.clone());
    let recording = Recording::start(
        encoder,
        names.collect(),
        recorder.clone(),
        max_in_flight(config),
        RECORDING_CLOSE_TIMEOUT,
    )?;
    Ok(Some(recording.limited_to(length)))
}
