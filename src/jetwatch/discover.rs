// SPDX-License-Identifier: Apache-2.0
//! `jetwatch discover`: ONVIF cameras of the network with their streams, as a table, as sources for the configuration, or as JSON.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};

use jetwatch_config::{Config, Secret, SourceConfig, SourceUri, add_sources};
use jetwatch_onvif::{self as onvif, Camera, Found, Login, OnvifError, Stream};
use jetwatch_pipeline::SUGGESTED_MAX_FPS;
use jetwatch_tables::TextTable;
use jetwatch_telemetry as telemetry;
use jetwatch_web::CameraFinder;

use super::{Exit, parse_duration, password};

/// Cameras that are asked at a time.
const AT_A_TIME: usize = 16;

/// Smallest width of a stream that is suggested for detection: networks take images of 320 to 640 pixels.
const DETECTION_WIDTH: u32 = 640;

/// Time to wait for answers from the network.
const DEFAULT_WAIT: Duration = Duration::from_secs(4);

/// Arguments of `jetwatch discover`.
#[derive(Debug, Args)]
pub(super) struct DiscoverArgs {
    /// Cameras to ask, each as a host, host:port or http://host/onvif/device_service. Default: those that answer in the networks of this machine.
    #[arg(value_name = "CAMERA")]
    cameras: Vec<String>,
    /// User name for the cameras; the password is read from a prompt, or as a line of standard input.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// File whose first line is the password.
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// Cameras at https:// only: PEM file of the authorities to trust, or of the cameras' own certificates. Default: the system's authorities.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Time to wait for answers from the network.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "4s")]
    wait: Duration,
    /// Print sources for the configuration.
    #[arg(long, conflicts_with_all = ["json", "add_to"])]
    yaml: bool,
    /// Add the sources that are not in it to this configuration, whose other lines and comments stay. A password that was typed is stored beside
    /// it, in the folder secrets.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    add_to: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A camera that was found or given, and what it said.
struct Asked {
    /// How it announces itself.
    announced: Option<Found>,
    address: String,
    said: Result<Camera, OnvifError>,
}

/// Prints the cameras.
pub(super) fn run(args: &DiscoverArgs) -> anyhow::Result<Exit> {
    telemetry::start_logging(log::LevelFilter::Warn);
    let login = login(args)?;
    let found = found(&args.cameras, args.wait)?;
    let cameras = ask(found, login.as_ref(), args.ca_file.as_deref());
    if args.json {
        println!("{:#}", document(&cameras));
    } else if args.yaml {
        let sources = sources(&cameras, args, &password_file(args), &[]);
        print!("sources:\n{}", indented(&sources));
    } else if let Some(file) = &args.add_to {
        add(file, &cameras, args, login.as_ref())?;
    } else {
        print!("{}", to_text(&cameras, args));
    }
    for camera in &cameras {
        if let Err(error) = &camera.said {
            eprintln!("{error}");
        }
    }
    let needs_login = |camera: &Asked| matches!(camera.said, Err(OnvifError::NeedsLogin { .. }));
    if args.user.is_none() && cameras.iter().any(needs_login) {
        eprintln!(
            "Give a user of the cameras: --user NAME, and --password-file FILE or the password at the prompt."
        );
    }
    let is_untrusted = |camera: &Asked| matches!(camera.said, Err(OnvifError::Tls { .. }));
    if args.ca_file.is_none() && cameras.iter().any(is_untrusted) {
        eprintln!("Give this command that file by --ca-file FILE.");
    }
    if cameras.is_empty() {
        eprintln!(
            "No camera answered within {} s. Cameras answer within their own network only, and some only where ONVIF is switched on in their \
             settings. To ask one by its address: jetwatch discover 192.168.1.20",
            args.wait.as_secs_f64()
        );
    }
    let is_ok = !cameras.is_empty() && cameras.iter().all(|camera| camera.said.is_ok());
    Ok(Exit::from_checks(is_ok))
}

fn document(cameras: &[Asked]) -> Value {
    json!({ "cameras": cameras.iter().map(to_json).collect::<Vec<_>>() })
}

/// The search for the page of the daemon.
pub(super) fn finder() -> CameraFinder {
    Arc::new(|query| {
        let login = query.user.clone().map(|user| Login {
            user,
            password: query.password.clone().unwrap_or_default(),
        });
        let addresses = query.address.as_slice();
        match found(addresses, DEFAULT_WAIT) {
            Ok(found) => document(&ask(found, login.as_ref(), query.ca_file.as_deref())),
            Err(error) => json!({ "cameras": [], "error": format!("{error:#}") }),
        }
    })
}

fn login(args: &DiscoverArgs) -> anyhow::Result<Option<Login>> {
    let Some(user) = args.user.clone() else {
        return Ok(None);
    };
    let password = match &args.password_file {
        Some(file) => Secret::File(file.clone()).read().map_err(|error| {
            anyhow::anyhow!(
                "--password-file: cannot read {}: {}",
                error.from,
                error.reason
            )
        })?,
        None => password::read()?,
    };
    Ok(Some(Login { user, password }))
}

/// The cameras to ask, each with what it announced.
fn found(cameras: &[String], wait: Duration) -> anyhow::Result<Vec<(String, Option<Found>)>> {
    if cameras.is_empty() {
        let found = onvif::discover(wait).context("cannot ask the network for cameras")?;
        return Ok(found
            .into_iter()
            .map(|found| (found.address.clone(), Some(found)))
            .collect());
    }
    let given = cameras
        .iter()
        .map(|typed| Ok((onvif::device_service(typed)?, None)));
    given.collect()
}

fn ask(
    found: Vec<(String, Option<Found>)>,
    login: Option<&Login>,
    ca_file: Option<&Path>,
) -> Vec<Asked> {
    let mut asked = Vec::with_capacity(found.len());
    let mut left = found.into_iter().peekable();
    while left.peek().is_some() {
        thread::scope(|scope| {
            let threads: Vec<_> = left
                .by_ref()
                .take(AT_A_TIME)
                .map(|(address, announced)| {
                    scope.spawn(move || describe(address, announced, login, ca_file))
                })
                .collect();
            asked.extend(
                threads
                    .into_iter()
                    .map(|thread| thread.join().expect("it does not panic")),
            );
        });
    }
    asked
}

fn describe(
    address: String,
    announced: Option<Found>,
    login: Option<&Login>,
    ca_file: Option<&Path>,
) -> Asked {
    let said = Camera::describe(&address, login, ca_file);
    // A person gave a host alone; the camera says where its device service is.
    let is_elsewhere = matches!(
        said,
        Err(OnvifError::NoAnswer { .. } | OnvifError::Answer { .. })
    );
    if announced.is_none()
        && is_elsewhere
        && let Some(found) = announced_by(&address)
    {
        let said = Camera::describe(&found.address, login, ca_file);
        return Asked {
            address: found.address.clone(),
            announced: Some(found),
            said,
        };
    }
    Asked {
        announced,
        address,
        said,
    }
}

/// What the camera at the host of `address` announces when it is asked directly; `None` if it does not answer, or with this address.
fn announced_by(address: &str) -> Option<Found> {
    const WAIT: Duration = Duration::from_secs(2);
    let target: SocketAddr = (onvif::host(address), onvif::PORT)
        .to_socket_addrs()
        .ok()?
        .next()?;
    let found = onvif::probe(target, WAIT).ok()?.into_iter().next()?;
    (found.address != address).then_some(found)
}

/// Maker, model and name of a camera, as far as they are known.
fn title(camera: &Asked) -> String {
    let said = camera.said.as_ref().ok();
    let announced = camera.announced.as_ref();
    let model = said.and_then(|said| said.model.as_deref());
    let parts = [
        said.and_then(|said| said.manufacturer.as_deref()),
        model.or(announced.and_then(|found| found.hardware.as_deref())),
    ];
    let mut title = parts.into_iter().flatten().collect::<Vec<_>>().join(" ");
    if let Some(name) = announced.and_then(|found| found.name.as_deref())
        && !title.contains(name)
    {
        title = if title.is_empty() {
            name.to_owned()
        } else {
            format!("{title} ({name})")
        };
    }
    if title.is_empty() {
        "a camera".to_owned()
    } else {
        title
    }
}

/// Seconds that a clock may differ without a word.
const MAX_SKEW_S: i64 = 60;

fn to_text(cameras: &[Asked], args: &DiscoverArgs) -> String {
    let mut text = String::new();
    for camera in cameras {
        let _ = writeln!(text, "{}  {}", camera.address, title(camera));
        let Ok(said) = &camera.said else {
            continue;
        };
        if let Some(skew) = said.clock_skew_s.filter(|skew| skew.abs() > MAX_SKEW_S) {
            let direction = if skew > 0 { "ahead" } else { "behind" };
            let _ = writeln!(
                text,
                "  Its clock is {} s {direction}: set it by NTP.",
                skew.abs()
            );
        }
        let table = TextTable::of(&said.streams)
            .left("stream", |stream| stream.name.clone())
            .left("codec", |stream| stream.codec.clone().unwrap_or_default())
            .right("size", |stream| size(stream).unwrap_or_default())
            .right("frames/s", |stream| {
                stream
                    .frame_rate
                    .map_or_else(String::new, |rate| rate.to_string())
            })
            .right("key frame, s", |stream| {
                key_frame_s(stream).map_or_else(String::new, |seconds| format!("{seconds:.1}"))
            })
            .left(
                "sound",
                |stream| if stream.has_sound { "yes" } else { "no" },
            )
            .left("address", |stream| match &stream.uri {
                Ok(uri) => uri.clone(),
                Err(reason) => format!("none: {reason}"),
            });
        let _ = writeln!(text, "{}\n", table.build().indented(2));
    }
    if cameras.iter().any(|camera| camera.said.is_ok()) {
        let _ = writeln!(
            text,
            "As sources for a configuration: jetwatch discover{} --yaml, or --add-to FILE",
            again(args)
        );
    }
    text
}

/// The arguments that find the same cameras.
fn again(args: &DiscoverArgs) -> String {
    let mut text = String::new();
    for camera in &args.cameras {
        let _ = write!(text, " {camera}");
    }
    if let Some(user) = &args.user {
        let _ = write!(text, " --user {user}");
    }
    let files = [
        ("password-file", &args.password_file),
        ("ca-file", &args.ca_file),
    ];
    for (name, file) in files {
        if let Some(file) = file {
            let _ = write!(text, " --{name} {}", file.display());
        }
    }
    text
}

fn size(stream: &Stream) -> Option<String> {
    stream
        .size
        .map(|[width, height]| format!("{width}×{height}"))
}

fn key_frame_s(stream: &Stream) -> Option<f64> {
    let rate = stream.frame_rate.filter(|rate| *rate > 0.0)?;
    stream
        .key_frame_interval
        .map(|frames| f64::from(frames) / rate)
}

fn to_json(camera: &Asked) -> Value {
    let said = camera.said.as_ref().ok();
    let streams = said.map(|said| {
        let of_inputs = said.streams.chunk_by(|a, b| a.input == b.input);
        let chosen: Vec<&Stream> = of_inputs
            .filter_map(|of| Some(for_detection(of)?.0))
            .collect();
        let streams = said.streams.iter().map(|stream| {
            json!({
                "for_detection": chosen.iter().any(|chosen| std::ptr::eq(*chosen, stream)),
                "name": stream.name,
                "input": stream.input,
                "codec": stream.codec,
                "size": stream.size,
                "frame_rate": stream.frame_rate,
                "key_frame_interval": stream.key_frame_interval,
                "sound": stream.has_sound,
                "uri": stream.uri.as_ref().ok(),
                "error": stream.uri.as_ref().err(),
            })
        });
        streams.collect::<Vec<_>>()
    });
    json!({
        "address": camera.address,
        "name": camera.announced.as_ref().and_then(|found| found.name.as_ref()),
        "manufacturer": said.and_then(|said| said.manufacturer.as_ref()),
        "model": said.and_then(|said| said.model.as_ref()),
        "firmware": said.and_then(|said| said.firmware.as_ref()),
        "events": said.map(|said| said.has_events),
        "clock_skew_s": said.and_then(|said| said.clock_skew_s),
        "streams": streams,
        "error": camera.said.as_ref().err().map(ToString::to_string),
    })
}

/// Adds sources to the configuration at `file`.
fn add(
    file: &Path,
    cameras: &[Asked],
    args: &DiscoverArgs,
    login: Option<&Login>,
) -> anyhow::Result<()> {
    let shown = file.display();
    let file = &*jetwatch_files::target_of(file).with_context(|| format!("cannot read {shown}"))?;
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    let config = Config::from_str(&shown.to_string(), &text)?;
    let password_file = password_file(args);
    let sources = sources(cameras, args, &password_file, &config.sources);
    if !sources.contains("- name:") {
        println!("Nothing to add to {shown}: it has the cameras that gave streams.");
        return Ok(());
    }
    let edited = add_sources(&shown.to_string(), &text, &sources)?;
    if let (Some(login), None) = (login, &args.password_file) {
        jetwatch_files::store_secret(&file.with_file_name(&password_file), &login.password)
            .context("give the password with --password-file")?;
    }
    let previous = jetwatch_files::replace_text(file, &text, &edited)?;
    println!(
        "Added to {shown}, whose earlier text is in {}:\n\n{}",
        previous.display(),
        sources.trim_end()
    );
    println!(
        "\nTest it: jetwatch check --config {shown}. A daemon that runs takes it with a reload: systemctl reload jetwatch"
    );
    Ok(())
}

/// The password's file as the configuration names it.
fn password_file(args: &DiscoverArgs) -> PathBuf {
    let user = args.user.as_deref().unwrap_or_default();
    let name: String = user
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { '-' })
        .collect();
    match &args.password_file {
        Some(file) => fs::canonicalize(file).unwrap_or_else(|_| file.clone()),
        None => Path::new("secrets").join(name),
    }
}

