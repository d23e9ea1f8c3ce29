// SPDX-License-Identifier: Apache-2.0
//! `jetwatch demo`: runs the whole pipeline, prints its messages as a subscriber receives them, offers its page, and leaves an
//! annotated video.

use std::collections::BTreeMap;
use std::io::{ErrorKind, IsTerminal, Write, stdout};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;

use jetwatch_config::{Backend, Broker, Config, Interval, MqttConfig, SourceUri, SyntheticScene};
use jetwatch_detect::model::ModelSpec;
use jetwatch_eval::io::write;
use jetwatch_pipeline::{FrameCallback, Options, Pipeline};
use jetwatch_publish::Subscriber;
use jetwatch_record::{Recording, RenderError};
use jetwatch_telemetry as telemetry;
use jetwatch_traffic::{Score, Scorer, synthetic_factory};

use super::{Exit, first_model, parse_duration, progress, run, signals};

/// The default scene.
const SCENE: &str = "synthetic://traffic?seed=1&objects=8&width=640&height=360&fps=30";

/// Default port of an MQTT broker.
const BROKER_PORT: u16 = 1883;

/// Port of the page, as in the documents.
const PAGE_PORT: u16 = 8080;

/// Duration where no one can end the demo by Ctrl-C.
const UNATTENDED_DURATION: Duration = Duration::from_secs(20);

/// Length of the annotated video: a camera may be looked at for hours.
const VIDEO_LENGTH: Duration = Duration::from_secs(60);

/// Interval of track updates: short enough to show movement, long enough to read.
const UPDATE_INTERVAL: Duration = Duration::from_secs(2);

/// Arguments of `jetwatch demo`.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Any source: a video file, rtsp://…, v4l2:///dev/video0, synthetic://…
    #[arg(long, default_value = SCENE)]
    source: String,
    /// Model folder with its model.yaml. Without one, a video or camera gets a network of the catalogue, which is fetched if it
    /// is not on this machine, and a synthetic source its ground truth.
    #[arg(long, value_name = "DIR")]
    model: Option<String>,
    /// Stop after this time, such as 20s or 5m. Default: in a terminal, Ctrl-C stops it; elsewhere 20s.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Write the first minute with boxes, labels and trajectories to this video: .mp4, .mkv or .webm. Default: demo.mp4, or demo.webm without an encoder for it, in ~/.cache/jetwatch.
    #[arg(long, value_name = "FILE", value_parser = run::parse_recording)]
    record: Option<PathBuf>,
    /// Frames without inference after each one with; the tracker predicts the tracks meanwhile.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=30))]
    interval: u32,
    /// Write the detections of the network and the ground truth of a synthetic source to DIR/det/det.txt and DIR/gt/gt.txt, for
    /// `jetwatch track`. Needs --model.
    #[arg(long, value_name = "DIR", requires = "model")]
    sequence_out: Option<PathBuf>,
}

