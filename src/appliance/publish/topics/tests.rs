//! Topics of records, and the records of topics.

use std::time::SystemTime;

use super::*;
use crate::{SourceState, Stats};

fn count_topic(topics: &mut Topics, label: &str) -> String {
    let record = Publication::Count {
        source: "cam",
        label,
        count: 1,
        at: SystemTime::UNIX_EPOCH,
    };
    let (topic, delivery) = topics.resolve(&record);
    assert_eq!(delivery, Delivery::State);
    topic.to_string()
}

#[test]
fn labels_map_to_distinct_topic_levels() {
    let labels = [
        "person",
        "traffic light",
        "a/b+c#d",
        "status",
        "events",
        "detections",
        "a b",
        "a_b",
        "",
        "événement",
        "status_",
        "a\tb",
        "zones",
    ];
    let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
    let mut topics = Topics::new("jetwatch", "gate", &Classes::new(&labels, &[]));
    let expected = [
        "person",
        "traffic_light",
        "a_b_c_d",
        "status",
        "events",
        "detections",
        "a_b",
        "a_b_",
        "_",
        "événement",
        "status_",
        "a_b__",
        "zones",
    ];
    for (label, level) in labels.iter().zip(expected) {
        assert_eq!(
            count_topic(&mut topics, label),
            format!("jetwatch/gate/cam/counts/{level}")
        );
        assert_eq!(
            count_topic(&mut topics, label),
            format!("jetwatch/gate/cam/counts/{level}"),
            "from the cache"
        );
    }
    assert_eq!(
        count_topic(&mut topics, "unknown thing"),
        "jetwatch/gate/cam/counts/unknown_thing"
    );
}

#[test]
fn each_record_has_its_topic_and_delivery() {
    let mut topics = Topics::new("site/jetwatch", "a+b", &Classes::default());
    assert_eq!(&**topics.status(), "site/jetwatch/a_b/status");
    let state = Publication::Source {
        source: "cam",
        state: SourceState::Online,
        reason: None,
        at: SystemTime::UNIX_EPOCH,
    };
    assert_eq!(
        topics.resolve(&state),
        ("site/jetwatch/a_b/cam/status".into(), Delivery::State)
    );
    let group = Publication::GroupCount {
        source: "cam",
        group: "vehicle",
        count: 2,
        at: SystemTime::UNIX_EPOCH,
    };
    let wanted: Arc<str> = "site/jetwatch/a_b/cam/groups/vehicle".into();
    for _ in ["built", "from the cache"] {
        assert_eq!(
            topics.resolve(&group),
            (Arc::clone(&wanted), Delivery::State)
        );
    }
    assert!(topics.remove_source("cam").any(|topic| topic == wanted));
    let stats = Stats::default();
    let (topic, delivery) = topics.resolve(&Publication::Stats(&stats));
    assert_eq!(
        (&*topic, delivery),
        ("site/jetwatch/a_b/stats", Delivery::AtMostOnce)
    );
}
