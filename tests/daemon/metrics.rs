// SPDX-License-Identifier: Apache-2.0
//! Metrics over real connections: who may read them, what else is refused, clients that are slow or many, and the real daemon.

use crate::publish_access::authority;
use crate::support::daemon::{Running, Setup, TEST_TIMEOUT, finish, stderr, wait_until_some};
use crate::support::generated::check_generated;
use crate::support::page::{body, connect, exchange, get, status};

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use jetwatch_config::{MetricsConfig, MetricsTlsConfig};
use jetwatch_metrics::families::families_page;
use jetwatch_metrics::{Exporter, MetricsError, WriteFigures};

const TOKEN: &str = "a-token-for-the-tests";

/// What the figures are in tests without a daemon.
const FIGURES: &str = "# HELP up Whether.\n# TYPE up gauge\nup 1\n";

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn figures() -> WriteFigures {
    Arc::new(|_, text: &mut String| text.push_str(FIGURES))
}

/// A listener with these settings, on a free port.
fn serve(config: MetricsConfig) -> (Exporter, SocketAddr) {
    let config = MetricsConfig {
        listen: Some(loopback()),
        ..config
    };
    let exporter = Exporter::start(&config, "gate", Duration::from_secs(1), figures());
    let exporter = exporter.unwrap_or_else(|error| panic!("{error}"));
    let address = exporter.local_addr().expect("it listens");
    (exporter, address)
}

/// Why a listener with these settings cannot start.
fn refusal(config: &MetricsConfig) -> MetricsError {
    let exporter = Exporter::start(config, "gate", Duration::from_secs(1), figures());
    exporter.err().expect("it is refused")
}

/// A folder with a token.
fn token_file() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("token");
    fs::write(&path, format!("{TOKEN}\n")).expect("written");
    (folder, path)
}

#[test]
fn the_token_is_required_and_can_be_rotated() {
    let (_folder, path) = token_file();
    let (_exporter, address) = serve(MetricsConfig {
        token_file: Some(path.clone()),
        ..MetricsConfig::default()
    });
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let answer = get(address, "/metrics", &bearer);
    assert_eq!(status(&answer), "200", "{answer}");
    assert_has!(answer => "content-type: text/plain; version=0.0.4; charset=utf-8\r\n");
    assert!(answer.ends_with(&format!("\r\n\r\n{FIGURES}")), "{answer}");
    for header in [
        "",
        "Authorization: Bearer another-token-for-tests\r\n",
        "Authorization: Basic YS10b2tlbi1mb3ItdGhlLXRlc3Rz\r\n",
        "Authorization: Bearer\r\n",
    ] {
        let answer = get(address, "/metrics", header);
        assert_eq!(status(&answer), "401", "{header}: {answer}");
        assert_has!(answer => "www-authenticate: Bearer realm=\"jetwatch\"\r\n");
        assert!(!answer.contains("up 1"), "{answer}");
    }
    fs::write(&path, "another-token-for-tests").expect("written");
    assert_eq!(status(&get(address, "/metrics", &bearer)), "401");
    let rotated = "Authorization: Bearer another-token-for-tests\r\n";
    assert_eq!(status(&get(address, "/metrics", rotated)), "200");
    fs::remove_file(&path).expect("removed");
    let answer = get(address, "/metrics", rotated);
    assert_eq!(status(&answer), "500", "{answer}");
    assert!(!answer.contains("up 1"), "{answer}");
}

