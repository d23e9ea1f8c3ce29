// SPDX-License-Identifier: Apache-2.0
//! No secret of a configuration is in anything that the program writes or answers. A marker stands wherever the schema of the
//! configuration has a text that can hold a secret, and each server of this test refuses the credentials that it is given.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::thread;

use jetwatch_config::{Config, Document, KeySpec, Section, Value as Yaml, ValueType, WebRole};
use jetwatch_web::{Scope, Users, endpoints};
use serde_json::{Value, json};

use crate::publish_access::authority;
use crate::support::daemon::{Setup, Signal, finish, jetwatch, signal, wait_until_some};
use crate::support::http_endpoint::{Answer, Endpoint};
use crate::support::page::{PASSWORD, body, get, login, post, session, status, status_of};
use crate::support::ports::free_port;
use crate::support::project::root;

/// All secrets of the configuration begin like this; none is a word of the program.
const SECRET: &str = "hunter";

/// The same in other spellings: base64 where it stands behind `admin:` or `user:`, hexadecimal, escaped.
const SPELLINGS: [&str; 5] = [SECRET, "aHVudGVy", "h1bnRlc", "68756e746572", "%68%75%6e"];

/// Keys whose value is read as that of another key, which the configuration has.
const ALIKE: [(&str, &str); 9] = [
    ("source_templates.source.", "sources."),
    ("publish.mqtt.states.tls.", "publish.mqtt.tls."),
    ("publish.mqtt.states.password", "sources.password"),
    ("publish.mqtt.states.", "publish.mqtt."),
    ("publish.mqtt.password", "sources.password"),
    ("publish.mqtt.broker", "publish.mqtt.states.broker"),
    ("publish.mqtt.states.brokers", "publish.mqtt.brokers"),
    ("metrics.tls.", "publish.mqtt.tls."),
    ("web.tls.", "publish.mqtt.tls."),
];

/// The ports that a configuration names.
struct Ports {
    page: u16,
    metrics: u16,
    /// Of a server that refuses every request.
    camera: u16,
    /// Of webhooks.
    hook: u16,
}

