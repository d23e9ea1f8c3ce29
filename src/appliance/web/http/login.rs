// SPDX-License-Identifier: Apache-2.0
//! Logging in and out.

use std::sync::Arc;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderValue, SET_COOKIE};
use serde::Deserialize;

use super::request::Head;
use super::response::{Answer, done, refuse};
use super::service::{Service, parse};

/// The name of the cookie. With its prefix, browsers take it over HTTPS only, and from this very host.
pub(super) fn cookie_name(is_https: bool) -> &'static str {
    match is_https {
        true => "__Host-jetwatch",
        false => "jetwatch",
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attempt {
    user: String,
    password: String,
}

impl Service {
    /// Begins a session, where user and password are right.
    pub(super) async fn log_in(self: &Arc<Self>, head: &Head<'_>, body: &Bytes) -> Answer {
        let Some(cache) = &self.users else {
            return refuse(StatusCode::CONFLICT, "this page has no users");
        };
        // A form of another site cannot send this type.
        let is_json = head
            .headers
            .get("content-type")
            .is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
        if !is_json {
            return refuse(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "expected application/json",
            );
        }
        let Ok(Attempt { user, password }) = parse::<Attempt>(body) else {
            // The cause may quote the password.
            return refuse(StatusCode::BAD_REQUEST, "expected a user and a password");
        };
        let found = match self.compare(head, cache, &user, password).await {
            Ok(found) => found,
            Err(refusal) => return *refusal,
        };
        let Some(hash) = found else {
            log::warn!("web: a log-in from {} failed", head.address);
            return refuse(StatusCode::UNAUTHORIZED, "user or password is wrong");
        };
        log::info!("web: {user} has logged in from {}", head.address);
        let session = self.sessions.begin(&user, &hash);
        self.with_cookie(head, &session, "")
    }

    /// Ends the session of the request.
    pub(super) fn log_out(&self, head: &Head<'_>) -> Answer {
        if let Some(session) = head.cookie(cookie_name(head.is_https)) {
            self.sessions.end(session);
        }
        self.with_cookie(head, "", "; Max-Age=0")
    }

    /// No content, with the cookie of a session.
    pub(super) fn with_cookie(&self, head: &Head<'_>, value: &str, more: &str) -> Answer {
        let name = cookie_name(head.is_https);
        let secure = if head.is_https { "; Secure" } else { "" };
        let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}");
        let mut answer = done();
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            answer.headers_mut().insert(SET_COOKIE, cookie);
        }
        answer
    }
}
