// SPDX-License-Identifier: Apache-2.0
//! Who may do what: users with passwords and sessions, tokens with scopes, links that need neither, and limits on attempts.

mod first_user;
mod limiter;
mod links;
mod password;
mod sessions;
mod users;
mod users_cache;

use jetwatch_config::WebRole;

pub(super) use self::first_user::FirstUser;
pub use self::first_user::PageLink;
pub(super) use self::limiter::LoginLimiter;
pub(super) use self::links::{Link, LinkState, ShareLinks};
pub(super) use self::password::Passwords;
pub(super) use self::sessions::Sessions;
pub use self::users::{Scope, TokenSummary, UserError, UserSummary, Users};
pub(super) use self::users_cache::UsersCache;

/// Who makes a request, and what it may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Principal {
    /// Name of the user or token; empty where there are no users.
    pub(super) name: String,
    pub(super) role: WebRole,
    /// A token for pictures only.
    pub(super) only_pictures: bool,
    pub(super) by: Credential,
}

/// What a request has with it to show who makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shown {
    Nothing,
    /// A bearer token.
    Token(Vec<u8>),
    /// The name of a session.
    Session(String),
    /// A link to this very item.
    Link(Link),
}

/// By what it is known who makes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Credential {
    /// The cookie of a session, which a browser sends by itself.
    Session,
    /// A bearer token, which no browser sends by itself.
    Token,
    /// A link, which gives one item.
    Link,
    /// There are no users.
    Local,
}

/// `bytes` random bytes as hexadecimal digits.
///
/// # Panics
/// The operating system has no random numbers.
pub(super) fn random_hex<const BYTES: usize>() -> String {
    let mut bytes = [0_u8; BYTES];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
