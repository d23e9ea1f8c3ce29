//! `jetwatch check`: does what the configuration names work, here and now?

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};

use jetwatch_config::{Broker, Config, SourceConfig, SourceUri};
use jetwatch_detect::{self as detect, Prepared};
use jetwatch_pipeline as pipeline;
use jetwatch_platform::{Machine, Root};
use jetwatch_publish as publish;
use jetwatch_source::{self as source, Flow, Plan, SourceContext, StopToken, Surfaces};
use jetwatch_telemetry::{self as telemetry, Recorder};
use jetwatch_types::{Placement, Size, SourceState};

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
    /// Folder that stands for the whole system, for tests.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
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
        let machine = Arc::new(Machine::find(&Root::new(&args.root)));
        lines.ok("machine", &machine.describe());
        for note in &machine.notes {
            lines.unknown("machine", note);
        }
        let place = Place {
            surfaces: prepared
                .as_ref()
                .and_then(|prepared| check_surfaces(prepared, &machine, &mut lines)),
            machine,
        };
        if let Some(prepared) = &prepared {
            for unknown in pipeline::unknown_labels(&config, prepared.labels()) {
                lines.wrong("labels", &unknown.to_string());
            }
        }
        for source in &config.sources {
            check_source(source, prepared.as_ref(), &place, &mut lines);
        }
        if let Some(prepared) = &prepared {
            check_secondary(&config, prepared, &mut lines);
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

/// Whether the secondary networks can be opened, and fit what they stand on.
fn check_secondary(config: &Config, prepared: &Prepared, lines: &mut Lines) {
    match pipeline::prepare_secondary(config, prepared.labels()) {
        Ok(networks) => {
            for network in networks {
                lines.ok(
                    &format!("secondary {}", network.name()),
                    &network.describe(),
                );
            }
        }
        Err(problems) => {
            let (first, others) = *problems;
            for problem in [first].into_iter().chain(others) {
                lines.wrong("secondary", &problem.to_string());
            }
        }
    }
}

/// What sources are opened on.
struct Place {
    machine: Arc<Machine>,
    /// There where pictures stay in NVMM.
    surfaces: Option<Arc<Surfaces>>,
}

/// Whether the detector reads a Jetson's pictures where the VIC leaves them; no word about it on other machines.
fn check_surfaces(
    prepared: &Prepared,
    machine: &Machine,
    lines: &mut Lines,
) -> Option<Arc<Surfaces>> {
    let release = machine.release?;
    match prepared.surfaces(Some(release.major)) {
        Ok(Some(surfaces)) => {
            lines.ok("pictures", "read by the GPU where the VIC leaves them");
            Some(surfaces)
        }
        Ok(None) => None,
        Err(error) => {
            lines.unknown("pictures", &error.to_string());
            None
        }
    }
}

/// What one source gave: the size of its pictures, how long the first took, and who did what.
struct Opened {
    size: Size,
    waited: Duration,
    plan: Option<Plan>,
}

/// What is heard from a source that is opened.
enum News {
    Frame(Size),
    Plan(Plan),
    Trouble(String),
}

/// Expects a plan, opens the source, and says what its pipeline really made of the plan.
fn check_source(
    source: &SourceConfig,
    prepared: Option<&Prepared>,
    place: &Place,
    lines: &mut Lines,
) {
    let (what, plan) = (
        format!("source {}", source.name),
        format!("plan {}", source.name),
    );
    let input = prepared.map_or(detect::scripted::INPUT, Prepared::input_size);
    let placement = prepared.map_or_else(Default::default, Prepared::placement);
    let expected = match source::gst::expect(source, &place.machine, input, placement) {
        Ok(expected) => expected,
        // It would fail in the same way when it is opened.
        Err(error) => return lines.wrong(&plan, &error.to_string()),
    };
    match open(source, input, placement, place) {
        Ok(opened) => {
            let waited = opened.waited.as_millis();
            let text = format!("{} pixels, first frame after {waited} ms", opened.size);
            lines.ok(&what, &text);
            // A source that jetwatch draws has no pipeline to be asked.
            print_plan(&plan, &opened.plan.unwrap_or(expected), lines);
        }
        Err(reason) => {
            lines.wrong(&what, &reason);
            let text = format!("expected, as nothing was seen: {expected}");
            lines.unknown(&plan, &text);
        }
    }
}

fn print_plan(what: &str, plan: &Plan, lines: &mut Lines) {
    lines.ok(what, &plan.to_string());
    for note in &plan.notes {
        lines.ok(what, note);
    }
}

/// Opens the source and waits for one frame, and for the plan of its pipeline; or why there is none.
fn open(
    source: &SourceConfig,
    input: Size,
    placement: Placement,
    place: &Place,
) -> Result<Opened, String> {
    let (news, heard) = unbounded();
    let (frame_news, plan_news) = (news.clone(), news.clone());
    let is_seen = AtomicBool::new(false);
    let stop = StopToken::default();
    let mut context = SourceContext::alone(
        &source.name,
        input,
        placement,
        &stop,
        Arc::new(move |frame| {
            // One is enough; that it goes on until it is stopped tells an end of its own from ours. Its number does not tell which
            // is the first: a picture that could not be read in place had one too.
            if !is_seen.swap(true, Ordering::Relaxed) {
                let _ = frame_news.send(News::Frame(frame.meta.source_size));
            }
            Flow::Continue
        }),
        Arc::new(move |_, state, reason| {
            if state == SourceState::Offline {
                let trouble = reason.unwrap_or_else(|| "offline".to_owned());
                let _ = news.send(News::Trouble(trouble));
            }
        }),
    );
    context.machine = Arc::clone(&place.machine);
    context.surfaces.clone_from(&place.surfaces);
    context.on_plan = Arc::new(move |plan| {
        let _ = plan_news.send(News::Plan(plan.clone()));
    });
    let started = Instant::now();
    let handle = source::start(source, context)
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    let result = listen(&heard, source, started);
    stop.stop();
    // Its own error is already in `result`.
    let _ = handle.join();
    // A plan that the configuration does not accept comes after its frame.
    let late = heard.try_iter().find_map(|news| match news {
        News::Trouble(reason) => Some(reason),
        News::Frame(_) | News::Plan(_) => None,
    });
    match late {
        Some(reason) if result.is_ok() => Err(reason),
        _ => result,
    }
}

fn listen(
    heard: &Receiver<News>,
    source: &SourceConfig,
    started: Instant,
) -> Result<Opened, String> {
    let patience = source.first_frame_timeout();
    let end = started + patience + Duration::from_secs(1);
    // What is drawn has no pipeline, and tells no plan.
    let has_plan = !matches!(source.uri, SourceUri::Synthetic(_));
    let (mut seen, mut plan) = (None, None);
    loop {
        match heard.recv_deadline(end) {
            Ok(News::Frame(size)) => seen = seen.or(Some((size, started.elapsed()))),
            Ok(News::Plan(found)) => plan = Some(found),
            Ok(News::Trouble(reason)) => return Err(reason),
            Err(RecvTimeoutError::Timeout) => {
                let waited = patience.as_millis();
                return Err(format!("no frame within {waited} ms"));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err("it ended without a frame".to_owned());
            }
        }
        if let Some((size, waited)) = seen
            && (plan.is_some() || !has_plan)
        {
            return Ok(Opened { size, waited, plan });
        }
    }
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
                Err(error) if error.is_units_alone() => lines.unknown("broker", &error.to_string()),
                Err(error) => lines.wrong("broker", &error.to_string()),
            }
        }
        Broker::Url { host, port, .. } => match publish::probe(mqtt, BROKER_TIMEOUT) {
            Ok(_) => lines.ok(
                "broker",
                &format!("{host}:{port} accepts us as {}", mqtt.client_id),
            ),
            Err(error) if error.is_units_alone() => lines.unknown("broker", &error.to_string()),
            Err(error) => lines.wrong("broker", &error.to_string()),
        },
    }
}
