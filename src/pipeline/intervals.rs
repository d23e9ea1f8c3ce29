//! What the configuration says of frames that skip the network, handed to the lanes and to the trackers.

use crossbeam_channel::Sender;

use crate::config::{Config, Interval, SourceConfig};
use crate::track::Tracker;

use super::follow::News;
use super::lanes::Lanes;

/// The lanes, which let frames skip the network where a source asks for it; `news` hears of them.
pub(super) fn skipping(lanes: Lanes, config: &Config, news: Sender<News>) -> Lanes {
    let carry = move |ticket, meta| {
        // A follower that is gone wants nothing more.
        let _ = news.send(News::Carried { ticket, meta });
    };
    let detector = &config.detector;
    lanes.with_intervals(
        &[],
        detector.max_interval,
        detector.workers,
        Box::new(carry),
    )
}

/// The tracker of one source, which predicts where frames skip the network.
pub(super) fn tracker(config: &Config, source: &SourceConfig) -> Tracker {
    if interval(config, source).can_skip() {
        Tracker::with_carrying(&config.tracker)
    } else {
        Tracker::new(&config.tracker)
    }
}

/// How often frames of one source skip the network.
pub(super) fn interval(config: &Config, source: &SourceConfig) -> Interval {
    source.interval.unwrap_or(config.detector.interval)
}
