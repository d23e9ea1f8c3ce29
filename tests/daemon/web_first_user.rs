// SPDX-License-Identifier: Apache-2.0
//! The page that the daemon has by itself, and the link by which its first user is made.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command};

use serde_json::json;

use crate::support::daemon::{Setup, exits, finish, start, stdout, wait_until_some};
use crate::support::page::{PASSWORD, body_json, get, header, post, session, status};

/// A daemon with a folder for its state, and nothing about a page in its configuration.
struct Installed(Setup);

impl Installed {
    fn new() -> Self {
        let setup = Setup::new(
            "device: test\nsources: [{name: gate, uri: 'synthetic://traffic?fps=20'}]\ndetector: {backend: scripted}\npublish: {mqtt: off}\n",
        );
        fs::create_dir(setup.path("state")).expect("created");
        Self(setup)
    }

    fn command(&self, name: &str) -> Command {
        let mut command = self.0.command(name);
        command.env("JETWATCH_STATE_DIR", self.0.path("state"));
        command
    }

    fn run(&self) -> Child {
        start(&mut self.command("run"))
    }

    /// What `jetwatch page` prints while `child` runs.
    fn link(&self, child: &mut Child) -> String {
        wait_until_some("the page", || {
            assert_eq!(child.try_wait().expect("its child"), None, "it has ended");
            let output = finish(&mut self.command("page"));
            output
                .status
                .success()
                .then(|| stdout(&output).trim().to_owned())
        })
    }
}

/// Address and secret of a link.
fn parts(link: &str) -> (SocketAddr, &str) {
    let rest = link.strip_prefix("http://").expect(link);
    let (address, secret) = rest.split_once("/first.html#").expect(link);
    (address.parse().expect(link), secret)
}

#[test]
fn taken_ports_stop_no_daemon_and_the_first_user_is_made_by_the_link() {
    let installed = Installed::new();
    // Those that others have are taken, too.
    let taken: Vec<_> = (8080..8090)
        .map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)))
        .collect();
    let run = exits(0, installed.command("run").args(["--max-frames", "3"]));
    assert_has!(run.err => "there is no page", "is in use", "enabled: false");
    drop(taken);

    let mut child = installed.run();
    let link = installed.link(&mut child);
    let (address, secret) = parts(&link);
    let state = installed.0.path("state");
    let mode = |name: &str| {
        let metadata = fs::metadata(state.join(name)).expect(name);
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(mode("page-jetwatch.json"), 0o600);
    let answer = get(address, "/", "");
    let target = header(&answer, "location");
    assert_eq!((status(&answer), target), ("307", Some("first.html")));
    assert_eq!(status(&get(address, "/first.html", "")), "200");
    assert_eq!(status(&get(address, "/api/events", "")), "401");
    let answer = post(
        address,
        "/api/login",
        &json!({"user": "a", "password": "b"}).to_string(),
        "",
    );
    assert_eq!(status(&answer), "409");
    assert_has!(answer => "jetwatch page");

    let make = |secret: &str, user: &str, password: &str| {
        let body = json!({"secret": secret, "user": user, "password": password});
        post(address, "/api/first-user", &body.to_string(), "")
    };
    for (secret, user, password, wanted) in [
        ("", "anna", PASSWORD, "403"),
        (&secret[1..], "anna", PASSWORD, "403"),
        // What is refused leaves the link as it is.
        (secret, "anna", "short", "400"),
        (secret, "an/na", PASSWORD, "400"),
    ] {
        let answer = make(secret, user, password);
        assert_eq!(status(&answer), wanted, "{answer}");
    }
    let answer = make(secret, "anna", PASSWORD);
    assert_eq!(status(&answer), "204", "{answer}");
    let cookie = session(&answer);
    let who = body_json(&get(address, "/api/session", &cookie));
    assert_eq!(
        (&who["name"], &who["role"]),
        (&json!("anna"), &json!("administrator"))
    );
    assert_eq!(mode("users"), 0o600);

    let answer = make(secret, "otto", PASSWORD);
    assert_eq!(status(&answer), "403", "{answer}");
    assert_eq!(installed.link(&mut child), format!("http://{address}/"));
    assert_eq!(status(&get(address, "/", "")), "200");
    for path in ["/api/support", "/api/log", "/api/info", "/api/history"] {
        let answer = get(address, path, &cookie);
        assert_eq!(status(&answer), "200", "{answer}");
        assert!(!answer.contains(secret), "{path}");
    }
    // Its file stays.
    child.kill().expect("it runs");
    child.wait().expect("its child");
    exits(4, &mut installed.command("page"));

    // A user is enough: the next start has no link.
    let run = exits(0, installed.command("run").args(["--max-frames", "3"]));
    assert_has!(run.err => "the page is at");
    assert!(!run.err.contains("first.html"), "{}", run.err);
    fs::remove_dir_all(state).expect("its own");
    let run = exits(0, installed.command("run").args(["--max-frames", "3"]));
    assert_has!(run.err => "no page is served: no folder for its users");
}
