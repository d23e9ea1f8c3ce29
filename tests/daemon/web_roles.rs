// SPDX-License-Identifier: Apache-2.0
//! Each path of the page, by each method, for each role and scope. The table is compared with the paths of the program: one that is new
//! needs a row here.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use jetwatch_web::{Look, Picture, PictureBoard, endpoints};

use crate::support::page::{Page, serve, status_of};
use crate::support::project::root;

/// Method, path, body, and the status for: no one, a token for pictures, one to read, one for control, a viewer, an operator, an
/// administrator. What a role may not do is 403, and 401 for who is unknown.
type Row = (&'static str, &'static str, &'static str, [u16; 7]);

const VIEWER: [u16; 7] = [401, 403, 200, 200, 200, 200, 200];
const PICTURES: [u16; 7] = [401, 200, 200, 200, 200, 200, 200];
const OPERATOR: [u16; 7] = [401, 403, 403, 200, 403, 200, 200];
const ADMINISTRATOR: [u16; 7] = [401, 403, 403, 403, 403, 403, 200];

const CAMERA: &str = r#"{"name": "yard", "uri": "rtsp://127.0.0.1/1"}"#;

const RULES: &str = r#"{"zones": [], "lines": []}"#;

#[rustfmt::skip]
const TABLE: [Row; 38] = [
    // A body that is none: no attempt is counted.
    ("POST", "/api/login", "{}", [400; 7]),
    ("POST", "/api/first-user", "{}", [400; 7]),
    ("GET", "/api/session", "", [401, 200, 200, 200, 200, 200, 200]),
    // The same, and not with a token: a token has no password.
    ("POST", "/api/password", "{}", [401, 403, 403, 403, 400, 400, 400]),
    ("GET", "/api/live", "", VIEWER),
    ("GET", "/api/events", "", VIEWER),
    ("GET", "/api/now", "", VIEWER),
    ("GET", "/api/history", "", VIEWER),
    ("GET", "/api/log", "", VIEWER),
    ("GET", "/api/info", "", VIEWER),
    ("GET", "/api/pictures?source=gate", "", PICTURES),
    ("GET", "/api/sources/{}/picture.jpg", "", PICTURES),
    ("GET", "/api/sources/{}/mjpeg", "", PICTURES),
    // The double has no encoded stream.
    ("GET", "/api/sources/{}/stream.mp4", "", [401, 404, 404, 404, 404, 404, 404]),
    ("GET", "/api/sources/{}/rules", "", VIEWER),
    ("POST", "/api/sources/{}/rules", RULES, OPERATOR),
    ("PUT", "/api/sources/{}/rules", RULES, OPERATOR),
    ("GET", "/api/sources/{}/export.mp4?from=2026-01-01T00:00:00Z&to=2026-01-01T00:10:00Z", "", VIEWER),
    ("GET", "/api/objects", "", VIEWER),
    ("GET", "/api/objects/facets", "", VIEWER),
    ("GET", "/api/objects/{}/picture.jpg", "", VIEWER),
    ("POST", "/api/objects/reviewed", r#"{"ids": ["1"], "reviewed": true}"#, OPERATOR),
    ("GET", "/api/activity", "", VIEWER),
    ("GET", "/api/media", "", VIEWER),
    ("GET", "/api/media/{}/snapshot.jpg", "", VIEWER),
    ("GET", "/api/media/{}/clip.mp4", "", VIEWER),
    ("POST", "/api/media/{}/pin", r#"{"pinned": true}"#, OPERATOR),
    ("POST", "/api/share", r#"{"path": "media/clip-1/clip.mp4", "hours": 1}"#, OPERATOR),
    ("POST", "/api/share/revoke", "", [401, 403, 403, 403, 403, 403, 204]),
    ("POST", "/api/reload", "", [401, 403, 403, 204, 403, 204, 204]),
    ("GET", "/api/doctor", "", ADMINISTRATOR),
    ("POST", "/api/doctor", "", ADMINISTRATOR),
    ("GET", "/api/cameras", "", ADMINISTRATOR),
    ("POST", "/api/cameras", r#"{"find": {}}"#, ADMINISTRATOR),
    ("PUT", "/api/cameras", CAMERA, ADMINISTRATOR),
    ("GET", "/api/cameras/picture.jpg", "", ADMINISTRATOR),
    ("GET", "/api/support", "", ADMINISTRATOR),
    // The last: it ends the sessions.
    ("POST", "/api/logout", "", [204; 7]),
];

/// Where the names in a path of the table lead.
fn path_of(path: &str) -> String {
    let name = if path.contains("/media/") {
        "clip-1"
    } else {
        "gate"
    };
    path.replace("{}", name)
}

/// A source that gives pictures until it is dropped.
struct Source {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Source {
    fn start(board: &Arc<PictureBoard>) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        let slot = board.add("gate");
        let thread = std::thread::spawn(move || {
            for seq in 0.. {
                if ended.load(Ordering::Acquire) {
                    return;
                }
                for look in [Look::Drawn, Look::Plain] {
                    slot.put(
                        look,
                        Picture {
                            jpeg: b"picture"[..].into(),
                            marks: b""[..].into(),
                            captured_at: SystemTime::now(),
                            seq,
                        },
                    );
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Self {
            ends,
            thread: Some(thread),
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn own_origin(address: SocketAddr) -> String {
    format!("Origin: http://{address}\r\n")
}

#[test]
fn each_path_of_the_program_has_a_row_and_a_line_in_the_guide() {
    let program: BTreeSet<(&str, String)> = endpoints()
        .into_iter()
        .map(|endpoint| (endpoint.method, endpoint.path))
        .collect();
    let plain = |path: &str| path.split('?').next().unwrap_or_default().to_owned();
    let table: BTreeSet<(&str, String)> = TABLE
        .iter()
        .map(|(method, path, _, _)| (*method, plain(path)))
        .collect();
    assert_eq!(table, program);
    let guide = fs::read_to_string(root().join("docs/src/guide/web.md")).expect("the guide");
    for endpoint in endpoints() {
        let name = match endpoint.path.contains("/sources/") {
            true => "NAME",
            false => "ID",
        };
        let path = endpoint.path.replace("{}", name);
        let who = match endpoint.need {
            "user" => "a user, not a token",
            other => other,
        };
        let line = format!("| {} | `{path}` | {who} |", endpoint.method);
        assert!(guide.contains(&line), "the guide lacks: {line}");
    }
}

#[test]
fn each_role_and_scope_may_do_what_the_table_says() {
    let page = Page::start("");
    let address = page.address();
    fs::write(page.folder.path().join("clip-1"), "video").expect("written");
    let _source = Source::start(&page.board);
    let token = |index: usize| format!("Authorization: Bearer {}\r\n", page.tokens[index]);
    let session = |user: &str| page.log_in(user) + &own_origin(address);
    let callers = [
        ("no one", own_origin(address)),
        ("pictures", token(0)),
        ("read", token(1)),
        ("control", token(2)),
        ("viewer", session("vera")),
        ("operator", session("otto")),
        ("administrator", session("anna")),
    ];
    let mut wrong = Vec::new();
    for (method, path, body, wanted) in &TABLE {
        for ((who, headers), wanted) in callers.iter().zip(wanted) {
            let found = status_of(method, address, &path_of(path), body, headers);
            if found != wanted.to_string() {
                wrong.push(format!(
                    "{method} {path} by {who}: {found} in place of {wanted}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let headers = &callers[6].1;
    assert_eq!(
        status_of("GET", address, "/api/session", "", headers),
        "401"
    );
}

#[test]
fn wrong_tokens_and_sessions_are_those_of_no_one() {
    let page = Page::start("");
    let address = page.address();
    for (method, path, body, wanted) in &TABLE {
        for shown in [
            "Authorization: Bearer jw_x\r\n",
            "Cookie: jetwatch=0123\r\n",
        ] {
            let headers = format!("{shown}{}", own_origin(address));
            let found = status_of(method, address, &path_of(path), body, &headers);
            assert_eq!(found, wanted[0].to_string(), "{method} {path}: {shown}");
        }
    }
}

#[test]
fn other_methods_are_refused_and_other_sites_change_nothing() {
    let page = Page::start("");
    let address = page.address();
    let session = page.log_in("anna");
    for (method, path, body, _) in &TABLE {
        let path = path_of(path);
        let headers = format!("{session}{}", own_origin(address));
        assert_eq!(status_of("DELETE", address, &path, "", &headers), "405");
        if *method == "GET" {
            continue;
        }
        for origin in ["", "Origin: null\r\n", "Origin: http://evil.example\r\n"] {
            let headers = format!("{session}{origin}");
            let found = status_of(method, address, &path, body, &headers);
            assert_eq!(found, "403", "{method} {path}: {origin}");
        }
    }
}

#[test]
fn without_users_everyone_has_the_role_of_the_configuration() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("clip-1"), "video").expect("written");
    for (role, column) in [("viewer", 4), ("operator", 5), ("administrator", 6)] {
        let (server, _, board) = serve(&format!("without_users: {role}"), folder.path());
        let address = server.local_addr();
        let _source = Source::start(&board);
        for (method, path, body, wanted) in &TABLE {
            let wanted = match *path {
                // There is no one to log in.
                "/api/login" => 409,
                "/api/password" => 403,
                _ => wanted[column],
            };
            let headers = own_origin(address);
            let found = status_of(method, address, &path_of(path), body, &headers);
            assert_eq!(found, wanted.to_string(), "{method} {path} as {role}");
        }
    }
}
