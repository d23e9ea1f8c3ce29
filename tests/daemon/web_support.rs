//! The support bundle and the checks of the installation: what they have, and that no secret is in them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jetwatch_config::WebRole;
use jetwatch_web::{Scope, Users};
use serde_json::{Value, json};

use crate::publish_access::authority;
use crate::support::daemon::wait_until_some;
use crate::support::page::{Daemon, PASSWORD, body, get, header, login, post, status};
use crate::support::project::root;

/// All secrets of the configuration below begin like this; none is a word of the program.
const SECRET: &str = "hunter";

/// A configuration with a secret of each kind, in the folder of the files that it names.
fn configuration(folder: &Path, port: u16) -> String {
    let file = |name: &str| folder.join(name).display().to_string();
    format!(
        "# Was: password: hunter-comment\n\
device: test\n\
sources:\n\
\x20 - name: gate\n\
\x20   uri: synthetic://traffic?seed=1&objects=4&width=320&height=180&fps=10\n\
\x20 - name: door\n\
\x20   uri: rtsp://admin:hunter-uri@127.0.0.1:9/stream?token=hunter-query&x=1\n\
\x20 - name: yard\n\
\x20   uri: rtsp://127.0.0.1:9/stream\n\
\x20   user: admin\n\
\x20   password: hunter-camera\n\
\x20 - name: ramp\n\
\x20   uri: rtsp://127.0.0.1:9/ramp\n\
\x20   user: admin\n\
\x20   password_env: JETWATCH_TEST_CAMERA\n\
\x20 - name: hall\n\
\x20   uri: 'launch:rtspsrc location=rtsp://a:hunter-launch@127.0.0.1:9/ user-pw=hunter-property ! decodebin'\n\
\x20 - name: roof\n\
\x20   uri: rtsp://127.0.0.1:9/roof\n\
\x20   user: admin\n\
\x20   password_file: {camera}\n\
source_templates:\n\
\x20 - name: more\n\
\x20   parameters: [{{name: n, min: 1, max: 4}}]\n\
\x20   source: {{uri: 'rtsp://127.0.0.1:9/{{n}}', user: admin, password: hunter-template}}\n\
commands: {{enabled: true}}\n\
detector: {{model: {model}}}\n\
publish:\n\
\x20 mqtt:\n\
\x20   broker: mqtts://127.0.0.1:9\n\
\x20   user: box\n\
\x20   password: hunter-broker\n\
\x20   tls: {{ca_file: {ca}, cert_file: {cert}, key_file: {key}}}\n\
\x20   states: {{broker: 'mqtts://127.0.0.1:11', user: box, password: hunter-states}}\n\
\x20   spool: {{runtime_folder: {run}, state_folder: {state}}}\n\
\x20 webhooks:\n\
\x20   - name: alarm\n\
\x20     url: http://127.0.0.1:9/hook?token=hunter-hook\n\
\x20     secret_file: {hmac}\n\
\x20     headers: [{{name: Authorization, value: 'Bearer hunter-header'}}, {{name: X-Key, value_file: {header}}}]\n\
metrics: {{listen: '127.0.0.1:0', token_file: {token}}}\n\
web:\n\
\x20 listen: 127.0.0.1:{port}\n\
\x20 users_file: {users}\n",
        model = root().join("models/street-nano").display(),
        ca = file("t-ca.pem"),
        cert = file("t-client.pem"),
        key = file("t-client.key"),
        run = file("run"),
        state = file("state"),
        hmac = file("hmac"),
        header = file("header"),
        camera = file("camera"),
        token = file("token"),
        users = file("users"),
    )
}

/// Writes the files of the configuration; returns their secrets.
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
    users
        .add("anna", WebRole::Administrator, PASSWORD)
        .expect("new");
    let token = users.add_token("ha", Scope::Read).expect("new");
    let path = folder.join("users");
    users.save(&path).expect("written");
    let file: Value =
        serde_json::from_str(&fs::read_to_string(path).expect("written")).expect("JSON");
    let digest = file["tokens"][0]["sha256"].as_str().expect("a digest");
    let hash = file["users"][0]["password"].as_str().expect("a hash");
    // The key's own lines: its head is no secret.
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

#[test]
fn no_secret_is_in_the_support_bundle() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut secrets = write_secrets(folder.path());
    let daemon = Daemon::with_environment(
        |port| configuration(folder.path(), port),
        &[
            ("JETWATCH_TEST_CAMERA", "hunter-environment"),
            ("GST_DEBUG", "1"),
        ],
    );
    let address = daemon.address;
    let answer = post(address, "/api/login", &login("anna", PASSWORD), "");
    let cookie = header(&answer, "set-cookie").expect("a session");
    let cookie = cookie.split(';').next().expect("a cookie");
    let session = format!("Cookie: {cookie}\r\n");
    let (_, value) = cookie.split_once('=').expect("a value");
    secrets.push(value.to_owned());
    // Each source has failed, so that its reason is there; so have the broker and the webhook.
    wait_until_some("the reasons of the sources", || {
        let bundle = get(address, "/api/support", &session);
        let bundle: Value = serde_json::from_str(body(&bundle)).ok()?;
        let messages = bundle["messages"].as_array()?;
        let failed = messages.iter().filter(|message| {
            message["kind"] == "source"
                && message["state"] != "connecting"
                && !message["reason"].is_null()
        });
        (failed.count() >= 4).then_some(())
    });
    // A wrong password, typed into the place of the name, is not logged.
    let answer = post(address, "/api/login", &login("hunter-typed", "x"), "");
    assert_eq!(status(&answer), "401");
    assert_eq!(status(&post(address, "/api/doctor", "", &session)), "200");
    wait_until_some("the lines of the checks", || {
        let found = get(address, "/api/doctor", &session);
        let found: Value = serde_json::from_str(body(&found)).ok()?;
        let lines = found["lines"].as_array()?.len();
        (lines > 5 || found["running"] == json!(false)).then_some(())
    });
    let answer = get(address, "/api/support", &session);
    let bundle = body(&answer);
    let parsed: Value = serde_json::from_str(bundle).expect("JSON");
    // It has what it is for.
    let configuration = parsed["configuration"].as_str().expect("a text");
    assert_has!(configuration => "rtsp://", "webhooks", "key_file", "user: admin");
    assert!(!parsed["log"].as_array().expect("lines").is_empty());
    assert!(
        !parsed["checks"]["lines"]
            .as_array()
            .expect("lines")
            .is_empty()
    );
    for secret in &secrets {
        assert!(!bundle.contains(secret.as_str()), "{secret}: {bundle}");
    }
    // Nor in another spelling: all secrets of the configuration have the same beginning.
    let lower = bundle.to_ascii_lowercase();
    for form in [SECRET, "aHVudGVy", "68756e746572", "%68%75%6e"] {
        let at = lower.find(&form.to_ascii_lowercase());
        assert!(
            at.is_none(),
            "{form}: {:?}",
            at.map(|at| &bundle[at.saturating_sub(200)..at + 60])
        );
    }
    daemon.stop();
}