/// A configuration with a secret of each kind, in the folder of the files that it names.
fn configuration(folder: &Path, ports: &Ports) -> String {
    let camera = format!("127.0.0.1:{}", ports.camera);
    let addresses = [
        format!("rtsp://admin:hunter-uri@{camera}/stream?token=hunter-query&x=1"),
        format!("rtsp://admin:hunter-digest@{camera}/digest"),
        format!("rtsp://{camera}/user=admin_password=hunter-path_channel=1.sdp"),
        format!("http://admin:hunter-http@{camera}/a.mjpg?x=1&k=hunter-k"),
        format!("http://{camera}/b.jpg?X-Amz-Date=1&X-Amz-Signature=hunter-amz"),
        format!("http://{camera}/c.m3u8?st=hunter-st&e=1"),
        format!("http://{camera}/d.jpg?sig=hunter-sig"),
        format!("http://{camera}/e.jpg?authkey=hunter-authkey"),
        format!("srt://{camera}?mode=caller&passphrase=hunter-passphrase"),
        format!("srt://{camera}?streamid=hunter-streamid"),
        format!("rtmp://{camera}/live/hunter-stream-key"),
        format!(
            "launch:rtspsrc location=rtsp://a:hunter-launch@{camera}/ user-pw=hunter-property ! decodebin"
        ),
        format!(
            "launch:souphttpsrc location=http://{camera}/?key=hunter-key extra-headers=\"h,Cookie=hunter-cookie\" ! decodebin"
        ),
    ];
    let mut sources = String::new();
    for (index, uri) in addresses.iter().enumerate() {
        writeln!(sources, "  - {{name: s{index}, uri: '{uri}'}}").expect("a string");
    }
    let (folder, run) = (folder.display(), "hunter");
    let Ports {
        page,
        metrics,
        hook,
        ..
    } = ports;
    let model = root().join("models/street-nano");
    format!(
        "# Was: password: {run}-comment
device: test
sources:
  - {{name: gate, uri: 'synthetic://traffic?seed=1&objects=4&width=320&height=180&fps=10'}}
  - {{name: yard, uri: 'rtsp://{camera}/1', user: admin, password: hunter-camera, onvif: {{events: motion, address: '{camera}', user: admin, password: hunter-onvif}}}}
  - {{name: ramp, uri: 'http://{camera}/2.jpg', user: admin, password_env: JETWATCH_TEST_CAMERA, onvif: {{events: motion, user: admin, password_env: JETWATCH_TEST_CAMERA}}}}
  - {{name: roof, uri: 'rtsp://{camera}/3', user: admin, password_file: {folder}/camera, onvif: {{events: motion, user: admin, password_file: {folder}/camera}}}}
{sources}source_templates:
  - name: more
    parameters: [{{name: n, min: 1, max: 4}}]
    source: {{uri: 'rtsp://{camera}/{{n}}', user: admin, password: hunter-template}}
commands: {{enabled: true, state_folder: {folder}/commands}}
detector: {{model: {model}}}
record: {{folder: {folder}/record, snapshots: {{enabled: true}}}}
log: {{level: trace, gst_debug: '*:9'}}
publish:
  stats_interval_s: 1
  json_lines: {{path: {folder}/events.jsonl}}
  mqtt:
    brokers: ['mqtts://127.0.0.1:9', 'mqtts://127.0.0.1:10']
    user: user
    password: hunter-broker
    tls: {{ca_file: {folder}/t-ca.pem, cert_file: {folder}/t-client.pem, key_file: {folder}/t-client.key}}
    states: {{broker: 'mqtts://127.0.0.1:11', user: user, password: hunter-states}}
    spool: {{runtime_folder: {folder}/run, state_folder: {folder}/state}}
  webhooks:
    - name: alarm
      url: http://127.0.0.1:{hook}/hook/hunter-hook?token=hunter-hook-query
      secret_file: {folder}/hmac
      headers: [{{name: Authorization, value: 'Bearer hunter-header'}}, {{name: X-Key, value_file: {folder}/header}}]
      spool: {{runtime_folder: {folder}/run, state_folder: {folder}/state}}
    - name: away
      url: http://127.0.0.1:9/hunter-away
      spool: {{runtime_folder: {folder}/run, state_folder: {folder}/state}}
metrics: {{listen: '127.0.0.1:{metrics}', text_file: {folder}/jetwatch.prom, token_file: {folder}/token}}
web: {{listen: '127.0.0.1:{page}', users_file: {folder}/users}}
",
        model = model.display(),
    )
}

/// Writes the files of the configuration; returns their secrets that do not begin as the others do.
fn write_secrets(folder: &Path) -> Vec<String> {
    authority(folder, "t");
    for name in ["run", "state"] {
        fs::create_dir(folder.join(name)).expect("created");
    }
    for (name, text) in [
        ("hmac", "hunter-hmac-key-of-the-webhook\n"),
        ("header", "hunter-value-of-a-header\n"),
        ("token", "hunter-token-of-metrics\n"),
        ("camera", "hunter-file-of-a-camera\n"),
    ] {
        let path = folder.join(name);
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
    }
    let mut users = Users::default();
    let added = users.add("anna", WebRole::Administrator, PASSWORD);
    added.expect("new");
    let token = users.add_token("ha", Scope::Read).expect("new");
    let path = folder.join("users");
    users.save(&path).expect("written");
    let file: Value =
        serde_json::from_str(&fs::read_to_string(path).expect("written")).expect("JSON");
    let digest = file["tokens"][0]["sha256"].as_str().expect("a digest");
    let hash = file["users"][0]["password"].as_str().expect("a hash");
    // The key's own lines: its head is not a secret.
    let key = fs::read_to_string(folder.join("t-client.key")).expect("written");
    let mut secrets: Vec<String> = key
        .lines()
        .filter(|line| !line.starts_with("-----") && line.len() > 20)
        .map(str::to_owned)
        .collect();
    assert!(!secrets.is_empty(), "{key}");
    let salted = hash.rsplit('$').next().expect("a hash");
    secrets.extend([token, digest.to_owned(), hash.to_owned(), salted.to_owned()]);
    secrets.extend(["argon2".to_owned(), PASSWORD.to_owned()]);
    secrets
}

