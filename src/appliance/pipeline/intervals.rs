//! What the configuration says of frames that skip the network, handed to the lanes and to the trackers.

use std::sync::Arc;

use crossbeam_channel::Sender;

use jetwatch_config::{Config, Interval, SourceConfig};
use jetwatch_record::ImageBudget;
use jetwatch_source::{FullImage, SkipPolicy};
use jetwatch_track::Tracker;

use super::batcher::Batcher;
use super::track::TrackMessage;

/// The lanes, which let frames skip the network where a source asks for it; `messages` hears of them.
pub(super) fn with_intervals(
    lanes: Batcher,
    config: &Config,
    messages: Sender<TrackMessage>,
) -> Batcher {
    let on_skipped = move |ticket, (meta, full_image)| {
        // A follower that is gone wants nothing more.
        let _ = messages.send(TrackMessage::Skipped {
            order: ticket,
            meta,
            full_image,
        });
    };
    let detector = &config.detector;
    lanes.with_intervals(
        &[],
        detector.max_interval,
        detector.workers,
        Box::new(on_skipped),
    )
}

/// The tracker of one source, which predicts where frames skip the network.
pub(super) fn tracker(config: &Config, source: &SourceConfig) -> Tracker {
    if interval(config, source).can_skip() {
        Tracker::with_coasting(&config.tracker)
    } else {
        Tracker::new(&config.tracker)
    }
}

/// What becomes of the frames of `on_source_state`; `None` where each of them goes through the network. `full_image` is
/// the picture that those have which skip it, which goes to the `image_budget`.
pub(super) fn skip_policy(
    config: &Config,
    source: &SourceConfig,
    lanes: &Arc<Batcher>,
    view: FullImage,
    shelf: Option<&ImageBudget>,
) -> Option<SkipPolicy> {
    let interval = interval(config, source);
    // The interval of what is no camera does not follow the load.
    let can_skip =
        interval.can_skip() && (source.uri.is_live() || !matches!(interval, Interval::Adaptive));
    let (asking, taking, shelf) = (Arc::clone(lanes), Arc::clone(lanes), shelf.cloned());
    can_skip.then(|| SkipPolicy {
        should_skip: Arc::new(move |id| asking.should_skip(id)),
        on_skipped: Arc::new(move |meta, image| {
            let full_image = image.zip(shelf.as_ref());
            taking.push_skipped(
                meta,
                full_image.and_then(|(picture, shelf)| shelf.try_acquire(picture)),
            );
        }),
        full_image: view,
    })
}

/// Frames that may wait for one that goes through the network, of all sources together.
pub(super) fn max_skipped(config: &Config) -> usize {
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
