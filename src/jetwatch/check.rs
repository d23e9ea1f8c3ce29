// SPDX-License-Identifier: Apache-2.0
//! `jetwatch check`: checks that what the configuration names works on this machine.

mod metrics;
mod opened;
mod outputs;
mod record;
mod schedules;
mod web;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use jetwatch_config::{
    Broker, CameraMotionModel, Config, DetectorConfig, EngineBuild, Interval, MqttConfig,
    RecordConfig, SourceConfig, SourceUri,
};
use jetwatch_detect::{self as detect, DetectorFactory};
use jetwatch_doctor::{CheckReport, CheckResult, Facts, check_offline, check_recorded};
use jetwatch_pipeline as pipeline;
use jetwatch_platform::{Machine, Process, SysRoot};
use jetwatch_publish as publish;
use jetwatch_source::{NvmmReader, ProcessingPlan, gst};
use jetwatch_telemetry::{self as telemetry, Recorder};
use serde_json::json;

use super::doctor::print_result;
use super::facts;
use super::{CONFIG_FILE, Exit};

/// Arguments of `jetwatch check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// Configuration file.
    #[arg(short, long, value_name = "FILE", default_value = CONFIG_FILE)]
    config: PathBuf,
    /// The same as --config.
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// Check the file only: open no model, source or broker.
    #[arg(long)]
    file_only: bool,
    /// Check the file and its networks only: open no source or broker. A missing engine is built.
    #[arg(long, conflicts_with_all = ["file_only", "offline"])]
    models: bool,
    /// With --models: a model folder whose recorded detections the detector must find again, where it uses this folder; a missing record is a failure, and one of other test images.
    #[arg(long, value_name = "DIR", requires = "models")]
    prove: Vec<PathBuf>,
    /// Judge the file by the facts of a box: open no source, broker or library.
    #[arg(long, conflicts_with = "file_only")]
    offline: bool,
    /// With --offline: the facts, written on the box by `jetwatch facts`; by default those of this machine.
    #[arg(long, value_name = "FILE", requires = "offline")]
    facts: Option<PathBuf>,
    /// Print the results as JSON, in place of lines.
    #[arg(long)]
    json: bool,
    /// Use this folder as the system's root, for tests.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

/// Timeout of the connection to the broker.
const BROKER_TIMEOUT: Duration = Duration::from_secs(5);

/// Largest picture that is published, with its packet.
const MAX_PICTURE_BYTES: usize = 257 << 10;

/// Frames per second through the network below which tracks with an interval lose objects that move.
const MIN_DETECTED_FPS: f32 = 5.0;

/// Checks everything, prints one line per result, and fails when one check failed.
pub(super) fn run(args: &CheckArgs) -> anyhow::Result<Exit> {
    let path = args.file.as_ref().unwrap_or(&args.config);
    let mut lines = CheckReport::new(match args.json {
        true => |_: &CheckResult| {},
        false => print_result,
    });
    let mut config = match Config::load(path) {
        Err(error) if args.json => {
            lines.failed("config", &error.to_string());
            print_json(&lines);
            return Ok(Exit::Config);
        }
        loaded => loaded?,
    };
    if args.models {
        config.detector.tensorrt.build = EngineBuild::Allow;
    }
    telemetry::start_logging(log::LevelFilter::Error);
    lines.ok(
        "config",
        &format!(
            "{}: {} source(s), device {}",
            path.display(),
            config.sources.len(),
            config.device
        ),
    );
    for note in &config.notes {
        lines.unknown("config", note);
    }
    schedules::check(&config, SystemTime::now(), &mut lines);
    if args.offline {
        let facts = match &args.facts {
            Some(path) => Facts::load(path)?,
            None => facts::collect(&SysRoot::new(&args.root)),
        };
        check_offline(&config, &facts, &mut lines);
        for source in &config.sources {
            check_interval(source, &config.detector, &mut lines);
        }
    } else if !args.file_only {
        let prepared = check_detector(&config, &mut lines);
        if let Some(prepared) = &prepared {
            for unknown in pipeline::unknown_labels(&config, prepared.classes()) {
                lines.failed("labels", &unknown.to_string());
            }
            for missing in pipeline::missing_group_labels(&config, prepared.classes()) {
                lines.unknown("labels", &missing.to_string());
            }
            if let Some(renamed) = pipeline::renamed_labels(&config, prepared.classes()) {
                lines.ok("labels", &renamed.to_string());
            }
            check_secondary(&config, prepared, &mut lines);
            check_recorded(&config, &args.prove, &mut lines);
        }
        if !args.models {
            check_machine(&config, prepared.as_ref(), &args.root, &mut lines);
        }
    }
    if args.json {
        print_json(&lines);
    }
    Ok(Exit::from_checks(lines.is_ok()))
}

