// SPDX-License-Identifier: Apache-2.0
//! Passwords of requests: each is compared on a thread of its own, one at a time, and attempts are limited. And the change of one's own
//! password.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use hyper::StatusCode;
use serde::Deserialize;

use super::limits::Work;
use super::request::Head;
use super::response::{Answer, refuse, refuse_for};
use super::service::{Service, failed, parse};
use crate::auth::{Principal, UserError, UsersCache};

/// Attempts that may wait for their turn.
const MAX_WAITING: usize = 8;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    old: String,
    new: String,
}

impl Service {
    /// The hash of the user's password, where `password` is it. Attempts are counted, and refused after too many.
    pub(super) async fn compare(
        self: &Arc<Self>,
        head: &Head<'_>,
        cache: &UsersCache,
        user: &str,
        password: String,
    ) -> Result<Option<String>, Box<Answer>> {
        if let Some(wait) = self.limiter.wait(head.address, user, Instant::now()) {
            return Err(Box::new(refuse_for(
                wait.as_secs() + 1,
                StatusCode::TOO_MANY_REQUESTS,
                "too many attempts; wait some minutes",
            )));
        }
        if self.hashes_waiting.fetch_add(1, Ordering::AcqRel) >= MAX_WAITING {
            self.hashes_waiting.fetch_sub(1, Ordering::AcqRel);
            return Err(Box::new(refuse_for(
                1,
                StatusCode::TOO_MANY_REQUESTS,
                "busy; try again",
            )));
        }
        let users = cache.users();
        let (service, name) = (Arc::clone(self), user.to_owned());
        // In a task of its own: it counts down also where the client is gone.
        let compared = tokio::spawn(async move {
            let turn = service.hashing.acquire().await;
            let compared = Arc::clone(&service);
            let found = tokio::task::spawn_blocking(move || {
                let stored = users.credentials(&name).map(|(_, hash)| hash.to_owned());
                let matches = compared.passwords.matches(&password, stored.as_deref());
                stored.filter(|_| matches)
            })
            .await;
            drop(turn);
            service.hashes_waiting.fetch_sub(1, Ordering::AcqRel);
            found
        });
        let Ok(Ok(found)) = compared.await else {
            return Err(Box::new(failed()));
        };
        match found {
            None => self.limiter.failed(head.address, user, Instant::now()),
            Some(_) => self.limiter.succeeded(head.address),
        }
        Ok(found)
    }

    /// Changes the password of who asks, where the old one is right. All sessions of the user end; the answer begins a new one.
    pub(super) async fn change_password(
        self: &Arc<Self>,
        head: &Head<'_>,
        principal: Option<&Principal>,
        body: &Bytes,
    ) -> Answer {
        let (Some(cache), Some(principal)) = (&self.users, principal) else {
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
        match self.compare(head, cache, user, old).await {
            Ok(Some(_)) => {}
            Ok(None) => {
                log::warn!("web: a change of a password from {} failed", head.address);
                return refuse(StatusCode::FORBIDDEN, "the old password is wrong");
            }
            Err(refusal) => return *refusal,
        }
        let (service, name) = (Arc::clone(self), user.clone());
        let changed = self.threads.run(Work::Edits, move || {
            let cache = service.users.as_ref();
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
        self.sessions.end_all(user);
        log::info!("web: {user} has changed its password from {}", head.address);
        let users = cache.users();
        let Some((_, hash)) = users.credentials(user) else {
            return refuse(StatusCode::UNAUTHORIZED, "log in first");
        };
        let session = self.sessions.begin(user, hash);
        self.with_cookie(head, &session, "")
    }
}