/// Keys of the configuration that hold a secret, or name a file or a variable that does, and how the configuration of this test has them.
#[rustfmt::skip]
const SECRET_KEYS: &[(&str, &str)] = &[
    ("metrics.tls.key_file", "as publish.mqtt.tls.key_file"),
    ("metrics.token_file", "token_file: {token}"),
    ("publish.mqtt.password", "password: hunter-broker"),
    ("publish.mqtt.password_env", "as sources.password_env"),
    ("publish.mqtt.password_file", "as sources.password_file"),
    ("publish.mqtt.states.password", "password: hunter-states"),
    ("publish.mqtt.states.password_env", "as sources.password_env"),
    ("publish.mqtt.states.password_file", "as sources.password_file"),
    ("publish.mqtt.states.tls.key_file", "as publish.mqtt.tls.key_file"),
    ("publish.mqtt.tls.key_file", "key_file: {key}"),
    ("publish.webhooks.headers.value", "Bearer hunter-header"),
    ("publish.webhooks.headers.value_file", "value_file: {header}"),
    ("publish.webhooks.secret_file", "secret_file: {hmac}"),
    ("source_templates.source.password", "password: hunter-template"),
    ("source_templates.source.password_env", "as sources.password_env"),
    ("source_templates.source.password_file", "as sources.password_file"),
    ("sources.password", "password: hunter-camera"),
    ("sources.password_env", "password_env: JETWATCH_TEST_CAMERA"),
    ("sources.password_file", "password_file: {camera}"),
    ("web.tls.key_file", "as publish.mqtt.tls.key_file"),
    ("web.users_file", "users_file: {users}"),
];

/// Paths of the keys below `schema` whose names are those of secrets.
fn secret_paths(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        let path = [path, name].join(if path.is_empty() { "" } else { "." });
        let parts = ["password", "secret", "token", "key_file", "users_file"];
        let is_secret = parts.iter().any(|part| name.contains(part));
        if is_secret || path.contains("headers.value") {
            found.insert(path.clone());
        }
        secret_paths(below, &path, found);
    }
    if schema["items"].is_object() {
        secret_paths(&schema["items"], path, found);
    }
    for choice in ["anyOf", "oneOf"] {
        for below in schema[choice].as_array().into_iter().flatten() {
            secret_paths(below, path, found);
        }
    }
}

#[test]
fn each_secret_key_of_the_configuration_is_in_that_test() {
    let text = fs::read_to_string(root().join("configs/jetwatch.schema.json")).expect("readable");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    let mut found = BTreeSet::new();
    secret_paths(&schema, "", &mut found);
    let known: BTreeSet<String> = SECRET_KEYS
        .iter()
        .map(|(path, _)| (*path).to_owned())
        .collect();
    assert_eq!(
        found, known,
        "a new key belongs into the configuration above"
    );
    let source = fs::read_to_string(root().join(file!())).expect("readable");
    let (configuration, _) = source.split_once("fn write_secrets").expect("above");
    for (path, how) in SECRET_KEYS {
        let other = how.strip_prefix("as ");
        match other {
            Some(other) => assert!(known.contains(other), "{path}: {other}"),
            None => assert!(configuration.contains(how), "{path}: {how}"),
        }
    }
}

#[test]
fn checks_run_one_at_a_time_and_end_with_the_daemon() {
    let daemon = Daemon::start("  without_users: administrator\n");
    let address = daemon.address;
    let checks =
        || -> Value { serde_json::from_str(body(&get(address, "/api/doctor", ""))).expect("JSON") };
    assert_eq!(
        (&checks()["running"], &checks()["available"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(status(&post(address, "/api/doctor", "", "")), "200");
    let again = post(address, "/api/doctor", "", "");
    assert!(
        status(&again) == "409" && body(&again).contains("already"),
        "{again}"
    );
    let found = wait_until_some("lines", || {
        let found = checks();
        (found["lines"]
            .as_array()
            .is_some_and(|lines| lines.len() > 2))
        .then_some(found)
    });
    let line = &found["lines"][0];
    assert_eq!(line["state"], "ok", "{line}");
    assert!(
        line["text"]
            .as_str()
            .is_some_and(|text| text.starts_with("configuration:")),
        "{line}"
    );
    let log = daemon.stop();
    assert!(!log.contains("did not stop"), "{log}");
}