/// A server of RTSP and HTTP that asks for credentials, refuses all, and repeats the address in its answer.
fn refusing_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut lines = BufReader::new(&client).lines().map_while(Result::ok);
                while let Some(request) = lines.next() {
                    let head: Vec<String> = lines.by_ref().take_while(|l| !l.is_empty()).collect();
                    let number = head.iter().find(|line| line.starts_with("CSeq"));
                    let version = request.rsplit(' ').next().unwrap_or_default();
                    let scheme = match request.contains("digest") {
                        true => "Digest realm=\"r\", nonce=\"n\"",
                        false => "Basic realm=\"r\"",
                    };
                    let answer = format!(
                        "{version} 401 {request}\r\nWWW-Authenticate: {scheme}\r\n{}\r\nContent-Length: 0\r\n\r\n",
                        number.map_or("X: 1", String::as_str)
                    );
                    if (&client).write_all(answer.as_bytes()).is_err() {
                        break;
                    }
                }
            });
        }
    });
    port
}

/// What the program has said, by where.
#[derive(Default)]
struct Outputs(Vec<(String, String)>);

impl Outputs {
    fn add(&mut self, place: impl Into<String>, text: impl Into<String>) {
        self.0.push((place.into(), text.into()));
    }

    /// All files below `folder`, but for those in `own`.
    fn add_files(&mut self, folder: &Path, own: &BTreeSet<String>) {
        for entry in fs::read_dir(folder).expect("readable").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                self.add_files(&path, own);
            } else if !own.contains(&name) {
                // A file may go while this looks.
                let bytes = fs::read(&path).unwrap_or_default();
                self.add(path.display().to_string(), String::from_utf8_lossy(&bytes));
            }
        }
    }

    /// Runs the program, which ends by itself.
    fn add_run(&mut self, arguments: &[&str]) -> String {
        let output = finish(
            jetwatch()
                .args(arguments)
                .env("JETWATCH_TEST_CAMERA", "hunter-environment"),
        );
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        self.add(arguments.join(" "), text.clone());
        text
    }

    /// Fails with each line that shows one of `secrets`.
    fn assert_none_of(&self, secrets: &[String]) {
        let mut leaks = BTreeSet::new();
        for (place, text) in &self.0 {
            for (line, lower) in text.lines().map(|line| (line, line.to_ascii_lowercase())) {
                let spelled = SPELLINGS
                    .iter()
                    .find_map(|form| lower.find(&form.to_ascii_lowercase()));
                let other = || secrets.iter().find_map(|secret| line.find(secret.as_str()));
                if let Some(at) = spelled.or_else(other) {
                    let text = String::from_utf8_lossy(&line.as_bytes()[at.saturating_sub(160)..]);
                    leaks.insert(format!(
                        "{place}: {}",
                        text.chars().take(240).collect::<String>()
                    ));
                }
            }
        }
        let shown: Vec<&str> = leaks.iter().take(60).map(String::as_str).collect();
        assert!(
            leaks.is_empty(),
            "{} leaks:\n{}",
            leaks.len(),
            shown.join("\n")
        );
    }
}

/// A path with a name in it for each request by GET that ends.
fn paths() -> Vec<String> {
    let gets = endpoints().into_iter().filter(|it| it.method == "GET");
    let mut paths: Vec<String> = gets.map(|it| it.path.replace("{}", "gate")).collect();
    let is_stream = |path: &String| {
        ["live", "pictures", "mjpeg", "mp4"]
            .iter()
            .any(|end| path.ends_with(end))
    };
    paths.retain(|path| !is_stream(path));
    paths.extend(["/", "/api/sources/s0/rules", "/hunted"].map(str::to_owned));
    paths
}

