// SPDX-License-Identifier: Apache-2.0
//! No part of a secret is in what a configuration makes the program say: problems, `Debug` and `Display` of what was read, and the
//! redacted file. The mistakes are generated: each secret key and each key of the schema, written wrongly in every way.

use super::mistakes;
use super::schema::{KeySpec, ValueType};
use super::written::redacted;
use super::{Config, Document, Section};

/// What stands between the two halves of a secret.
const BETWEEN: [&str; 42] = [
    "", "#", " #", " # ", "@", ":", ": ", "::", "/", "//", "://", "?", "%", "%2F", "%zz", "&", ",",
    ", ", ";", " ", "  ", "'", "''", "\"", "\\", "\\n", "\t", "{", "}", "[", "]", "!", "$", "${",
    "*", "|", ">", "=", "`", "<", "\u{a0}", "\u{200b}",
];

const HALVES: [&str; 2] = ["qZ7xB", "Kv9wJf"];

/// Where in an address a secret is.
const ADDRESSES: [&str; 26] = [
    "rtsp://admin:S@cam/1",
    "rtsp://S:x@cam/1",
    "rtsp://S@cam/1",
    "rtsp://admin:S",
    "rtsp://admin:Scam/1",
    "rtsp:://admin:S@cam/1",
    "rtsp://admin::S@cam/1",
    "rtsp:/admin:S@cam/1",
    "rtsp//admin:S@cam/1",
    "admin:S@cam/1",
    "rtsps://admin:S@cam:99999/1",
    "rtsp://cam:0/1?user=a&password=S",
    "rtsp://cam/1 2?pwd=S&channel=1",
    "rtsp://cam/user=a_password=S_channel=1.sdp",
    "rtsp://cam/1?token=S",
    "mqtt://user:S@broker:1883",
    "https://u:S@host/x?access_token=S",
    "launch:rtspsrc location=rtsp://u:S@c user-pw=S ! !",
    "rtmp://cam/live/S",
    "rtmps://u:S@cam:99999/live/S?x=1",
    "srt://cam:7001?mode=caller&passphrase=S",
    "srt://cam:7001?streamid=S",
    "http://cam/1.mjpg?x=1&k=S",
    "https://cam:99999/1?st=S&e=1",
    "https://cam/1?x-amz-signature=S",
    "http://cam:0/1?authkey=S",
];

/// How people write a value `V` of a key `K`, indented by four blanks.
const WAYS: [&str; 40] = [
    "K: V",
    "K: 'V'",
    "K: \"V\"",
    "K: \"V",
    "K: V\"",
    "K: 'V",
    "K: “V”",
    "K: V  # a comment",
    "K: [V]",
    "K: ['V']",
    "K: {V}",
    "K: {V: 1}",
    "K: {x: V}",
    "K: {x: 1, V}",
    "K:\n      - V",
    "K:\n      V: 1",
    "K:\n    V",
    "K:\n  V",
    "K: |\n      V",
    "K: >\n      V",
    "K: > V",
    "K: &V",
    "K: *V",
    "K: !V",
    "K: !V x",
    "K: !secret V",
    "K: @V",
    "K: %V",
    "K: %V%",
    "K: ${V}",
    "K: $(V)",
    "K: {{ V }}",
    "K: - V",
    "K: ? V",
    "K: V: x",
    "K:V",
    "K V",
    "  K: V",
    "K: V\n      other: x",
    "K: V\n    K: 'V'",
];

