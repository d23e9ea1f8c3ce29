// SPDX-License-Identifier: Apache-2.0
//! Answers, and the headers that all of them have.

use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

use super::body::AnswerBody;

pub(in super::super) type Answer = Response<AnswerBody>;

/// Scripts and styles come from the page's own files only; no other site may show it in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; \
     media-src 'self' blob:; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; \
     frame-ancestors 'self'";

/// Headers of all answers.
const SECURITY: [(&str, &str); 6] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    (
        "permissions-policy",
        "camera=(), microphone=(), geolocation=()",
    ),
];

/// Adds the headers that all answers have.
pub(super) fn secure(answer: &mut Answer, is_tls: bool) {
    let headers = answer.headers_mut();
    for (name, value) in SECURITY {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    if is_tls {
        headers.insert(
            HeaderName::from_static("strict-transport-security"),
            HeaderValue::from_static("max-age=31536000"),
        );
    }
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

pub(super) fn json(value: &serde_json::Value) -> Answer {
    with_type("application/json", value.to_string())
}

pub(super) fn with_type(content_type: &'static str, bytes: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(AnswerBody::whole(bytes));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

pub(super) fn stream(content_type: &'static str, body: AnswerBody) -> Answer {
    let mut answer = Response::new(body);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    // Else a proxy such as nginx collects what is to arrive at once.
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    answer
}

/// No content.
pub(super) fn done() -> Answer {
    let mut answer = Response::new(AnswerBody::Whole(None));
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

/// A refusal with its reason, as JSON.
pub(super) fn refuse(status: StatusCode, reason: &str) -> Answer {
    let mut answer = json(&serde_json::json!({ "error": reason }));
    *answer.status_mut() = status;
    answer
}

/// A refusal for some time.
pub(super) fn refuse_for(seconds: u64, status: StatusCode, reason: &str) -> Answer {
    let mut answer = refuse(status, reason);
    answer
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from(seconds));
    answer
}