fn print_json(lines: &CheckReport) {
    let document = json!({ "ok": lines.is_ok(), "results": lines.all() });
    println!("{document:#}");
}

/// Checks what is outside of the file and its networks: sources, brokers, folders and addresses.
fn check_machine(
    config: &Config,
    prepared: Option<&DetectorFactory>,
    root: &Path,
    lines: &mut CheckReport,
) {
    let root = SysRoot::new(root);
    let machine = Arc::new(Machine::find(&root));
    lines.ok("machine", &machine.describe());
    for note in &machine.notes {
        lines.unknown("machine", note);
    }
    let context = CheckContext {
        surfaces: prepared.and_then(|prepared| check_surfaces(config, prepared, &machine, lines)),
        machine,
        record: config.record.clone(),
    };
    for source in &config.sources {
        check_source(source, prepared, &context, lines);
        if let Some(checked) = pipeline::check_motion(source) {
            let what = format!("motion {}", source.name);
            match checked {
                Ok(device) => lines.ok(
                    &what,
                    &format!("{device} takes a subscription to its events"),
                ),
                Err(error) => lines.failed(&what, &error),
            }
        }
        check_interval(source, &config.detector, lines);
    }
    check_broker(config, &root, lines);
    check_spool(config, lines);
    record::check(config, lines);
    record::check_pictures(config, lines);
    outputs::check_json_lines(config, lines);
    outputs::check_webhooks(config, lines);
    metrics::check(config, &root, lines);
    web::check(config, &root, lines);
}

fn check_detector(config: &Config, report: &mut CheckReport) -> Option<DetectorFactory> {
    let started = Instant::now();
    let load = || -> Result<DetectorFactory, pipeline::PipelineError> {
        let prepared = detect::load(&config.detector, &Recorder::default())?;
        prepared.create(0)?;
        pipeline::check_boxes(&prepared)?;
        Ok(prepared)
    };
    match load() {
        Ok(prepared) => {
            let text = format!(
                "{}, {} labels, loaded in {} ms",
                prepared.describe(),
                prepared.labels().len(),
                started.elapsed().as_millis()
            );
            report.ok("detector", &text);
            Some(prepared)
        }
        Err(error) => {
            report.failed("detector", &error.to_string());
            None
        }
    }
}

/// Checks that the secondary networks can be opened, and fit their parent detectors.
fn check_secondary(config: &Config, prepared: &DetectorFactory, report: &mut CheckReport) {
    match pipeline::prepare_secondary(config, prepared.classes()) {
        Ok(networks) => {
            for network in networks {
                report.ok(
                    &format!("secondary {}", network.name()),
                    &network.describe(),
                );
            }
        }
        Err(problems) => {
            let (first, others) = *problems;
            for problem in [first].into_iter().chain(others) {
                report.failed("secondary", &problem.to_string());
            }
        }
    }
}

/// Environment for opening sources.
struct CheckContext {
    machine: Arc<Machine>,
    /// Present where images stay in NVMM.
    surfaces: Option<Arc<NvmmReader>>,
    record: RecordConfig,
}

impl CheckContext {
    /// Whether the sound of `source` is kept with its video.
    fn keeps_sound(&self, source: &SourceConfig) -> bool {
        self.keeps(source) && self.record.has_audio(source)
    }

    /// Whether video of `source` is kept.
    fn keeps(&self, source: &SourceConfig) -> bool {
        self.record.has_clips(source) || self.record.is_continuous(source)
    }
}