#[test]
fn other_paths_and_methods_are_refused() {
    let (_exporter, address) = serve(MetricsConfig::default());
    for (request, wanted) in [
        ("GET / HTTP/1.1", "200"),
        ("GET /metrics HTTP/1.1", "200"),
        ("GET /metrics?name=up HTTP/1.1", "200"),
        ("GET /metrics HTTP/1.0", "200"),
        ("GET /metrics/ HTTP/1.1", "404"),
        ("GET /../etc/passwd HTTP/1.1", "404"),
        ("POST /shutdown HTTP/1.1", "404"),
        ("POST /metrics HTTP/1.1", "405"),
        ("DELETE / HTTP/1.1", "405"),
        ("OPTIONS /metrics HTTP/1.1", "405"),
        ("nonsense", "400"),
        ("GET /metrics HTTP/9.9", "400"),
    ] {
        let answer = exchange(
            address,
            format!("{request}\r\nHost: localhost\r\n\r\n").as_bytes(),
        );
        assert_eq!(status(&answer), wanted, "{request}: {answer}");
        let is_allowed = answer.contains("allow: GET, HEAD\r\n");
        assert_eq!(is_allowed, wanted == "405", "{request}: {answer}");
    }
    let answer = get(address, "/", "");
    assert!(answer.ends_with("are at /metrics\n"), "{answer}");
    let answer = exchange(
        address,
        b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    assert_eq!(status(&answer), "200");
    assert!(answer.ends_with("\r\n\r\n"), "a body: {answer}");
    // A body is not read, and does not become a request.
    let body = "GET /metrics HTTP/1.1\r\n\r\n".repeat(100);
    let length = body.len();
    let request = format!(
        "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let answer = exchange(address, request.as_bytes());
    assert_once!(answer => "HTTP/1.1 ");
}

/// Sends a request through TLS with the program openssl; returns its output.
pub(crate) fn through_tls(address: SocketAddr, folder: &Path, request: &str) -> String {
    let mut client = Command::new("openssl")
        .args([
            "s_client",
            "-quiet",
            "-verify_return_error",
            "-CAfile",
            "t-ca.pem",
        ])
        .args(["-connect", &address.to_string()])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("this test needs the program openssl: apt-get install openssl");
    let mut stdin = client.stdin.take().expect("piped");
    stdin.write_all(request.as_bytes()).expect("written");
    let mut answer = String::new();
    let mut stdout = client.stdout.take().expect("piped");
    stdout.read_to_string(&mut answer).expect("text");
    drop(stdin);
    let _ = client.wait();
    answer
}

#[test]
fn beyond_loopback_there_is_no_listener_without_token_and_tls() {
    let (folder, token) = token_file();
    authority(folder.path(), "t");
    let file = |name: &str| folder.path().join(name);
    let tls = Some(MetricsTlsConfig {
        cert_file: file("t-server.pem"),
        key_file: file("t-server.key"),
    });
    let everywhere = Some(SocketAddr::from(([0, 0, 0, 0], 0)));
    for (token_file, tls, missing) in [
        (None, tls.clone(), "without a token"),
        (Some(token.clone()), None, "without TLS"),
    ] {
        let config = MetricsConfig {
            listen: everywhere,
            token_file,
            tls,
            text_file: None,
        };
        let error = refusal(&config).to_string();
        assert!(error.contains(missing), "{error}");
    }
    let config = MetricsConfig {
        listen: everywhere,
        token_file: Some(token),
        tls: tls.clone(),
        text_file: None,
    };
    let exporter = Exporter::start(&config, "gate", Duration::from_secs(1), figures());
    let exporter = exporter.unwrap_or_else(|error| panic!("{error}"));
    let port = exporter.local_addr().expect("it listens").port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let request = |header: &str| {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{header}\r\n");
        through_tls(address, folder.path(), &request)
    };
    let answer = request(&format!("Authorization: Bearer {TOKEN}\r\n"));
    assert_eq!(status(&answer), "200", "{answer}");
    assert!(answer.ends_with(FIGURES), "{answer}");
    assert_eq!(status(&request("")), "401");
    // In clear text, nothing is answered.
    let plain = get(
        address,
        "/metrics",
        &format!("Authorization: Bearer {TOKEN}\r\n"),
    );
    assert!(
        !plain.contains("HTTP") && !plain.contains("up 1"),
        "{plain}"
    );
}

#[test]
fn what_cannot_be_used_is_named_with_its_key() {
    let (folder, token) = token_file();
    authority(folder.path(), "t");
    let file = |name: &str| folder.path().join(name);
    let taken = TcpListener::bind(loopback()).expect("a free port");
    let listen = taken.local_addr().expect("an address");
    let config = |listen, token_file: Option<&Path>, tls: Option<(&str, &str)>| MetricsConfig {
        listen: Some(listen),
        token_file: token_file.map(Path::to_owned),
        tls: tls.map(|(cert_file, key_file)| MetricsTlsConfig {
            cert_file: file(cert_file),
            key_file: file(key_file),
        }),
        text_file: None,
    };
    let weak = file("weak");
    fs::write(&weak, "hunter2\n").expect("written");
    let elsewhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let not_ours: SocketAddr = "192.0.2.1:9273".parse().expect("an address");
    let good = Some(("t-server.pem", "t-server.key"));
    #[rustfmt::skip]
    let cases = [
        (config(listen, None, None), "metrics.listen: "),
        (config(not_ours, Some(&token), good), "metrics.listen: cannot listen on 192.0.2.1:9273"),
        (config(elsewhere, Some(&file("none")), None), "metrics.token_file: cannot read "),
        (config(elsewhere, Some(&weak), None), "metrics.token_file: the first line of "),
        (config(elsewhere, None, Some(("none", "t-server.key"))), "metrics.tls.cert_file: cannot use "),
        (config(elsewhere, None, Some(("t-server.key", "t-server.key"))), "metrics.tls.cert_file: cannot use "),
        (config(elsewhere, None, Some(("t-server.pem", "t-server.pem"))), "metrics.tls.key_file: cannot use "),
        (config(elsewhere, None, Some(("t-server.pem", "t-client.key"))), "metrics.tls.key_file: cannot use "),
    ];
    for (config, wanted) in cases {
        let error = refusal(&config).to_string();
        assert!(error.starts_with(wanted), "{error}");
        assert!(!error.contains("hunter"), "{error}");
    }
    let in_use = refusal(&config(listen, None, None));
    assert!(matches!(in_use, MetricsError::PortInUse { address } if address == listen));
}

/// The real daemon with metrics.
struct Daemon {
    running: Running,
    address: SocketAddr,
}

fn free_address() -> SocketAddr {
    TcpListener::bind(loopback())
        .and_then(|listener| listener.local_addr())
        .expect("a port")
}

/// A source of small frames with a zone and a line.
fn source(name: &str, seed: u32) -> String {
    format!(
        "  - name: {name}\n    uri: synthetic://traffic?seed={seed}&objects=6&width=160&height=90&fps=10\n    \
         interval: 1\n    classes: [person, car]\n    \
         zones: [{{name: road, coordinates: '0,0.4,1,0.4,1,1,0,1'}}]\n    \
         lines: [{{name: middle, coordinates: '0.5,0,0.5,1'}}]\n"
    )
}

fn yaml(sources: &[String], metrics: &str, mqtt: &str) -> String {
    format!(
        "device: gate\nsources:\n{}detector: {{backend: scripted}}\n\
         publish: {{stats_interval_s: 1, mqtt: {mqtt}, json_lines: {{path: events.jsonl}}}}\nmetrics: {{{metrics}}}\n",
        sources.concat()
    )
}

impl Daemon {
    fn start(sources: &[String], more: &str, mqtt: &str) -> Self {
        Self::with_yaml(|listen| yaml(sources, &format!("{listen}{more}"), mqtt))
    }

    /// With the configuration that `yaml` makes of the key `listen`.
    fn with_yaml(yaml: impl FnOnce(&str) -> String) -> Self {
        let address = free_address();
        let running = Running::start(&yaml(&format!("listen: '{address}'")));
        Self { running, address }
    }

    /// The samples, by name and labels, once the daemon has given `wanted`.
    fn samples(
        &self,
        what: &str,
        wanted: impl Fn(&BTreeMap<String, f64>) -> bool,
    ) -> BTreeMap<String, f64> {
        wait_until_some(what, || {
            // It does not listen yet at first.
            TcpStream::connect(self.address).ok()?;
            let found = samples(body(&get(self.address, "/metrics", "")));
            wanted(&found).then_some(found)
        })
    }
}

/// The samples of a text, by name and labels.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a sample");
            let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
            (name.to_owned(), value)
        })
        .collect()
}

