// SPDX-License-Identifier: Apache-2.0
//! `webhooks` of `publish`: which events are sent as HTTP POST requests, to which addresses, and how long they wait.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Secret;
use super::names::{self, NAME, is_name};
use super::redact::redact;
use super::schema::{ValueType, nearest};
use super::section::{Section, Words};
use super::spool::{AGES, Durability, RUNTIME_FOLDER, SIZES, STATE_FOLDER, parse_age, parse_size};
use super::uri::parse::split_host_port;
use super::yaml::map::Map;

/// Accepted form of addresses.
const URLS: &str = "an address such as https://HOST/PATH, without a user";

/// Accepted form of the items of `events`.
const EVENTS: &str = "new, update, end, a type of analytics event, or a state of a source";

/// Accepted form of the names of headers.
const HEADER_NAME: &str =
    "the name of a header that the program does not set itself: letters, digits and `-`";

/// Maximum number of webhooks.
const MAX_WEBHOOKS: usize = 16;

/// Events as HTTP POST requests.
#[derive(Debug, Clone, PartialEq, Section)]
pub struct WebhookConfig {
    /// Name of the webhook in logs and folders; unique, also when case is ignored.
    #[key(text = NAME, check = is_name)]
    pub name: String,
    /// Where events are posted. Redirects are not followed.
    #[key(text = URLS, parse = HttpUrl::parse)]
    pub url: HttpUrl,
    /// Events to post. Default: all but update.
    #[key(value = ValueType::Texts(EVENTS), read = events)]
    pub events: Vec<WebhookEvent>,
    /// Labels or groups of the objects. Events about no object are not affected. Default: all.
    #[key(text = "a label")]
    pub labels: Vec<String>,
    /// Names of the sources. Default: all.
    #[key(text = "the name of a source")]
    pub sources: Vec<String>,
    /// File whose first line is the key that signs requests (HMAC-SHA256). Default: they are not signed.
    pub secret_file: Option<PathBuf>,
    /// PEM file of the certificate authorities to trust. Default: the system's.
    pub ca_file: Option<PathBuf>,
    /// Further headers of every request. Default: none.
    pub headers: Vec<Header>,
    /// Time that a request may take.
    #[key(name = "timeout_s", range = 1..=120, default = 10)]
    pub timeout: Duration,
    /// Events that were not accepted yet.
    pub spool: WebhookSpool,
}

impl WebhookConfig {
    /// The key by which requests are signed.
    pub fn secret(&self) -> Option<Secret> {
        self.secret_file.clone().map(Secret::File)
    }

    /// Its folder on tmpfs.
    #[must_use]
    pub fn runtime_path(&self) -> PathBuf {
        self.folder(self.spool.runtime_folder.as_deref(), &RUNTIME_FOLDER)
    }

    /// Its folder on a device.
    #[must_use]
    pub fn state_path(&self) -> PathBuf {
        self.folder(self.spool.state_folder.as_deref(), &STATE_FOLDER)
    }

    fn folder(&self, given: Option<&Path>, default: &Path) -> PathBuf {
        let around = given.unwrap_or(default);
        around.join(format!("webhook-{}", self.name))
    }
}

/// Events that were not accepted yet. Without the folders they are in memory only.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(default)]
pub struct WebhookSpool {
    /// What the events survive. process: a crash or kill of the daemon; outage: also a power cut, but for the last 2 s; always: also that, but for the last second.
    #[key(default = "outage")]
    pub durability: Durability,
    /// Maximum size on the disk; then updates of tracks are dropped first, then the oldest events.
    #[key(text = SIZES, parse = parse_size, default = "64MiB")]
    pub max_bytes: u64,
    /// Events that wait longer are dropped.
    #[key(text = AGES, parse = parse_age, default = "1d")]
    pub max_age: Duration,
    /// Folder on tmpfs; its parent must exist. Default: /run/jetwatch/spool.
    pub runtime_folder: Option<PathBuf>,
    /// Folder on a disk; its parent must exist. Default: /var/lib/jetwatch/spool.
    pub state_folder: Option<PathBuf>,
}

