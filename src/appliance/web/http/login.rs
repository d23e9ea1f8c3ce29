// SPDX-License-Identifier: Apache-2.0
//! Logging in and out, the first user, and the change of one's own password. Each password is compared on a thread of its own, one at a time, and
//! attempts are limited.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderValue, SET_COOKIE};
use serde::Deserialize;

use super::limits::Work;
use super::request::Head;
use super::response::{Answer, done, refuse, refuse_for};
use super::service::{Service, failed, parse};
use crate::auth::{Principal, UserError, UsersCache};
use jetwatch_config::WebRole;

/// Attempts that may wait for their turn.
const MAX_WAITING: usize = 8;

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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    old: String,
    new: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct First {
    /// That of the link.
    secret: String,
    user: String,
    password: String,
}

/// Makes the first user, an administrator, where the secret is that of the link, and begins its session.
pub(super) async fn make_first_user(
    service: &Arc<Service>,
    head: &Head<'_>,
    body: &Bytes,
) -> Answer {
    let Ok(First {
        secret,
        user,
        password,
    }) = parse::<First>(body)
    else {
        // The cause may quote the password.
        return refuse(
            StatusCode::BAD_REQUEST,
            "expected a secret, a user and a password",
        );
    };
    let Some(cache) = &service.users else {
        return refuse(StatusCode::CONFLICT, "this page has no users");
    };
    let first_user = service.first_user();
    if !first_user.is_some_and(|first| first.admits(&secret)) {
        if first_user.is_some() {
            log::warn!("web: a first user from {} was refused", head.address);
        }
        let reason = "the link has been used, or is of an earlier start; `jetwatch page` prints the present one";
        return refuse(StatusCode::FORBIDDEN, reason);
    }
    let (owned, name) = (Arc::clone(service), user.clone());
    let made = service.threads.run(Work::Edits, move || {
        let cache = owned.users.as_ref();
        cache.map(|cache| {
            cache.change(|users| match users.users().first() {
                // Another request, or `jetwatch user add`, was faster.
                Some(_) => Err(UserError::Exists {
                    what: "user",
                    name: name.clone(),
                }),
                None => users.add(&name, WebRole::Administrator, &password),
            })
        })
    });
    match made.await {
        Ok(Some(Ok(()))) => {}
        Ok(Some(Err(error @ (UserError::WeakPassword { .. } | UserError::Name { .. })))) => {
            return refuse(StatusCode::BAD_REQUEST, &error.to_string());
        }
        Ok(Some(Err(error))) => {
            log::warn!("web.users_file: {error}");
            let reason =
                "the file of the users cannot be changed by the daemon; use `jetwatch user add`";
            return refuse(StatusCode::CONFLICT, reason);
        }
        Ok(None) | Err(_) => return failed(),
    }
    // Closes the link.
    let _ = service.first_user();
    log::info!("web: the first user {user} was made from {}", head.address);
    begin_session(service, head, cache, &user)
}