#[test]
fn the_daemon_counts_what_it_does_and_forgets_removed_sources() {
    let gate = source("gate", 1);
    let daemon = Daemon::start(&[gate.clone(), source("yard", 2)], "", "off");
    let frames = |samples: &BTreeMap<String, f64>, source: &str, outcome: &str| {
        let name =
            format!("jetwatch_source_frames_total{{source=\"{source}\",outcome=\"{outcome}\"}}");
        samples.get(&name).copied()
    };
    let first = daemon.samples("frames of both sources", |samples| {
        let is_counted = |source| frames(samples, source, "carried") >= Some(5.0);
        is_counted("gate") && is_counted("yard")
    });
    let value = |name: &str| {
        let found = first.get(name).copied();
        found.unwrap_or_else(|| panic!("no {name} in {first:#?}"))
    };
    assert_eq!(value("jetwatch_source_up{source=\"gate\"}"), 1.0);
    assert!(
        frames(&first, "gate", "detected") >= Some(4.0),
        "{first:#?}"
    );
    assert_eq!(value("jetwatch_detector_state{state=\"ready\"}"), 1.0);
    assert_eq!(value("jetwatch_detector_state{state=\"loading\"}"), 0.0);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        value(&format!("jetwatch_build_info{{version=\"{version}\"}}")),
        1.0
    );
    for name in [
        "jetwatch_line_crossings_total{source=\"yard\",line=\"middle\",to=\"left\",label=\"car\"}",
        "jetwatch_zone_objects{source=\"yard\",zone=\"road\",label=\"person\"}",
        "jetwatch_tracks_active{source=\"yard\",label=\"car\"}",
        "jetwatch_events_total{source=\"yard\",type=\"new\"}",
        "jetwatch_stage_seconds_count{stage=\"track\"}",
        "jetwatch_stage_seconds_bucket{stage=\"infer\",le=\"+Inf\"}",
        "process_cpu_seconds_total",
    ] {
        value(name);
    }
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs_f64();
    for name in [
        "process_start_time_seconds",
        "jetwatch_source_last_frame_timestamp_seconds{source=\"gate\"}",
    ] {
        assert!(
            (now - value(name)).abs() < TEST_TIMEOUT.as_secs_f64(),
            "{name}"
        );
    }
    assert!(value("process_resident_memory_bytes") > 1e6 && value("process_threads") > 3.0);
    // MQTT is off.
    assert!(!first.keys().any(|name| name.starts_with("jetwatch_mqtt")));
    let labels =
        |samples: &BTreeMap<String, f64>| -> BTreeSet<String> { samples.keys().cloned().collect() };
    let later = daemon.samples("more frames", |samples| {
        frames(samples, "gate", "carried") > frames(&first, "gate", "carried")
    });
    assert_eq!(
        value("process_start_time_seconds"),
        later["process_start_time_seconds"]
    );
    // A series is gone.
    assert!(labels(&later).is_superset(&labels(&first)));

    let listen = format!("listen: '{}'", daemon.address);
    let alone = std::slice::from_ref(&gate);
    daemon.running.reload(&yaml(alone, &listen, "off"));
    let without = daemon.samples("no series of the removed source", |samples| {
        !samples.keys().any(|name| name.contains("yard"))
    });
    assert!(frames(&without, "gate", "detected") >= frames(&first, "gate", "detected"));

    // Where metrics are read is decided at the start.
    let refused = daemon.running.reload(&yaml(&[gate], "", "off"));
    assert_eq!(refused["state"], "refused", "{refused}");
    assert_eq!(refused["problems"][0]["key"], "metrics", "{refused}");
    let address = daemon.address;
    daemon.samples("the daemon goes on", |samples| {
        frames(samples, "gate", "detected") > frames(&without, "gate", "detected")
    });
    let (_, log) = daemon.running.stop();
    assert_has!(log => "metrics can be read");
    assert!(TcpStream::connect(address).is_err(), "it still listens");
}