/// Sources for the configuration that are not among `known`: of each video input the stream for detection, the others as comments.
fn sources(
    cameras: &[Asked],
    args: &DiscoverArgs,
    password_file: &Path,
    known: &[SourceConfig],
) -> String {
    let mut text = String::new();
    let mut names: HashSet<String> = known
        .iter()
        .map(|source| source.name.to_ascii_lowercase())
        .collect();
    let is_known = |uri: &str| {
        known.iter().any(
            |source| matches!(&source.uri, SourceUri::Rtsp { location, .. } if location == uri),
        )
    };
    for camera in cameras {
        let Ok(said) = &camera.said else {
            let _ = writeln!(text, "# {}: no streams are known.", camera.address);
            continue;
        };
        for streams in said.streams.chunk_by(|a, b| a.input == b.input) {
            let Some((chosen, uri)) = for_detection(streams) else {
                let _ = writeln!(text, "# {}: no stream has an address.", camera.address);
                continue;
            };
            if streams
                .iter()
                .filter_map(|stream| stream.uri.as_deref().ok())
                .any(is_known)
            {
                continue;
            }
            let name = source_name(camera, &mut names);
            let _ = writeln!(
                text,
                "# {}, stream {}",
                one_line(&title(camera)),
                line(chosen)
            );
            let _ = writeln!(text, "- name: {name}\n  uri: {}", json!(uri));
            if let Some(user) = &args.user {
                let _ = writeln!(
                    text,
                    "  user: {}\n  password_file: {}",
                    json!(user),
                    json!(password_file)
                );
            }
            if chosen
                .frame_rate
                .is_some_and(|rate| rate > SUGGESTED_MAX_FPS)
            {
                let _ = writeln!(text, "  max_fps: {SUGGESTED_MAX_FPS}");
            }
            if let Some(file) = &args.ca_file {
                let file = fs::canonicalize(file).unwrap_or_else(|_| file.clone());
                // Beside the comment below, which needs it.
                let comment = if uri.starts_with("rtsps:") { "" } else { "# " };
                let _ = writeln!(text, "  {comment}ca_file: {}", json!(file));
            }
            if said.has_events {
                let usual = onvif::device_service(onvif::host(uri));
                let address = (usual.as_ref() != Ok(&camera.address)).then_some(&camera.address);
                let is_recorder = said.streams.iter().any(|other| other.input != chosen.input);
                let input = chosen.input.as_ref().filter(|_| is_recorder);
                let keys = [("address", address), ("input", input)].into_iter();
                let keys: String = keys
                    .filter_map(|(key, value)| Some(format!(", {key}: {}", json!(value?))))
                    .collect();
                let _ = writeln!(text, "  # onvif: {{events: motion{keys}}}");
            }
            for other in streams.iter().filter(|other| !std::ptr::eq(*other, chosen)) {
                let uri = other.uri.as_ref().unwrap_or_else(|reason| reason);
                let _ = writeln!(text, "  # {}: {}", line(other), one_line(uri));
            }
        }
    }
    text
}

fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("  {line}\n")).collect()
}

/// Name, codec and size of a stream.
fn line(stream: &Stream) -> String {
    let parts = [
        Some(stream.name.clone()),
        stream.codec.clone(),
        size(stream),
    ];
    one_line(&parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// What a camera says, without what would end a comment.
fn one_line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

/// The smallest stream that is large enough for a network, else the largest; `streams` begin with the largest.
fn for_detection(streams: &[Stream]) -> Option<(&Stream, &str)> {
    let with_uri = || {
        streams
            .iter()
            .filter_map(|stream| Some((stream, stream.uri.as_deref().ok()?)))
    };
    let is_large = |stream: &Stream| {
        stream
            .size
            .is_some_and(|[width, _]| width >= DETECTION_WIDTH)
    };
    with_uri()
        .rev()
        .find(|(stream, _)| is_large(stream))
        .or_else(|| with_uri().next())
}

/// A name of the camera, else of its model, else its host, with a number where it is taken.
fn source_name(camera: &Asked, taken: &mut HashSet<String>) -> String {
    let said = camera.said.as_ref().ok();
    let announced = camera.announced.as_ref();
    let names = [
        announced.and_then(|found| found.name.as_deref()),
        said.and_then(|said| said.model.as_deref()),
        Some(onvif::host(&camera.address)),
    ];
    let as_name = |text: &str| {
        let mut name = String::new();
        for c in text.chars() {
            match c {
                c if c.is_ascii_alphanumeric() => name.push(c.to_ascii_lowercase()),
                _ if name.is_empty() || name.ends_with('-') => {}
                _ => name.push('-'),
            }
        }
        name.truncate(48);
        name.trim_end_matches('-').to_owned()
    };
    let name = names
        .into_iter()
        .flatten()
        .map(as_name)
        .find(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| "camera".to_owned());
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    names
        .find(|name| taken.insert(name.clone()))
        .expect("there is always a further number")
}