#[test]
fn no_secret_is_in_any_output() {
    let setup = Setup::new("");
    let folder = setup.folder.path();
    let mut secrets = write_secrets(folder);
    let hook = Endpoint::start(vec![Answer::Status(500, "")]);
    let ports = Ports {
        page: free_port(),
        metrics: free_port(),
        camera: refusing_server(),
        hook: hook.port(),
    };
    let text = configuration(folder, &ports);
    fs::write(&setup.config, &text).expect("written");
    // What the test itself wrote holds its secrets.
    let files = fs::read_dir(folder).expect("readable").flatten();
    let mut own: BTreeSet<String> = files
        .map(|it| it.file_name().to_string_lossy().into_owned())
        .collect();
    let file = |name: &str| File::create(folder.join(name)).expect("created");
    let mut command = setup.command("run");
    for (option, name) in [
        ("--stats", "stats.json"),
        ("--health", "health"),
        ("--dot", "dot"),
    ] {
        command.arg(option).arg(folder.join(name));
    }
    command
        .env("JETWATCH_TEST_CAMERA", "hunter-environment")
        .stdin(Stdio::null())
        .stdout(file("stdout.txt"))
        .stderr(file("log.txt"));
    let mut daemon = command.spawn().expect("it starts");
    let log = || fs::read_to_string(folder.join("log.txt")).unwrap_or_default();
    let address = SocketAddr::from(([127, 0, 0, 1], ports.page));
    wait_until_some("the page", || {
        assert!(daemon.try_wait().expect("a child").is_none(), "{}", log());
        std::net::TcpStream::connect(address).ok()
    });
    let answer = post(address, "/api/login", &login("anna", PASSWORD), "");
    let session = session(&answer);
    let (_, value) = session.trim_end().split_once('=').expect("a value");
    secrets.push(value.to_owned());
    // Each source has failed, so that its reason is there; so have the brokers and the webhooks.
    let count = text.matches("uri: ").count() - 2;
    wait_until_some("the reasons of the sources", || {
        let bundle = get(address, "/api/support", &session);
        let bundle: Value = serde_json::from_str(body(&bundle)).ok()?;
        let states = bundle["messages"].as_array()?.iter();
        let failed =
            states.filter(|message| message["kind"] == "source" && !message["reason"].is_null());
        let names: BTreeSet<&str> = failed.filter_map(|it| it["source"].as_str()).collect();
        (names.len() >= count && !hook.requests().is_empty()).then_some(())
    });
    // A wrong password, typed into the place of the name, is not logged.
    let answer = post(
        address,
        "/api/login",
        &login("hunter-typed", "hunter-x"),
        "",
    );
    assert_eq!(status(&answer), "401");
    assert_eq!(status(&post(address, "/api/doctor", "", &session)), "200");
    wait_until_some("the lines of the checks", || {
        let found = get(address, "/api/doctor", &session);
        let found: Value = serde_json::from_str(body(&found)).ok()?;
        let lines = found["lines"].as_array()?.len();
        (lines > 5 || found["running"] == json!(false)).then_some(())
    });
    signal(&daemon, Signal::USR1);
    wait_until_some("graphs", || log().contains("SIGUSR1").then_some(()));
    signal(&daemon, Signal::HUP);
    wait_until_some("a reload", || log().contains("SIGHUP").then_some(()));

    let mut outputs = Outputs::default();
    for path in paths() {
        let answer = get(address, &path, &session);
        assert!(
            ["200", "404"].contains(&status(&answer)),
            "{path}: {answer}"
        );
        outputs.add(&path, answer);
    }
    let answer = get(address, "/api/support", &session);
    let bundle: Value = serde_json::from_str(body(&answer)).expect("JSON");
    // It has what it is for.
    let configuration = bundle["configuration"].as_str().expect("a text");
    assert_has!(configuration => "rtsp://", "webhooks", "key_file", "user: admin");
    assert!(!bundle["log"].as_array().expect("lines").is_empty());
    outputs.add("support", answer);
    let answer = status_of("GET", address, "/api/live", "", &session);
    assert_eq!(
        answer, "200",
        "the stream of the messages that are in the bundle"
    );
    let metrics = SocketAddr::from(([127, 0, 0, 1], ports.metrics));
    let answer = get(
        metrics,
        "/metrics",
        "Authorization: Bearer hunter-token-of-metrics\r\n",
    );
    assert_eq!(status(&answer), "200", "{answer}");
    outputs.add("/metrics", answer);
    outputs.add("/metrics without a token", get(metrics, "/metrics", ""));
    for name in ["cmdline", "comm", "status"] {
        let text = fs::read(format!("/proc/{}/{name}", daemon.id())).expect("it runs");
        outputs.add(name, String::from_utf8_lossy(&text));
    }
    let config = setup.config.display().to_string();
    for arguments in [
        &["check", "--config", &config][..],
        &["check", "--config", &config, "--file-only"],
        &["doctor", "--config", &config],
        &["facts"],
        &["spool", "status", "--config", &config],
        &["spool", "status", "--config", &config, "--webhook", "alarm"],
        &["media", "list", "--config", &config],
    ] {
        outputs.add_run(arguments);
    }
    // Some are removed at the end.
    outputs.add_files(folder, &own);
    signal(&daemon, Signal::TERM);
    assert!(daemon.wait().expect("it ends").success(), "{}", log());
    // Each value once more, as no key accepts it; all problems are told at once.
    for (index, (part, broken)) in [
        ("://", ":/"),
        ("127.0.0.1:", "127.0.0.1:x"),
        ("hunter", "hun#hunter #hunter"),
        ("'", "\""),
        (": ", ":"),
        ("password", "pasword"),
        ("url", "uri"),
        ("name: ", "name: x://a:hunter@"),
    ]
    .iter()
    .enumerate()
    {
        let path = folder.join(format!("broken-{index}.yaml"));
        own.insert(format!("broken-{index}.yaml"));
        fs::write(&path, text.replace(part, broken)).expect("written");
        let path = path.display().to_string();
        outputs.add_run(&["check", "--config", &path]);
        outputs.add_run(&["run", "--config", &path, "--max-frames", "1"]);
    }
    outputs.add_files(folder, &own);
    for place in [
        "log.txt",
        "dot/",
        "state/",
        "stats.json",
        "health",
        "jetwatch.prom",
        "record",
    ] {
        let found = outputs
            .0
            .iter()
            .any(|(name, text)| name.contains(place) && !text.is_empty());
        assert!(found, "{place} was looked at");
    }
    outputs.assert_none_of(&secrets);
}