#[test]
fn frames_above_max_fps_are_skipped_and_the_network_is_named() {
    needs_onnx_runtime!();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/street-nano");
    let daemon = Daemon::with_yaml(|listen| {
        format!(
            "device: gate\nsources:\n  - name: bars\n    uri: 'launch:videotestsrc is-live=true ! \
             video/x-raw,width=160,height=90,framerate=30/1'\n    max_fps: 5\n\
             detector: {{backend: onnx, model: '{}', precision: fp32, workers: 1}}\n\
             publish: {{mqtt: off}}\nmetrics: {{{listen}}}\n",
            model.display()
        )
    });
    let frames = |samples: &BTreeMap<String, f64>, outcome: &str| {
        let name = format!("jetwatch_source_frames_total{{source=\"bars\",outcome=\"{outcome}\"}}");
        samples.get(&name).copied().unwrap_or(0.0)
    };
    let samples = daemon.samples("frames", |samples| {
        frames(samples, "detected") >= 5.0 && frames(samples, "skipped") >= 20.0
    });
    assert!(
        frames(&samples, "skipped") > frames(&samples, "detected"),
        "5 of 30 frames/s are kept: {samples:#?}"
    );
    let info = "jetwatch_detector_info{backend=\"onnx\",model=\"street-nano\",precision=\"fp32\"}";
    assert_eq!(samples.get(info), Some(&1.0), "{samples:#?}");
    daemon.running.stop();
}

