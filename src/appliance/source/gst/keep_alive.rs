// SPDX-License-Identifier: Apache-2.0
//! Keep-alives of RTSP sessions. Called by [`session`](super::session).
//!
//! Since GStreamer 1.18, `rtspsrc` sends its own over TCP only while no media comes, and servers that count requests, not RTCP,
//! end the session at each timeout. Its action `get-parameter` sends one at any time, but waits for the answer as long as media comes, and
//! sends none where the server does not offer the method. Where that does not hold the session, a [relay](super::rtsp_relay) does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gstreamer as gst;
use gstreamer::prelude::*;
use parking_lot::Mutex;

use super::rtsp_relay::KEEP_ALIVE_INTERVAL;

/// From the first frame to the first keep-alive. With the time for its answer, it ends well before the shortest timeout of cameras in use.
const FIRST_AFTER: Duration = Duration::from_secs(1);
/// Time for an answer, also on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// A connection that ends this soon after a keep-alive without an answer ended because of it. `rtspsrc` sends it on another thread, which
/// a busy machine delays.
const CLOSED_BY_IT: Duration = Duration::from_secs(3);
/// Difference of the lengths of two sessions that ended at the same timeout.
const SAME_LENGTH: Duration = Duration::from_secs(1);

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Pending,
    Accepted,
    /// Refused, or not sent, as the server does not offer the method.
    Refused,
}

/// Keep-alives of one source, over all of its sessions.
#[derive(Default)]
pub(super) struct KeepAlive {
    /// When the first frame of this session came, and the newest request was sent.
    begun: Option<Instant>,
    sent_at: Option<Instant>,
    answer: Option<Arc<Mutex<Answer>>>,
    /// From the first frame of the last session to its end.
    last_length: Option<Duration>,
    /// No more of them: the server refuses them, does not answer, or closes the connection at them.
    is_futile: bool,
}

impl KeepAlive {
    /// A session has just ended; `by_server`: at its end. Returns whether other keep-alives may hold the next one.
    pub(super) fn end(&mut self, by_server: bool) -> bool {
        let answer = self.answer.take().map(|answer| *answer.lock());
        let since = self.sent_at.take().map(|at| at.elapsed());
        let length = self.begun.take().map(|at| at.elapsed());
        let last_length = std::mem::replace(&mut self.last_length, length);
        let is_closed_by_it =
            answer == Some(Answer::Pending) && since.is_some_and(|since| since < CLOSED_BY_IT);
        self.is_futile |= is_closed_by_it;
        let is_same = |(length, last): (Duration, Duration)| length.abs_diff(last) < SAME_LENGTH;
        let is_regular =
            length > Some(KEEP_ALIVE_INTERVAL) && length.zip(last_length).is_some_and(is_same);
        by_server && (is_closed_by_it || is_regular)
    }

    /// Sends one through `source`, an `rtspsrc` that receives media, where it is due. Returns whether the session must be kept in another
    /// way, which `has_other` says that there is.
    pub(super) fn send(&mut self, source: &gst::Element, has_other: bool) -> bool {
        if self.is_futile {
            return false;
        }
        let now = Instant::now();
        let begun = *self.begun.get_or_insert(now);
        let due = (self.sent_at).map_or(begun + FIRST_AFTER, |at| at + KEEP_ALIVE_INTERVAL);
        let answer = self.answer.as_ref().map(|answer| *answer.lock());
        if has_other {
            self.is_futile = match answer {
                Some(Answer::Refused) => true,
                Some(Answer::Pending) => self.sent_at.is_some_and(|at| now > at + ANSWER_TIMEOUT),
                _ => false,
            };
        }
        // `rtspsrc` crashes where a second request waits at the end of the session.
        if self.is_futile || answer == Some(Answer::Pending) || now < due {
            return self.is_futile;
        }
        self.sent_at = Some(now);
        let answer = Arc::new(Mutex::new(Answer::Pending));
        self.answer = Some(Arc::clone(&answer));
        let promise = gst::Promise::with_change_func(move |reply| {
            let code = |name| reply.as_ref().ok()?.as_ref()?.get::<i32>(name).ok();
            *answer.lock() = match (code("rtsp-result"), code("rtsp-code")) {
                // The connection has ended.
                (Some(..=-2), _) | (_, None) => Answer::Pending,
                // Servers that know no such parameter answer 451.
                (Some(0..), Some(200 | 451)) => Answer::Accepted,
                _ => Answer::Refused,
            };
        });
        source.emit_by_name::<bool>("get-parameter", &[&"ping", &None::<&str>, &promise]);
        false
    }
}