/// A header of requests.
#[derive(Debug, Clone, PartialEq, Section)]
pub struct Header {
    /// Name of the header.
    #[key(text = HEADER_NAME, check = is_header_name)]
    pub name: String,
    /// Where its value is.
    #[key(keys = HeaderValue, read = header_value)]
    pub value: Secret,
}

/// The two ways to give the value of a header.
#[derive(Section)]
struct HeaderValue {
    /// Value of the header. If it is a secret, use value_file.
    #[key(secret)]
    value: Option<String>,
    /// File whose first line is the value; read at every request.
    value_file: Option<PathBuf>,
}

fn header_value(map: &Map<'_>) -> Option<Secret> {
    let given = HeaderValue::from_map(map)?;
    match (given.value, given.value_file) {
        (Some(_), Some(_)) => {
            map.invalid("value_file", "given beside value", Some("keep one of them"));
            None
        }
        (Some(value), None) if value.chars().all(is_header_char) => Some(Secret::Inline(value)),
        (Some(_), None) => {
            let what = "it has characters that a header cannot have";
            map.invalid("value", what, Some("use printable ASCII"));
            None
        }
        (None, Some(path)) => Some(Secret::File(path)),
        (None, None) => {
            map.missing("value", "text, or value_file");
            None
        }
    }
}

fn is_header_char(c: char) -> bool {
    c == ' ' || c.is_ascii_graphic()
}

fn is_header_name(text: &str) -> bool {
    const OWN: [&str; 6] = [
        "connection",
        "content-length",
        "content-type",
        "host",
        "transfer-encoding",
        "user-agent",
    ];
    let lower = text.to_ascii_lowercase();
    text.len() <= 64
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        && !lower.starts_with("x-jetwatch-")
        && !OWN.contains(&lower.as_str())
}

/// An `http` or `https` address. Its path and query may be secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpUrl {
    whole: String,
    /// Scheme, host and port.
    origin: String,
}

impl HttpUrl {
    /// Reads `text`; `None` or a hint where it is no such address.
    pub(super) fn parse(text: &str) -> Result<Self, HttpUrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(HttpUrlError::Form)?;
        if !["http", "https"].contains(&scheme) {
            return Err(HttpUrlError::Form);
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(HttpUrlError::User);
        }
        let is_plain = path.chars().all(|c| c.is_ascii_graphic()) && !path.contains('#');
        split_host_port(authority).map_err(|_| HttpUrlError::Form)?;
        match is_plain {
            true => Ok(Self {
                whole: text.to_owned(),
                origin: format!("{scheme}://{authority}"),
            }),
            false => Err(HttpUrlError::Form),
        }
    }

    /// All of it, for the request.
    pub fn as_str(&self) -> &str {
        &self.whole
    }

    /// Scheme, host and port, for logs.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Whether requests are encrypted.
    pub fn is_https(&self) -> bool {
        self.origin.starts_with("https:")
    }
}

impl std::fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HttpUrl({}…)", redact(&self.origin))
    }
}

/// Why a text is no address of a webhook. Nothing in it repeats the text.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpUrlError {
    #[error("found something else, expected {URLS}")]
    Form,
    #[error("credentials do not belong in the address; use `headers`, or `secret_file`")]
    User,
}

/// What a webhook may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum WebhookEvent {
    /// A track was confirmed.
    New,
    /// A track changed.
    Update,
    /// A track ended.
    End,
    /// An object entered a zone.
    #[word = "zone_entered"]
    ZoneEntered,
    /// An object left a zone.
    #[word = "zone_left"]
    ZoneLeft,
    /// An object loiters in a zone.
    Loitering,
    /// A zone is overcrowded.
    Overcrowding,
    /// A zone is no longer overcrowded.
    #[word = "overcrowding_over"]
    OvercrowdingOver,
    /// An object crossed a line.
    #[word = "line_crossed"]
    LineCrossed,
    /// An object moves in another direction.
    Direction,
    /// An object came to rest.
    Stationary,
    /// An object at rest moves again.
    Moving,
    /// A source is being opened.
    Connecting,
    /// Frames of a source arrive.
    Online,
    /// A source failed.
    Offline,
    /// A source reached its end.
    Ended,
}

