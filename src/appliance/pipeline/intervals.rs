//! What the configuration says of frames that skip the network, handed to the lanes and to the trackers.

use std::sync::Arc;

use crossbeam_channel::Sender;

use jetwatch_config::{Config, Interval, SourceConfig};
use jetwatch_record::Shelf;
use jetwatch_source::{Skipping, ViewWish};
use jetwatch_track::Tracker;

use super::follow::News;
use super::lanes::Lanes;

/// The lanes, which let frames skip the network where a source asks for it; `news` hears of them.
pub(super) fn skipping(lanes: Lanes, config: &Config, news: Sender<News>) -> Lanes {
    let carry = move |ticket, (meta, view)| {
        // A follower that is gone wants nothing more.
        let _ = news.send(News::Carried { ticket, meta, view });
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

/// What becomes of the frames of `source`; `None` where each of them goes through the network. `view` is
/// the picture that those have which skip it, which goes to the `shelf`.
pub(super) fn of_source(
    config: &Config,
    source: &SourceConfig,
    lanes: &Arc<Lanes>,
    view: ViewWish,
    shelf: Option<&Shelf>,
) -> Option<Skipping> {
    let interval = interval(config, source);
    // The interval of what is no camera does not follow the load.
    let can_skip =
        interval.can_skip() && (source.uri.is_live() || !matches!(interval, Interval::Adaptive));
    let (asking, taking, shelf) = (Arc::clone(lanes), Arc::clone(lanes), shelf.cloned());
    can_skip.then(|| Skipping {
        skips: Arc::new(move |id| asking.skips(id)),
        carry: Arc::new(move |meta, picture| {
            let view = picture.zip(shelf.as_ref());
            taking.carry(meta, view.and_then(|(picture, shelf)| shelf.keep(picture)));
        }),
        view,
    })
}

/// Frames that may wait for one that goes through the network, of all sources together.
pub(super) fn most_carried(config: &Config) -> usize {
    let of_source = |source| match interval(config, source) {
        Interval::Frames(frames) => frames,
        Interval::Adaptive => config.detector.max_interval,
    };
    config
        .sources
        .iter()
        .map(|source| of_source(source) as usize)
        .sum()
}

/// How often frames of one source skip the network.
pub(super) fn interval(config: &Config, source: &SourceConfig) -> Interval {
    source.interval.unwrap_or(config.detector.interval)
}