/// Keys that are or may hold a secret, each with the file around it; whether an address stands there.
const PLACES: [(&str, bool, &str); 9] = [
    (
        "uri",
        true,
        "sources:\n  - name: a\nLINE\n    loop: maybe\ndetector: {model: /m}\n",
    ),
    (
        "password",
        false,
        "sources:\n  - name: a\n    uri: rtsp://c\n    user: u\nLINE\n    loop: maybe\ndetector: {model: /m}\n",
    ),
    (
        "password",
        false,
        "publish:\n  mqtt:\n    broker: mqtt://b\n    user: u\nLINE\n    tls: maybe\n",
    ),
    (
        "broker",
        true,
        "publish:\n  mqtt:\n    prefix: a\nLINE\n    tls: maybe\n",
    ),
    (
        "password",
        false,
        "publish:\n  mqtt:\n   states:\n    broker: mqtt://b\n    user: u\nLINE\n",
    ),
    (
        "url",
        true,
        "publish:\n  webhooks:\n  - name: w\nLINE\n    timeout_s: soon\n",
    ),
    (
        "value",
        false,
        "publish:\n  webhooks:\n  - name: w\n    url: https://h/x\n    headers:\n    - name: Authorization\n  LINE\n",
    ),
    (
        "uri",
        true,
        "source_templates:\n- name: t\n  source:\n    loop: maybe\nLINE\n",
    ),
    (
        "password",
        false,
        "source_templates:\n- name: t\n  source:\n    uri: rtsp://c\n    user: u\nLINE\n",
    ),
];

/// Sections with secrets in them.
const SECTIONS: [(&str, &str); 3] = [
    (
        "sources",
        "sources:\n  - {name: a, uri: 'rtsp://admin:S@cam/1?token=S'}\n  - {name: b, uri: rtsp://cam, user: u, password: S}\n",
    ),
    (
        "publish",
        "publish:\n  mqtt: {broker: mqtts://b, user: u, password: S, states: {broker: mqtt://c, user: v, password: S}}\n  \
         webhooks: [{name: w, url: 'https://h/S?token=S', headers: [{name: Authorization, value: Bearer S}]}]\n",
    ),
    (
        "source_templates",
        "source_templates:\n  - {name: t, source: {uri: 'rtsp://admin:S@cam/1?pwd=S'}}\n",
    ),
];

/// Wrong values of a key of any type.
const VALUES: [&str; 10] = [
    "rtsp://admin:S@cam",
    "'mqtt://u:S@b/?password=S'",
    "[rtsp://admin:S@cam, 'password: S']",
    "{password: S}",
    "{rtsp://admin:S@cam: S}",
    "99999999999999999999",
    "~",
    "[]",
    "!secret S",
    "\"rtsp://admin:S@cam",
];

/// A text about the configuration `text` with a part of `secret`, if there is one.
fn leak(text: &str, secret: &str) -> Option<String> {
    let mut said = match mistakes::read("f.yaml", text) {
        Ok(config) => {
            let uris = config.sources.iter().map(|source| &source.uri);
            let shown: Vec<String> = uris.map(|uri| format!("{uri} {uri:?}")).collect();
            format!("{config:?} {}", shown.join(" "))
        }
        Err(error) => format!("{error}\n{error:?}"),
    };
    said += "\n";
    said += &match Document::parse("f.yaml", text) {
        Ok(document) => redacted(&document),
        Err(error) => error.to_string(),
    };
    let part = part_in(&said, secret)?;
    let is_shown = |line: &&str| line.contains(&part) && !line.starts_with("Invalid {");
    let short = |line: &str| line.chars().take(200).collect::<String>();
    let lines: Vec<String> = said.lines().filter(is_shown).map(short).collect();
    Some(format!("{text}shows {part:?}:\n{}\n", lines.join("\n")))
}

/// A part of four characters of `secret`, most of them its own, that is in `text`.
fn part_in(text: &str, secret: &str) -> Option<String> {
    let chars: Vec<char> = secret.chars().collect();
    let own = |part: &&[char]| part.iter().filter(|c| c.is_alphanumeric()).count() > 2;
    let mut parts = chars
        .windows(4)
        .filter(own)
        .map(|part| part.iter().collect::<String>());
    parts.find(|part| text.contains(part.as_str()))
}

/// Fails with the first of `leaks`.
fn assert_none(leaks: Vec<String>, count: usize) {
    let first: String = leaks.iter().take(30).map(String::as_str).collect();
    assert!(leaks.is_empty(), "{} of {count}:\n{first}", leaks.len());
}

