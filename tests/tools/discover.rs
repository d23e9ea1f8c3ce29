// SPDX-License-Identifier: Apache-2.0
//! `jetwatch discover` with a double of ONVIF cameras, which has what users of other clients reported. How cameras are found is tested
//! in the crate `onvif`, which sends the packets.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use jetwatch_config::Config;
use serde_json::{Value, json};

use crate::support::http_camera::certificate;
use crate::support::onvif_camera::{LOGIN, OnvifCamera};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The streams of the double: the main stream, then the sub stream.
fn streams(codec_of_main: &str, host: &str) -> Value {
    json!([
        {"name": "mainStream", "input": "v1", "codec": codec_of_main, "size": [2560, 1440], "frame_rate": 25.0, "key_frame_interval": 50,
         "sound": true, "for_detection": false, "uri": format!("rtsp://{host}/main?channel=1&subtype=4"), "error": null},
        {"name": "subStream", "input": "v1", "codec": "H264", "size": [640, 360], "frame_rate": 15.0, "key_frame_interval": 30,
         "sound": false, "for_detection": true, "uri": format!("rtsp://{host}/sub&?channel=1&subtype=5"), "error": null},
    ])
}

/// Each camera's streams are found, whatever way it has to log in, to name its services and its addresses.
#[test]
fn streams_of_cameras_with_reported_peculiarities_are_found() {
    const OLD: &str = "H264";
    const NEW: &str = "H265";
    const HOST: &str = "127.0.0.1:8554";
    #[rustfmt::skip]
    let cases: &[(&str, Value, &str, &str)] = &[
        ("no login", json!({}), NEW, HOST),
        ("the older login", json!({"login": "token"}), NEW, HOST),
        // agsh/onvif 249, koush/scrypted 1142: the time of the token is that of this machine.
        ("a clock that is ahead", json!({"login": "token", "ahead_s": 7_200}), NEW, HOST),
        ("a clock that is behind", json!({"login": "token", "ahead_s": -86_400 * 400}), NEW, HOST),
        // agsh/onvif 294, Quedale/OnvifDeviceManager 19: Digest of HTTP alone.
        ("Digest", json!({"login": "digest"}), NEW, HOST),
        ("Digest with SHA-256", json!({"login": "sha256"}), NEW, HOST),
        ("both kinds of Digest", json!({"login": "both"}), NEW, HOST),
        // rvi/ONVIFCameraAndroid 14.
        ("Basic", json!({"login": "basic"}), NEW, HOST),
        // lumeohq/onvif-rs 65.
        ("a login for the clock", json!({"login": "token", "login_for_time": true}), NEW, HOST),
        // Jazea/Onvif.Core 43, agsh/onvif 187: the newer service alone, and the older one alone.
        ("the newer service", json!({"media": "2"}), NEW, HOST),
        ("the older service", json!({"media": "1"}), OLD, HOST),
        // rvi/ONVIFCamera 4: the newer service is announced and refuses.
        ("a service that refuses", json!({"unsupported": ["http://www.onvif.org/ver20/media/wsdl GetProfiles"]}), OLD, HOST),
        ("no list of services", json!({"unsupported": ["GetServices"]}), OLD, HOST),
        ("an odd list of services", json!({"garbage": ["GetServices"]}), OLD, HOST),
        ("no information on the device", json!({"unsupported": ["GetDeviceInformation"]}), NEW, HOST),
        // EliasKotlyar/Xiaomi-Dafang-Hacks 1752, blakeblackshear/frigate 18352: addresses that lead elsewhere.
        ("an address of nobody", json!({"service_host": "0.0.0.0:{port}"}), NEW, HOST),
        ("the address behind a router", json!({"service_host": "192.168.0.10:80"}), NEW, HOST),
        // agsh/onvif 41 and 170.
        ("a stream behind a router", json!({"stream_host": "192.168.0.10:8554"}), NEW, HOST),
        // BigTonyTones/Tonys-Onvf-RTSP-Server 12: another address of the loopback interface.
        ("a stream at its loopback address", json!({"stream_host": "127.0.1.1:8554"}), NEW, HOST),
        ("a line break before the answer", json!({"line_break": true}), NEW, HOST),
    ];
    for (case, options, codec, host) in cases {
        let camera = OnvifCamera::start(options);
        let output = camera.discover(&["--json"], Some(LOGIN.1));
        assert!(output.status.success(), "{case}: {}", text(&output.stderr));
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let wanted = streams(codec, host);
        assert_eq!(found["cameras"][0]["streams"], wanted, "{case}");
        let skew = found["cameras"][0]["clock_skew_s"].as_i64();
        let ahead = options["ahead_s"].as_i64().unwrap_or(0);
        let is_right = skew.is_some_and(|skew| (skew - ahead).abs() < 60);
        let wanted = options["login_for_time"].is_null();
        assert_eq!(is_right, wanted, "{case}: {skew:?}");
    }
}