/// The paths of keys that hold a secret, an address, or name a file or a variable that holds one.
fn secret_paths(keys: &[KeySpec], above: &str, found: &mut BTreeSet<String>) {
    for key in keys {
        let path = format!("{above}{}", key.name);
        let names = [
            "password",
            "secret",
            "token",
            "key_file",
            "users_file",
            "value_file",
        ];
        let is_secret = match key.value {
            ValueType::Secret => true,
            ValueType::Text(form) | ValueType::Texts(form) | ValueType::Other { form, .. } => {
                form.contains("://") || key.name == "password_env"
            }
            ValueType::Path => names.iter().any(|part| key.name.contains(part)),
            _ => false,
        };
        if is_secret {
            found.insert(path.clone());
        }
        secret_paths(key.inner().unwrap_or_default(), &format!("{path}."), found);
    }
}

/// The paths of the keys that a file has.
fn given_paths(value: Yaml<'_>, above: &str, found: &mut BTreeSet<String>) {
    match value {
        Yaml::Map(entries) => {
            for (key, node) in entries {
                let path = [above, key].join(if above.is_empty() { "" } else { "." });
                given_paths(node.value(), &path, found);
            }
        }
        Yaml::List(items) => {
            for item in items {
                given_paths(item.value(), above, found);
            }
        }
        _ => _ = found.insert(above.to_owned()),
    }
}

#[test]
fn each_key_that_can_hold_a_secret_is_in_that_test() {
    let ports = Ports {
        page: 1,
        metrics: 2,
        camera: 3,
        hook: 4,
    };
    let text = configuration(Path::new("/f"), &ports);
    let document = Document::parse("f.yaml", &text).expect("YAML");
    let (mut given, mut wanted) = (BTreeSet::new(), BTreeSet::new());
    given_paths(document.root().value(), "", &mut given);
    secret_paths(Config::KEYS, "", &mut wanted);
    assert!(wanted.len() > 20, "{wanted:?}");
    let is_given = |path: &String| {
        let alike = ALIKE.iter().filter_map(|(prefix, other)| {
            path.strip_prefix(prefix).map(|key| format!("{other}{key}"))
        });
        let mut paths = alike.chain([path.clone()]);
        paths.any(|path| given.contains(&path))
    };
    let missing: Vec<&String> = wanted.iter().filter(|path| !is_given(path)).collect();
    assert!(
        missing.is_empty(),
        "add them to the configuration above: {missing:?}"
    );
}