/// `EVERY_MISTAKE=1` tries each way with each secret in each place, which takes minutes.
fn every_mistake() -> bool {
    std::env::var_os("EVERY_MISTAKE").is_some()
}

#[test]
fn secrets_that_are_written_wrongly_are_not_shown() {
    let ways_each = if every_mistake() { WAYS.len() } else { 1 };
    let (mut leaks, mut count) = (Vec::new(), 0);
    for (key, is_address, file) in PLACES {
        let values = match is_address {
            true => ADDRESSES.to_vec(),
            false => vec!["S", "Bearer S"],
        };
        for value in values {
            for between in BETWEEN {
                let secret = HALVES.join(between);
                for _ in 0..ways_each {
                    count += 1;
                    let way = WAYS[count % WAYS.len()];
                    if is_beyond_telling(value, between, way) {
                        continue;
                    }
                    let value = value.replace('S', &secret);
                    let lines = format!("    {}", way.replace('K', key).replace('V', &value));
                    leaks.extend(leak(&file.replace("LINE", &lines), &secret));
                }
            }
        }
    }
    assert_none(leaks, count);
}

/// Whether nothing tells a part of the secret from what it is not: a user name that YAML cuts off is the name of a host, and so is what
/// is behind the `@` of a password whose own is missing; a part of a password before `: ` at the place of a key is a key.
fn is_beyond_telling(value: &str, between: &str, way: &str) -> bool {
    (value.starts_with("rtsp://S") && between.contains(['#', ',']))
        || (value.starts_with("rtsp://admin:S") && !value.contains('@') && between == "@")
        || (["K:\n    V", "K:\n  V", "K V"].contains(&way) && between == ": ")
}

/// Lines with the key at `path`, whose last step is `key`, for each of the keys in `keys` and below them.
fn lines_of(keys: &[KeySpec], indent: usize, above: &str, found: &mut Vec<String>) {
    let pad = " ".repeat(indent);
    for key in keys {
        let line = format!("{above}{pad}{}:", key.name);
        found.push(line.clone());
        let (inner, above) = match key.value {
            ValueType::Map(inner) | ValueType::WordOrMap(_, inner) => (inner, format!("{line}\n")),
            ValueType::Maps(inner) => (inner, format!("{line}\n{pad}  -\n")),
            ValueType::Named(inner) => (inner, format!("{line}\n{pad}  a:\n")),
            _ => continue,
        };
        lines_of(inner, indent + 4, &above, found);
    }
}

#[test]
fn mistakes_in_any_key_show_no_secret() {
    let secret = HALVES.concat();
    let mut keys = Vec::new();
    lines_of(Config::KEYS, 0, "", &mut keys);
    assert!(keys.len() > 200, "{}", keys.len());
    let (mut leaks, mut count) = (Vec::new(), 0);
    for key in keys {
        let section = key.split(':').next().unwrap_or_default();
        let others = SECTIONS.iter().filter(|(name, _)| *name != section);
        let others: String = others.map(|(_, text)| *text).collect();
        let name = key.lines().next_back().unwrap_or_default();
        let indent = " ".repeat(name.len() - name.trim_start().len());
        let besides = ["pasword: S", " password: S", "S"];
        let values = VALUES.map(|value| (value, "")).into_iter();
        for (value, beside) in values.chain(besides.map(|beside| ("1", beside))) {
            count += 1;
            if count % 3 != 0 && !every_mistake() {
                continue;
            }
            let text = format!("{others}{key} {value}\n{indent}{beside}\n").replace('S', &secret);
            leaks.extend(leak(&text, &secret));
        }
    }
    for case in mistakes::cases() {
        let is_there = |name: &str| case.lines().any(|line| line.starts_with(name));
        let others = SECTIONS.iter().filter(|(name, _)| !is_there(name));
        let others: String = others.map(|(_, text)| *text).collect();
        count += 1;
        let text = case.replace("hunter2", &secret) + &others.replace('S', &secret);
        leaks.extend(leak(&text, &secret));
    }
    assert_none(leaks, count);
}