#[test]
fn words_of_labels_are_those_of_the_messages() {
    let broker = free_address();
    let mqtt = format!(
        "{{broker: embedded, listen: '{broker}', spool: {{runtime_folder: spool-run, state_folder: spool-state}}}}"
    );
    let daemon = Daemon::start(&[source("gate", 1)], "", &mqtt);
    let samples = daemon.samples("the broker and the spool", |samples| {
        samples.get("jetwatch_mqtt_connected") == Some(&1.0)
            && samples.contains_key("jetwatch_spool_bytes{tier=\"state\"}")
            && samples.get("jetwatch_mqtt_messages_total{outcome=\"delivered\"}") > Some(&0.0)
    });
    let words = |family: &str, label: &str| -> BTreeSet<String> {
        let start = format!("{family}{{");
        let of_family = samples.keys().filter(|name| name.starts_with(&start));
        let label = format!("{label}=\"");
        of_family
            .filter_map(|name| Some(name.split_once(&label)?.1.split('"').next()?.to_owned()))
            .collect()
    };
    let schema =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/messages.schema.json"));
    let schema: serde_json::Value =
        serde_json::from_slice(&schema.expect("readable")).expect("JSON");
    let schema_words = |name: &str| -> BTreeSet<String> {
        let words = schema["$defs"][name]["oneOf"].as_array().expect(name);
        let words = words.iter().filter_map(|word| word["const"].as_str());
        words.map(str::to_owned).collect()
    };
    let found = words("jetwatch_events_total", "type");
    assert_eq!(found, schema_words("event_type"));
    let found = words("jetwatch_analytics_events_total", "type");
    assert_eq!(found, schema_words("analytics_type"));
    let mut states = schema_words("detector_state");
    states.insert("loading".to_owned());
    assert_eq!(words("jetwatch_detector_state", "state"), states);
    let found = words("jetwatch_line_crossings_total", "to");
    assert_eq!(found, schema_words("side"));
    let dropped = schema["$defs"]["spool_dropped"]["properties"].as_object();
    let dropped: BTreeSet<String> = dropped.expect("a map").keys().cloned().collect();
    assert_eq!(words("jetwatch_spool_dropped_total", "class"), dropped);
    let found = words("jetwatch_throttled", "cause");
    assert_eq!(found, schema_words("throttling_cause"));
    daemon.running.stop();
}

