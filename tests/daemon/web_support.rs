// SPDX-License-Identifier: Apache-2.0
//! The checks of the installation that the page starts.

use serde_json::{Value, json};

use crate::support::daemon::wait_until_some;
use crate::support::page::{Daemon, body, get, post, status};

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
