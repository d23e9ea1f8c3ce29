//! What the configuration says of frames that skip the network, handed to the lanes and to the trackers.

use crossbeam_channel::Sender;

use crate::config::{Config, Interval, SourceConfig};
use crate::track::Tracker;

use super::cadence::Member;
use super::follow::News;
use super::lanes::Lanes;

/// The lanes, which let frames skip the network where a source asks for it; `news` hears of them.
pub(super) fn skipping(lanes: Lanes, config: &Config, news: Sender<News>) -> Lanes {
    let members: Vec<Member> = config
        .sources
        .iter()
        .map(|source| Member {
            interval: interval(config, source),
            is_live: source.uri.is_live(),
        })
        .collect();
    if !members.iter().any(|member| member.interval.can_skip()) {
        return lanes;
    }
    let carry = move |ticket, meta| {
        // A follower that is gone wants nothing more.
        let _ = news.send(News::Carried { ticket, meta });
    };
    lanes.with_intervals(
        &members,
        config.detector.max_interval,
        config.detector.workers,
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

fn interval(config: &Config, source: &SourceConfig) -> Interval {
    source.interval.unwrap_or(config.detector.interval)
}
