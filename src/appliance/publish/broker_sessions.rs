//! Limit of the sessions that the embedded broker keeps for clients that are away. Each may queue messages, and a program that
//! connects with another client id every time would leave one behind every time.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mqtt5::broker::events::{BrokerEventHandler, ClientConnectEvent, ClientDisconnectEvent};
use mqtt5::packet::connect::ConnectPacket;
use parking_lot::Mutex;

/// Most sessions that outlive their connection.
const MAX_SESSIONS: usize = 32;

/// How long a session outlives its connection at most.
pub(super) const SESSION_EXPIRY: Duration = Duration::from_secs(3600);

/// The sessions that outlive their connections.
#[derive(Default)]
pub(super) struct SessionLimit {
    /// When the client left, by client id; `None` while it is connected.
    left_at: Mutex<HashMap<Arc<str>, Option<Instant>>>,
}

impl SessionLimit {
    /// Whether a client may connect: it wants no session that outlives the connection, has one, or there is room for one more.
    pub(super) fn admits(&self, connect: &ConnectPacket) -> bool {
        self.admits_at(&connect.client_id, keeps_session(connect), Instant::now())
    }

    fn admits_at(&self, client: &str, keeps_session: bool, now: Instant) -> bool {
        let mut sessions = self.left_at.lock();
        sessions.retain(|_, left_at| {
            left_at.is_none_or(|left_at| now.duration_since(left_at) < SESSION_EXPIRY)
        });
        !keeps_session || sessions.contains_key(client) || sessions.len() < MAX_SESSIONS
    }

    fn connected(&self, client: Arc<str>, keeps_session: bool) {
        let mut sessions = self.left_at.lock();
        if keeps_session {
            sessions.insert(client, None);
        } else {
            sessions.remove(&client);
        }
    }

    fn left(&self, client: &str, now: Instant) {
        if let Some(left_at) = self.left_at.lock().get_mut(client) {
            *left_at = Some(now);
        }
    }
}

/// Whether the session is to outlive the connection.
fn keeps_session(connect: &ConnectPacket) -> bool {
    match connect.protocol_version {
        5 => connect
            .properties
            .get_session_expiry_interval()
            .is_some_and(|seconds| seconds > 0),
        _ => !connect.clean_start,
    }
}

impl BrokerEventHandler for SessionLimit {
    fn on_client_connect<'a>(
        &'a self,
        event: ClientConnectEvent,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.connected(event.client_id, event.session_expiry_interval > 0);
        Box::pin(async {})
    }

    fn on_client_disconnect<'a>(
        &'a self,
        event: ClientDisconnectEvent,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.left(&event.client_id, Instant::now());
        Box::pin(async {})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_table_admits_known_and_short_sessions_until_one_expires() {
        let (limit, now) = (SessionLimit::default(), Instant::now());
        for index in 0..MAX_SESSIONS {
            let id = format!("client-{index}");
            assert!(limit.admits_at(&id, true, now), "{id}");
            limit.connected(id.into(), true);
        }
        assert!(!limit.admits_at("one-more", true, now), "no room");
        assert!(limit.admits_at("one-more", false, now), "it leaves nothing");
        assert!(limit.admits_at("client-7", true, now), "it has one");
        limit.left("client-7", now);
        let later = now + SESSION_EXPIRY;
        assert!(limit.admits_at("one-more", true, later), "one has expired");
        limit.connected("client-3".into(), false);
        limit.connected("one-more".into(), true);
        assert!(limit.admits_at("two-more", true, later), "one was given up");
    }
}
