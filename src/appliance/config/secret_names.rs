// SPDX-License-Identifier: Apache-2.0
//! Which names are those of secrets: keys of a configuration, parameters of an address, properties of GStreamer's elements. Every text
//! that leaves the program is masked by these lists alone; what a text looks like is known in [`redact`](super::redact()).

use super::redact::MASK;

/// Words that name a secret, as a part of a name between `-` and `_`: `user-pw`, `X-Amz-Signature`.
const SECRET_WORDS: [&str; 19] = [
    "password",
    "passwd",
    "passphrase",
    "pass",
    "pwd",
    "pw",
    "psw",
    "secret",
    "token",
    "auth",
    "authorization",
    "bearer",
    "basic",
    "apikey",
    "key",
    "signature",
    "sig",
    "authkey",
    "cookie",
];

/// Those of them that name one as the end of a longer word, too: `accesstoken`.
const SECRET_ENDS: [&str; 6] = [
    "password",
    "passwd",
    "passphrase",
    "token",
    "secret",
    "signature",
];

/// Names with another meaning elsewhere that name a secret before a `=`: parameters of signed addresses, the stream of SRT, headers as a
/// property of an element.
const SECRET_PARAMETERS: [&str; 12] = [
    "k",
    "st",
    "sid",
    "jwt",
    "hmac",
    "session",
    "sessionid",
    "credential",
    "x-amz-credential",
    "cookies",
    "extra-headers",
    "streamid",
];

/// Keys of webhooks whose values may be secrets, or hold them, with another name.
const WEBHOOK_KEYS: [&str; 4] = ["value", "headers", "url", "webhooks"];

/// Whether the value of a key named `key` may be a secret, or hold one.
pub(super) fn is_secret_key(key: &str) -> bool {
    names_secret(key) || WEBHOOK_KEYS.contains(&key)
}

/// Whether the value at the key path `path` is never quoted. Other files have a `value` and a `url`, too, which are not secrets.
pub(super) fn is_secret_at(path: &str) -> bool {
    let key = path.rsplit('.').next().unwrap_or_default();
    let key = key.split('[').next().unwrap_or_default();
    let is_webhook = path.contains("webhooks") && WEBHOOK_KEYS.contains(&key);
    names_secret(key) || key == MASK || is_webhook
}

/// Whether `name=` in an address or a launch line is followed by a secret.
pub(super) fn is_secret_parameter(name: &str) -> bool {
    names_secret(name) || SECRET_PARAMETERS.contains(&name.to_ascii_lowercase().as_str())
}

/// Whether the property `name` of an element holds a secret; `stream` is the key of the stream of `rtmp2src`.
pub fn is_secret_property(name: &str) -> bool {
    is_secret_parameter(name) || name == "stream"
}

/// Whether `word: ` in a sentence is followed by a secret.
pub(super) fn is_secret_word(word: &str) -> bool {
    SECRET_WORDS.contains(&word.to_ascii_lowercase().as_str())
}

fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.split(['-', '_']).any(|part| {
        SECRET_WORDS.contains(&part) || SECRET_ENDS.iter().any(|end| part.ends_with(end))
    })
}