impl WebhookEvent {
    /// All, in the order of their description.
    pub const ALL: [Self; 16] = [
        Self::New,
        Self::Update,
        Self::End,
        Self::ZoneEntered,
        Self::ZoneLeft,
        Self::Loitering,
        Self::Overcrowding,
        Self::OvercrowdingOver,
        Self::LineCrossed,
        Self::Direction,
        Self::Stationary,
        Self::Moving,
        Self::Connecting,
        Self::Online,
        Self::Offline,
        Self::Ended,
    ];
}

fn events(map: &Map<'_>) -> Option<Vec<WebhookEvent>> {
    if !map.has("events") {
        let all = WebhookEvent::ALL.into_iter();
        return Some(all.filter(|event| *event != WebhookEvent::Update).collect());
    }
    // Reports what is no list of different texts.
    map.texts("events")?;
    let node = map.get("events")?;
    let items = node.items(EVENTS)?;
    if items.is_empty() {
        return node.type_error(&map.expected("events"));
    }
    let mut events: Vec<Option<WebhookEvent>> = Vec::with_capacity(items.len());
    for item in items {
        let found = item.text(EVENTS).and_then(|text| {
            let known = WebhookEvent::ALL;
            let event = known.into_iter().find(|event| event.word() == text);
            if event.is_none() {
                let words = known.map(WebhookEvent::word);
                let hint = match nearest(text, words) {
                    Some(word) => format!("did you mean `{word}`?"),
                    None => format!("known here: {}", words.join(", ")),
                };
                item.reject(None, Some(hint));
            }
            event
        });
        events.push(found);
    }
    events.into_iter().collect()
}

/// Records names that repeat, and too many webhooks. `map` is that of `publish`.
pub(super) fn check_names(map: &Map<'_>) {
    let Some(webhooks) = map.list("webhooks") else {
        return;
    };
    if webhooks.len() > MAX_WEBHOOKS {
        let what = format!(
            "{} webhooks, at most {MAX_WEBHOOKS} are accepted",
            webhooks.len()
        );
        map.invalid("webhooks", &what, None);
    }
    let names: Vec<Option<String>> = webhooks.iter().map(names::name_of).collect();
    for (index, webhook) in webhooks.iter().enumerate() {
        if names[index].is_some() && names[..index].contains(&names[index]) {
            webhook.invalid(
                "name",
                "another webhook has this name",
                Some("names must differ in more than case"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mistakes::loaded;

    fn load(webhook: &str) -> WebhookConfig {
        let config = loaded(&format!("publish: {{webhooks: [{webhook}]}}"));
        config.publish.webhooks[0].clone()
    }

    #[test]
    fn webhooks_have_defaults_and_keep_their_secrets() {
        let all = "{name: a, url: 'https://192.0.2.7:8443/in?token=hunter2', secret_file: key, \
                   headers: [{name: Authorization, value: Bearer hunter2}, {name: X-Site, value_file: site}]}";
        let webhook = load(all);
        assert_eq!(webhook.events.len(), WebhookEvent::ALL.len() - 1);
        assert!(!webhook.events.contains(&WebhookEvent::Update));
        assert_eq!(webhook.url.origin(), "https://192.0.2.7:8443");
        assert_eq!(webhook.timeout, Duration::from_secs(10));
        assert_eq!(webhook.spool.max_bytes, 64 << 20);
        assert_eq!(webhook.secret(), Some(Secret::File("conf/key".into())));
        assert_eq!(webhook.headers[1].value, Secret::File("conf/site".into()));
        let state = Path::new("/var/lib/jetwatch/spool/webhook-a");
        assert_eq!(webhook.state_path(), state);
        assert!(!format!("{webhook:?}").contains("hunter2"), "{webhook:?}");
        let chosen = load("{name: a, url: 'http://localhost', events: [update, offline]}");
        assert_eq!(chosen.events, [WebhookEvent::Update, WebhookEvent::Offline]);
    }
}
