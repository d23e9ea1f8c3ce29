//! `jetwatch check`: does what the configuration names work, here and now?

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use crossbeam_channel::{RecvTimeoutError, bounded};

use crate::config::{Broker, Config, SourceConfig};
use crate::detect::{self, Prepared};
use crate::publish;
use crate::source::{self, Flow, SourceContext, StopToken};
use crate::telemetry::{self, Recorder};
use crate::types::SourceState;

use super::Exit;
use super::lines::Lines;

/// What `jetwatch check` is told.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// Configuration file.
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "/etc/jetwatch/jetwatch.yaml"
    )]
    config: PathBuf,
    /// Check the file alone: open no model, source or broker.
    #[arg(long)]
    file_only: bool,
}

/// Longest that a broker may take to answer.
const BROKER_TIMEOUT: Duration = Duration::from_secs(5);

/// Checks everything, says each result on a line of its own, and fails when one is wrong.
pub(super) fn run(args: &CheckArgs) -> anyhow::Result<Exit> {
    let config = Config::load(&args.config)?;
    telemetry::start_logging(log::LevelFilter::Error);
    let mut lines = Lines::default();
    lines.ok(
        "config",
        &format!(
            "{}: {} source(s), device {}",
            args.config.display(),
            config.sources.len(),
            config.device
        ),
    );
    if !args.file_only {
        let prepared = check_detector(&config, &mut lines);
        for source in &config.sources {
            check_source(source, prepared.as_ref(), &mut lines);
        }
        check_broker(&config, &mut lines);
    }
    Ok(lines.exit())
}

fn check_detector(config: &Config, lines: &mut Lines) -> Option<Prepared> {
    let started = Instant::now();
    let prepared = detect::prepare(&config.detector, &Recorder::default()).and_then(|prepared| {
        prepared.make_detector(0)?;
        Ok(prepared)
    });
    match prepared {
        Ok(prepared) => {
            let text = format!(
                "{}, {} labels, loaded in {} ms",
                prepared.describe(),
                prepared.labels().len(),
                started.elapsed().as_millis()
            );
            lines.ok("detector", &text);
            Some(prepared)
        }
        Err(error) => {
            lines.wrong("detector", &error.to_string());
            None
        }
    }
}

fn check_source(source: &SourceConfig, prepared: Option<&Prepared>, lines: &mut Lines) {
    let what = format!("source {}", source.name);
    match first_frame(source, prepared) {
        Ok((size, waited)) => lines.ok(
            &what,
            &format!("{size} pixels, first frame after {} ms", waited.as_millis()),
        ),
        Err(reason) => lines.wrong(&what, &reason),
    }
}

/// Opens the source and waits for one frame; its size and the time it took, or why there is none.
fn first_frame(
    source: &SourceConfig,
    prepared: Option<&Prepared>,
) -> Result<(crate::types::Size, Duration), String> {
    let (found, results) = bounded(1);
    let (frame_found, trouble_found) = (found.clone(), found);
    let stop = StopToken::default();
    let context = SourceContext::alone(
        &source.name,
        prepared.map_or(detect::scripted::INPUT, Prepared::input_size),
        prepared.map_or_else(Default::default, Prepared::placement),
        &stop,
        Arc::new(move |frame| {
            let _ = frame_found.try_send(Ok(frame.meta.source_size));
            Flow::Stop
        }),
        Arc::new(move |_, state, reason| {
            if state == SourceState::Offline {
                let _ = trouble_found.try_send(Err(reason.unwrap_or_else(|| "offline".to_owned())));
            }
        }),
    );
    let started = Instant::now();
    let handle = source::start(source, context)
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    let result = match results.recv_timeout(source.stall_timeout + Duration::from_secs(1)) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => Err(format!(
            "no frame within {} ms",
            source.stall_timeout.as_millis()
        )),
        Err(RecvTimeoutError::Disconnected) => Err("it ended without a frame".to_owned()),
    };
    let waited = started.elapsed();
    stop.stop();
    // Its own error is already in `result`.
    let _ = handle.join();
    result.map(|size| (size, waited))
}

fn check_broker(config: &Config, lines: &mut Lines) {
    let Some(mqtt) = &config.publish.mqtt else {
        return;
    };
    match &mqtt.broker {
        Broker::Embedded { listen } => {
            match publish::EmbeddedBroker::start(*listen, mqtt.credentials.as_ref()) {
                Ok(broker) => {
                    broker.stop();
                    lines.ok("broker", &format!("embedded, {listen} is free"));
                }
                Err(error) => lines.wrong("broker", &error.to_string()),
            }
        }
        Broker::Url { host, port, .. } => match publish::probe(mqtt, BROKER_TIMEOUT) {
            Ok(_) => lines.ok(
                "broker",
                &format!("{host}:{port} accepts us as {}", mqtt.client_id),
            ),
            Err(error) => lines.wrong("broker", &error.to_string()),
        },
    }
}
