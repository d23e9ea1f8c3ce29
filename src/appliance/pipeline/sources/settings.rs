// SPDX-License-Identifier: Apache-2.0
//! What follows from the configuration of a source: its tracker, whether its frames may skip the network, and what sinks know of it. Pure.

use jetwatch_config::{Config, Interval, SourceConfig};
use jetwatch_detect::{ClassFilter, DetectError};
use jetwatch_publish::SourceInfo;
use jetwatch_track::Tracker;
use jetwatch_types::Classes;

/// What sinks know of a source.
///
/// # Errors
/// A label that the model does not have.
pub(crate) fn source_info(
    config: &Config,
    source: &SourceConfig,
    classes: &Classes,
) -> Result<SourceInfo, DetectError> {
    let filters = [&config.detector.classes, &source.classes];
    let mut labels: Vec<(u16, &String)> = (0..).zip(classes.labels()).collect();
    for wanted in filters {
        let filter = ClassFilter::with_groups(classes, wanted)?;
        labels.retain(|(class, _)| filter.accepts(*class));
    }
    Ok(SourceInfo {
        name: source.name.clone(),
        labels: labels.into_iter().map(|(_, label)| label.clone()).collect(),
        has_chosen_labels: filters.iter().any(|wanted| !wanted.is_empty()),
        rules: source.rules.clone(),
        has_schedule: source.schedule.is_some(),
        has_pictures: config.record.snapshots.mqtt && config.record.has_snapshots(source),
    })
}

/// The tracker of one source; it predicts tracks where frames skip the network.
pub(crate) fn tracker(config: &Config, source: &SourceConfig) -> Tracker {
    if config.detector.interval_of(source).can_skip() {
        Tracker::with_coasting(&config.tracker)
    } else {
        Tracker::new(&config.tracker)
    }
}

/// Whether frames of this source may skip the network.
pub(crate) fn can_skip(config: &Config, source: &SourceConfig) -> bool {
    let interval = config.detector.interval_of(source);
    // Only the adaptive interval of a live source follows the load.
    interval.can_skip() && (source.is_live() || !matches!(interval, Interval::Adaptive))
}

/// Whether detection may be switched off while the daemon runs.
pub(crate) fn can_be_switched(config: &Config) -> bool {
    config.commands.enabled && config.publish.mqtt.is_some()
}
