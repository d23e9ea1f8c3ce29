//! `tracker`, some of whose defaults depend on its type.

use super::super::map::Map;
use super::super::{Association, ClassMatch, LowScores, TrackerConfig, TrackerKind};

/// `tracker`.
pub(super) fn tracker(map: &Map<'_>) -> Option<TrackerConfig> {
    let kind = map.choice(
        "type",
        &[TrackerKind::Iou, TrackerKind::Sort, TrackerKind::ByteTrack],
    );
    // With a type that is none, the other keys are still checked.
    let usual = TrackerConfig::new(kind.unwrap_or(TrackerKind::Iou));
    let association = or(map, "association", usual.association, |name| {
        map.choice(name, &[Association::Greedy, Association::Optimal])
    });
    let min_iou = or(map, "min_iou", usual.min_iou, |name| map.number(name));
    let probation_frames = map.integer("probation_frames");
    let max_lost_frames = or(map, "max_lost_frames", usual.max_lost_frames, |name| {
        map.integer(name)
    });
    let reassociate_frames = map.integer("reassociate_frames");
    let class_match = map.choice("class_match", &[ClassMatch::Same, ClassMatch::Any]);
    let min_new_track_score = or(
        map,
        "min_new_track_score",
        usual.min_new_track_score,
        |name| map.number(name),
    );
    let low_scores = low_scores(map);
    Some(TrackerConfig {
        kind: kind?,
        association: association?,
        min_iou: min_iou?,
        probation_frames: probation_frames?,
        max_lost_frames: max_lost_frames?,
        reassociate_frames: reassociate_frames?,
        class_match: class_match?,
        min_new_track_score: min_new_track_score?,
        low_scores: low_scores?,
    })
}

/// The keys of ByteTrack's second stage. With another type they are accepted and unused, so that the type can be changed
/// in one line.
fn low_scores(map: &Map<'_>) -> Option<LowScores> {
    let min_score = map.number("min_score");
    let tentative_score = map.number("tentative_score");
    let tentative_min_iou = map.number("tentative_min_iou");
    if let (Some(least), Some(weak)) = (min_score, tentative_score)
        && least > weak
    {
        let name = if map.has("min_score") {
            "min_score"
        } else {
            "tentative_score"
        };
        map.unfit(
            name,
            &format!("min_score is {least} and tentative_score {weak}, expected min_score to be no higher"),
            None,
        );
    }
    Some(LowScores {
        min_score: min_score?,
        tentative_score: tentative_score?,
        tentative_min_iou: tentative_min_iou?,
    })
}

/// The key's value, or `usual` when it is not given.
fn or<T>(map: &Map<'_>, name: &str, usual: T, read: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    if map.has(name) {
        read(name)
    } else {
        Some(usual)
    }
}