/// Whether the detector reads a Jetson's images in NVMM directly; no output on other machines.
fn check_surfaces(
    config: &Config,
    prepared: &DetectorFactory,
    machine: &Machine,
    report: &mut CheckReport,
) -> Option<Arc<NvmmReader>> {
    let release = machine.release?;
    if config.tracker.camera_motion != CameraMotionModel::Off {
        report.ok(
            "images",
            "copied out of NVMM: tracker.camera_motion reads them on the CPU",
        );
        return None;
    }
    match prepared.surfaces(Some(release.major)) {
        Ok(Some(surfaces)) => {
            report.ok("images", "read by the GPU in NVMM, without a copy");
            Some(surfaces)
        }
        Ok(None) => None,
        Err(error) => {
            report.unknown("images", &error.to_string());
            None
        }
    }
}

/// Prints the expected plan, opens the source, and prints the plan that its pipeline uses.
fn check_source(
    source: &SourceConfig,
    prepared: Option<&DetectorFactory>,
    host: &CheckContext,
    report: &mut CheckReport,
) {
    let (what, plan) = (
        format!("source {}", source.name),
        format!("plan {}", source.name),
    );
    let input = prepared.map_or(detect::scripted::INPUT, DetectorFactory::input_size);
    let placement = prepared.map_or_else(Default::default, DetectorFactory::placement);
    let expected = match gst::predict_plan(source, &host.machine, input, placement) {
        Ok(expected) => expected,
        // Opening the source would fail in the same way.
        Err(error) => return report.failed(&plan, &error.to_string()),
    };
    match opened::open(source, input, placement, host) {
        Ok(opened) => {
            let waited = opened.waited.as_millis();
            let text = format!("{} pixels, first frame after {waited} ms", opened.size);
            report.ok(&what, &text);
            if host.keeps(source) && !opened.has_stream {
                report.failed(&what, &opened::no_stream(source));
            }
            if host.keeps_sound(source) {
                let what = format!("sound {}", source.name);
                match opened::sound(opened.sound.as_ref()) {
                    Ok(text) => report.ok(&what, &text),
                    Err(text) => report.unknown(&what, &text),
                }
            }
            // A synthetic source has no GStreamer pipeline and reports no plan.
            add_plan(&plan, &opened.plan.unwrap_or(expected), report);
        }
        Err(reason) => {
            report.failed(&what, &reason);
            let text = format!("expected, not verified: {expected}");
            report.unknown(&plan, &text);
        }
    }
}

fn check_interval(source: &SourceConfig, detector: &DetectorConfig, report: &mut CheckReport) {
    if let Some(note) = few_detections(source, detector.interval_of(source)) {
        report.unknown(&format!("interval {}", source.name), &note);
    }
}

/// A note where so few frames go through the network that tracks of moving objects break. The rate is that of `max_fps` or of a
/// synthetic source; of others it is not known before they run for a while.
fn few_detections(source: &SourceConfig, interval: Interval) -> Option<String> {
    let Interval::Frames(interval) = interval else {
        return None;
    };
    let own = match &source.uri {
        SourceUri::Synthetic(scene) => Some(scene.fps as f32),
        _ => None,
    };
    let rate = [own, source.max_fps]
        .into_iter()
        .flatten()
        .reduce(f32::min)?;
    let detected = rate / (interval as f32 + 1.0);
    (interval > 0 && detected < MIN_DETECTED_FPS).then(|| {
        format!(
            "with interval {interval} only {detected:.1} of {rate:.0} frames/s go through the network, expected {MIN_DETECTED_FPS:.0} or \
             more: tracks of moving objects break; lower the interval"
        )
    })
}

fn add_plan(what: &str, plan: &ProcessingPlan, report: &mut CheckReport) {
    report.ok(what, &plan.to_string());
    for note in &plan.notes {
        report.ok(what, note);
    }
}

/// The check before a restart finds the daemon that is to be restarted.
fn is_daemon_running(root: &SysRoot) -> bool {
    Process::running(root, "jetwatch", "run").is_ok_and(|daemons| !daemons.is_empty())
}

fn check_spool(config: &Config, report: &mut CheckReport) {
    let Some(mqtt) = &config.publish.mqtt else {
        return;
    };
    match publish::check_spool(mqtt) {
        publish::SpoolCheck::Ok(text) => report.ok("spool", &text),
        publish::SpoolCheck::Unknown(text) => report.unknown("spool", &text),
        publish::SpoolCheck::Failed(text) => report.failed("spool", &text),
    }
}