/// What is wrong and what to do is said; nothing is asked with a password that was refused before.
#[test]
fn cameras_that_give_no_streams_say_why() {
    let user = Some(LOGIN.1);
    #[rustfmt::skip]
    let cases: &[(Value, Option<&str>, &[&str])] = &[
        (json!({"login": "token"}), None, &["asks for user and password", "--user NAME"]),
        (json!({"login": "digest"}), None, &["asks for user and password", "--user NAME"]),
        (json!({"login": "token"}), Some("wrong"), &["refuses user or password", "was added for ONVIF"]),
        (json!({"login": "sha256"}), Some("wrong"), &["refuses user or password"]),
        (json!({"login": "token", "refusal": "FailedAuthentication", "refusal_status": 500}), Some("wrong"), &["refuses user or password"]),
        // As the crate onvif-server 0.1.1 says it.
        (json!({"login": "token", "refusal": "Other", "refusal_text": "Authentication failed"}), Some("wrong"), &["refuses user or password"]),
        (json!({"login": "token", "refusal": "Other", "refusal_text": "WS-Security header required but not provided"}), None,
         &["asks for user and password"]),
        (json!({"login": "token", "ahead_s": 90}), Some("wrong"), &["its clock is", "s ahead"]),
        (json!({"garbage": ["GetProfiles"]}), user, &["the answer to GetProfiles is not one of ONVIF"]),
        (json!({"unsupported": ["GetProfiles"]}), user, &["GetProfiles is refused: Optional Action Not Implemented", "ActionNotSupported"]),
    ];
    for (options, password, parts) in cases {
        let camera = OnvifCamera::start(options);
        let output = camera.discover(&["--json"], *password);
        assert_eq!(output.status.code(), Some(1), "{options}");
        let errors = text(&output.stderr);
        for part in *parts {
            assert_has!(errors => part);
        }
        assert!(!errors.contains(LOGIN.1), "{errors}");
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_has!(found["cameras"][0]["error"].as_str().expect("an error") => parts[0]);
        // Cameras lock a user after a few attempts.
        let requests = camera.requests();
        let refused = requests
            .iter()
            .filter(|line| line.ends_with("400") || line.ends_with("401"));
        assert!(refused.count() <= 2, "{requests:?}");
    }
    let camera = OnvifCamera::start(&json!({"no_uri": true}));
    let output = camera.discover(&[], user);
    assert_has!(text(&output.stdout) => "none: the camera gives no address for it");
}

#[test]
fn a_host_without_a_camera_is_named_with_what_to_do() {
    // A port that nothing listens at.
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = free.local_addr().expect("it is bound").to_string();
    drop(free);
    let discover = |camera: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jetwatch"));
        command
            .args(["discover", camera])
            .output()
            .expect("jetwatch starts")
    };
    let output = discover(&address);
    assert_eq!(output.status.code(), Some(1));
    assert_has!(text(&output.stderr) => &address, "no answer", "is ONVIF switched on");
    let output = discover("rtsp://camera/1");
    assert_eq!(output.status.code(), Some(1));
    assert_has!(text(&output.stderr) => "`rtsp://camera/1` is not an address of a camera", "host:port");
}

