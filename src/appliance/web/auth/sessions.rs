// SPDX-License-Identifier: Apache-2.0
//! Sessions of users: random names in a table of this process. They end when they are idle, when the password changes, and with the
//! process.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::random_hex;
use jetwatch_files::Sha256Digest;

/// A session without a request for this long ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// A session ends after this time in any case.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Maximum of sessions, and of those of one user; the one that was idle for the longest time makes room.
const MAX_SESSIONS: [usize; 2] = [256, 16];

/// The sessions. A table that is read by others holds digests of their names only.
#[derive(Debug, Default)]
pub(in super::super) struct Sessions {
    table: Mutex<HashMap<Sha256Digest, Session>>,
}

#[derive(Debug)]
struct Session {
    user: String,
    /// The hash of the password with which it began.
    password: String,
    began: Instant,
    used: Instant,
}

impl Sessions {
    /// Begins a session; returns its name, of 256 random bits.
    pub(in super::super) fn begin(&self, user: &str, password_hash: &str) -> String {
        let name = random_hex::<32>();
        let now = Instant::now();
        let mut table = self.table.lock();
        table.retain(|_, session| session.is_valid(now));
        let [max, of_user] = MAX_SESSIONS;
        let own = table.values().filter(|session| session.user == user);
        let is_own_full = own.count() >= of_user;
        if is_own_full || table.len() >= max {
            let mut candidates: Vec<_> = table.iter().collect();
            candidates.retain(|(_, session)| !is_own_full || session.user == user);
            let oldest = candidates.iter().min_by_key(|(_, session)| session.used);
            if let Some(oldest) = oldest.map(|(name, _)| **name) {
                table.remove(&oldest);
            }
        }
        let session = Session {
            user: user.to_owned(),
            password: password_hash.to_owned(),
            began: now,
            used: now,
        };
        table.insert(Sha256Digest::of(name.as_bytes()), session);
        name
    }

    /// The user of a session, and the password hash with which it began.
    pub(in super::super) fn find(&self, name: &str) -> Option<(String, String)> {
        let table = self.table.lock();
        let session = table.get(&Sha256Digest::of(name.as_bytes()))?;
        let is_valid = session.is_valid(Instant::now());
        is_valid.then(|| (session.user.clone(), session.password.clone()))
    }

    /// A request was made in a session: it is not idle.
    pub(in super::super) fn touch(&self, name: &str) {
        let now = Instant::now();
        let mut table = self.table.lock();
        if let Some(session) = table.get_mut(&Sha256Digest::of(name.as_bytes()))
            && session.is_valid(now)
        {
            session.used = now;
        }
    }

    /// Ends all sessions of a user.
    pub(in super::super) fn end_all(&self, user: &str) {
        self.table.lock().retain(|_, session| session.user != user);
    }

    /// Ends a session.
    pub(in super::super) fn end(&self, name: &str) {
        self.table.lock().remove(&Sha256Digest::of(name.as_bytes()));
    }
}

impl Session {
    fn is_valid(&self, now: Instant) -> bool {
        now.duration_since(self.used) < IDLE_TIMEOUT && now.duration_since(self.began) < MAX_AGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_end_when_idle_old_or_closed() {
        let sessions = Sessions::default();
        let name = sessions.begin("anna", "hash");
        assert_eq!(name.len(), 64);
        let found = sessions.find(&name);
        assert_eq!(found, Some(("anna".to_owned(), "hash".to_owned())));
        assert_eq!(sessions.find("other"), None);
        let set = |began: Duration, used: Duration| {
            let mut table = sessions.table.lock();
            let session = table.values_mut().next().expect("one");
            let now = Instant::now();
            session.began = now.checked_sub(began).expect("a running machine");
            session.used = now.checked_sub(used).expect("a running machine");
        };
        set(Duration::ZERO, Duration::ZERO);
        assert!(sessions.find(&name).is_some());
        sessions.end(&name);
        assert_eq!(sessions.find(&name), None);
        let now = Instant::now();
        let session = Session {
            user: String::new(),
            password: String::new(),
            began: now,
            used: now,
        };
        assert!(session.is_valid(now + IDLE_TIMEOUT - Duration::from_secs(1)));
        assert!(!session.is_valid(now + IDLE_TIMEOUT));
        let used = Session {
            used: now + MAX_AGE,
            ..session
        };
        assert!(!used.is_valid(now + MAX_AGE));
    }

    #[test]
    fn sessions_of_one_user_end_together() {
        let sessions = Sessions::default();
        let [first, second] = [(); 2].map(|()| sessions.begin("anna", "hash"));
        let other = sessions.begin("otto", "hash");
        sessions.end_all("anna");
        assert_eq!(
            (sessions.find(&first), sessions.find(&second)),
            (None, None)
        );
        assert!(sessions.find(&other).is_some());
    }

    #[test]
    fn table_is_bounded() {
        let sessions = Sessions::default();
        let [max, of_user] = MAX_SESSIONS;
        let first = sessions.begin("a", "");
        let other = sessions.begin("b", "");
        for _ in 0..260 {
            sessions.begin("b", "");
        }
        assert_eq!(sessions.table.lock().len(), 1 + of_user);
        assert!(sessions.find(&first).is_some(), "another user's");
        assert_eq!(sessions.find(&other), None);
        for number in 0..max {
            sessions.begin(&number.to_string(), "");
        }
        assert_eq!(sessions.table.lock().len(), max);
        assert_eq!(sessions.find(&first), None);
    }
}
