// SPDX-License-Identifier: Apache-2.0
//! Whether frames of a source may skip the network, by its configuration. Pure.

use jetwatch_config::{Config, Interval, SourceConfig};

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
