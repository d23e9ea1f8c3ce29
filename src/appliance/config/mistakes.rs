// SPDX-License-Identifier: Apache-2.0
//! Mistakes of each section with their whole reports: the pairs in `mistakes.txt`. A file with many mistakes at once is read in
//! `tests/config_mistakes.rs`. `<U+00A0>` stands for a character that an editor would not show.
//!
//! `UPDATE_GOLDEN=1 cargo test -p jetwatch-config mistakes` writes the reports again; read the difference before keeping it.

use std::fs;

use crate::{Config, ConfigError, Secret, SourceUri};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/mistakes.txt");

/// Sections that a case does not have.
const BASE: [(&str, &str); 2] = [
    ("sources:", "sources: [{name: a, uri: /v.mp4}]"),
    ("detector:", "detector: {model: /m}"),
];

/// The configuration of these sections, and of those that it lacks.
pub(crate) fn read(path: &str, sections: &str) -> Result<Config, ConfigError> {
    let is_missing = |key: &str| !sections.lines().any(|line| line.starts_with(key));
    let base = BASE.iter().filter(|(key, _)| is_missing(key));
    let base: String = base.map(|(_, line)| format!("{line}\n")).collect();
    Config::from_str(path, &format!("{sections}\n{base}"))
}

/// The configuration of sections without a mistake, in the folder `conf`.
pub(crate) fn loaded(sections: &str) -> Config {
    read("conf/f.yaml", sections).unwrap_or_else(|error| panic!("{sections}\n{error}"))
}

/// The problems of a configuration, one a line.
fn report(case: &[&str]) -> String {
    let text = with_characters(&case.join("\n"));
    let error = read("f.yaml", &text).expect_err(&text);
    let problems = error.problems().iter();
    let lines: String = problems.map(|problem| format!("  > {problem}\n")).collect();
    let is_shown = |part: &str| lines.contains(part);
    assert!(
        !["hunt", "ter2"].into_iter().any(is_shown),
        "a secret is reported: {lines}"
    );
    lines
}

/// `text` with the characters that its `<U+…>` name.
fn with_characters(text: &str) -> String {
    let mut parts = text.split("<U+");
    let mut found = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_once('>').expect("a closing bracket");
        let code = u32::from_str_radix(code, 16).expect("a hexadecimal number");
        found.extend(char::from_u32(code));
        found.push_str(rest);
    }
    found
}

/// The cases of the file.
pub(crate) fn cases() -> Vec<String> {
    let text = fs::read_to_string(FILE).expect("readable");
    let (mut cases, mut case) = (Vec::new(), String::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.starts_with("  > ") {
            true if case.trim().is_empty() => {}
            true => cases.push(with_characters(&std::mem::take(&mut case))),
            false => case += &format!("{line}\n"),
        }
    }
    cases
}

#[test]
fn each_mistake_has_its_report() {
    let text = fs::read_to_string(FILE).expect("readable");
    let (mut found, mut case) = (String::new(), Vec::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_report = |line: &str| line.starts_with("  > ");
        if is_report(line) {
            continue;
        }
        found += &format!("{line}\n");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        case.push(line);
        if lines.peek().is_some_and(|next| is_report(next)) {
            found += &report(&case);
            case.clear();
        }
    }
    assert!(case.is_empty(), "{case:?} has no report");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return fs::write(FILE, &found).expect("written");
    }
    for (found, kept) in found.lines().zip(text.lines()) {
        assert_eq!(found, kept);
    }
    assert_eq!(found.len(), text.len());
}

#[test]
fn real_passwords_are_read_as_they_stand() {
    for (written, wanted) in [
        ("pa$$w0rd", "pa$$w0rd"),
        ("$ecret", "$ecret"),
        ("x${a}", "x${a}"),
        ("'{a-b}'", "{a-b}"),
        ("abc#def", "abc#def"),
        ("'abc #def'", "abc #def"),
        ("'it''s'", "it's"),
        ("100%", "100%"),
        ("\"a\\\\b\"", "a\\b"),
        // blakeblackshear/frigate#5452
        ("abc # want to use {FRIGATE_MQTT_PASSWORD}", "abc"),
        ("abc #the gate camera", "abc"),
        ("abc  #gate", "abc"),
        // ArthurMitchell42/nutcase#52
        ("nut pass", "nut pass"),
        // esphome/issues#5219, nielstron/ha_blnet#11
        ("01823456", "01823456"),
        ("0000000", "0000000"),
        // Cloudbox/Cloudbox#431
        ("'#xxx'", "#xxx"),
        // AlexxIT/go2rtc#1370
        ("p{assword", "p{assword"),
        // wazuh/wazuh#18320
        ("vw73-md}Nj!&wtV", "vw73-md}Nj!&wtV"),
        ("\"\"", ""),
    ] {
        let text = format!(
            "sources:\n  - name: a\n    uri: rtsp://c\n    user: u\n    password: {written}\n"
        );
        let password = match loaded(&text).sources.remove(0).uri {
            SourceUri::Rtsp { password, .. } => password,
            other => panic!("{other:?}"),
        };
        let wanted = Some(Secret::Inline(wanted.to_owned()));
        assert!(password == wanted, "{written}");
    }
    for (uri, wanted) in [
        // bluenviron/mediamtx#5920
        (
            "rtsp://admin:@10.0.0.3:554/h264Preview_01_main",
            ("admin", ""),
        ),
        // bluenviron/mediamtx#2069
        (
            "rtsp://user1:P@ssword@192.168.8.10/stream1",
            ("user1", "P@ssword"),
        ),
        // blakeblackshear/frigate#2427
        (
            "rtsp://viewer:admin:FUOPQS@192.168.4.37:554/H.264",
            ("viewer", "admin:FUOPQS"),
        ),
        // thirtythreeforty/neolink#242
        ("rtsp://a:x^y!z$@c/1", ("a", "x^y!z$")),
        ("rtsp://a:x,y@c/1 # the gate", ("a", "x,y")),
    ] {
        let text = format!("sources:\n  - name: a\n    uri: {uri}\n");
        let (user, password) = match loaded(&text).sources.remove(0).uri {
            SourceUri::Rtsp { user, password, .. } => (user, password),
            other => panic!("{other:?}"),
        };
        assert_eq!(user.as_deref(), Some(wanted.0), "{uri}");
        assert!(
            password == Some(Secret::Inline(wanted.1.to_owned())),
            "{uri}"
        );
    }
}