/// Runs the pipeline with an embedded broker and a subscriber.
pub(super) fn run(args: &DemoArgs) -> anyhow::Result<Exit> {
    telemetry::start_logging(log::LevelFilter::Warn);
    ensure!(
        args.sequence_out.is_none() || is_synthetic(&args.source),
        "--sequence-out needs the ground truth of a synthetic source, and --source is {}",
        jetwatch_config::redact(&args.source)
    );
    let model = match &args.model {
        Some(model) => Some(model.clone()),
        None if is_synthetic(&args.source) => None,
        None => Some(first_model::choose()?.to_string_lossy().into_owned()),
    };
    let mut config = Config::for_source(&args.source, model.as_deref())?;
    let model = config.detector.model.clone();
    config.publish.update_interval = UPDATE_INTERVAL;
    config.detector.interval = Interval::Frames(args.interval);
    config.publish.stats_interval = Duration::from_secs(5);
    if let Some(mqtt) = &mut config.publish.mqtt {
        mqtt.states = None;
        *mqtt = mqtt.only(Broker::Embedded {
            listen: free_address(),
        });
    }
    let page = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    config.web.listen = Some(page(PAGE_PORT));
    config.web.candidates = vec![page(PAGE_PORT), page(0)];
    let duration = args.duration.or_else(|| {
        let is_attended = stdout().is_terminal();
        (!is_attended).then_some(UNATTENDED_DURATION)
    });
    print_intro(&config, args);
    let scorer = match model
        .as_deref()
        .filter(|_| config.detector.backend != Backend::Scripted)
    {
        Some(model) => {
            let spec = ModelSpec::load(model)?;
            choose_precision(&mut config, &spec)?;
            scene_of(&config).map(|scene| Scorer::new(scene, move |label| spec.class_index(label)))
        }
        None => None,
    };
    let options = Options {
        // The start excludes downloads and the measurement of the precisions.
        process_started: Some(Instant::now()),
        duration,
        record: video(args.record.as_deref())?,
        record_for: Some(VIDEO_LENGTH),
        frame_callback: scorer
            .as_ref()
            .map(|scorer| Box::new(scorer.frame_callback()) as FrameCallback),
        synthetic: Some(synthetic_factory()),
        ..Options::default()
    };
    let pipeline = Pipeline::start(&config, options)?;
    signals::listen(pipeline.stop_token(), pipeline.dot_request())?;
    if let Some(address) = pipeline.page_address() {
        println!("Page: http://{address}/ (pictures with boxes, events, the machine)");
    }
    match duration {
        Some(duration) => println!("It runs for {duration:?}."),
        None => println!("It runs until you press Ctrl-C."),
    }
    progress::show(pipeline.stop_token(), pipeline.progress());
    let printer = match (&config.publish.mqtt, pipeline.broker_address()) {
        (Some(mqtt), Some(address)) => Some(print_messages(mqtt, address)?),
        _ => None,
    };
    let mut outcome = pipeline.wait();
    // Without a video the demo has shown what it is to show.
    let video_failure = outcome.recording_failure.take();
    let messages = printer
        .and_then(|printer| printer.join().ok())
        .unwrap_or_default();
    let report = &outcome.report;
    println!();
    println!(
        "{} frames in {:.1} s: {:.1} frames/s, {} dropped, {:.2} ms CPU per frame, {:.0} MiB; first event {:.0} ms after the start.",
        report.frames,
        report.duration_s,
        report.fps,
        report.dropped,
        report.cpu_ms_per_frame,
        report.peak_rss_mib,
        report.first_event_ms.unwrap_or_default()
    );
    let counted: Vec<String> = messages
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    println!(
        "The subscriber received: {}.",
        if counted.is_empty() {
            "nothing".to_owned()
        } else {
            counted.join(", ")
        }
    );
    if let Some(scorer) = scorer {
        if let Some(folder) = &args.sequence_out {
            write_sequence(&scorer, folder)?;
        }
        if let Some(score) = scorer.score() {
            print_score(&score);
        }
    }
    match (&report.recording, &video_failure) {
        (Some(video), None) => println!(
            "Video with boxes, labels and trajectories: {} ({} frames)",
            video.path.display(),
            video.frames
        ),
        (_, Some(failure)) => println!("No annotated video: {failure}."),
        (None, None) => {}
    }
    print_next_steps();
    run::finish(outcome, None)
}

