// SPDX-License-Identifier: Apache-2.0
//! Tests of changed rules, on files in several styles.

use super::*;

const FILE: &str = "\
# The yard.
device: box
sources:
  - name: gate  # the first
    uri: rtsp://user:secret@camera/1
    # Where cars stand.
    zones:
      # Left of the door.
      - name: parking
        coordinates: 0.1,0.1,0.5,0.1,0.5,0.5  # measured
        loitering_time_s: 60
      - name: door
        coordinates: '0.6,0.6,0.9,0.6,0.9,0.9'

  - name: yard
    uri: /v.mp4
# The network.
detector: {model: /m}
";

fn shape(name: &str, points: &[[f64; 2]]) -> DrawnShape {
    DrawnShape {
        name: name.to_owned(),
        points: points.to_vec(),
    }
}

fn parking() -> DrawnShape {
    shape("parking", &[[0.1, 0.1], [0.5, 0.1], [0.5, 0.5]])
}

fn door() -> DrawnShape {
    shape("door", &[[0.6, 0.6], [0.9, 0.6], [0.9, 0.9]])
}

fn crossing() -> DrawnShape {
    shape("crossing", &[[0.25, 0.0], [0.25, 1.0]])
}

fn edit(
    file: &str,
    source: &str,
    zones: &[DrawnShape],
    lines: &[DrawnShape],
) -> Result<String, RuleEditError> {
    edit_rules("f.yaml", file, source, zones, lines)
}

#[test]
fn what_is_unchanged_stays_as_it_is_written() {
    assert_eq!(
        edit(FILE, "gate", &[parking(), door()], &[]).as_deref(),
        Ok(FILE)
    );
    assert_eq!(edit(FILE, "yard", &[], &[]).as_deref(), Ok(FILE));
}

#[test]
fn moved_zone_keeps_its_other_keys_and_comments() {
    let mut moved = parking();
    moved.points[0] = [0.05, 0.123_456];
    let edited = edit(FILE, "gate", &[moved, door()], &[]).expect("block style");
    let wanted = FILE.replace("0.1,0.1,0.5,0.1,0.5,0.5", "\"0.05,0.1235,0.5,0.1,0.5,0.5\"");
    assert_eq!(edited, wanted);
}

#[test]
fn added_and_removed_rules_change_their_lines_only() {
    let extra = shape("on", &[[0.0, 0.9], [0.05, 0.9], [0.05, 1.0]]);
    let edited = edit(FILE, "gate", &[parking(), extra], &[crossing()]).expect("block style");
    let wanted = FILE.replace(
        "      - name: door\n        coordinates: '0.6,0.6,0.9,0.6,0.9,0.9'\n",
        "      - name: \"on\"\n        coordinates: \"0,0.9,0.05,0.9,0.05,1\"\n    lines:\n      - name: \"crossing\"\n        coordinates: \"0.25,0,0.25,1\"\n",
    );
    assert_eq!(edited, wanted);
    let edited = edit(FILE, "gate", &[], &[]).expect("block style");
    assert!(
        !edited.contains("zones") && edited.contains("# Where cars stand.\n\n  - name: yard"),
        "{edited}"
    );
    let edited = edit(FILE, "yard", &[door()], &[crossing()]).expect("block style");
    assert!(
        edited.contains("    uri: /v.mp4\n    zones:\n      - name: \"door\"\n")
            && edited.ends_with("# The network.\ndetector: {model: /m}\n"),
        "{edited}"
    );
}