fn check_broker(config: &Config, root: &SysRoot, report: &mut CheckReport) {
    let Some(mqtt) = &config.publish.mqtt else {
        return;
    };
    if let Some(states) = mqtt.for_states() {
        check_remote_brokers(config, &states, "broker for states", report);
    }
    match &mqtt.broker {
        Broker::Embedded { listen } => match publish::EmbeddedBroker::start_for(mqtt, *listen) {
            Ok(broker) => {
                broker.stop();
                report.ok("broker", &format!("embedded, {listen} is free"));
            }
            Err(error) if error.is_units_alone() => report.unknown("broker", &error.to_string()),
            Err(publish::PublishError::PortInUse { .. }) if is_daemon_running(root) => {
                let text = format!("embedded, {listen} is in use while a jetwatch daemon runs");
                report.ok("broker", &text);
            }
            Err(error) => report.failed("broker", &error.to_string()),
        },
        Broker::Url { .. } => check_remote_brokers(config, mqtt, "broker", report),
    }
}

/// The daemon runs where one of the brokers accepts the connection.
fn check_remote_brokers(config: &Config, mqtt: &MqttConfig, what: &str, report: &mut CheckReport) {
    let brokers = mqtt.for_each_broker();
    let is_for_events = what == "broker";
    let homeassistant = &config.homeassistant;
    let options = publish::RehearsalOptions {
        has_events: is_for_events,
        has_states: !is_for_events || mqtt.states.is_none(),
        discovery: (is_for_events && homeassistant.enabled).then_some(&homeassistant.prefix),
        has_commands: config.commands.enabled,
        picture_bytes: match config.record.snapshots.mqtt {
            true => MAX_PICTURE_BYTES,
            false => 0,
        },
    };
    let answers: Vec<_> = brokers
        .iter()
        .map(|broker| publish::rehearse(broker, &config.device, options, BROKER_TIMEOUT))
        .collect();
    let is_one_there = answers.iter().any(Result::is_ok);
    for answer in answers {
        match answer {
            Ok(publish::Rehearsal {
                info,
                missing,
                denied,
            }) => {
                let (address, protocol) = (&info.address, info.protocol);
                let text = format!(
                    "{address} speaks MQTT {protocol} and accepts the client id {}",
                    info.client_id
                );
                report.ok(what, &text);
                if protocol == "3.1.1" {
                    let text = "MQTT 3.1.1 has no answer that says which topics are denied: only one below check/ was tried";
                    report.ok(what, text);
                }
                for note in missing.iter().chain(&denied) {
                    report.unknown(what, &format!("{address}: {note}"));
                }
            }
            Err(error) if error.is_units_alone() => report.unknown(what, &error.to_string()),
            Err(error) if is_one_there => {
                let text = format!("{error}; another broker of the list accepts the connection");
                report.unknown(what, &text);
            }
            Err(error) => report.failed(what, &error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_detections_are_noted_with_an_interval_only() {
        let note = |source: &str, interval: u32| {
            let text = format!("sources: [{{name: a, {source}}}]\ndetector: {{model: models/x}}\n");
            let mut config = Config::from_str("f.yaml", &text).expect("a good file");
            config.detector.interval = Interval::Frames(interval);
            let source = &config.sources[0];
            few_detections(source, config.detector.interval_of(source))
        };
        let scene = "uri: 'synthetic://traffic?fps=15'";
        let found = note(scene, 3).expect("3.75 frames/s are few");
        assert!(found.contains("only 3.8 of 15 frames/s"), "{found}");
        assert_eq!(note(scene, 2), None, "5 are enough");
        assert_eq!(note("uri: 'synthetic://traffic?fps=4'", 0), None);
        assert_eq!(note("uri: 'rtsp://camera/1'", 9), None, "unknown");
        assert!(note("uri: 'rtsp://camera/1', max_fps: 10", 3).is_some());
        assert!(note("uri: 'rtsp://camera/1', max_fps: 10, interval: 1", 3).is_none());
    }
}
