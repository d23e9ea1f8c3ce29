// SPDX-License-Identifier: Apache-2.0
//! Keep-alives of RTSP sessions. Called by [`session`](super::session).
//!
//! Since GStreamer 1.18, `rtspsrc` sends its own over TCP only while no media comes, and servers that count requests, not RTCP,
//! end the session at each timeout. Its action `get-parameter` sends one at any time; what the server answers does not matter.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gstreamer as gst;
use gstreamer::prelude::*;
use parking_lot::Mutex;

/// `rtspsrc` does not tell the timeout of its session: this is half of the shortest one of cameras in use, 8 s.
const INTERVAL: Duration = Duration::from_secs(4);
/// A connection that ends this soon after a keep-alive without an answer ended because of it. `rtspsrc` sends it on another thread, which
/// a busy machine delays.
const CLOSED_BY_IT: Duration = Duration::from_secs(3);

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Pending,
    Answered,
    /// The server does not offer the method; over TCP nothing else can be sent.
    NotOffered,
    /// As before, and it was told.
    Unavailable,
}

/// Keep-alives of one source, over all of its sessions.
#[derive(Default)]
pub(super) struct KeepAlive {
    sent_at: Option<Instant>,
    answer: Option<Arc<Mutex<Answer>>>,
    /// The server closed the last connection at a keep-alive.
    is_harmful: bool,
}

impl KeepAlive {
    /// A session has just ended.
    pub(super) fn end(&mut self) {
        let answer = self.answer.take().map(|answer| *answer.lock());
        let is_harmful = answer == Some(Answer::Pending)
            && self.sent_at.is_some_and(|at| at.elapsed() < CLOSED_BY_IT);
        *self = Self {
            is_harmful,
            ..Self::default()
        };
    }

    /// Sends one through `source`, an `rtspsrc` that receives media, where it is due.
    pub(super) fn send(&mut self, source: &gst::Element) {
        let now = Instant::now();
        let since = *self.sent_at.get_or_insert(now);
        // `rtspsrc` waits for an answer as long as media comes, and crashes where a second request waits at the end of the session.
        let is_free = self
            .answer
            .as_ref()
            .is_none_or(|answer| *answer.lock() == Answer::Answered);
        if self.is_harmful || !is_free || now < since + INTERVAL {
            return;
        }
        self.sent_at = Some(now);
        let answer = Arc::new(Mutex::new(Answer::Pending));
        self.answer = Some(Arc::clone(&answer));
        let promise = gst::Promise::with_change_func(move |reply| {
            let code = |name| reply.as_ref().ok()?.as_ref()?.get::<i32>(name).ok();
            *answer.lock() = match (code("rtsp-result"), code("rtsp-code")) {
                (Some(-1), Some(200)) => Answer::NotOffered,
                // The connection has ended.
                (Some(..0), _) => Answer::Pending,
                _ => Answer::Answered,
            };
        });
        // Servers that know no such parameter answer so, too.
        source.emit_by_name::<bool>("get-parameter", &[&"ping", &None::<&str>, &promise]);
    }

    /// Whether it has turned out since the last call that the server offers no request to keep the session.
    pub(super) fn take_not_offered(&self) -> bool {
        let Some(answer) = &self.answer else {
            return false;
        };
        let mut answer = answer.lock();
        let is_new = *answer == Answer::NotOffered;
        if is_new {
            *answer = Answer::Unavailable;
        }
        is_new
    }
}