/// What `--yaml` prints is a part of a configuration.
#[test]
fn sources_are_printed_that_the_configuration_takes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let secret = folder.path().join("gate");
    std::fs::write(&secret, format!("{}\n", LOGIN.1)).expect("a file");
    let camera = OnvifCamera::start(&json!({"login": "token"}));
    let file = secret.display().to_string();
    let output = camera.discover(&["--yaml", "--password-file", &file], Some(""));
    let sources = text(&output.stdout);
    assert!(output.status.success(), "{sources}{}", text(&output.stderr));
    let config = format!(
        "{sources}detector: {{model: models/picodet}}\npublish: {{mqtt: {{broker: embedded}}}}\n"
    );
    let config = Config::from_str("cameras.yaml", &config)
        .unwrap_or_else(|error| panic!("{error}\n{config}"));
    let [source] = config.sources.as_slice() else {
        panic!("{sources}");
    };
    assert_eq!(source.name, "a1-dome");
    // The sub stream is large enough for a network.
    assert_has!(sources => "rtsp://127.0.0.1:8554/sub&?channel=1&subtype=5", "# onvif: {events: motion, address: \"http://127.0.0.1:", "# mainStream H265 2560×1440: rtsp://127.0.0.1:8554/main");
    // Added to a file, without what it has, and with the password beside it.
    let main = folder.path().join("jetwatch.yaml");
    let before =
        "# Mine.\nsources:\n  - name: a1-dome\n    uri: /v.mp4  # a test\ndetector: {model: m}\n";
    std::fs::write(&main, before).expect("a file");
    let main_path = main.display().to_string();
    let output = camera.discover(&["--add-to", &main_path], Some(LOGIN.1));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let added = std::fs::read_to_string(&main).expect("the file");
    assert_has!(added => "# Mine.", "# a test", "name: a1-dome-2", "password_file: \"secrets/admin\"");
    let stored = folder.path().join("secrets/admin");
    let password = std::fs::read_to_string(&stored).expect("the password");
    assert_eq!(password, format!("{}\n", LOGIN.1));
    let access = std::fs::metadata(&stored)
        .expect("the password")
        .permissions();
    assert_eq!(access.mode() & 0o777, 0o600);
    let config = Config::load(&main).unwrap_or_else(|error| panic!("{error}\n{added}"));
    assert_eq!(config.sources.len(), 2);
    let output = camera.discover(&["--add-to", &main_path], Some(LOGIN.1));
    assert_has!(text(&output.stdout) => "Nothing to add");
    assert_eq!(std::fs::read_to_string(&main).expect("the file"), added);
    let table = text(
        &camera
            .discover(&["--password-file", &file], Some(""))
            .stdout,
    );
    assert_has!(table => "Maker A1 Dome", "subStream", "640×360", &format!("--password-file {file} --yaml, or --add-to FILE"));
}

#[test]
fn cameras_over_tls_are_asked_with_the_authorities_that_are_given() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let own = certificate(folder, "own", "IP:127.0.0.1", None);
    let camera = OnvifCamera::start(&json!({"certificate": own.with_key, "login": "token"}));
    let output = camera.discover(&[], Some(LOGIN.1));
    assert_eq!(output.status.code(), Some(1));
    assert_has!(text(&output.stderr) => camera.address(), "not trusted (unknown-ca)", "openssl s_client", "--ca-file FILE");
    let file = own.certificate.display().to_string();
    let output = camera.discover(&["--ca-file", &file, "--yaml"], Some(LOGIN.1));
    let sources = text(&output.stdout);
    assert!(output.status.success(), "{sources}{}", text(&output.stderr));
    // Both keys go together; the stream has no TLS.
    let onvif = format!(
        "# onvif: {{events: motion, address: \"{}/",
        camera.address()
    );
    assert_has!(sources => &format!("# ca_file: \"{file}\""), &onvif);
    let config = format!(
        "{}detector: {{model: m}}\n",
        sources
            .replace("# onvif", "onvif")
            .replace("# ca_file", "ca_file")
    );
    let config =
        Config::from_str("f.yaml", &config).unwrap_or_else(|error| panic!("{error}\n{config}"));
    let found = config.sources[0].ca_file.as_deref();
    assert_eq!(found, Some(&*own.certificate));
    let none = folder.join("none.pem").display().to_string();
    let output = camera.discover(&["--ca-file", &none], Some(LOGIN.1));
    assert_has!(text(&output.stderr) => "ca_file: cannot use", "none.pem");
}
