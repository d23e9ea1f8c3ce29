// SPDX-License-Identifier: Apache-2.0
//! Links to one picture or video, for people who do not log in: a user makes one, everyone who has it opens it until it expires, an
//! administrator ends all.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, HeaderValue, RANGE, RETRY_AFTER};
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::limits::Work;
use super::request::Head;
use super::response::{Answer, done, json as answer_json, refuse, with_type};
use super::router::{Need, Route};
use super::service::{Service, parse};
use crate::auth::{Link, LinkState};
use jetwatch_files::WriteError;

/// Maximum time for which a link is valid, in hours.
const MAX_HOURS: u64 = 7 * 24;

/// Maximum length of the query of what is shared.
const MAX_QUERY_BYTES: usize = 256;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// The path of a picture, a video or an export, below `api/`, with its query.
    path: String,
    hours: u64,
}

/// Makes a link.
pub(super) async fn make(
    service: &Arc<Service>,
    head: &Head<'_>,
    client: &str,
    body: &Bytes,
) -> Answer {
    let Wanted { path, hours } = match parse(body) {
        Ok(wanted) => wanted,
        Err(refusal) => return *refusal,
    };
    let (path, query) = path.split_once('?').unwrap_or((&path, ""));
    let full = format!("/api/{path}");
    let is_shareable = match Route::of(&full) {
        Some(Route::Api(endpoint, _)) => endpoint.need(&Method::GET) == Ok(Need::ViewerOrLink),
        _ => false,
    };
    let is_query = query.len() <= MAX_QUERY_BYTES
        && query
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.~%:=&+".contains(&byte));
    if !is_shareable || !is_query {
        let reason = "expected the path of a picture, a clip or an export";
        return refuse(StatusCode::BAD_REQUEST, reason);
    }
    if !(1..=MAX_HOURS).contains(&hours) {
        let reason = format!("expected 1 to {MAX_HOURS} hours");
        return refuse(StatusCode::BAD_REQUEST, &reason);
    }
    let until = SystemTime::now() + Duration::from_secs(hours * 3600);
    let (owned, asked) = (Arc::clone(service), query.to_owned());
    let sign = move || owned.links.sign(&full, &asked, until);
    match service.threads.run(Work::Edits, sign).await {
        Ok(Ok(query)) => {
            let at = text_of(until);
            log::info!(
                "web: {client} has made a link to {path} from {}, which holds until {at}",
                head.address
            );
            answer_json(&json!({"path": format!("api/{path}?{query}"), "until": at}))
        }
        Ok(Err(error)) => refuse_key(&error),
        Err(refusal) => *refusal,
    }
}

/// Ends all links.
pub(super) async fn revoke(service: &Arc<Service>, head: &Head<'_>, client: &str) -> Answer {
    let owned = Arc::clone(service);
    let revoked = service
        .threads
        .run(Work::Edits, move || owned.links.revoke());
    match revoked.await {
        Ok(Ok(())) => {
            log::info!("web: {client} has ended all links from {}", head.address);
            done()
        }
        Ok(Err(error)) => refuse_key(&error),
        Err(refusal) => *refusal,
    }
}

/// Why `link` gives nothing; `None`: it holds. Links that are not valid are counted, and refused after too many.
pub(super) fn refusal(service: &Service, head: &Head<'_>, link: &Link) -> Option<Answer> {
    let now = Instant::now();
    if let Some(wait) = service.link_limiter.wait(head.address, None, now) {
        let reason = "Too many links that are not valid were opened from here. Wait some minutes.";
        let mut answer = plain(StatusCode::TOO_MANY_REQUESTS, reason);
        let seconds = HeaderValue::from(wait.as_secs() + 1);
        answer.headers_mut().insert(RETRY_AFTER, seconds);
        return Some(answer);
    }
    match service.links.state(link, SystemTime::now()) {
        LinkState::Valid => None,
        LinkState::Expired(until) => {
            let until = text_of(until);
            let reason = format!("This link held until {until}. Ask for a new one.");
            Some(plain(StatusCode::GONE, &reason))
        }
        LinkState::Invalid => {
            service.link_limiter.failed(head.address, None, now);
            log::warn!("web: a link from {} is not valid", head.address);
            let reason =
                "This link is not valid: it is not complete, or it was revoked. Ask for a new one.";
            Some(plain(StatusCode::FORBIDDEN, reason))
        }
    }
}

/// What a link gives, in place of `answer`: the same, which no one keeps, or a page where it is not there.
pub(super) fn given(head: &Head<'_>, mut answer: Answer) -> Answer {
    if answer.status() == StatusCode::NOT_FOUND {
        return plain(
            StatusCode::NOT_FOUND,
            "What this link shows is not kept any more.",
        );
    }
    // A player asks for a part after another.
    let range = head.headers.get(RANGE).map(HeaderValue::as_bytes);
    if *head.method == Method::GET && range.is_none_or(|range| range.starts_with(b"bytes=0-")) {
        let (path, address) = (head.path, head.address);
        log::info!("web: {path} was opened by a link from {address}");
    }
    answer
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

fn plain(status: StatusCode, text: &str) -> Answer {
    let mut answer = with_type("text/plain; charset=utf-8", format!("{text}\n"));
    *answer.status_mut() = status;
    answer
}

fn refuse_key(error: &WriteError) -> Answer {
    log::warn!("web: the key of the links: {error}");
    let reason = "the daemon cannot write its key of links; set JETWATCH_STATE_DIR to a folder that it may write to";
    refuse(StatusCode::CONFLICT, reason)
}

/// RFC 3339, in seconds.
fn text_of(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at).map_or_else(|_| String::new(), |at| format!("{at:.0}"))
}