#[test]
fn other_styles_are_changed_or_refused() {
    let flow_items = FILE.replace(
        "      - name: door\n        coordinates: '0.6,0.6,0.9,0.6,0.9,0.9'\n",
        "      - {name: door, inertia_frames: 5, coordinates: '0.6,0.6,0.9,0.6,0.9,0.9'}\n",
    );
    let mut moved = door();
    moved.points[2] = [0.8, 0.95];
    let edited =
        edit(&flow_items, "gate", &[parking(), moved.clone()], &[]).expect("one line each");
    assert_eq!(
        edited,
        flow_items.replace("'0.6,0.6,0.9,0.6,0.9,0.9'", "\"0.6,0.6,0.9,0.6,0.8,0.95\"")
    );

    let same_column = "sources:\n- name: gate\n  uri: /v.mp4\n  zones:\n  - name: door\n    coordinates: 0.6,0.6,0.9,0.6,0.9,0.9\n  fps: 5\ndetector: {model: /m}\n".replace("  fps: 5\n", "  max_fps: 5\n");
    let edited = edit(&same_column, "gate", &[moved.clone(), parking()], &[])
        .expect("items at the column of the key");
    assert!(
        edited.contains("    coordinates: \"0.6,0.6,0.9,0.6,0.8,0.95\"\n  - name: \"parking\"\n"),
        "{edited}"
    );
    assert!(
        edited.ends_with("  max_fps: 5\ndetector: {model: /m}\n"),
        "{edited}"
    );

    let flow_list = "sources:\n  - name: gate\n    uri: /v.mp4\n    zones: [{name: door, coordinates: '0.6,0.6,0.9,0.6,0.9,0.9'}]\ndetector: {model: /m}";
    let edited = edit(flow_list, "gate", &[moved.clone()], &[crossing()]).expect("no other keys");
    assert!(
        edited.contains("    zones:\n      - name: \"door\"\n"),
        "{edited}"
    );

    for refused in [
        "sources: [{name: gate, uri: /v.mp4}]\ndetector: {model: /m}\n".to_owned(),
        "sources:\n  - {name: gate, uri: /v.mp4}\ndetector: {model: /m}\n".to_owned(),
        flow_list.replace("name: door,", "name: door, inertia_frames: 5,"),
        FILE.replace(
            "'0.6,0.6,0.9,0.6,0.9,0.9'",
            ">-\n          0.6,0.6,0.9,0.6,\n          0.9,0.9",
        ),
    ] {
        let found = edit(&refused, "gate", &[moved.clone(), parking()], &[]);
        assert!(
            matches!(found, Err(RuleEditError::Form { .. })),
            "{refused}: {found:?}"
        );
    }
}

#[test]
fn bad_rules_are_problems_as_in_the_file() {
    #[rustfmt::skip]
    let cases = [
        (shape("door", &[[0.1, 0.1], [0.2, 0.2]]), "three"),
        (shape("a b", &[[0.0, 0.9], [0.1, 0.9], [0.1, 1.0]]), "letters, digits"),
        (shape("out", &[[0.0, 0.9], [1.5, 0.9], [0.1, 1.0]]), "coordinates"),
        (shape("a\"\nuri: x", &[[0.0, 0.9], [0.1, 0.9], [0.1, 1.0]]), "letters, digits"),
    ];
    for (bad, wanted) in cases {
        let found = edit(FILE, "yard", std::slice::from_ref(&bad), &[]);
        let Err(RuleEditError::Problems(problems)) = found else {
            panic!("{bad:?}: {found:?}");
        };
        let all = problems.join("\n");
        assert!(all.contains(wanted), "{all}");
        assert!(!all.contains("secret"), "{all}");
    }
    let found = edit(FILE, "attic", &[], &[]);
    assert!(
        matches!(found, Err(RuleEditError::Form { .. })),
        "{found:?}"
    );
}

#[test]
fn yaml_to_paste_is_valid() {
    let yaml = rules_yaml(&[parking()], &[crossing()]);
    let indented: String = yaml.lines().map(|line| format!("    {line}\n")).collect();
    let file =
        format!("sources:\n  - name: gate\n    uri: /v.mp4\n{indented}detector: {{model: /m}}\n");
    let config = Config::from_str("f.yaml", &file).expect("valid");
    assert_eq!(config.sources[0].rules.zones[0].name, "parking");
    assert_eq!(config.sources[0].rules.lines[0].name, "crossing");
}

const ADDED: &str = "\
# Maker A1
- name: a1
  uri: rtsp://camera/2
";

#[test]
fn sources_are_added_behind_the_last_one_in_its_style() {
    let edited = add_sources("f.yaml", FILE, ADDED).expect("block style");
    let added = "  # Maker A1\n  - name: a1\n    uri: rtsp://camera/2\n";
    let wanted = FILE.replace("    uri: /v.mp4\n", &format!("    uri: /v.mp4\n{added}"));
    assert_eq!(edited, wanted);
    // Without indentation, at the end of a file without a line break.
    let file = "detector: {model: /m}\nsources:\n- name: gate\n  uri: /v.mp4";
    let edited = add_sources("f.yaml", file, ADDED).expect("block style");
    assert_eq!(edited, format!("{file}\n{ADDED}"));
}

#[test]
fn sources_that_cannot_be_added_are_refused() {
    let named = ADDED.replace("a1", "yard");
    let Err(RuleEditError::Problems(problems)) = add_sources("f.yaml", FILE, &named) else {
        panic!("the name is taken");
    };
    assert!(problems[0].contains("yard"), "{problems:?}");
    let flow = "detector: {model: /m}\nsources: [{name: gate, uri: /v.mp4}]\n";
    let error = add_sources("f.yaml", flow, ADDED).expect_err("flow style");
    assert!(
        error
            .to_string()
            .contains("paste the sources into the file"),
        "{error}"
    );
    let more = "- name: a1\n  uri: /v.mp4\ndetector: {model: /n}\n";
    assert!(add_sources("f.yaml", FILE, more).is_err());
}
