// SPDX-License-Identifier: Apache-2.0
//! Commands that are parsed, and those that are refused.

use super::*;

#[test]
fn both_commands_are_parsed() {
    let text = br#"{"id": "7", "command": "add_source", "template": "hall", "name": "h", "parameters": {"a": 3, "b": "x"}}"#;
    let parameters = [("a", "3"), ("b", "x")];
    let wanted = Command::AddSource {
        name: "h".to_owned(),
        template: "hall".to_owned(),
        parameters: parameters
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    };
    assert_eq!(Command::read(text), Ok((Some("7".to_owned()), wanted)));
    let text = br#"{"command": "remove_source", "name": "h"}"#;
    let wanted = Command::RemoveSource {
        name: "h".to_owned(),
    };
    assert_eq!(Command::read(text), Ok((None, wanted)));
}

#[test]
fn invalid_commands_are_rejected() {
    let long = format!(
        r#"{{"command": "remove_source", "name": "{}"}}"#,
        "x".repeat(MAX_TEXT + 1)
    );
    let huge = "x".repeat(MAX_COMMAND_BYTES + 1);
    let deep = "[".repeat(4000);
    #[rustfmt::skip]
    let cases = [
        ("", "not a command"),
        ("null", "not a command"),
        ("[]", "not a command"),
        (r#"{"command": "remove_source"}"#, "not a command"),
        (r#"{"command": "run", "name": "x"}"#, "not a command"),
        (r#"{"command": "add_source", "template": "t", "name": "x", "uri": "launch:filesrc"}"#, "unknown field"),
        (r#"{"command": "add_source", "template": "t", "name": "x", "parameters": {"a": ["b"]}}"#, "not a command"),
        (r#"{"command": "add_source", "template": "t", "name": "x", "parameters": {"a": -1}}"#, "not a command"),
        (r#"{"command": "add_source", "name": "x"}"#, "needs template"),
        (r#"{"command": "set_detection", "name": "x"}"#, "set_detection needs on"),
        (r#"{"command": "set_detection", "name": "x", "on": "ON"}"#, "not a command"),
        (r#"{"command": "set_rule", "name": "x", "on": true}"#, "set_rule needs rule"),
        (r#"{"command": "set_score_threshold", "name": "x", "threshold": 0.5, "on": true}"#, "set_score_threshold takes no on"),
        (r#"{"command": "remove_source", "name": "x", "template": "t"}"#, "remove_source takes no template"),
        (r#"{"command": "remove_source", "name": "x\u0000"}"#, "control characters"),
        (long.as_str(), "more than 128 bytes"),
        (huge.as_str(), "4097 bytes"),
        (deep.as_str(), "not a command"),
    ];
    for (text, wanted) in cases {
        let reply = Command::read(text.as_bytes()).expect_err(text);
        let error = reply.error.expect("a reason");
        assert!(
            error.contains(wanted) && error.len() < 400,
            "{text}: {error}"
        );
    }
    assert!(Command::read(&[0xff, 0xfe, 0x00]).is_err());
}

#[test]
fn replies_carry_the_id_of_the_command() {
    let with = |rest: &str| format!(r#"{{"id": "7", "name": "gate", "command": {rest}}}"#);
    for rest in [
        r#""add_source", "template": "t", "parameters": {"seed": 1.0}"#,
        r#""add_source""#,
        r#""remove_source", "uri": "x""#,
        r#""run""#,
    ] {
        let reply = Command::read(with(rest).as_bytes()).expect_err(rest);
        let (id, name) = (reply.id.as_deref(), reply.name.as_deref());
        assert_eq!((id, name), (Some("7"), Some("gate")), "{rest}");
    }
    let text = with(r#""add_source", "template": "t", "parameters": {"seed": 1.5}"#);
    let error = Command::read(text.as_bytes())
        .expect_err("no whole number")
        .error;
    assert_eq!(
        error.as_deref(),
        Some(
            "not a command: parameters.seed: found 1.5, expected a text or a whole number from 0 to 4294967295"
        )
    );
}

#[test]
fn switches_are_parsed_from_commands_and_from_topics() {
    let read = |text: &str| Command::read(text.as_bytes()).map(|(_, command)| command);
    let set = |setting: Setting, payload: &[u8]| {
        let sets = SetTopic {
            source: "cam".to_owned(),
            setting,
        };
        let message = CommandMessage {
            payload: payload.to_vec(),
            sets: Some(sets),
            reply_to: None,
        };
        Command::of_message(&message).map(|(_, command)| command)
    };
    let name = || "cam".to_owned();
    let off = Ok(Command::SetDetection {
        name: name(),
        on: false,
    });
    assert_eq!(
        read(r#"{"command": "set_detection", "name": "cam", "on": false}"#),
        off
    );
    assert_eq!(set(Setting::Detection, b"OFF"), off);
    let rule = || "yard".to_owned();
    let on = Ok(Command::SetRule {
        name: name(),
        rule: rule(),
        on: true,
    });
    assert_eq!(
        read(r#"{"command": "set_rule", "name": "cam", "rule": "yard", "on": true}"#),
        on
    );
    assert_eq!(set(Setting::Rule(rule()), b"ON"), on);
    let half = Ok(Command::SetScoreThreshold {
        name: name(),
        threshold: 0.5,
    });
    let text = r#"{"command": "set_score_threshold", "name": "cam", "threshold": 0.5}"#;
    assert_eq!(read(text), half);
    assert_eq!(set(Setting::ScoreThreshold, b"0.50"), half);
    let long = [b'x'; 5000];
    #[rustfmt::skip]
    let cases = [
        (Setting::Detection, &b"on"[..], "found \"on\", expected ON or OFF"),
        (Setting::Detection, b"", "found \"\", expected ON or OFF"),
        (Setting::Rule(rule()), &long, "expected ON or OFF"),
        (Setting::ScoreThreshold, b"high", "expected a number from 0 to 1"),
        (Setting::ScoreThreshold, b"NaN", "expected a number from 0 to 1"),
        (Setting::ScoreThreshold, &[0xff], "expected a number from 0 to 1"),
    ];
    for (setting, payload, wanted) in cases {
        let reply = set(setting, payload).expect_err(wanted);
        let error = reply.error.expect("a reason");
        assert!(error.contains(wanted) && error.len() < 200, "{error}");
        assert_eq!(reply.name.as_deref(), Some("cam"));
    }
}