/// Begins a session, where user and password are right.
pub(super) async fn log_in(service: &Arc<Service>, head: &Head<'_>, body: &Bytes) -> Answer {
    let Some(cache) = &service.users else {
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
    if service.first_user().is_some() {
        let reason = "there is no user yet; open the link that `jetwatch page` prints";
        return refuse(StatusCode::CONFLICT, reason);
    }
    let found = match compare(service, head, cache, &user, password).await {
        Ok(found) => found,
        Err(refusal) => return *refusal,
    };
    let Some(hash) = found else {
        log::warn!("web: a log-in from {} failed", head.address);
        return refuse(StatusCode::UNAUTHORIZED, "user or password is wrong");
    };
    log::info!("web: {user} has logged in from {}", head.address);
    let session = service.sessions.begin(&user, &hash);
    with_cookie(head, &session, "")
}

/// Ends the session of the request.
pub(super) fn log_out(service: &Service, head: &Head<'_>) -> Answer {
    if let Some(session) = head.cookie(cookie_name(head.is_https)) {
        service.sessions.end(session);
    }
    with_cookie(head, "", "; Max-Age=0")
}

/// Changes the password of who asks, where the old one is right. All sessions of the user end; the answer begins a new one.
pub(super) async fn change_password(
    service: &Arc<Service>,
    head: &Head<'_>,
    principal: Option<&Principal>,
    body: &Bytes,
) -> Answer {
    let (Some(cache), Some(principal)) = (&service.users, principal) else {
        return refuse(StatusCode::CONFLICT, "this page has no users");
    };
    let Ok(Change { old, new }) = parse::<Change>(body) else {
        // The cause may quote a password.
        return refuse(
            StatusCode::BAD_REQUEST,
            "expected an old and a new password",
        );
    };
    let user = &principal.name;
    match compare(service, head, cache, user, old).await {
        Ok(Some(_)) => {}
        Ok(None) => {
            log::warn!("web: a change of a password from {} failed", head.address);
            return refuse(StatusCode::FORBIDDEN, "the old password is wrong");
        }
        Err(refusal) => return *refusal,
    }
    let (owned, name) = (Arc::clone(service), user.clone());
    let changed = service.threads.run(Work::Edits, move || {
        let cache = owned.users.as_ref();
        cache.map(|cache| cache.change(|users| users.set_password(&name, &new)))
    });
    match changed.await {
        Ok(Some(Ok(()))) => {}
        Ok(Some(Err(error @ UserError::WeakPassword { .. }))) => {
            return refuse(StatusCode::BAD_REQUEST, &error.to_string());
        }
        Ok(Some(Err(error))) => {
            log::warn!("web.users_file: {error}");
            let reason = "the file of the users cannot be changed by the daemon; use `jetwatch user password`";
            return refuse(StatusCode::CONFLICT, reason);
        }
        Ok(None) | Err(_) => return failed(),
    }
    service.sessions.end_all(user);
    log::info!("web: {user} has changed its password from {}", head.address);
    begin_session(service, head, cache, user)
}

/// Begins a session of a user whose password has just been set.
fn begin_session(service: &Service, head: &Head<'_>, cache: &UsersCache, user: &str) -> Answer {
    let users = cache.users();
    let Some((_, hash)) = users.credentials(user) else {
        return refuse(StatusCode::UNAUTHORIZED, "log in first");
    };
    let session = service.sessions.begin(user, hash);
    with_cookie(head, &session, "")
}

/// The hash of the user's password, where `password` is it. Attempts are counted, and refused after too many.
async fn compare(
    service: &Arc<Service>,
    head: &Head<'_>,
    cache: &UsersCache,
    user: &str,
    password: String,
) -> Result<Option<String>, Box<Answer>> {
    if let Some(wait) = service
        .limiter
        .wait(head.address, Some(user), Instant::now())
    {
        return Err(Box::new(refuse_for(
            wait.as_secs() + 1,
            StatusCode::TOO_MANY_REQUESTS,
            "too many attempts; wait some minutes",
        )));
    }
    if service.hashes_waiting.fetch_add(1, Ordering::AcqRel) >= MAX_WAITING {
        service.hashes_waiting.fetch_sub(1, Ordering::AcqRel);
        return Err(Box::new(refuse_for(
            1,
            StatusCode::TOO_MANY_REQUESTS,
            "busy; try again",
        )));
    }
    let users = cache.users();
    let (owned, name) = (Arc::clone(service), user.to_owned());
    // In a task of its own: it counts down also where the client is gone.
    let compared = tokio::spawn(async move {
        let turn = owned.hashing.acquire().await;
        let compared = Arc::clone(&owned);
        let found = tokio::task::spawn_blocking(move || {
            let stored = users.credentials(&name).map(|(_, hash)| hash.to_owned());
            let matches = compared.passwords.matches(&password, stored.as_deref());
            stored.filter(|_| matches)
        })
        .await;
        drop(turn);
        owned.hashes_waiting.fetch_sub(1, Ordering::AcqRel);
        found
    });
    let Ok(Ok(found)) = compared.await else {
        return Err(Box::new(failed()));
    };
    match found {
        None => service
            .limiter
            .failed(head.address, Some(user), Instant::now()),
        Some(_) => service.limiter.succeeded(head.address),
    }
    Ok(found)
}

/// No content, with the cookie of a session.
fn with_cookie(head: &Head<'_>, value: &str, more: &str) -> Answer {
    let name = cookie_name(head.is_https);
    let secure = if head.is_https { "; Secure" } else { "" };
    let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}");
    let mut answer = done();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
    answer
}
