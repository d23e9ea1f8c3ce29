// SPDX-License-Identifier: Apache-2.0
//! Links to one picture or video, which open without a log-in.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::support::page::{Page, body, body_json, get, header, post, status};
use crate::webhooks::hmac;

const CLIP: &str = "media/clip-1/clip.mp4";

/// A page with the files of two items, and the session of an operator.
fn page() -> (Page, SocketAddr, String) {
    let page = Page::start("");
    for item in ["clip-1", "clip-2"] {
        fs::write(page.folder.path().join(item), "video").expect("written");
    }
    let (address, session) = (page.address(), page.log_in("otto"));
    (page, address, session)
}

/// Makes a link to `path`; its path and query.
fn share(address: SocketAddr, path: &str, session: &str) -> String {
    let wanted = json!({"path": path, "hours": 1}).to_string();
    let answer = post(address, "/api/share", &wanted, session);
    assert_eq!(status(&answer), "200", "{answer}");
    let made = body_json(&answer);
    format!("/{}", made["path"].as_str().expect("a path"))
}

#[test]
fn link_gives_its_item_without_a_log_in() {
    let (page, address, session) = page();
    assert!(!page.folder.path().join("share.key").exists());
    #[rustfmt::skip]
    let cases = [
        (CLIP, "video/mp4"),
        ("media/clip-1/snapshot.jpg", "image/jpeg"),
        ("sources/gate/export.mp4?from=2026-01-01T00%3A00%3A00Z&to=2026-01-01T00%3A10%3A00Z", "video/mp4"),
    ];
    for (path, content_type) in cases {
        let link = share(address, path, &session);
        let answer = get(address, &link, "");
        assert_eq!(status(&answer), "200", "{answer}");
        for (name, value) in [
            ("content-type", content_type),
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
        ] {
            assert_eq!(header(&answer, name), Some(value), "{answer}");
        }
        assert!(answer.contains("video"), "{answer}");
        assert_eq!(header(&answer, "set-cookie"), None);
    }
    let link = share(address, CLIP, &session);
    let part = get(address, &link, "Range: bytes=1-2\r\n");
    assert_eq!((status(&part), body(&part)), ("206", "id"), "{part}");
    assert_eq!(header(&part, "cache-control"), Some("no-store"));
    let from_elsewhere = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n";
    assert_eq!(status(&get(address, &link, from_elsewhere)), "200");
    fs::remove_file(page.folder.path().join("clip-1")).expect("it was there");
    let gone = get(address, &link, "");
    assert_eq!(status(&gone), "404");
    assert!(body(&gone).contains("not kept any more"), "{gone}");
}

#[test]
fn link_gives_nothing_else_and_failures_are_limited() {
    let (page, address, session) = page();
    let link = share(address, CLIP, &session);
    let query = link.split_once('?').expect("a query").1;
    for other in ["media", "objects", "sources/gate/picture.jpg", "support"] {
        let answer = get(address, &format!("/api/{other}?{query}"), "");
        assert_eq!(status(&answer), "401", "{other}: {answer}");
    }
    let pin = format!("/api/media/clip-1/pin?{query}");
    let pinned = post(address, &pin, r#"{"pinned": true}"#, "");
    assert_eq!(status(&pinned), "401", "{pinned}");
    let later = query.replace("until=1", "until=2");
    #[rustfmt::skip]
    let cases = [
        (format!("/api/media/clip-2/clip.mp4?{query}"), ""),
        // A session does not make up for it.
        (format!("/api/media/clip-2/clip.mp4?{query}"), session.as_str()),
        (format!("/api/media/clip-1/snapshot.jpg?{query}"), ""),
        (format!("/api/{CLIP}?{later}"), ""),
        (format!("{link}0"), ""),
        (format!("{link}&download=1"), ""),
    ];
    for (changed, headers) in cases {
        let answer = get(address, &changed, headers);
        assert_eq!(status(&answer), "403", "{changed}: {answer}");
        assert_eq!(
            header(&answer, "content-type"),
            Some("text/plain; charset=utf-8")
        );
        assert!(body(&answer).contains("not valid"), "{answer}");
    }
    assert_eq!(status(&get(address, &link, "")), "200");
    for _ in 6..10 {
        assert_eq!(status(&get(address, &format!("{link}0"), "")), "403");
    }
    let limited = get(address, &link, "");
    assert_eq!(status(&limited), "429", "{limited}");
    assert!(header(&limited, "retry-after").is_some(), "{limited}");
    // They do not lock out who logs in.
    assert_eq!(status(&get(address, "/api/media", &session)), "200");
    let _ = page.log_in("vera");
}

#[test]
fn link_ends_when_it_expires_and_when_all_are_revoked() {
    let (page, address, session) = page();
    let link = share(address, CLIP, &session);
    let key = fs::read_to_string(page.folder.path().join("share.key")).expect("a key");
    let at = |ago: u64| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let until = (now.expect("after 1970") - Duration::from_secs(ago)).as_secs();
        let signed = format!("/api/{CLIP}?until={until}");
        let signature = hmac(key.trim().as_bytes(), signed.as_bytes());
        format!("{signed}&key={signature}")
    };
    let expired = get(address, &at(1), "");
    assert_eq!(status(&expired), "410", "{expired}");
    assert_has!(body(&expired) => "This link held until 20", "Ask for a new one.");
    assert_eq!(header(&expired, "cache-control"), Some("no-store"));
    assert_eq!(status(&get(address, &link, "")), "200");
    let revoked = post(address, "/api/share/revoke", "", &page.log_in("anna"));
    assert_eq!(status(&revoked), "204", "{revoked}");
    for link in [link, at(1)] {
        assert_eq!(status(&get(address, &link, "")), "403", "{link}");
    }
    let new = share(address, CLIP, &session);
    assert_eq!(status(&get(address, &new, "")), "200");
}

#[test]
fn links_are_made_for_pictures_and_videos_and_seven_days_at_most() {
    let (_page, address, session) = page();
    #[rustfmt::skip]
    let cases = [
        (CLIP, 0, "1 to 168 hours"),
        (CLIP, 169, "1 to 168 hours"),
        ("media", 1, "a picture, a clip or an export"),
        ("sources/gate/picture.jpg", 1, "a picture, a clip or an export"),
        ("media/../users/clip.mp4", 1, "a picture, a clip or an export"),
        ("media/clip-1/clip.mp4?a=\r\n", 1, "a picture, a clip or an export"),
        ("", 1, "a picture, a clip or an export"),
    ];
    for (path, hours, reason) in cases {
        let wanted = json!({"path": path, "hours": hours}).to_string();
        let answer = post(address, "/api/share", &wanted, &session);
        assert_eq!(status(&answer), "400", "{path} {hours}: {answer}");
        assert!(body(&answer).contains(reason), "{answer}");
    }
}
