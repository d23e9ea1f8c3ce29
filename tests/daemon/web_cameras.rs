// SPDX-License-Identifier: Apache-2.0
//! Cameras that are found, looked at and added on the page: with a double of ONVIF cameras, and a real RTSP server.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::daemon::wait_until_some;
use crate::support::onvif_camera::{LOGIN, OnvifCamera};
use crate::support::page::{Daemon, body_json, change, get, post, status};
use crate::support::project::root;
use crate::support::rtsp::RtspServer;

/// Does this on the page, and waits for its end; what the page has then.
fn run(address: SocketAddr, job: &Value) -> Value {
    let answer = post(address, "/api/cameras", &job.to_string(), "");
    assert_eq!(status(&answer), "200", "{answer}");
    wait_until_some("the end", || {
        let found = body_json(&get(address, "/api/cameras", ""));
        found["running"].is_null().then_some(found)
    })
}

fn add(address: SocketAddr, camera: &Value) -> Value {
    let answer = change("PUT", address, "/api/cameras", &camera.to_string(), "");
    assert_eq!(status(&answer), "200", "{answer}");
    body_json(&answer)
}

#[test]
fn camera_is_found_tested_and_added_with_its_password_in_a_file() {
    const PASSWORD: &str = "${A}: #1";
    // The scripted detector has no camera.
    needs_onnx_runtime!();
    let model = root().join("models/street-nano");
    let onvif = OnvifCamera::start(&json!({"login": "digest"}));
    let server = RtspServer::start(0, &["--user", "viewer", "--password", PASSWORD]);
    let daemon = Daemon::with(|port| {
        format!(
            "device: test  # mine\nsources:\n  - name: gate  # the first\n    uri: synthetic://traffic?seed=1&objects=1&width=64&height=48&fps=2\n# What finds.\ndetector: {{model: {}}}\npublish:\n  mqtt: off\n  stats_interval_s: 1\nweb:\n  listen: 127.0.0.1:{port}\n  without_users: administrator\n",
            model.display()
        )
    });
    let address = daemon.address;

    let unknown = run(address, &json!({"find": {"address": onvif.address()}}));
    let camera = &unknown["found"]["cameras"][0];
    assert!(
        camera["error"].to_string().contains("asks for user"),
        "{unknown}"
    );
    let query = json!({"find": {"address": onvif.address(), "user": LOGIN.0, "password": LOGIN.1}});
    let found = run(address, &query);
    let camera = &found["found"]["cameras"][0];
    assert_eq!(camera["model"], "A1 Dome", "{found}");
    assert_eq!(
        [0, 1].map(|stream| camera["streams"][stream]["for_detection"] == true),
        [false, true]
    );

    let refused = run(
        address,
        &json!({"test": {"name": "a", "uri": server.uri()}}),
    );
    assert!(
        refused["tested"]["error"]
            .as_str()
            .is_some_and(|error| !error.is_empty()),
        "{refused}"
    );
    let picture = || get(address, "/api/cameras/picture.jpg", "");
    assert_eq!(status(&picture()), "404");
    let mut camera = json!({"name": "yard", "uri": server.uri(), "user": "viewer", "password": PASSWORD, "max_fps": 15});
    let tested = run(address, &json!({ "test": camera }));
    let tested = &tested["tested"];
    assert_eq!(
        (
            &tested["codec"],
            &tested["size"],
            &tested["suggested_max_fps"]
        ),
        (&json!("H.264"), &json!([320, 240]), &json!(15.0)),
        "{tested}"
    );
    let rate = tested["frame_rate"].as_f64().expect("a rate");
    assert!((24.0..26.0).contains(&rate), "{tested}");
    // Each tenth image is a key frame.
    let interval = tested["key_frame_interval_s"].as_f64();
    assert!(interval.is_some_and(|s| (s - 0.4).abs() < 0.05), "{tested}");
    assert!(tested["first_key_frame_s"].is_number() && tested["sound"].is_null());
    assert_eq!(status(&picture()), "200");
    assert!(picture().contains("image/jpeg"));

    let added = add(address, &camera);
    assert_eq!(added["saved"], true, "{added}");
    let folder = daemon.setup.config.parent().expect("a folder").to_owned();
    let text = fs::read_to_string(&daemon.setup.config).expect("its file");
    assert_has!(text => "device: test  # mine", "gate  # the first", "# What finds.", "password_file: \"secrets/yard\"", "max_fps: 15");
    assert!(!text.contains(PASSWORD), "{text}");
    let secret = folder.join("secrets/yard");
    assert_eq!(
        fs::read_to_string(&secret).expect("its file"),
        format!("{PASSWORD}\n")
    );
    let mode = fs::metadata(&secret).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    wait_until_some("frames of the new source", || {
        let stats = daemon.stats(1);
        let source = stats[0]["sources"]
            .as_array()?
            .iter()
            .find(|source| source["source"] == "yard")?;
        (source["frames"].as_u64()? > 0).then_some(())
    });

    // The name is taken, and another password does not take the place of the first.
    let again = add(address, &camera);
    assert!(
        again["saved"] == false && again["problems"].to_string().contains("yard"),
        "{again}"
    );
    assert_eq!(
        fs::read_to_string(&secret).expect("its file"),
        format!("{PASSWORD}\n")
    );
    camera["uri"] = json!("rtsp://a:b@127.0.0.1/1");
    camera["name"] = json!("other");
    let within = add(address, &camera);
    assert!(
        within["problems"]
            .to_string()
            .contains("fields of their own"),
        "{within}"
    );
    fs::write(folder.join("secrets/third"), "another\n").expect("written");
    camera["uri"] = json!(server.uri());
    camera["name"] = json!("third");
    let taken = add(address, &camera);
    assert!(
        taken["saved"] == false && taken["reason"].to_string().contains("another secret"),
        "{taken}"
    );
    let log = daemon.stop();
    assert!(!log.contains(PASSWORD), "{log}");
}
