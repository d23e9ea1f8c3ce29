// SPDX-License-Identifier: Apache-2.0
//! Tests of changed rules, on files in several styles.

use serde_json::json;

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

fn rule(keys: Value) -> EditedRule {
    let Value::Object(mut keys) = keys else {
        panic!("{keys}");
    };
    let was = keys.remove("was");
    EditedRule {
        was: was.and_then(|was| was.as_str().map(str::to_owned)),
        keys,
    }
}

fn shape(name: &str, points: &[[f64; 2]]) -> EditedRule {
    rule(json!({"name": name, "coordinates": points}))
}

fn parking() -> EditedRule {
    shape("parking", &[[0.1, 0.1], [0.5, 0.1], [0.5, 0.5]])
}

fn door() -> EditedRule {
    shape("door", &[[0.6, 0.6], [0.9, 0.6], [0.9, 0.9]])
}

fn crossing() -> EditedRule {
    shape("crossing", &[[0.25, 0.0], [0.25, 1.0]])
}

/// The rule with other keys.
fn with(rule: EditedRule, keys: Value) -> EditedRule {
    let mut rule = rule;
    let Value::Object(keys) = keys else {
        panic!("{keys}");
    };
    rule.keys.extend(keys);
    rule
}

fn edit(
    file: &str,
    source: &str,
    zones: &[EditedRule],
    lines: &[EditedRule],
) -> Result<String, RuleEditError> {
    let sections = [("zones", zones.to_vec()), ("lines", lines.to_vec())];
    edit_rules("f.yaml", file, source, &sections).1
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
    let moved = shape("parking", &[[0.05, 0.123_456], [0.5, 0.1], [0.5, 0.5]]);
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
        "      - {name: door, inertia_frames: 5, coordinates: '0.6,0.6,0.9,0.6,0.9,0.9'}  # mine\n",
    );
    let moved = shape("door", &[[0.6, 0.6], [0.9, 0.6], [0.8, 0.95]]);
    let edited =
        edit(&flow_items, "gate", &[parking(), moved.clone()], &[]).expect("one line each");
    let wanted = "      - {name: \"door\", inertia_frames: 5, coordinates: \"0.6,0.6,0.9,0.6,0.8,0.95\"}  # mine\n";
    assert!(edited.contains(wanted), "{edited}");

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
    let edited = edit(
        flow_list,
        "gate",
        std::slice::from_ref(&moved),
        &[crossing()],
    )
    .expect("no other keys");
    assert!(
        edited.contains("    zones:\n      - name: \"door\"\n"),
        "{edited}"
    );

    let more = flow_list.replace("name: door,", "name: door, inertia_frames: 5,");
    let edited =
        edit(&more, "gate", std::slice::from_ref(&moved), &[]).expect("keys are carried over");
    assert!(edited.contains("        inertia_frames: 5\n"), "{edited}");

    let folded = FILE.replace(
        "'0.6,0.6,0.9,0.6,0.9,0.9'",
        ">-\n          0.6,0.6,0.9,0.6,\n          0.9,0.9",
    );
    let edited = edit(&folded, "gate", &[parking(), moved.clone()], &[]).expect("several lines");
    assert!(
        edited.contains("        coordinates: \"0.6,0.6,0.9,0.6,0.8,0.95\"\n\n  - name: yard"),
        "{edited}"
    );

    for refused in [
        "sources: [{name: gate, uri: /v.mp4}]\ndetector: {model: /m}\n",
        "sources:\n  - {name: gate, uri: /v.mp4}\ndetector: {model: /m}\n",
    ] {
        let found = edit(refused, "gate", &[moved.clone(), parking()], &[]);
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
fn keys_of_rules_are_set_changed_left_out_and_renamed() {
    let file = FILE.replace(
        "        loitering_time_s: 60\n",
        "        loitering_time_s: 60  # a minute\n        objects:\n          - car\n          - truck\n        # Not at night.\n        schedule: day\n",
    ) + "schedules: {day: {from: '08:00'}, late: {from: '20:00'}}\n";
    let changed = rule(json!({
        "was": "parking", "name": "lot", "loitering_time_s": 90, "objects": ["car"], "schedule": null,
        "allow_overlap": true, "inertia_frames": 5, "object_threshold": null,
    }));
    let edited = edit(&file, "gate", &[changed, door()], &[]).expect("block style");
    let wanted = file
        .replace("- name: parking", "- name: \"lot\"")
        .replace("loitering_time_s: 60  #", "loitering_time_s: 90  #")
        .replace(
            "        objects:\n          - car\n          - truck\n",
            "        objects: [\"car\"]\n",
        )
        .replace(
            "        schedule: day\n",
            "        allow_overlap: true\n        inertia_frames: 5\n",
        );
    assert_eq!(edited, wanted);

    // A name that is another one's, a wrong value and an unknown key are problems of the file.
    for (keys, wanted) in [
        (json!({"name": "door"}), "name of an earlier"),
        (json!({"inertia_frames": 0}), "1"),
        (json!({"objects": "car"}), "objects"),
        (json!({"schedule": "never"}), "never"),
        (json!({"uri": "x"}), "uri"),
    ] {
        let zones = [with(parking(), keys.clone()), door()];
        let Err(RuleEditError::Problems(problems)) = edit(&file, "gate", &zones, &[]) else {
            panic!("{keys}");
        };
        let all = problems.join("\n");
        assert!(all.contains(wanted), "{all}");
        assert!(!all.contains("secret"), "{all}");
    }
}

#[test]
fn first_key_of_an_item_can_be_left_out() {
    let file = FILE.replace(
        "      - name: door\n",
        "      - inertia_frames: 5\n        name: door\n",
    );
    let without = with(door(), json!({"inertia_frames": null}));
    let edited = edit(&file, "gate", &[parking(), without], &[]).expect("block style");
    assert_eq!(edited, FILE);
}

#[test]
fn directions_and_the_rule_of_rest_are_added_changed_and_removed() {
    let set = |file: &str, directions: Vec<Value>, stationary: Vec<Value>| {
        let rules = |rules: Vec<Value>| rules.into_iter().map(rule).collect();
        let sections = [
            ("directions", rules(directions)),
            ("stationary", rules(stationary)),
        ];
        edit_rules("f.yaml", file, "yard", &sections)
            .1
            .expect("block style")
    };
    let out =
        json!({"name": "out", "coordinates": [[0.5, 0.1], [0.5, 0.9]], "tolerance_degrees": 30});
    let added = set(
        FILE,
        vec![out.clone()],
        vec![json!({"threshold_s": 20, "objects": ["car"]})],
    );
    let section = "    directions:\n      - name: \"out\"\n        coordinates: \"0.5,0.1,0.5,0.9\"\n        tolerance_degrees: 30\n    stationary:\n      objects: [\"car\"]\n      threshold_s: 20\n";
    assert_eq!(
        added,
        FILE.replace("    uri: /v.mp4\n", &format!("    uri: /v.mp4\n{section}"))
    );
    let rules = rules_of_file(&added);
    assert_eq!(
        rules.sources["yard"]["stationary"][0]["threshold_s"],
        json!(20)
    );
    let changed = set(
        &added,
        vec![out.clone()],
        vec![json!({"threshold_s": 25, "objects": null})],
    );
    let wanted = added
        .replace("      objects: [\"car\"]\n", "")
        .replace("threshold_s: 20", "threshold_s: 25");
    assert_eq!(changed, wanted);
    assert_eq!(set(&changed, vec![], vec![]), FILE);
    // In flow style the section is written again, with the keys that it had.
    let flow = FILE.replace(
        "    uri: /v.mp4\n",
        "    uri: /v.mp4\n    stationary: {threshold_s: 5, min_iou: 0.5}\n",
    );
    let changed = set(&flow, vec![], vec![json!({"threshold_s": 6})]);
    let wanted = flow.replace(
        " {threshold_s: 5, min_iou: 0.5}",
        "\n      threshold_s: 6\n      min_iou: 0.5",
    );
    assert_eq!(changed, wanted);
}

#[test]
fn yaml_to_paste_is_valid() {
    let sections = [("zones", vec![parking()]), ("lines", vec![crossing()])];
    let yaml = edit_rules("f.yaml", FILE, "gate", &sections).0;
    assert!(yaml.contains("  loitering_time_s: 60\n"), "{yaml}");
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
