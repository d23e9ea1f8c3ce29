// SPDX-License-Identifier: Apache-2.0
//! Lists of what has happened and of what is kept, page by page, the newest first. A page names where the next one begins.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hyper::StatusCode;
use serde_json::json;

use super::limits::Work;
use super::request::Head;
use super::response::{Answer, refuse, with_type};
use super::service::{Service, parse};
use crate::event_query::EventQuery;
use crate::media::{MediaPage, MediaQuery, MediaSort, ObjectPage, ObjectQuery};

/// Most events, or kept items, of a page.
const MAX_LISTED: usize = 200;

/// Those of a page where the request does not say.
const LISTED: usize = 50;

/// Most objects that one request marks.
const MAX_REVIEWED: usize = 1000;

/// Most parts of a span of time.
const MAX_PARTS: u32 = 288;

/// Events of this run.
pub(super) async fn events(service: &Arc<Service>, head: &Head<'_>) -> Answer {
    let query = EventQuery {
        source: head.parameter("source"),
        label: head.parameter("label"),
        rule: head.parameter("zone"),
        from: head.parameter("from"),
        to: head.parameter("to"),
        before: head.parameter("before").and_then(|text| text.parse().ok()),
        limit: limit(head),
    };
    let hub = Arc::clone(&service.hub);
    let listed = service.threads.run(Work::Facts, move || {
        let (events, oldest) = hub.events(&query);
        let is_full = events.len() == query.limit;
        let next = events.last().filter(|_| is_full).map(|last| last.number);
        let items: Vec<String> = events
            .iter()
            .map(|event| {
                // The message as it is: it is JSON already.
                let message = String::from_utf8_lossy(&event.json);
                let (number, rules) = (event.number, json!(event.rules_words()));
                format!("{{\"number\":{number},\"rules\":{rules},\"message\":{message}}}")
            })
            .collect();
        format!(
            "{{\"events\":[{}],\"next\":{},\"oldest\":{}}}",
            items.join(","),
            json!(next),
            json!(oldest)
        )
    });
    match listed.await {
        Ok(text) => with_type("application/json", text),
        Err(refusal) => *refusal,
    }
}

/// Objects that were seen, of earlier runs too.
pub(super) async fn objects(service: &Arc<Service>, head: &Head<'_>) -> Answer {
    let query = ObjectQuery {
        id: head.parameter("id"),
        source: head.parameter("source"),
        label: head.parameter("label"),
        zone: head.parameter("zone"),
        from: time(head, "from"),
        to: time(head, "to"),
        is_new: head.parameter("new").is_some(),
        before: head.parameter("before"),
        limit: limit(head),
    };
    service
        .ask(Work::Files, move |backend| {
            let Some(objects) = backend.objects() else {
                return Some(json!({"objects": [], "open": [], "next": null, "is_ready": false}));
            };
            let ObjectPage { items, open, next } = objects.objects(&query);
            Some(json!({"objects": items, "open": open, "next": next, "is_ready": true}))
        })
        .await
}

/// What each source has in a span of time: a day, if the request does not say.
pub(super) async fn activity(service: &Arc<Service>, head: &Head<'_>) -> Answer {
    let to = time(head, "to").unwrap_or_else(SystemTime::now);
    let from = time(head, "from").filter(|from| *from < to);
    let from = from.unwrap_or(to - Duration::from_secs(86_400));
    let parts = head.parameter("parts").and_then(|text| text.parse().ok());
    let parts = parts.map_or(MAX_PARTS, |parts: u32| parts.clamp(1, MAX_PARTS));
    service
        .ask(Work::Files, move |backend| {
            let objects = backend.objects();
            let sources = objects.map(|objects| objects.activity(from, to, parts));
            Some(json!({"parts": parts, "sources": sources}))
        })
        .await
}

/// Marks objects as seen, or ends that.
pub(super) async fn review(service: &Arc<Service>, body: &Bytes) -> Answer {
    #[derive(serde::Deserialize)]
    struct Wanted {
        ids: Vec<String>,
        reviewed: bool,
    }
    let wanted: Wanted = match parse(body) {
        Ok(wanted) => wanted,
        Err(refusal) => return *refusal,
    };
    if wanted.ids.len() > MAX_REVIEWED {
        let reason = format!("{} ids, expected at most {MAX_REVIEWED}", wanted.ids.len());
        return refuse(StatusCode::BAD_REQUEST, &reason);
    }
    service
        .ask(Work::Files, move |backend| {
            let marked = backend.objects()?.review(&wanted.ids, wanted.reviewed);
            Some(match marked {
                Ok(count) => json!({"count": count, "error": null}),
                Err(error) => json!({"count": 0, "error": error}),
            })
        })
        .await
}

/// Kept pictures and clips, of earlier runs too.
pub(super) async fn media(service: &Arc<Service>, head: &Head<'_>) -> Answer {
    let query = MediaQuery {
        source: head.parameter("source"),
        label: head.parameter("label"),
        zone: head.parameter("zone"),
        from: time(head, "from"),
        to: time(head, "to"),
        sort: match head.parameter("kind").as_deref() {
            Some("continuous") => MediaSort::Continuous,
            _ => MediaSort::Events,
        },
        before: head.parameter("before"),
        limit: limit(head),
    };
    service
        .ask(Work::Files, move |backend| {
            let Some(media) = backend.media() else {
                return Some(json!({"items": [], "next": null, "usage": null, "is_ready": false}));
            };
            let MediaPage { items, next } = media.items(&query);
            // Without a usage, the folder cannot be used.
            let usage = media.usage();
            Some(json!({"items": items, "next": next, "usage": usage, "is_ready": true}))
        })
        .await
}

/// Keeps an item for good, or no longer.
pub(super) async fn pin(service: &Arc<Service>, id: &str, body: &Bytes) -> Answer {
    #[derive(serde::Deserialize)]
    struct Wanted {
        pinned: bool,
    }
    let wanted: Wanted = match parse(body) {
        Ok(wanted) => wanted,
        Err(refusal) => return *refusal,
    };
    let id = id.to_owned();
    service
        .ask(Work::Files, move |backend| {
            let error = backend.media()?.pin(&id, wanted.pinned).err();
            Some(json!({"pinned": wanted.pinned, "error": error}))
        })
        .await
}

fn limit(head: &Head<'_>) -> usize {
    let limit = head.parameter("limit").and_then(|text| text.parse().ok());
    limit.map_or(LISTED, |limit: usize| limit.clamp(1, MAX_LISTED))
}

/// A time of the query, RFC 3339.
pub(super) fn time(head: &Head<'_>, name: &str) -> Option<SystemTime> {
    let at: jiff::Timestamp = head.parameter(name)?.parse().ok()?;
    Some(at.into())
}
