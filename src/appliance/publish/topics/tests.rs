// SPDX-License-Identifier: Apache-2.0
//! Topics of records, and the records of topics.

use std::time::SystemTime;

use super::*;
use crate::{SourceState, Stats};
use jetwatch_types::{FrameMeta, Size};

fn count_topic(topics: &mut Topics, label: &str) -> String {
    let record = Publication::count("cam", label, 1, SystemTime::UNIX_EPOCH);
    let (topic, delivery) = topics.resolve(&record);
    assert_eq!(delivery, Delivery::State);
    topic.to_string()
}

#[test]
fn labels_map_to_distinct_topic_levels() {
    let cases = [
        ("person", "person"),
        ("traffic light", "traffic_light"),
        ("a/b+c#d", "a_b_c_d"),
        ("status", "status"),
        ("a b", "a_b"),
        ("a_b", "a_b_"),
        ("", "_"),
        ("événement", "événement"),
        ("status_", "status_"),
        ("a\tb", "a_b__"),
    ];
    let labels = cases.map(|(label, _)| label.to_owned());
    let mut topics = Topics::new("jetwatch", "gate", &Classes::new(&labels, &[]));
    // The second time from the cache.
    for (label, level) in cases.into_iter().chain(cases) {
        let wanted = format!("jetwatch/gate/cam/counts/{level}");
        assert_eq!(count_topic(&mut topics, label), wanted);
    }
    let found = count_topic(&mut topics, "unknown thing");
    assert_eq!(found, "jetwatch/gate/cam/counts/unknown_thing");
}

#[test]
fn each_record_has_its_topic_and_delivery() {
    let mut topics = Topics::new("site/jetwatch", "a+b", &Classes::default());
    assert_eq!(&**topics.status(), "site/jetwatch/a_b/status");
    let (source, at) = ("cam", SystemTime::UNIX_EPOCH);
    let (frame, stats) = (FrameMeta::for_test(0, 0, Size::new(4, 4)), Stats::default());
    let events = Publication::Events {
        source,
        frame: &frame,
        events: &[],
        recording: None,
        snapshots: &[],
    };
    let detections = Publication::Frame {
        source,
        frame: &frame,
        tracks: &[],
    };
    let state = Publication::source_state(source, SourceState::Online, None, at);
    let group = Publication::group_count(source, "vehicle", 2, at);
    for (record, topic, delivery) in [
        (&events, "cam/events", Delivery::AtLeastOnce),
        (&detections, "cam/detections", Delivery::AtMostOnce),
        (&state, "cam/status", Delivery::State),
        (&group, "cam/groups/vehicle", Delivery::State),
        (&group, "cam/groups/vehicle", Delivery::State),
        (&Publication::Stats(&stats), "stats", Delivery::AtMostOnce),
    ] {
        let wanted = format!("site/jetwatch/a_b/{topic}");
        assert_eq!(topics.resolve(record), (wanted.into(), delivery));
    }
    let mut removed = topics.remove_source("cam");
    assert!(removed.any(|topic| &*topic == "site/jetwatch/a_b/cam/groups/vehicle"));
}
