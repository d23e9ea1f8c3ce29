//! `tune`: which of its values this machine has is known only there, and is looked at by `jetwatch tune`.

use super::super::map::Map;
use super::super::{ClockTuning, TuneConfig};

/// `tune`.
pub(super) fn tune(map: &Map<'_>) -> Option<TuneConfig> {
    let power_mode = map.text("power_mode");
    let clocks = map.choice("clocks", &[ClockTuning::Leave, ClockTuning::Max]);
    let fan_profile = map.text("fan_profile");
    let perf_event_paranoid = map.integer("perf_event_paranoid");
    let restore_on_stop = map.boolean("restore_on_stop");
    Some(TuneConfig {
        power_mode,
        clocks: clocks?,
        fan_profile,
        perf_event_paranoid,
        restore_on_stop: restore_on_stop?,
    })
}