/// Writes the detections and the ground truth of the run in MOTChallenge's layout.
fn write_sequence(scorer: &Scorer, folder: &Path) -> anyhow::Result<()> {
    let sequence = scorer.sequence();
    for (name, text) in [("det", &sequence.detections), ("gt", &sequence.truth)] {
        let folder = folder.join(name);
        let path = folder.join(format!("{name}.txt"));
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Number of frames for the measurement of each precision.
const TRIAL_FRAMES: u64 = 24;

/// Selects the fastest precision on this machine if the model has several: which one it is depends on the CPU.
fn choose_precision(config: &mut Config, spec: &ModelSpec) -> anyhow::Result<()> {
    if spec.files.len() < 2 || config.sources.is_empty() {
        return Ok(());
    }
    let mut best: Option<(f64, String)> = None;
    let mut reported = Vec::new();
    for file in &spec.files {
        let mut trial = config.clone();
        trial.sources = Config::for_source(SCENE, None)?.sources;
        trial.detector.precision = Some(file.precision.clone());
        trial.detector.workers = 1;
        let alone = jetwatch_bench::bench_detector(&trial, 4, 4, TRIAL_FRAMES)?;
        reported.push(format!(
            "{} {:.1} ms",
            file.precision, alone.cpu_ms_per_frame
        ));
        if best
            .as_ref()
            .is_none_or(|(least, _)| alone.cpu_ms_per_frame < *least)
        {
            best = Some((alone.cpu_ms_per_frame, file.precision.clone()));
        }
    }
    if let Some((_, precision)) = best {
        println!(
            "Precision: {precision}, the fastest here (CPU time per frame: {}).",
            reported.join(", ")
        );
        config.detector.precision = Some(precision);
    }
    Ok(())
}

/// The built-in scene if it is the source: only then is there ground truth.
fn scene_of(config: &Config) -> Option<&SyntheticScene> {
    match &config.sources.first()?.uri {
        SourceUri::Synthetic(scene) => Some(scene),
        _ => None,
    }
}

/// Whether the source draws its images itself: then it has ground truth.
fn is_synthetic(source: &str) -> bool {
    let scheme = source.trim_start().get(..10);
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("synthetic:"))
}

fn print_intro(config: &Config, args: &DemoArgs) {
    let source = config.sources.first().map(|source| &source.uri);
    match source {
        Some(SourceUri::Synthetic(scene)) => println!(
            "Source: the built-in street scene, {}×{} at {} frames/s.",
            scene.width, scene.height, scene.fps
        ),
        _ => println!("Source: {}.", jetwatch_config::redact(&args.source)),
    }
    if config.detector.backend == Backend::Scripted {
        println!(
            "Detector: scripted. It outputs the scene's ground truth and reads no pixels: this shows the pipeline, not a network."
        );
        println!(
            "          A real network: make demo MODEL=folder (a folder with model.yaml and its ONNX file)."
        );
    } else if let Some(model) = &config.detector.model {
        println!("Detector: ONNX Runtime with {}.", model.display());
    }
    println!();
}

/// Where the annotated video is written; `None`, after a line that says so, where it cannot be.
fn video(given: Option<&Path>) -> anyhow::Result<Option<PathBuf>> {
    if let Some(path) = given {
        return Ok(Some(path.to_owned()));
    }
    let Some(folder) = jetwatch_config::user_cache() else {
        println!(
            "No annotated video is written: there is no home folder; --record FILE names one."
        );
        return Ok(None);
    };
    let prepared = std::fs::create_dir_all(&folder)
        .map_err(|cause| RenderError::File {
            path: folder.clone(),
            cause,
        })
        .and_then(|()| {
            let prepare = |name: &str| Recording::prepare(&folder.join(name));
            prepare("demo.mp4").or_else(|error| match error {
                RenderError::NoEncoder { .. } => prepare("demo.webm"),
                other => Err(other),
            })
        });
    Ok(match prepared {
        Ok(choice) => Some(choice.path),
        Err(error) => {
            println!("No annotated video is written: {error}.");
            None
        }
    })
}

/// The broker's default port on the loopback interface, or a free one if it is in use.
fn free_address() -> SocketAddr {
    let default = SocketAddr::from((Ipv4Addr::LOCALHOST, BROKER_PORT));
    match TcpListener::bind(default) {
        Ok(_) => default,
        Err(_) => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
    }
}

/// Subscribes to all messages and prints them, on a thread that ends with the broker. It returns the number of messages by kind.
fn print_messages(
    mqtt: &MqttConfig,
    address: SocketAddr,
) -> anyhow::Result<std::thread::JoinHandle<BTreeMap<String, usize>>> {
    let client = MqttConfig {
        broker: Broker::Embedded { listen: address },
        client_id: format!("{}-demo", mqtt.client_id),
        ..mqtt.clone()
    };
    let filter = format!("{}/#", mqtt.prefix);
    println!(
        "Messages, as received with: mosquitto_sub -h 127.0.0.1 -p {} -t '{filter}' -v",
        address.port()
    );
    println!();
    let subscriber = Subscriber::start(&client, &filter)?;
    Ok(std::thread::Builder::new()
        .name("demo-reader".to_owned())
        .spawn(move || {
            let mut counts = BTreeMap::new();
            loop {
                match subscriber.recv_timeout(Duration::from_millis(200)) {
                    Some((topic, payload)) => {
                        let count = counts.entry(message_kind(&topic, &payload)).or_insert(0);
                        *count += 1;
                        // The first message of each kind is printed whole, the others as a summary that fits a line.
                        let text = match summarize(&payload) {
                            Some(summary) if *count > 1 => summary,
                            _ => String::from_utf8_lossy(&payload).into_owned(),
                        };
                        match writeln!(stdout(), "{topic} {text}") {
                            // The reader has closed the pipe; messages are still counted.
                            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                                log::warn!("cannot print: {error}")
                            }
                            _ => {}
                        }
                    }
                    None if subscriber.ended().is_some() => return counts,
                    None => {}
                }
            }
        })?)
}