#[test]
fn the_text_file_is_readable_for_others_and_goes_with_the_daemon() {
    let daemon = Daemon::start(&[source("gate", 1)], ", text_file: jetwatch.prom", "off");
    let path = daemon.running.setup.path("jetwatch.prom");
    let up = "jetwatch_source_up{device=\"gate\",source=\"gate\"} 1\n";
    let text = wait_until_some("a source that is up", || {
        let text = fs::read_to_string(&path).ok()?;
        text.contains(up).then_some(text)
    });
    let found = samples(&text);
    assert!(
        found.keys().all(|name| name.contains("device=\"gate\"")),
        "{found:#?}"
    );
    assert!(found.contains_key("jetwatch_process_threads{device=\"gate\"}"));
    let mode = fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    let (setup, _) = daemon.running.stop();
    let left: BTreeSet<_> = fs::read_dir(setup.folder.path())
        .expect("readable")
        .map(|entry| entry.expect("readable").file_name())
        .collect();
    let wanted = ["events.jsonl", "jetwatch.yaml"].map(Into::into);
    assert_eq!(left, BTreeSet::from(wanted));
}

#[test]
fn check_is_content_only_where_the_daemon_starts() {
    let taken = TcpListener::bind(loopback()).expect("a free port");
    let (folder, token) = token_file();
    let no_daemon = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(no_daemon.path().join("proc")).expect("created");
    let token = format!("token_file: '{}'", token.display());
    let prom = folder.path().join("jetwatch.prom");
    let missing = folder.path().join("none/jetwatch.prom");
    let [prom, missing] = [prom, missing].map(|path| format!("text_file: '{}'", path.display()));
    let listen = format!("listen: '{}'", taken.local_addr().expect("an address"));
    let free = format!("listen: '{}'", free_address());
    let gone = "token_file: /nonexistent/token".to_owned();
    #[rustfmt::skip]
    let cases = [
        (vec![&free, &token, &prom], None),
        (vec![&listen, &token], Some("is in use by another program")),
        (vec![&missing], Some("metrics.text_file: cannot create a file in")),
        (vec![&free, &gone], Some("metrics.token_file: cannot read /nonexistent/token")),
    ];
    for (metrics, wanted) in cases {
        let keys: Vec<&str> = metrics.iter().map(|key| key.as_str()).collect();
        let setup = Setup::new(&yaml(&[source("gate", 1)], &keys.join(", "), "off"));
        let root = no_daemon.path();
        let checked = finish(setup.command("check").arg("--root").arg(root));
        let text = String::from_utf8_lossy(&checked.stdout).into_owned() + &stderr(&checked);
        let ran = finish(setup.command("run").args(["--max-frames", "3"]));
        let log = stderr(&ran);
        assert_eq!(checked.status.success(), wanted.is_none(), "{text}");
        assert_eq!(ran.status.success(), wanted.is_none(), "{log}");
        if let Some(wanted) = wanted {
            assert!(text.contains(wanted), "{text}");
            assert!(log.contains(wanted), "{log}");
        }
    }
}

#[test]
fn the_reference_page_lists_all_families() {
    check_generated("docs/src/reference/metrics.md", &families_page());
}

#[test]
fn a_daemon_that_ends_frees_the_port_in_time() {
    let (exporter, address) = serve(MetricsConfig::default());
    // A request that is never completed.
    let mut open = connect(address);
    open.write_all(b"GET /metrics").expect("written");
    drop(exporter);
    let mut rest = Vec::new();
    let _ = open.read_to_end(&mut rest);
    assert!(rest.is_empty());
    TcpListener::bind(address).expect("the port is free");
}
