// SPDX-License-Identifier: Apache-2.0
//! Keys of other programs, for who writes a configuration from the one that he has: Frigate, go2rtc, DeepStream's application,
//! MQTT clients and Docker Compose.

/// Their keys, each with ours as it is reached from the same map. Of several with one name, the first is meant that is there.
const KEYS: [(&str, &str); 54] = [
    ("cameras", "sources"),
    ("streams", "sources"),
    ("go2rtc", "sources"),
    ("paths", "sources"),
    ("inputs", "sources"),
    ("source-list", "sources"),
    ("detectors", "detector"),
    ("primary-gie", "detector"),
    ("model", "detector.model"),
    ("objects", "detector.classes"),
    ("objects", "classes"),
    ("streammux", "detector.batch_size"),
    ("secondary-gie", "secondary"),
    ("classifiers", "secondary"),
    ("mqtt", "publish.mqtt"),
    ("message-broker", "publish.mqtt"),
    ("sink", "publish"),
    ("snapshots", "record.snapshots"),
    ("logger", "log"),
    ("logging", "log"),
    ("ui", "web"),
    ("http", "web"),
    ("tls", "web.tls"),
    ("telemetry", "metrics"),
    ("timezone", "time_zone"),
    ("hostname", "device"),
    ("ffmpeg", "uri"),
    ("path", "uri"),
    ("source", "uri"),
    ("input", "uri"),
    ("rtsp", "uri"),
    ("rtsp_url", "uri"),
    ("address", "uri"),
    ("stream", "uri"),
    ("id", "name"),
    ("threshold", "score_threshold"),
    ("min_score", "score_threshold"),
    ("confidence", "score_threshold"),
    ("track", "classes"),
    ("labels", "classes"),
    ("rtsp_transport", "transport"),
    ("drop-frame-interval", "interval"),
    ("host", "broker"),
    ("server", "broker"),
    ("url", "broker"),
    ("port", "broker"),
    ("host", "listen"),
    ("port", "listen"),
    ("username", "user"),
    ("pass", "password"),
    ("topic_prefix", "prefix"),
    ("base_topic", "prefix"),
    ("topic", "prefix"),
    ("tls_ca_certs", "tls.ca_file"),
];

/// What `key` of another program is called here, in a map with the keys `known`.
pub(super) fn ours<'k>(
    key: &str,
    known: impl Iterator<Item = &'k str> + Clone,
) -> Option<&'static str> {
    // DeepStream numbers its sections: `sink0`.
    let key = key
        .trim_end_matches(|c: char| c.is_ascii_digit())
        .to_ascii_lowercase();
    let is_here = |ours: &str| {
        known
            .clone()
            .any(|known| ours.split('.').next() == Some(known))
    };
    let named = KEYS.into_iter().filter(|(theirs, _)| *theirs == key);
    named.map(|(_, ours)| ours).find(|ours| is_here(ours))
}