/// The kind of a message, for the count at the end.
fn message_kind(topic: &str, payload: &[u8]) -> String {
    let json = serde_json::from_slice::<serde_json::Value>(payload).unwrap_or_default();
    match json.get("kind").and_then(serde_json::Value::as_str) {
        Some("event") => format!(
            "events of type {}",
            json.get("type")
                .and_then(serde_json::Value::as_str)
                .unwrap_or("unknown")
        ),
        Some(kind) => format!("messages of kind {kind}"),
        None if topic.ends_with("/status") => "device states".to_owned(),
        None => "counts".to_owned(),
    }
}

/// An event or statistics in one line; `None` for other messages, which are short already.
fn summarize(payload: &[u8]) -> Option<String> {
    let json = serde_json::from_slice::<serde_json::Value>(payload).ok()?;
    let text = |value: &serde_json::Value| value.as_str().unwrap_or("?").to_owned();
    match json.get("kind")?.as_str()? {
        "event" => {
            let track = &json["after"];
            let edges: Vec<String> = track["box"]
                .as_array()?
                .iter()
                .map(|edge| format!("{:.0}", edge.as_f64().unwrap_or_default()))
                .collect();
            Some(format!(
                "{:<6} {} #{} {} box [{}] score {:.2} after {} ms {{…}}",
                text(&json["type"]),
                text(&json["label"]),
                json["track_id"],
                text(&track["state"]),
                edges.join(", "),
                track["score"].as_f64().unwrap_or_default(),
                json["duration_ms"],
            ))
        }
        // Not its rate: the first interval includes the time before the first frame.
        "stats" => Some(format!("{} frames {{…}}", json["detected_frames"])),
        _ => None,
    }
}

fn print_score(score: &Score) {
    let share = |value: Option<f64>| {
        value.map_or_else(
            || "none".to_owned(),
            |value| format!("{:.1} %", value * 100.0),
        )
    };
    let (detections, tracks) = (&score.detections, &score.tracks);
    println!(
        "Compared with the scene's ground truth at an IOU of 0.5, {} frames with {} objects:\n  \
         detections  recall {}, precision {}\n  \
         tracks      MOTA {}, {} misses, {} false positives, {} identity switches",
        detections.frames,
        detections.objects,
        share(detections.recall()),
        share(detections.precision()),
        share(tracks.mota()),
        tracks.misses,
        tracks.false_positives,
        tracks.switches
    );
}

/// What to do next, with this program as it was called.
fn print_next_steps() {
    let program = std::env::args().next().unwrap_or_default();
    let steps = [
        (
            "your own video",
            "make demo SOURCE=video.mp4",
            "with a network for 80 classes",
        ),
        (
            "a camera",
            "make demo SOURCE=v4l2:///dev/video0",
            "or rtsp://user:password@host/path",
        ),
        (
            "another network",
            "make demo SOURCE=video.mp4 MODEL=yolox_nano",
            "`model list` shows all",
        ),
        (
            "as a daemon",
            "run --config examples/minimal.yaml",
            "its page asks for a first user",
        ),
        ("all keys", "configs/jetwatch.yaml", "explained one by one"),
    ];
    println!();
    println!("Next:");
    for (what, command, note) in steps {
        let command = match command.starts_with("run ") {
            true => format!("{program} {command}"),
            false => command.to_owned(),
        };
        println!("  {what:<17} {command:<45} ({note})");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_synthetic_sources_need_no_network() {
        assert!(is_synthetic(SCENE) && is_synthetic(" Synthetic://traffic"));
        assert!(!is_synthetic("video.mp4") && !is_synthetic("synthetic"));
    }

    #[test]
    fn event_summary_is_one_line() {
        let payload = br#"{"kind":"event","type":"new","label":"car","track_id":7,"duration_ms":66,
            "after":{"state":"active","score":0.875,"box":[1.4,2.6,30.0,40.0]}}"#;
        assert_eq!(
            summarize(payload).as_deref(),
            Some("new    car #7 active box [1, 3, 30, 40] score 0.88 after 66 ms {…}")
        );
        assert_eq!(summarize(b"3"), None, "a count is short already");
        assert_eq!(summarize(b"online"), None);
    }
}
