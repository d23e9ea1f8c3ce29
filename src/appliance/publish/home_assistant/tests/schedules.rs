// SPDX-License-Identifier: Apache-2.0
//! Sensors of what is active by its schedule.

use super::*;

#[test]
fn what_has_a_schedule_has_a_binary_sensor_of_whether_it_is_active() {
    let mut state = home_assistant_with(options(true));
    let mut info = source("yard", true, rules());
    info.has_schedule = true;
    state.take(known(info));
    state.take(Fact::Earlier(Vec::new()));
    let sensor = read(&state.messages())[YARD]["cmps"]["detection--active"].clone();
    assert_eq!(sensor["p"], "binary_sensor");
    assert_eq!(sensor["stat_t"], "jetwatch/gate/yard/detect/active");
    assert_eq!(sensor["json_attr_t"], sensor["stat_t"]);
    let attributes = sensor["json_attr_tpl"].as_str().expect("a template");
    assert!(
        attributes.contains("value_json.next_change"),
        "{attributes}"
    );
    // By a reload.
    let mut source = state.sources["yard"].clone();
    source.scheduled.insert(Some("drive".to_owned()));
    state.take(Fact::Source(Box::new(source.clone())));
    let message = &read(&state.messages())[YARD];
    let topic = &message["cmps"]["rule--drive--active"]["stat_t"];
    assert_eq!(topic, "jetwatch/gate/yard/rules/drive/active");
    assert!(ids(message).contains("detection--active"));
    assert!(!ids(message).contains("rule--gate--active"));
    // A reload removes one: first a component without a definition, then none.
    source.scheduled.remove(&None);
    state.take(Fact::Source(Box::new(source)));
    let messages = read(&state.messages());
    let removed = &messages[YARD]["cmps"]["detection--active"];
    assert_eq!(removed, &serde_json::json!({"p": "binary_sensor"}));
    state.retired();
    let message = &read(&state.messages())[YARD];
    assert!(!ids(message).contains("detection--active"));
    assert!(ids(message).contains("rule--drive--active"));
}
